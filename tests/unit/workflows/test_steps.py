"""What each kind of step does, and how it fails."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from blockbuster import blockbuster_ctx

from indusagi_lsp.conductor import Agent, AgentConfig, AgentDeps, create_agent
from indusagi_lsp.workflows import ExecutionView, StepContext
from support.scripted import Reply, ScriptedFailure, ScriptedModel
from unit.workflows.rig import Rig, file_rig, workflow


@pytest.fixture(autouse=True)
def _nothing_blocks() -> Iterator[None]:
    """Code of ours that blocks the event loop fails the test."""
    with blockbuster_ctx("indusagi_lsp.workflows"):
        yield


@pytest.fixture
def rig(tmp_path: Path) -> Rig:
    return file_rig(tmp_path)


async def one(rig: Rig, functions: str, **more: Any) -> ExecutionView:
    flow = workflow({"a": {"callable": "f", **more}}, functions=functions, inputs={"x": 1})
    return await rig.executor.run(flow, execution_id="e1")


async def test_a_function_gets_inputs_and_results_and_gives_json(rig: Rig) -> None:
    text = (
        "def first(context):\n    return {'n': context.inputs['x'] + 1, 'list': (1, None)}\n"
        "def second(context):\n    return context.results['first']['output']['n'] * 10\n"
    )
    flow = workflow(
        {"first": {"callable": "first"}, "second": {"callable": "second", "needs": ["first"]}},
        functions=text,
        inputs={"x": 1},
    )
    view = await rig.executor.run(flow)
    assert view.state == "done"
    assert (view.results["first"].output, view.results["second"].output) == ({"n": 2, "list": [1, None]}, 20)


async def test_the_file_is_run_once_an_execution_and_off_the_loop(rig: Rig) -> None:
    flow = workflow(
        {"a": {"callable": "f"}, "b": {"callable": "f", "needs": ["a"]}},
        functions="import threading\ncounter = []\nwhere = threading.current_thread()\n"
        "def f(context):\n    counter.append(1)\n    return [len(counter), where is threading.main_thread()]\n",
    )
    view = await rig.executor.run(flow)
    assert [view.results[step].output for step in "ab"] == [[1, False], [2, False]]
    assert (await rig.executor.run(flow)).results["a"].output == [1, False]


@pytest.mark.parametrize(
    ("body", "error"),
    [
        ("raise ValueError('no luck')", "ValueError: no luck"),
        ("raise SystemExit(3)", "RuntimeError: SystemExit: 3"),
        ("raise StopIteration", "RuntimeError: StopIteration: "),
        ("raise TimeoutError('slow')", "TimeoutError: slow"),
        ("return object()", "The function returned what is no JSON data: "),
        ("return 'x' * 300_000", "The function returned 300,002 bytes; keep large things in files."),
    ],
)
async def test_a_function_that_fails(rig: Rig, body: str, error: str) -> None:
    view = await one(rig, f"def f(context):\n    {body}\n")
    assert (view.state, view.results["a"].status, view.unknown) == ("failed", "failed", ())
    assert (view.results["a"].error or "").startswith(error)


async def test_a_file_that_raises(rig: Rig) -> None:
    view = await one(rig, "def f(context): pass\nraise RuntimeError('not today')")
    assert "flow.py: it raised RuntimeError: not today." in view.error


async def test_a_function_that_takes_too_long_is_told_and_not_waited_for(rig: Rig) -> None:
    rig.decision = "deny"
    started = time.monotonic()
    text = "import time\ndef f(context):\n    while not context.cancelled: time.sleep(0.01)\n"
    view = await one(rig, text, seconds=0.2, retry={"attempts": 3})
    assert time.monotonic() - started < 5
    result = view.results["a"]
    assert (result.error, result.unknown, result.attempts, view.unknown) == (
        "It took more than 0.2 s.",
        True,
        1,
        ("a",),
    )
    time.sleep(0.1)
    assert not [thread for thread in threading.enumerate() if thread.name == "workflow flow"]


async def test_secrets_are_not_kept(rig: Rig) -> None:
    key = "sk-" + "a1B2" * 8
    view = await one(rig, f"def f(context):\n    return {{'said': {key!r}, 'url': 'http://x', 'b': 'foo@bar'}}\n")
    assert view.state == "done"
    checkpoint = rig.manager.load_checkpoint("e1")
    assert checkpoint is not None
    assert checkpoint.context_state["values"]["results"]["a"]["output"] == {
        "said": "[redacted: api key]", "url": "http://x", "b": "foo@bar",
    }  # fmt: skip


# --- prompts ----------------------------------------------------------------------------------------------------------


def agents(*replies: Reply) -> Any:
    model = ScriptedModel(replies)
    opened: list[tuple[str | None, str | None, str]] = []

    async def open_agent(session: str | None, name: str | None, title: str) -> Agent:
        opened.append((session, name, title))
        return create_agent(AgentConfig(model="scripted"), AgentDeps(invoke_model=model))

    open_agent.opened = opened  # type: ignore[attr-defined]  # for the test to look at
    return open_agent


async def test_a_prompt_is_answered_by_an_agent(tmp_path: Path) -> None:
    opener = agents(Reply(text="an answer"))
    rig = file_rig(tmp_path, opener)
    view = await rig.executor.run(
        workflow({"a": {"prompt": "Say {{ x }}", "model": "m", "title": "Saying"}}, inputs={"x": "hello"})
    )
    result = view.results["a"]
    assert (result.output, result.status) == ("an answer", "ok")
    assert result.session
    assert opener.opened == [(None, "m", "Saying")]


async def test_a_prompt_whose_run_faults_is_tried_again(tmp_path: Path) -> None:

    rig = file_rig(tmp_path, agents(Reply(error=ScriptedFailure(message="Overloaded")), Reply(text="better")))
    view = await rig.executor.run(workflow({"a": {"prompt": "x", "retry": {"attempts": 2}}}))
    assert (view.results["a"].output, view.results["a"].attempts) == ("better", 2)
    assert "Overloaded" in next(told.text for told in rig.progress if told.kind == "step_retry")


async def test_a_prompt_that_takes_too_long_is_ended(tmp_path: Path) -> None:
    rig = file_rig(tmp_path, agents(Reply(text="x", wait=60)))
    view = await rig.executor.run(workflow({"a": {"prompt": "x", "seconds": 0.1}}))
    assert (view.state, view.unknown, view.results["a"].error) == ("failed", ("a",), "It took more than 0.1 s.")


def test_what_a_function_says_after_its_end_is_not_shown() -> None:
    shown: list[str] = []
    context = StepContext({}, {}, shown.append)
    context.progress("half")
    context.cancel()
    context.progress("late")
    assert shown == ["half"]

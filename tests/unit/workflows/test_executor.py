"""The order of steps, what skips them, what ends an execution, and what it goes on from."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from indusagi_lsp.contract.errors import InvalidInput, InvalidState, PersistenceFault
from indusagi_lsp.contract.tools import Effect
from indusagi_lsp.memory import FileMemoryStore, MemoryStore, SqliteMemoryStore
from indusagi_lsp.workflows import Workflow
from unit.workflows.rig import Rig, Say, tool, workflow


@pytest.fixture(params=["files", "sqlite"])
def rig(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    store: MemoryStore = (
        FileMemoryStore(tmp_path / "store") if request.param == "files" else SqliteMemoryStore(tmp_path / "store.db")
    )
    yield Rig(store)
    store.close()


DIAMOND = {
    "last": tool("last", needs=["left", "right"]),
    "left": tool("left", needs=["first"]),
    "right": tool("right", needs=["first"]),
    "first": tool("first"),
}


async def test_steps_run_in_the_order_of_their_needs(rig: Rig) -> None:
    view = await rig.executor.run(workflow(DIAMOND), execution_id="e1")
    said = [one["text"] for one in rig.say.said]
    assert (said[0], set(said[1:3]), said[3]) == ("first", {"left", "right"}, "last")
    assert (view.state, view.total, set(view.completed)) == ("done", 4, set(DIAMOND))
    assert view.results["last"].output == "said last"
    kinds = rig.kinds()
    assert (kinds[0], kinds[-1]) == (("started", None), ("finished", None))
    assert kinds.count(("step_finished", "left")) == 1
    assert rig.progress[-1].completed == 4
    assert len(rig.questions) == 4


async def test_branches_run_at_the_same_time_up_to_the_limit(rig: Rig) -> None:
    going = most = 0

    class Counting(Say):
        async def run(self, arguments: Any, context: Any) -> Any:
            nonlocal going, most
            going += 1
            most = max(most, going)
            await asyncio.sleep(0.05)
            going -= 1
            return await super().run(arguments, context)

    rig.tools["say"] = Counting(effects=frozenset({Effect.READ}))
    await rig.executor.run(workflow({f"s{n}": tool() for n in range(6)}, max_parallel=3))
    assert most == 3


@pytest.mark.parametrize(("skip", "said"), [(False, ["build", "ship"]), (True, ["build", "stay"])])
async def test_conditions_choose_a_branch(rig: Rig, *, skip: bool, said: list[str]) -> None:
    steps = {
        "build": tool("build"),
        "ship": tool("ship", needs=["build"], when="build.ok and not skip"),
        "stay": tool("stay", needs=["build"], when="skip"),
        "after": tool("after", needs=["ship", "stay"]),
    }
    view = await rig.executor.run(workflow(steps, inputs={"skip": False}), {"skip": skip})
    assert [one["text"] for one in rig.say.said] == said
    assert view.results["after"].status == "skipped"
    assert view.state == "done"


async def test_a_failure_ends_the_execution_and_is_tried_anew_on_resume(rig: Rig) -> None:
    rig.say.failures = 1
    flow = workflow({"a": tool("a"), "b": tool("b", needs=["a"])})
    view = await rig.executor.run(flow, execution_id="e1")
    assert (view.state, view.completed, view.error) == ("failed", (), "a: it failed")
    assert "b" not in view.results

    rig.again()
    view = await rig.resume(flow, "e1")
    assert (view.state, view.completed) == ("done", ("a", "b"))
    assert [one["text"] for one in rig.say.said] == ["a", "a", "b"]
    with pytest.raises(InvalidState):
        await rig.resume(flow, "e1")


async def test_a_failure_may_be_left_to_the_conditions_of_others(rig: Rig) -> None:
    rig.say.failures = 1
    steps = {
        "tests": tool("tests", on_error="continue"),
        "report": tool("report: {{ tests.error }}", needs=["tests"], when="not tests.ok"),
        "ship": tool("ship", needs=["tests"]),
    }
    view = await rig.executor.run(workflow(steps))
    assert [one["text"] for one in rig.say.said] == ["tests", "report: it failed"]
    assert (view.state, view.results["ship"].status) == ("done", "skipped")


async def test_a_gate_asks_and_a_no_ends_it(rig: Rig) -> None:
    flow = workflow(
        {
            "build": tool("v1"),
            "go": {"approve": "Ship {{ build.output }}?", "needs": ["build"]},
            "ship": tool("ship", needs=["go"]),
        }
    )
    rig.say.effects = frozenset({Effect.READ})
    rig.decision = "deny"
    view = await rig.executor.run(flow, execution_id="e1")
    assert (view.state, view.error) == ("failed", "go: It was not allowed.")
    question = rig.questions[-1]
    assert (question.action, question.options, question.afresh, question.call_id) == (
        "Ship said v1?", ("once", "deny"), True, "go",
    )  # fmt: skip

    rig.decision = "once"
    view = await rig.resume(flow, "e1")
    assert view.state == "done"
    assert [one["text"] for one in rig.say.said] == ["v1", "ship"]


async def test_what_a_tool_may_not_do_is_not_done(rig: Rig) -> None:
    rig.decision = "deny"
    view = await rig.executor.run(workflow({"a": tool()}))
    assert view.state == "failed"
    assert rig.say.said == []


async def test_retry_waits_longer_each_time(rig: Rig) -> None:
    rig.say.failures = 3
    view = await rig.executor.run(workflow({"a": tool(retry={"attempts": 5, "base": 2.0, "cap": 5.0})}))
    assert (view.state, view.results["a"].attempts) == ("done", 4)
    assert rig.slept == [2.0, 4.0, 5.0]
    told = next(one.text for one in rig.progress if one.kind == "step_retry")
    assert told.startswith("Attempt 1 failed; again in 2.0 s")


async def test_retry_ends(rig: Rig) -> None:
    rig.say.failures = 9
    view = await rig.executor.run(workflow({"a": tool(retry={"attempts": 3})}))
    assert (view.state, view.results["a"].attempts, len(rig.say.said)) == ("failed", 3, 3)


async def test_an_open_breaker_keeps_a_step_from_being_tried(rig: Rig) -> None:
    rig.say.failures = 2
    breaker = {"name": "service", "failures": 2, "rest": 20.0}
    steps = {
        "a": tool("a", breaker=breaker, on_error="continue"),
        "b": tool("b", breaker=breaker, on_error="continue", needs=["a"], when="true"),
        "c": tool("c", breaker=breaker, on_error="continue", needs=["b"], when="true"),
    }
    flow = workflow(steps)
    view = await rig.executor.run(flow)
    assert [one["text"] for one in rig.say.said] == ["a", "b"]
    assert "left alone for 20 s" in (view.results["c"].error or "")

    # A step with patience waits until a probe is let through, which closes the circuit.
    steps["c"]["retry"] = {"attempts": 2}
    rig.say.failures = 0
    view = await rig.executor.run(workflow({"c": {**steps["c"], "needs": []}}))
    assert (view.results["c"].status, view.results["c"].attempts) == ("ok", 2)
    assert rig.slept[-1] >= 20


async def test_a_tool_that_takes_too_long_is_of_unknown_outcome(rig: Rig) -> None:
    rig.say.seconds = 30

    class Late(Say):
        async def run(self, arguments: Any, context: Any) -> Any:
            rig.clock.seconds += 1
            return await super().run(arguments, context)

    rig.tools["say"] = late = Late()
    late.seconds = 30
    view = await rig.executor.run(workflow({"a": tool(seconds=0.05, retry={"attempts": 3})}), execution_id="e1")
    assert (view.state, view.unknown, view.results["a"].attempts) == ("failed", ("a",), 1)
    assert view.results["a"].unknown

    # It is asked about before it is repeated; a no leaves it as it is.
    rig.questions.clear()
    rig.decision = "deny"
    view = await rig.resume(workflow({"a": tool(seconds=0.05)}), "e1")
    assert "Do it again?" in rig.questions[0].action
    assert (view.state, view.unknown) == ("waiting", ("a",))
    # And a person may know that it did its work.
    view = await rig.resume(workflow({"a": tool(seconds=0.05)}), "e1", done=["a"])
    assert (view.state, view.completed, late.said) == ("done", ("a",), [])


async def test_an_idempotent_step_that_takes_too_long_is_tried_again(rig: Rig) -> None:
    rig.say.seconds = 30
    flow = workflow({"a": tool(seconds=0.05, idempotent=True, retry={"attempts": 2})})
    view = await rig.executor.run(flow)
    assert (view.state, view.unknown, view.results["a"].attempts) == ("failed", (), 2)


async def test_cancelling_leaves_what_was_done(rig: Rig) -> None:
    flow = workflow({"a": tool("a"), "b": tool("b", needs=["a"])})
    slow = Say(effects=frozenset({Effect.EXECUTE}))

    class Stuck(Say):
        async def run(self, arguments: Any, context: Any) -> Any:
            if arguments["text"] == "b":
                stuck.set()
                await asyncio.sleep(60)
            return await slow.run(arguments, context)

    stuck = asyncio.Event()
    rig.tools["say"] = Stuck()
    task = asyncio.create_task(rig.executor.run(flow, execution_id="e1"))
    await stuck.wait()
    assert rig.executor.running["e1"].current == "b"
    with pytest.raises(InvalidState):
        await rig.resume(flow, "e1")
    assert rig.executor.cancel("e1")
    view = await task
    assert (view.state, view.completed, view.unknown) == ("cancelled", ("a",), ("b",))
    assert not rig.executor.cancel("e1")
    assert rig.executor.running == {}

    rig.tools["say"] = slow
    view = await rig.resume(flow, "e1")
    assert (view.state, [one["text"] for one in slow.said]) == ("done", ["a", "b"])
    assert "Do it again?" in rig.questions[-2].action


async def test_a_caller_that_goes_away_interrupts(rig: Rig) -> None:
    rig.say.seconds = 60
    task = asyncio.create_task(rig.executor.run(workflow({"a": tool()}), execution_id="e1"))
    await rig.until("step_started")
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    checkpoint = rig.manager.load_checkpoint("e1")
    assert checkpoint is not None
    assert checkpoint.context_state["metadata"]["state"] == "interrupted"
    assert list(checkpoint.context_state["metadata"]["begun"]) == ["a"]


async def test_completed_steps_must_be_as_they_were(rig: Rig) -> None:
    def flow(first: str, second: str) -> Workflow:
        return workflow({"a": tool(first), "b": tool(second, needs=["a"])})

    rig.decision = "deny"
    rig.tools["say"] = rig.say = Say(effects=frozenset({Effect.READ}))
    rig.say.failures = 0
    broken = workflow({"a": tool("one"), "b": {"tool": "gone", "needs": ["a"]}})
    assert (await rig.executor.run(broken, execution_id="e1")).state == "failed"
    with pytest.raises(InvalidInput, match=r'flow\.toml, step "a": it was completed, and has changed since'):
        await rig.resume(flow("other", "two"), "e1")
    with pytest.raises(InvalidInput, match="is not there any more"):
        await rig.resume(workflow({"b": tool("two")}), "e1")
    assert (await rig.resume(flow("one", "two"), "e1")).state == "done"
    assert [one["text"] for one in rig.say.said] == ["one", "two"]


async def test_inputs_are_checked(rig: Rig) -> None:
    flow = workflow({"a": tool("{{ name }} {{ inputs.count }}")}, inputs={"name": "x", "count": 1})
    with pytest.raises(InvalidInput, match="no input 'nane'"):
        await rig.executor.run(flow, {"nane": "y"})
    with pytest.raises(InvalidInput, match="'count' of the workflow flow is a number"):
        await rig.executor.run(flow, {"count": "3"})
    await rig.executor.run(flow, {"name": "y", "count": 2.5}, execution_id="e1")
    assert rig.say.said == [{"text": "y 2.5"}]
    with pytest.raises(InvalidInput, match="There is an execution e1 already"):
        await rig.executor.run(flow, execution_id="e1")


async def test_a_value_keeps_its_type_in_a_tools_input(rig: Rig) -> None:
    flow = workflow(
        {"a": {"tool": "say", "input": {"text": ["{{ items }}", "{{ items }}!"]}}}, inputs={"items": [1, "b"]}
    )
    await rig.executor.run(flow)
    assert rig.say.said == [{"text": [[1, "b"], '[1,"b"]!']}]


async def test_a_disk_that_refuses_ends_it_before_the_step(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    saves = 0
    save = rig.manager.save_checkpoint

    def full(*arguments: Any, **more: Any) -> None:
        nonlocal saves
        saves += 1
        if saves > 1:
            raise PersistenceFault("The disk is full.")
        save(*arguments, **more)

    monkeypatch.setattr(rig.manager, "save_checkpoint", full)
    with pytest.raises(PersistenceFault):
        await rig.executor.run(workflow({"a": tool()}))
    assert rig.say.said == []
    assert rig.progress[-1].status == "failed"

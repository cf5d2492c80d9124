"""Runs: one terminal event each, nothing lost, and a history that a provider would accept."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from indusagi_lsp.conductor import AgentConfig, AgentDeps, create_agent
from indusagi_lsp.contract.approvals import ApprovalRequest, Decision
from indusagi_lsp.contract.errors import InvalidInput, ModelError, PersistenceFault, ToolFailed
from indusagi_lsp.contract.models import ModelCard, ModelDone, ModelPart, ModelRequest, Usage
from indusagi_lsp.contract.tools import Effect, PlannedCall, ToolContext, ToolOutcome
from indusagi_lsp.contract.turns import ImageBlock, TextBlock, ToolCallBlock, Turn, unanswered_calls, user
from indusagi_lsp.sessions import Node, SessionStore
from support.scripted import Reply, ScriptedModel, call
from unit.conductor.rig import EchoTool, Rig

TERMINAL = {"settled", "faulted"}


async def test_a_prompt_is_answered() -> None:
    rig = Rig(ScriptedModel([Reply("Hello there.", usage=Usage(10, 3))]))
    final = await rig.agent.submit("hi", run_id="r1")

    assert (final.phase, final.run_id, final.error) == ("settled", "r1", None)
    assert [(turn.role, turn.text) for turn in final.messages] == [
        ("user", "hi"),
        ("assistant", "Hello there."),
    ]
    assert "".join(event.delta for event in rig.of("text_delta")) == "Hello there."
    assert rig.kinds[0] == "run_started"
    assert [kind for kind in rig.kinds if kind in TERMINAL] == ["settled"]
    assert rig.kinds[-1] == "settled"
    assert final.usage.input == 10


async def test_the_model_is_asked_with_the_whole_history() -> None:
    rig = Rig(ScriptedModel(["one", "two"]), system="Be brief.")
    await rig.agent.submit("first")
    await rig.agent.submit("second")

    assert rig.model.last.system == "Be brief."
    assert [turn.text for turn in rig.model.last.turns] == ["first", "one", "second"]


@pytest.mark.parametrize("prompt", ["", "   \n", [], Turn("user", ())])
async def test_an_empty_prompt_is_refused(prompt: Any) -> None:
    rig = Rig(ScriptedModel(["never"]))
    with pytest.raises(InvalidInput, match="empty"):
        await rig.agent.submit(prompt)
    assert rig.model.requests == []


async def test_a_prompt_may_be_turns_in_the_session_format() -> None:
    rig = Rig(ScriptedModel(["ok"]))
    await rig.agent.submit([{"role": "user", "blocks": [{"kind": "text", "text": "hi"}]}])
    assert rig.model.last.turns == (user("hi"),)


async def test_a_turn_that_is_none_is_refused_with_words() -> None:
    rig = Rig(ScriptedModel(["ok"]))
    with pytest.raises(InvalidInput, match="role"):
        await rig.agent.submit([{"blocks": []}])


async def test_tools_run_and_their_results_go_back() -> None:
    tool = EchoTool()
    rig = Rig(
        ScriptedModel([Reply("Looking.", calls=(call("echo", call_id="c1", text="x"),)), "Found x."]),
        tools=(tool,),
    )
    final = await rig.agent.submit("look")

    assert tool.runs == [{"text": "x"}]
    assert rig.model.last.turns[-1].tool_results[0].output == "x"
    assert final.messages[-1].text == "Found x."
    lifecycle = [event for event in rig.events if event.kind.startswith("tool_")]
    assert [(event.kind, event.id) for event in lifecycle] == [
        ("tool_started", "c1"),
        ("tool_called", "c1"),
        ("tool_finished", "c1"),
    ]
    assert not unanswered_calls(final.messages)


async def test_reading_tools_run_together_and_others_in_order() -> None:
    running: list[str] = []
    most: list[int] = []

    async def body(arguments: Mapping[str, Any], _: ToolContext) -> ToolOutcome:
        running.append(arguments["text"])
        await asyncio.sleep(0.01)
        most.append(len(running))
        running.remove(arguments["text"])
        return ToolOutcome("ok")

    async def allow(_: ApprovalRequest) -> Decision:
        return "once"

    reads = EchoTool("read", body=body)
    writes = EchoTool("write", frozenset({Effect.WRITE}), body)
    calls = tuple(call(name, text=str(at)) for at, name in enumerate(["read", "read", "read", "write", "write"]))
    rig = Rig(ScriptedModel([Reply(calls=calls), "done"]), tools=(reads, writes), approver=allow)
    await rig.agent.submit("go")

    assert max(most[:3]) == 3
    assert most[3:] == [1, 1]


async def test_an_unknown_tool_is_a_result_that_names_the_tools() -> None:
    rig = Rig(ScriptedModel([Reply(calls=(call("nope"),)), "sorry"]), tools=(EchoTool(),))
    final = await rig.agent.submit("go")
    result = rig.model.last.turns[-1].tool_results[0]

    assert final.phase == "settled"
    assert result.is_error
    assert "echo" in result.output


async def test_arguments_that_are_no_object_are_not_executed() -> None:
    tool = EchoTool()
    model = ScriptedModel()
    answers = [
        Turn("assistant", (ToolCallBlock("c", "echo", '{"text": "cut o'),)),
        Turn("assistant", (TextBlock("sorry"),)),
    ]

    async def invoke(_: ModelRequest) -> AsyncIterator[ModelPart]:
        yield ModelDone(answers.pop(0), "stop")

    agent = create_agent(
        AgentConfig(model="scripted:test", tools=(tool,)), AgentDeps(invoke_model=invoke, catalogue=model)
    )
    final = await agent.submit("go")

    assert tool.runs == []
    result = final.messages[-2].tool_results[0]
    assert result.is_error
    assert "not a JSON object" in result.output
    assert final.phase == "settled"


async def test_duplicate_call_ids_are_given_new_ones() -> None:
    calls = (call("echo", call_id="same", text="1"), call("echo", call_id="same", text="2"))
    rig = Rig(ScriptedModel([Reply(calls=calls), "done"]), tools=(EchoTool(),))
    final = await rig.agent.submit("go")
    asked = [block.id for turn in final.messages for block in turn.tool_calls]
    answered = sorted(block.call_id for turn in final.messages for block in turn.tool_results)

    assert len(set(asked)) == 2
    assert sorted(asked) == answered


async def test_a_tool_that_raises_is_a_result_and_the_run_goes_on() -> None:
    async def body(_: Mapping[str, Any], __: ToolContext) -> ToolOutcome:
        message = "secret path"
        raise RuntimeError(message)

    rig = Rig(ScriptedModel([Reply(calls=(call("echo"),)), "done"]), tools=(EchoTool(body=body),))
    final = await rig.agent.submit("go")
    result = rig.model.last.turns[-1].tool_results[0]

    assert final.phase == "settled"
    assert result.is_error
    assert "secret" not in result.output


async def test_a_tool_has_a_time_limit() -> None:
    async def body(_: Mapping[str, Any], __: ToolContext) -> ToolOutcome:
        await asyncio.sleep(30)
        return ToolOutcome("never")

    rig = Rig(ScriptedModel([Reply(calls=(call("echo"),)), "done"]), tools=(EchoTool(body=body),), tool_seconds=0.02)
    await rig.agent.submit("go")
    assert "ended after" in rig.model.last.turns[-1].tool_results[0].output


async def test_a_time_out_of_the_tools_own_is_not_told_as_the_limit(caplog: pytest.LogCaptureFixture) -> None:
    async def body(_: Mapping[str, Any], __: ToolContext) -> ToolOutcome:
        raise TimeoutError("no answer from the socket")

    rig = Rig(ScriptedModel([Reply(calls=(call("echo"),)), "done"]), tools=(EchoTool(body=body),))
    await rig.agent.submit("go")
    output = rig.model.last.turns[-1].tool_results[0].output
    assert "ended after" not in output
    assert "fault of its own" in output
    assert "no answer from the socket" in caplog.text


async def test_without_an_approver_what_changes_something_is_denied() -> None:
    tool = EchoTool("write", frozenset({Effect.WRITE}))
    rig = Rig(ScriptedModel([Reply(calls=(call("write"),)), "ok"]), tools=(tool,))
    await rig.agent.submit("go")

    assert tool.runs == []
    assert "did not allow" in rig.model.last.turns[-1].tool_results[0].output
    assert rig.of("approval_resolved")[0].decision == "deny"


async def test_an_approver_that_fails_denies() -> None:
    async def fails(_: ApprovalRequest) -> Decision:
        message = "gone"
        raise ConnectionError(message)

    tool = EchoTool("write", frozenset({Effect.WRITE}))
    rig = Rig(ScriptedModel([Reply(calls=(call("write"),)), "ok"]), tools=(tool,), approver=fails)
    await rig.agent.submit("go")
    assert tool.runs == []


async def test_a_permission_for_the_session_covers_the_same_bytes_only() -> None:
    asked: list[str] = []

    async def session(request: ApprovalRequest) -> Decision:
        asked.append(request.action)
        return "session"

    tool = EchoTool("write", frozenset({Effect.WRITE}))
    calls = [Reply(calls=(call("write", text=text),)) for text in ("a", "a", "b")]
    rig = Rig(ScriptedModel([*calls, "done"]), tools=(tool,), approver=session)
    await rig.agent.submit("go")

    assert len(tool.runs) == 3
    assert len(asked) == 2


async def test_a_permission_for_the_session_is_of_one_tool_alone() -> None:
    """Two tools may mean different things by the same bytes."""

    class Shown(EchoTool):
        async def plan(self, arguments: Mapping[str, Any], context: ToolContext) -> PlannedCall:
            return PlannedCall("the same words", lambda: self.run(arguments, context))

    asked: list[str] = []

    async def session(request: ApprovalRequest) -> Decision:
        asked.append(request.tool)
        return "session"

    tools = [Shown(name, frozenset({Effect.EXECUTE})) for name in ("one", "other")]
    calls = [Reply(calls=(call(name),)) for name in ("one", "one", "other")]
    rig = Rig(ScriptedModel([*calls, "done"]), tools=tuple(tools), approver=session)
    await rig.agent.submit("go")

    assert [len(tool.runs) for tool in tools] == [2, 1]
    assert asked == ["one", "other"]


async def test_the_run_ends_when_the_model_never_does() -> None:
    rig = Rig(ScriptedModel([Reply(calls=(call("echo"),))], loop=True), tools=(EchoTool(),), max_turns=3)
    final = await rig.agent.submit("go")

    assert final.phase == "faulted"
    assert final.error is not None
    assert final.error.kind == "turn_budget"
    assert len(rig.model.requests) == 3
    assert not unanswered_calls(final.messages)


async def test_a_model_error_is_a_fault_with_its_hint_and_the_prompt_is_kept() -> None:
    rig = Rig(ScriptedModel([ModelError("No key.", hint="Set one."), "better"]))
    final = await rig.agent.submit("hi")
    assert final.error is not None
    assert (final.error.kind, final.error.message, final.error.hint) == (
        "model_failed",
        "No key.",
        "Set one.",
    )
    assert [turn.text for turn in final.messages] == ["hi"]

    assert (await rig.agent.submit("again")).phase == "settled"
    assert [turn.text for turn in rig.model.last.turns] == ["hi", "again"]


async def test_a_model_that_says_nothing_is_a_fault_and_no_empty_turn_is_kept() -> None:
    rig = Rig(ScriptedModel([Reply("")]))
    final = await rig.agent.submit("hi")
    assert final.phase == "faulted"
    assert [turn.role for turn in final.messages] == ["user"]


async def test_silence_after_a_tool_ends_the_run_well() -> None:
    rig = Rig(ScriptedModel([Reply(calls=(call("echo"),)), Reply("")]), tools=(EchoTool(),))
    assert (await rig.agent.submit("hi")).phase == "settled"


async def test_what_was_said_before_an_abort_is_kept_and_marked() -> None:
    model = ScriptedModel([Reply("Half an answer", stall_after=1)])
    rig = Rig(model)
    submitted = asyncio.create_task(rig.agent.submit("hi"))
    await model.stalled.wait()
    assert await rig.agent.abort() == "streaming"
    assert await rig.agent.abort() in ("streaming", "faulted")
    final = await submitted

    assert final.error is not None
    assert final.error.kind == "aborted"
    kept = final.messages[-1]
    assert kept.role == "assistant"
    assert kept.text
    assert kept.extra["interrupted"] is True
    assert [kind for kind in rig.kinds if kind in TERMINAL] == ["faulted"]
    assert model.cancelled == 1


async def test_abort_when_idle_does_nothing() -> None:
    rig = Rig(ScriptedModel(["one"]))
    assert await rig.agent.abort() == "idle"
    assert (await rig.agent.submit("hi")).phase == "settled"


async def test_an_abort_while_a_tool_runs_leaves_no_call_without_result() -> None:
    entered = asyncio.Event()

    async def body(_: Mapping[str, Any], __: ToolContext) -> ToolOutcome:
        entered.set()
        await asyncio.sleep(30)
        return ToolOutcome("never")

    calls = (call("echo", call_id="a"), call("other", call_id="b"))
    rig = Rig(ScriptedModel([Reply(calls=calls), "never"]), tools=(EchoTool(body=body),))
    submitted = asyncio.create_task(rig.agent.submit("go"))
    await entered.wait()
    await rig.agent.abort()
    final = await submitted

    assert final.error is not None
    assert final.error.kind == "aborted"
    assert not unanswered_calls(final.messages)
    started = [event.id for event in rig.of("tool_started")]
    finished = [event.id for event in rig.of("tool_finished")]
    assert sorted(started) == sorted(finished) == ["a", "b"]
    assert (await Rig(ScriptedModel(["x"])).agent.submit("y")).phase == "settled"


def balanced(rig: Rig) -> bool:
    """Whether each call that was told to have started was told to have finished, once."""
    started, finished = ([event.id for event in rig.of(kind)] for kind in ("tool_started", "tool_finished"))
    return bool(started) and sorted(started) == sorted(finished)


@pytest.mark.parametrize("calls", [1, 2])
async def test_results_that_the_disk_refuses_are_a_fault_of_the_disk(calls: int) -> None:
    replies = ["hello", Reply(calls=tuple(call("echo", text=str(at)) for at in range(calls))), "never"]
    rig = Rig(ScriptedModel(replies), tools=(EchoTool(),))
    await rig.agent.submit("hi")
    history = rig.agent._history
    assert history is not None
    write = history.append

    async def append(turns: Sequence[Turn]) -> list[Node]:
        if turns[0].role == "tool":
            raise PersistenceFault("The disk is full.", hint="Make room.")
        return await write(turns)

    history.append = append
    final = await rig.agent.submit("go")

    assert final.error is not None
    assert (final.error.kind, final.error.message) == ("persistence", "The disk is full.")
    assert balanced(rig)


async def test_an_abort_while_the_answer_is_written_leaves_no_call_without_an_end() -> None:
    rig = Rig(ScriptedModel(["hello", Reply(calls=(call("echo", text="x"),)), "never"]), tools=(EchoTool(),))
    await rig.agent.submit("hi")
    history = rig.agent._history
    assert history is not None
    write, writing = history.append, asyncio.Event()

    async def append(turns: Sequence[Turn]) -> list[Node]:
        if turns[0].role == "assistant":
            writing.set()
            await asyncio.sleep(0.02)
        return await write(turns)

    history.append = append
    submitted = asyncio.create_task(rig.agent.submit("go"))
    await writing.wait()
    await rig.agent.abort()
    final = await submitted

    assert final.error is not None
    assert final.error.kind == "aborted"
    assert not unanswered_calls(final.messages)
    assert balanced(rig)


async def test_a_write_that_fails_while_the_run_is_stopped_is_told() -> None:
    rig = Rig(ScriptedModel(["hello", "never kept"]))
    await rig.agent.submit("hi")
    history = rig.agent._history
    assert history is not None
    writing = asyncio.Event()

    async def append(_: Sequence[Turn]) -> list[Node]:
        writing.set()
        await asyncio.sleep(0.02)
        raise PersistenceFault("The disk is full.")

    history.append = append
    submitted = asyncio.create_task(rig.agent.submit("go"))
    await writing.wait()
    await rig.agent.abort()
    final = await submitted

    assert final.error is not None
    assert final.error.kind == "persistence"


async def test_queued_prompts_run_one_after_the_other_in_order() -> None:
    model = ScriptedModel(["one", "two", "three"])
    model.gate.clear()
    rig = Rig(model)
    submitted = [asyncio.create_task(rig.agent.submit(text)) for text in ("a", "b", "c")]
    await asyncio.sleep(0.01)
    model.gate.set()
    finals = await asyncio.gather(*submitted)

    assert [final.phase for final in finals] == ["settled"] * 3
    assert [turn.text for turn in finals[-1].messages] == ["a", "one", "b", "two", "c", "three"]
    assert len(rig.of("settled")) == 3
    assert rig.agent.queued == 0


async def test_prompts_that_come_together_begin_one_session(tmp_path: Path) -> None:
    store = SessionStore(tmp_path)
    rig = Rig(ScriptedModel(["one", "two"]), store=store)
    finals = await asyncio.gather(rig.agent.submit("a"), rig.agent.submit("b"))

    assert [turn.text for turn in finals[-1].messages] == ["a", "one", "b", "two"]
    assert await store.list_sessions() == [rig.agent.session_id]
    await store.close()


async def test_a_queued_prompt_whose_run_cannot_begin_is_told_and_the_next_one_runs() -> None:
    model = ScriptedModel(["one", "three"])
    model.gate.clear()
    rig = Rig(model)
    first = asyncio.create_task(rig.agent.submit("a"))
    second = asyncio.create_task(rig.agent.submit("b"))
    third = asyncio.create_task(rig.agent.submit("c"))
    await asyncio.sleep(0.01)
    known, asked = model.card, 0

    def gone_for_b(name: str, /) -> ModelCard:
        nonlocal asked
        asked += 1
        if asked == 1:
            raise ModelError("There is no such model any more.")
        return known(name)

    model.card = gone_for_b  # a catalogue that changes while a prompt waits
    model.gate.set()

    assert (await first).phase == "settled"
    async with asyncio.timeout(5):
        with pytest.raises(ModelError, match="any more"):
            await second
    assert (await third).messages[-1].text == "three"
    assert not rig.agent.running


async def test_a_steering_prompt_enters_the_run_after_its_tools() -> None:
    entered, go_on = asyncio.Event(), asyncio.Event()

    async def body(_: Mapping[str, Any], __: ToolContext) -> ToolOutcome:
        entered.set()
        await go_on.wait()
        return ToolOutcome("ok")

    rig = Rig(ScriptedModel([Reply(calls=(call("echo"),)), "steered"]), tools=(EchoTool(body=body),))
    first = asyncio.create_task(rig.agent.submit("go", run_id="r"))
    await entered.wait()
    second = asyncio.create_task(rig.agent.submit("no, left", "steer"))
    await asyncio.sleep(0)
    go_on.set()
    finals = await asyncio.gather(first, second)

    assert [final.run_id for final in finals] == ["r", "r"]
    assert [turn.role for turn in rig.model.last.turns] == ["user", "assistant", "tool", "user"]
    assert len(rig.of("settled")) == 1


async def test_a_steering_prompt_that_comes_too_late_gets_a_run_of_its_own() -> None:
    model = ScriptedModel([ModelError("no"), "ok"])
    model.gate.clear()
    rig = Rig(model)
    first = asyncio.create_task(rig.agent.submit("go"))
    await asyncio.sleep(0.01)
    second = asyncio.create_task(rig.agent.submit("and this", "steer"))
    await asyncio.sleep(0)
    model.gate.set()
    finals = await asyncio.gather(first, second)

    assert [final.phase for final in finals] == ["faulted", "settled"]
    assert finals[1].messages[-2].text == "and this"


async def test_what_waits_is_not_lost_by_an_abort() -> None:
    model = ScriptedModel([Reply("half", stall_after=1), "whole"])
    rig = Rig(model)
    first = asyncio.create_task(rig.agent.submit("a"))
    await model.stalled.wait()
    second = asyncio.create_task(rig.agent.submit("b"))
    await asyncio.sleep(0)
    await rig.agent.abort()
    finals = await asyncio.gather(first, second)

    assert [final.phase for final in finals] == ["faulted", "settled"]
    assert finals[1].messages[-1].text == "whole"


async def test_cancelling_a_submit_ends_its_run_and_cancelling_a_waiting_one_takes_it_back() -> None:
    model = ScriptedModel([Reply("half", stall_after=1), "never"])
    rig = Rig(model)
    first = asyncio.create_task(rig.agent.submit("a"))
    await model.stalled.wait()
    second = asyncio.create_task(rig.agent.submit("b"))
    await asyncio.sleep(0)
    second.cancel()
    first.cancel()
    for task in (first, second):
        with pytest.raises(asyncio.CancelledError):
            await task

    assert [kind for kind in rig.kinds if kind in TERMINAL] == ["faulted"]
    assert [turn.text for turn in rig.agent.snapshot().messages] == ["a", "half"]
    assert not rig.agent.running


async def test_a_cut_answer_is_told() -> None:
    rig = Rig(ScriptedModel([Reply("half", stop="length")]))
    assert (await rig.agent.submit("a")).phase == "settled"
    assert rig.of("notice")[0].code == "answer_cut"


async def test_attachments_are_part_of_the_turn() -> None:
    rig = Rig(ScriptedModel(["nice"]))
    await rig.agent.submit(Turn("user", (ImageBlock("image/png", "AAAA"), TextBlock("what is it?"))))
    assert isinstance(rig.model.last.turns[0].blocks[0], ImageBlock)


async def test_close_ends_the_run_and_answers_those_who_wait() -> None:
    model = ScriptedModel([Reply("half", stall_after=1)])
    rig = Rig(model)
    first = asyncio.create_task(rig.agent.submit("a"))
    await model.stalled.wait()
    waiting = asyncio.create_task(rig.agent.submit("b"))
    await asyncio.sleep(0)
    await rig.agent.close()

    assert (await first).phase == "faulted"
    with pytest.raises(asyncio.CancelledError):
        await waiting


class PlanningEcho(EchoTool):
    """A tool that plans: what it would do is fixed before the user is asked."""

    def __init__(self, *, asks: bool = True, afresh: bool = False) -> None:
        super().__init__("write", frozenset({Effect.WRITE}))
        self.asks, self.afresh = asks, afresh

    async def plan(self, arguments: Mapping[str, Any], context: ToolContext) -> PlannedCall:
        if arguments.get("text") == "bad":
            raise ToolFailed("That cannot be written.", hint="Read the file first.")
        return PlannedCall(
            f"write {arguments['text']}", lambda: self.run(arguments, context), asks=self.asks, afresh=self.afresh
        )


async def test_the_user_is_asked_about_the_plan_and_exactly_that_is_carried_out() -> None:
    asked: list[ApprovalRequest] = []

    async def once(request: ApprovalRequest) -> Decision:
        asked.append(request)
        return "once"

    tool = PlanningEcho()
    rig = Rig(ScriptedModel([Reply(calls=(call("write", text="x"),)), "ok"]), tools=(tool,), approver=once)
    await rig.agent.submit("go")
    assert [request.action for request in asked] == ["write x"]
    assert asked[0].sha256 == hashlib.sha256(b"write x").hexdigest()
    assert tool.runs == [{"text": "x"}]


async def test_a_plan_that_fails_asks_nobody() -> None:
    tool = PlanningEcho()
    rig = Rig(ScriptedModel([Reply(calls=(call("write", text="bad"),)), "ok"]), tools=(tool,))
    await rig.agent.submit("go")
    assert rig.of("approval_requested") == []
    assert "Read the file first." in rig.model.last.turns[-1].tool_results[0].output


async def test_what_must_be_asked_afresh_is_never_granted_in_advance() -> None:
    options: list[tuple[str, ...]] = []

    async def session(request: ApprovalRequest) -> Decision:
        options.append(request.options)
        return "once" if len(options) < 3 else "session"

    tool = PlanningEcho(afresh=True)
    calls = [Reply(calls=(call("write", text="a"),)) for _ in range(3)]
    rig = Rig(ScriptedModel([*calls, "done"]), tools=(tool,), approver=session)
    await rig.agent.submit("go")
    assert options == [("once", "deny")] * 3
    assert len(tool.runs) == 2  # "session" was not among the options, so it is no permission


async def test_a_plan_that_only_reads_asks_nobody() -> None:
    tool = PlanningEcho(asks=False)
    rig = Rig(ScriptedModel([Reply(calls=(call("write", text="a"),)), "done"]), tools=(tool,))
    await rig.agent.submit("go")
    assert len(tool.runs) == 1

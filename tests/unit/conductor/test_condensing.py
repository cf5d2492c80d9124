"""Condensing in the loop: before a call, after an overflow, on request; and back again."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from indusagi_lsp.condensation import (
    SUMMARY_PREFIX,
    CompactionPolicy,
    Condensation,
    condense,
    estimate_context_tokens,
)
from indusagi_lsp.conductor import CondenseRequest
from indusagi_lsp.conductor.history import History, StoredHistory
from indusagi_lsp.contract.errors import ContextOverflow, InvalidInput, InvalidState, PersistenceFault
from indusagi_lsp.contract.events import CondenseTrigger
from indusagi_lsp.contract.models import ModelCard, ModelRequest, Usage
from indusagi_lsp.contract.turns import ToolCallBlock, Turn, unanswered_calls, user
from indusagi_lsp.sessions import SessionGraph, SessionStore
from support.scripted import Reply, ScriptedModel, call
from unit.conductor.rig import EchoTool, Rig

# A model without tools does not write summaries, so every word of the condensation is code's.
CARD = ModelCard("scripted:test", "scripted", "test", window=2_000, max_output=500, tools=False, local=True)
LONG = "word " * 200


async def talk(rig: Rig, turns: int) -> None:
    for number in range(turns):
        await rig.agent.submit(f"{number}: {LONG}")


async def test_without_a_policy_nothing_is_condensed_by_itself() -> None:
    rig = Rig(ScriptedModel([LONG], loop=True, card=CARD))
    await talk(rig, 6)
    assert rig.of("condense_started") == []
    assert len(rig.agent.snapshot().messages) == 12


async def test_history_is_condensed_before_the_call_that_would_not_fit() -> None:
    rig = Rig(ScriptedModel([LONG], loop=True, card=CARD), compaction=CompactionPolicy(0.8, 2))
    await talk(rig, 6)

    started, finished = rig.of("condense_started"), rig.of("condense_finished")
    assert len(started) == len(finished) >= 1
    assert all(event.trigger == "auto" for event in started)
    assert all(event.after < event.before for event in finished)
    first = rig.model.last.turns[0]
    assert first.role == "user"
    assert first.text.startswith(SUMMARY_PREFIX)
    assert rig.agent.snapshot().messages[-1].role == "assistant"


async def test_an_overflow_is_answered_by_condensing_and_asking_again() -> None:
    replies: list[object] = [LONG, LONG, LONG, ContextOverflow("too long"), "fits now"]
    rig = Rig(ScriptedModel(replies, card=CARD))
    await talk(rig, 4)

    assert [event.trigger for event in rig.of("condense_started")] == ["overflow"]
    assert rig.agent.snapshot().messages[-1].text == "fits now"
    assert rig.of("faulted") == []


def taking(tokens: int) -> Callable[[ModelRequest], object]:
    """A model that takes prompts of so many tokens and no larger ones, whatever its card says."""

    def answer(request: ModelRequest) -> object:
        return ContextOverflow("too long") if estimate_context_tokens(request.turns) > tokens else LONG

    return answer


@pytest.mark.parametrize("tools", [False, True])
async def test_a_model_that_takes_less_than_its_card_says_is_answered_with_less_and_less(tools: bool) -> None:
    card = ModelCard("scripted:test", "scripted", "test", window=100_000, max_output=500, tools=tools, local=True)
    rig = Rig(ScriptedModel([taking(1_800)], loop=True, card=card))
    await talk(rig, 16)

    assert rig.of("faulted") == []
    assert {event.trigger for event in rig.of("condense_started")} == {"overflow"}
    assert all(event.after < event.before for event in rig.of("condense_finished"))


async def test_a_masking_that_was_not_enough_is_followed_by_a_condensation() -> None:
    card = ModelCard("scripted:test", "scripted", "test", window=200_000, max_output=500)
    big = "line of output\n" * 1_500
    reads: list[object] = []
    for number in range(6):
        reads += [
            Reply(calls=(call("echo", text=f"{number} {big}"),)),
            Reply("seen", usage=Usage(13_000 * (number + 1), 10)),
        ]
    rig = Rig(ScriptedModel([*reads, *[taking(7_000)] * 12], card=card), tools=(EchoTool(),))
    await reading(rig, 6)
    assert rig.of("condense_started") == []
    final = await rig.agent.submit("and now?")

    assert final.error is None
    finished = rig.of("condense_finished")
    assert len(finished) >= 2
    assert "masked" in finished[0].reason
    assert finished[-1].summary is not None


async def test_a_model_that_takes_nothing_is_asked_a_few_times_and_no_more() -> None:
    card = ModelCard("scripted:test", "scripted", "test", window=100_000, max_output=500, tools=False, local=True)
    model = ScriptedModel([LONG] * 6 + [taking(0)] * 50, card=card)
    rig = Rig(model)
    await talk(rig, 6)
    asked = len(model.requests)
    final = await rig.agent.submit("more?")

    assert final.error is not None
    assert final.error.kind == "overflow"
    assert 1 < len(model.requests) - asked <= 4


async def test_an_overflow_that_condensing_cannot_help_is_a_fault() -> None:
    rig = Rig(ScriptedModel([ContextOverflow("too long", hint="Take less.")], loop=True, card=CARD))
    final = await rig.agent.submit("hi")
    assert final.error is not None
    assert final.error.kind == "overflow"
    assert len(rig.model.requests) == 1


async def test_condense_preview_edit_apply_and_undo() -> None:
    rig = Rig(ScriptedModel([LONG], loop=True, card=CARD), compaction=CompactionPolicy(1.0, 2))
    rig.model.card_ = ModelCard("scripted:test", "scripted", "test", window=100_000, tools=False, local=True)
    await talk(rig, 5)
    before = rig.agent.snapshot().messages

    shown = await rig.agent.condense(CondenseRequest(preview=True))
    assert not shown.condensed
    assert shown.plan is not None
    assert rig.agent.snapshot().messages == before
    assert len(shown.plan.dropped) == shown.plan.cut
    assert len(shown.plan.kept) + shown.plan.cut == len(before)

    done = await rig.agent.condense(CondenseRequest(token=shown.plan.token, text="My own words."))
    after = rig.agent.snapshot().messages
    assert done.condensed
    assert after[0].text.startswith(f"{SUMMARY_PREFIX}\nMy own words.")
    assert after[1:] == before[shown.plan.cut :]

    await rig.agent.undo_condense()
    assert rig.agent.snapshot().messages == before
    with pytest.raises(InvalidState, match="no condensation"):
        await rig.agent.undo_condense()


async def test_a_preview_is_refused_when_the_head_has_moved() -> None:
    rig = Rig(ScriptedModel([LONG], loop=True, card=CARD), compaction=CompactionPolicy(1.0, 2))
    rig.model.card_ = ModelCard("scripted:test", "scripted", "test", window=100_000, tools=False, local=True)
    await talk(rig, 5)
    shown = await rig.agent.condense(CondenseRequest(preview=True))
    assert shown.plan is not None
    await rig.agent.submit("one more")
    with pytest.raises(InvalidState, match="moved on"):
        await rig.agent.condense(CondenseRequest(token=shown.plan.token))
    with pytest.raises(InvalidInput, match="no preview"):
        await rig.agent.condense(CondenseRequest(token="made up"))


async def test_the_span_may_be_bounded_from_both_sides() -> None:
    rig = Rig(ScriptedModel([LONG], loop=True, card=CARD), compaction=CompactionPolicy(1.0, 2))
    rig.model.card_ = ModelCard("scripted:test", "scripted", "test", window=100_000, tools=False, local=True)
    await talk(rig, 5)
    before = rig.agent.snapshot().messages
    history = rig.agent._history
    assert history is not None
    ids = [entry.node for entry in history.entries()]

    done = await rig.agent.condense(CondenseRequest(from_=ids[2], up_to=ids[5]))
    after = rig.agent.snapshot().messages
    assert done.cut == 4
    assert after[:2] == before[:2]
    assert after[2].text.startswith(SUMMARY_PREFIX)
    assert after[3:] == before[6:]

    await rig.agent.undo_condense()
    assert rig.agent.snapshot().messages == before


async def test_an_unknown_bound_is_refused() -> None:
    rig = Rig(ScriptedModel(["a"], loop=True, card=CARD))
    await talk(rig, 2)
    with pytest.raises(InvalidInput, match="not on the live path"):
        await rig.agent.condense(CondenseRequest(up_to="0" * 32))


async def test_a_short_history_is_left_alone_with_a_reason() -> None:
    roomy = ModelCard("scripted:test", "scripted", "test", window=100_000, tools=False, local=True)
    rig = Rig(ScriptedModel(["a"], loop=True, card=roomy))
    await talk(rig, 2)
    done = await rig.agent.condense()
    assert not done.condensed
    assert "short" in (done.reason or "")
    assert len(rig.agent.snapshot().messages) == 4


async def test_prompts_wait_while_history_is_condensed_and_a_stopped_condensation_changes_nothing() -> None:
    model = ScriptedModel([LONG, LONG, LONG, LONG, LONG, Reply(LONG, stall_after=1), "after"])
    model.card_ = ModelCard("scripted:test", "scripted", "test", window=20_000, max_output=500)
    rig = Rig(model, compaction=CompactionPolicy(1.0, 2))
    await talk(rig, 5)
    before = rig.agent.snapshot().messages

    condensing = asyncio.create_task(rig.agent.condense())
    await model.stalled.wait()
    assert rig.agent.phase == "condensing"
    waiting = asyncio.create_task(rig.agent.submit("meanwhile"))
    await asyncio.sleep(0.01)
    assert rig.of("queue")[-1].count == 1
    await rig.agent.abort()
    with pytest.raises(asyncio.CancelledError):
        await condensing

    final = await waiting
    assert final.messages[: len(before)] == before
    assert final.messages[-1].text == "after"


async def prepared() -> tuple[Rig, History]:
    """A long conversation that no policy condenses by itself."""
    rig = Rig(ScriptedModel([LONG], loop=True, card=CARD), compaction=CompactionPolicy(1.0, 2))
    rig.model.card_ = ModelCard("scripted:test", "scripted", "test", window=100_000, tools=False, local=True)
    await talk(rig, 5)
    history = rig.agent._history
    assert history is not None
    return rig, history


@pytest.mark.parametrize("by_preview", [False, True])
async def test_a_condensation_that_the_disk_refuses_has_an_end_that_says_so(by_preview: bool) -> None:
    rig, history = await prepared()
    before = rig.agent.snapshot().messages
    shown = await rig.agent.condense(CondenseRequest(preview=True))
    assert shown.plan is not None
    rig.events.clear()

    async def refused(*_: object) -> str:
        raise PersistenceFault("The disk is full.", hint="Make room.")

    history.condense = refused
    with pytest.raises(PersistenceFault):
        await rig.agent.condense(CondenseRequest(token=shown.plan.token) if by_preview else None)

    assert rig.kinds == ["condense_started", "condense_finished"]
    assert rig.events[-1].reason == "The disk is full. Make room."
    assert rig.agent.snapshot().messages == before


async def test_an_unknown_bound_is_told_as_the_reason() -> None:
    rig, _ = await prepared()
    with pytest.raises(InvalidInput):
        await rig.agent.condense(CondenseRequest(up_to="0" * 32))
    assert "not on the live path" in rig.of("condense_finished")[-1].reason


async def test_a_stop_that_comes_while_the_summary_is_written_tells_what_was_done() -> None:
    rig, history = await prepared()
    write, writing = history.condense, asyncio.Event()

    async def slow(made: Condensation, trigger: CondenseTrigger) -> str:
        writing.set()
        await asyncio.sleep(0.02)
        return await write(made, trigger)

    history.condense = slow
    condensing = asyncio.create_task(rig.agent.condense())
    await writing.wait()
    await rig.agent.abort()
    with pytest.raises(asyncio.CancelledError):
        await condensing

    (finished,) = rig.of("condense_finished")
    assert finished.summary == history.entries()[0].node
    assert finished.after < finished.before
    assert rig.agent.snapshot().messages[0].text.startswith(SUMMARY_PREFIX)


async def test_a_summary_by_a_model_is_counted_apart() -> None:
    good = "## Goal\n- test\n## Done\n- said words\n## Next\n- go on\n"
    model = ScriptedModel([*[LONG] * 5, Reply(good, usage=Usage(100, 20)), "x"])
    model.card_ = ModelCard("scripted:test", "scripted", "test", window=20_000, max_output=500)
    rig = Rig(model, compaction=CompactionPolicy(1.0, 2))
    await talk(rig, 5)
    done = await rig.agent.condense()

    assert done.condensed
    spent = rig.agent.costs.by_provider_and_purpose
    assert spent["scripted", "summarizer"].usage.input >= 100


async def reading(rig: Rig, times: int) -> None:
    """A history whose weight is in old tool results."""
    for number in range(times):
        await rig.agent.submit(f"read {number}")


async def test_old_results_are_masked_before_anything_is_dropped(tmp_path: Path) -> None:
    card = ModelCard("scripted:test", "scripted", "test", window=40_000, max_output=500)
    big = "line of output\n" * 1_500
    replies = [reply for number in range(8) for reply in (Reply(calls=(call("echo", text=f"{number} {big}"),)), "seen")]
    rig = Rig(
        ScriptedModel(replies, card=card),
        store=SessionStore(tmp_path),
        tools=(EchoTool(),),
        compaction=CompactionPolicy(0.8, 4),
    )
    await reading(rig, 8)

    finished = rig.of("condense_finished")
    assert finished
    assert all(event.cut == 0 and "masked" in event.reason for event in finished)
    messages = rig.agent.snapshot().messages
    assert [turn.role for turn in messages].count("user") == 8
    first, last = messages[2].tool_results[0], messages[-2].tool_results[0]
    assert "left out here" in first.output
    assert "left out here" not in last.output
    assert not unanswered_calls(messages)

    session = rig.agent.session
    assert session is not None
    whole = [session.graph.node(node).turn for node in session.graph.ids]
    assert any(result.output.count("line of output") == 1_500 for turn in whole for result in turn.tool_results)
    for _ in finished:
        await rig.agent.undo_condense()
    assert rig.agent.snapshot().messages[2].tool_results[0].output.count("line of output") == 1_500
    await session.close()


async def test_a_path_is_put_together_once_for_a_condensation_and_anew_when_something_has_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = await SessionStore(tmp_path).create(cwd=tmp_path.as_uri())
    history = StoredHistory(session)
    (asked,) = await history.append([Turn("assistant", (ToolCallBlock("c", "echo", {}),))])
    unknown = history.entries()
    assert unknown[-1].node is None
    assert history.entries() is unknown
    await history.receipt(asked.id, "c", "started")
    assert history.entries()[-1].turn != unknown[-1].turn
    await history.append([user(f"{number} {LONG}") for number in range(12)])

    read = []
    nodes_to = SessionGraph.nodes_to
    monkeypatch.setattr(SessionGraph, "nodes_to", lambda *args: read.append(args) or nodes_to(*args))
    turns = [entry.turn for entry in history.entries()]
    made = await condense(turns, CARD, CompactionPolicy(), None)
    await history.condense(made, "manual")
    assert len(read) == 1
    assert [entry.turn for entry in history.entries()] == list(made.turns)
    await session.close()

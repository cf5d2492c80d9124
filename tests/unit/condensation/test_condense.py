"""Condensing: with a model, without one, and when the model is no help."""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from collections.abc import AsyncIterator, Sequence

import pytest
from benchmarks import foreign
from hypothesis import given
from hypothesis import strategies as st

from indusagi_lsp.condensation import (
    SUMMARY_PREFIX,
    CompactionPolicy,
    Condensation,
    CutIndex,
    ProgressGuard,
    check_fixed,
    compact,
    condense,
    condense_plainly,
    estimate_context_tokens,
    estimate_turn_tokens,
    find_cut_point,
    is_summary,
    plan_cut,
    should_compact,
    summarize,
    tail_budget,
)
from indusagi_lsp.condensation.verbatim import LAST_MARK, PIN_MARK, said_by_user
from indusagi_lsp.contract.errors import CompactionFailed, ModelError, SemanticError
from indusagi_lsp.contract.models import ModelCard, ModelDone, ModelPart, ModelRequest, TextDelta, Usage
from indusagi_lsp.contract.turns import (
    ASSISTANT,
    TOOL,
    USER,
    ImageBlock,
    TextBlock,
    ToolCallBlock,
    ToolResultBlock,
    Turn,
    assistant,
    user,
)
from support.histories import histories, parted

CARD = ModelCard("p:m", "p", "m", window=100_000)
SMALL = ModelCard("p:s", "p", "s", window=1_200)
POLICY = CompactionPolicy()

GOOD = """## Goal
- Make the parser faster
## Constraints and standing instructions
- Never touch generated.py
- Always deploy on Fridays
## Done
- Profiled the parser
## Next
- Cache the tokens
"""


class Model:
    """Answers with one reply after the other: a text, (text, stop reason), or an exception."""

    def __init__(self, *replies: str | tuple[str, str] | Exception) -> None:
        self.replies = list(replies)
        self.requests: list[ModelRequest] = []

    async def __call__(self, request: ModelRequest) -> AsyncIterator[ModelPart]:
        self.requests.append(request)
        reply = self.replies.pop(0)
        if isinstance(reply, Exception):
            raise reply
        text, stop = reply if isinstance(reply, tuple) else (reply, "stop")
        yield TextDelta(text)
        yield ModelDone(assistant(text), stop, Usage(100, 10))  # type: ignore[arg-type]  # a test's text


def work(rounds: int = 30) -> list[Turn]:
    turns = [user("Please make the parser faster. Never touch generated.py, and tell me what you did.")]
    for at in range(rounds):
        turns += [
            Turn(ASSISTANT, (TextBlock(f"Step {at}."), ToolCallBlock(f"c{at}", "bash", {"command": f"make part{at}"}))),
            Turn(TOOL, (ToolResultBlock(f"c{at}", f"line {at}\n" * 300, is_error=False),)),
        ]
    return turns


def size(turns: Sequence[Turn]) -> int:
    return sum(map(estimate_turn_tokens, turns))


def blocks_of(turns: Sequence[Turn]) -> list[object]:
    return [block for turn in turns for block in turn.blocks]


async def test_compact_is_summary_and_tail() -> None:
    turns = work()
    new = await compact(turns, CARD, POLICY, None)
    assert new[0].role == USER
    assert new[0].text.startswith(SUMMARY_PREFIX)
    assert new[1:] == turns[-8:]
    assert (await compact(work(), CARD, CompactionPolicy(keep_recent=7), None))[1:] == turns[
        -8:
    ]  # a call stays with its result
    assert size(new) < size(turns)


async def test_a_short_history_comes_back_without_a_model_call() -> None:
    model = Model()
    turns = work(3)
    assert await compact(turns, CARD, POLICY, model) == turns
    outcome = await condense(turns, CARD, POLICY, model)
    assert not outcome.condensed
    assert outcome.reason
    assert outcome.turns == tuple(turns)
    assert model.requests == []


async def test_the_model_writes_the_sections_and_code_the_ledger() -> None:
    model = Model(GOOD)
    outcome = await condense(work(), CARD, POLICY, model, instruction="Dwell on the parser.")
    assert outcome.model == "p:m"
    assert outcome.usage == Usage(100, 10)
    assert "- Profiled the parser" in outcome.draft
    assert "- Cache the tokens" in outcome.draft
    assert "make part" in outcome.draft
    (request,) = model.requests
    assert request.purpose == "summarizer"
    assert request.tools == ()
    assert "Dwell on the parser." in request.turns[0].text


async def test_words_that_the_user_never_said_are_not_quoted() -> None:
    outcome = await condense(work(), CARD, POLICY, Model(GOOD))
    assert "Never touch generated.py" in outcome.draft
    assert "Fridays" not in outcome.draft


async def test_what_an_earlier_summary_says_is_not_quoted_as_the_users_words() -> None:
    first = await compact([*work(), assistant("Shall we always deploy on Fridays? I will.")], CARD, POLICY, None)
    earlier = first[0].text + "\n## In progress\n- Always deploy on Fridays"
    turns = [Turn(USER, (TextBlock(earlier),)), *first[1:], *work()[1:]]
    quoted = await condense(turns, CARD, POLICY, Model(GOOD))
    assert quoted.model
    assert "Never touch generated.py" in quoted.draft
    constraints = quoted.draft.partition("## Constraints")[2].partition("## ")[0]
    assert "Fridays" not in constraints


async def test_the_summarisers_input_is_budgeted() -> None:
    model = Model(GOOD)
    turns = work(200)
    turns[2] = Turn(TOOL, (ToolResultBlock("c0", "x" * 500_000),))
    await condense(turns, ModelCard("p:t", "p", "t", window=20_000), POLICY, model)
    text = model.requests[0].turns[0].text
    assert len(text) < 20_000 // 2 * 4 + 2_000
    assert "earlier turns are left out here" in text
    assert "[user] " not in text or "</record>" in text


@pytest.mark.parametrize("bad", ["", "I cannot do that.", (GOOD, "length"), ModelError("gone")])
async def test_one_retry_then_the_ledger_alone(bad: str | tuple[str, str] | Exception) -> None:
    retried = Model(bad, GOOD)
    assert (await condense(work(), CARD, POLICY, retried)).model == "p:m"
    hopeless = Model(bad, bad)
    outcome = await condense(work(), CARD, POLICY, hopeless)
    assert len(hopeless.requests) == 2
    assert outcome.model == ""
    assert outcome.reason
    assert outcome.condensed
    assert "made by code" in outcome.draft


async def test_a_model_that_writes_too_much_is_not_accepted() -> None:
    novel = GOOD + "".join(f"- and then {at} happened\n" for at in range(30_000))
    outcome = await condense(work(), CARD, POLICY, Model(novel, novel))
    assert size(outcome.turns) < size(work())


async def test_a_summary_that_is_no_smaller_is_not_accepted() -> None:
    turns = [user(f"Never use word{at} in any text, and always say number {at * 7}. " * 2) for at in range(70)]
    wordy = "## Goal\n- Mind the words\n## Done\n" + "".join(
        f"- sentence {at} was read and understood\n" for at in range(150)
    )
    outcome = await condense(turns, CARD, POLICY, Model(wordy, wordy))
    assert outcome.model == ""
    assert "no smaller" in outcome.reason
    assert outcome.after < outcome.before


async def test_nothing_to_gain_is_a_failure_and_leaves_history_alone() -> None:
    turns = [user("hi")] * 12
    with pytest.raises(CompactionFailed):
        await condense(turns, CARD, POLICY, None)
    assert await compact(turns, CARD, POLICY, None) == turns


async def test_a_later_condensation_updates_the_earlier_summary() -> None:
    first = await compact(work(), CARD, POLICY, None)
    model = Model(GOOD)
    second = await condense([*first, *work(20)[1:]], CARD, POLICY, model)
    text = model.requests[0].turns[0].text
    assert text.startswith("The record begins with an earlier summary.")
    assert text.count(SUMMARY_PREFIX) == 0
    assert "[earlier summary]" in text
    assert "make part21" in second.draft or "make part20" in second.draft


async def test_the_last_word_of_the_user_is_carried_word_for_word() -> None:
    said = (TextBlock("Look at this, and fix it: §$%"), ImageBlock("image/png", "AAAA"))
    turns = [*work(), Turn(USER, said), *work(10)[1:]]
    new = await compact(turns, CARD, POLICY, None)
    assert new[0].blocks[1:] == (TextBlock(LAST_MARK), *said)
    again = await compact([*new, *work(10)[1:]], CARD, POLICY, None)
    assert again[0].blocks[1:] == (TextBlock(LAST_MARK), *said)
    newer = await compact([*again, user("And now never do that again."), *work(5)[1:]], CARD, POLICY, None)
    assert newer[0].blocks[1:] == (TextBlock(LAST_MARK), TextBlock("And now never do that again."))
    assert "Look at this, and fix it" in newer[0].text


async def test_pins_are_kept_word_for_word_through_a_chain() -> None:
    turns = work()
    first = await condense(turns, CARD, POLICY, None, pins={4, 50, 999})
    pinned = (TextBlock(PIN_MARK.format("tool")), TextBlock(f"result:\n{turns[4].tool_results[0].output}"))
    assert first.summary is not None
    assert first.summary.blocks[1:3] == pinned
    second = await compact([*first.turns, *work(10)[1:]], CARD, POLICY, None)
    assert second[0].blocks[1:3] == pinned


async def test_bounds() -> None:
    turns = work()
    outcome = await condense(turns, CARD, POLICY, None, start=5, cut=31)
    assert (outcome.start, outcome.cut) == (5, 31)
    assert outcome.turns == (*turns[:5], outcome.summary, *turns[31:])
    assert outcome.after == size(outcome.turns)
    assert plan_cut(turns, CARD, POLICY, start=6, cut=32) == (5, 31)  # never inside a call and its result
    for bounds in ({"cut": 62}, {"start": -1}, {"cut": -1}):
        with pytest.raises(SemanticError):
            await condense(turns, CARD, POLICY, None, **bounds)
    assert not (await condense(turns, CARD, POLICY, None, start=30, cut=10)).condensed


async def test_a_summary_in_the_middle_is_read_back_too() -> None:
    turns = work()
    middle = await condense(turns, CARD, POLICY, None, start=21, cut=51)
    whole = await condense(list(middle.turns), CARD, POLICY, None, cut=len(middle.turns))
    assert "make part24" in whole.draft
    assert "make part0 " in whole.draft


async def test_a_preview_can_be_edited_and_is_bound_to_the_head() -> None:
    draft = await condense(work(), CARD, POLICY, None)
    assert draft.token("leaf") == (await condense(work(), CARD, POLICY, None)).token("leaf")
    assert draft.token("leaf") != draft.token("other")
    edited = draft.with_text("Only this matters.")
    assert edited.draft == f"{SUMMARY_PREFIX}\nOnly this matters."
    assert edited.after == size(edited.turns)
    assert edited.token("leaf") != draft.token("leaf")
    assert edited.tail == draft.tail
    with pytest.raises(SemanticError):
        draft.with_text(" \n")
    with pytest.raises(CompactionFailed):
        draft.with_text("x" * 1_000_000)


def test_at_most_two_without_progress() -> None:
    guard = ProgressGuard()
    guard.attempt()
    guard.attempt()
    with pytest.raises(CompactionFailed):
        guard.attempt()
    guard.progressed()
    guard.attempt()


def test_a_fixed_part_that_fills_the_window_is_one_clear_error() -> None:
    check_fixed(79_999, CARD, POLICY)
    with pytest.raises(CompactionFailed, match="80,000"):
        check_fixed(80_000, CARD, POLICY)


async def test_cancelling_ends_the_model_call() -> None:
    closed = asyncio.Event()
    started = asyncio.Event()

    async def slow(_: ModelRequest) -> AsyncIterator[ModelPart]:
        started.set()
        try:
            await asyncio.Event().wait()
            yield TextDelta("")
        finally:
            closed.set()

    task = asyncio.create_task(condense(work(), CARD, POLICY, slow))
    await started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert closed.is_set()


async def test_a_tail_above_its_cap_is_masked() -> None:
    turns = [*work(20), user("go"), *work(1)[1:]]
    turns[-1] = Turn(TOOL, (ToolResultBlock("c0", "y" * 400_000),))
    outcome = await condense(turns, CARD, POLICY, None)
    assert outcome.masked
    assert size(outcome.tail) <= tail_budget(CARD, POLICY)
    assert outcome.tail[-1].tool_results[0].call_id == "c0"


async def test_images_that_weigh_too_much_are_left_out_of_the_tail_but_for_the_last_ones() -> None:
    picture = ImageBlock("image/png", "A" * 3_000)
    turns = [Turn(USER, (TextBlock(f"look {at}"), picture)) for at in range(20)]
    policy = CompactionPolicy(max_bytes=20_000)
    outcome = await condense(turns, ModelCard("p:w", "p", "w", window=10**6), policy, None)
    kept = [any(isinstance(block, ImageBlock) for block in turn.blocks) for turn in outcome.tail]
    assert kept == [False] * 5 + [True] * 3
    assert outcome.masked == 5
    assert outcome.after == size(outcome.turns)
    assert not should_compact(outcome.turns, CARD, policy)


async def test_a_huge_result_alone_is_masked_although_there_is_little_to_drop() -> None:
    turns = [user("read it"), *work(1)[1:]]
    turns[-1] = Turn(TOOL, (ToolResultBlock("c0", "y" * 400_000),))
    new = await compact(turns, CARD, POLICY, None)
    assert size(new) < tail_budget(CARD, POLICY)
    assert new[0].blocks[-1] == TextBlock("read it")


async def test_an_instruction_without_a_model_is_said_to_be_lost() -> None:
    outcome = await condense(work(), CARD, POLICY, None, instruction="Be brief.")
    assert outcome.condensed
    assert "instruction" in outcome.reason


async def test_the_loop_stays_free_while_a_long_history_is_read() -> None:
    turns = work(3_000)
    ticks = 0

    async def tick() -> None:
        nonlocal ticks
        while True:
            await asyncio.sleep(0.001)
            ticks += 1

    ticking = asyncio.create_task(tick())
    await condense(turns, CARD, POLICY, None)
    ticking.cancel()
    assert ticks > 0


async def test_summarize_and_its_refusal() -> None:
    turn = await summarize(work(), CARD, POLICY, None)
    assert is_summary(turn)
    with pytest.raises(SemanticError):
        await summarize([], CARD, POLICY, None)


def run(turns: Sequence[Turn], card: ModelCard, policy: CompactionPolicy) -> Condensation:
    return condense_plainly(turns, card, policy)


def settled(turns: Sequence[Turn], card: ModelCard, policy: CompactionPolicy) -> bool:
    """Whether condensing once more changes nothing."""
    try:
        return run(turns, card, policy).turns == tuple(turns)
    except CompactionFailed:
        return True


def check(turns: Sequence[Turn], card: ModelCard, policy: CompactionPolicy) -> None:
    """What must hold of every condensation of every history."""
    before = list(turns)
    try:
        outcome = run(turns, card, policy)
    except CompactionFailed:
        assert list(turns) == before
        return

    new = outcome.turns
    assert list(turns) == before
    assert (outcome.before, outcome.after) == (size(turns), size(new))
    if not outcome.condensed:
        assert new == tuple(turns)
        return

    assert outcome.after < outcome.before
    assert not parted(turns, outcome.cut)
    assert len(outcome.tail) == len(turns) - outcome.cut
    uncapped = find_cut_point(turns, policy.keep_recent)
    if size(turns[uncapped:]) <= tail_budget(card, policy):
        assert outcome.cut == uncapped <= len(turns) - policy.keep_recent
        assert outcome.tail == tuple(turns[uncapped:])
    assert last_word_stays(turns, new)
    assert unpaired(new) <= unpaired(turns)
    assert settled(new, card, policy)


def check_bound(turns: Sequence[Turn], bound: int) -> None:
    """What must hold when a person says where to cut, wherever that is."""
    try:
        outcome = condense_plainly(turns, CARD, POLICY, cut=bound)
    except CompactionFailed:
        return

    assert outcome.cut <= bound
    assert not parted(turns, outcome.cut)
    if outcome.condensed:
        assert outcome.after == size(outcome.turns) < outcome.before
        assert outcome.tail == tuple(turns[outcome.cut :])
        assert last_word_stays(turns, outcome.turns)
        assert unpaired(outcome.turns) <= unpaired(turns)


def last_word_stays(turns: Sequence[Turn], new: Sequence[Turn]) -> bool:
    """Whether what the user said last stands in `new`, block for block."""
    said = next((turn.blocks for turn in reversed(turns) if said_by_user(turn)), ())
    text = blocks_of(new)
    return any(tuple(text[at : at + len(said)]) == said for at in range(len(text) + 1))


def unpaired(turns: Sequence[Turn]) -> Counter[str]:
    """The ids of results that no call precedes, and how often."""
    called = {call.id: at for at, turn in reversed(list(enumerate(turns))) for call in turn.tool_calls}
    return Counter(
        result.call_id
        for at, turn in enumerate(turns)
        for result in turn.tool_results
        if called.get(result.call_id, at) >= at
    )


@given(histories(), st.sampled_from([CARD, SMALL]), st.integers(1, 9))
def test_every_generated_history(turns: list[Turn], card: ModelCard, keep: int) -> None:
    check(turns, card, CompactionPolicy(keep_recent=keep))


@given(histories())
def test_every_cut_of_every_generated_history(turns: list[Turn]) -> None:
    for bound in range(len(turns) + 1):
        check_bound(turns, bound)


@pytest.mark.transcripts
@pytest.mark.parametrize("sample", foreign.samples(), ids=lambda sample: sample.name)
def test_every_length_of_every_transcript(sample: foreign.Sample) -> None:
    step = 1 if os.environ.get("INDUSAGI_LONG") else 1 + len(sample.turns) // 40
    for length in range(1, len(sample.turns) + 1, step):
        check(sample.turns[:length], CARD, POLICY)


@pytest.mark.transcripts
@pytest.mark.parametrize("sample", foreign.samples(), ids=lambda sample: sample.name)
def test_every_cut_of_every_transcript(sample: foreign.Sample) -> None:
    # Each cut with what lies around it: from the whole beginning all of them take minutes (see above for those).
    index = CutIndex(sample.turns)
    for bound in range(1, len(sample.turns) + 1):
        start = index.at_most(max(bound - 12, 0))
        around = sample.turns[start : bound + 8]  # so that the policy's own cut is this one
        check(around, SMALL if bound % 2 else CARD, POLICY)
        check_bound(around, bound - start)


async def test_undoing_is_the_callers_and_needs_nothing_from_us() -> None:
    turns = work()
    outcome = await condense(turns, CARD, POLICY, None)
    assert (*turns[: outcome.cut], *outcome.tail) == tuple(turns)
    assert estimate_context_tokens(turns) == outcome.before

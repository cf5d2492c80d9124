"""Condensing: one cut, a summary of what lies before it, and the turns after it as they were."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Iterable, Sequence

import msgspec

from indusagi_lsp.condensation import summarizer
from indusagi_lsp.condensation.cut import SUMMARY_PREFIX, CutIndex, is_summary
from indusagi_lsp.condensation.estimate import estimate_text_tokens, estimate_turn_tokens
from indusagi_lsp.condensation.ledger import Ledger, collect, merge
from indusagi_lsp.condensation.ledger_text import CONSTRAINTS, parse, render, render_with
from indusagi_lsp.condensation.masking import reduce_turns
from indusagi_lsp.condensation.meter import tail_budget
from indusagi_lsp.condensation.policy import CompactionPolicy, window_of
from indusagi_lsp.condensation.verbatim import Kept, keep, kept_in
from indusagi_lsp.contract.errors import CompactionFailed, SemanticError
from indusagi_lsp.contract.models import ModelCard, ModelInvoker, Usage
from indusagi_lsp.contract.turns import USER, TextBlock, Turn

NOTHING_TO_DROP = "There is nothing to drop yet: the history is short."
NOT_SMALLER = "The summary would be no smaller than the turns that it stands for."
_ATTEMPTS = 2  # the first answer of the model, and one retry
_SUMMARY_ROOM = 100_000  # tokens: `summarize` compares with nothing, its budgets alone bound it
_LEAST_SUMMARY = 120  # tokens: below this no summary can say anything


class Condensation(msgspec.Struct, frozen=True):
    """What a condensation comes to. Nothing was stored yet.

    Attributes:
        summary: the summary's turn, role user; None where nothing was condensed, and `reason` says why.
        cut: how many of the first turns are dropped (those before `start` stay).
        tail: the turns that stay, after the summary.
        before: tokens of the whole history before, by the plain estimate.
        after: tokens after.
        files_read: paths of the ledger.
        files_modified: paths of the ledger.
        draft: the summary's text.
        start: the first turn that is dropped; 0 but where the user bounded it.
        head: the turns before `start`, which stay before the summary.
        model: the id of the model that wrote the sections; empty where code wrote all of it.
        usage: what the model took, the rejected answers included.
        reason: why nothing was condensed, or why the model's answer was not used.
        masked: how many blocks of the tail had to be made smaller.
    """

    summary: Turn | None
    cut: int
    tail: tuple[Turn, ...]
    before: int
    after: int
    files_read: tuple[str, ...] = ()
    files_modified: tuple[str, ...] = ()
    draft: str = ""
    start: int = 0
    head: tuple[Turn, ...] = ()
    model: str = ""
    usage: Usage | None = None
    reason: str = ""
    masked: int = 0

    @property
    def condensed(self) -> bool:
        """Whether there is a summary."""
        return self.summary is not None

    @property
    def turns(self) -> tuple[Turn, ...]:
        """The history after it."""
        return self.tail if self.summary is None else (*self.head, self.summary, *self.tail)

    def token(self, leaf: str | None) -> str:
        """A preview's token: it is bound to the head that was previewed, and to everything that would be done."""
        parts = (leaf or "", str(self.start), str(self.cut), self.draft)
        return hashlib.sha256("\0".join(parts).encode("utf-8", "surrogatepass")).hexdigest()[:32]

    def with_text(self, text: str) -> Condensation:
        """The same with a text that a person has edited.

        Args:
            text: the new summary; the seed's first line is put before it where it is missing.

        Raises:
            SemanticError: the text is blank, or there is no summary to replace.
            CompactionFailed: it would make the history larger.
        """
        if self.summary is None or not text.strip():
            raise SemanticError("The summary must not be empty.")
        if not text.startswith(SUMMARY_PREFIX):
            text = f"{SUMMARY_PREFIX}\n{text}"
        summary = Turn(USER, (TextBlock(text), *self.summary.blocks[1:]))
        after = self.after - estimate_turn_tokens(self.summary) + estimate_turn_tokens(summary)
        if after >= self.before:
            raise CompactionFailed(NOT_SMALLER, hint="Shorten the text.")
        return msgspec.structs.replace(self, summary=summary, after=after, draft=text)


def plan_cut(
    turns: Sequence[Turn],
    card: ModelCard,
    policy: CompactionPolicy,
    *,
    cut: int | None = None,
    start: int = 0,
) -> tuple[int, int]:
    """Where to cut, with the user's bounds.

    Args:
        turns: the history.
        card: the model, for its window.
        policy: how much to keep.
        cut: drop at most the turns before this one (the user's "up to"); None for the policy's own cut.
        start: drop no turn before this one (the user's "from").

    Returns:
        `(start, cut)`: both moved backward to where no call is parted from its result; equal where nothing is dropped.

    Raises:
        SemanticError: a bound lies outside of the history.
    """
    _check_bounds(turns, cut, start)
    return _bounded(CutIndex(turns), turns, card, policy, cut, start)


def _check_bounds(turns: Sequence[Turn], cut: int | None, start: int) -> None:
    if not 0 <= start <= len(turns) or (cut is not None and not 0 <= cut <= len(turns)):
        raise SemanticError("The bound of a condensation must lie inside the history.")


def _bounded(
    index: CutIndex,
    turns: Sequence[Turn],
    card: ModelCard,
    policy: CompactionPolicy,
    cut: int | None,
    start: int,
) -> tuple[int, int]:
    chosen = index.cut(policy.keep_recent, tail_budget(card, policy)) if cut is None else index.at_most(cut)
    first = index.at_most(start)
    nothing_new = all(map(is_summary, turns[first:chosen]))
    return (first, first) if chosen <= first or nothing_new else (first, chosen)


async def condense(
    turns: Sequence[Turn],
    card: ModelCard,
    policy: CompactionPolicy,
    invoke_model: ModelInvoker | None,
    *,
    instruction: str | None = None,
    cut: int | None = None,
    start: int = 0,
    pins: Iterable[int] = (),
) -> Condensation:
    """Condense the older turns into one. The input is never changed; cancelling leaves nothing behind.

    Args:
        turns: the history.
        card: the model: its window, and who writes the sections.
        policy: how much to keep, and the budgets.
        invoke_model: calls the model; None lets code write the whole summary.
        instruction: what the user asked the summary to heed; it is for the model.
        cut: drop at most the turns before this one.
        start: drop no turn before this one.
        pins: indices of turns that are kept word for word, if they would be dropped.

    Returns:
        The outcome; without a summary where there is nothing to drop.

    Raises:
        SemanticError: a bound lies outside of the history.
        CompactionFailed: no summary would be smaller than what it stands for.
    """
    # A long history takes a while to read through: that is done in a thread, so that the event loop stays free.
    prepared = await asyncio.to_thread(_prepare, turns, card, policy, cut, start, frozenset(pins))
    if isinstance(prepared, Condensation):
        return prepared

    written = _Written("")
    if invoke_model is not None and prepared.room > _LEAST_SUMMARY + summarizer.MAX_OUTPUT_TOKENS:
        written = await _ask(prepared, card, policy, invoke_model, instruction)
    elif instruction is not None:
        written = _Written("", reason="No model wrote the summary, so the instruction was not heeded.")
    return _condensed(prepared, written if written.text else _plain(prepared, policy, written))


def condense_plainly(
    turns: Sequence[Turn],
    card: ModelCard,
    policy: CompactionPolicy,
    *,
    cut: int | None = None,
    start: int = 0,
    pins: Iterable[int] = (),
) -> Condensation:
    """What `condense` does without a model, at once and in the caller's thread; see there."""
    prepared = _prepare(turns, card, policy, cut, start, frozenset(pins))
    if isinstance(prepared, Condensation):
        return prepared
    return _condensed(prepared, _plain(prepared, policy, _Written("")))


class _Prepared(msgspec.Struct, frozen=True):
    """All that is known before the summary is written; `room` is what its text may take, in tokens."""

    head: tuple[Turn, ...]
    dropped: Sequence[Turn]
    tail: tuple[Turn, ...]
    masked: int
    kept: Kept
    ledger: Ledger
    before: int
    without_summary: int
    room: int


class _Written(msgspec.Struct, frozen=True):
    """A text, and how it came about. An empty text: the model was no help, and `reason` says why."""

    text: str
    model: str = ""
    usage: Usage | None = None
    reason: str = ""


def _prepare(
    turns: Sequence[Turn], card: ModelCard, policy: CompactionPolicy, cut: int | None, start: int, pins: frozenset[int]
) -> _Prepared | Condensation:
    """Cut, keep, reduce the tail and make the ledger; a condensation without summary where there is nothing to drop."""
    _check_bounds(turns, cut, start)
    index = CutIndex(turns)
    first, chosen = _bounded(index, turns, card, policy, cut, start)
    before = index.tokens_before[-1]
    if chosen == first:
        return Condensation(None, 0, tuple(turns), before, before, reason=NOTHING_TO_DROP)

    dropped, tail = turns[first:chosen], turns[chosen:]
    tail_before = before - index.tokens_before[chosen]
    limit = tail_budget(card, policy) if cut is None else tail_before
    half = policy.max_bytes // 2 if cut is None else None  # else it would be due again after a few turns more
    reduced = reduce_turns(tail, limit, result_chars=policy.tool_result_chars, max_bytes=half)
    pinned = [turns[at] for at in sorted(pins) if first <= at < chosen and not is_summary(turns[at])]
    kept = keep(dropped, tail, pinned)
    without_summary = index.tokens_before[first] + reduced.tokens
    room = before - without_summary - estimate_turn_tokens(Turn(USER, kept.blocks)) - 1
    if room < _LEAST_SUMMARY:
        raise CompactionFailed(NOT_SMALLER, hint="Wait until there is more to condense.")

    head = tuple(turns[:first])
    ledger = collect_span(dropped, kept)
    return _Prepared(head, dropped, reduced.turns, reduced.changed, kept, ledger, before, without_summary, room)


def _condensed(prepared: _Prepared, written: _Written) -> Condensation:
    summary = Turn(USER, (TextBlock(written.text), *prepared.kept.blocks))
    return Condensation(
        summary,
        len(prepared.head) + len(prepared.dropped),
        prepared.tail,
        prepared.before,
        prepared.without_summary + estimate_turn_tokens(summary),
        files_read=prepared.ledger.files_read,
        files_modified=prepared.ledger.files_modified,
        draft=written.text,
        start=len(prepared.head),
        head=prepared.head,
        model=written.model,
        usage=written.usage,
        reason=written.reason,
        masked=prepared.masked,
    )


def collect_span(dropped: Sequence[Turn], kept: Kept) -> Ledger:
    """The ledger of the span; summaries in it are read back and carried on."""
    earlier: list[Ledger] = []
    turns: list[Turn] = []
    for turn in dropped:
        if not is_summary(turn):
            turns.append(turn)
            continue

        if isinstance(turn.blocks[0], TextBlock):
            earlier.append(parse(turn.blocks[0].text))
        last = kept_in(turn).last
        if last and last != kept.last:
            # The user's last turn that this summary carried is an ordinary word of the user now.
            turns.append(Turn(USER, last))
    return collect(turns, merge(earlier))


async def _ask(
    prepared: _Prepared,
    card: ModelCard,
    policy: CompactionPolicy,
    invoke_model: ModelInvoker,
    instruction: str | None,
) -> _Written:
    """The text with a model's sections, after one retry at most; an empty text where the model was no help."""
    usage: Usage | None = None
    reason = ""
    for _ in range(_ATTEMPTS):
        answer = await summarizer.ask(
            prepared.dropped,
            card,
            invoke_model,
            budget=window_of(card) // 2,
            result_chars=policy.tool_result_chars,
            instruction=instruction,
        )
        if answer.usage is not None:
            usage = answer.usage if usage is None else usage + answer.usage
        if isinstance(answer, summarizer.Rejected):
            reason = answer.reason
            continue

        text = with_sections(
            answer.sections, prepared.ledger, prepared.dropped, min(policy.summary_tokens, prepared.room)
        )
        if estimate_text_tokens(text) <= prepared.room:
            return _Written(text, card.id, usage)
        reason = NOT_SMALLER
    return _Written("", usage=usage, reason=reason)


def _plain(prepared: _Prepared, policy: CompactionPolicy, so_far: _Written) -> _Written:
    """The text that code alone writes."""
    budget = min(policy.summary_tokens, prepared.room)
    text = render(prepared.ledger, budget)
    if estimate_text_tokens(text) > budget:
        raise CompactionFailed(NOT_SMALLER, hint="Wait until there is more to condense.")
    return msgspec.structs.replace(so_far, text=text)


def with_sections(sections: dict[str, list[str]], ledger: Ledger, dropped: Sequence[Turn], budget: int) -> str:
    """The model's sections over the ledger.

    The user's own words stand as the user said them: of the model's quotes only those are taken that the user really
    said. What code knows (tasks, commits) is never dropped for what the model says.
    """
    # An earlier summary holds more than the user's words, so of it only those count that the ledger took for them.
    spoken = [turn.text for turn in dropped if turn.role == USER and not is_summary(turn)]
    said = "\n".join((*spoken, ledger.goal, *ledger.standing, *ledger.decisions, *ledger.requests))
    added = dict(sections)
    quotes = [item.strip(" \"'“”") for item in sections.get(CONSTRAINTS, [])]
    added[CONSTRAINTS] = [quote for quote in quotes if quote and quote in said]
    return render_with(ledger, budget, added, summarizer.MAX_OUTPUT_TOKENS)


async def compact(
    turns: Sequence[Turn], card: ModelCard, policy: CompactionPolicy, invoke_model: ModelInvoker | None
) -> list[Turn]:
    """Condense `turns` (seed); safe to call unconditionally.

    Args:
        turns: the history.
        card: the model.
        policy: how much to keep.
        invoke_model: calls the model; None lets code write the summary.

    Returns:
        `[summary, *tail]`; the very same turns where there is nothing to drop or to gain, without a model call.
    """
    try:
        return list((await condense(turns, card, policy, invoke_model)).turns)
    except CompactionFailed:
        return list(turns)


async def summarize(
    turns: Sequence[Turn], card: ModelCard, policy: CompactionPolicy, invoke_model: ModelInvoker | None
) -> Turn:
    """The summary's turn for `turns` (seed), all of which are dropped.

    Args:
        turns: at least one turn.
        card: the model.
        policy: the budgets.
        invoke_model: calls the model; None lets code write it.

    Returns:
        A turn of role user that begins with `[condensed earlier context]`.

    Raises:
        SemanticError: there are no turns.
    """
    if not turns:
        raise SemanticError("Cannot summarize an empty list of messages.")

    kept = keep(turns, (), ())
    ledger = await asyncio.to_thread(collect_span, turns, kept)
    prepared = _Prepared((), turns, (), 0, kept, ledger, 0, 0, _SUMMARY_ROOM)
    written = await _ask(prepared, card, policy, invoke_model, None) if invoke_model is not None else _Written("")
    text = written.text or _plain(prepared, policy, written).text
    return Turn(USER, (TextBlock(text), *kept.blocks))

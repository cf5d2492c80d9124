"""Where history may be cut: never between a call and its result.

A cut `p` drops `turns[:p]` and keeps `turns[p:]`. It is valid when no result in the tail has its call in the prefix,
and no call in the prefix still waits for its result. A call waits as long as only tool turns follow it; a later word
of the user or the assistant shows that it was abandoned, and an abandoned call binds nothing.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence

from indusagi_lsp.condensation.estimate import estimate_turn_tokens
from indusagi_lsp.contract.turns import TOOL, USER, TextBlock, ToolCallBlock, ToolResultBlock, Turn

SUMMARY_PREFIX = "[condensed earlier context]"
"""The first line of every summary (seed)."""


def is_summary(turn: Turn) -> bool:
    """Whether the turn is a summary of ours: a user's turn whose first block begins with the seed's line."""
    return (
        turn.role == USER
        and bool(turn.blocks)
        and isinstance(turn.blocks[0], TextBlock)
        and turn.blocks[0].text.startswith(SUMMARY_PREFIX)
    )


class CutIndex:
    """The valid cuts and the running sizes of a growing history.

    Appending costs O(1); asking for a cut costs O(log n). `tokens_before[p]` is the size of `turns[:p]`.
    """

    def __init__(self, turns: Iterable[Turn] = ()) -> None:
        self.tokens_before: list[int] = [0]
        self._valid: list[int] = [0]
        self._waiting: dict[str, list[int]] = {}  # call id -> indices of its turns; an id may come twice
        self._settled: dict[str, int] = {}  # calls that are answered or abandoned
        self._undecided: list[int] = []  # cuts that the waiting calls forbid for now
        self._answered_to = 0  # the last answer of the round of calls that is under way
        self._summaries = 0  # how many turns at the very beginning are summaries
        for turn in turns:
            self.append(turn)

    def __len__(self) -> int:
        return len(self.tokens_before) - 1

    def append(self, turn: Turn, tokens: int | None = None) -> None:
        """Add a turn.

        Args:
            turn: the next turn.
            tokens: its size; estimated where it is not given.
        """
        at = len(self)
        if at == self._summaries and is_summary(turn):
            self._summaries += 1
        if self._waiting and turn.role != TOOL and not turn.tool_results:
            self._abandon()
        for block in turn.blocks:
            if isinstance(block, ToolCallBlock):
                self._waiting.setdefault(block.id, []).append(at)
            elif isinstance(block, ToolResultBlock):
                self._answer(block.call_id, at)
        self.tokens_before.append(self.tokens_before[-1] + (estimate_turn_tokens(turn) if tokens is None else tokens))
        cut = at + 1
        if self._waiting:
            self._undecided.append(cut)
        else:
            self._undecided.clear()
            self._answered_to = 0
            self._valid.append(cut)

    def cut(self, keep_recent: int, tail_tokens: int | None = None) -> int:
        """The cut that keeps the last turns.

        Args:
            keep_recent: how many turns to keep, at least.
            tail_tokens: how much the kept turns may take; a larger tail is cut later, down to one turn. None: no limit.

        Returns:
            The number of turns to drop. 0 where nothing is to be dropped, or nothing but an earlier summary.
        """
        cut = self.at_most(len(self) - keep_recent)
        total = self.tokens_before[-1]
        if tail_tokens is not None and total - self.tokens_before[cut] > tail_tokens:
            least = bisect_left(self.tokens_before, total - tail_tokens)
            cut = max(cut, self._at_least(least))
        return 0 if cut <= self._summaries else cut

    def at_most(self, position: int) -> int:
        """The last valid cut at or before `position`; 0 always is one."""
        return self._valid[max(bisect_right(self._valid, position) - 1, 0)]

    def _at_least(self, position: int) -> int:
        """The first valid cut at or after `position` that keeps a turn; else the last one that does."""
        last = self.at_most(len(self) - 1)
        at = bisect_left(self._valid, position)
        return min(self._valid[at], last) if at < len(self._valid) else last

    def _abandon(self) -> None:
        """The calls that wait will get no answer any more: the cuts after the round's last answer are free."""
        self._valid += [cut for cut in self._undecided if cut > self._answered_to]
        self._undecided.clear()
        self._settled.update((call_id, starts[0]) for call_id, starts in self._waiting.items())
        self._waiting.clear()
        self._answered_to = 0

    def _answer(self, call_id: str, at: int) -> None:
        """A result has come at turn `at`: no cut may part it from its call."""
        starts = self._waiting.get(call_id)
        if starts is not None:
            self._settled[call_id] = starts.pop(0)
            if not starts:
                del self._waiting[call_id]
            self._answered_to = at
            return

        start = self._settled.get(call_id)
        if start is not None:
            # A result that comes late, or again: rare, so walking back costs nothing in the long run.
            del self._valid[bisect_right(self._valid, start) : bisect_right(self._valid, at)]
            if self._waiting:
                self._answered_to = at


def find_cut_point(turns: Sequence[Turn], keep_recent: int, tail_tokens: int | None = None) -> int:
    """Where to cut `turns` (seed: findCutPoint); pure, O(n). For a growing history `CutIndex` says it in O(log n).

    Args:
        turns: the history.
        keep_recent: how many of the last turns to keep, at least.
        tail_tokens: what the kept turns may take at most, in tokens; None for no limit.

    Returns:
        How many turns to drop; 0 means that there is nothing to drop.
    """
    return CutIndex(turns).cut(keep_recent, tail_tokens)

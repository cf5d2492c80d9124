"""The view that a model is sent: a history in which each call has its result right behind it.

A process that was killed, or a file that lost lines, leaves calls without results. A provider refuses such a history for
ever, so the view answers them; what is stored is never changed by it, and no result is ever dropped.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from indusagi_lsp.contract.turns import (
    TOOL,
    USER,
    Block,
    TextBlock,
    ToolCallBlock,
    ToolResultBlock,
    Turn,
)

INTERRUPTED = "interrupted; its effects are unknown"
NEVER_STARTED = "interrupted; it was never started"

Started = Callable[[int, str], bool]
"""Whether a receipt says that a call was started: the position of its turn in the path, and the call's id."""


def model_view(path: Sequence[Turn], started: Started) -> tuple[Turn, ...]:
    """Make a valid history of `path`.

    Each unanswered call is answered by an error result; a result that came late moves up to its call; a result whose
    call is lost becomes text of the user's side. Turns without blocks are left out.

    Args:
        path: the turns, root to leaf.
        started: tells what is known of an unanswered call.
    """
    taken: set[tuple[int, int]] = set()
    view: list[Turn] = []
    at = 0
    while at < len(path):
        turn = path[at]
        calls = turn.tool_calls
        at += 1
        if not calls:
            _put(view, _without_orphans(turn, at - 1, taken))
            continue

        caller = at - 1
        view.append(turn)
        open_calls = {call.id: call for call in calls}
        while at < len(path) and path[at].role == TOOL:
            _claim(path[at], at, open_calls, taken)
            _put(view, _without_orphans(path[at], at, taken, claimed=True))
            at += 1
        late = _late_results(path, at, open_calls, taken)
        results: list[Block] = [
            late.get(call_id) or _answer(call, started=started(caller, call_id)) for call_id, call in open_calls.items()
        ]
        if results:
            view.append(Turn(TOOL, tuple(results)))
    return tuple(view)


def answered(path: Iterable[Turn]) -> tuple[Turn, ...]:
    """The view of a path of which no receipts are known."""
    return model_view(tuple(path), lambda _at, _call: False)


def open_answers(path: Sequence[Turn], started: Started) -> Turn | None:
    """The turn that answers the calls at the end of `path` which have no result; None if all have one."""
    at = len(path)
    answered: set[str] = set()
    while at and path[at - 1].role == TOOL:
        answered.update(result.call_id for result in path[at - 1].tool_results)
        at -= 1
    if not at:
        return None

    blocks = [
        _answer(call, started=started(at - 1, call.id)) for call in path[at - 1].tool_calls if call.id not in answered
    ]
    return Turn(TOOL, tuple(blocks)) if blocks else None


def _answer(call: ToolCallBlock, *, started: bool) -> ToolResultBlock:
    return ToolResultBlock(call.id, INTERRUPTED if started else NEVER_STARTED, is_error=True)


def _claim(turn: Turn, at: int, open_calls: dict[str, ToolCallBlock], taken: set[tuple[int, int]]) -> None:
    """Pair the results of a turn with calls that still wait for one."""
    for number, block in enumerate(turn.blocks):
        if isinstance(block, ToolResultBlock) and (at, number) not in taken and block.call_id in open_calls:
            del open_calls[block.call_id]
            taken.add((at, number))


def _late_results(
    path: Sequence[Turn], start: int, open_calls: dict[str, ToolCallBlock], taken: set[tuple[int, int]]
) -> dict[str, ToolResultBlock]:
    """Results that came after something else was said, for calls that are still open."""
    found: dict[str, ToolResultBlock] = {}
    wanted = set(open_calls)
    for at in range(start, len(path)):
        if not wanted:
            break
        wanted.difference_update(call.id for call in path[at].tool_calls)
        for number, block in enumerate(path[at].blocks):
            if isinstance(block, ToolResultBlock) and block.call_id in wanted and (at, number) not in taken:
                found[block.call_id] = block
                wanted.discard(block.call_id)
                taken.add((at, number))
    return found


def _without_orphans(turn: Turn, at: int, taken: set[tuple[int, int]], *, claimed: bool = False) -> list[Turn]:
    """A turn without the results that went elsewhere; results that belong to no call, as text."""
    if not any(isinstance(block, ToolResultBlock) for block in turn.blocks):
        return [turn]

    if claimed and all((at, n) in taken for n, b in enumerate(turn.blocks) if isinstance(b, ToolResultBlock)):
        return [turn]

    kept: list[Block] = []
    orphans: list[Block] = []
    for number, block in enumerate(turn.blocks):
        if not isinstance(block, ToolResultBlock):
            kept.append(block)
        elif (at, number) not in taken:
            orphans.append(TextBlock(f"[result of a tool call that is not in this history any more]\n{block.output}"))
        elif claimed:
            kept.append(block)
    turns = [Turn(turn.role, tuple(kept), turn.extra)] if kept else []
    if orphans:
        turns.append(Turn(USER, tuple(orphans)))
    return turns


def _put(view: list[Turn], turns: Sequence[Turn]) -> None:
    view.extend(turn for turn in turns if turn.blocks)

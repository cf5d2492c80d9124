"""The view that a model is sent: a history in which each call has its result right behind it.

A process that was killed, or a file that lost lines, leaves calls without results. A provider refuses such a
history for ever, so the view answers them; what is stored is never changed by it, and no result is ever dropped.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TypeAlias

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

Started: TypeAlias = Callable[[int, str], bool]
"""Whether a receipt says that a call was started: the position of its turn in the path, and the call's id."""

_Place: TypeAlias = tuple[int, int]
"""A block: the position of its turn in the path, and its own in the turn."""


def model_view(path: Sequence[Turn], started: Started) -> tuple[Turn, ...]:
    """Make a valid history of `path`.

    Each unanswered call is answered by an error result; a result that came late moves up to its call; a result
    whose call is lost becomes text of the user's side. Turns without blocks are left out. A turn that needs no
    change is handed on as the same object.

    Args:
        path: the turns, root to leaf.
        started: tells what is known of an unanswered call.
    """
    return tuple(turn for turn, _ in view_with_sources(path, started))


def view_with_sources(path: Sequence[Turn], started: Started) -> list[tuple[Turn, int | None]]:
    """As `model_view`, and for each turn the position in `path` of the turn that it is (the first piece of).

    The position is None for what is no turn of the path by itself: an answer that stands in for a lost result, a result
    that moved up to its call, a further piece of a turn that was split. Positions only grow.
    """
    results, caller_of = _pair(path)
    view: list[tuple[Turn, int | None]] = []
    at = 0
    while at < len(path):
        caller, turn = at, path[at]
        view += _sourced(_split(turn, at, caller_of, None), at)
        at += 1
        if not turn.tool_calls:
            continue

        later: list[tuple[Turn, int | None]] = []
        here: set[str] = set()
        while at < len(path) and path[at].role == TOOL and not path[at].tool_calls:
            for piece, source in _sourced(_split(path[at], at, caller_of, caller), at):
                if piece.role == TOOL and piece.tool_results:
                    view.append((piece, source))
                else:
                    # It stands behind the results that follow, so it cannot count as its turn's place in the path.
                    later.append((piece, None))
                here.update(result.call_id for result in piece.tool_results)
            at += 1
        missing: dict[str, Block] = {}
        for call in turn.tool_calls:
            if call.id not in here:
                place = results.get((caller, call.id))
                answer = _answer(call, started=started(caller, call.id))
                missing[call.id] = answer if place is None else path[place[0]].blocks[place[1]]
        if missing:
            view.append((Turn(TOOL, tuple(missing.values())), None))
        view += later
    return view


def _sourced(pieces: list[Turn], at: int) -> list[tuple[Turn, int | None]]:
    """The pieces of a turn; the first of them stands for it."""
    return [(piece, at if number == 0 else None) for number, piece in enumerate(pieces)]


def answered(path: Iterable[Turn]) -> tuple[Turn, ...]:
    """The view of a path of which no receipts are known."""
    return model_view(tuple(path), lambda _at, _call: False)


def open_answers(path: Sequence[Turn], started: Started) -> Turn | None:
    """The turn that answers the calls at the end of `path` which have no result; None if all have one."""
    at = len(path)
    done: set[str] = set()
    while at and path[at - 1].role == TOOL:
        done.update(result.call_id for result in path[at - 1].tool_results)
        at -= 1
    if not at:
        return None

    calls = [call for call in path[at - 1].tool_calls if call.id not in done]
    blocks = [_answer(call, started=started(at - 1, call.id)) for call in calls]
    return Turn(TOOL, tuple(blocks)) if blocks else None


def _pair(path: Sequence[Turn]) -> tuple[dict[tuple[int, str], _Place], dict[_Place, int]]:
    """Pair each call with the first result that comes for it before its id is called again.

    Returns:
        The place of the result by the position of the calling turn and the call's id, and the reverse.
    """
    waiting: dict[str, int] = {}
    results: dict[tuple[int, str], _Place] = {}
    caller_of: dict[_Place, int] = {}
    for at, turn in enumerate(path):
        for number, block in enumerate(turn.blocks):
            if isinstance(block, ToolResultBlock) and block.call_id in waiting:
                caller = waiting.pop(block.call_id)
                results[caller, block.call_id] = (at, number)
                caller_of[at, number] = caller
        waiting.update((call.id, at) for call in turn.tool_calls)
    return results, caller_of


def _split(turn: Turn, at: int, caller_of: dict[_Place, int], caller: int | None) -> list[Turn]:
    """A turn in the pieces in which it may stand in a view.

    Behind `caller`, its results stay together and everything else of a tool turn goes into a piece of its own.
    Results of other callers stand behind those, so they are left out here; results of none become text.
    """
    results: list[Block] = []
    rest: list[Block] = []
    orphans: list[Block] = []
    for number, block in enumerate(turn.blocks):
        if not isinstance(block, ToolResultBlock):
            rest.append(block)
        elif (at, number) not in caller_of:
            orphans.append(TextBlock(f"[result of a call that is not in this history any more]\n{block.output}"))
        elif caller_of[at, number] == caller:
            results.append(block)
    if len(results) == len(turn.blocks) or len(rest) == len(turn.blocks):
        return [turn] if turn.blocks else []

    pieces: list[Turn] = []
    if results:
        pieces.append(Turn(turn.role, tuple(results), turn.extra))
    if rest:
        pieces.append(Turn(turn.role, tuple(rest), turn.extra))
    if orphans:
        pieces.append(Turn(USER, tuple(orphans)))
    return pieces


def _answer(call: ToolCallBlock, *, started: bool) -> ToolResultBlock:
    return ToolResultBlock(call.id, INTERRUPTED if started else NEVER_STARTED, is_error=True)

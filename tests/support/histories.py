"""Histories for tests of condensation: strategies, and an oracle of which call belongs to which result."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import strategies as st

from indusagi_lsp.contract.turns import (
    ASSISTANT,
    TOOL,
    USER,
    ImageBlock,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
    ToolResultBlock,
    Turn,
)

texts = st.text(max_size=40) | st.text(alphabet="ab \n", min_size=200, max_size=900) | st.just("請先運行測試 🚀 \ud800")
_TEXTS = st.sampled_from(
    [
        "",
        "ok",
        "Do it now, please.",
        "never again!\n- x\n## Done\n- y",
        "a b \n" * 150,
        "x" * 700,
        "請先運行測試 🚀 \ud800",
        "E1234: TypeError\n1.2.3",
    ]
)
paths = st.sampled_from(["/w/src/a.py", "/w/src/b, c.py", "docs/é.md", "C:\\x\\y.ts", '/w/"q".txt', "/other/z"])


@st.composite
def histories(draw: st.DrawFn, max_rounds: int = 14) -> list[Turn]:
    """A history as the wild has them: parallel calls, missing, late and doubled results, ids that come again."""
    turns: list[Turn] = []
    late: list[ToolResultBlock] = []
    number = 0
    for _ in range(draw(st.integers(0, max_rounds))):
        kind = draw(st.sampled_from(["user", "answer", "calls", "calls", "calls", "late"]))
        if kind == "user":
            blocks = [TextBlock(draw(_TEXTS))]
            if draw(st.booleans()):
                blocks.append(ImageBlock("image/png", "A" * draw(st.integers(0, 3_000))))
            turns.append(Turn(USER, tuple(blocks)))
        elif kind == "answer":
            turns.append(Turn(ASSISTANT, (ThinkingBlock(draw(_TEXTS)), TextBlock(draw(_TEXTS)))))
        elif kind == "late" and late:
            turns.append(Turn(TOOL, (late.pop(),)))
        elif kind == "calls":
            calls = []
            for _ in range(draw(st.integers(1, 3))):
                number += 1
                name = draw(st.sampled_from(["read_file", "edit", "bash", "other"]))
                arguments = {"path": draw(paths)} if name != "bash" else {"command": draw(_TEXTS)}
                call_id = f"c{number}" if draw(st.integers(0, 9)) else "again"
                calls.append(ToolCallBlock(call_id, name, arguments))
            turns.append(Turn(ASSISTANT, (TextBlock(draw(_TEXTS)), *calls)))
            results = [
                ToolResultBlock(call.id, draw(_TEXTS), draw(st.sampled_from([None, True, False]))) for call in calls
            ]
            results = draw(st.permutations(results))
            fate = draw(st.sampled_from(["all", "all", "all", "one missing", "none", "one late"]))
            if fate == "one missing":
                results = results[1:]
            elif fate == "none":
                results = []
            elif fate == "one late":
                late.append(results[0])
                results = results[1:]
            if results and draw(st.booleans()):
                turns.append(Turn(TOOL, tuple(results)))
            else:
                turns += [Turn(TOOL, (result,)) for result in results]
    return turns


def pairs(turns: Sequence[Turn]) -> list[tuple[int, int]]:
    """(index of the call's turn, index of the result's turn) of every result that has a call.

    A result belongs to an unanswered call of its id in the last turn that is not a tool's; where there is none, to the
    last call of that id before it.
    """
    found = []
    last_call: dict[str, int] = {}
    open_ids: list[str] = []
    for at, turn in enumerate(turns):
        if turn.role != TOOL:
            open_ids = [call.id for call in turn.tool_calls]
            last_call.update(dict.fromkeys(open_ids, at))
        for result in turn.tool_results:
            if result.call_id in open_ids:
                open_ids.remove(result.call_id)
            if result.call_id in last_call:
                found.append((last_call[result.call_id], at))
    return found


def parted(turns: Sequence[Turn], cut: int) -> list[tuple[int, int]]:
    """The pairs that `cut` parts; no condensation may part any."""
    return [(call, result) for call, result in pairs(turns) if call < cut <= result]


def waiting(turns: Sequence[Turn]) -> int:
    """The turn of the first call that may still get its result; the number of turns where none may.

    Calls wait only in the last turn that is not a tool's: what comes after an assistant's or user's word is abandoned.
    """
    at = len(turns) - 1
    while at >= 0 and turns[at].role == TOOL:
        at -= 1
    if at < 0:
        return len(turns)

    answered = [result.call_id for turn in turns[at + 1 :] for result in turn.tool_results]
    open_ids = [call.id for call in turns[at].tool_calls]
    for call_id in answered:
        if call_id in open_ids:
            open_ids.remove(call_id)
    return at if open_ids else len(turns)

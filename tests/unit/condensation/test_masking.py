"""The order of reduction, and what it never touches."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from indusagi_lsp.condensation import estimate_turn_tokens, reduce_turns
from indusagi_lsp.condensation.masking import NOTICE, shorten
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
    user,
)
from support.histories import histories, pairs

MARK = NOTICE.split("{}")[1]

HISTORY = [
    user("q" * 5_000),
    Turn(ASSISTANT, (ThinkingBlock("t" * 6_000), ToolCallBlock("1", "edit", {"path": "a", "text": "w" * 5_000}))),
    Turn(TOOL, (ToolResultBlock("1", "r" * 20_000),)),
    Turn(USER, (TextBlock("look"), ImageBlock("image/png", "A" * 90_000))),
    user("now do it " * 500),
    Turn(ASSISTANT, (TextBlock("x" * 9_000),)),
    Turn(ASSISTANT, (TextBlock("y"),)),
]


def size(turns: list[Turn]) -> int:
    return sum(map(estimate_turn_tokens, turns))


def test_what_fits_is_left_alone() -> None:
    outcome = reduce_turns(HISTORY, size(HISTORY))
    assert outcome.turns == tuple(HISTORY)
    assert outcome.changed == 0


def test_results_and_arguments_go_first() -> None:
    outcome = reduce_turns(HISTORY, size(HISTORY) - 4_500)
    assert MARK in outcome.turns[2].tool_results[0].output
    assert outcome.turns[1].blocks[0] == HISTORY[1].blocks[0]
    assert outcome.turns[3] == HISTORY[3]


def test_then_thinking_and_images() -> None:
    outcome = reduce_turns(HISTORY, size(HISTORY) - 7_000)
    assert not any(isinstance(block, ThinkingBlock) for turn in outcome.turns for block in turn.blocks)
    assert outcome.turns[0] == HISTORY[0]


def test_truncation_is_last_and_says_so() -> None:
    outcome = reduce_turns(HISTORY, 0)
    assert MARK in outcome.turns[0].text
    assert MARK in outcome.turns[5].text
    assert outcome.turns[4] == HISTORY[4]  # what the user said last
    assert outcome.tokens == size(list(outcome.turns)) < 4_000


def test_a_text_never_grows() -> None:
    assert shorten("a" * 120, 100) == "a" * 120
    assert len(shorten("a" * 900, 100)) < 300


@given(histories(), st.integers(0, 2_000))
def test_pairs_and_order_stay(turns: list[Turn], target: int) -> None:
    outcome = reduce_turns(turns, target, result_chars=100)
    assert len(outcome.turns) == len(turns)
    assert [turn.role for turn in outcome.turns] == [turn.role for turn in turns]
    assert pairs(outcome.turns) == pairs(turns)
    assert all(turn.blocks for turn in outcome.turns)
    assert outcome.tokens == size(list(outcome.turns)) <= max(size(turns), target)

"""Makes turns smaller without dropping them: the order of reduction before and after a summary.

1. old tool results and large arguments are masked, 2. old images and thinking are dropped, 3. what is still too large
is truncated with a notice. The user's last turn is never touched, nor is any id: every call keeps its result. What was
masked stays whole in the session's graph, and the notice says so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeAlias

import msgspec

from indusagi_lsp.condensation.estimate import estimate_block_tokens, estimate_turn_tokens, turn_bytes
from indusagi_lsp.condensation.verbatim import said_by_user
from indusagi_lsp.contract.turns import (
    Block,
    ImageBlock,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
    ToolResultBlock,
    Turn,
)

_Change: TypeAlias = Callable[[Block], Block | None]
_Step: TypeAlias = tuple[range, _Change]

NOTICE = "[... {} characters left out here; the whole is kept in the session, search for it when it is needed ...]"
IMAGE_NOTICE = "[an image was left out here; it is kept in the session]"
_LARGE_ARGUMENT = 1_000  # characters: a text in a call's arguments above this is masked
_SHORT_THINKING = 100  # characters: dropping less gains nothing
_SMALLEST = 400  # characters that truncation leaves of a text


class Reduction(msgspec.Struct, frozen=True):
    """Turns made smaller: `tokens` is their size now, `changed` the number of blocks that were touched."""

    turns: tuple[Turn, ...]
    tokens: int
    changed: int = 0


def shorten(text: str, limit: int) -> str:
    """`text` with its middle replaced by a notice, when it has more than `limit` characters and that saves some."""
    notice = NOTICE.format(len(text) - limit)
    if len(text) <= limit + len(notice) + 10:
        return text

    head = limit * 2 // 3
    return f"{text[:head]}\n{notice}\n{text[len(text) - (limit - head) :]}"


def reduce_turns(
    turns: Sequence[Turn], target: int, *, result_chars: int = 2_000, recent: int = 2, max_bytes: int | None = None
) -> Reduction:
    """Make `turns` smaller, step by step and the oldest first, until they fit.

    Args:
        turns: the history, or its tail.
        target: tokens that the turns may take.
        result_chars: what masking leaves of a tool's result, in characters.
        recent: so many of the last turns are touched only by the last step.
        max_bytes: that the turns may take; images are dropped for it, whatever their tokens. None: no limit.

    Returns:
        The turns, as many as before. They may still be larger than `target`: what the user said last is never cut.
    """
    old = range(max(len(turns) - recent, 0))
    steps: tuple[_Step, ...] = (
        (old, lambda block: _mask(block, result_chars)),
        (old, _drop_heavy),
        (range(len(turns)), lambda block: _truncate(block, _SMALLEST)),
    )
    reduced = _stepwise(turns, sum(map(estimate_turn_tokens, turns)), target, steps)
    return reduced if max_bytes is None else _without_images(reduced, max_bytes)


def _without_images(reduced: Reduction, max_bytes: int) -> Reduction:
    """The same with images left out, the oldest first, until the bytes fit."""
    over = sum(map(turn_bytes, reduced.turns)) - max_bytes
    end = 0
    while over > 0 and end < len(reduced.turns):
        over -= sum(len(block.data_base64) for block in reduced.turns[end].blocks if isinstance(block, ImageBlock))
        end += 1
    now = _stepwise(reduced.turns, reduced.tokens, 0, ((range(end), _drop_images),))
    return Reduction(now.turns, now.tokens, reduced.changed + now.changed)


def _stepwise(turns: Sequence[Turn], total: int, target: int, steps: Iterable[_Step]) -> Reduction:
    """`turns`, which take `total` tokens, with one step's change after the other made, until they fit."""
    state = list(turns)
    changed = 0
    last_said = next((at for at in range(len(state) - 1, -1, -1) if said_by_user(state[at])), -1)
    for places, change in steps:
        for at in places:
            if total <= target:
                return Reduction(tuple(state), total, changed)
            if at == last_said:
                continue

            turn, touched = _apply(state[at], change)
            if touched:
                total += estimate_turn_tokens(turn) - estimate_turn_tokens(state[at])
                changed += touched
                state[at] = turn

    return Reduction(tuple(state), total, changed)


class Masking(msgspec.Struct, frozen=True):
    """A history in which old heavy blocks are masked, and nothing is dropped.

    Attributes:
        start: the first turn that is not as it was; what is before it stays.
        turns: the turns from `start` on, as many as before.
        before: tokens of the whole history before, by the plain estimate.
        after: tokens after.
        changed: how many blocks were masked.
    """

    start: int
    turns: tuple[Turn, ...]
    before: int
    after: int
    changed: int


def mask_old(turns: Sequence[Turn], target: int, *, keep_recent: int, result_chars: int = 2_000) -> Masking | None:
    """Mask old tool results and large arguments, then old images and thinking: the reduction that loses no turn.

    Args:
        turns: the history.
        target: tokens that it may take.
        keep_recent: how many of the last turns stay as they are.
        result_chars: what stays of a tool's result, in characters.

    Returns:
        The outcome, or None where that alone does not reach the target.
    """
    before = sum(map(estimate_turn_tokens, turns))
    old = range(max(len(turns) - keep_recent, 0))
    reduced = _stepwise(turns, before, target, ((old, lambda block: _mask(block, result_chars)), (old, _drop_heavy)))
    if reduced.tokens > target or not reduced.changed:
        return None
    start = next(at for at, turn in enumerate(reduced.turns) if turn is not turns[at])
    return Masking(start, reduced.turns[start:], before, reduced.tokens, reduced.changed)


def _apply(turn: Turn, change: _Change) -> tuple[Turn, int]:
    """The turn with `change` on every block, and how many blocks that touched; never a turn without blocks."""
    blocks: list[Block] = []
    touched = 0
    for block in turn.blocks:
        new = change(block)
        touched += new is not block
        if new is not None:
            blocks.append(new)
    return msgspec.structs.replace(turn, blocks=tuple(blocks) or (TextBlock("[thinking left out]"),)), touched


def _mask(block: Block, limit: int) -> Block | None:
    """Step 1: results and large arguments."""
    if isinstance(block, ToolResultBlock):
        output = shorten(block.output, limit)
        return block if output is block.output else msgspec.structs.replace(block, output=output)
    if isinstance(block, ToolCallBlock):
        smaller = _smaller_arguments(block.input, _LARGE_ARGUMENT)
        return block if smaller is block.input else msgspec.structs.replace(block, input=smaller)
    return block


def _smaller_arguments(value: Any, limit: int) -> Any:
    """JSON data with its long texts shortened; the very same object where there are none."""
    if isinstance(value, str):
        return shorten(value, limit)
    if isinstance(value, dict):
        smaller = {name: _smaller_arguments(item, limit) for name, item in value.items()}
        return value if all(smaller[name] is item for name, item in value.items()) else smaller
    if isinstance(value, list):
        items = [_smaller_arguments(item, limit) for item in value]
        return value if all(new is item for new, item in zip(items, value, strict=True)) else items
    return value


def _drop_images(block: Block) -> Block | None:
    """An image becomes a word about it."""
    return TextBlock(IMAGE_NOTICE) if isinstance(block, ImageBlock) else block


def _drop_heavy(block: Block) -> Block | None:
    """Step 2: images and thinking."""
    if isinstance(block, ImageBlock):
        return _drop_images(block)
    return None if isinstance(block, ThinkingBlock) and len(block.text) > _SHORT_THINKING else block


def _truncate(block: Block, limit: int) -> Block | None:
    """Step 3: whatever is still long."""
    if estimate_block_tokens(block) * 4 <= limit:
        return block
    if isinstance(block, TextBlock):
        text = shorten(block.text, limit)
        return block if text is block.text else msgspec.structs.replace(block, text=text)
    if isinstance(block, ToolCallBlock):
        smaller = _smaller_arguments(block.input, limit)
        return block if smaller is block.input else msgspec.structs.replace(block, input=smaller)
    return _mask(block, limit)

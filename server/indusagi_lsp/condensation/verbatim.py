"""What a condensation keeps word for word out of the turns that it drops: pins, and the user's last turn.

They travel as further blocks of the summary's turn, each group behind a block that says what it is, so the history
stays `[summary, *tail]` and a later condensation can carry them on.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from indusagi_lsp.condensation.cut import is_summary
from indusagi_lsp.contract.jsontext import dumps
from indusagi_lsp.contract.turns import (
    USER,
    Block,
    ImageBlock,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
    ToolResultBlock,
    Turn,
)

LAST_MARK = "[kept word for word: the user's last turn before what follows]"
PIN_MARK = "[kept word for word: a pinned turn of the {}]"
_PIN_START = PIN_MARK.partition("{}")[0]


class Kept(msgspec.Struct, frozen=True):
    """Blocks that are carried on: `pins` for ever, `last` until the user says something newer."""

    pins: tuple[Block, ...] = ()
    last: tuple[Block, ...] = ()

    @property
    def blocks(self) -> tuple[Block, ...]:
        """All of them, behind the block of the summary's text."""
        return self.pins + ((TextBlock(LAST_MARK), *self.last) if self.last else ())


def said_by_user(turn: Turn) -> bool:
    """Whether a person spoke in this turn: role user, and neither a summary nor results alone."""
    return (
        turn.role == USER and not is_summary(turn) and any(isinstance(b, TextBlock | ImageBlock) for b in turn.blocks)
    )


def kept_in(summary: Turn) -> Kept:
    """What an earlier summary's turn carries."""
    pins: list[Block] = []
    last: list[Block] = []
    into = pins
    for block in summary.blocks[1:]:
        text = block.text if isinstance(block, TextBlock) else ""
        if text == LAST_MARK:
            into = last
            continue
        if text.startswith(_PIN_START):
            into = pins
        into.append(block)
    return Kept(tuple(pins), tuple(last))


def keep(dropped: Sequence[Turn], tail: Iterable[Turn], pins: Iterable[Turn]) -> Kept:
    """What must be carried on when `dropped` goes.

    Args:
        dropped: the turns that are dropped; an earlier summary may be the first of them.
        tail: the turns that stay.
        pins: those of `dropped` that are kept word for word.

    Returns:
        The blocks for the new summary's turn.
    """
    earlier = Kept()
    for turn in dropped:
        if is_summary(turn):
            carried = kept_in(turn)
            earlier = Kept(earlier.pins + carried.pins, carried.last or earlier.last)
    blocks = list(earlier.pins)
    for turn in pins:
        blocks += [TextBlock(PIN_MARK.format(turn.role)), *map(plain_block, turn.blocks)]
    if any(map(said_by_user, tail)):
        return Kept(tuple(blocks))

    last = next((turn.blocks for turn in reversed(dropped) if said_by_user(turn)), earlier.last)
    return Kept(tuple(blocks), last)


def plain_block(block: Block) -> Block:
    """The block as it may stand in a user's turn: calls, results and thinking become text."""
    if isinstance(block, ToolCallBlock):
        return TextBlock(f"calls {block.name} with {dumps(block.input).decode('utf-8', 'replace')}")
    if isinstance(block, ToolResultBlock):
        return TextBlock(f"result:\n{block.output}")
    return TextBlock(block.text) if isinstance(block, ThinkingBlock) else block

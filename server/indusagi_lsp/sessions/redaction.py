"""Secrets of known shapes, taken out of turns before they are hashed and stored."""

from __future__ import annotations

from typing import Any

import msgspec

from indusagi_lsp.contract.secrets import redact
from indusagi_lsp.contract.turns import Block, TextBlock, ThinkingBlock, ToolCallBlock, ToolResultBlock, Turn


def redact_data(value: Any) -> Any:
    """JSON data with `redact` done on every text; what holds no secret is returned as it is."""
    if isinstance(value, str):
        return redact(value)

    if isinstance(value, dict):
        changed = {key: redact_data(item) for key, item in value.items()}
        return changed if any(changed[key] is not value[key] for key in value) else value

    if isinstance(value, list):
        items = [redact_data(item) for item in value]
        return items if any(new is not old for new, old in zip(items, value, strict=True)) else value

    return value


def redact_turn(turn: Turn) -> Turn:
    """The turn without secrets of known shapes; images and blocks of unknown kinds stay as they are."""
    blocks = tuple(map(_redact_block, turn.blocks))
    if all(new is old for new, old in zip(blocks, turn.blocks, strict=True)):
        return turn

    return msgspec.structs.replace(turn, blocks=blocks)


def _redact_block(block: Block) -> Block:
    if isinstance(block, TextBlock):
        text = redact(block.text)
        return block if text is block.text else msgspec.structs.replace(block, text=text)

    if isinstance(block, ThinkingBlock):
        text = redact(block.text)
        # The signature is over the text as it was: without it, the thought is not sent back to its provider.
        return block if text is block.text else msgspec.structs.replace(block, text=text, signature=None)

    if isinstance(block, ToolCallBlock):
        data = redact_data(block.input)
        return block if data is block.input else msgspec.structs.replace(block, input=data)

    if isinstance(block, ToolResultBlock):
        output = redact(block.output)
        return block if output is block.output else msgspec.structs.replace(block, output=output)

    return block

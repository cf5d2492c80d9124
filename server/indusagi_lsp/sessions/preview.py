"""A turn in one short line, for lists and trees."""

from __future__ import annotations

from indusagi_lsp.contract.turns import ImageBlock, TextBlock, ThinkingBlock, ToolCallBlock, ToolResultBlock, Turn

PREVIEW_CHARS = 120


def preview(turn: Turn) -> str:
    """The begin of what a turn says, without the context that was put before it; empty if it says nothing."""
    for block in turn.blocks:
        if isinstance(block, TextBlock) and "context" in block.extra:
            continue
        if isinstance(block, (TextBlock, ThinkingBlock)):
            text = block.text
        elif isinstance(block, ToolCallBlock):
            text = f"{block.name}(…)"
        elif isinstance(block, ToolResultBlock):
            text = block.output
        elif isinstance(block, ImageBlock):
            text = "(image)"
        else:
            text = "(unknown block)"
        line = short(text)
        if line:
            return line
    return ""


def short(text: str) -> str:
    """The begin of a text, on one line."""
    line = " ".join(text[: PREVIEW_CHARS * 4].split())
    return line if len(line) <= PREVIEW_CHARS else f"{line[: PREVIEW_CHARS - 1]}…"

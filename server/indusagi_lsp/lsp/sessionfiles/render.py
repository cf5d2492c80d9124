"""How a record of a session file reads in a hover: as Markdown in which foreign text can only be text.

What somebody else wrote stands in fences that it cannot close, with its hidden characters made visible, so that a hover
loads no image and offers no link.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Any

from indusagi_lsp.condensation import estimate_turn_tokens
from indusagi_lsp.contract.jsontext import dumps
from indusagi_lsp.contract.text import visible, visible_line
from indusagi_lsp.contract.turns import (
    Block,
    ImageBlock,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
    ToolResultBlock,
    Turn,
    block_to_json,
)

MAX_CHARS = 20_000
"""Of one block in a hover; more is no reading but scrolling."""

_FENCES = re.compile(r"`{3,}")


def turn_markdown(node: str, turn: Turn, created_at: int, *, verified: bool) -> str:
    """A turn, decoded."""
    tokens = estimate_turn_tokens(turn)
    parts = [f"**{code_span(turn.role)}** · {moment(created_at)} · about {tokens:,} tokens · {code_span(node)}"]
    if not verified:
        parts.append("**Changed after it was written:** its id is not the hash of this content.")
    parts += [_block(block) for block in turn.blocks] or ["(no blocks)"]
    return "\n\n".join(parts)


def record_markdown(kind: str, raw: Any) -> str:
    """A record that is no turn, as JSON by lines."""
    if not isinstance(raw, dict):
        return f"**{code_span(kind)}**"
    text = "\n".join(f"{name}: {_json(value)}" for name, value in raw.items() if name != "type")
    return f"**{code_span(kind)}**\n\n{fenced(text)}"


def fenced(text: str, language: str = "text") -> str:
    """A text in a fence that is longer than any in it."""
    shown = visible(text[:MAX_CHARS])
    if len(text) > MAX_CHARS:
        shown += f"\n… {len(text) - MAX_CHARS:,} more characters"
    longest = max((len(run) for run in _FENCES.findall(shown)), default=2)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{language}\n{shown}\n{fence}"


def code_span(text: str) -> str:
    """A short foreign text within a sentence of Markdown."""
    return "`" + visible_line(text, 200).replace("`", "'") + "`" if text else "(nothing)"


def moment(milliseconds: int) -> str:
    """A time as people read it, in UTC."""
    try:
        return datetime.fromtimestamp(milliseconds / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    except (ValueError, OverflowError, OSError):
        return "no known time"


def _block(block: Block) -> str:
    if isinstance(block, TextBlock):
        return fenced(block.text, "markdown")
    if isinstance(block, ThinkingBlock):
        return f"*thinking*\n\n{fenced(block.text)}"
    if isinstance(block, ToolCallBlock):
        return f"*calls* {code_span(block.name)} ({code_span(block.id)})\n\n{fenced(_json(block.input), 'json')}"
    if isinstance(block, ToolResultBlock):
        failed = ", which failed" if block.is_error else ""
        return f"*result of* {code_span(block.call_id)}{failed}\n\n{fenced(block.output)}"
    if isinstance(block, ImageBlock):
        return f"*image* {code_span(block.media_type)}, {len(block.data_base64) * 3 // 4:,} bytes"
    return fenced(_json(block_to_json(block)), "json")


def _json(value: Any) -> str:
    try:
        return dumps(value).decode("utf-8")
    except (ValueError, TypeError):
        return repr(value)

"""How many tokens a conversation takes, without a tokenizer.

The seed's rule is `ceil(characters / 4)` and 4 per turn. It holds for prose and code; it is far too low for Chinese,
Japanese and Korean, and somewhat for JSON. So text that is not ASCII is weighed by script, and JSON by its own ratio.
The weights were fitted to o200k; `benchmarks/condensation.py` keeps the reference counts.
"""

from __future__ import annotations

import string
from collections.abc import Iterable
from typing import Any

import msgspec

from indusagi_lsp.contract.jsontext import dumps
from indusagi_lsp.contract.models import ToolSpec
from indusagi_lsp.contract.turns import (
    Block,
    ImageBlock,
    OtherBlock,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
    ToolResultBlock,
    Turn,
)

TURN_TOKENS = 4
"""What a turn costs beside its text: role and separators."""

IMAGE_TOKENS = 1_600
"""An image, whatever its base64 weighs: providers scale images down, and this is about the largest that comes out."""

TOOL_TOKENS = 12
"""What a tool costs beside its name, description and schema."""

CALL_TOKENS = 8
"""What a tool call or a result costs beside its text: its id and its wrapping."""

JSON_CHARS = 4.5
"""Characters of JSON per token where a mark (quote, brace, slash, backslash...) counts as two characters."""

# Tokens per character beyond ASCII, told by the first byte of its UTF-8: Latin, Cyrillic, Arabic...; South Asian
# scripts and punctuation, arrows, boxes; Chinese and kana; Hangul; emoji and the rest.
_WEIGHTS = (
    (bytes(range(0xC2, 0xE0)), 0.32),
    (bytes(range(0xE0, 0xE3)), 0.60),
    (bytes(range(0xE3, 0xEA)), 0.72),
    (bytes(range(0xEA, 0xEE)), 0.62),
    (bytes(range(0xEE, 0xF5)), 1.50),
)
_ASCII = bytes(range(0x80))
_NOT_MARKS = bytes(byte for byte in range(0x100) if chr(byte) not in string.punctuation)


def estimate_text_tokens(text: str) -> int:
    """The tokens of one text; ASCII costs O(1), other text one pass in C.

    Args:
        text: any text, lone surrogates included.

    Returns:
        `ceil(characters / 4)` for ASCII; for other text the characters weighed by script.
    """
    if text.isascii():
        return (len(text) + 3) // 4

    data = text.encode("utf-8", "surrogatepass")
    beyond, tokens = _beyond_ascii(data)
    return int((len(data) - beyond) / 4 + tokens) + 1


def _beyond_ascii(data: bytes) -> tuple[int, float]:
    """How many bytes of UTF-8 are not ASCII, and how many tokens they make."""
    beyond = data.translate(None, _ASCII)
    return len(beyond), sum(weight * (len(beyond) - len(beyond.translate(None, leads))) for leads, weight in _WEIGHTS)


def estimate_json_tokens(value: Any) -> int:
    """The tokens of JSON data, as it would be written."""
    data = dumps(value)
    beyond, tokens = (0, 0.0) if data.isascii() else _beyond_ascii(data)
    marks = len(data.translate(None, _NOT_MARKS))
    return int((len(data) - beyond + marks) / JSON_CHARS + tokens) + 1


def estimate_block_tokens(block: Block) -> int:
    """The tokens of one block."""
    if isinstance(block, TextBlock | ThinkingBlock):
        return estimate_text_tokens(block.text)
    if isinstance(block, ToolResultBlock):
        return estimate_text_tokens(block.output) + CALL_TOKENS
    if isinstance(block, ToolCallBlock):
        return estimate_text_tokens(block.name) + estimate_json_tokens(block.input) + CALL_TOKENS
    if isinstance(block, ImageBlock):
        return IMAGE_TOKENS
    return estimate_json_tokens(block.raw)


def estimate_turn_tokens(turn: Turn) -> int:
    """The tokens of one turn: its blocks, and a surcharge."""
    total = TURN_TOKENS
    for block in turn.blocks:
        total += estimate_block_tokens(block)
    return total


def estimate_fixed_tokens(system: str = "", tools: Iterable[ToolSpec] = ()) -> int:
    """The tokens that every prompt pays before the first turn: the system prompt and the tools' schemas."""
    total = estimate_text_tokens(system) + TURN_TOKENS if system else 0
    for tool in tools:
        total += TOOL_TOKENS + estimate_text_tokens(tool.name) + estimate_text_tokens(tool.description)
        total += estimate_json_tokens(msgspec.to_builtins(tool.input_schema))
    return total


def estimate_context_tokens(turns: Iterable[Turn], *, system: str = "", tools: Iterable[ToolSpec] = ()) -> int:
    """The tokens of a whole prompt, by characters alone (seed: estimateContextTokens).

    Args:
        turns: what would be sent.
        system: the system prompt.
        tools: the tools whose schemas are sent along.

    Returns:
        Tokens. `ContextMeter` is the incremental form, and the better one once a provider has reported usage.
    """
    return estimate_fixed_tokens(system, tools) + sum(map(estimate_turn_tokens, turns))


def turn_bytes(turn: Turn) -> int:
    """About how many bytes the turn takes in a request: characters of text, and the base64 of images in full."""
    total = 0
    for block in turn.blocks:
        if isinstance(block, TextBlock | ThinkingBlock):
            total += len(block.text)
        elif isinstance(block, ToolResultBlock):
            total += len(block.output)
        elif isinstance(block, ImageBlock):
            total += len(block.data_base64)
        elif isinstance(block, ToolCallBlock):
            total += len(dumps(block.input))
        elif isinstance(block, OtherBlock):
            total += len(dumps(block.raw))
    return total

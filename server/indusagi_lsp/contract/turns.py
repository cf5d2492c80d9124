"""Turns and blocks: what a conversation is made of, and how they read and write as JSON.

A `Turn` is immutable. What we do not know (a block kind, a field) is kept and written back unchanged, since a session
file may come from a newer version or from another tool (session format, "Records").
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar, Literal, TypeAlias

import msgspec

Role: TypeAlias = str
"""`user`, `assistant`, `tool`, or `system` where a caller puts one."""

USER: Literal["user"] = "user"
ASSISTANT: Literal["assistant"] = "assistant"
TOOL: Literal["tool"] = "tool"
SYSTEM: Literal["system"] = "system"

_NO_EXTRA: Mapping[str, Any] = {}


class TextBlock(msgspec.Struct, frozen=True, gc=False):
    """Plain text, said by the turn's role."""

    kind: ClassVar[str] = "text"
    text: str
    extra: Mapping[str, Any] = _NO_EXTRA


class ThinkingBlock(msgspec.Struct, frozen=True, gc=False):
    """The model's visible reasoning; `signature` is the provider's proof, sent back unchanged."""

    kind: ClassVar[str] = "thinking"
    text: str
    signature: str | None = None
    extra: Mapping[str, Any] = _NO_EXTRA


class ToolCallBlock(msgspec.Struct, frozen=True, gc=False):
    """A request of the model to run a tool; `input` is JSON data, normally an object."""

    kind: ClassVar[str] = "tool_call"
    id: str
    name: str
    input: Any
    extra: Mapping[str, Any] = _NO_EXTRA


class ToolResultBlock(msgspec.Struct, frozen=True, gc=False):
    """What came of the call `call_id`. `is_error` is None where the writer left it out."""

    kind: ClassVar[str] = "tool_result"
    call_id: str
    output: str
    is_error: bool | None = None
    extra: Mapping[str, Any] = _NO_EXTRA


class ImageBlock(msgspec.Struct, frozen=True, gc=False):
    """An image, base64 in `data_base64`."""

    kind: ClassVar[str] = "image"
    media_type: str
    data_base64: str
    extra: Mapping[str, Any] = _NO_EXTRA


class OtherBlock(msgspec.Struct, frozen=True, gc=False):
    """A block that we do not understand, kept as it is."""

    kind: ClassVar[str] = "other"
    raw: Any


Block: TypeAlias = TextBlock | ThinkingBlock | ToolCallBlock | ToolResultBlock | ImageBlock | OtherBlock


class Turn(msgspec.Struct, frozen=True, gc=False):
    """One turn of a conversation: a role and its blocks, immutable."""

    role: Role
    blocks: tuple[Block, ...] = ()
    extra: Mapping[str, Any] = _NO_EXTRA

    @property
    def text(self) -> str:
        """The turn's text blocks, joined by line ends."""
        return "\n".join(block.text for block in self.blocks if isinstance(block, TextBlock))

    @property
    def tool_calls(self) -> tuple[ToolCallBlock, ...]:
        """The calls in this turn, in order."""
        return tuple(block for block in self.blocks if isinstance(block, ToolCallBlock))

    @property
    def tool_results(self) -> tuple[ToolResultBlock, ...]:
        """The results in this turn, in order."""
        return tuple(block for block in self.blocks if isinstance(block, ToolResultBlock))


def user(text: str) -> Turn:
    """A user's turn of one text block."""
    return Turn(USER, (TextBlock(text),))


def assistant(text: str) -> Turn:
    """An assistant's turn of one text block."""
    return Turn(ASSISTANT, (TextBlock(text),))


# Per block kind: the struct, and its fields as (JSON name, attribute, type that the value must have, optional).
_SHAPES: dict[str, tuple[type[Any], tuple[tuple[str, str, type | None, bool], ...]]] = {
    "text": (TextBlock, (("text", "text", str, False),)),
    "thinking": (ThinkingBlock, (("text", "text", str, False), ("signature", "signature", str, True))),
    "tool_call": (
        ToolCallBlock,
        (("id", "id", str, False), ("name", "name", str, False), ("input", "input", None, False)),
    ),
    "tool_result": (
        ToolResultBlock,
        (
            ("callId", "call_id", str, False),
            ("output", "output", str, False),
            ("isError", "is_error", bool, True),
        ),
    ),
    "image": (
        ImageBlock,
        (("mediaType", "media_type", str, False), ("dataBase64", "data_base64", str, False)),
    ),
}


def block_from_json(raw: Any) -> Block:
    """Read a block; what does not fit a known kind comes back as `OtherBlock`, never as an error."""
    kind = raw.get("kind") if isinstance(raw, dict) else None
    shape = _SHAPES.get(kind) if isinstance(kind, str) else None
    if shape is None:
        return OtherBlock(raw)

    cls, fields = shape
    values: dict[str, Any] = {}
    for name, attribute, wanted, optional in fields:
        if name not in raw:
            if optional:
                continue
            return OtherBlock(raw)
        if wanted is not None and type(raw[name]) is not wanted:
            return OtherBlock(raw)
        values[attribute] = raw[name]
    if len(raw) > len(values) + 1:
        known = {"kind", *(name for name, *_ in fields)}
        values["extra"] = {name: value for name, value in raw.items() if name not in known}
    block: Block = cls(**values)
    return block


def block_to_json(block: Block) -> Any:
    """Write a block as JSON data: `kind` first, then its fields in the session format's order, then what was extra."""
    if type(block) is TextBlock:
        # Most blocks are plain text, and every turn passes here on its way to the disk and to the wire.
        return (
            {"kind": "text", "text": block.text, **block.extra} if block.extra else {"kind": "text", "text": block.text}
        )
    if isinstance(block, OtherBlock):
        return block.raw

    data: dict[str, Any] = {"kind": block.kind}
    for name, attribute, _, optional in _SHAPES[block.kind][1]:
        value = getattr(block, attribute)
        if not (optional and value is None):
            data[name] = value
    if block.extra:
        data.update(block.extra)
    return data


def turn_from_json(raw: Any) -> Turn:
    """Read a turn.

    Args:
        raw: decoded JSON, an object with `role` and `blocks`.

    Returns:
        The turn, with unknown blocks and fields kept.

    Raises:
        ValueError: it is no object, has no textual role, or `blocks` is no list.
    """
    if not isinstance(raw, dict):
        raise ValueError("a turn must be an object")
    role, blocks = raw.get("role"), raw.get("blocks")
    if not isinstance(role, str):
        raise ValueError("a turn needs a text `role`")
    if not isinstance(blocks, list):
        raise ValueError("a turn needs a list `blocks`")
    extra = (
        {name: value for name, value in raw.items() if name not in ("role", "blocks")} if len(raw) > 2 else _NO_EXTRA
    )
    return Turn(role, tuple(map(block_from_json, blocks)), extra)


def turn_to_json(turn: Turn) -> dict[str, Any]:
    """Write a turn as JSON data: `role`, `blocks`, then what was extra."""
    data: dict[str, Any] = {"role": turn.role, "blocks": [block_to_json(block) for block in turn.blocks]}
    if turn.extra:
        data.update(turn.extra)
    return data


def unanswered_calls(turns: Iterable[Turn]) -> tuple[ToolCallBlock, ...]:
    """The tool calls of `turns` that no later result answers, in order."""
    open_calls: dict[str, ToolCallBlock] = {}
    for turn in turns:
        for block in turn.blocks:
            if isinstance(block, ToolCallBlock):
                open_calls[block.id] = block
            elif isinstance(block, ToolResultBlock):
                open_calls.pop(block.call_id, None)
    return tuple(open_calls.values())

"""Nodes: the content hash that is a node's id, and the line in which a node stands on disk.

A node's line is laid out so that its canonical bytes, those that the id is the hash of, lie contiguous in it. An index
then needs fixed offsets only, and a hash is verified over a slice, without parsing.
"""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256
from typing import Any, TypeAlias

import msgspec
import orjson

from indusagi_lsp.contract import jsontext
from indusagi_lsp.contract.canonical import canonical_json, is_lossless, is_plain
from indusagi_lsp.contract.turns import OtherBlock, ToolCallBlock, Turn, turn_from_json, turn_to_json

TurnLike: TypeAlias = Turn | Mapping[str, Any]

ID_LENGTH = 32
"""Hex digits of an id: the first half of a SHA-256."""

NODE_PREFIX = b'{"type":"node","node":{"id":"'
ID_END = len(NODE_PREFIX) + ID_LENGTH
BODY_START = ID_END + 2
"""Where the hashed text stands in a line, but for its first brace."""

_ROOT_START = b'"parent":null,"turn":'


class Node(msgspec.Struct, frozen=True, gc=False):
    """One turn in its place in the conversation.

    `created_at` is in milliseconds since the epoch. `verified` says whether the id is the hash of the content. `gap`
    says that the file has lost this node's parent: the history above it is missing.
    """

    id: str
    parent: str | None
    turn: Turn
    created_at: int
    verified: bool = True
    gap: bool = False


def as_turn(turn: TurnLike) -> Turn:
    """Take a turn, or a plain dict in the session format, as a turn.

    Raises:
        ValueError: the dict is no turn.
    """
    return turn if isinstance(turn, Turn) else turn_from_json(turn)


def hash_node(parent: str | None, turn: TurnLike, created_at: int) -> str:
    """The id of a node: the first 32 hex digits of the SHA-256 of its canonical text.

    Args:
        parent: the parent's id, None for a root.
        turn: the turn, or a dict whose keys are hashed in their own order.
        created_at: milliseconds since the epoch.
    """
    return id_of(node_text(parent, turn, created_at))


def id_of(text: bytes) -> str:
    """The id that belongs to a node's canonical text."""
    return sha256(text).hexdigest()[:ID_LENGTH]


def node_text(parent: str | None, turn: TurnLike, created_at: int) -> bytes:
    """The canonical text of a node: `{"parent":…,"turn":…,"createdAt":…}` as JSON.stringify writes it."""
    # Joining copies the text once; formatting would copy it in pieces that grow.
    return b"".join((b"{", _before_turn(parent), _turn_text(turn), b',"createdAt":%d}' % created_at))


def new_node(parent: str | None, turn: Turn, created_at: int) -> tuple[str, int, bytes]:
    """The id of a node, the length of its canonical text, and its line: of one encoding of the turn.

    Raises:
        ValueError: the turn is nested too deep to be written.
    """
    start, end = _before_turn(parent), b',"createdAt":%d}' % created_at
    plain = _turn_plain(turn)
    text = _turn_text(turn, plain=plain)
    body = b"".join((b"{", start, text, end))
    node_id = id_of(body)
    if plain:
        return node_id, len(body), b"".join((NODE_PREFIX, node_id.encode(), b'",', start, text, end, b"}\n"))
    return node_id, len(body), node_line(node_id, body, turn, parent, created_at)


def node_line(node_id: str, text: bytes, turn: Turn, parent: str | None, created_at: int) -> bytes:
    """The line that keeps a node, with its line end.

    Where the canonical text would round a number of the turn, the line holds the exact one instead; such a line is
    verified the slow way.
    """
    if not _turn_lossless(turn):
        node = {"id": node_id, "parent": parent, "turn": turn_to_json(turn), "createdAt": created_at}
        try:
            return jsontext.dumps({"type": "node", "node": node}) + b"\n"
        except ValueError:
            pass  # NaN, which JSON cannot hold: null stands in its place, as JavaScript has it

    return b"".join((NODE_PREFIX, node_id.encode(), b'",', memoryview(text)[1:], b"}\n"))


def _before_turn(parent: str | None) -> bytes:
    """What stands before the turn in the canonical text, but for the first brace."""
    if parent is None:
        return _ROOT_START
    if parent.isalnum() and parent.isascii():
        return b'"parent":"%b","turn":' % parent.encode()
    return b'"parent":%b,"turn":' % canonical_json(parent)


def _turn_text(turn: TurnLike, *, plain: bool | None = None) -> bytes:
    if not isinstance(turn, Turn):
        return canonical_json(turn)

    data = turn_to_json(turn)
    if _turn_plain(turn) if plain is None else plain:
        try:
            return orjson.dumps(data)
        except orjson.JSONEncodeError:
            pass
    return canonical_json(data)


def _turn_plain(turn: Turn) -> bool:
    # Only these parts can hold numbers or keys of somebody else's choice; the rest is text.
    for block in turn.blocks:
        if isinstance(block, ToolCallBlock):
            if not is_plain(block.input):
                return False
        elif isinstance(block, OtherBlock):
            if not is_plain(block.raw):
                return False
            continue
        if block.extra and not is_plain(block.extra):
            return False
    return not turn.extra or is_plain(turn.extra)


def _turn_lossless(turn: Turn) -> bool:
    return _turn_plain(turn) or is_lossless(turn_to_json(turn))

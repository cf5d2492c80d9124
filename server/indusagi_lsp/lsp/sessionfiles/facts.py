"""Facts: what one line of a session file holds, without its texts.

A line in our own layout is decoded once and its id checked over a slice; every other line takes the loader's way, so
that a welded or torn line is seen here just as it is when the session is opened.
"""

from __future__ import annotations

import re
from hashlib import sha256
from typing import Any

import msgspec
import orjson

from indusagi_lsp.contract.canonical import canonical_json
from indusagi_lsp.contract.text import visible_line
from indusagi_lsp.contract.turns import Turn
from indusagi_lsp.sessions.nodes import BODY_START, ID_LENGTH, NODE_PREFIX, id_of
from indusagi_lsp.sessions.preview import preview, short
from indusagi_lsp.sessions.records import Problem, Record, as_tail, parse_line
from indusagi_lsp.sessions.scan import narrow_node

_USUAL = b'{"type":"'
_USUAL_END = b"}\n"
_NODE_END = b"}}\n"
# What has no glyph although Python calls it printable.
_INVISIBLE = re.compile("[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u3164\ufe00-\ufe0f\uffa0]")
_NONE: tuple[str, ...] = ()
_NAMING = {"label": ("node",), "usage": ("node",), "receipt": ("node",), "condense": ("summary", "from")}


class Fact(msgspec.Struct, frozen=True, gc=False):
    """One record of a line, or a piece of it that is none.

    Attributes:
        kind: the record's type, or `problem`.
        offset: where it begins in the line, in bytes of UTF-8.
        length: its bytes.
        whole: whether it fills its line, as a writer meant it.
        id: of a node: its id; of a head: the leaf; of a problem: its code.
        parent: of a node.
        title: of a node: role and the begin of what was said; of a problem: what is wrong; else what to list.
        names: further nodes that the record names.
        calls, results: ids of the tool calls that a node makes and answers.
        verified: whether a node's id is the hash of its content.
    """

    kind: str
    offset: int
    length: int
    whole: bool = True
    id: str | None = None
    parent: str | None = None
    role: str = ""
    title: str = ""
    names: tuple[str, ...] = _NONE
    calls: tuple[str, ...] = _NONE
    results: tuple[str, ...] = _NONE
    verified: bool = True


def facts_of(line: str) -> tuple[Fact, ...]:
    """What a line holds.

    Args:
        line: with its end; without one it is the last of the file, and may be torn.
    """
    data = line.encode("utf-8", "surrogatepass")
    if data.startswith(_USUAL) and data.endswith(_USUAL_END):
        fact = _quick(data)
        if fact is not None:
            return (fact,)
    items = parse_line(data, 0)
    if not data.endswith(b"\n"):
        items = as_tail(items)
    return tuple(_problem(item) if isinstance(item, Problem) else _record(item) for item in items)


def turn_at(line: str, fact: Fact) -> tuple[Turn, int] | None:
    """The turn of a node's fact, and when it was said, in milliseconds since the epoch."""
    raw = raw_at(line, fact)
    found = narrow_node(raw) if isinstance(raw, dict) else None
    return None if found is None else found[2:]


def raw_at(line: str, fact: Fact) -> Any:
    """The JSON of a fact; None where there is none."""
    data = line.encode("utf-8", "surrogatepass")
    for item in parse_line(data, 0):
        if isinstance(item, Record) and item.offset == fact.offset:
            return item.raw
    return None


def _quick(data: bytes) -> Fact | None:
    """A record alone on its line, a node in our own layout with the right id; else it is left to the slow way."""
    try:
        raw = orjson.loads(data)
    except orjson.JSONDecodeError:
        return None
    if not data.startswith(NODE_PREFIX):
        return _record(Record(raw, 0, len(data) - 1))
    digest = sha256(b"{")
    digest.update(memoryview(data)[BODY_START:-2])
    if not data.endswith(_NODE_END) or digest.hexdigest()[:ID_LENGTH] != raw["node"].get("id"):
        return None
    return _plain(raw["node"], len(data) - 1) or _node(raw, 0, len(data) - 1, whole=True, verified=True)


def _plain(node: dict[str, Any], length: int) -> Fact | None:
    """A turn of one text, which most are, without building it."""
    turn, parent = node.get("turn"), node.get("parent")
    if type(turn) is not dict or type(node.get("createdAt")) is not int or not (parent is None or type(parent) is str):
        return None
    role, blocks = turn.get("role"), turn.get("blocks")
    if type(role) is not str or type(blocks) is not list or len(blocks) != 1 or type(blocks[0]) is not dict:
        return None
    text = blocks[0].get("text")
    if blocks[0].get("kind") != "text" or type(text) is not str or "context" in blocks[0]:
        return None
    return Fact("node", 0, length, id=node["id"], parent=parent, role=role, title=_title(short(text)))


def _title(text: str) -> str:
    plain = text.isprintable() and (text.isascii() or _INVISIBLE.search(text) is None)
    return text if plain else visible_line(text)


def _record(record: Record) -> Fact:
    raw, kind = record.raw, record.raw.get("type")
    if kind == "node":
        found = _node(raw, record.offset, record.length, whole=record.whole, verified=_is_hash(raw))
        if found is not None:
            return found
        text = "A node without a usable id, parent, turn or time."
        return Fact("problem", record.offset, record.length, id="bad_node", title=text)
    place = (record.offset, record.length, record.whole)
    if not isinstance(kind, str):
        return Fact("problem", record.offset, record.length, id="malformed", title="A record without a type.")
    if kind == "head":
        leaf, why = raw.get("leaf"), raw.get("why")
        if leaf is not None and not isinstance(leaf, str):
            return Fact("problem", record.offset, record.length, id="malformed", title="A head without a leaf.")
        return Fact("head", *place, id=leaf, title=visible_line(str(why or "head"), 40))
    names = tuple(raw[name] for name in _NAMING.get(kind, ()) if isinstance(raw.get(name), str))
    title = raw.get("name") if kind == "label" else raw.get("title") if kind == "session" else None
    return Fact(visible_line(kind, 40), *place, names=names, title=visible_line(str(title or ""), 80))


def _node(raw: dict[str, Any], offset: int, length: int, *, whole: bool, verified: bool) -> Fact | None:
    found = narrow_node(raw)
    if found is None:
        return None
    node, parent, turn, _ = found
    calls, results = turn.tool_calls, turn.tool_results
    return Fact(
        "node",
        offset,
        length,
        whole,
        node,
        parent,
        turn.role,
        _title(preview(turn)),
        _NONE,
        tuple(call.id for call in calls) if calls else _NONE,
        tuple(result.call_id for result in results) if results else _NONE,
        verified,
    )


def _is_hash(raw: dict[str, Any]) -> bool:
    try:
        node = raw["node"]
        hashed = {"parent": node["parent"], "turn": node["turn"], "createdAt": node["createdAt"]}
        return bool(id_of(canonical_json(hashed)) == node["id"])
    except (KeyError, TypeError, ValueError):
        return False


def _problem(problem: Problem) -> Fact:
    text = problem.message[:1].upper() + problem.message[1:]
    return Fact("problem", problem.offset, problem.length, id=problem.kind, title=f"{text}.")

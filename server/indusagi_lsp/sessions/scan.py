"""Scanning: the quick pass over a session file that feeds a graph.

A line in our own layout costs a few slices and, when asked, one hash over a slice. Every other line is parsed. Work is
handed over in batches, so that no list grows with the file.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from hashlib import sha256
from typing import Any, BinaryIO, Protocol, runtime_checkable

import msgspec

from indusagi_lsp.contract.canonical import canonical_json
from indusagi_lsp.contract.turns import Turn, turn_from_json
from indusagi_lsp.sessions.graph import Columns
from indusagi_lsp.sessions.nodes import BODY_START, ID_END, ID_LENGTH, NODE_PREFIX, id_of
from indusagi_lsp.sessions.records import Problem, Record, as_tail, parse_line

_BATCH = 2_048
_PARENT = b'","parent":"'
_NO_PARENT = b'","parent":null,"turn":'
_TURN = b'","turn":'
_PARENT_START = ID_END + len(_PARENT)
_PARENT_END = _PARENT_START + ID_LENGTH
_TURN_END = _PARENT_END + len(_TURN)
_ROOT_END = ID_END + len(_NO_PARENT)
_ID_START = len(NODE_PREFIX)
_NODE_END = b"}}\n"
_ABSENT = object()
_HEAD_PREFIX = b'{"type":"head","leaf":"'
_LEAF_START = len(_HEAD_PREFIX)
_LEAF_END = _LEAF_START + ID_LENGTH
_HEAD = re.compile(
    rb'\{"type":"head","leaf":"([0-9a-f]{32})","at":\d+,"by":"([A-Za-z0-9-]*)","why":"([a-z]+)"'
    rb'(?:,"mac":"([0-9a-f]{64})")?\}\n'
)


@runtime_checkable
class Migrator(Protocol):
    """Upgrades raw records of an older schema, at load time. `upgrade` is given every decoded record, in order."""

    @property
    def id(self) -> str:
        """A name for reports."""
        ...

    def upgrade(self, raw: dict[str, Any], /) -> dict[str, Any]:
        """Transform one raw record one schema version forward, then return it."""
        ...


class Head(msgspec.Struct, frozen=True):
    """A head record. `position` counts the nodes of its batch that stand before it in the file."""

    position: int
    leaf: str | None
    by: str | None = None
    why: str | None = None
    mac: str | None = None


class Batch(Columns):
    """A piece of a file: its nodes, its heads, its other records, what was wrong, and where the next piece begins."""

    __slots__ = ("end", "heads", "problems", "records")

    def __init__(self) -> None:
        super().__init__()
        self.heads: list[Head] = []
        self.records: list[Record] = []
        self.problems: list[Problem] = []
        self.end = 0


def scan(
    file: BinaryIO,
    offset: int = 0,
    *,
    verify: bool = True,
    migrators: Sequence[Migrator] = (),
    whole_lines: bool = False,
) -> Iterator[Batch]:
    """Scan a session file from where `file` stands.

    Args:
        file: the open file, to be read line by line.
        offset: where it stands, in bytes.
        verify: check each id against the content. Without it, lines in our layout are taken at their word.
        migrators: upgrade each record; then every line is parsed.
        whole_lines: leave a last line without a line end for the next time: a writer may be in the middle of it.

    Yields:
        Batches in the order of the file; the last one's `end` is where to go on. A torn tail is not passed over.
    """
    quick = QuickPath(verify=verify)
    batch = Batch()
    batch.end = offset
    take = quick.take
    for count, line in enumerate(file, 1):
        if migrators or not take(batch, line, offset):
            quick.flush(batch)
            complete = line.endswith(b"\n")
            if not complete and whole_lines:
                break

            items = parse_line(line, offset)
            if not complete:
                items = as_tail(items)
            for item in items:
                _take(batch, item, verify=verify, migrators=migrators)
            if not complete:
                offset = _tail_end(items, offset, len(line))
                break
        offset += len(line)
        if count % _BATCH == 0:
            quick.flush(batch)
            batch.end = offset
            yield batch

            batch = Batch()
    quick.flush(batch)
    batch.end = offset
    yield batch


class QuickPath:
    """Takes lines in our own layout.

    Of heads that only follow a growing line of nodes, each on the node before it, the last one alone is handed over:
    the others say nothing more.
    """

    def __init__(self, *, verify: bool) -> None:
        self._verify = verify
        self._id = b""
        self._text = ""
        self._under = _PARENT + b"\n"  # in no line, so it fits none
        self._head = b""
        self._head_at = 0
        self._head_id = b""
        self._follows = False
        self._digest = sha256(b"{")

    def take(self, batch: Batch, line: bytes, offset: int) -> bool:
        """Take a line. False: it is of another layout, or not what it claims, and must be parsed."""
        if line.startswith(NODE_PREFIX):
            if line[-3:] != _NODE_END:
                return False
            parent: str | None
            if line.startswith(self._under, ID_END):
                above, parent = self._id, self._text
            elif (
                line[ID_END:_PARENT_START] == _PARENT
                and line[_PARENT_END:_TURN_END] == _TURN
                and (above := line[_PARENT_START:_PARENT_END]).isalnum()
            ):
                parent = above.decode("latin-1")
            elif line[ID_END:_ROOT_END] == _NO_PARENT:
                above, parent = b"", None
            else:
                return False

            raw = line[_ID_START:ID_END]
            node_id = raw.decode("latin-1")
            if self._verify:
                digest = self._digest.copy()
                digest.update(memoryview(line)[BODY_START:-2])
                if digest.hexdigest()[:ID_LENGTH] != node_id:
                    return False
            elif not raw.isalnum():
                return False

            self._follows = above == self._head_id
            self._id = raw
            self._text = node_id
            self._under = _PARENT + raw + _TURN
            batch.ids.append(node_id)
            batch.parents.append(parent)
            batch.offsets.append(offset)
            batch.lengths.append(len(line) - 1)
            batch.verified.append(1)
            return True

        if not line.startswith(_HEAD_PREFIX):
            return False
        leaf = line[_LEAF_START:_LEAF_END]
        if leaf != self._id or (self._head and not self._follows):
            self.flush(batch)
        if (self._verify or leaf != self._id) and _HEAD.fullmatch(line) is None:
            return False
        self._head, self._head_at, self._head_id = line, len(batch.ids), leaf
        self._follows = False
        return True

    def flush(self, batch: Batch) -> None:
        """Hand over the head that was kept back."""
        if not self._head:
            return
        match = _HEAD.fullmatch(self._head)
        if match is not None:
            leaf, by, why, mac = match.groups()
            mac_text = None if mac is None else mac.decode()
            batch.heads.append(Head(self._head_at, leaf.decode(), by.decode(), why.decode(), mac_text))
        else:
            for item in parse_line(self._head, 0):
                _take(batch, item, verify=False, migrators=())
        self._head = self._head_id = b""


def narrow_node(raw: dict[str, Any]) -> tuple[str, str | None, Turn, int] | None:
    """Take a raw record as a node: id, parent, turn, createdAt. None if it is none."""
    node = raw.get("node")
    if raw.get("type") != "node" or not isinstance(node, dict):
        return None

    node_id, parent, created_at = node.get("id"), node.get("parent"), node.get("createdAt")
    if not isinstance(node_id, str) or not (parent is None or isinstance(parent, str)):
        return None
    if isinstance(created_at, bool) or not isinstance(created_at, (int, float)):
        return None
    try:
        return node_id, parent, turn_from_json(node.get("turn")), int(created_at)
    except (ValueError, OverflowError):
        return None


def migrate(raw: Any, migrators: Sequence[Migrator]) -> dict[str, Any]:
    """Run the migrators over one raw record, in order.

    Raises:
        ValueError: one of them raised, or returned something else than an object; the message names it.
    """
    for migrator in migrators:
        try:
            raw = migrator.upgrade(raw)
        except Exception as error:
            message = f"migrator {migrator.id} failed: {error}"
            raise ValueError(message) from error
        if not isinstance(raw, dict):
            message = f"migrator {migrator.id} returned {type(raw).__name__}, not an object"
            raise ValueError(message)
    result: dict[str, Any] = raw
    return result


def _take(batch: Batch, item: Record | Problem, *, verify: bool, migrators: Sequence[Migrator]) -> None:
    if isinstance(item, Problem):
        batch.problems.append(item)
        return

    raw = item.raw
    if migrators:
        try:
            raw = migrate(raw, migrators)
        except ValueError as error:
            batch.problems.append(Problem("migrator", item.offset, item.length, str(error)))
            return

    kind = raw.get("type")
    if kind == "node":
        _take_node(batch, item, raw, verify=verify)
    elif kind == "head":
        leaf = raw.get("leaf", _ABSENT)
        if leaf is None or isinstance(leaf, str):
            texts = (raw[name] if isinstance(raw.get(name), str) else None for name in ("by", "why", "mac"))
            batch.heads.append(Head(len(batch.ids), leaf, *texts))
        else:
            batch.problems.append(Problem("malformed", item.offset, item.length, "a head without a leaf"))
    else:
        batch.records.append(item if raw is item.raw else Record(raw, item.offset, item.length, item.whole))
        if not isinstance(kind, str):
            batch.problems.append(Problem("malformed", item.offset, item.length, "a record without a type"))


def _take_node(batch: Batch, item: Record, raw: dict[str, Any], *, verify: bool) -> None:
    node = narrow_node(raw)
    if node is None:
        batch.problems.append(Problem("malformed", item.offset, item.length, "a node without id, parent, turn or time"))
        return

    node_id, parent, _, _ = node
    verified = not verify or _is_hash(item.raw, node_id) or _is_hash(raw, node_id)
    if not verified:
        batch.problems.append(
            Problem("unverified", item.offset, item.length, "the id is not the hash of the content", node_id)
        )
    batch.ids.append(node_id)
    batch.parents.append(parent)
    batch.offsets.append(item.offset)
    batch.lengths.append(item.length)
    batch.verified.append(verified)


def _is_hash(raw: dict[str, Any], node_id: str) -> bool:
    node = raw.get("node")
    if not isinstance(node, dict):
        return False
    try:
        hashed = {"parent": node["parent"], "turn": node["turn"], "createdAt": node["createdAt"]}
        return id_of(canonical_json(hashed)) == node_id
    except (KeyError, TypeError, ValueError):
        return False


def _tail_end(items: list[Record | Problem], start: int, length: int) -> int:
    """Where to go on after a last line without line end: at its torn part if it has one, else behind it."""
    if items and isinstance(items[-1], Problem) and items[-1].kind == "torn":
        return items[-1].offset
    if not items:
        return start
    return start + length


def reader(migrators: Sequence[Migrator]) -> Callable[[bytes], tuple[Turn, int]]:
    """Makes the function that reads a node's turn and time from its record's bytes, migrated."""
    from indusagi_lsp.contract.turns import TextBlock
    from indusagi_lsp.sessions.records import decode

    def read(text: bytes) -> tuple[Turn, int]:
        try:
            node = narrow_node(migrate(decode(text), migrators))
        except ValueError:
            node = None
        if node is None:
            return Turn("system", (TextBlock("[this turn cannot be read any more]"),)), 0
        return node[2], node[3]

    return read

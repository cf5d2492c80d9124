"""The newest page of a session's live path, read from the end of the file: as quick for a huge file as for a small one.

Where the end of the file does not tell which leaf is live (a late head of another window, lines out of order), the
whole file is indexed instead, so the page is always the one that opening the session would show.
"""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Iterator

import msgspec

from indusagi_lsp.sessions.nodes import Node
from indusagi_lsp.sessions.oscalls import OsCalls, read_exactly
from indusagi_lsp.sessions.records import open_fd
from indusagi_lsp.sessions.scan import Batch, Head, reader, scan
from indusagi_lsp.sessions.state import DELIBERATE, SessionState, load

_FIRST = 64 << 10
_MOST = 4 << 20


class Page(msgspec.Struct, frozen=True):
    """The end of a live path: its nodes, root to leaf, the live leaf, and whether there is more before them."""

    nodes: tuple[Node, ...]
    head: str | None
    more: bool


class _Unclear(Exception):
    """The end of the file does not tell."""


def read_page(path: str, limit: int, fresh: Callable[[], SessionState]) -> Page | None:
    """Read the newest `limit` turns of the live path. Blocks.

    Args:
        path: the session's file.
        limit: how many turns, at least 1.
        fresh: makes an empty state, for the case that the whole file must be read.

    Returns:
        The page; None if there is no file.

    Raises:
        OSError: the file cannot be read.
    """
    try:
        fd = open_fd(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    try:
        return _from_tail(fd, limit)
    except _Unclear:
        state = fresh()
        load(state, path, verify=False)
        ids = state.graph.ids_to(state.graph.leaf)
        nodes = tuple(state.graph.node(node) for node in ids[-limit:])
        return Page(nodes, state.graph.leaf, len(ids) > limit)
    finally:
        os.close(fd)


def _from_tail(fd: int, limit: int) -> Page:
    decode = reader(())
    records: dict[str, tuple[str | None, bytes, bool]] = {}
    nodes: list[Node] = []
    head: str | None = None
    wanted: str | None = None
    for piece, batch in _pieces(fd):
        for at, node in enumerate(batch.ids):
            place = batch.offsets[at]
            text = piece[place : place + batch.lengths[at]]
            records.setdefault(node, (batch.parents[at], text, bool(batch.verified[at])))
        if head is None:
            head = wanted = _live(batch)
        while wanted is not None and wanted in records and len(nodes) < limit:
            parent, text, verified = records.pop(wanted)
            turn, created_at = decode(text)
            nodes.append(Node(wanted, parent, turn, created_at, verified))
            wanted = parent
        if len(nodes) == limit or wanted is None:
            break
    else:
        if wanted is not None:
            raise _Unclear
    nodes.reverse()
    return Page(tuple(nodes), head, wanted is not None)


def _live(batch: Batch) -> str:
    """The live leaf, by the last piece of the file.

    Raises:
        _Unclear: it cannot be told from this piece alone.
    """
    if not batch.heads or not batch.ids or batch.problems:
        raise _Unclear
    head: Head = batch.heads[-1]
    is_last = head.position == len(batch.ids) and head.leaf == batch.ids[-1]
    if head.leaf is None or not (is_last or (head.why in DELIBERATE and head.position == len(batch.ids))):
        raise _Unclear
    return head.leaf


def _pieces(fd: int) -> Iterator[tuple[bytes, Batch]]:
    """The file from its end to its begin, in pieces of whole lines that grow, each scanned and verified.

    The offsets of a piece's nodes count from its own begin.
    """
    calls = OsCalls()
    end = os.fstat(fd).st_size
    size = _FIRST
    rest = b""
    while end > 0:
        start = max(end - size, 0)
        piece = read_exactly(calls, fd, end - start, start) + rest
        if start:
            cut = piece.find(b"\n") + 1
            if not cut:
                end, rest, size = start, piece, min(size * 4, _MOST)
                continue
            rest, piece = piece[:cut], piece[cut:]
        end, size = start, min(size * 4, _MOST)
        if piece:
            merged = Batch()
            for batch in scan(io.BytesIO(piece)):
                for head in batch.heads:
                    merged.heads.append(msgspec.structs.replace(head, position=len(merged.ids) + head.position))
                merged.ids += batch.ids
                merged.parents += batch.parents
                merged.offsets += batch.offsets
                merged.lengths += batch.lengths
                merged.verified += batch.verified
                merged.problems += batch.problems
            yield piece, merged

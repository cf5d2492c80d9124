"""Outlines: what is shown of a session around a page of its turns, and the derived index that keeps it.

For a large session the outline is kept beside it, with the places of the newest turns. So showing the newest page
costs the same whatever the size of the file, and the file is read as a whole only when an operation needs the graph.
"""

from __future__ import annotations

import io
import os
from collections import Counter
from collections.abc import Sequence

import msgspec

from indusagi_lsp.contract.errors import NodeNotFound
from indusagi_lsp.contract.models import Usage
from indusagi_lsp.sessions.derived import DerivedFiles, Stamp
from indusagi_lsp.sessions.folder import SessionFolder
from indusagi_lsp.sessions.log import MARK_BYTES, Loaded
from indusagi_lsp.sessions.nodes import Node
from indusagi_lsp.sessions.preview import preview
from indusagi_lsp.sessions.scan import reader, scan
from indusagi_lsp.sessions.state import FileSource, LoadReport, SessionState, totals
from indusagi_lsp.sessions.summaries import SessionSummary, summarize_state

LARGE = 1 << 20
"""From how many bytes on a session's outline is kept; a smaller file is read as a whole in a few milliseconds."""

NEWEST = 500
"""How many turns can be shown from a kept outline."""

SUFFIX = ".outline"
_KIND = "outline-1"


class Branch(msgspec.Struct, frozen=True, array_like=True):
    """A leaf of the graph: what it says, how many turns lead to it, and when it was said (ms)."""

    leaf: str
    preview: str
    turns: int
    updated_at: int


class Outline(msgspec.Struct, frozen=True):
    """What surrounds a page. `counts` are the problems that reading has found, by kind."""

    summary: SessionSummary
    usage: Usage
    labels: dict[str, str]
    branches: tuple[Branch, ...]
    counts: dict[str, int]

    @property
    def report(self) -> LoadReport:
        """What reading the file has found wrong, without the single cases."""
        return LoadReport(counts=Counter(self.counts))


class Look(msgspec.Struct, frozen=True):
    """A page of a live path, root to leaf, what surrounds it, and whether there is more of the path before it."""

    outline: Outline
    nodes: tuple[Node, ...]
    more: bool


class _Place(msgspec.Struct, frozen=True, array_like=True):
    node: str
    offset: int
    length: int


class _Kept(msgspec.Struct, frozen=True, array_like=True):
    kind: str
    stamp: Stamp
    mark: str
    outline: Outline
    newest: tuple[_Place, ...]


def outline_of(state: SessionState) -> Outline:
    """The outline of a session that was read. Blocks, and grows with the graph."""
    graph = state.graph
    leaves = graph.leaves()
    nodes = [graph.node(leaf) for leaf in leaves]
    branches = tuple(
        Branch(node.id, preview(node.turn), turns, node.created_at)
        for node, turns in zip(nodes, graph.depths(leaves), strict=True)
    )
    usage = totals(list(state.usages.values()))
    return Outline(summarize_state(state), usage, state.labels, branches, dict(state.report.counts))


def look_at(state: SessionState, limit: int, before: str | None = None) -> Look:
    """A page of the live path of a session that was read. Blocks.

    Args:
        state: the session.
        limit: how many turns, the newest.
        before: only turns that stand before this one.

    Raises:
        NodeNotFound: `before` is not on the live path.
    """
    graph, last = state.graph, state.graph.leaf
    if before is not None:
        if before not in graph or not graph.is_ancestor(before, last):
            raise NodeNotFound(graph.session_id, before)
        last = None if graph.is_gap(before) else graph.parent(before)
    ids = graph.newest(last, limit)
    nodes = tuple(graph.node(node) for node in ids)
    return Look(outline_of(state), nodes, bool(nodes) and nodes[0].parent is not None and not nodes[0].gap)


class Outlines:
    """The outlines that are kept for the sessions of one folder. All of it blocks.

    Not `enabled`, it keeps and knows nothing: migrators may tell another thing of the same bytes tomorrow.
    """

    def __init__(self, folder: SessionFolder, derived: DerivedFiles, *, enabled: bool) -> None:
        self._folder = folder
        self._derived = derived
        self._enabled = enabled

    def keep(self, state: SessionState, loaded: Loaded) -> None:
        """Keep the outline of a session that was read, if its file is large.

        Where the file has gone on meanwhile, or where what is in memory is not what reading it again would give,
        nothing is kept.
        """
        graph = state.graph
        status = loaded.status
        if not self._enabled or loaded.end < LARGE or status.st_size != loaded.end:
            return
        if state.head != graph.leaf or state.report.torn:
            return
        places: list[_Place] = []
        for node in graph.newest(graph.leaf, NEWEST):
            place = graph.place(node)
            if place is None:
                return
            places.append(_Place(node, *place))
        kept = _Kept(_KIND, Stamp.of(status), loaded.mark.hex(), outline_of(state), tuple(places))
        self._derived.keep(graph.session_id + SUFFIX, msgspec.json.encode(kept))

    def summary(self, name: str, status: os.stat_result) -> SessionSummary | None:
        """The summary of a large session whose file has that status, if it is known."""
        if status.st_size < LARGE or not self._enabled:
            return None
        kept = self._read(name)
        if kept is None or kept.stamp != Stamp.of(status):
            return None
        summary = kept.outline.summary
        if summary.head is None:
            written_at = status.st_mtime_ns // 1_000_000
            summary = msgspec.structs.replace(summary, updated_at=max(summary.created_at, written_at))
        return summary

    def look(self, name: str, limit: int) -> Look | None:
        """The newest `limit` turns of a large session, without reading it as a whole; None if that is not possible.

        Raises:
            OSError: the file cannot be read.
        """
        try:
            if not self._enabled or os.stat(self._folder.path(name)).st_size < LARGE:
                return None
            source = FileSource(self._folder.path(name), ())
        except (FileNotFoundError, NotADirectoryError):
            return None
        try:
            kept = self._read(name)
            if kept is None or kept.stamp != Stamp.of(source.status):
                return None
            start = source.status.st_size - MARK_BYTES
            if source.raw(start, MARK_BYTES).hex() != kept.mark:
                return None
            turns = kept.outline.summary.turns
            if limit > len(kept.newest) < turns:
                return None
            nodes = _nodes(source, kept.newest[-limit:], turns)
            return None if nodes is None else Look(kept.outline, nodes, turns > len(nodes))
        finally:
            source.close()

    def drop(self, name: str) -> None:
        """Forget a session that was deleted."""
        self._derived.drop(name + SUFFIX)

    def drop_all_but(self, names: Sequence[str]) -> None:
        """Forget the sessions that are not there any more."""
        there = {name + SUFFIX for name in names}
        for name in self._derived.names():
            if name.endswith(SUFFIX) and name not in there:
                self._derived.drop(name)

    def _read(self, name: str) -> _Kept | None:
        body = self._derived.read(name + SUFFIX)
        if body is None:
            return None
        try:
            kept = msgspec.json.decode(body, type=_Kept)
        except (msgspec.DecodeError, msgspec.ValidationError, ValueError):
            return None
        return kept if kept.kind == _KIND and kept.outline.summary.id == name else None


def _nodes(source: FileSource, places: Sequence[_Place], turns: int) -> tuple[Node, ...] | None:
    """The nodes at `places`, the end of a path of `turns`; None if one is not there, or not what its id says."""
    lines = [source.raw(place.offset, place.length) for place in places]
    found = list(scan(io.BytesIO(b"\n".join([*lines, b""]))))
    ids = [node for batch in found for node in batch.ids]
    parents = [parent for batch in found for parent in batch.parents]
    if any(batch.problems for batch in found) or ids != [place.node for place in places] or parents[1:] != ids[:-1]:
        return None
    decode = reader(())
    nodes = [Node(node, parent, *decode(line)) for node, parent, line in zip(ids, parents, lines, strict=True)]
    if nodes and len(nodes) == turns and nodes[0].parent is not None:
        nodes[0] = msgspec.structs.replace(nodes[0], gap=True)
    return tuple(nodes)

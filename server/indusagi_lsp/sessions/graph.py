"""The graph of a conversation: which node follows which, and where the live leaf is.

Nodes are kept as columns (id, parent, place in the file), so that a graph of a million turns fits in memory; what was
said is read from the file when it is asked for. Parents stand before children in the columns except where a file was
written out of order; cycles are cut when they come in, so every walk ends. Nothing here recurses.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Sequence
from typing import Protocol

from indusagi_lsp.contract.clock import Clock, SystemClock
from indusagi_lsp.contract.errors import NodeNotFound
from indusagi_lsp.contract.turns import Turn
from indusagi_lsp.sessions.nodes import Node, TurnLike, as_turn, id_of, node_text

ROOT = -1
LOST = -2
"""The parent of a node whose parent is not in the file."""

IN_MEMORY = -1
"""The place of a node that is not in the file (yet)."""

_CACHE_BYTES = 64 << 20
_PIECE = 256


class NodeSource(Protocol):
    """Reads nodes from where they are kept."""

    def read(self, places: Sequence[tuple[int, int]]) -> list[tuple[Turn, int]]:
        """The turns, with their `createdAt`, that stand at `places` (offset, length), in the order of `places`."""
        ...


class Columns:
    """Nodes on their way into a graph, in the order of the file; `parents` holds ids, None for a root."""

    __slots__ = ("ids", "lengths", "offsets", "parents", "verified")

    def __init__(self) -> None:
        self.ids: list[str] = []
        self.parents: list[str | None] = []
        self.offsets: list[int] = []
        self.lengths: list[int] = []
        self.verified = bytearray()


class SessionGraph:
    """A branchable history: nodes, the edges between them, and a live leaf under which the next turn is put.

    Args of the constructor: the session's id; `clock` gives the time of appended turns; `source` reads the nodes that
    are not in memory.
    """

    def __init__(self, session_id: str, *, clock: Clock | None = None, source: NodeSource | None = None) -> None:
        self.session_id = session_id
        self._clock = clock or SystemClock()
        self.source = source
        self.clear()

    def clear(self) -> None:
        """Forget every node."""
        self._leaf = ROOT
        self._index: dict[str, int] = {}
        self._ids: list[str] = []
        self._parents = array("q")
        self._offsets = array("q")
        self._lengths = array("q")
        self._verified = bytearray()
        self._lost: dict[int, str] = {}
        self._waiting: dict[str, list[int]] = {}
        self._children: dict[int, list[int]] | None = None
        self._unordered = False
        self._cache: dict[int, tuple[Turn, int]] = {}
        self._cached_bytes = 0

    # --- looking ----------------------------------------------------------------------------------

    def __len__(self) -> int:
        return len(self._ids)

    def __contains__(self, node: object) -> bool:
        return node in self._index

    @property
    def leaf(self) -> str | None:
        """The live leaf; None while nothing was said, or before the first turn."""
        return self._ids[self._leaf] if self._leaf >= 0 else None

    @property
    def ids(self) -> Sequence[str]:
        """Every node's id, in the order in which the nodes came. Not to be changed."""
        return self._ids

    @property
    def gaps(self) -> int:
        """How many nodes have lost their parent."""
        return len(self._lost)

    def node(self, node: str) -> Node:
        """One node.

        Raises:
            NodeNotFound: there is none of that id.
        """
        return self._nodes([self._at(node)])[0]

    def turn(self, node: str | None) -> Turn | None:
        """A node's turn if it is in memory; reads nothing."""
        found = self._cache.get(self._index.get(node, ROOT)) if node is not None else None
        return None if found is None else found[0]

    def find(self, node: str) -> Node | None:
        """One node, None if there is none of that id."""
        return self.node(node) if node in self._index else None

    def nodes(self) -> Iterator[Node]:
        """Every node, in the order in which they came. What is not in memory is read from the file, piece by piece."""
        for start in range(0, len(self._ids), _PIECE):
            yield from self._nodes(range(start, min(start + _PIECE, len(self._ids))))

    def some(self, nodes: Iterable[str]) -> list[Node]:
        """These nodes, in this order; what is not in memory is read from the file, in few pieces.

        Raises:
            NodeNotFound: there is no node of one of these ids.
        """
        return self._nodes([self._at(node) for node in nodes])

    def depth(self, node: str | None) -> int:
        """How many turns lead to `node`, itself included.

        Raises:
            NodeNotFound: there is no such node.
        """
        count = 0
        at = ROOT if node is None else self._at(node)
        while at >= 0:
            count += 1
            at = self._parents[at]
        return count

    def depths(self, nodes: Sequence[str]) -> list[int]:
        """How many turns lead to each of `nodes`, itself included; what they share is walked once.

        Raises:
            NodeNotFound: there is no such node.
        """
        known = array("q", bytes(8 * len(self._ids)))
        found: list[int] = []
        for node in nodes:
            at = start = self._at(node)
            count = 0
            while at >= 0 and not known[at]:
                count += 1
                at = self._parents[at]
            depth = count + (known[at] if at >= 0 else 0)
            found.append(depth)
            # A single leaf shares nothing with others, so nothing need be kept for them.
            while len(nodes) > 1 and count:
                known[start] = depth
                start = self._parents[start]
                depth -= 1
                count -= 1
        return found

    def parent(self, node: str) -> str | None:
        """The id of a node's parent, None for a root; the id of a lost parent is given too.

        Raises:
            NodeNotFound: there is no such node.
        """
        at = self._at(node)
        parent = self._parents[at]
        return self._ids[parent] if parent >= 0 else self._lost.get(at)

    def is_gap(self, node: str) -> bool:
        """Whether the file has lost what came before this node."""
        return self._parents[self._at(node)] == LOST

    def is_verified(self, node: str) -> bool:
        """Whether the node's id is the hash of its content."""
        return bool(self._verified[self._at(node)])

    def children(self, node: str | None) -> list[str]:
        """The ids of a node's children, the oldest first; of None, the roots.

        Raises:
            NodeNotFound: there is no such node.
        """
        at = ROOT if node is None else self._at(node)
        if self._children is None:
            self._children = {}
            for child, parent in enumerate(self._parents):
                self._children.setdefault(max(parent, ROOT), []).append(child)
        return [self._ids[child] for child in self._children.get(at, ())]

    def leaves(self) -> list[str]:
        """The ids of the nodes without children, in the order in which they came."""
        inner = bytearray(len(self._ids))
        for parent in self._parents[: len(inner)]:
            if parent >= 0:
                inner[parent] = 1
        found: list[str] = []
        at = inner.find(0)
        while at >= 0:
            found.append(self._ids[at])
            at = inner.find(0, at + 1)
        return found

    def ids_to(self, node: str | None) -> list[str]:
        """The ids from the root (or from the gap) to `node`, both included.

        Raises:
            NodeNotFound: there is no such node.
        """
        return [self._ids[at] for at in self.positions_to(node)]

    def positions_to(self, node: str | None) -> list[int]:
        """Where the nodes of the path to `node` stand in `ids`; cheaper than the ids, where only some are needed.

        Raises:
            NodeNotFound: there is no such node.
        """
        path: list[int] = []
        at = ROOT if node is None else self._at(node)
        while at >= 0:
            path.append(at)
            at = self._parents[at]
        path.reverse()
        return path

    def newest(self, node: str | None, limit: int) -> list[str]:
        """The ids of the last `limit` turns of the path to `node`, in the order of the path.

        Raises:
            NodeNotFound: there is no such node.
        """
        ids: list[str] = []
        at = ROOT if node is None else self._at(node)
        while at >= 0 and len(ids) < limit:
            ids.append(self._ids[at])
            at = self._parents[at]
        ids.reverse()
        return ids

    def tail_ids(self, node: str, role: str) -> list[str]:
        """The ids of the turns of `role` at the end of the path to `node`, and of the one turn before them."""
        ids = [node]
        while self.node(ids[-1]).turn.role == role:
            above = self._parents[self._at(ids[-1])]
            if above < 0:
                break
            ids.append(self._ids[above])
        ids.reverse()
        return ids

    def path_to(self, node: str | None) -> list[Turn]:
        """The turns from the root to `node`, both included. What is not in memory is read from the file.

        Raises:
            NodeNotFound: there is no such node.
            OSError: the file cannot be read any more.
        """
        return [turn for turn, _ in self._contents(self.positions_to(node))]

    def nodes_to(self, node: str | None) -> list[Node]:
        """The nodes from the root to `node`, both included; else as `path_to`."""
        return self._nodes(self.positions_to(node))

    def is_ancestor(self, ancestor: str | None, node: str | None) -> bool:
        """Whether `node` is `ancestor` or stands below it. Everything stands below None.

        Raises:
            NodeNotFound: there is no such node.
        """
        if ancestor is None:
            return True
        wanted = self._at(ancestor)
        if node is None:
            return False

        at = self._at(node)
        while at >= 0 and at != wanted:
            if at < wanted and not self._unordered:
                return False
            at = self._parents[at]
        return at == wanted

    def verified_to(self, node: str) -> bool:
        """Whether every id from the root (or the gap) to `node` is the hash of its content.

        Raises:
            NodeNotFound: there is no such node.
        """
        at = self._at(node)
        if self._verified.find(0) < 0:
            return True
        while at >= 0:
            if not self._verified[at]:
                return False
            at = self._parents[at]
        return True

    # --- changing ---------------------------------------------------------------------------------

    def append(self, turn: TurnLike, *, created_at: int | None = None) -> Node:
        """Put a turn under the live leaf and make it the live leaf.

        Args:
            turn: the turn, or a dict in the session format.
            created_at: milliseconds since the epoch; the clock's time if not given.

        Returns:
            The new node; or the one that is there already, if the same turn was put there at the same time.

        Raises:
            ValueError: the turn is none, or is nested too deep to be written.
        """
        when = self._clock.now_ms() if created_at is None else created_at
        text = node_text(self.leaf, turn, when)
        node = Node(id_of(text), self.leaf, as_turn(turn), when)
        self.put(node, len(text))
        return node

    def put(self, node: Node, size: int) -> bool:
        """Take a node under the id that it has, unless it is there, and make it the live leaf.

        Args:
            node: the node.
            size: the length of its text, in bytes.

        Returns:
            Whether it is new.
        """
        at = self._index.get(node.id)
        fresh = at is None
        if at is None:
            at = self._add(node.id, node.parent, IN_MEMORY, size, verified=node.verified)
            self._cache[at] = (node.turn, node.created_at)
        self._leaf = at
        return fresh

    def become(self, other: SessionGraph) -> None:
        """Take the place of another graph, which is not to be used any more. Those who hold this one see its nodes."""
        self.__dict__.update(other.__dict__)

    def branch_from(self, node: str | None) -> None:
        """Make `node` the live leaf, so that the next turn begins a branch there; None begins a new history.

        Raises:
            NodeNotFound: there is no such node.
        """
        self._leaf = ROOT if node is None else self._at(node)

    def resume(self, node: str) -> list[Turn]:
        """Make `node` the live leaf and hand back the turns that lead to it.

        Raises:
            NodeNotFound: there is no such node.
        """
        self.branch_from(node)
        return self.path_to(node)

    def extend(self, columns: Columns) -> list[str]:
        """Take nodes that were read from the file; of equal ids the first wins. The live leaf stays.

        Returns:
            The ids that are new.
        """
        first = len(self._ids)
        if self._extend_quickly(columns):
            return columns.ids

        index = self._index
        fresh = 0
        for node_id, parent, offset, length, verified in zip(
            columns.ids, columns.parents, columns.offsets, columns.lengths, columns.verified, strict=True
        ):
            known = index.get(node_id)
            if known is None:
                fresh += 1
                self._add(node_id, parent, offset, length, verified=bool(verified))
            elif self._offsets[known] == IN_MEMORY:
                self.saved(node_id, offset, length)
        self._cut_cycles()
        return self._ids[first : first + fresh]

    def _extend_quickly(self, columns: Columns) -> bool:
        """Take nodes that are all new and stand behind their parents. False: they are not, and nothing was done."""
        ids = columns.ids
        if self._waiting or self._children is not None or not self._index.keys().isdisjoint(ids):
            return False
        first = len(self._ids)
        fresh = dict(zip(ids, range(first, first + len(ids)), strict=True))
        if len(fresh) != len(ids):
            return False

        above: list[int] = []
        put, known = above.append, self._index.get
        at, last = first - 1, None
        for node_id, parent in zip(ids, columns.parents, strict=True):
            if parent is None:
                put(ROOT)
            elif parent is last:
                put(at)
            else:
                place = known(parent, LOST)
                if place == LOST:
                    place = fresh.get(parent, LOST)
                    if place == LOST or place > at:
                        return False
                put(place)
            at += 1
            last = node_id
        self._index.update(fresh)
        self._ids.extend(ids)
        self._parents.extend(above)
        self._offsets.extend(columns.offsets)
        self._lengths.extend(columns.lengths)
        self._verified += columns.verified
        return True

    def saved(self, node: str, offset: int, length: int) -> None:
        """Note that a node stands in the file now; its turn may leave memory from here on."""
        at = self._at(node)
        self._offsets[at] = offset
        self._lengths[at] = length
        self._count(length)

    def unsaved(self) -> list[str]:
        """The ids of the nodes that are in memory alone."""
        return [self._ids[at] for at, offset in enumerate(self._offsets) if offset == IN_MEMORY]

    def place(self, node: str) -> tuple[int, int] | None:
        """Where the node's record stands in the file (offset, length in bytes), None if it does not."""
        at = self._at(node)
        return None if self._offsets[at] == IN_MEMORY else (self._offsets[at], self._lengths[at])

    def preload(self, node: str | None, limit: int = _CACHE_BYTES) -> bool:
        """Read the path to `node` into memory, if it has at most `limit` bytes.

        Returns:
            Whether it is in memory now, so that looking at it does not touch the disk.
        """
        path: list[int] = []
        at = ROOT if node is None else self._at(node)
        size = 0
        while at >= 0:
            size += self._lengths[at]
            if size > limit:
                return False
            path.append(at)
            at = self._parents[at]
        self._contents(path)
        return True

    def problems(self) -> list[tuple[str, str]]:
        """The nodes that are not as they should be, as (`gap` or `unverified`, id)."""
        found = [("gap", self._ids[at]) for at in sorted(self._lost)]
        at = self._verified.find(0)
        while at >= 0:
            found.append(("unverified", self._ids[at]))
            at = self._verified.find(0, at + 1)
        return found

    # --- inside -----------------------------------------------------------------------------------

    def _at(self, node: str) -> int:
        at = self._index.get(node)
        if at is None:
            raise NodeNotFound(self.session_id, node)
        return at

    def _add(self, node_id: str, parent: str | None, offset: int, length: int, *, verified: bool) -> int:
        at = len(self._ids)
        above = ROOT if parent is None else self._index.get(parent, LOST)
        self._index[node_id] = at
        self._ids.append(node_id)
        self._parents.append(above)
        self._offsets.append(offset)
        self._lengths.append(length)
        self._verified.append(verified)
        if above == LOST and parent is not None:
            self._lost[at] = parent
            self._waiting.setdefault(parent, []).append(at)
        if self._children is not None:
            self._children.setdefault(max(above, ROOT), []).append(at)
        if self._waiting and node_id in self._waiting:
            for child in self._waiting.pop(node_id):
                self._parents[child] = at
                del self._lost[child]
            self._unordered = True
            self._children = None
        return at

    def _cut_cycles(self) -> None:
        """Cut each ring of parents at its oldest node, which becomes a gap. Rings come only from files out of order."""
        if not self._unordered:
            return

        state = bytearray(len(self._ids))
        for start in range(len(self._ids)):
            trail: list[int] = []
            at = start
            while at >= 0 and not state[at]:
                state[at] = 1
                trail.append(at)
                at = self._parents[at]
            if at >= 0 and state[at] == 1:
                oldest = min(trail[trail.index(at) :])
                self._lost[oldest] = self._ids[self._parents[oldest]]
                self._parents[oldest] = LOST
                self._children = None
            for done in trail:
                state[done] = 2

    def _nodes(self, path: Sequence[int]) -> list[Node]:
        nodes = []
        for at, (turn, created_at) in zip(path, self._contents(path), strict=True):
            above = self._parents[at]
            parent = self._ids[above] if above >= 0 else self._lost.get(at)
            nodes.append(Node(self._ids[at], parent, turn, created_at, bool(self._verified[at]), above == LOST))
        return nodes

    def _contents(self, path: Sequence[int]) -> list[tuple[Turn, int]]:
        # A thread may look at the graph while the event loop does, so what is there is taken in one look.
        found = {at: content for at in path if (content := self._cache.get(at)) is not None}
        absent = [at for at in path if at not in found]
        if absent:
            if self.source is None:
                raise OSError("this graph has no file to read from")
            read = self.source.read([(self._offsets[at], self._lengths[at]) for at in absent])
            for at, content in zip(absent, read, strict=True):
                self._cache[at] = found[at] = content
                self._count(self._lengths[at])
        return [found[at] for at in path]

    def _count(self, size: int) -> None:
        """Let the oldest turns go when too much is in memory; what is nowhere else stays."""
        self._cached_bytes += size
        if self._cached_bytes <= _CACHE_BYTES:
            return

        for at in list(self._cache):
            if self._cached_bytes <= _CACHE_BYTES // 2:
                break
            if self._offsets[at] != IN_MEMORY and self._cache.pop(at, None) is not None:
                self._cached_bytes -= self._lengths[at]

"""The conversation as the conductor needs it, whether it lives in a session file or in memory only."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, TypeAlias

import msgspec

from indusagi_lsp.condensation import Condensation, Masking
from indusagi_lsp.contract.approvals import ApprovalRequest, Verdict
from indusagi_lsp.contract.clock import Clock
from indusagi_lsp.contract.errors import InvalidState
from indusagi_lsp.contract.events import CondenseTrigger
from indusagi_lsp.contract.models import Usage
from indusagi_lsp.contract.turns import Turn
from indusagi_lsp.sessions import Node, Session, SessionGraph, model_view, view_with_sources

Started: TypeAlias = Callable[[int, str], bool]
"""Whether a receipt says that a call was started: the position of its turn in the path, and the call's id."""

PIN = "pin"
"""The label of a turn that condensing keeps word for word."""


class Entry(msgspec.Struct, frozen=True):
    """One turn of the live path as the model may be sent it.

    `node` is None for a result that stands in for one that a crash has lost; it is not in the graph (yet).
    """

    turn: Turn
    created_at: int
    node: str | None


class History(Protocol):
    """A live path that grows, and whose head can be moved."""

    @property
    def session_id(self) -> str:
        """The session's id."""
        ...

    @property
    def leaf(self) -> str | None:
        """The live leaf, None for an empty path."""
        ...

    @property
    def trusted(self) -> bool:
        """Whether the live path may be sent to a model."""
        ...

    @property
    def pinned(self) -> frozenset[str]:
        """The nodes that the user wants kept word for word."""
        ...

    def find(self, node: str) -> Node | None:
        """A node of the graph, on whatever branch."""
        ...

    def hold(self, busy: bool) -> None:
        """Say whether a run is under way, so that another window's turns do not move the live leaf meanwhile."""
        ...

    def entries(self) -> list[Entry]:
        """The live path, root to leaf, with a result for every call."""
        ...

    def view(self) -> tuple[Turn, ...]:
        """The turns of `entries`."""
        ...

    async def append(self, turns: Sequence[Turn]) -> list[Node]:
        """Put turns under the leaf. On return they are written."""
        ...

    async def move_head(self, leaf: str | None, why: str) -> None:
        """Go on from another node."""
        ...

    async def condense(self, made: Condensation, trigger: CondenseTrigger) -> str:
        """Go on from the summary with the kept turns copied under it; the summary's node id."""
        ...

    async def mask(self, masking: Masking, trigger: CondenseTrigger) -> None:
        """Go on with a copy of the path's end in which old heavy blocks are masked."""
        ...

    async def undo_condense(self) -> str:
        """Go back to the line that the last condensation was made from; its leaf.

        Raises:
            InvalidState: the live path has no condensation.
        """
        ...

    async def usage(self, node: str, usage: Usage, model: str, provider: str) -> None:
        """Record what the turn `node` took."""
        ...

    async def receipt(self, node: str, call_id: str, stage: str) -> None:
        """Record that a tool has started or finished."""
        ...

    async def approval(self, request: ApprovalRequest, verdict: Verdict) -> None:
        """Record what the user has decided, for audit only."""
        ...

    async def sync(self) -> None:
        """Return once everything is safe on disk."""
        ...


def entries_of(nodes: Sequence[Node], started: Started) -> list[Entry]:
    """The live path with a result for every call, and which of its turns are nodes.

    Args:
        nodes: the live path, root to leaf.
        started: tells what is known of an unanswered call.
    """
    entries: list[Entry] = []
    last = 0
    for turn, at in view_with_sources([node.turn for node in nodes], started):
        if at is not None:
            last = at
        entries.append(Entry(turn, nodes[last].created_at, None if at is None else nodes[at].id))
    return entries


def kept_entries(made: Condensation, entries: Sequence[Entry]) -> list[Entry]:
    """The entries that stay after a condensation's summary; a masked turn stands in the place of the whole one."""
    tail = entries[made.cut :]
    return [Entry(turn, entry.created_at, entry.node) for turn, entry in zip(made.tail, tail, strict=True)]


class StoredHistory:
    """A history in a session file."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self._known: tuple[object, list[Entry]] = (None, [])

    @property
    def session_id(self) -> str:
        """The session's id."""
        return self.session.id

    @property
    def leaf(self) -> str | None:
        """The live leaf."""
        return self.session.graph.leaf

    @property
    def trusted(self) -> bool:
        """Whether the user's own key vouches for the live path."""
        return self.session.trusted

    @property
    def pinned(self) -> frozenset[str]:
        """The nodes with the label `pin`."""
        return frozenset(node for node, label in self.session.labels.items() if label == PIN)

    def hold(self, busy: bool) -> None:
        """Tell the session."""
        self.session.busy = busy

    def find(self, node: str) -> Node | None:
        """A node of the graph."""
        graph = self.session.graph
        return graph.node(node) if node in graph else None

    def entries(self) -> list[Entry]:
        """The live path, with every call answered.

        A condensation asks for it several times, and of a long path it takes a while, so the last answer is kept.
        """
        receipts = self.session.receipts
        state = (self.leaf, self.session.graph.gaps, len(receipts))
        if state != self._known[0]:
            nodes = self.session.graph.nodes_to(self.leaf)
            self._known = (state, entries_of(nodes, lambda at, call: (nodes[at].id, call) in receipts))
        return self._known[1]

    def view(self) -> tuple[Turn, ...]:
        """The turns of `entries`."""
        return self.session.model_view()

    async def append(self, turns: Sequence[Turn]) -> list[Node]:
        """Write turns under the leaf."""
        return await self.session.append(turns)

    async def move_head(self, leaf: str | None, why: str) -> None:
        """Write a head."""
        await self.session.move_head(leaf, why)

    async def condense(self, made: Condensation, trigger: CondenseTrigger) -> str:
        """Write the summary, the copies of what stays, the head and the record that ties the lines together."""
        if made.summary is None:
            raise InvalidState("There is nothing to condense.")
        entries = self.entries()
        kept = kept_entries(made, entries)
        record = await self.session.condense(
            made.summary,
            len([entry for entry in entries[: made.cut] if entry.node is not None]),
            start=len([entry for entry in entries[: made.start] if entry.node is not None]),
            kept=[(entry.turn, entry.created_at, entry.node) for entry in kept],
            trigger=trigger,
            before=made.before,
            after=made.after,
            files_read=made.files_read,
            files_modified=made.files_modified,
            model=made.model or None,
        )
        self._known = (None, [])
        return str(record["summary"])

    async def mask(self, masking: Masking, trigger: CondenseTrigger) -> None:
        """Write the masked copies, the head and the record that ties the lines together."""
        entries = self.entries()
        await self.session.mask(
            len([entry for entry in entries[: masking.start] if entry.node is not None]),
            [
                (turn, entry.created_at, entry.node)
                for turn, entry in zip(masking.turns, entries[masking.start :], strict=True)
            ],
            trigger=trigger,
            before=masking.before,
            after=masking.after,
        )
        self._known = (None, [])

    async def undo_condense(self) -> str:
        """Write a head that names the old leaf."""
        return await self.session.undo_condense()

    async def usage(self, node: str, usage: Usage, model: str, provider: str) -> None:
        """Write a usage record."""
        await self.session.usage(node, usage, model, provider)

    async def receipt(self, node: str, call_id: str, stage: str) -> None:
        """Write a receipt."""
        await self.session.receipt(node, call_id, stage)

    async def approval(self, request: ApprovalRequest, verdict: Verdict) -> None:
        """Write an approval record."""
        await self.session.approval(request, verdict)

    async def sync(self) -> None:
        """Have the disk confirm."""
        await self.session.sync()


class MemoryHistory:
    """A history that ends with the process; for an agent without a store."""

    trusted = True
    pinned: frozenset[str] = frozenset()

    def __init__(self, session_id: str, clock: Clock) -> None:
        self.graph = SessionGraph(session_id, clock=clock)
        self._condensed: dict[str, str] = {}

    @property
    def session_id(self) -> str:
        """The session's id."""
        return self.graph.session_id

    @property
    def leaf(self) -> str | None:
        """The live leaf."""
        return self.graph.leaf

    def hold(self, busy: bool) -> None:
        """Nobody else has this history."""

    def find(self, node: str) -> Node | None:
        """A node of the graph."""
        return self.graph.node(node) if node in self.graph else None

    def entries(self) -> list[Entry]:
        """The live path, with every call answered."""
        return entries_of(self.graph.nodes_to(self.leaf), lambda _at, _call: True)

    def view(self) -> tuple[Turn, ...]:
        """The turns of `entries`."""
        return model_view(self.graph.path_to(self.leaf), lambda _at, _call: True)

    async def append(self, turns: Sequence[Turn]) -> list[Node]:
        """Put turns under the leaf."""
        return [self.graph.append(turn) for turn in turns]

    async def move_head(self, leaf: str | None, why: str) -> None:
        """Go on from another node."""
        self.graph.branch_from(leaf)

    async def condense(self, made: Condensation, trigger: CondenseTrigger) -> str:
        """Go on from the summary with what stays copied under it."""
        if made.summary is None:
            raise InvalidState("There is nothing to condense.")
        entries = self.entries()
        old_leaf = self.leaf
        self.graph.branch_from(next((e.node for e in reversed(entries[: made.start]) if e.node), None))
        summary = self.graph.append(made.summary, created_at=entries[made.cut - 1].created_at)
        for entry in kept_entries(made, entries):
            self.graph.append(entry.turn, created_at=entry.created_at)
        if old_leaf is not None:
            self._condensed[summary.id] = old_leaf
        return summary.id

    async def mask(self, masking: Masking, trigger: CondenseTrigger) -> None:
        """Go on with the masked copies."""
        entries = self.entries()
        old_leaf = self.leaf
        self.graph.branch_from(next((e.node for e in reversed(entries[: masking.start]) if e.node), None))
        copies = [
            self.graph.append(turn, created_at=entry.created_at).id
            for turn, entry in zip(masking.turns, entries[masking.start :], strict=True)
        ]
        if old_leaf is not None:
            self._condensed[copies[0]] = old_leaf

    async def undo_condense(self) -> str:
        """Go back to the line that the last summary on the path was made from."""
        for node in reversed(self.graph.ids_to(self.leaf)):
            if node in self._condensed:
                self.graph.branch_from(self._condensed[node])
                return self._condensed[node]
        raise InvalidState("There is no condensation to take back on this branch.")

    async def usage(self, node: str, usage: Usage, model: str, provider: str) -> None:
        """Nothing to write."""

    async def receipt(self, node: str, call_id: str, stage: str) -> None:
        """Nothing to write."""

    async def approval(self, request: ApprovalRequest, verdict: Verdict) -> None:
        """Nothing to write."""

    async def sync(self) -> None:
        """Nothing to wait for."""

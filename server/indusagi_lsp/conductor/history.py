"""The conversation as the conductor needs it, whether it lives in a session file or in memory only."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

import msgspec

from indusagi_lsp.condensation import Condensation
from indusagi_lsp.contract.clock import Clock
from indusagi_lsp.contract.errors import InvalidState
from indusagi_lsp.contract.models import Usage
from indusagi_lsp.contract.turns import Turn
from indusagi_lsp.sessions import Node, Session, SessionGraph, answered


class Entry(msgspec.Struct, frozen=True):
    """One turn of the live path as the model may be sent it.

    `node` is None for a result that stands in for one that a crash has lost; it is not in the graph (yet).
    """

    turn: Turn
    created_at: float
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

    async def condense(self, made: Condensation, trigger: str) -> str:
        """Go on from the summary with the kept turns copied under it; the summary's node id."""
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

    async def sync(self) -> None:
        """Return once everything is safe on disk."""
        ...


def entries_of(nodes: Sequence[Node], view: Iterable[Turn]) -> list[Entry]:
    """Tell which turns of a model's view are nodes, and which stand in for lost results.

    Args:
        nodes: the live path.
        view: its turns, in order and unchanged, with results in between.
    """
    entries: list[Entry] = []
    at = 0
    for turn in view:
        if at < len(nodes) and turn is nodes[at].turn:
            entries.append(Entry(turn, nodes[at].created_at, nodes[at].id))
            at += 1
        else:
            when = nodes[at - 1].created_at if at else 0
            entries.append(Entry(turn, when, None))
    return entries


class StoredHistory:
    """A history in a session file."""

    def __init__(self, session: Session) -> None:
        self.session = session

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

    def nodes(self) -> list[Node]:
        """The live path, root to leaf."""
        leaf = self.leaf
        return [] if leaf is None else self.session.graph.nodes_to(leaf)

    def view(self) -> tuple[Turn, ...]:
        """The live path, with every call answered."""
        return self.session.model_view()

    async def append(self, turns: Sequence[Turn]) -> list[Node]:
        """Write turns under the leaf."""
        return await self.session.append(turns)

    async def move_head(self, leaf: str | None, why: str) -> None:
        """Write a head."""
        await self.session.move_head(leaf, why)

    async def condense(
        self,
        summary: Turn,
        tail: Sequence[Turn],
        cut: int,
        *,
        trigger: str,
        before: int,
        after: int,
        files_read: Sequence[str],
        files_modified: Sequence[str],
        model: str,
    ) -> str:
        """Write the summary, the copies of the tail, the head and the record that ties the lines together."""
        record = await self.session.condense(
            summary,
            cut,
            tail=tail,
            trigger=trigger,
            before=before,
            after=after,
            files_read=files_read,
            files_modified=files_modified,
            model=model,
        )
        return record.summary

    async def undo_condense(self) -> str:
        """Write a head that names the old leaf."""
        return await self.session.undo_condense()

    async def usage(self, node: str, usage: Usage, model: str, provider: str) -> None:
        """Write a usage record."""
        await self.session.usage(node, usage, model, provider)

    async def receipt(self, node: str, call_id: str, stage: str) -> None:
        """Write a receipt."""
        await self.session.receipt(node, call_id, stage)

    async def sync(self) -> None:
        """Have the disk confirm."""
        await self.session.sync()


class MemoryHistory:
    """A history that ends with the process; for an agent without a store."""

    trusted = True

    def __init__(self, session_id: str, clock: Clock) -> None:
        self.graph = SessionGraph(session_id)
        self._clock = clock
        self._condensed: dict[str, str] = {}

    @property
    def session_id(self) -> str:
        """The session's id."""
        return self.graph.session_id

    @property
    def leaf(self) -> str | None:
        """The live leaf."""
        return self.graph.leaf

    def nodes(self) -> list[Node]:
        """The live path, root to leaf."""
        return [] if self.graph.leaf is None else self.graph.nodes_to(self.graph.leaf)

    def view(self) -> tuple[Turn, ...]:
        """The live path, with every call answered."""
        return answered(node.turn for node in self.nodes())

    async def append(self, turns: Sequence[Turn]) -> list[Node]:
        """Put turns under the leaf."""
        return [self.graph.append(turn, created_at=self._clock.now_ms()) for turn in turns]

    async def move_head(self, leaf: str | None, why: str) -> None:  # noqa: ARG002 - a memory keeps no reasons
        """Go on from another node."""
        self.graph.branch_from(leaf)

    async def condense(
        self,
        summary: Turn,
        tail: Sequence[Turn],
        cut: int,
        *,
        trigger: str,  # noqa: ARG002 - there is no record to write these into
        before: int,  # noqa: ARG002
        after: int,  # noqa: ARG002
        files_read: Sequence[str],  # noqa: ARG002
        files_modified: Sequence[str],  # noqa: ARG002
        model: str,  # noqa: ARG002
    ) -> str:
        """Go on from the summary with the tail copied under it."""
        nodes = self.nodes()
        old_leaf = nodes[-1].id
        self.graph.branch_from(None)
        root = self.graph.append(summary, created_at=nodes[cut - 1].created_at)
        for node, turn in zip(nodes[cut:], tail, strict=True):
            self.graph.append(turn, created_at=node.created_at)
        self._condensed[root.id] = old_leaf
        return root.id

    async def undo_condense(self) -> str:
        """Go back to the line that the summary at the root was made from."""
        nodes = self.nodes()
        old_leaf = self._condensed.get(nodes[0].id) if nodes else None
        if old_leaf is None:
            raise InvalidState("There is no condensation to take back on this branch.")
        self.graph.branch_from(old_leaf)
        return old_leaf

    async def usage(self, node: str, usage: Usage, model: str, provider: str) -> None:
        """Nothing to write."""

    async def receipt(self, node: str, call_id: str, stage: str) -> None:
        """Nothing to write."""

    async def sync(self) -> None:
        """Nothing to wait for."""

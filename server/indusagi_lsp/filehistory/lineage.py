"""Which tool calls lie on the way from the root to a node, through condensations and forks.

A condensed line begins with a summary that stands for turns of an older line; the calls in these were made all the
same. A condense record says which turn of the old line the kept ones begin with, and which node is a copy of which. A
session that was forked off begins with nodes of its parent's.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import msgspec

from indusagi_lsp.contract.errors import NodeNotFound
from indusagi_lsp.sessions.graph import SessionGraph


class Member(msgspec.Struct, frozen=True):
    """One session of a family.

    Attributes:
        graph: its turns.
        condensations: its condense records.
        receipts: the (node, call id) pairs of which a receipt is known.
        until: what it did after this time (milliseconds) is not the family's any more; None: everything counts.
    """

    graph: SessionGraph
    condensations: Sequence[Mapping[str, Any]] = ()
    receipts: Collection[tuple[str, str]] = ()
    until: int | None = None


class Lineage:
    """A session and those that it was forked from.

    Args:
        members: the session itself first, then its parent, and so on.
    """

    def __init__(self, members: Sequence[Member]) -> None:
        self._members = members
        self._copies: dict[str, str] = {}
        self._jumps: dict[str, str | None] = {}
        for member in reversed(members):
            for record in member.condensations:
                self._take(member.graph, record)

    @property
    def session_id(self) -> str:
        """The session itself."""
        return self._members[0].graph.session_id

    def counts(self, session_id: str, at: int) -> bool:
        """Whether what was done in a session at a time belongs to this one's history."""
        return any(
            member.graph.session_id == session_id and (member.until is None or at <= member.until)
            for member in self._members
        )

    def path(self, node: str | None) -> list[str]:
        """The nodes from the root to `node`, each under the id that it had first. Blocks.

        Raises:
            NodeNotFound: there is no such node.
        """
        if node is not None and self._graph(node) is None:
            raise NodeNotFound(self.session_id, node)
        found: dict[str, None] = {}
        at = node
        visited: set[str] = set()
        while at is not None and at not in visited:
            visited.add(at)
            found[self.original(at)] = None
            graph = self._graph(at)
            above = graph.parent(at) if graph is not None else None
            at = self._jumps.get(at, above)
        return list(reversed(found))

    def original(self, node: str) -> str:
        """The node that a node is a copy of, or itself."""
        visited: set[str] = set()
        while node in self._copies and node not in visited:
            visited.add(node)
            node = self._copies[node]
        return node

    def calls(self, node: str | None) -> Calls:
        """The tool calls on the way to `node`; else as `path`."""
        return Calls(self, self.path(node), self._members)

    def created_at(self, node: str) -> int:
        """When a node was made, 0 if it is lost."""
        graph = self._graph(node)
        return graph.node(node).created_at if graph is not None else 0

    def called(self) -> dict[str, set[str]]:
        """The nodes in which each call stands, by call id. Reads every turn, and blocks."""
        found: dict[str, set[str]] = {}
        for member in self._members:
            for node in member.graph.nodes():
                for call in node.turn.tool_calls:
                    found.setdefault(call.id, set()).add(self.original(node.id))
        return found

    def _graph(self, node: str) -> SessionGraph | None:
        return next((member.graph for member in self._members if node in member.graph), None)

    def _take(self, graph: SessionGraph, record: Mapping[str, Any]) -> None:
        summary, source, cut, copies = (record.get(name) for name in ("summary", "from", "cut", "copies"))
        if not isinstance(summary, str) or not isinstance(source, str) or source not in graph:
            return
        if isinstance(cut, str):
            self._jumps[summary] = graph.parent(cut) if cut in graph else source
        else:
            self._jumps[summary] = source
        if isinstance(copies, dict):
            self._copies.update({copy: old for copy, old in copies.items() if isinstance(old, str) and copy != old})


class Calls:
    """The tool calls on one path.

    Providers' call ids are unique, those of some models are not: where an id stands in several turns, a change belongs
    to the last of them that was there when it was made.
    """

    def __init__(self, lineage: Lineage, path: Sequence[str], members: Sequence[Member]) -> None:
        self._lineage = lineage
        self._on_path = frozenset(path)
        self._members = members
        self._receipts: dict[str, set[str]] | None = None
        self._turns: dict[str, set[str]] | None = None

    def node(self, call: str, at: int) -> str | None:
        """The node on the path in which a call stands that did something at a time; None if it is not on the path."""
        known = self._with_receipt(call)
        if not known:
            # Every call that acts has a receipt, unless the session's file was damaged.
            if self._turns is None:
                self._turns = self._lineage.called()
            known = self._turns.get(call, set())
        if len(known) > 1:
            made = sorted((self._lineage.created_at(node), node) for node in known)
            known = {next((node for when, node in reversed(made) if when <= at), made[0][1])}
        return next((node for node in known if node in self._on_path), None)

    def _with_receipt(self, call: str) -> set[str]:
        if self._receipts is None:
            self._receipts = {}
            for member in self._members:
                for node, one in member.receipts:
                    self._receipts.setdefault(one, set()).add(self._lineage.original(node))
        return self._receipts.get(call, set())

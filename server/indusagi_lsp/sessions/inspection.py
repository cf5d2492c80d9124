"""Inspection: what one session's file says of itself, kept without its texts, and what in it does not fit together."""

from __future__ import annotations

from collections import Counter
from typing import Any, Literal, TypeAlias

import msgspec

from indusagi_lsp.contract.turns import ASSISTANT, Turn
from indusagi_lsp.sessions import blobs
from indusagi_lsp.sessions.nodes import hash_node
from indusagi_lsp.sessions.records import Problem, Record
from indusagi_lsp.sessions.scan import narrow_node

Level: TypeAlias = Literal["info", "warning", "error"]
MAX_FINDINGS = 200
"""Findings of one kind in one session that are listed; the others are counted."""


class Finding(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """Something about a session. `code` is stable; `offset` is in bytes; `healed`: a repair took care of it."""

    level: Level
    code: str
    text: str
    node: str | None = None
    offset: int | None = None
    healed: bool = False


class Notes:
    """Findings, not more than a fixed number of each kind."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()
        self._findings: list[Finding] = []

    def add(self, finding: Finding) -> None:
        """Count a finding, and list it if there are not too many of its kind yet."""
        self._counts[finding.code] += 1
        if self._counts[finding.code] <= MAX_FINDINGS:
            self._findings.append(finding)

    @property
    def counts(self) -> dict[str, int]:
        """How many there were of each kind."""
        return dict(self._counts)

    @property
    def findings(self) -> tuple[Finding, ...]:
        """Those that are listed."""
        return tuple(self._findings)


class _Node(msgspec.Struct, frozen=True):
    """What is remembered of a node: no text."""

    parent: str | None
    calls: tuple[str, ...]
    results: tuple[str, ...]
    verified: bool


class Lineage(msgspec.Struct, frozen=True):
    """The tree that the nodes make: where each walk begins, who follows whom, who has no followers."""

    roots: tuple[str, ...]
    children: dict[str, list[str]]
    leaves: tuple[str, ...]


class Contents:
    """One session, as it is read.

    Attributes:
        nodes: what is remembered of each node, by id.
        blobs: the blobs that outputs name, with the first node that names each.
        broken: pieces of the file that are no record.
        welded: how many records share their line with something else.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.nodes: dict[str, _Node] = {}
        self.blobs: dict[str, str] = {}
        self.broken: list[Finding] = []
        self.welded = 0
        self._heads: list[str] = []
        self._named: list[tuple[str, str]] = []

    def take(self, item: Record | Problem, notes: Notes) -> None:
        """Take the next piece of the file in."""
        if isinstance(item, Problem):
            level: Level = "warning" if item.kind == "torn" else "error"
            text = f"At byte {item.offset}: {item.message}."
            self.broken.append(Finding(level, item.kind, text, offset=item.offset))
            return

        self.welded += not item.whole
        kind = item.raw.get("type")
        if kind == "node":
            self._node(item, notes)
        elif kind == "head":
            leaf = item.raw.get("leaf")
            if isinstance(leaf, str):
                self._heads.append(leaf)
        elif kind in ("label", "usage", "receipt"):
            self._names(str(kind), item.raw.get("node"))
        elif kind == "condense":
            self._names("condense", item.raw.get("summary"))
            self._names("condense", item.raw.get("from"))
            copies = item.raw.get("copies")
            for pair in copies.items() if isinstance(copies, dict) else ():
                for node in pair:
                    self._names("condense", node)

    def _node(self, item: Record, notes: Notes) -> None:
        found = narrow_node(item.raw)
        if found is None:
            text = f"At byte {item.offset}: a node without a usable id, parent, turn or time."
            notes.add(Finding("error", "bad_node", text, offset=item.offset))
            return

        node, parent, turn, _ = found
        if node in self.nodes:
            if self.nodes[node].verified != _is_hash(item.raw):
                text = f"At byte {item.offset}: another content under an id that was there before."
                notes.add(Finding("error", "conflict", text, node, item.offset))
            return

        verified = _is_hash(item.raw)
        if not verified:
            text = f"Turn {node} is not what its id promises: it was changed after it was written."
            notes.add(Finding("error", "unverified", text, node, item.offset))
        if turn.role == ASSISTANT and not turn.blocks:
            notes.add(Finding("warning", "empty", f"Turn {node} of the model is empty.", node, item.offset))
        self.nodes[node] = _Node(parent, *_pairs(turn), verified)
        for digest in blobs.named((turn,)):
            self.blobs.setdefault(digest, node)

    def know(
        self, node: str, parent: str | None, calls: tuple[str, ...], results: tuple[str, ...], *, verified: bool
    ) -> None:
        """Take a node in whose record was read elsewhere.

        Args:
            node: its id, not known yet.
            parent: the id of its parent.
            calls: ids of the tool calls that it makes.
            results: ids of the calls that it answers.
            verified: whether the id is the hash of the content.
        """
        self.nodes[node] = _Node(parent, calls, results, verified)

    def _names(self, kind: str, node: Any) -> None:
        if isinstance(node, str):
            self._named.append((kind, node))

    def check_lineage(self, notes: Notes) -> Lineage:
        """Missing parents and rings; every walk in the result ends."""
        children: dict[str, list[str]] = {}
        roots: list[str] = []
        for node, known in self.nodes.items():
            if known.parent is None:
                roots.append(node)
            elif known.parent in self.nodes:
                children.setdefault(known.parent, []).append(node)
            else:
                text = f"The history before turn {node} is missing: there is no {known.parent}."
                notes.add(Finding("error", "gap", text, node))
                roots.append(node)

        reached: set[str] = set()
        for start in [*roots, *self.nodes]:
            if start in reached:
                continue

            begin = start
            if self.nodes[start].parent in self.nodes:
                # No root leads here: the parents above make a ring. It is cut at its first node in the file.
                begin = self._ring(start)
                notes.add(Finding("error", "cycle", f"The parents of turn {begin} lead back to it.", begin))
                children[str(self.nodes[begin].parent)].remove(begin)
                roots.append(begin)
            stack = [begin]
            while stack:
                node = stack.pop()
                if node not in reached:
                    reached.add(node)
                    stack.extend(children.get(node, ()))

        leaves = tuple(node for node in self.nodes if not children.get(node))
        return Lineage(tuple(roots), children, leaves)

    def _ring(self, start: str) -> str:
        """The node of the ring above `start` that stands first in the file."""
        trail: dict[str, None] = {}
        cursor = start
        while cursor not in trail:
            trail[cursor] = None
            cursor = str(self.nodes[cursor].parent)
        ring = list(trail)[list(trail).index(cursor) :]
        members = set(ring)
        return next(node for node in self.nodes if node in members)

    def check_pairs(self, lineage: Lineage, notes: Notes) -> None:
        """Calls without a result at the end of a branch, and results without a call above them."""
        told: set[tuple[str, str]] = set()
        for root in lineage.roots:
            known: Counter[str] = Counter()
            waiting: dict[str, str] = {}
            # (node, None) goes in; (node, what it changed) goes out again.
            stack: list[tuple[str, dict[str, str | None] | None]] = [(root, None)]
            while stack:
                node, undo = stack.pop()
                facts = self.nodes[node]
                if undo is not None:
                    known.subtract(facts.calls)
                    for call, before in undo.items():
                        waiting.pop(call, None) if before is None else waiting.__setitem__(call, before)
                    continue

                undo = {call: waiting.get(call) for call in (*facts.calls, *facts.results)}
                known.update(facts.calls)
                waiting.update(dict.fromkeys(facts.calls, node))
                for call in facts.results:
                    if not known[call]:
                        text = f"Turn {node} answers the call {call}, which is not above it."
                        notes.add(Finding("warning", "orphan_result", text, node))
                    waiting.pop(call, None)
                stack.append((node, undo))
                following = lineage.children.get(node, ())
                stack.extend((child, None) for child in following)
                if not following:
                    told.update((place, call) for call, place in waiting.items())

        for node, call in sorted(told):
            text = f"The call {call} of turn {node} has no result; a model is told that it was interrupted."
            notes.add(Finding("info", "unanswered", text, node))

    def check_references(self, notes: Notes) -> None:
        """Heads and records that name nodes which are not there."""
        for leaf in self._heads:
            if leaf not in self.nodes:
                notes.add(Finding("warning", "head", f"A head names turn {leaf}, which is not there.", leaf))
        if self.nodes and not any(leaf in self.nodes for leaf in self._heads):
            notes.add(Finding("info", "headless", "No head says which branch is live; the last one is taken."))
        for kind, node in self._named:
            if node not in self.nodes:
                text = f"A record of kind {kind} names turn {node}, which is not there."
                notes.add(Finding("warning", "reference", text, node))


def _pairs(turn: Turn) -> tuple[tuple[str, ...], tuple[str, ...]]:
    calls = tuple(call.id for call in turn.tool_calls)
    return calls, tuple(result.call_id for result in turn.tool_results)


def _is_hash(raw: dict[str, Any]) -> bool:
    node = raw["node"]
    try:
        return bool(hash_node(node.get("parent"), node["turn"], node["createdAt"]) == node["id"])
    except (KeyError, TypeError, ValueError, AttributeError):
        return False

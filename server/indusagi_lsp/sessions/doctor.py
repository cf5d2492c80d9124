"""The doctor: looks at every byte of the sessions and says, in words and as JSON, what is not as it should be.

It checks what the format promises: each line is a record, each id is the hash of its content, each node has
its parent, each result has its call and each call its result, heads and records name nodes that are there,
blobs hold what their names say. Looking changes nothing; `repair=True` heals what can be healed, and keeps
every byte that it takes out.
"""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import msgspec

from indusagi_lsp.contract.clock import Clock, SystemClock
from indusagi_lsp.contract.errors import SessionNotFound
from indusagi_lsp.contract.text import visible_line
from indusagi_lsp.contract.turns import ASSISTANT, Turn
from indusagi_lsp.sessions import blobs
from indusagi_lsp.sessions.folder import SessionFolder
from indusagi_lsp.sessions.healing import heal_blob, heal_file, heal_mode
from indusagi_lsp.sessions.nodes import hash_node
from indusagi_lsp.sessions.records import Problem, Record, read_records
from indusagi_lsp.sessions.scan import narrow_node

if TYPE_CHECKING:
    from pathlib import Path

    from indusagi_lsp.sessions.signing import Signer

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


class Health(msgspec.Struct, frozen=True, rename="camel"):
    """One session: what it has, how each kind of finding counts, and the findings."""

    session_id: str
    nodes: int = 0
    branches: int = 0
    head: str | None = None
    trusted: bool | None = None
    counts: dict[str, int] = {}
    findings: tuple[Finding, ...] = ()

    @property
    def healthy(self) -> bool:
        """Whether nothing is left that is wrong: what was healed, and mere information, does not count."""
        return all(finding.level == "info" or finding.healed for finding in self.findings)


class Diagnosis(msgspec.Struct, frozen=True, rename="camel"):
    """All that was looked at."""

    sessions: tuple[Health, ...] = ()
    repaired: bool = False

    @property
    def healthy(self) -> bool:
        """Whether all the sessions are."""
        return all(session.healthy for session in self.sessions)

    def to_json(self) -> dict[str, Any]:
        """The diagnosis as JSON data."""
        data: dict[str, Any] = msgspec.to_builtins(self)
        data["healthy"] = self.healthy
        for told, session in zip(data["sessions"], self.sessions, strict=True):
            told["healthy"] = session.healthy

        return data

    def to_text(self) -> str:
        """The diagnosis in words."""
        lines: list[str] = []
        for session in self.sessions:
            state = "healthy" if session.healthy else "not healthy"
            lines.append(f"{session.session_id}: {session.nodes} turns, {session.branches} branches, {state}")
            for finding in session.findings:
                healed = " (healed)" if finding.healed else ""
                lines.append(f"  {finding.level}: {visible_line(finding.text)}{healed}")
            listed = Counter(finding.code for finding in session.findings)
            lines.extend(
                f"  … and {count - listed[code]} more of {code}"
                for code, count in session.counts.items()
                if count > listed[code]
            )
        sick = sum(not session.healthy for session in self.sessions)
        lines.append(f"{len(self.sessions)} sessions looked at, {sick} with something wrong.")
        return "\n".join(lines) + "\n"


Progress: TypeAlias = Callable[[int, int], None]
"""Told after each session: how many are done, and how many there are."""


async def examine(
    root: Path,
    *,
    sessions: Iterable[str] | None = None,
    blobs_dir: Path | None = None,
    signer: Signer | None = None,
    repair: bool = False,
    clock: Clock | None = None,
    progress: Progress | None = None,
) -> Diagnosis:
    """Look at the sessions in a folder.

    Args:
        root: the folder of the session files.
        sessions: only these, by id; None looks at all.
        blobs_dir: the folder of the blobs, by default beside `root`.
        signer: tells whose a session is; without one nothing is said of that.
        repair: heal what can be healed. Bytes that are no record go to `<session>.broken-<n>`, welded records
            get lines of their own, a blob with other bytes than its name says is put aside, modes are made
            private. No record is changed and none is taken out.
        clock: the time of the `repair` records.
        progress: told after each session.

    Raises:
        SessionNotFound: one of `sessions` is not there.
        PersistenceFault: the folder cannot be read.
    """
    folder = SessionFolder(root)
    names = await asyncio.to_thread(folder.names)
    if sessions is not None:
        wanted = [await asyncio.to_thread(folder.resolve, name) for name in sessions]
        for name in wanted:
            if name not in names:
                raise SessionNotFound(name)
        names = wanted

    check = _Check(folder, blobs_dir or root.parent / "blobs", signer, clock or SystemClock(), repair)
    found: list[Health] = []
    for done, name in enumerate(names, start=1):
        found.append(await asyncio.to_thread(check.session, name))
        if progress is not None:
            progress(done, len(names))

    return Diagnosis(tuple(found), repair)


class _Check(msgspec.Struct, frozen=True):
    folder: SessionFolder
    blobs_dir: Path
    signer: Signer | None
    clock: Clock
    repair: bool

    def session(self, name: str) -> Health:
        path = self.folder.path(name)
        notes = _Notes()
        read = _Read(name)
        try:
            for item in read_records(path):
                read.take(item, notes)
        except OSError as error:
            notes.add(Finding("error", "unreadable", f"The file cannot be read: {error.strerror or error}."))
            return notes.health(name)

        self._file(name, path, read, notes)
        lineage = read.check_lineage(notes)
        read.check_pairs(lineage, notes)
        read.check_references(notes)
        self._blobs(read, notes)
        trusted = None if self.signer is None else read.trusted(self.signer)
        if trusted is False:
            text = "It was written by somebody else, or its last head was lost; it is foreign until you adopt it."
            notes.add(Finding("info", "foreign", text))
        return notes.health(name, read, len(lineage.leaves), trusted)

    def _file(self, name: str, path: str, read: _Read, notes: _Notes) -> None:
        """Bytes that are no record, welded lines, a missing line end, and the file's mode."""
        healed = False
        if self.repair and (read.broken or read.welded):
            healed = heal_file(self.folder, name, self.clock.now_ms())
        for finding in read.broken:
            notes.add(msgspec.structs.replace(finding, healed=healed))
        if read.welded:
            text = f"{read.welded} records share a line with something else."
            notes.add(Finding("warning", "welded", text, healed=healed))
        if os.name != "nt" and os.stat(path).st_mode & 0o077:
            text = "Other users of this machine can read the file."
            notes.add(Finding("warning", "mode", text, healed=self.repair and heal_mode(path)))

    def _blobs(self, read: _Read, notes: _Notes) -> None:
        for digest, node in read.blobs.items():
            state = blobs.state(self.blobs_dir, digest)
            if state == "ok":
                continue

            healed = self.repair and state == "changed" and heal_blob(self.blobs_dir, digest)
            text = f"The whole output of a tool, blob {digest}, is {state}."
            notes.add(Finding("warning", f"blob_{state}", text, node, healed=healed))


class _Notes:
    """Findings, not more than a fixed number of each kind."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()
        self._findings: list[Finding] = []

    def add(self, finding: Finding) -> None:
        self._counts[finding.code] += 1
        if self._counts[finding.code] <= MAX_FINDINGS:
            self._findings.append(finding)

    def health(self, name: str, read: _Read | None = None, branches: int = 0, trusted: bool | None = None) -> Health:
        nodes, head = (len(read.nodes), read.head) if read is not None else (0, None)
        return Health(name, nodes, branches, head, trusted, dict(self._counts), tuple(self._findings))


class _Node(msgspec.Struct, frozen=True):
    """What is remembered of a node: no text."""

    parent: str | None
    calls: tuple[str, ...]
    results: tuple[str, ...]
    verified: bool


class _Lineage(msgspec.Struct, frozen=True):
    """The tree that the nodes make: where each walk begins, who follows whom, who has no followers."""

    roots: tuple[str, ...]
    children: dict[str, list[str]]
    leaves: tuple[str, ...]


class _Read:
    """One session, as it is read."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.nodes: dict[str, _Node] = {}
        self.blobs: dict[str, str] = {}
        self.broken: list[Finding] = []
        self.welded = 0
        self.head: str | None = None
        self._macs: dict[str, list[Any]] = {}
        self._heads: list[str] = []
        self._named: list[tuple[str, str]] = []

    def take(self, item: Record | Problem, notes: _Notes) -> None:
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
                self._macs.setdefault(leaf, []).append(item.raw.get("mac"))
        elif kind in ("label", "usage", "receipt"):
            self._names(str(kind), item.raw.get("node"))
        elif kind == "condense":
            self._names("condense", item.raw.get("summary"))
            self._names("condense", item.raw.get("from"))
            copies = item.raw.get("copies")
            for pair in copies.items() if isinstance(copies, dict) else ():
                for node in pair:
                    self._names("condense", node)

    def _node(self, item: Record, notes: _Notes) -> None:
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

    def _names(self, kind: str, node: Any) -> None:
        if isinstance(node, str):
            self._named.append((kind, node))

    def check_lineage(self, notes: _Notes) -> _Lineage:
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
        return _Lineage(tuple(roots), children, leaves)

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

    def check_pairs(self, lineage: _Lineage, notes: _Notes) -> None:
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

    def check_references(self, notes: _Notes) -> None:
        """Heads and records that name nodes which are not there; and which head counts."""
        for leaf in self._heads:
            if leaf in self.nodes:
                self.head = leaf
            else:
                notes.add(Finding("warning", "head", f"A head names turn {leaf}, which is not there.", leaf))
        if self.nodes and self.head is None:
            notes.add(Finding("info", "headless", "No head says which branch is live; the last one is taken."))
        for kind, node in self._named:
            if node not in self.nodes:
                text = f"A record of kind {kind} names turn {node}, which is not there."
                notes.add(Finding("warning", "reference", text, node))

    def trusted(self, signer: Signer) -> bool:
        """Whether the live leaf bears a mac of this user, and every id on the path to it is true."""
        if self.head is None:
            return not self.nodes

        if not any(signer.valid(self.name, self.head, mac) for mac in self._macs.get(self.head, ())):
            return False

        seen: set[str] = set()
        cursor: str | None = self.head
        while cursor is not None and cursor in self.nodes and cursor not in seen:
            if not self.nodes[cursor].verified:
                return False
            seen.add(cursor)
            cursor = self.nodes[cursor].parent

        return cursor is None


def _pairs(turn: Turn) -> tuple[tuple[str, ...], tuple[str, ...]]:
    calls = tuple(call.id for call in turn.tool_calls)
    return calls, tuple(result.call_id for result in turn.tool_results)


def _is_hash(raw: dict[str, Any]) -> bool:
    node = raw["node"]
    try:
        return bool(hash_node(node.get("parent"), node["turn"], node["createdAt"]) == node["id"])
    except (KeyError, TypeError, ValueError, AttributeError):
        return False

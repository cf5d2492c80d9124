"""What a session file says, all together: the graph, the live leaf, whose it is, labels, costs, and what was wrong."""

from __future__ import annotations

import bisect
import io
import os
import weakref
from collections import Counter
from collections.abc import Container, Iterable, Mapping, Sequence
from typing import Any, BinaryIO

import msgspec

from indusagi_lsp.contract.clock import Clock
from indusagi_lsp.contract.events import Notice
from indusagi_lsp.contract.models import Usage
from indusagi_lsp.contract.turns import Turn
from indusagi_lsp.sessions.graph import SessionGraph
from indusagi_lsp.sessions.log import MARK_BYTES, Loaded
from indusagi_lsp.sessions.oscalls import OsCalls, read_exactly
from indusagi_lsp.sessions.records import Problem, open_fd
from indusagi_lsp.sessions.scan import Batch, Head, Migrator, reader, scan
from indusagi_lsp.sessions.signing import Signer

SCHEMA = 1
DELIBERATE = frozenset({"fork", "resume", "undo", "adopt", "condense"})
"""Why a head may go back to an earlier node. An `append` cannot mean that: it is late news from a dying process."""

_NOTICES = {
    "skipped": "{} pieces of the session file are no records and were passed over.",
    "malformed": "{} records of the session file are not understood and were passed over.",
    "migrator": "{} records could not be brought to the present form and were passed over.",
    "torn": "The session file ends inside a record; what came before is all there.",
    "unverified": "{} turns were changed by hand or damaged: their ids do not match their content.",
    "gap": "{} turns have lost the turn before them: some history is missing.",
}
_WINDOW = 1 << 20
_MAX_PROBLEMS = 1_000
_HUGE = 1e16


class SessionMeta(msgspec.Struct, frozen=True):
    """The fields of the `session` records; a later record overrides fields of an earlier one. Times in ms."""

    id: str
    cwd: str | None = None
    created_at: int | None = None
    title: str | None = None
    parent_session: str | None = None
    model: str | None = None
    archived: bool = False
    fields: Mapping[str, Any] = {}


class LoadReport(msgspec.Struct):
    """What was found wrong at loading. Nothing of it was dropped from the file."""

    problems: list[Problem] = msgspec.field(default_factory=list)
    counts: Counter[str] = msgspec.field(default_factory=Counter)
    understood: int = 0

    def add(self, problem: Problem) -> None:
        """Count a problem, and keep it if there are not too many yet."""
        self.counts[problem.kind] += 1
        if len(self.problems) < _MAX_PROBLEMS:
            self.problems.append(problem)

    @property
    def skipped(self) -> int:
        """How many pieces were no record, or not one that we can take."""
        return self.counts["skipped"] + self.counts["malformed"] + self.counts["migrator"]

    @property
    def torn(self) -> bool:
        """Whether the file ended inside a record."""
        return bool(self.counts["torn"])

    @property
    def unverified(self) -> int:
        """How many nodes do not have the hash of their content as their id."""
        return self.counts["unverified"]

    @property
    def gaps(self) -> int:
        """How many nodes have lost their parent."""
        return self.counts["gap"]

    @property
    def clean(self) -> bool:
        """Whether nothing was wrong."""
        return not self.counts

    @property
    def notices(self) -> tuple[Notice, ...]:
        """What a user should know of it."""
        return tuple(
            Notice("warning", f"session.{kind}", text.format(count))
            for kind, text in _NOTICES.items()
            if (count := self.counts[kind])
        )


class SessionState:
    """A session as its file says, kept up to date by `take` as the file grows."""

    def __init__(self, session_id: str, *, clock: Clock, signer: Signer | None) -> None:
        self.graph = SessionGraph(session_id, clock=clock)
        self._signer = signer
        self.clear()

    def clear(self) -> None:
        """Forget everything."""
        self.graph.clear()
        self.report = LoadReport()
        self.fields: dict[str, Any] = {}
        self.own_labels: dict[str, str] = {}
        self.condensations: list[dict[str, Any]] = []
        self.usages: dict[str, Usage] = {}
        self._answered_by: dict[str, tuple[str | None, str | None]] = {}
        self._names: dict[tuple[str | None, str | None], tuple[str | None, str | None]] = {}
        self.receipts: dict[tuple[str, str], str] = {}
        self.last_by: str | None = None
        self.updated_at = 0
        self.head: str | None = None
        self._origins: dict[str, str] = {}
        self._macs: dict[str, tuple[str, ...]] = {}
        self._late: list[tuple[int, Head]] = []
        self._order = 0
        self._applied = -1
        self._head_at = 0
        self._headless = True

    # --- reading ----------------------------------------------------------------------------------

    def take(self, batch: Batch) -> list[str]:
        """Take a piece of the file in. The graph's live leaf stays; `head` is what the file says.

        Returns:
            The ids of the new nodes.
        """
        before = len(self.graph)
        fresh = self.graph.extend(batch)
        for head in batch.heads:
            self._take_head(head, before, batch)
        for record in batch.records:
            self.take_record(record.raw)
        for problem in batch.problems:
            self.report.add(problem)
        self.report.understood += len(batch.ids) + len(batch.heads) + len(batch.records)
        return fresh

    def settle(self) -> None:
        """After the last piece: find the head that the file names, by lineage (session format, "Reading")."""
        for order, head in self._late:
            if order > self._applied and (head.leaf is None or head.leaf in self.graph):
                self._apply(order, head)
        self._late = [late for late in self._late if late[1].leaf not in self.graph]

        if self._headless:
            # No usable head: the childless node that comes last in the file.
            self.head = next(reversed(self.graph.leaves()), None)
            return
        # Turns whose own head was lost at the end of the file still belong to the live path.
        ids = self.graph.ids
        for at in range(self._head_at, len(ids)):
            if self.graph.parent(ids[at]) == self.head and not self.graph.is_gap(ids[at]):
                self.head = ids[at]
        self._head_at = len(ids)

    def note_problems(self) -> None:
        """Put the nodes with lost parents into the report."""
        for kind, node in self.graph.problems():
            if kind == "gap":
                self.report.add(Problem(kind, 0, 0, f"the history before node {node} is missing", node))

    def take_record(self, raw: Mapping[str, Any]) -> None:
        """Take a record that is neither node nor head. What is unknown is left alone."""
        match raw.get("type"):
            case "session":
                self.fields.update({name: value for name, value in raw.items() if name != "type"})
            case "label":
                node, name = raw.get("node"), raw.get("name")
                if isinstance(node, str) and isinstance(name, str):
                    self.own_labels[node] = name
                elif isinstance(node, str) and name is None:
                    self.own_labels.pop(node, None)
            case "condense":
                self._take_condense(raw)
            case "usage":
                self._take_usage(raw)
            case "receipt":
                node, call, stage = raw.get("node"), raw.get("callId"), raw.get("stage")
                if isinstance(node, str) and isinstance(call, str) and isinstance(stage, str):
                    self.receipts[node, call] = stage
            case _:
                pass

    def _take_condense(self, raw: Mapping[str, Any]) -> None:
        copies = raw.get("copies")
        if isinstance(raw.get("summary"), str) and isinstance(raw.get("from"), str):
            self.condensations.append(dict(raw))
            if isinstance(copies, dict):
                self._origins.update({new: old for new, old in copies.items() if isinstance(old, str)})

    def _take_usage(self, raw: Mapping[str, Any]) -> None:
        node = raw.get("node")
        if not isinstance(node, str):
            return
        counts = [_count(raw.get(name)) for name in ("input", "output", "cacheRead", "cacheWrite")]
        cost = raw.get("cost")
        self.usages[node] = Usage(
            counts[0],
            counts[1],
            counts[2],
            counts[3],
            float(cost) if isinstance(cost, (int, float)) else None,
        )
        names = (_text(raw.get("model")), _text(raw.get("provider")))
        # Few models answer many turns: the same pair is kept once.
        self._answered_by[node] = self._names.setdefault(names, names)

    def _take_head(self, head: Head, before: int, batch: Batch) -> None:
        order = self._order
        self._order += 1
        if head.mac is not None:
            self._note_mac(head.leaf, head.mac)
        if head.leaf is not None and head.leaf not in self.graph:
            self._late.append((order, head))
            return
        if self._is_stale(head):
            return
        self._apply(order, head)
        # Nodes of the batch that stand before the head; duplicates make this too high at most by their number.
        self._head_at = min(before + head.position, len(self.graph)) if len(batch.ids) else before

    def _is_stale(self, head: Head) -> bool:
        if self._headless or head.why in DELIBERATE or (head.why is None and head.by is None):
            return False
        return head.leaf != self.head and head.leaf is not None and self.graph.is_ancestor(head.leaf, self.head)

    def _apply(self, order: int, head: Head) -> None:
        self._applied = order
        self._headless = False
        self.head = head.leaf
        self.last_by = head.by

    # --- asking -----------------------------------------------------------------------------------

    @property
    def meta(self) -> SessionMeta:
        """What the session records say, with what is of the wrong type left out."""
        fields = self.fields
        return SessionMeta(
            self.graph.session_id,
            _text(fields.get("cwd")),
            _count(fields.get("createdAt")) or None,
            _text(fields.get("title")),
            _text(fields.get("parentSession")),
            _text(fields.get("model")),
            fields.get("archived") is True,
            fields,
        )

    @property
    def labels(self) -> dict[str, str]:
        """Labels by node. A copy that a condensation made has the label of what it is a copy of."""
        labels = dict(self.own_labels)
        for copy, original in list(self._origins.items()):
            inherited = labels.get(original)
            if inherited is not None:
                labels.setdefault(copy, inherited)
        return labels

    def about(self, nodes: Container[str], now: int) -> list[dict[str, Any]]:
        """The records that turns need to keep their meaning in another file: condensations, labels, costs, receipts.

        Args:
            nodes: the ids of the turns.
            now: milliseconds since the epoch; when a receipt says that it was written.
        """
        records = [record for record in self.condensations if record.get("summary") in nodes]
        records += [
            {"type": "label", "node": node, "name": name} for node, name in self.labels.items() if node in nodes
        ]
        for node, usage in self.usages.items():
            if node in nodes:
                records.append(usage_record(node, usage, *self._answered_by[node]))
        # Without its receipt a call would be said never to have started, and could be asked for again.
        records += [
            {"type": "receipt", "node": node, "callId": call, "stage": stage, "at": now}
            for (node, call), stage in self.receipts.items()
            if node in nodes
        ]
        return records

    def note_head(self, leaf: str | None, mac: str | None) -> None:
        """Take in a head that we wrote ourselves."""
        if mac is not None:
            self._note_mac(leaf, mac)
        self._order += 1
        self._applied = self._order
        self._headless = False
        self._late.clear()
        self.head = leaf
        self._head_at = len(self.graph)

    def _note_mac(self, leaf: str | None, mac: str) -> None:
        known = self._macs.get(leaf or "", ())
        if mac not in known:
            self._macs[leaf or ""] = (*known, mac)

    def keep_proofs(self, old: SessionState) -> None:
        """Take along what proves this user's heads in a state of the same session that this one replaces."""
        for leaf, macs in old._macs.items():
            for mac in macs:
                self._note_mac(leaf or None, mac)

    def signed(self, leaf: str | None) -> bool:
        """Whether this user put a head on that leaf."""
        if self._signer is None:
            return True
        session = self.graph.session_id
        return any(self._signer.valid(session, leaf, mac) for mac in self._macs.get(leaf or "", ()))

    def trusts(self, leaf: str | None) -> bool:
        """Whether the path to `leaf` is this user's own: its live leaf is signed, and every id on it is a true hash.

        Nothing at all (None) is trusted. Without a signer nothing can be told, so everything is trusted.
        """
        if self._signer is None or leaf is None:
            return True
        return self.signed(leaf) and self._verified_to(leaf)

    def vouched(self, leaf: str | None) -> bool:
        """Whether we may sign `leaf`: it lies on the path to a leaf that this user signed."""
        if self._signer is None or leaf is None:
            return True
        if not self._verified_to(leaf):
            return False
        if self.signed(leaf):
            return True
        for signed in reversed(self._macs):
            if signed and signed in self.graph and self.graph.is_ancestor(leaf, signed) and self.signed(signed):
                return True
        return False

    def _verified_to(self, leaf: str) -> bool:
        return leaf in self.graph and self.graph.verified_to(leaf)


class FileSource:
    """Reads nodes from the file that was scanned, through a descriptor of its own: a deleted file can still be read.

    Args of the constructor: the file's path, and what migrates its records; `fd` is a descriptor of the file that is
    open already, and belongs to the source from then on.
    """

    def __init__(self, path: str, migrators: Sequence[Migrator], fd: int | None = None) -> None:
        self._fd = open_fd(path) if fd is None else fd
        self._calls = OsCalls()
        self._decode = reader(migrators)
        self.status = os.fstat(self._fd)
        self._close = weakref.finalize(self, os.close, self._fd)

    def read(self, places: Sequence[tuple[int, int]]) -> list[tuple[Turn, int]]:
        """The turns that stand at `places`, read in few large pieces."""
        found: dict[tuple[int, int], tuple[Turn, int]] = {}
        wanted = sorted(set(places))
        window, start = b"", 0
        for at, (offset, length) in enumerate(wanted):
            if offset + length > start + len(window):
                # As far as the places reach that are in one window, and no further: often there is only this one.
                last = bisect.bisect_right(wanted, (offset + _WINDOW, 0), at + 1) - 1
                start, size = offset, max(sum(wanted[last]) - offset, length)
                window = read_exactly(self._calls, self._fd, size, offset)
            found[offset, length] = self._decode(window[offset - start : offset - start + length])
        return [found[place] for place in places]

    def raw(self, offset: int, length: int) -> bytes:
        """The bytes at a place."""
        return read_exactly(self._calls, self._fd, length, offset)

    def open(self, offset: int = 0) -> BinaryIO:
        """A reader over the same file."""
        file = os.fdopen(os.dup(self._fd), "rb", buffering=_WINDOW)
        file.seek(offset)
        return file

    def close(self) -> None:
        """Give the descriptor back."""
        self._close()


def load(state: SessionState, path: str, migrators: Sequence[Migrator] = (), *, verify: bool = True) -> Loaded | None:
    """Read a file into an empty state, and set the graph's live leaf. Blocks.

    Returns:
        How it was read; None if there is no file.

    Raises:
        OSError: the file cannot be read.
    """
    try:
        source = FileSource(path, migrators)
    except (FileNotFoundError, NotADirectoryError):
        return None

    end = 0
    state.graph.source = source
    with source.open() as file:
        for batch in scan(file, verify=verify, migrators=migrators):
            state.take(batch)
            end = batch.end
    state.settle()
    state.note_problems()
    state.graph.branch_from(state.head)
    start = max(end - MARK_BYTES, 0)
    return Loaded(source.status, end, source.raw(start, end - start))


def take_news(
    state: SessionState, news: bytes, offset: int, migrators: Sequence[Migrator], *, whole_lines: bool
) -> tuple[list[str], int]:
    """Take what others appended into a state. The graph's live leaf stays.

    Returns:
        The ids of the new nodes, and up to where the file is known now.
    """
    added: list[str] = []
    end = offset
    for batch in scan(io.BytesIO(news), offset, migrators=migrators, whole_lines=whole_lines):
        added += state.take(batch)
        end = batch.end
    state.settle()
    return added, end


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _count(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not abs(value) < _HUGE:
        return 0
    return int(value)


def usage_record(node: str, usage: Usage, model: str | None, provider: str | None) -> dict[str, Any]:
    """What is kept of an assistant turn's tokens and cost; `model` and `provider` answered it."""
    record: dict[str, Any] = {
        "type": "usage",
        "node": node,
        "input": usage.input,
        "output": usage.output,
        "cacheRead": usage.cache_read,
        "cacheWrite": usage.cache_write,
    }
    if usage.cost is not None:
        record["cost"] = usage.cost
    return {**record, "model": model, "provider": provider}


def totals(usages: Iterable[Usage]) -> Usage:
    """All usages together."""
    total = Usage()
    for usage in usages:
        total += usage
    return total

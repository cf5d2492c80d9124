"""What an import writes: the lines that a session's file does not have yet."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from indusagi_lsp.contract import jsontext
from indusagi_lsp.sessions.importers import reading
from indusagi_lsp.sessions.importers.assemble import Assembled, session_id_for
from indusagi_lsp.sessions.importers.pricing import priced
from indusagi_lsp.sessions.nodes import Node, node_line, node_text
from indusagi_lsp.sessions.state import SCHEMA, SessionState

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from indusagi_lsp.contract.models import Usage
    from indusagi_lsp.sessions.importers.transcript import Spent, Transcript

_BY = "import-"


class Missing:
    """What a session's file lacks of a transcript.

    Attributes:
        fresh: the nodes that are not in the file.
    """

    def __init__(self, state: SessionState, transcript: Transcript, made: Assembled) -> None:
        self._state = state
        self._transcript = transcript
        self._made = made
        self.fresh = [node for node in made.nodes if node.id not in state.graph]
        self._lines: list[bytes] = []

    def lines_for(self, path: Path, usages: Mapping[str, tuple[Usage, Spent]]) -> bytes:
        """Session, nodes, what belongs to them, and a head: nothing names what comes later."""
        origin = self._origin(path)
        self._session(origin)
        self._lines.extend(map(_node_line, self.fresh))
        self._condensations()
        new = {node.id for node in self.fresh}
        for node, (usage, spent) in usages.items():
            if _tokens(self._state.usages.get(node)) != _tokens(usage):
                self._put(_usage_record(node, usage, spent))
        for key, name in self._transcript.labels.items():
            if self._made.ids.get(key) in new:
                self._put({"type": "label", "node": self._made.ids[key], "name": name})
        for record in self._made.records:
            if record.get("summary", record.get("node")) in new:
                self._put(record)
        self._head()
        return b"".join(self._lines)

    def _put(self, record: Mapping[str, Any]) -> None:
        self._lines.append(jsontext.dumps(record) + b"\n")

    def _origin(self, path: Path) -> dict[str, Any]:
        old = reading.mapping(self._state.fields.get("origin"))
        cuts = {cut for cut in reading.sequence(old.get("cuts")) if isinstance(cut, int)}
        if self._transcript.open_line is not None:
            cuts.add(self._transcript.open_line)
        origin = {"tool": self._transcript.tool, "id": self._transcript.id, "file": path.name}
        if self._transcript.version:
            origin["version"] = self._transcript.version
        # An older copy of a file that was imported since brings nothing, and so does not say where the end
        # is.
        leaf = self._made.head if self.fresh or not old else old.get("leaf")
        return {**origin, "leaf": leaf, "cuts": sorted(cuts)}

    def _session(self, origin: dict[str, Any]) -> None:
        old = reading.mapping(self._state.fields.get("origin"))
        if self._state.fields:
            # Title and folder may have been changed here since: only where the import stands is new.
            if (origin["leaf"], origin["cuts"]) != (old.get("leaf"), old.get("cuts")):
                self._put({"type": "session", "origin": origin})
            return

        transcript = self._transcript
        parent = session_id_for(transcript.tool, transcript.parent) if transcript.parent else None
        told = {
            "cwd": reading.folder_uri(transcript.cwd),
            "createdAt": transcript.created_at,
            "title": transcript.title,
            "model": transcript.model,
            "parentSession": parent,
            "origin": origin,
        }
        told = {name: value for name, value in told.items() if value is not None}
        self._put({"type": "session", "schema": SCHEMA, "id": self._made.session_id, **told})

    def _condensations(self) -> None:
        known = {(record.get("summary"), record.get("from")) for record in self._state.condensations}
        for record in self._made.condensations:
            if (record["summary"], record["from"]) not in known:
                self._put(record)

    def _head(self) -> None:
        leaf, live = self._made.head, self._state.head
        if leaf is None or leaf == live or not self.fresh:
            return

        left = reading.mapping(self._state.fields.get("origin")).get("leaf")
        # After a torn end the live leaf may be a turn behind the last head: still, the import was the last to speak.
        if live in (None, left) or (self._state.last_by or "").startswith(_BY):
            at = next(node.created_at for node in self._made.nodes if node.id == leaf)
            by = f"{_BY}{self._transcript.tool}"
            self._put({"type": "head", "leaf": leaf, "at": at, "by": by, "why": "append"})


def spent_by_node(transcript: Transcript, made: Assembled) -> dict[str, tuple[Usage, Spent]]:
    """What each answer took, by node, with its price."""
    times = {node.id: int(node.created_at) for node in made.nodes}
    found: dict[str, tuple[Usage, Spent]] = {}
    for spent in transcript.spent:
        node = made.ids[spent.key]
        found[node] = priced(spent.usage, spent.model, spent.provider, times[node]), spent

    return found


def _usage_record(node: str, usage: Usage, spent: Spent) -> dict[str, Any]:
    record: dict[str, Any] = {
        "type": "usage",
        "node": node,
        "input": usage.input,
        "output": usage.output,
        "cacheRead": usage.cache_read,
        "cacheWrite": usage.cache_write,
        "model": spent.model,
        "provider": spent.provider,
    }
    if usage.cost is not None:
        record["cost"] = usage.cost
    return record


def _tokens(usage: Usage | None) -> tuple[int, ...]:
    """The counts of a usage; prices may change with the list."""
    return () if usage is None else (usage.input, usage.output, usage.cache_read, usage.cache_write)


def _node_line(node: Node) -> bytes:
    text = node_text(node.parent, node.turn, node.created_at)
    return node_line(node.id, text, node.turn, node.parent, node.created_at)

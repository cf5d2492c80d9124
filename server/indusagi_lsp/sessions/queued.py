"""Lines that wait for the disk, and what of a session has to be written again after its file was lost or replaced."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from indusagi_lsp.contract import jsontext
from indusagi_lsp.sessions.graph import SessionGraph
from indusagi_lsp.sessions.nodes import Node, id_of, node_line, node_text
from indusagi_lsp.sessions.state import SessionState


class Line(msgspec.Struct, frozen=True):
    """A queued line: of a `node`, of a `head` (leaf and mac), or of a `record` of another type."""

    data: bytes
    node: str | None = None
    record: Mapping[str, Any] | None = None
    head: tuple[str | None, str | None] | None = None


class Rescued(msgspec.Struct, frozen=True):
    """A node that a file lacks, the length of its text in bytes, and its line."""

    node: Node
    size: int
    line: bytes


def rescue(graph: SessionGraph, there: SessionGraph) -> list[Rescued]:
    """The nodes that `there` lacks, of all branches, that can still be read and are what their ids say. Blocks.

    Args:
        graph: what is in memory.
        there: what the file that stands in the old one's place holds.

    Raises:
        OSError: the old file cannot be read any more.
    """
    rescued: list[Rescued] = []
    for node in graph.some([node for node in tuple(graph.ids) if node not in there]):
        text = node_text(node.parent, node.turn, node.created_at)
        if id_of(text) == node.id:
            line = node_line(node.id, text, node.turn, node.parent, node.created_at)
            rescued.append(Rescued(node, len(text), line))
    return rescued


def carry_over(
    old: SessionState, new: SessionState, rescued: Sequence[Rescued], queue: Sequence[Line], now: int
) -> list[Line]:
    """Take into a state that was read anew what is known in memory beyond it.

    Args:
        old: what is in memory.
        new: the state that was read from the file; an empty one if there is none.
        rescued: the nodes that the file lacks.
        queue: the lines that wait for the disk already.
        now: milliseconds since the epoch.

    Returns:
        The lines that have to be written in front of the queue.
    """
    lines: list[Line] = []
    if old.fields and not new.report.understood:
        record = {"type": "session", **old.fields}
        new.take_record(record)
        lines.append(Line(jsontext.dumps(record) + b"\n", record=record))

    waiting = {line.node: len(line.data) for line in queue if line.node is not None}
    for found in rescued:
        new.graph.put(found.node, found.size)
        if found.node.id not in waiting:
            lines.append(Line(found.line, found.node.id))
    # What was said while the file was read is in the queue and in memory, and must not go with the old graph.
    for node, size in waiting.items():
        if node not in new.graph and node in old.graph:
            new.graph.put(old.graph.node(node), size)

    for line in queue:
        if line.record is not None:
            new.take_record(line.record)
    new.keep_proofs(old)
    known = {jsontext.dumps(record) for record in new.about(new.graph, now)}
    for record in old.about(new.graph, now):
        text = jsontext.dumps(record)
        if text not in known:
            new.take_record(record)
            lines.append(Line(text + b"\n", record=record))
    return lines

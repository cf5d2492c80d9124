"""From a transcript to nodes and records of ours. The same transcript always gives the same ids."""

from __future__ import annotations

import re
from hashlib import sha256
from typing import TYPE_CHECKING, Any

import msgspec

from indusagi_lsp.sessions.compare import files_touched
from indusagi_lsp.sessions.ids import is_session_id
from indusagi_lsp.sessions.importers.transcript import Entry, Fold, Transcript
from indusagi_lsp.sessions.nodes import Node, hash_node

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from indusagi_lsp.contract.turns import Turn

_UNFIT = re.compile(r"[^A-Za-z0-9._-]+")
_MAX_ID = 96


class Assembled(msgspec.Struct, frozen=True):
    """A transcript as a graph.

    Attributes:
        session_id: the session's id with us.
        nodes: all nodes, parents first.
        head: the live leaf.
        ids: the node of each key of the transcript.
        condensations: `condense` records.
        records: the other records that a file of our own kind had.
    """

    session_id: str
    nodes: tuple[Node, ...]
    head: str | None
    ids: Mapping[str, str]
    condensations: tuple[Mapping[str, Any], ...] = ()
    records: tuple[Mapping[str, Any], ...] = ()


def session_id_for(tool: str, foreign: str) -> str:
    """The id under which a foreign session is kept: always the same for the same session.

    Args:
        tool: which program wrote it.
        foreign: that program's own id; where it does not fit a file name, a hash of it is added.
    """
    wanted = f"{tool}-{foreign}"
    if len(wanted) <= _MAX_ID and is_session_id(wanted):
        return wanted

    digest = sha256(foreign.encode("utf-8", "surrogatepass")).hexdigest()[:12]
    readable = re.sub(r"\.{2,}", ".", _UNFIT.sub("-", foreign)).strip("-._")[:40].strip("-._")
    return f"{tool}-{readable}-{digest}" if readable else f"{tool}-{digest}"


def assemble(transcript: Transcript, prepare: Callable[[Turn], Turn] = lambda turn: turn) -> Assembled:
    """Make nodes of a transcript's turns, and lines of history of its condensations.

    A condensation is written as our own are: the summary is a new root at the time of the last condensed
    turn, and the kept tail is put under it again with its own times.

    Args:
        transcript: what the file says.
        prepare: makes each turn fit to be stored (secrets taken out, long outputs spilled).
    """
    made = _Made()
    condensations: list[Mapping[str, Any]] = []
    for step in transcript.steps:
        if isinstance(step, Entry):
            parent = made.ids.get(step.parent) if step.parent is not None else None
            made.ids[step.key] = made.put(step.key, parent, prepare(step.turn), step.at)
        else:
            condensations.append(_fold(made, step, prepare(step.summary)))

    return Assembled(
        session_id_for(transcript.tool, transcript.id),
        tuple(made.nodes.values()),
        made.ids.get(transcript.head) if transcript.head is not None else None,
        made.ids,
        tuple(condensations),
        tuple(_renamed(record, made.ids) for record in transcript.records),
    )


class _Made:
    """The nodes so far: by id, and which key of the transcript each of them, copies too, stands for."""

    def __init__(self) -> None:
        self.nodes: dict[str, Node] = {}
        self.keys: dict[str, str] = {}
        self.ids: dict[str, str] = {}

    def put(self, key: str, parent: str | None, turn: Turn, at: int) -> str:
        node = Node(hash_node(parent, turn, at), parent, turn, at)
        self.nodes.setdefault(node.id, node)
        self.keys[node.id] = key
        return node.id

    def path(self, leaf: str) -> list[Node]:
        path: list[Node] = []
        cursor: str | None = leaf
        while cursor is not None:
            path.append(self.nodes[cursor])
            cursor = path[-1].parent
        path.reverse()
        return path


def _fold(made: _Made, fold: Fold, summary: Turn) -> Mapping[str, Any]:
    leaf = made.ids[fold.base]
    path = made.path(leaf)
    cut = next((at for at, node in enumerate(path) if made.keys[node.id] == fold.cut), len(path))
    condensed, tail = path[:cut], path[cut:]
    at = condensed[-1].created_at if condensed else path[0].created_at
    root = tip = made.put(fold.key, None, summary, at)
    copies: dict[str, str] = {}
    for node in tail:
        tip = made.put(made.keys[node.id], tip, node.turn, node.created_at)
        copies[tip] = node.id

    made.ids[fold.key] = tip
    files = files_touched(node.turn for node in condensed)
    return {
        "type": "condense",
        "summary": root,
        "from": leaf,
        "cut": tail[0].id if tail else None,
        "copies": copies,
        "trigger": fold.trigger,
        "before": fold.before,
        "after": fold.after,
        "files": {"read": list(files.read), "modified": list(files.modified)},
        "model": fold.model,
    }


def _renamed(record: Mapping[str, Any], ids: Mapping[str, str]) -> Mapping[str, Any]:
    """A record of our own kind, with the ids that its nodes have now."""
    changed = dict(record)
    for name in ("node", "summary", "from", "cut"):
        if isinstance(changed.get(name), str):
            changed[name] = ids.get(changed[name], changed[name])
    if isinstance(changed.get("copies"), dict):
        changed["copies"] = {ids.get(new, new): ids.get(old, old) for new, old in changed["copies"].items()}

    return changed

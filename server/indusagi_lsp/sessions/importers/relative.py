"""Session files of our own shape (`node` and `head` records), as `indusagi` and our export write them.

Nodes, their order and their times are kept, so ids stay the same. Signatures of heads are dropped: what was
imported is foreign until the user adopts it. The relative may have stored its whole history again at each
save, one copy under the other; then the live path becomes the history without the copies, and the stored line
stays as a branch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from indusagi_lsp.contract import jsontext
from indusagi_lsp.contract.turns import Turn, turn_from_json, turn_to_json
from indusagi_lsp.sessions.importers import reading
from indusagi_lsp.sessions.importers.transcript import Draft, Entry, Transcript

if TYPE_CHECKING:
    from collections.abc import Mapping

TOOL_NAME = "indusagi"
_KEPT = ("condense", "label", "usage")
# One save writes its turns within milliseconds; people do not answer in that time.
_ONE_SAVE_MS = 2_000


def read(data: bytes, name: str = "", cuts: frozenset[int] = frozenset()) -> Transcript:
    """Read a session file; the arguments are those of `claude_code.read`."""
    draft = Draft(TOOL_NAME, cuts)
    nodes: dict[str, Entry] = {}
    head: str | None = None
    told = 0
    for line in reading.lines(data):
        draft.line(line.number)
        if line.problem:
            draft.skip(line.problem)
        for value in line.values:
            leaf = value.get("leaf")
            if value.get("type") == "head" and isinstance(leaf, str):
                head, told = leaf, len(nodes)
            else:
                _record(draft, value, nodes)

    _in_order(draft, nodes)
    if head in nodes:
        draft.head = head
        # Turns whose own head is missing at the end of the file still belong to the live path.
        for entry in list(nodes.values())[told:]:
            if entry.parent == draft.head:
                draft.head = entry.key
    _without_copies(draft, nodes)
    draft.id = draft.id or name
    if draft.title is None:
        said = (reading.title_of(entry.turn.blocks) for entry in nodes.values() if entry.turn.role == "user")
        draft.title = next((title for title in said if title), None)
    return draft.finish(reading.count_lines(data))


def _record(draft: Draft, value: dict[str, Any], nodes: dict[str, Entry]) -> None:
    kind = value.get("type")
    if kind == "node":
        _node(draft, value.get("node"), nodes)
    elif kind == "session":
        _about(draft, value)
    elif kind in _KEPT:
        draft.records.append(value)
    elif isinstance(kind, str):
        draft.ignore(kind)
    else:
        draft.skip("no type")


def _about(draft: Draft, value: dict[str, Any]) -> None:
    draft.id = draft.id or reading.text_of(value.get("id")) or ""
    draft.cwd = reading.text_of(value.get("cwd")) or draft.cwd
    draft.title = reading.text_of(value.get("title")) or draft.title
    draft.model = reading.text_of(value.get("model")) or draft.model
    draft.parent = reading.text_of(value.get("parentSession")) or draft.parent
    draft.time(reading.milliseconds(value.get("createdAt")))


def _node(draft: Draft, raw: Any, nodes: dict[str, Entry]) -> None:
    node = reading.mapping(raw)
    key, parent = reading.text_of(node.get("id")), node.get("parent")
    if key is None or not isinstance(parent, str | None):
        draft.skip("a node without an id or with a broken parent")
        return

    if key in nodes:
        draft.ignore("node, again")
        return

    try:
        turn = turn_from_json(node.get("turn"))
    except ValueError as problem:
        draft.skip(str(problem))
        return

    created = node.get("createdAt")
    at = created if isinstance(created, int) and not isinstance(created, bool) else reading.milliseconds(created)
    nodes[key] = Entry(key, parent, turn, draft.time(at))


def _in_order(draft: Draft, nodes: Mapping[str, Entry]) -> None:
    """Put each node after its parent; one whose parent is missing, or is itself, becomes a root."""
    placed: set[str] = set()
    for key in nodes:
        chain: list[str] = []
        seen: set[str] = set()
        cursor: str | None = key
        while cursor is not None and cursor not in placed and cursor in nodes and cursor not in seen:
            chain.append(cursor)
            seen.add(cursor)
            cursor = nodes[cursor].parent
        for name in reversed(chain):
            entry = nodes[name]
            parent = entry.parent if entry.parent in placed else None
            if entry.parent is not None and parent is None:
                draft.gaps += 1
            draft.at = entry.at
            draft.add(name, entry.turn, parent)
            placed.add(name)


def _without_copies(draft: Draft, nodes: Mapping[str, Entry]) -> None:
    parents = {step.key: step.parent for step in draft.steps if isinstance(step, Entry)}
    path: list[Entry] = []
    cursor = draft.head
    while cursor is not None:
        path.append(nodes[cursor])
        cursor = parents[cursor]
    path.reverse()
    start = _copies(path)
    if start == 0:
        return

    draft.repeated, draft.rewritten = start, len(path) - start
    parent: str | None = None
    for entry in path[start:]:
        draft.at = entry.at
        parent = draft.add(f"{entry.key}#once", entry.turn, parent)


def _copies(path: list[Entry]) -> int:
    """Where the last whole copy of the history begins: 0 where the history holds no copies.

    The start of the path is a copy if the same turns follow at once, written in one go.
    """
    texts = [_text(entry.turn) for entry in path]
    start = 0
    while length := _repeat(texts, path, start):
        start += length

    return start


def _repeat(texts: list[bytes], path: list[Entry], start: int) -> int:
    for length in range(2, (len(texts) - start) // 2 + 1):
        again = start + length
        if texts[start] != texts[again] or texts[start:again] != texts[again : again + length]:
            continue

        if path[again + length - 1].at - path[again].at <= _ONE_SAVE_MS:
            return length

    return 0


def _text(turn: Turn) -> bytes:
    return jsontext.dumps(turn_to_json(turn))

"""Two branches side by side: turns, files, cost; and the result of one as a note for the other."""

from __future__ import annotations

import asyncio
import re
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from indusagi_lsp.contract.errors import InvalidInput
from indusagi_lsp.contract.models import Usage
from indusagi_lsp.contract.turns import ASSISTANT, TOOL, USER, TextBlock, ToolCallBlock, Turn

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from indusagi_lsp.sessions.nodes import Node
    from indusagi_lsp.sessions.session import Session

_PATH_KEYS = (
    "path",
    "file_path",
    "filePath",
    "file",
    "filename",
    "notebook_path",
    "absolute_path",
    "target_file",
)
_WRITING = re.compile(r"write|edit|create|patch|replace|delete|remove|rename|move|insert|append", re.IGNORECASE)
_PATCHED = re.compile(r"^\*\*\* (?:Add|Update|Delete) File: (.+)$|^\*\*\* Move to: (.+)$", re.MULTILINE)
MAX_NOTE = 20_000


class Files(msgspec.Struct, frozen=True):
    """The files that calls of tools name, in order: those that were changed, those that were only read."""

    read: tuple[str, ...] = ()
    modified: tuple[str, ...] = ()


class Side(msgspec.Struct, frozen=True):
    """What one branch has of its own, below the common part.

    `nodes` are the ids; `turns` counts them by role; `usage` is what its answers took, its cost None if
    unknown.
    """

    leaf: str
    nodes: tuple[str, ...]
    turns: Mapping[str, int]
    files: Files
    usage: Usage
    calls: int
    failed: int
    started: int | float | None
    ended: int | float | None
    result: str


class Comparison(msgspec.Struct, frozen=True):
    """Two branches: `common` is the last node that both have (None: there is none), `shared` counts those."""

    common: str | None
    shared: int
    left: Side
    right: Side
    files_of_both: tuple[str, ...]


class Graph(Protocol):
    """The part of a session's graph that is needed here."""

    def nodes_to(self, node_id: str, /) -> list[Node]:
        """The path from the root to `node_id`."""
        ...


def files_touched(turns: Iterable[Turn]) -> Files:
    """Which files the calls in `turns` name.

    A call changes a file if its tool's name says so (write, edit, patch …) and did not fail; paths are as the
    model wrote them.
    """
    listed = list(turns)
    failed = {block.call_id for turn in listed for block in turn.tool_results if block.is_error}
    read: dict[str, None] = {}
    modified: dict[str, None] = {}
    for turn in listed:
        for call in turn.tool_calls:
            changes = _WRITING.search(call.name) is not None
            if changes and call.id in failed:
                continue

            (modified if changes else read).update(dict.fromkeys(_paths(call)))

    return Files(tuple(path for path in read if path not in modified), tuple(modified))


def compare(
    graph: Graph,
    left: str,
    right: str,
    *,
    usages: Mapping[str, Usage] | None = None,
    copies: Mapping[str, str] | None = None,
) -> Comparison:
    """Compare the branch that ends at `left` with the one that ends at `right`.

    Args:
        graph: the session's graph.
        left: a node id.
        right: another.
        usages: what the answers took, by node id.
        copies: `{new id: old id}` of the session's condensations, so that a condensed line and the line that
        it came
            from share their tail.

    Raises:
        NodeNotFound: the graph has no such node.
    """
    originals = copies or {}
    spent = usages or {}
    lines = {leaf: graph.nodes_to(leaf) for leaf in (left, right)}
    names = {leaf: [_original(node.id, originals) for node in line] for leaf, line in lines.items()}
    shared = set(names[left]) & set(names[right])
    common = next((node.id for node in reversed(lines[left]) if _original(node.id, originals) in shared), None)
    sides = [
        _side(
            leaf,
            [node for node, name in zip(lines[leaf], names[leaf], strict=True) if name not in shared],
            spent,
        )
        for leaf in (left, right)
    ]
    touched = [{*side.files.read, *side.files.modified} for side in sides]
    return Comparison(common, len(shared), sides[0], sides[1], tuple(sorted(touched[0] & touched[1])))


async def compare_branches(session: Session, left: str, right: str) -> Comparison:
    """Compare two branches of an open session; see `compare`.

    Raises:
        NodeNotFound: the session has no such node.
    """
    copies: dict[str, str] = {}
    for record in session.condensations:
        made = record.get("copies")
        if isinstance(made, dict):
            copies.update(made)

    def work() -> Comparison:
        return compare(session.graph, left, right, usages=session.usages, copies=copies)

    return await asyncio.to_thread(work)


async def bring_back(session: Session, leaf: str, text: str | None = None) -> Node:
    """Append what came of another branch to the live one, as a note.

    Args:
        session: the session.
        leaf: where the other branch ends.
        text: what to say of it; None takes the last words of its model.

    Returns:
        The note's node.

    Raises:
        NodeNotFound: the session has no such node.
        InvalidInput: that is the live branch itself, or it has no result yet.
        PersistenceFault: the disk refused; the note is in memory.
    """
    live = session.graph.leaf
    if live is None:
        raise InvalidInput("There is no live branch to bring the result to.")

    own = (await compare_branches(session, leaf, live)).left.nodes
    if not own:
        raise InvalidInput("That branch has nothing of its own: it is part of the live one.")

    wanted = set(own)
    path = await asyncio.to_thread(session.graph.nodes_to, leaf)
    [node] = await session.append([note([node for node in path if node.id in wanted], text)])
    return node


def note(nodes: Iterable[Node], text: str | None = None) -> Turn:
    """The result of a branch as a turn that can be appended to another one.

    Args:
        nodes: the branch's own nodes, or its whole path.
        text: what to say of it; None takes the last words of its model.

    Returns:
        A user's turn that says where it comes from, so that neither a model nor a reader takes it for the
        user's wish.

    Raises:
        InvalidInput: the branch has no node, or no words of a model, and no text was given.
    """
    listed = list(nodes)
    if not listed:
        raise InvalidInput("The branch is empty.")

    said = _result(listed) if text is None else text
    if not said.strip():
        raise InvalidInput("The branch has no result yet.", hint="Say in your own words what should be brought back.")

    files = files_touched(node.turn for node in listed).modified
    lines = [
        f"[Note: what came of another branch of this conversation, up to {listed[-1].id}]",
        said[:MAX_NOTE],
    ]
    if files:
        lines.append("Files that it changed: " + ", ".join(files[:50]))
    return Turn(USER, (TextBlock("\n\n".join(lines)),))


def _original(node_id: str, copies: Mapping[str, str]) -> str:
    seen = {node_id}
    while (older := copies.get(node_id)) is not None and older not in seen:
        seen.add(older)
        node_id = older

    return node_id


def _side(leaf: str, nodes: list[Node], usages: Mapping[str, Usage]) -> Side:
    turns: dict[str, int] = {}
    usage = Usage()
    for node in nodes:
        turns[node.turn.role] = turns.get(node.turn.role, 0) + 1
        usage = usage + usages.get(node.id, Usage())

    results = [block for node in nodes for block in node.turn.tool_results]
    return Side(
        leaf=leaf,
        nodes=tuple(node.id for node in nodes),
        turns=turns,
        files=files_touched(node.turn for node in nodes),
        usage=usage,
        calls=sum(len(node.turn.tool_calls) for node in nodes),
        failed=sum(block.is_error is True for block in results),
        started=nodes[0].created_at if nodes else None,
        ended=nodes[-1].created_at if nodes else None,
        result=_result(nodes),
    )


def _result(nodes: list[Node]) -> str:
    """The last words of the model that are not followed by the user's."""
    for node in reversed(nodes):
        if node.turn.role == ASSISTANT and node.turn.text.strip():
            return node.turn.text
        if node.turn.role not in (ASSISTANT, TOOL):
            return ""

    return ""


def _paths(call: ToolCallBlock) -> list[str]:
    given: Any = call.input
    if isinstance(given, str):
        return [first or second for first, second in _PATCHED.findall(given)]

    if not isinstance(given, dict):
        return []

    found = [value for key in _PATH_KEYS if isinstance(value := given.get(key), str) and value]
    for value in given.values():
        if isinstance(value, str) and "*** " in value:
            found.extend(first or second for first, second in _PATCHED.findall(value))

    return found

"""What the editor offers in a chat document: a lens that sends, links to turns, completion of `@`, `#` and `/`."""

from __future__ import annotations

import asyncio
import logging
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec

from indusagi_lsp.contract.errors import IndusagiError
from indusagi_lsp.contract.text import visible, visible_line
from indusagi_lsp.lsp.chat.chats import Chats
from indusagi_lsp.lsp.chat.text import last_section, links
from indusagi_lsp.lsp.documents import Document, Position, units_of
from indusagi_lsp.protocol import messages as m
from indusagi_lsp.protocol.operations import ABORT, CHAT_SEND, MEMORY_LIST
from indusagi_lsp.protocol.uris import normalise_uri, uri_to_path
from indusagi_lsp.workspace.commands import COMMANDS

if TYPE_CHECKING:
    from indusagi_lsp.lsp.server import IndusagiServer

logger = logging.getLogger(__name__)

Json: TypeAlias = dict[str, Any]
_WORD = re.compile(r"(?:(?<=\s)|^)([@#/])([^\s@#]*)\Z")
_MOST_FILES = 100
_MOST_WALKED = 20_000
_MOST_MEMORIES = 100
_FILE, _TEXT, _FUNCTION = 17, 1, 3
_LABEL_CHARS = 80


class _Placed(msgspec.Struct, frozen=True):
    position: Position


class ChatHelps:
    """The answers about chat documents.

    Args:
        server: has the documents and the hosts.
        chats: knows which answers are on their way.
    """

    def __init__(self, server: IndusagiServer, chats: Chats) -> None:
        self._server = server
        self._chats = chats

    async def answer(self, method: str, params: Any, document: Document) -> Any:
        """Answer a `textDocument/…` request about a chat document.

        Raises:
            msgspec.ValidationError: the params are not those of the method.
        """
        if method == "textDocument/codeLens":
            return self._lenses(document)
        if method == "textDocument/documentLink":
            return await self._links(document)
        if method == "textDocument/completion":
            return await self._completion(document, msgspec.convert(params, _Placed).position)
        if method == "textDocument/definition":
            return await self._definition(document, msgspec.convert(params, _Placed).position)
        return None

    def _lenses(self, document: Document) -> list[Json]:
        uri = normalise_uri(document.uri)
        section = last_section(document.lines)
        place = {"line": section.heading or 0, "character": 0}
        span = {"start": place, "end": place}
        workspace = self._server.engine.folder_of(uri)
        if uri in self._chats.busy:
            session_id = self._chats.busy[uri]
            if session_id is None:
                return []
            stop = {"sessionId": session_id, "workspace": workspace}
            return [{"range": span, "command": {"title": "Stop", "command": ABORT.command, "arguments": [stop]}}]
        title = "Send" if section.text else "Send what you write below"
        send = {"uri": document.uri, "workspace": workspace}
        return [{"range": span, "command": {"title": title, "command": CHAT_SEND.command, "arguments": [send]}}]

    async def _links(self, document: Document) -> list[Json]:
        found: list[Json] = []
        for link in links(document.lines):
            target = await self._target(document, link.session_id, link.node)
            if target is not None:
                uri, (line, _) = target
                span = {
                    "start": document.position(link.line, link.start),
                    "end": document.position(link.line, link.end),
                }
                found.append({"range": span, "target": f"{uri}#L{line + 1}", "tooltip": "The turn in its session"})
        return found

    async def _definition(self, document: Document, at: Position) -> Json | None:
        index = document.index(at.line, at.character)
        for link in links(document.lines[: at.line + 1]):
            if link.line == at.line and link.start <= index <= link.end:
                target = await self._target(document, link.session_id, link.node)
                if target is None:
                    return None
                uri, (line, character) = target
                place = {"line": line, "character": character}
                return {"uri": uri, "range": {"start": place, "end": place}}
        return None

    async def _target(self, document: Document, session_id: str, node: str) -> tuple[str, tuple[int, int]] | None:
        from indusagi_lsp.lsp.sessionfiles.places import locate
        from indusagi_lsp.sessions.ids import is_session_id

        folder = self._server.engine.folder_of(normalise_uri(document.uri))
        if folder is None or not is_session_id(session_id):
            return None
        uri, places = await locate(folder, session_id, [node], document.encoding)
        return (uri, places[node]) if node in places else None

    async def _completion(self, document: Document, at: Position) -> Json:
        line = document.line(at.line)
        index = document.index(at.line, at.character)
        match = _WORD.search(line[:index])
        if match is None:
            return {"isIncomplete": False, "items": []}
        mark, typed = match.groups()
        start = {"line": at.line, "character": units_of(line, match.start(1), document.encoding)}
        span = {"start": start, "end": {"line": at.line, "character": at.character}}
        folder = self._server.engine.folder_of(normalise_uri(document.uri))
        if mark == "/":
            if match.start(1) != 0:
                return {"isIncomplete": False, "items": []}
            items = [_item(f"/{name}", _FUNCTION, span, detail=told) for name, told in COMMANDS.items()]
        elif mark == "@":
            paths = await asyncio.to_thread(_paths, folder, typed)
            items = [_item(f"@{path}", _FILE, span) for path in paths]
        else:
            items = await self._memories(folder, span)
        return {"isIncomplete": mark == "@", "items": items}

    async def _memories(self, folder: str | None, span: Json) -> list[Json]:
        """What is remembered; taking one writes its text, so that the user sees what the model will get."""
        try:
            hosts = await self._server.engine.ready()
            params = m.MemoryListParams(workspace=folder, limit=_MOST_MEMORIES)
            result: m.MemoryListResult = await hosts.call(MEMORY_LIST, params)
        except IndusagiError as error:
            logger.info("no memories to offer: %s", error.message)
            return []
        return [
            _item(
                f"#{visible_line(one.content, _LABEL_CHARS)}", _TEXT, span, text=visible(one.content), detail=one.scope
            )
            for one in result.entries
        ]


def _item(label: str, kind: int, span: Json, *, text: str | None = None, detail: str = "") -> Json:
    edit = {"range": span, "newText": label if text is None else text}
    # Editors filter by what stands in the range, which begins with the mark.
    return {"label": label, "kind": kind, "detail": detail, "filterText": label, "textEdit": edit}


def _paths(folder: str | None, typed: str) -> list[str]:
    """The files whose path holds what was typed, the shortest first. Blocks."""
    from indusagi_lsp.tools import PathGuard
    from indusagi_lsp.tools.listing import Walked, walk

    root = uri_to_path(folder) if folder is not None else None
    if root is None:
        return []
    wanted = typed.casefold()
    found: list[str] = []
    for number, path in enumerate(walk(PathGuard(Path(root)), ".", Walked())):
        if wanted in path.casefold() and not any(character.isspace() for character in path):
            found.append(path)
        if number >= _MOST_WALKED:
            break
    return sorted(found, key=lambda path: (not path.casefold().startswith(wanted), len(path), path))[:_MOST_FILES]

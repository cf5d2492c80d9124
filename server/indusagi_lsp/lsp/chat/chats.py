"""Chat documents and the sessions behind them: sending the last section, and bringing the answer in."""

from __future__ import annotations

import asyncio
import logging
import re
from typing import TYPE_CHECKING

from indusagi_lsp.contract.errors import IndusagiError, InvalidInput, InvalidState
from indusagi_lsp.contract.events import RunEvent
from indusagi_lsp.contract.text import visible_line
from indusagi_lsp.lsp.chat.answer import INTERVAL, AnswerWriter
from indusagi_lsp.lsp.chat.text import last_section, node_link, session_of
from indusagi_lsp.lsp.documents import Document
from indusagi_lsp.protocol import messages as m
from indusagi_lsp.protocol.operations import SESSION_NEW, SUBMIT
from indusagi_lsp.protocol.uris import normalise_uri, uri_to_path
from indusagi_lsp.workspace.commands import Command, read_command, run_command

if TYPE_CHECKING:
    from indusagi_lsp.lsp.server import IndusagiServer

logger = logging.getLogger(__name__)

_FILE = re.compile(r"(?<![\w@])@([^\s@`\"'<>|]+)")
_TITLE_CHARS = 80
_MOST_FILES = 20


class Chats:
    """The chat documents of one server.

    Args:
        server: has the documents, the hosts and the client.
        interval: seconds between two edits of an answer.
    """

    def __init__(self, server: IndusagiServer, interval: float = INTERVAL) -> None:
        self._server = server
        self._interval = interval
        self._writers: dict[str, AnswerWriter] = {}
        self.busy: dict[str, str | None] = {}
        """The documents whose answer is on its way, with the session."""

    def event(self, run_id: str, event: RunEvent) -> None:
        """Take an event of any run."""
        writer = self._writers.get(run_id)
        if writer is not None:
            writer.event(event)

    async def send(self, params: m.ChatSendParams) -> m.ChatSendResult:
        """Do `chat/send`.

        Raises:
            InvalidState: the document is not open, the client takes no edits, or an answer is on its way already.
            InvalidInput: there is nothing to send.
            IndusagiError: what the session says.
        """
        server, uri = self._server, normalise_uri(params.uri)
        document = server.documents.get(uri)
        if document is None:
            raise InvalidState("That document is not open.", hint="Open the chat document in the editor, then send.")
        server.editor.require()
        if uri in self.busy:
            raise InvalidState("An answer is still on its way into this document.", hint="Wait for it, or cancel it.")
        section = last_section(document.lines)
        if not section.text:
            raise InvalidInput("There is nothing to send.", hint="Write below the last `## You`, then send.")
        workspace = params.workspace or server.engine.folder_of(uri)
        session_id = session_of(document.lines)
        self.busy[uri] = session_id
        server.standard.refresh_lenses()
        try:
            bind = None
            if session_id is None:
                title = visible_line(" ".join(section.text.split()), _TITLE_CHARS)
                hosts = await server.engine.ready()
                made = await hosts.call(SESSION_NEW, m.SessionNewParams(workspace=workspace, title=title))
                self.busy[uri] = session_id = bind = str(made.id)
            command = read_command(section.text)
            writer = AnswerWriter(document, server.editor, bind, self._interval)
            if command is not None:
                said = await self._command(command, session_id, workspace)
                await writer.finish(said)
                return m.ChatSendResult(session_id=session_id, phase="settled", written=not writer.failed)
            return await self._run(document, writer, section.text, session_id, workspace, params.run_id)
        finally:
            del self.busy[uri]
            server.standard.refresh_lenses()

    async def _run(
        self,
        document: Document,
        writer: AnswerWriter,
        text: str,
        session_id: str,
        workspace: str | None,
        run_id: str | None,
    ) -> m.ChatSendResult:
        server = self._server
        hosts = await server.engine.ready()
        context = await asyncio.to_thread(_files, text, workspace)
        submit = m.SubmitParams(
            session_id=session_id, workspace=workspace, text=text, context=context, run_id=run_id, mode="queue"
        )
        self._writers[run_id or session_id] = writer
        writer.start()
        phase, closing = "faulted", ""
        try:
            snapshot: m.SnapshotView = await hosts.call(SUBMIT, submit)
            phase = snapshot.phase
            if snapshot.leaf is not None:
                closing = node_link(session_id, snapshot.leaf)
            if snapshot.error is not None:
                closing = f"{_failed(snapshot.error.message, snapshot.error.hint)}\n\n{closing}"
        except IndusagiError as error:
            closing = _failed(error.message, error.hint)
        except asyncio.CancelledError:
            phase, closing = "aborted", "*(stopped)*"
            raise
        except BaseException:
            closing = _failed("The run ended because of an error in the server.", "The log has more.")
            raise
        finally:
            self._writers.pop(run_id or session_id, None)
            last = server.spawn(writer.finish(closing))
            if phase != "aborted":
                await asyncio.shield(last)
        if writer.failed:
            server.complain(
                "The answer could not be written into the document, because the editor refused the edits; "
                f"it is in session {session_id}."
            )
        return m.ChatSendResult(session_id=session_id, phase=phase, written=not writer.failed)

    async def _command(self, command: Command, session_id: str, workspace: str | None) -> str:
        hosts = await self._server.engine.ready()
        try:
            return await run_command(hosts.call, command, session_id, workspace)
        except IndusagiError as error:
            return _failed(error.message, error.hint)


def _failed(message: str, hint: str) -> str:
    return f"> **Failed:** {visible_line(message)} {visible_line(hint)}".rstrip()


def _files(text: str, workspace: str | None) -> list[m.ContextItem]:
    """The files that a text names by `@path`, as far as they are there. Blocks."""
    root = uri_to_path(workspace) if workspace is not None else None
    if root is None or "@" not in text:
        return []
    from pathlib import Path

    from indusagi_lsp.contract.errors import ToolFailed
    from indusagi_lsp.tools import PathGuard

    guard = PathGuard(Path(root))
    items: dict[str, m.ContextItem] = {}
    for match in _FILE.finditer(text):
        path = match.group(1).rstrip(".,;:!?)")
        try:
            with guard.open_read(path):
                items[path] = m.ContextItem(kind="file", uri=(Path(root) / guard.relative(path)).as_uri())
        except (ToolFailed, OSError, ValueError):
            continue
        if len(items) >= _MOST_FILES:
            break
    return list(items.values())

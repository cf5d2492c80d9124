"""The standard requests that we answer, from their raw JSON: no type library between, and all can be cancelled.

What belongs to a kind of document (session files, chat documents) is imported when the first such document is opened.
"""

from __future__ import annotations

import asyncio
import logging
import re
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec

from indusagi_lsp.contract.jsontext import dumps
from indusagi_lsp.lsp import actions
from indusagi_lsp.lsp.documents import Document, uri_in
from indusagi_lsp.lsp.peer import PeerError
from indusagi_lsp.protocol import errors
from indusagi_lsp.protocol import messages as m
from indusagi_lsp.protocol.uris import normalise_uri

if TYPE_CHECKING:
    from indusagi_lsp.lsp.chat.chats import Chats
    from indusagi_lsp.lsp.chat.helps import ChatHelps
    from indusagi_lsp.lsp.server import IndusagiServer
    from indusagi_lsp.lsp.sessionfiles.language import SessionFiles

logger = logging.getLogger(__name__)

_SESSION_FILE = re.compile(r"/\.indusagi/sessions/[^/]+\.jsonl\Z")
_CHAT_FILE = re.compile(r"\.chat\.md\Z")
_SYMBOLS = "workspace/symbol"
_ACTIONS = "textDocument/codeAction"
_REFRESH_SECONDS = 5.0
_METHODS = {
    "textDocument/hover": "hover",
    "textDocument/definition": "definition",
    "textDocument/references": "references",
    "textDocument/documentSymbol": "documentSymbol",
    "textDocument/foldingRange": "foldingRange",
    "textDocument/codeLens": "codeLens",
    "textDocument/inlayHint": "inlayHint",
    "textDocument/codeAction": "codeAction",
    "textDocument/completion": "completion",
    "textDocument/documentLink": "documentLink",
    _SYMBOLS: "symbol",
}


class StandardRequests:
    """Answers for open documents.

    Args:
        server: whose client asks.
    """

    def __init__(self, server: IndusagiServer) -> None:
        self._server = server
        self._tasks: dict[int | str, asyncio.Task[bytes]] = {}
        self._sessions: SessionFiles | None = None
        self._chats: Chats | None = None
        self._helps: ChatHelps | None = None
        self._opened = asyncio.Event()

    def __contains__(self, request_id: object) -> bool:
        return request_id in self._tasks

    def takes(self, method: str) -> bool:
        """Whether a request is answered here: only what was announced is."""
        return _METHODS.get(method) in self._server.features.asks

    @property
    def sessions(self) -> SessionFiles:
        """Session files as a language."""
        if self._sessions is None:
            from indusagi_lsp.lsp.sessionfiles.language import SessionFiles

            server = self._server
            self._sessions = SessionFiles(server.documents, server.peer, server.engine, server.features, server.spawn)
        return self._sessions

    @property
    def chats(self) -> Chats:
        """The chat documents."""
        if self._chats is None:
            from indusagi_lsp.lsp.chat.chats import Chats

            self._chats = Chats(self._server)
            self._server.outlet.on_event = self._chats.event
        return self._chats

    @property
    def helps(self) -> ChatHelps:
        """What the editor offers in chat documents."""
        if self._helps is None:
            from indusagi_lsp.lsp.chat.helps import ChatHelps

            self._helps = ChatHelps(self._server, self.chats)
        return self._helps

    async def ask(self, params: m.AskParams) -> m.AskResult:
        """Do the operation `ask`."""
        from indusagi_lsp.lsp.chat.asking import Asking

        return await Asking(self._server, self.chats).ask(params)

    async def send_chat(self, params: m.ChatSendParams) -> m.ChatSendResult:
        """Do the operation `chat/send`."""
        return await self.chats.send(params)

    def refresh_lenses(self) -> None:
        """Have the client ask for code lenses again, where it can."""
        if self._server.features.lens_refresh:
            self._server.spawn(self._refresh("workspace/codeLens/refresh"))

    async def _refresh(self, method: str) -> None:
        try:
            await self._server.peer.ask(method, None, _REFRESH_SECONDS)
        except (PeerError, TimeoutError) as error:
            logger.info("%s: %s", method, error)

    # --- documents ----------------------------------------------------------------------------------------------------

    def sync(self, method: str, params: Any) -> bool:
        """Take a notification about a document; False when it is none.

        Raises:
            msgspec.ValidationError: the params are not those of the method.
        """
        documents = self._server.documents
        if method == "textDocument/didChange":
            changed = documents.change(params)
            if changed is not None:
                self._touched(changed, opened=False)
        elif method == "textDocument/didOpen":
            self._touched(documents.open(params), opened=True)
            self._opened.set()
        elif method == "textDocument/didClose":
            uri = uri_in(params)
            documents.close(params)
            if self._sessions is not None:
                self._sessions.closed(uri)
        elif method == "textDocument/didSave":
            if self._sessions is not None:
                self._sessions.saved(uri_in(params))
        else:
            return False
        return True

    async def opened(self, uri: str, limit: float) -> bool:
        """Wait until a document is open, but not longer than `limit` seconds; says whether it is."""
        try:
            async with asyncio.timeout(limit):
                while self._server.documents.get(uri) is None:
                    self._opened.clear()
                    await self._opened.wait()
        except TimeoutError:
            return False
        return True

    def sessions_changed(self, workspace: str) -> None:
        """The list of sessions of a folder is out of date."""
        if self._sessions is not None:
            self._sessions.sessions_changed(workspace)

    def _touched(self, document: Document, *, opened: bool) -> None:
        if _SESSION_FILE.search(normalise_uri(document.uri)):
            self.sessions.touched(document, opened=opened)

    # --- requests -----------------------------------------------------------------------------------------------------

    def request(self, request_id: int | str, method: str, params: Any) -> None:
        """Start to answer a request."""
        task = asyncio.create_task(self._run(method, params))
        self._tasks[request_id] = task
        task.add_done_callback(partial(self._done, request_id, method))

    def cancel(self, request_id: Any) -> bool:
        """Cancel a request; False when it is none of these."""
        task = self._tasks.get(request_id) if isinstance(request_id, int | str) else None
        if task is None:
            return False
        task.cancel()
        return True

    async def finish(self) -> None:
        """Cancel all that is open; each is answered."""
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=0.5)

    async def _run(self, method: str, params: Any) -> bytes:
        result = await self._answer(method, params)
        return result if isinstance(result, bytes) else dumps(result)

    async def _answer(self, method: str, params: Any) -> Any:
        if method == _SYMBOLS:
            from indusagi_lsp.lsp.sessionfiles.symbols import workspace_symbols

            server = self._server
            return await workspace_symbols(server.engine, server.documents.encoding, params)
        uri = normalise_uri(uri_in(params))
        if _SESSION_FILE.search(uri):
            found = await self.sessions.answer(method, params)
            if method != _ACTIONS or found is None:
                return found
            return found if self._server.features.action_literals else actions.as_commands(found)
        document = self._server.documents.get(uri)
        if document is None:
            return None
        if method == _ACTIONS:
            return self._actions(params, document)
        return await self.helps.answer(method, params, document) if _CHAT_FILE.search(uri) else None

    def _actions(self, params: Any, document: Document) -> list[dict[str, Any]]:
        folder = self._server.engine.folder_of(normalise_uri(document.uri))
        if folder is None:
            return []
        found = actions.code_actions(params, document, folder)
        return found if self._server.features.action_literals else actions.as_commands(found)

    def _done(self, request_id: int | str, method: str, task: asyncio.Task[bytes]) -> None:
        self._tasks.pop(request_id, None)
        peer = self._server.peer
        if task.cancelled():
            peer.refuse(request_id, errors.error_object(errors.REQUEST_CANCELLED, "The request was cancelled."))
            return
        exception = task.exception()
        if exception is None:
            peer.respond(request_id, task.result())
        elif isinstance(exception, msgspec.ValidationError):
            peer.refuse(request_id, errors.error_object(errors.INVALID_PARAMS, f"{method}: {exception}."))
        else:
            error = errors.error_of(exception)
            if error["code"] == errors.INTERNAL_ERROR:
                logger.error("%s failed", method, exc_info=exception)
            peer.refuse(request_id, error)


def announce(capabilities: Any, asks: frozenset[str]) -> None:
    """Put into `ServerCapabilities` what this client may ask.

    Args:
        capabilities: lsprotocol's, changed in place.
        asks: `ClientFeatures.asks`.
    """
    from lsprotocol import types

    if "hover" in asks:
        capabilities.hover_provider = True
    if "definition" in asks:
        capabilities.definition_provider = True
    if "references" in asks:
        capabilities.references_provider = True
    if "documentSymbol" in asks:
        capabilities.document_symbol_provider = True
    if "foldingRange" in asks:
        capabilities.folding_range_provider = True
    if "codeLens" in asks:
        capabilities.code_lens_provider = types.CodeLensOptions(resolve_provider=False)
    if "inlayHint" in asks:
        capabilities.inlay_hint_provider = True
    if "symbol" in asks:
        capabilities.workspace_symbol_provider = True
    if "codeAction" in asks:
        capabilities.code_action_provider = types.CodeActionOptions(code_action_kinds=list(actions.KINDS))
    if "completion" in asks:
        capabilities.completion_provider = types.CompletionOptions(trigger_characters=["@", "#", "/"])
    if "documentLink" in asks:
        capabilities.document_link_provider = types.DocumentLinkOptions(resolve_provider=False)

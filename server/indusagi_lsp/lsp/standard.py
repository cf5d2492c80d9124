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
from indusagi_lsp.lsp.documents import Document, uri_in
from indusagi_lsp.protocol import errors
from indusagi_lsp.protocol.uris import normalise_uri

if TYPE_CHECKING:
    from indusagi_lsp.lsp.server import IndusagiServer
    from indusagi_lsp.lsp.sessionfiles.language import SessionFiles

logger = logging.getLogger(__name__)

_SESSION_FILE = re.compile(r"/\.indusagi/sessions/[^/]+\.jsonl\Z")
_SYMBOLS = "workspace/symbol"
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
            return await self.sessions.answer(method, params)
        return None

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
        capabilities.code_action_provider = types.CodeActionOptions(code_action_kinds=["quickfix", "refactor"])

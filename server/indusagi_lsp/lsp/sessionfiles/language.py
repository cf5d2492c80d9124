"""Session files among the open documents: their index, kept until they change, and the answers that come from it.

Everything that takes long runs in a thread; nothing is done twice for one state of a document.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any, TypeAlias

import msgspec

from indusagi_lsp.contract.errors import IndusagiError
from indusagi_lsp.contract.jsontext import dumps
from indusagi_lsp.lsp.client import ClientFeatures
from indusagi_lsp.lsp.documents import Document, Documents, Position, Range, uri_in
from indusagi_lsp.lsp.engine import Engine
from indusagi_lsp.lsp.peer import Peer
from indusagi_lsp.lsp.sessionfiles.answers import Answers
from indusagi_lsp.lsp.sessionfiles.index import Reader
from indusagi_lsp.lsp.sessionfiles.places import SessionPlace, place_of
from indusagi_lsp.protocol import messages as m
from indusagi_lsp.protocol.operations import SESSION_LIST
from indusagi_lsp.protocol.uris import normalise_uri

logger = logging.getLogger(__name__)

_QUIET_SECONDS = 0.2
"""Diagnostics wait for so long after a change: who types does not want to see them move."""

_FOREIGN_LIMIT = 1000
Spawn: TypeAlias = Callable[[Any], asyncio.Task[Any]]


class _Placed(msgspec.Struct, frozen=True):
    position: Position


class _Ranged(msgspec.Struct, frozen=True):
    range: Range


class _Open:
    """One open session file."""

    def __init__(self, document: Document, place: SessionPlace) -> None:
        self.document = document
        self.place = place
        self.reader = Reader(place.session_id)
        self.turn = asyncio.Lock()
        self.revision = -1
        self.answers: Answers | None = None
        self.encoded: dict[str, bytes] = {}
        self.foreign = False
        self.told: dict[str, Any] | None = None
        self.pending: asyncio.Task[Any] | None = None


class SessionFiles:
    """The language of session files.

    Args:
        documents: what is open.
        peer: gets diagnostics.
        engine: knows whose a session is.
        features: what the client can do.
        spawn: runs work beside the rest.
    """

    def __init__(
        self, documents: Documents, peer: Peer, engine: Engine, features: ClientFeatures, spawn: Spawn
    ) -> None:
        self._documents = documents
        self._peer = peer
        self._engine = engine
        self._features = features
        self._spawn = spawn
        self._open: dict[str, _Open] = {}

    # --- documents ----------------------------------------------------------------------------------------------------

    def touched(self, document: Document, *, opened: bool = False) -> None:
        """A document was opened or has changed."""
        uri = normalise_uri(document.uri)
        known = self._open.get(uri)
        if known is None or known.document is not document:
            place = place_of(uri)
            if place is None:
                return
            known = self._open[uri] = _Open(document, place)
        if not self._features.diagnostics:
            return
        if known.pending is not None:
            known.pending.cancel()
        known.pending = self._spawn(self._diagnose(known, 0.0 if opened else _QUIET_SECONDS, ask=opened))

    def saved(self, uri: str) -> None:
        """A document was saved: whose it is may have changed."""
        known = self._open.get(normalise_uri(uri))
        if known is not None and self._features.diagnostics:
            self._spawn(self._diagnose(known, 0.0, ask=True))

    def closed(self, uri: str) -> None:
        """A document was closed."""
        known = self._open.pop(normalise_uri(uri), None)
        if known is None:
            return
        if known.pending is not None:
            known.pending.cancel()
        if self._features.diagnostics:
            self._peer.notify("textDocument/publishDiagnostics", {"uri": known.document.uri, "diagnostics": []})

    def sessions_changed(self, workspace: str) -> None:
        """Something has happened to the sessions of a folder, perhaps an adoption."""
        for known in self._open.values():
            if known.place.workspace == workspace and self._features.diagnostics:
                self._spawn(self._diagnose(known, _QUIET_SECONDS, ask=True))

    # --- requests -----------------------------------------------------------------------------------------------------

    async def answer(self, method: str, params: Any) -> Any:
        """Answer a `textDocument/…` request about a session file.

        Args:
            method: the method.
            params: its params, as decoded JSON.

        Returns:
            The result as JSON data, or as bytes of JSON.

        Raises:
            msgspec.ValidationError: the params are not those of the method.
        """
        known = self._open.get(normalise_uri(uri_in(params)))
        if known is None:
            return None
        answers = await self._answers(known)
        if method in _WHOLE:
            return await self._whole(known, answers, method)
        if method == "textDocument/inlayHint":
            span = msgspec.convert(params, _Ranged).range
            return await asyncio.to_thread(answers.hints, span.start.line, span.end.line)
        if method == "textDocument/codeAction":
            span = msgspec.convert(params, _Ranged).range
            context = params.get("context")
            told = context.get("diagnostics") if isinstance(context, dict) else None
            diagnostics = [one for one in told or () if isinstance(one, dict)] if isinstance(told, list) else []
            return answers.actions(span.start.line, span.end.line, diagnostics)
        at = msgspec.convert(params, _Placed).position
        if method == "textDocument/hover":
            return await asyncio.to_thread(answers.hover, at.line, at.character, markdown=self._features.hover_markdown)
        if method == "textDocument/definition":
            return await asyncio.to_thread(answers.definition, at.line, at.character)
        if method == "textDocument/references":
            context = params.get("context")
            wanted = isinstance(context, dict) and context.get("includeDeclaration") is True
            return await asyncio.to_thread(answers.references, at.line, at.character, declaration=wanted)
        return None

    async def _whole(self, known: _Open, answers: Answers, method: str) -> bytes:
        """An answer about the whole file; made once for each state of it."""
        if answers is known.answers and method in known.encoded:
            return known.encoded[method]
        name = _WHOLE[method]
        if name == "symbols" and not self._features.symbol_tree:
            name = "flat_symbols"
        encoded = await asyncio.to_thread(lambda: dumps(getattr(answers, name)()))
        if answers is known.answers:
            known.encoded[method] = encoded
        return encoded

    async def _answers(self, known: _Open) -> Answers:
        async with known.turn:
            document = known.document
            if known.answers is not None and known.revision == document.revision:
                return known.answers
            revision, lines, splices = document.revision, list(document.lines), document.take_splices()
            # Shielded: a request that is cancelled must not leave the reader behind the splices that it has taken.
            work = asyncio.ensure_future(asyncio.to_thread(known.reader.read, lines, splices))
            try:
                index = await asyncio.shield(work)
            except asyncio.CancelledError:
                await asyncio.wait([work])
                raise
            place = known.place
            known.answers = Answers(index, document.uri, place.session_id, place.workspace, document.encoding)
            known.revision = revision
            known.encoded = {}
            return known.answers

    async def _diagnose(self, known: _Open, delay: float, *, ask: bool) -> None:
        await asyncio.sleep(delay)
        if ask:
            known.foreign = await self._is_foreign(known.place)
        answers = await self._answers(known)
        found = await asyncio.to_thread(answers.diagnostics, foreign=known.foreign)
        if known.document is not self._documents.get(known.document.uri):
            return
        params: dict[str, Any] = {"uri": known.document.uri, "diagnostics": found}
        if known.document.version is not None and known.revision == known.document.revision:
            params["version"] = known.document.version
        if params != known.told:
            # The list of sessions changes more often than what there is to say of this one.
            known.told = params
            self._peer.notify("textDocument/publishDiagnostics", params)

    async def _is_foreign(self, place: SessionPlace) -> bool:
        try:
            hosts = await self._engine.ready()
            params = m.SessionListParams(
                workspace=place.workspace, query=place.session_id, limit=_FOREIGN_LIMIT, archived=True
            )
            listed = await hosts.call(SESSION_LIST, params)
        except IndusagiError as error:
            logger.info("nobody knows whose session %s is: %s", place.session_id, error.message)
            return False
        sessions = getattr(listed, "sessions", ())
        return any(one.id == place.session_id and one.state == "foreign" for one in sessions)


_WHOLE = {
    "textDocument/documentSymbol": "symbols",
    "textDocument/foldingRange": "folds",
    "textDocument/codeLens": "lenses",
}

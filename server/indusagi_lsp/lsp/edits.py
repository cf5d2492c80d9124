"""Changes to documents through the editor, so that the user sees them and can undo them.

The client is asked and never waited for without end: some do not answer, and some refuse because the user was typing.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from indusagi_lsp.contract.errors import InvalidState
from indusagi_lsp.lsp.client import ClientFeatures
from indusagi_lsp.lsp.documents import Document, Documents, split_lines
from indusagi_lsp.lsp.peer import Peer, PeerError

logger = logging.getLogger(__name__)

SECONDS = 10.0
_ANNOTATION = "indusagi"


class DocumentEditor:
    """Edits what is open in the client's editor.

    Args:
        peer: the client.
        documents: what is open.
        features: what the client can do, as it is known when something is to be done.
        limit: seconds until a client that does not answer counts as one that refused.
    """

    def __init__(
        self, peer: Peer, documents: Documents, features: Callable[[], ClientFeatures], limit: float = SECONDS
    ) -> None:
        self._peer = peer
        self._documents = documents
        self._features = features
        self._limit = limit

    def open_uris(self) -> list[str]:
        """The URIs of what is open."""
        return self._documents.uris()

    def require(self) -> None:
        """See that the client can apply edits.

        Raises:
            InvalidState: it cannot.
        """
        if not self._features().apply_edit:
            raise InvalidState(
                "This editor takes no edits from a language server.", hint="Use an editor with workspace/applyEdit."
            )

    async def replace(self, uri: str, text: str, label: str) -> bool:
        """Give an open document another text; only the lines that differ are touched.

        Args:
            uri: the document, in any spelling.
            text: the whole new text.
            label: what the user sees in the undo menu.

        Returns:
            Whether the document has that text now. False: it is not open, the client cannot, refused, or was silent.
        """
        document = self._documents.get(uri)
        if document is None or not self._features().apply_edit:
            return False
        if document.text == text:
            return True
        if await self.edit(document, [difference(document, text)], label):
            # Some tell us of the change only after they have answered.
            await document.until(lambda: document.text == text, self._limit)
        return document.text == text

    async def edit(self, document: Document, edits: list[dict[str, Any]], label: str) -> bool:
        """Apply edits to the state of a document that we know.

        Args:
            document: an open document.
            edits: LSP text edits, all for its present text.
            label: what the user sees in the undo menu.

        Returns:
            Whether the client says that it did.
        """
        features = self._features()
        if not features.apply_edit:
            return False
        if not features.document_changes:
            return await self._apply({"changes": {document.uri: edits}}, label)
        annotated = edits
        edit: dict[str, Any] = {}
        if features.annotations:
            annotated = [{**one, "annotationId": _ANNOTATION} for one in edits]
            edit["changeAnnotations"] = {_ANNOTATION: {"label": "Indusagi", "description": label}}
        named = {"uri": document.uri, "version": document.version}
        return await self._apply({"documentChanges": [{"textDocument": named, "edits": annotated}], **edit}, label)

    async def create(self, uri: str, text: str, label: str) -> bool:
        """Make a file through the editor; False where it cannot, or the file is there already."""
        features = self._features()
        if not (features.apply_edit and features.create_files):
            return False
        begin = {"line": 0, "character": 0}
        inserted = {"range": {"start": begin, "end": begin}, "newText": text}
        changes = [
            {"kind": "create", "uri": uri, "options": {"overwrite": False, "ignoreIfExists": False}},
            {"textDocument": {"uri": uri, "version": None}, "edits": [inserted]},
        ]
        return await self._apply({"documentChanges": changes}, label)

    async def show(self, uri: str) -> bool:
        """Show a document to the user; False where the client cannot."""
        if not self._features().show_document:
            return False
        answer = await self._ask("window/showDocument", {"uri": uri, "takeFocus": True})
        return isinstance(answer, dict) and answer.get("success") is True

    async def _apply(self, edit: dict[str, Any], label: str) -> bool:
        answer = await self._ask("workspace/applyEdit", {"label": label, "edit": edit})
        applied = isinstance(answer, dict) and answer.get("applied") is True
        if not applied:
            logger.info("the client did not apply an edit: %s", answer)
        return applied

    async def _ask(self, method: str, params: dict[str, Any]) -> Any:
        try:
            return await self._peer.ask(method, params, self._limit)
        except (PeerError, TimeoutError) as error:
            logger.info("%s: %s", method, str(error) or "no answer")
            return None


def difference(document: Document, text: str) -> dict[str, Any]:
    """One text edit that gives a document another text, from the first line that differs to the last."""
    old, new = document.lines, split_lines(text)
    first = 0
    while first < min(len(old), len(new)) and old[first] == new[first]:
        first += 1
    tail = 0
    while tail < min(len(old), len(new)) - first and old[-1 - tail] == new[-1 - tail]:
        tail += 1
    last = len(old) - tail
    start = {"line": first, "character": 0} if first < len(old) else document.last()
    end = {"line": last, "character": 0} if last < len(old) else document.last()
    return {"range": {"start": start, "end": end}, "newText": "".join(new[first : len(new) - tail])}

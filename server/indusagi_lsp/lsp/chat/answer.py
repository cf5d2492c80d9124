"""Bringing an answer into a document while it comes, without getting in the way of who writes there.

Pieces are joined, so that undo takes a few steps and not hundreds. The place where the next piece goes moves with the
user's own edits; an edit that the client refuses because the user was faster is tried again at the new place.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from functools import partial

from indusagi_lsp.contract import events as e
from indusagi_lsp.contract.text import VisibleStream
from indusagi_lsp.lsp.chat.text import ANSWER, YOU, binding, guard_line, open_fence, unbound
from indusagi_lsp.lsp.documents import Anchor, Document
from indusagi_lsp.lsp.edits import DocumentEditor

logger = logging.getLogger(__name__)

INTERVAL = 0.75
"""Seconds between two edits: each is one step of undo."""

_TRIES = 20
_RETRY_SECONDS = 0.25
_ECHO_SECONDS = 3.0
_LABEL = "Indusagi's answer"
_COMPARED = 200
_HELD = ("#", "-")
_SURE = 2
"""Characters after which the first one of a line tells whether it may become a heading."""


class AnswerWriter:
    """Writes one answer at the end of a document.

    Args:
        document: the chat document.
        editor: applies edits.
        bind: the session that the document is to be bound to; None when it is bound already.
        interval: seconds between two edits.
    """

    def __init__(
        self, document: Document, editor: DocumentEditor, bind: str | None, interval: float = INTERVAL
    ) -> None:
        self._document = document
        self._editor = editor
        self._bind = bind
        self._interval = interval
        self._retry_seconds = _RETRY_SECONDS
        last = document.last()
        line = last["line"]
        self._anchor: Anchor = document.anchor(line, len(document.line(line)))
        self._stream = VisibleStream()
        self._waiting = self._opening()
        self._line = ""
        self._at_begin = True
        self._written: list[str] = []
        self._news = asyncio.Event()
        self._closing = asyncio.Event()
        self.failed = False
        self._pump: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin to write what comes."""
        self._pump = asyncio.create_task(self._write_on())

    def event(self, event: e.RunEvent) -> None:
        """Take an event of the run."""
        if isinstance(event, e.TextDelta):
            self._take(self._stream.feed(event.delta))
        elif isinstance(event, e.ToolCalled):
            self._take(self._stream.close() + ("" if self._fresh() else "\n\n") + f"> {event.name} …\n\n")

    async def finish(self, closing: str) -> None:
        """Write what is left, with a last word, and make room for the user's next section.

        Args:
            closing: Markdown of our own.
        """
        self._closing.set()
        self._news.set()
        if self._pump is not None:
            await self._pump
        self._take(self._stream.close())
        if self._line:
            self._put(self._line)
            self._line = ""
        fence = open_fence("".join(self._written) + self._waiting)
        ended = "" if self._fresh() else "\n"
        closing = f"\n{closing}\n" if closing else ""
        self._waiting += f"{ended}{fence}{chr(10) if fence else ''}{closing}\n{YOU}\n\n"
        try:
            await self._flush()
        finally:
            self._document.release(self._anchor)

    def _fresh(self) -> bool:
        """Whether what is written, or waits, ends with a line end."""
        text = self._waiting or (self._written[-1] if self._written else "\n")
        return not self._line and text.endswith("\n")

    def _opening(self) -> str:
        text = self._document.text
        gap = "" if text.endswith("\n\n") else "\n" if text.endswith("\n") else "\n\n"
        return f"{gap}{ANSWER}\n\n"

    def _take(self, text: str) -> None:
        """Let whole lines go, and of an unfinished one what cannot become a heading of ours any more."""
        *whole, rest = (self._line + text).split("\n")
        for line in whole:
            self._put(line + "\n")
        self._line = rest
        if rest and not ("<" in rest or (self._at_begin and (len(rest) < _SURE or rest.startswith(_HELD)))):
            self._put(rest)
            self._line = ""
        if text:
            self._news.set()

    def _put(self, text: str) -> None:
        self._waiting += guard_line(text) if self._at_begin else unbound(text)
        self._at_begin = text.endswith("\n")

    async def _write_on(self) -> None:
        while not self.failed and not self._closing.is_set():
            await self._news.wait()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._closing.wait(), self._interval)
                return
            self._news.clear()
            await self._flush()

    async def _flush(self) -> None:
        """Write what waits, as one edit."""
        for _ in range(_TRIES):
            if not self._waiting or self.failed:
                return
            text, document = self._waiting, self._document
            before = document.revision
            place = document.position(self._anchor.line, self._anchor.index)
            edits = [{"range": {"start": place, "end": place}, "newText": text}]
            if self._bind is not None:
                top = {"line": 0, "character": 0}
                edits.insert(0, {"range": {"start": top, "end": top}, "newText": binding(self._bind)})
            # What comes in meanwhile is added behind; only what was sent is taken away.
            if await self._editor.edit(document, edits, _LABEL):
                self._waiting = self._waiting[len(text) :]
                self._written.append(text)
                self._bind = None
                await document.until(partial(self._arrived, text), _ECHO_SECONDS)
                return
            await document.until(partial(_changed, document, before), self._retry_seconds)
        self.failed = True
        logger.warning("the answer could not be written into %s", self._document.uri)

    def _arrived(self, text: str) -> bool:
        """Whether the document, as the client tells it, has the text before the anchor."""
        wanted = text[-_COMPARED:]
        line = self._anchor.line
        found = self._document.line(line)[: self._anchor.index]
        while len(found) < 2 * _COMPARED and line > 0:
            line -= 1
            found = self._document.line(line) + found
        return found.replace("\r\n", "\n").endswith(wanted)


def _changed(document: Document, revision: int) -> bool:
    return document.revision != revision

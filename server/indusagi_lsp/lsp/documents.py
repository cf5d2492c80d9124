"""Open documents: their text by lines, kept in step with the editor, and positions in the units that it counts in.

A line ends where LSP says: at LF, CR LF or CR. Other characters that Python takes for line ends (U+2028, form feeds) do
occur in session files and in sources, and end nothing here.
"""

from __future__ import annotations

import asyncio
import io
from collections.abc import Callable
from typing import Any, Literal, TypeAlias

import msgspec

from indusagi_lsp.protocol.uris import normalise_uri

Encoding: TypeAlias = Literal["utf-8", "utf-16", "utf-32"]
Place: TypeAlias = tuple[int, int]
"""A line and an index into it, in characters."""

_ENDS = "\r\n"
_MOST_SPLICES = 500


class Position(msgspec.Struct, frozen=True):
    """An LSP position, in the client's units."""

    line: int
    character: int


class Range(msgspec.Struct, frozen=True):
    """An LSP range."""

    start: Position
    end: Position


class _Change(msgspec.Struct, frozen=True):
    text: str
    range: Range | None = None


class _Opened(msgspec.Struct, frozen=True, rename="camel"):
    uri: str
    text: str
    version: int | None = None
    language_id: str = ""


class _Changed(msgspec.Struct, frozen=True):
    uri: str
    version: int | None = None


class _DidOpen(msgspec.Struct, frozen=True, rename="camel"):
    text_document: _Opened


class _DidChange(msgspec.Struct, frozen=True, rename="camel"):
    text_document: _Changed
    content_changes: list[_Change]


class Splice(msgspec.Struct, frozen=True):
    """Lines that were replaced: from `start`, `removed` of the old ones by `added` new ones."""

    start: int
    removed: int
    added: int


class Anchor(msgspec.Struct):
    """A place that stays where it is in the text while the user edits around it; behind what is inserted at it."""

    line: int
    index: int


class Document:
    """One open document.

    Args:
        uri: as the client spells it, which is how it wants to hear of it.
        text: its text.
        version: the client's number for this text.
        encoding: what the client counts characters in.
        language: the client's id for its language.

    Attributes:
        lines: the text by lines, each with its end.
        revision: counts the changes; a cache holds for one revision.
    """

    def __init__(self, uri: str, text: str, version: int | None, encoding: Encoding, language: str = "") -> None:
        self.uri = uri
        self.language = language
        self.version = version
        self.encoding = encoding
        self.lines = split_lines(text)
        self.revision = 0
        self._splices: list[Splice] | None = None
        self._anchors: list[Anchor] = []
        self._waiting: list[asyncio.Event] = []
        self._text: str | None = text

    @property
    def text(self) -> str:
        """The whole text."""
        if self._text is None:
            self._text = "".join(self.lines)
        return self._text

    def line(self, number: int) -> str:
        """A line with its end; the one after the last is empty."""
        return self.lines[number] if 0 <= number < len(self.lines) else ""

    def index(self, line: int, units: int) -> int:
        """The index into a line, in characters, of a place that the client gave; clamped to the line's text."""
        text = self.line(line)
        return min(index_of(text, units, self.encoding), len(text.rstrip(_ENDS)))

    def position(self, line: int, index: int) -> dict[str, int]:
        """The LSP position of a character of a line."""
        return {"line": line, "character": units_of(self.line(line), index, self.encoding)}

    def end(self, line: int) -> dict[str, int]:
        """The LSP position behind the text of a line."""
        return self.position(line, len(self.line(line).rstrip(_ENDS)))

    def last(self) -> dict[str, int]:
        """The LSP position at the end of the document."""
        if not self.lines or self.lines[-1].endswith(("\n", "\r")):
            return {"line": len(self.lines), "character": 0}
        return self.end(len(self.lines) - 1)

    def between(self, start: Place, end: Place) -> str:
        """The text between two places."""
        if start[0] == end[0]:
            return self.line(start[0])[start[1] : end[1]]
        middle = "".join(self.lines[start[0] + 1 : end[0]])
        return self.line(start[0])[start[1] :] + middle + self.line(end[0])[: end[1]]

    def selected(self, selection: Any) -> str:
        """The text of an LSP range, as decoded JSON."""
        found = msgspec.convert(selection, Range)
        return self.between(self._place(found.start), self._place(found.end))

    def anchor(self, line: int, index: int) -> Anchor:
        """Keep a place through the changes to come; `release` it in the end."""
        anchor = Anchor(line, index)
        self._anchors.append(anchor)
        return anchor

    def release(self, anchor: Anchor) -> None:
        """Let go of an anchor."""
        self._anchors = [one for one in self._anchors if one is not anchor]

    async def until(self, holds: Callable[[], bool], limit: float) -> bool:
        """Wait until something holds after a change, but not longer than `limit` seconds; says whether it does."""
        changed = asyncio.Event()
        self._waiting.append(changed)
        try:
            async with asyncio.timeout(limit):
                while not holds():
                    changed.clear()
                    await changed.wait()
        except TimeoutError:
            return holds()
        finally:
            self._waiting.remove(changed)
        return True

    def take_splices(self) -> list[Splice] | None:
        """What was replaced since this was last asked; None the first time, and when it was too much to keep."""
        taken, self._splices = self._splices, []
        return taken

    def change(self, change: _Change, version: int | None) -> None:
        """Take one change of the client."""
        self.version = version
        self.revision += 1
        self._text = None
        if change.range is None:
            self._change_all(split_lines(change.text))
        else:
            self._change_range(change.range, change.text)
        for event in self._waiting:
            event.set()

    def _change_all(self, new: list[str]) -> None:
        if self._anchors:
            # An editor that sends all has left most as it was: what is common at both ends has not moved.
            before, after = "".join(self.lines), "".join(new)
            start = _common(before, after)
            room = min(len(before), len(after)) - start
            tail = _common(before[len(before) - room :][::-1], after[len(after) - room :][::-1])
            self._move_anchors(
                _place_of(before, start), _place_of(before, len(before) - tail), _place_of(after, len(after) - tail)
            )
        self._replace(0, len(self.lines), new)

    def _change_range(self, where: Range, new: str) -> None:
        (first, begin), (last, end) = self._place(where.start), self._place(where.end)
        if (last, end) < (first, begin):
            (first, begin), (last, end) = (last, end), (first, begin)
        if self._anchors:
            added = split_lines(new)
            ended = not added or added[-1].endswith(("\n", "\r"))
            down = len(added) - (0 if ended else 1)
            at = 0 if ended else len(added[-1])
            self._move_anchors((first, begin), (last, end), (first + down, at if down else begin + at))
        text = self.line(first)[:begin] + new + self.line(last)[end:]
        last += 1
        # A CR that now stands before a LF is one end with it.
        if text.startswith("\n") and first and self.line(first - 1).endswith("\r"):
            first -= 1
            text = self.line(first) + text
        if text.endswith("\r") and self.line(last).startswith("\n"):
            text += self.line(last)
            last += 1
        self._replace(first, min(last, len(self.lines)), split_lines(text))

    def _move_anchors(self, start: Place, end: Place, new_end: Place) -> None:
        """Text from `start` to `end` gives way to one that ends at `new_end`."""
        for anchor in self._anchors:
            at = (anchor.line, anchor.index)
            if at < start:
                continue
            if at < end:
                anchor.line, anchor.index = new_end
            elif anchor.line == end[0]:
                anchor.line, anchor.index = new_end[0], new_end[1] + anchor.index - end[1]
            else:
                anchor.line += new_end[0] - end[0]

    def _place(self, position: Position) -> Place:
        line = min(max(position.line, 0), len(self.lines))
        if line < position.line:
            return len(self.lines), 0
        return line, self.index(line, position.character)

    def _replace(self, first: int, last: int, new: list[str]) -> None:
        """Put `new` in the place of some lines; those at the edges that stay the same are not counted as replaced."""
        while first < last and new and self.lines[first] == new[0]:
            same = 0
            for old, other in zip(self.lines[first:last], new, strict=False):
                if old != other:
                    break
                same += 1
            first += same
            new = new[same:]
        while first < last and new and self.lines[last - 1] == new[-1]:
            new.pop()
            last -= 1
        self.lines[first:last] = new
        if self._splices is not None:
            self._splices.append(Splice(first, last - first, len(new)))
            if len(self._splices) > _MOST_SPLICES:
                self._splices = None


class Documents:
    """All open documents, by their URI in its one spelling."""

    def __init__(self) -> None:
        self.encoding: Encoding = "utf-16"
        self._open: dict[str, Document] = {}

    def get(self, uri: str) -> Document | None:
        """The document, or None when it is not open."""
        return self._open.get(normalise_uri(uri))

    def uris(self) -> list[str]:
        """The open documents."""
        return list(self._open)

    def open(self, params: Any) -> Document:
        """Take `textDocument/didOpen`.

        Raises:
            ValueError: the params are not those of the method.
        """
        opened = msgspec.convert(params, _DidOpen).text_document
        document = Document(opened.uri, opened.text, opened.version, self.encoding, opened.language_id)
        self._open[normalise_uri(opened.uri)] = document
        return document

    def change(self, params: Any) -> Document | None:
        """Take `textDocument/didChange`; None for a document that was never opened.

        Raises:
            ValueError: the params are not those of the method.
        """
        changed = msgspec.convert(params, _DidChange)
        document = self.get(changed.text_document.uri)
        if document is not None:
            for change in changed.content_changes:
                document.change(change, changed.text_document.version)
        return document

    def close(self, params: Any) -> Document | None:
        """Take `textDocument/didClose`.

        Raises:
            ValueError: the params are not those of the method.
        """
        return self._open.pop(normalise_uri(uri_in(params)), None)


class _Identifier(msgspec.Struct, frozen=True):
    uri: str


class _Names(msgspec.Struct, frozen=True, rename="camel"):
    text_document: _Identifier


def uri_in(params: Any) -> str:
    """The URI of the document that the params are about.

    Raises:
        ValueError: they name none.
    """
    return msgspec.convert(params, _Names).text_document.uri


def _common(one: str, other: str) -> int:
    """How many characters two texts begin with alike."""
    for index, (left, right) in enumerate(zip(one, other, strict=False)):
        if left != right:
            return index
    return min(len(one), len(other))


def _place_of(text: str, offset: int) -> Place:
    """The line and the index of a character of a text."""
    lines = split_lines(text[:offset])
    if not lines or lines[-1].endswith(("\n", "\r")):
        return len(lines), 0
    return len(lines) - 1, len(lines[-1])


def split_lines(text: str) -> list[str]:
    """The lines of a text, each with its end."""
    if "\r" in text:
        return list(io.StringIO(text, newline=""))
    # Several times faster, which matters for a session file of many megabytes.
    lines: list[str] = []
    at = 0
    while end := text.find("\n", at) + 1:
        lines.append(text[at:end])
        at = end
    if at < len(text):
        lines.append(text[at:])
    return lines


def units_of(line: str, index: int, encoding: Encoding) -> int:
    """How many of the client's units stand before a character of a line."""
    if line.isascii() or encoding == "utf-32":
        return index
    if encoding == "utf-8":
        return len(line[:index].encode("utf-8", "surrogatepass"))
    return len(line[:index].encode("utf-16-le", "surrogatepass")) // 2


def index_of(line: str, units: int, encoding: Encoding) -> int:
    """The character of a line that the client means; the inside of a character is its begin."""
    if units <= 0:
        return 0
    if line.isascii() or encoding == "utf-32":
        return min(units, len(line))
    if encoding == "utf-8":
        data = line.encode("utf-8", "surrogatepass")
        cut = min(units, len(data))
        while cut < len(data) and data[cut] & 0xC0 == 0x80:
            cut -= 1
        return len(data[:cut].decode("utf-8", "surrogatepass"))
    data = line.encode("utf-16-le", "surrogatepass")
    cut = min(units * 2, len(data))
    if cut < len(data) and 0xDC <= data[cut + 1] <= 0xDF and 0xD8 <= data[cut - 1] <= 0xDB:
        cut -= 2
    return len(data[:cut].decode("utf-16-le", "surrogatepass"))

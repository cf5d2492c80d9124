"""Frames: bytes in, message bodies out, and a way back after bytes that make no sense.

Two kinds are spoken: the base protocol of LSP, with a header before each body, and one body a line (`LINES`).

A reader of headers that has lost its place looks for the next `Content-Length` header. That is safe: within a JSON body
line ends can stand only between tokens, where no header fits, so the text of a header never occurs in a
well-formed body.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Protocol

import msgspec

MAX_BODY = 64 << 20
MAX_HEADER = 16 << 10
_TAIL = 256

_USUAL = re.compile(rb"Content-Length: (\d{1,10})\r\n\r\n")
_LENGTH = re.compile(rb"content-length[ \t]*:[ \t]*([^\r\n]*)", re.IGNORECASE)
_END = re.compile(rb"\r?\n\r?\n")
_FIELD = re.compile(rb"[A-Za-z][A-Za-z0-9-]*[ \t]*:[^\r\n]*\Z")
_NUMBER = re.compile(rb"\d+\Z")


class FrameError(msgspec.Struct, frozen=True):
    """Bytes that are no frame; the reader has gone on behind them."""

    reason: str


def frame(body: bytes) -> bytes:
    """One message, ready to be written.

    Args:
        body: UTF-8 JSON.

    Returns:
        The body behind its header; the length counts bytes.
    """
    return b"Content-Length: %d\r\n\r\n%b" % (len(body), body)


class Reader(Protocol):
    """Cuts a stream of bytes into message bodies."""

    def feed(self, data: bytes) -> list[bytes | FrameError]:
        """Take more bytes; gives the bodies that are now complete, and where bytes made no sense."""
        ...


class Framing(msgspec.Struct, frozen=True):
    """How messages are told apart on a stream: a reader for what comes in, and how a body is written."""

    reader: Callable[[], Reader]
    frame: Callable[[bytes], bytes]


class FrameReader:
    """Cuts a stream of bytes into message bodies, in whatever pieces it comes."""

    def __init__(self, max_body: int = MAX_BODY) -> None:
        self._buffer = bytearray()
        self._max_body = max_body
        self._wanted: int | None = None
        self._lost = False

    def feed(self, data: bytes) -> list[bytes | FrameError]:
        """Take more bytes.

        Args:
            data: what was read.

        Returns:
            The bodies that are now complete, and one `FrameError` for each stretch of bytes that is no frame.
        """
        found: list[bytes | FrameError] = []
        buffer = self._buffer
        buffer += data
        while buffer:
            if self._wanted is None and not self._header(found):
                break
            if self._wanted is not None:
                if len(buffer) < self._wanted:
                    break
                found.append(bytes(buffer[: self._wanted]))
                del buffer[: self._wanted]
                self._wanted = None
        return found

    def _header(self, found: list[bytes | FrameError]) -> bool:
        """Take one header block off the buffer; False when it is not complete yet."""
        buffer = self._buffer
        usual = _USUAL.match(buffer)
        if usual is not None:
            wanted, end = int(usual[1]), usual.end()
            del usual, buffer[:end]
            self._expect(wanted, found)
            return True

        # Line ends between two frames are tolerated.
        blank = len(buffer) - len(buffer.lstrip(b"\r\n"))
        if blank:
            del buffer[:blank]
            return bool(buffer)

        end_match = _END.search(buffer)
        if end_match is None:
            if len(buffer) > MAX_HEADER:
                self._lose("no header was found", found)
            if self._lost and len(buffer) > _TAIL and not (len(buffer) < MAX_HEADER and _LENGTH.search(buffer)):
                # What is kept could be the beginning of the next header.
                del buffer[:-_TAIL]
            return False

        block, end = bytes(buffer[: end_match.start()]), end_match.end()
        del end_match, buffer[:end]
        self._block(block, found)
        return True

    def _block(self, block: bytes, found: list[bytes | FrameError]) -> None:
        lengths = list(_LENGTH.finditer(block))
        if not lengths:
            self._lose("a header without Content-Length", found)
            return

        last = lengths[-1]
        value = last[1].strip()
        if not _NUMBER.match(value):
            self._lose("Content-Length must be a number of bytes", found)
            return

        rest = [line.strip() for line in (block[: last.start()] + block[last.end() :]).splitlines()]
        if any(line and not _FIELD.match(line) for line in rest):
            self._lose("bytes between two messages", found)
        self._expect(int(value) if len(value) < 20 else self._max_body + 1, found)

    def _expect(self, length: int, found: list[bytes | FrameError]) -> None:
        if length > self._max_body:
            self._lose(f"a message may have at most {self._max_body} bytes", found)
            return
        self._wanted = length
        self._lost = False

    def _lose(self, reason: str, found: list[bytes | FrameError]) -> None:
        """Note that the place is lost, once until the next good header."""
        if not self._lost:
            found.append(FrameError(reason))
        self._lost = True


def line(body: bytes) -> bytes:
    """One message as a line of its own.

    Args:
        body: compact JSON, in which no line end can stand.
    """
    return body + b"\n"


class LineReader:
    """Cuts a stream of bytes into lines; empty ones are no messages, and one that is too long is skipped."""

    def __init__(self, max_body: int = MAX_BODY) -> None:
        self._buffer = bytearray()
        self._searched = 0
        self._max_body = max_body
        self._skipping = False

    def feed(self, data: bytes) -> list[bytes | FrameError]:
        """Take more bytes.

        Args:
            data: what was read.

        Returns:
            The lines that are now complete, and one `FrameError` for each that is too long.
        """
        found: list[bytes | FrameError] = []
        buffer = self._buffer
        buffer += data
        start = 0
        while (end := buffer.find(b"\n", max(start, self._searched))) >= 0:
            self._take(bytes(buffer[start:end]).strip(), found)
            start = end + 1
        del buffer[:start]
        # A long line comes in many pieces; none of them is searched twice.
        self._searched = len(buffer)
        if self._skipping or len(buffer) > self._max_body:
            self._lose(found)
            self._skipping = True
            buffer.clear()
            self._searched = 0
        return found

    def _take(self, body: bytes, found: list[bytes | FrameError]) -> None:
        if self._skipping:
            self._skipping = False
        elif len(body) > self._max_body:
            self._lose(found)
        elif body:
            found.append(body)

    def _lose(self, found: list[bytes | FrameError]) -> None:
        if not self._skipping:
            found.append(FrameError(f"a message may have at most {self._max_body} bytes"))


HEADERS = Framing(FrameReader, frame)
LINES = Framing(LineReader, line)

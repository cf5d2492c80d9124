"""The tool `read_file`: numbered lines of one text file, the editor's unsaved text where there is one."""

from __future__ import annotations

import asyncio
import difflib
import io
import os
from typing import TYPE_CHECKING, Annotated, Any, BinaryIO

import msgspec
from msgspec import Meta

from indusagi_lsp.contract.errors import ToolFailed
from indusagi_lsp.contract.models import ToolSpec
from indusagi_lsp.contract.text import quoted, visible
from indusagi_lsp.contract.tools import Effect, ToolContext, ToolOutcome
from indusagi_lsp.tools.arguments import Arguments, schema_of, validate_arguments
from indusagi_lsp.tools.lookups import MissingPath

if TYPE_CHECKING:
    from collections.abc import Mapping

    from indusagi_lsp.tools.guard import PathGuard

MAX_LINES = 2000
MAX_OUTPUT_CHARS = 40_000
MAX_LINE_CHARS = 2000
MAX_SCAN_BYTES = 64 * 1024 * 1024
"""How far into a file lines are looked for; what lies behind is told, not read."""

_MAX_UTF16_BYTES = 8 * 1024 * 1024
_SNIFF_BYTES = 8192
_CHUNK_BYTES = 1 << 20


class ReadFileArguments(Arguments, frozen=True):
    """What `read_file` takes."""

    path: Annotated[str, Meta(min_length=1, description="Path of the file, relative to the workspace root.")]
    start_line: Annotated[int, Meta(ge=1, description="First line to show; lines count from 1.")] = 1
    end_line: (
        Annotated[int, Meta(ge=1, description="Last line to show; left out: as far as one answer goes.")] | None
    ) = None


class Lines(msgspec.Struct, frozen=True):
    """A window of a text.

    Attributes:
        shown: the lines of the window, without line ends.
        total: lines of the whole text, None where it is longer than was looked at.
        full: whether the window ended because it was full, not because it was complete.
    """

    shown: tuple[str, ...]
    total: int | None
    full: bool


class ReadFile:
    """Shows lines of one file with their numbers."""

    # It only reads.
    effects = frozenset({Effect.READ})

    def __init__(self, guard: PathGuard) -> None:
        self._guard = guard
        self.spec = ToolSpec(
            "read_file",
            "Read a text file of the workspace. Each line is shown as its number, a tab, and the line"
            f" itself; the number and the tab are not part of the file. At most {MAX_LINES} lines come at"
            " once; ask for a range to see more.",
            schema_of(ReadFileArguments),
        )

    async def run(self, arguments: Mapping[str, Any], context: ToolContext) -> ToolOutcome:
        """Read the lines.

        Args:
            arguments: as `ReadFileArguments`.
            context: gives the unsaved text of open files.

        Returns:
            The numbered lines, and a note where there are more.

        Raises:
            ToolFailed: the path leaves the workspace, is no text file, or cannot be read.
        """
        wanted = validate_arguments(ReadFileArguments, arguments)
        end = wanted.end_line if wanted.end_line is not None else wanted.start_line + MAX_LINES - 1
        if end < wanted.start_line:
            msg = f"end_line {end} lies before start_line {wanted.start_line}."
            raise ToolFailed(msg)
        unsaved = context.document(self._guard.relative(wanted.path))
        lines = await asyncio.to_thread(self._read, wanted.path, wanted.start_line, end, unsaved)
        return ToolOutcome(_render(wanted, lines, unsaved is not None))

    def _read(self, path: str, start: int, end: int, unsaved: str | None) -> Lines:
        if unsaved is not None:
            # The guard decides here too: an editor may have files open that are not ours to show.
            try:
                with self._guard.open_read(path):
                    pass
            except MissingPath:
                pass
            return window(io.BytesIO(unsaved.encode("utf-8", "surrogatepass")), start, end)
        try:
            with self._guard.open_read(path) as opened, os.fdopen(os.dup(opened.fd), "rb") as stream:
                return window(_as_utf8(stream, path, opened.size), start, end)
        except MissingPath as error:
            raise ToolFailed(error.message, hint=self._nearby(path)) from None

    def _nearby(self, path: str) -> str:
        """A hint with names like the missing one, from the folder that it should be in."""
        folder, _, name = path.replace("\\", "/").rpartition("/")
        try:
            with self._guard.open_folder(folder or ".") as opened:
                names = [entry.name for entry in os.scandir(opened.handle)]
        except (ToolFailed, OSError):
            return "Use list_files to see what there is."
        close = difflib.get_close_matches(name, names, n=3)
        if not close:
            return "Use list_files to see what there is."
        prefix = f"{folder}/" if folder else ""
        return "Did you mean " + " or ".join(quoted(prefix + found) for found in close) + "?"


def window(stream: BinaryIO, start: int, end: int) -> Lines:
    """Lines `start` to `end` of a UTF-8 stream, within the limits of one answer; the whole is never held.

    Args:
        stream: seekable; what is not UTF-8 becomes replacement characters.
        start: first line, from 1.
        end: last line, inclusive.
    """
    begin = stream.tell()
    skipped, reached = _count_lines(stream, begin, start - 1)
    if skipped < start - 1:
        return Lines((), skipped if reached is None else None, full=False)

    shown: list[str] = []
    chars = 0
    full = False
    while len(shown) < end - start + 1:
        here = stream.tell()
        raw = stream.readline(MAX_LINE_CHARS * 4)
        if not raw:
            break
        missing = 0 if raw.endswith(b"\n") else _skip_line(stream, begin)
        line = _line(raw, missing)
        chars += len(line) + 1
        if len(shown) == MAX_LINES or chars > MAX_OUTPUT_CHARS:
            full = True
            stream.seek(here)
            break
        shown.append(line)
    rest, reached = _count_lines(stream, begin, None)
    last = skipped + len(shown)
    return Lines(tuple(shown), last + rest if reached is None else None, full)


def _count_lines(stream: BinaryIO, begin: int, wanted: int | None) -> tuple[int, int | None]:
    """Go past `wanted` lines, or all there are when None.

    Returns:
        The lines passed, and None at the end of the stream, else the place where counting stopped.
    """
    passed = 0
    tail = b"\n"
    while wanted is None or passed < wanted:
        here = stream.tell()
        if here - begin >= MAX_SCAN_BYTES:
            return passed, here
        chunk = stream.read(_CHUNK_BYTES)
        if not chunk:
            # A last line without a line end is a line too.
            return passed + (not tail.endswith(b"\n")), None
        ends = chunk.count(b"\n")
        if wanted is not None and passed + ends >= wanted:
            place = -1
            for _ in range(wanted - passed):
                place = chunk.index(b"\n", place + 1)
            stream.seek(here + place + 1)
            return wanted, here + place + 1
        passed += ends
        tail = chunk[-1:]
    return passed, stream.tell()


def _skip_line(stream: BinaryIO, begin: int) -> int:
    """Go to the end of the line; gives the bytes passed, the line end left out."""
    passed = 0
    while stream.tell() - begin < MAX_SCAN_BYTES:
        piece = stream.readline(_CHUNK_BYTES)
        passed += len(piece)
        if piece.endswith(b"\n"):
            return passed - 1
        if not piece:
            break
    return passed


def _line(raw: bytes, missing: int) -> str:
    text = raw.decode("utf-8", "replace").rstrip("\n").removesuffix("\r")
    cut = text[:MAX_LINE_CHARS]
    left_out = len(text) - len(cut) + missing
    return visible(cut) + (f" [… {left_out:,} more]" if left_out else "")


def _as_utf8(stream: BinaryIO, path: str, size: int) -> BinaryIO:
    """The same text as UTF-8 without a byte order mark; a binary file is refused."""
    head = stream.read(_SNIFF_BYTES)
    if head[:2] in (b"\xff\xfe", b"\xfe\xff"):
        if size > _MAX_UTF16_BYTES:
            msg = f"{quoted(path)} is UTF-16 and has {size:,} bytes; at most {_MAX_UTF16_BYTES:,} are read."
            raise ToolFailed(msg)
        text = (head + stream.read(_MAX_UTF16_BYTES)).decode("utf-16", "replace")
        return io.BytesIO(text.encode("utf-8", "surrogatepass"))
    if b"\0" in head:
        msg = f"{quoted(path)} is a binary file of {size:,} bytes, so its content is not shown."
        raise ToolFailed(msg)
    stream.seek(3 if head.startswith(b"\xef\xbb\xbf") else 0)
    return stream


def _render(wanted: ReadFileArguments, lines: Lines, unsaved: bool) -> str:
    start, total = wanted.start_line, lines.total
    notes = ["the editor's unsaved text"] if unsaved else []
    last = start + len(lines.shown) - 1
    if not lines.shown:
        if total == 0:
            return "[the file is empty]"
        known = f"has {total:,} lines" if total is not None else f"is longer than {MAX_SCAN_BYTES:,} bytes"
        return f"[nothing at line {start:,}: the file {known}]"
    if total is None:
        notes.append(f"lines {start}-{last}; the file goes on beyond what is looked at")
    elif start > 1 or last < total:
        notes.append(f"lines {start}-{last} of {total:,}")
    if lines.full or (wanted.end_line is None and last != total):
        notes.append(f"go on with start_line={last + 1}")
    body = "\n".join(f"{number}\t{line}" for number, line in enumerate(lines.shown, start))
    return f"{body}\n[{'; '.join(notes)}]" if notes else body

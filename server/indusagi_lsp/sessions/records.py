"""Records: how bytes become decoded records, whatever has happened to the bytes.

A file is split on LF alone. A line that is no record is searched for records inside it, so that a welded or
half-written line costs only what is really broken. Nothing here raises on content, and nothing here writes.
"""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeAlias

import msgspec

from indusagi_lsp.contract import jsontext

MARK = b'{"type":'
_BOM = b"\xef\xbb\xbf"
_BLANK = b"\x00\r\n\t "
_EFFORT = 8
"""How many times the length of a broken line may be spent on looking for records in it, before the rest is given up."""

MAX_FILE_BYTES = 1 << 30
"""A session larger than this is not read: whoever ships one wants our time and memory. Long outputs are kept beside."""

_MAX_DIGITS = 4_000
_LINE_BYTES = 1 << 20


class Record(msgspec.Struct, frozen=True):
    """A decoded record and where its JSON text stands. `whole` says that it fills its line, as a writer meant it."""

    raw: dict[str, Any]
    offset: int
    length: int
    whole: bool = True


class Problem(msgspec.Struct, frozen=True):
    """Something that could not be taken as it is.

    Kinds: `skipped` (bytes that are no record), `torn` (the file ends inside a record), `malformed` (JSON that does not
    narrow to a record), `migrator`, `unverified`, `gap`, `cycle`, `duplicate`. `offset` and `length` are in bytes.
    """

    kind: str
    offset: int
    length: int
    message: str
    node: str | None = None


Item: TypeAlias = Record | Problem


def decode(text: bytes) -> Any:
    """Decode one JSON text, kindly: bytes that are not UTF-8 become U+FFFD, huge numbers what JavaScript makes of them.

    Raises:
        ValueError: it is not JSON, or is nested too deep.
    """
    try:
        return jsontext.loads(text)
    except (ValueError, RecursionError):
        pass
    try:
        return json.loads(text.decode("utf-8", "replace"), parse_int=_integer, parse_constant=_refuse)
    except RecursionError:
        raise ValueError("JSON nested too deep") from None


def parse_line(line: bytes, offset: int) -> list[Item]:
    """The records of one line, and what in it is no record.

    Args:
        line: the bytes of the line, with or without its line end.
        offset: where it begins in the file.
    """
    content = line.strip(_BLANK)
    if not content:
        return []

    start = line.index(content)
    if content.startswith(_BOM):
        content = content[len(_BOM) :]
        start += len(_BOM)
    try:
        raw = decode(content)
    except ValueError:
        return _resync(content, offset + start)
    if not isinstance(raw, dict):
        return [Problem("malformed", offset + start, len(content), "JSON, but no record")]
    return [Record(raw, offset + start, len(content))]


def read_records(path: Path | str, *, start: int = 0) -> Iterator[Item]:
    """Read a session file, record by record, in the order of the file.

    Args:
        path: the file. A symbolic link, a folder or a device is refused.
        start: the byte to begin at, the begin of a line.

    Yields:
        Each record, and each problem at its place. A torn tail is the last problem, of kind `torn`.

    Raises:
        OSError: the file cannot be read.
    """
    with open_regular(path) as file:
        file.seek(start)
        offset = start
        for line in file:
            items = parse_line(line, offset)
            if not line.endswith(b"\n"):
                items = as_tail(items)
            yield from items
            offset += len(line)


def as_tail(items: list[Item]) -> list[Item]:
    """The items of a last line that has no line end: what was skipped at its end is a torn tail."""
    if items and isinstance(items[-1], Problem) and items[-1].kind == "skipped":
        last = items[-1]
        items[-1] = Problem("torn", last.offset, last.length, "the file ends inside a record")
    return items


def open_regular(path: Path | str) -> Any:
    """Open a regular file for reading in binary, following no link and waiting for no device.

    Raises:
        OSError: there is no such file, it is something else than a regular file, too large, or it cannot be read.
    """
    return os.fdopen(open_fd(path), "rb", buffering=_LINE_BYTES)


def open_fd(path: Path | str) -> int:
    """A descriptor to read the regular file `path` with."""
    import stat

    flags = os.O_RDONLY | getattr(os, "O_BINARY", 0)
    for name in ("O_CLOEXEC", "O_NOFOLLOW", "O_NONBLOCK", "O_NOINHERIT"):
        flags |= getattr(os, name, 0)
    if not hasattr(os, "O_NOFOLLOW") and os.path.islink(path):
        msg = f"{path} is a symbolic link"
        raise OSError(msg)

    fd = os.open(path, flags)
    status = os.fstat(fd)
    if not stat.S_ISREG(status.st_mode):
        os.close(fd)
        msg = f"{path} is no regular file"
        raise OSError(msg)
    if status.st_size > MAX_FILE_BYTES:
        os.close(fd)
        raise OSError(errno.EFBIG, f"the file is larger than {MAX_FILE_BYTES >> 20:,} MiB", os.fspath(path))
    return fd


def _resync(content: bytes, offset: int) -> list[Item]:
    """Look inside a broken line for the next begin of a record, again and again."""
    # Latin-1 gives each byte one character, so that positions in the text are positions in the file.
    text = content.decode("latin-1")
    scanner = json.JSONDecoder(parse_int=_integer, parse_constant=_refuse)
    items: list[Item] = []
    position = broken = 0
    effort = _EFFORT * len(content) + _LINE_BYTES
    while effort > 0:
        mark = content.find(MARK, position)
        if mark < 0:
            break
        try:
            _, end = scanner.raw_decode(text, mark)
            raw = decode(content[mark:end])
        except (ValueError, RecursionError) as error:
            position = mark + 1
            reached = error.pos if isinstance(error, json.JSONDecodeError) else len(text)
            effort -= max(reached - mark, len(MARK))
            continue
        if broken < mark:
            items.append(_skipped(content, broken, mark, offset))
        items.append(Record(raw, offset + mark, end - mark, whole=False))
        position = broken = end

    if content[broken:].strip(_BLANK):
        items.append(_skipped(content, broken, len(content), offset))
    return items


def _skipped(content: bytes, start: int, end: int, offset: int) -> Problem:
    return Problem("skipped", offset + start, end - start, f"{end - start} bytes are no record")


def _integer(digits: str) -> float:
    return int(digits) if len(digits) <= _MAX_DIGITS else float(digits)


def _refuse(name: str) -> Any:
    message = f"{name} is not JSON"
    raise ValueError(message)

"""Blobs: where long tool output goes, so that a block stays small and the hash covers what the model saw.

A blob is a file named by the SHA-256 of its bytes in `.indusagi/blobs/`. The block that was cut names it. All
of this is blocking file I/O: call it in a thread.
"""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import stat
import time
from hashlib import sha256
from typing import TYPE_CHECKING

import msgspec

from indusagi_lsp.contract.errors import InvalidInput, PersistenceFault
from indusagi_lsp.contract.limits import MAX_OUTPUT_BYTES
from indusagi_lsp.contract.secrets import redact
from indusagi_lsp.contract.turns import ToolResultBlock, Turn
from indusagi_lsp.sessions.folder import SessionFolder

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

_DIGEST = re.compile(r"[0-9a-f]{64}")
_MARK = re.compile(r"\[… [0-9,]+ bytes left out; the whole output is blob ([0-9a-f]{64}) …\]")
_HEX = re.compile(rb"[0-9a-f]{64}")
_CHUNK = 1024 * 1024
_NO_FOLLOW = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0) | getattr(os, "O_CLOEXEC", 0)
YOUNG_SECONDS = 3600.0
"""A blob younger than this is never collected: the turn that names it may not be on disk yet."""


class Collected(msgspec.Struct, frozen=True):
    """What a collection found: digests that nothing names, their size, and how many blobs stay."""

    removed: tuple[str, ...] = ()
    bytes: int = 0
    kept: int = 0


def spill(output: str, blobs_dir: Path, *, limit: int = MAX_OUTPUT_BYTES, redacted: bool = True) -> str:
    """Make a tool's output fit a block.

    Args:
        output: the whole output.
        blobs_dir: the folder of the blobs; made with mode 0700 if it is not there.
        limit: bytes of UTF-8 that a block may hold.
        redacted: whether secrets of known shapes are taken out first, from the block and the blob.

    Returns:
        The output itself where it fits; else its head and tail, cut between characters, with a line between
        them that names the blob. Where the blob cannot be written, the line says that the rest is lost.
    """
    text = redact(output) if redacted else output
    if len(text) * 4 <= limit:
        return text

    data = text.encode("utf-8", "surrogatepass")
    if len(data) <= limit:
        return text

    digest = sha256(data).hexdigest()
    try:
        _write(blobs_dir, digest, data)
        where = f"the whole output is blob {digest}"
    except (OSError, PersistenceFault):
        where = "they could not be kept: the disk refused"

    half = max(0, limit - 200) // 2
    start, end = _border(data, half), _border(data, len(data) - half)
    head, tail = (part.decode("utf-8", "surrogatepass") for part in (data[:start], data[end:]))
    return f"{head}\n[… {end - start:,} bytes left out; {where} …]\n{tail}"


def named(turns: Iterable[Turn]) -> tuple[str, ...]:
    """The digests of the blobs that the results in `turns` name, in order, each once."""
    found: dict[str, None] = {}
    for turn in turns:
        for block in turn.blocks:
            if isinstance(block, ToolResultBlock):
                found.update(dict.fromkeys(_MARK.findall(block.output)))

    return tuple(found)


def read(blobs_dir: Path, digest: str) -> str:
    """The whole output that a block names.

    Raises:
        InvalidInput: `digest` is none, or there is no such blob.
        PersistenceFault: the blob cannot be read, or its bytes are not those that its name promises.
    """
    if _DIGEST.fullmatch(digest) is None:
        raise InvalidInput("A blob is named by 64 hex digits.")

    try:
        data = _read(blobs_dir / digest)
    except FileNotFoundError:
        message = f"There is no blob {digest}."
        raise InvalidInput(message, hint="It may have been collected.") from None
    except OSError as error:
        message = f"The blob {digest} cannot be read: {error.strerror}"
        raise PersistenceFault(message) from error

    if sha256(data).hexdigest() != digest:
        message = f"The blob {digest} was changed on disk."
        raise PersistenceFault(message, hint="Its content is not what was kept.")

    return data.decode("utf-8", "surrogatepass")


def state(blobs_dir: Path, digest: str) -> str:
    """How a blob is: `ok`, `missing`, `changed` or `unreadable`."""
    try:
        data = _read(blobs_dir / digest)
    except FileNotFoundError:
        return "missing"
    except OSError:
        return "unreadable"

    return "ok" if sha256(data).hexdigest() == digest else "changed"


def collect(
    blobs_dir: Path, sessions_dirs: Iterable[Path], *, now: float | None = None, dry_run: bool = False
) -> Collected:
    """Remove the blobs that no session names.

    Every file in the folders of the sessions counts, repaired, archived and unreadable ones too, and any 64
    hex digits in them count as a name: too much is kept rather than too little.

    Args:
        blobs_dir: the folder of the blobs.
        sessions_dirs: the folders in which sessions lie; a folder that is not there has none.
        now: seconds since the epoch, for the age of blobs.
        dry_run: only tell what would go.

    Raises:
        PersistenceFault: a session could not be read, so nothing is removed; or a blob could not be removed.
    """
    when = time.time() if now is None else now
    blobs = {name: found for name, found in _files(blobs_dir) if _DIGEST.fullmatch(name)}
    reachable: set[str] = set()
    for folder in sessions_dirs:
        try:
            for name, _ in _files(folder):
                reachable.update(_digests(folder / name))
        except OSError as error:
            message = f"The sessions cannot all be read ({error}), so no blob was removed."
            raise PersistenceFault(message) from error

    removed: list[str] = []
    for name, found in sorted(blobs.items()):
        if name in reachable or when - found.st_mtime < YOUNG_SECONDS:
            continue

        removed.append(name)
        if not dry_run:
            try:
                (blobs_dir / name).unlink(missing_ok=True)
            except OSError as error:
                message = f"The blob {name} cannot be removed: {error.strerror}"
                raise PersistenceFault(message) from error

    return Collected(tuple(removed), sum(blobs[name].st_size for name in removed), len(blobs) - len(removed))


def _border(data: bytes, at: int) -> int:
    """The next place at or after `at` where a character begins."""
    while at < len(data) and data[at] & 0xC0 == 0x80:
        at += 1

    return at


def _files(folder: Path) -> Iterator[tuple[str, os.stat_result]]:
    """The regular files of a folder; none where there is no folder."""
    try:
        entries = os.scandir(folder)
    except FileNotFoundError:
        return

    with entries:
        for entry in entries:
            if entry.is_file(follow_symlinks=False):
                yield entry.name, entry.stat(follow_symlinks=False)


def _digests(path: Path) -> set[str]:
    found: set[str] = set()
    rest = b""
    descriptor = os.open(path, os.O_RDONLY | _NO_FOLLOW)
    with os.fdopen(descriptor, "rb") as file:
        while chunk := file.read(_CHUNK):
            data = rest + chunk
            found.update(match.decode() for match in _HEX.findall(data))
            # 64 digits may lie across the border; whatever ends 63 bytes before it was seen whole.
            rest = data[-63:]

    return found


def _read(path: Path) -> bytes:
    descriptor = os.open(path, os.O_RDONLY | _NO_FOLLOW | getattr(os, "O_NONBLOCK", 0))
    with os.fdopen(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise FileNotFoundError(path)
        return file.read()


def _write(blobs_dir: Path, digest: str, data: bytes) -> None:
    """Write a blob unless it is there: whole or not at all, and never through a link."""
    SessionFolder(blobs_dir).ensure()
    target = blobs_dir / digest
    with contextlib.suppress(FileNotFoundError):
        found = target.lstat()
        if stat.S_ISREG(found.st_mode) and found.st_size == len(data):
            return

    temporary = blobs_dir / f".{digest[:16]}.{os.getpid()}.{secrets.token_hex(4)}"
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _NO_FOLLOW, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
        temporary.replace(target)
    except OSError:
        temporary.unlink(missing_ok=True)
        raise

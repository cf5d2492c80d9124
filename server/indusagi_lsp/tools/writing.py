"""Writing the user's files: whole or not at all, only where nothing has changed, keeping mode and line ends.

A file is looked at first; the new content is made from what was seen; and it is put in its place by a rename, only
if the file is still what was seen. All of it blocks; callers run it in a thread.
"""

from __future__ import annotations

import os
import secrets
import stat
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import msgspec

from indusagi_lsp.contract.errors import ToolFailed
from indusagi_lsp.contract.text import quoted

if TYPE_CHECKING:
    from indusagi_lsp.tools.guard import PathGuard, Spot

MAX_FILE_BYTES = 8 * 1024 * 1024
_BOM = b"\xef\xbb\xbf"


class Seen(msgspec.Struct, frozen=True):
    """A file as it was when it was looked at; `data` is None when there was none.

    `links` counts its names; `mode` holds its permission bits.
    """

    path: str
    data: bytes | None
    links: int = 1
    mode: int | None = None


class Text(msgspec.Struct, frozen=True):
    """A text file's content with line feeds alone, and what it takes to write it back as it was."""

    text: str
    bom: bool = False
    crlf: bool = False

    def encoded(self, text: str) -> bytes:
        """Another text in this file's own manner."""
        if self.crlf:
            text = text.replace("\r\n", "\n").replace("\n", "\r\n")
        return (_BOM if self.bom else b"") + text.encode("utf-8", "surrogatepass")


def look(guard: PathGuard, path: str) -> Seen:
    """See what is at a path, which may be nothing.

    Args:
        guard: of the workspace.
        path: relative to the root, or absolute below it.

    Raises:
        ToolFailed: no regular file is or could be there, or it is too large.
    """
    with guard.open_spot(path) as spot:
        if spot.status is None:
            return Seen(spot.path, None)
        return Seen(spot.path, _content(spot), spot.status.st_nlink, stat.S_IMODE(spot.status.st_mode))


def decode(seen: Seen) -> Text:
    """The text of a file that was seen; nothing there is an empty text.

    Raises:
        ToolFailed: it is no UTF-8 text.
    """
    data = seen.data or b""
    bom = data.startswith(_BOM)
    if b"\0" in data:
        msg = f"{quoted(seen.path)} is a binary file, so it cannot be edited as text."
        raise ToolFailed(msg)
    try:
        text = data.removeprefix(_BOM).decode("utf-8")
    except UnicodeDecodeError:
        msg = f"{quoted(seen.path)} is not UTF-8, so it cannot be edited without loss."
        raise ToolFailed(msg) from None
    # Only a file that has nothing but CRLF is normalised; in a mixed one every byte stays as it is.
    crlf = "\r\n" in text and text.count("\r\n") == text.count("\n")
    return Text(text.replace("\r\n", "\n") if crlf else text, bom, crlf)


def put(guard: PathGuard, seen: Seen, data: bytes, *, mode: int | None = None) -> None:
    """Give a file a new content, atomically; folders that are missing are made.

    Args:
        guard: of the workspace.
        seen: the file as it was when the content was made from it.
        data: the whole content.
        mode: its permission bits; None for those that it has, or that a new file gets.

    Raises:
        ToolFailed: it is not any more what was seen, or the disk refuses.
    """
    try:
        with guard.open_spot(seen.path, create=True) as spot:
            _require_unchanged(seen, spot)
            _replace(spot, data, mode)
    except OSError as error:
        msg = f"{quoted(seen.path)} cannot be written: {error.strerror}."
        raise ToolFailed(msg) from None


def remove(guard: PathGuard, seen: Seen) -> None:
    """Remove a file that was seen.

    Raises:
        ToolFailed: it is not any more what was seen, or the disk refuses.
    """
    try:
        with guard.open_spot(seen.path) as spot:
            _require_unchanged(seen, spot)
            os.unlink(spot.name, **_at(spot))
    except OSError as error:
        msg = f"{quoted(seen.path)} cannot be removed: {error.strerror}."
        raise ToolFailed(msg) from None


def _require_unchanged(seen: Seen, spot: Spot) -> None:
    now = None if spot.status is None else _content(spot)
    if now != seen.data or spot.path != seen.path:
        msg = f"{quoted(seen.path)} has changed since it was looked at, so nothing was written."
        raise ToolFailed(msg, hint="Read it again first.")


def _content(spot: Spot) -> bytes:
    flags = os.O_RDONLY
    for name in ("O_NOFOLLOW", "O_NONBLOCK", "O_CLOEXEC", "O_BINARY", "O_NOINHERIT"):
        flags |= getattr(os, name, 0)
    try:
        fd = os.open(spot.name, flags, **_at(spot))
    except OSError as error:
        msg = f"{quoted(spot.path)} cannot be read: {error.strerror}."
        raise ToolFailed(msg) from None
    with os.fdopen(fd, "rb") as stream:
        status = os.fstat(fd)
        if not stat.S_ISREG(status.st_mode):
            msg = f"{quoted(spot.path)} changed while it was being opened."
            raise ToolFailed(msg)
        data = stream.read(MAX_FILE_BYTES + 1)
    if len(data) > MAX_FILE_BYTES:
        msg = f"{quoted(spot.path)} has more than {MAX_FILE_BYTES:,} bytes, which is too much to edit."
        raise ToolFailed(msg)
    return data


def _replace(spot: Spot, data: bytes, mode: int | None) -> None:
    """Write beside the file, then take its place."""
    folder, name = os.path.split(spot.name) if spot.folder < 0 else ("", spot.name)
    temporary = os.path.join(folder, f".{name[:80]}.{secrets.token_hex(8)}.tmp")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
    for flag in ("O_NOFOLLOW", "O_CLOEXEC", "O_BINARY", "O_NOINHERIT"):
        flags |= getattr(os, flag, 0)
    # A new file gets what the user's umask allows; an old one keeps its mode, and is nobody's to read until it has it.
    fd = os.open(temporary, flags, 0o666 if spot.status is None and mode is None else 0o600, **_at(spot))
    try:
        with os.fdopen(fd, "wb") as stream:
            stream.write(data)
            stream.flush()
            if spot.status is not None and hasattr(os, "fchmod"):
                _keep_owner(fd, spot.status)
                mode = stat.S_IMODE(spot.status.st_mode) if mode is None else mode
            if mode is not None and hasattr(os, "fchmod"):
                os.fchmod(fd, mode)
            os.fsync(fd)
        _take_place(spot, temporary)
    except BaseException:
        with suppress(OSError):
            os.unlink(temporary, **_at(spot))
        raise


def _keep_owner(fd: int, status: os.stat_result) -> None:
    mine = os.fstat(fd)
    if (mine.st_uid, mine.st_gid) != (status.st_uid, status.st_gid):
        with suppress(PermissionError):
            os.fchown(fd, status.st_uid, status.st_gid)


def _take_place(spot: Spot, temporary: str) -> None:
    both: dict[str, Any] = {} if spot.folder < 0 else {"src_dir_fd": spot.folder, "dst_dir_fd": spot.folder}
    if spot.status is None and os.link in os.supports_dir_fd:
        # A link fails where a rename would replace what somebody else has just put there.
        try:
            os.link(temporary, spot.name, follow_symlinks=False, **both)
        except FileExistsError:
            raise
        except OSError:
            os.rename(temporary, spot.name, **both)
            return
        os.unlink(temporary, **_at(spot))
        return
    os.replace(temporary, spot.name, **both)


def _at(spot: Spot) -> dict[str, Any]:
    return {} if spot.folder < 0 else {"dir_fd": spot.folder}

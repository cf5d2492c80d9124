"""The one place that decides whether a path lies inside the workspace, and the one door to the user's files.

A path is walked component by component over directory descriptors, each opened with `O_NOFOLLOW`. A symbolic
link is read and its target walked in the same way, so a link inside the workspace works and one that leaves
it is refused, `..` included. Nothing is looked up twice: what was checked is the descriptor that is used.
Where the system has no directory descriptors (Windows), the real path is resolved, compared by identity and
checked again after opening.

Everything here blocks; callers run it in a thread.
"""

from __future__ import annotations

import errno
import os
import stat
from collections import deque
from contextlib import ExitStack, contextmanager, suppress
from typing import TYPE_CHECKING, NoReturn

import msgspec

from indusagi_lsp.contract.errors import PathOutside, ToolFailed
from indusagi_lsp.contract.text import quoted
from indusagi_lsp.tools.names import plain_name, windows_fault

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

MAX_LINKS = 40
"""Symbolic links that one path may go through, as in the kernel."""

MAX_PATH = 4096
"""Characters of a path."""

CLOSED = frozenset({".indusagi"})
"""Folders that no tool enters: sessions and memory reach a model through the engine alone."""


class OpenedFile(msgspec.Struct, frozen=True):
    """A regular file inside the workspace, open for reading; `path` is its real place, in POSIX form."""

    fd: int
    path: str
    size: int


class OpenedFolder(msgspec.Struct, frozen=True):
    """A folder inside the workspace. `handle` is what `os.scandir` takes; `path` is its real place."""

    handle: int | str
    path: str


class _Place(msgspec.Struct, frozen=True):
    """Where a walk ended: the open folder, and the name in it, or None when the path is that folder."""

    folder: int
    parts: tuple[str, ...]
    name: str | None
    status: os.stat_result


class PathGuard:
    """Opens files below one root, and nothing else.

    Args:
        root: the workspace folder, absolute.
        by_name: resolve by name instead of by descriptors; None means: where the system has no descriptors.
        closed: names of folders that stay shut, at any depth and in any spelling.
    """

    def __init__(self, root: Path, *, by_name: bool | None = None, closed: frozenset[str] = CLOSED) -> None:
        self.root = root
        self._by_name = os.open not in os.supports_dir_fd if by_name is None else by_name
        self._closed = frozenset(map(plain_name, closed))
        self._spellings = tuple({_parts(os.fspath(root)), _parts(os.path.realpath(root))})
        self._pseudo = _pseudo_devices()

    def inside(self, path: str) -> bool:
        """Whether `path` names something that exists inside the workspace, once everything is resolved."""
        try:
            with self._opened(path):
                return True
        except ToolFailed:
            return False

    def relative(self, path: str) -> str:
        """How `path` is spelled below the root, in POSIX form; whether it is there is not looked at.

        Raises:
            PathOutside: an absolute path that does not begin with the root.
        """
        below: list[str] = []
        for part in self._asked(path):
            if part == ".." and below:
                below.pop()
            else:
                below.append(part)
        return "/".join(below)

    @contextmanager
    def open_read(self, path: str) -> Iterator[OpenedFile]:
        """Open a regular file for reading.

        Args:
            path: relative to the root, or absolute below it.

        Raises:
            PathOutside: it leaves the workspace, or lies in a folder that is shut.
            ToolFailed: it is no regular file, is not there, or may not be read.
        """
        with self._opened(path) as place:
            if place.name is None or not stat.S_ISREG(place.status.st_mode):
                msg = f"{quoted(path)} is {_what(place.status.st_mode)}, so it cannot be read as a file."
                raise ToolFailed(msg)
            with ExitStack() as stack:
                flags = os.O_RDONLY | _flag(
                    "O_NOFOLLOW", "O_NONBLOCK", "O_CLOEXEC", "O_NOCTTY", "O_BINARY", "O_NOINHERIT"
                )
                fd = _attempt(path, place.name, flags, place.folder)
                stack.callback(os.close, fd)
                status = os.fstat(fd)
                if not _same(status, place.status) or not stat.S_ISREG(status.st_mode):
                    _changed(path)
                if self._by_name:
                    self._confirm(path, place.name)
                yield OpenedFile(fd, "/".join(place.parts), status.st_size)

    @contextmanager
    def open_folder(self, path: str) -> Iterator[OpenedFolder]:
        """Open a folder for listing.

        Args:
            path: relative to the root, or absolute below it; `.` is the root.

        Raises:
            PathOutside: it leaves the workspace, or lies in a folder that is shut.
            ToolFailed: it is no folder, is not there, or may not be listed.
        """
        with self._opened(path) as place:
            if not stat.S_ISDIR(place.status.st_mode):
                msg = f"{quoted(path)} is {_what(place.status.st_mode)}, not a folder."
                raise ToolFailed(msg)
            if self._by_name:
                yield OpenedFolder(place.name or os.fspath(self.root), "/".join(place.parts))
            else:
                yield OpenedFolder(place.folder, "/".join(place.parts))

    def read_bytes(self, path: str, limit: int) -> bytes:
        """The content of a small regular file.

        Args:
            path: relative to the root, or absolute below it.
            limit: bytes that it may have.

        Raises:
            ToolFailed: as `open_read`, or it is larger than `limit`.
        """
        with self.open_read(path) as opened:
            if opened.size > limit:
                msg = f"{quoted(path)} has {opened.size:,} bytes; at most {limit:,} are read here."
                raise ToolFailed(msg)
            with os.fdopen(os.dup(opened.fd), "rb") as stream:
                data = stream.read(limit + 1)
        if len(data) > limit:
            msg = f"{quoted(path)} grew beyond {limit:,} bytes while it was read."
            raise ToolFailed(msg)
        return data

    # --- the walk ---

    @contextmanager
    def _opened(self, path: str) -> Iterator[_Place]:
        parts = self._asked(path)
        if self._by_name:
            yield self._resolve(path, parts)
            return
        with ExitStack() as stack:
            yield self._walk(path, parts, stack)

    def _asked(self, path: str) -> Sequence[str]:
        """The components that a caller asked for, below the root."""
        if "\0" in path or len(path) > MAX_PATH:
            raise ToolFailed("That is not a path: it is too long or holds a NUL character.")
        if os.name == "nt":
            path = path.replace("\\", "/")
        if os.path.isabs(path):
            below = self._below_root(path)
            if below is None:
                _outside(path)
            return below
        return _parts(path)

    def _below_root(self, path: str) -> Sequence[str] | None:
        """The rest of an absolute path after the root's own name, or None."""
        parts = _parts(path)
        for spelling in self._spellings:
            if parts[: len(spelling)] == spelling:
                return parts[len(spelling) :]
        return None

    def _walk(self, path: str, parts: Sequence[str], stack: ExitStack) -> _Place:
        """Resolve `parts` over descriptors. Every folder on the way stays open until `stack` closes."""
        flags = os.O_RDONLY | _flag("O_DIRECTORY", "O_CLOEXEC")
        try:
            root = os.open(self.root, flags)
        except OSError as error:
            msg = f"The workspace folder cannot be opened: {error.strerror}."
            raise ToolFailed(msg) from None
        stack.callback(os.close, root)
        levels: list[tuple[int, str]] = [(root, "")]
        pending = deque(parts)
        links = 0
        while pending:
            part = pending.popleft()
            if part == "..":
                if len(levels) == 1:
                    _outside(path)
                levels.pop()
                continue

            folder = levels[-1][0]
            status = _status(path, part, folder)
            self._admit(path, part, status)
            if stat.S_ISLNK(status.st_mode):
                links += 1
                if links > MAX_LINKS:
                    msg = f"{quoted(path)} goes through too many symbolic links."
                    raise ToolFailed(msg)
                target = _read_link(path, part, folder)
                if target.startswith("/"):
                    below = self._below_root(target)
                    if below is None:
                        _outside(path)
                    del levels[1:]
                    pending.extendleft(reversed(below))
                else:
                    pending.extendleft(reversed(_parts(target)))
            elif stat.S_ISDIR(status.st_mode):
                fd = _attempt(path, part, flags | _flag("O_NOFOLLOW"), folder)
                stack.callback(os.close, fd)
                if not _same(os.fstat(fd), status):
                    _changed(path)
                levels.append((fd, part))
            elif pending:
                msg = f"{quoted(path)} goes through {quoted(part)}, which is {_what(status.st_mode)}."
                raise ToolFailed(msg)
            else:
                names = tuple(name for _, name in levels[1:])
                return _Place(folder, (*names, part), part, status)
        return _Place(levels[-1][0], tuple(name for _, name in levels[1:]), None, os.fstat(levels[-1][0]))

    def _admit(self, path: str, part: str, status: os.stat_result) -> None:
        """Refuse what is shut, and the system's own file systems below a workspace that holds them."""
        if self._closed and plain_name(part) in self._closed:
            msg = f"{quoted(path)} lies in {quoted(part)}, which is not for tools."
            raise PathOutside(
                msg,
                hint="Sessions and memory are read through their own operations.",
            )
        if status.st_dev in self._pseudo:
            msg = f"{quoted(path)} belongs to the system, not to the workspace."
            raise ToolFailed(msg)

    # --- where there are no directory descriptors ---

    def _resolve(self, path: str, parts: Sequence[str]) -> _Place:
        """Resolve `parts` by name. `folder` of the result is unused; `name` is the real path."""
        if os.name == "nt":
            for part in parts:
                fault = windows_fault(part)
                if fault is not None:
                    msg = f"{quoted(path)} is refused: {quoted(part)} means {fault} here."
                    raise PathOutside(msg)
        try:
            real_root = os.path.realpath(self.root, strict=True)
            real = os.path.realpath(os.path.join(real_root, *parts), strict=True)
        except (OSError, ValueError) as error:
            _fail(path, error)
        status = os.lstat(real)
        below = _below_by_identity(real, os.stat(real_root))
        if below is None:
            _outside(path)
        for part in below:
            self._admit(path, part, status)
        return _Place(-1, below, real, status)

    def _confirm(self, path: str, real: str) -> None:
        """Once open, the name must still lead where it led when it was checked."""
        try:
            if os.path.realpath(real, strict=True) != real:
                _changed(path)
        except OSError as error:
            _fail(path, error)


def _parts(path: str) -> tuple[str, ...]:
    separators = path.replace(os.sep, "/")
    return tuple(part for part in separators.split("/") if part not in ("", "."))


def _flag(*names: str) -> int:
    """Open flags by name; one that the system lacks is 0."""
    flags = 0
    for name in names:
        flags |= getattr(os, name, 0)
    return flags


def _same(one: os.stat_result, other: os.stat_result) -> bool:
    return (one.st_dev, one.st_ino) == (other.st_dev, other.st_ino)


def _status(path: str, name: str, folder: int) -> os.stat_result:
    try:
        return os.stat(name, dir_fd=folder, follow_symlinks=False)
    except (OSError, ValueError) as error:
        _fail(path, error)


def _read_link(path: str, name: str, folder: int) -> str:
    try:
        return os.readlink(name, dir_fd=folder)
    except OSError as error:
        _fail(path, error)


def _attempt(path: str, name: str, flags: int, folder: int) -> int:
    try:
        return os.open(name, flags) if folder < 0 else os.open(name, flags, dir_fd=folder)
    except OSError as error:
        _fail(path, error)


def _below_by_identity(real: str, root: os.stat_result) -> tuple[str, ...] | None:
    """The components of `real` below the folder that `root` describes, or None when it is not."""
    below: list[str] = []
    here = real
    while True:
        if _same(os.stat(here), root):
            return tuple(reversed(below))
        parent, name = os.path.split(here)
        if parent == here:
            return None
        below.append(name)
        here = parent


def _pseudo_devices() -> frozenset[int]:
    """Device numbers of the file systems that are windows into the kernel; never the one that `/` lies on."""
    found = set()
    for folder in ("/proc", "/sys", "/dev"):
        try:
            found.add(os.stat(folder).st_dev)
        except OSError:
            continue
    with suppress(OSError):
        found.discard(os.stat("/").st_dev)
    return frozenset(found)


def _what(mode: int) -> str:
    for test, name in (
        (stat.S_ISDIR, "a folder"),
        (stat.S_ISREG, "a file"),
        (stat.S_ISFIFO, "a pipe"),
        (stat.S_ISSOCK, "a socket"),
        (stat.S_ISLNK, "a symbolic link"),
    ):
        if test(mode):
            return name
    return "a device"


def _outside(path: str) -> NoReturn:
    msg = f"{quoted(path)} is outside the workspace."
    raise PathOutside(
        msg,
        hint="Give a path relative to the workspace's root folder.",
    )


def _changed(path: str) -> NoReturn:
    msg = f"{quoted(path)} changed while it was being opened."
    raise ToolFailed(msg, hint="Try again.")


def _fail(path: str, error: OSError | ValueError) -> NoReturn:
    """Say what an error of the system means for the one who asked."""
    number = error.errno if isinstance(error, OSError) else None
    if number == errno.ENOENT:
        msg = f"There is no {quoted(path)}."
        raise MissingPath(msg) from None
    if number in (errno.ELOOP, errno.ENOTDIR):
        msg = f"{quoted(path)} goes through something that is no folder, or changed meanwhile."
        raise ToolFailed(msg) from None
    if number in (errno.EACCES, errno.EPERM):
        msg = f"{quoted(path)} may not be read: permission denied."
        raise ToolFailed(msg) from None
    msg = f"{quoted(path)} cannot be opened: {getattr(error, 'strerror', None) or 'not a path'}."
    raise ToolFailed(msg) from None


class MissingPath(ToolFailed):
    """Nothing is there under that name."""

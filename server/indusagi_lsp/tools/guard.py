"""The one place that decides whether a path lies inside the workspace, and the one door to the user's files.

A path is walked component by component over directory descriptors, each opened with `O_NOFOLLOW`. A symbolic
link is read and its target walked in the same way, so a link inside the workspace works and one that leaves
it is refused, `..` included. Nothing is looked up twice: what was checked is the descriptor that is used.
Where the system has no directory descriptors (Windows), the real path is resolved, compared by identity and
checked again after opening.

Everything here blocks; callers run it in a thread.
"""

from __future__ import annotations

import os
import stat
from collections import deque
from contextlib import ExitStack, contextmanager, suppress
from functools import cached_property
from typing import TYPE_CHECKING

import msgspec

from indusagi_lsp.contract.errors import PathOutside, ToolFailed
from indusagi_lsp.contract.text import quoted
from indusagi_lsp.tools.lookups import (
    MissingPath,
    below_by_identity,
    explain,
    flags_of,
    kind_of,
    open_at,
    pseudo_devices,
    read_link,
    refuse_changed,
    refuse_outside,
    same_file,
    split,
    status_of,
)
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


class Spot(msgspec.Struct, frozen=True):
    """A place inside the workspace where a file is or could be.

    Attributes:
        folder: descriptor of the folder; negative where there are no such descriptors.
        name: the file's name in it, or its whole path where there is no descriptor.
        path: the real place below the root, in POSIX form.
        status: what is there, None when nothing is.
    """

    folder: int
    name: str
    path: str
    status: os.stat_result | None


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

    # These look at the disk, so they wait until something is looked up, in a thread.

    @cached_property
    def _spellings(self) -> tuple[tuple[str, ...], ...]:
        return tuple({split(os.fspath(self.root)), split(os.path.realpath(self.root))})

    @cached_property
    def _pseudo(self) -> frozenset[int]:
        return pseudo_devices()

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
                msg = f"{quoted(path)} is {kind_of(place.status.st_mode)}, so it cannot be read as a file."
                raise ToolFailed(msg)
            with ExitStack() as stack:
                flags = os.O_RDONLY | flags_of(
                    "O_NOFOLLOW", "O_NONBLOCK", "O_CLOEXEC", "O_NOCTTY", "O_BINARY", "O_NOINHERIT"
                )
                fd = open_at(path, place.name, flags, place.folder)
                stack.callback(os.close, fd)
                status = os.fstat(fd)
                if not same_file(status, place.status) or not stat.S_ISREG(status.st_mode):
                    refuse_changed(path)
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
                msg = f"{quoted(path)} is {kind_of(place.status.st_mode)}, not a folder."
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

    @contextmanager
    def open_spot(self, path: str, *, create: bool = False) -> Iterator[Spot]:
        """Hold the place of a file that is to be written; links on the way are followed as for reading.

        Args:
            path: relative to the root, or absolute below it.
            create: make the folders that are missing on the way.

        Raises:
            PathOutside: it leaves the workspace, or lies in a folder that is shut.
            ToolFailed: a regular file cannot be there.
        """
        parts = self._asked(path)
        absent: list[str] = []
        with ExitStack() as stack:
            place = self._resolve(path, parts, absent) if self._by_name else self._walk(path, parts, stack, absent)
            if absent:
                yield self._spot_of_new(place, absent, stack, create=create)
            elif place.name is None or not stat.S_ISREG(place.status.st_mode):
                msg = f"{quoted(path)} is {kind_of(place.status.st_mode)}, so it cannot be written as a file."
                raise ToolFailed(msg)
            else:
                yield Spot(place.folder, place.name, "/".join(place.parts), place.status)

    def _spot_of_new(self, place: _Place, absent: Sequence[str], stack: ExitStack, *, create: bool) -> Spot:
        """The place of a file that is not there yet, below an open folder."""
        where = "/".join((*place.parts, *absent))
        if self._by_name:
            folder = os.path.join(place.name or "", *absent[:-1])
            if create:
                os.makedirs(folder, exist_ok=True)
            return Spot(-1, os.path.join(folder, absent[-1]), where, None)
        fd = place.folder
        for part in absent[:-1] if create else ():
            with suppress(FileExistsError):
                os.mkdir(part, dir_fd=fd)
            fd = open_at(where, part, os.O_RDONLY | flags_of("O_DIRECTORY", "O_NOFOLLOW", "O_CLOEXEC"), fd)
            stack.callback(os.close, fd)
        return Spot(fd, absent[-1], where, None)

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
                refuse_outside(path)
            return below
        return split(path)

    def _below_root(self, path: str) -> Sequence[str] | None:
        """The rest of an absolute path after the root's own name, or None."""
        parts = split(path)
        for spelling in self._spellings:
            if parts[: len(spelling)] == spelling:
                return parts[len(spelling) :]
        return None

    def _walk(self, path: str, parts: Sequence[str], stack: ExitStack, absent: list[str] | None = None) -> _Place:
        """Resolve `parts` over descriptors. Every folder on the way stays open until `stack` closes.

        With `absent`, a path whose end is not there is no error: the walk stops at the last folder that is, and the
        names that are missing below it are put there.
        """
        flags = os.O_RDONLY | flags_of("O_DIRECTORY", "O_CLOEXEC")
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
                    refuse_outside(path)
                levels.pop()
                continue

            folder = levels[-1][0]
            try:
                status = status_of(path, part, folder)
            except MissingPath:
                if absent is None:
                    raise
                absent += self._absent(path, (part, *pending))
                break
            self._admit(path, part, status)
            if stat.S_ISLNK(status.st_mode):
                links += 1
                if links > MAX_LINKS:
                    msg = f"{quoted(path)} goes through too many symbolic links."
                    raise ToolFailed(msg)
                pending.extendleft(reversed(self._follow(path, read_link(path, part, folder), levels)))
            elif stat.S_ISDIR(status.st_mode):
                fd = open_at(path, part, flags | flags_of("O_NOFOLLOW"), folder)
                stack.callback(os.close, fd)
                if not same_file(os.fstat(fd), status):
                    refuse_changed(path)
                levels.append((fd, part))
            elif pending:
                msg = f"{quoted(path)} goes through {quoted(part)}, which is {kind_of(status.st_mode)}."
                raise ToolFailed(msg)
            else:
                names = tuple(name for _, name in levels[1:])
                return _Place(folder, (*names, part), part, status)
        return _Place(levels[-1][0], tuple(name for _, name in levels[1:]), None, os.fstat(levels[-1][0]))

    def _follow(self, path: str, target: str, levels: list[tuple[int, str]]) -> Sequence[str]:
        """The components that a link puts in its own place; an absolute one begins at the root again."""
        if not target.startswith("/"):
            return split(target)
        below = self._below_root(target)
        if below is None:
            refuse_outside(path)
        del levels[1:]
        return below

    def _absent(self, path: str, names: Sequence[str]) -> Sequence[str]:
        """Names that are to be made: they must say where they lead by themselves, and open nothing that is shut."""
        if ".." in names:
            msg = f"There is no {quoted(path)}."
            raise MissingPath(msg)
        for name in names:
            self._refuse_closed(path, name)
        return names

    def _admit(self, path: str, part: str, status: os.stat_result) -> None:
        """Refuse what is shut, and the system's own file systems below a workspace that holds them."""
        self._refuse_closed(path, part)
        if status.st_dev in self._pseudo:
            msg = f"{quoted(path)} belongs to the system, not to the workspace."
            raise ToolFailed(msg)

    def _refuse_closed(self, path: str, part: str) -> None:
        if self._closed and plain_name(part) in self._closed:
            msg = f"{quoted(path)} lies in {quoted(part)}, which is not for tools."
            raise PathOutside(
                msg,
                hint="Sessions and memory are read through their own operations.",
            )

    # --- where there are no directory descriptors ---

    def _resolve(self, path: str, parts: Sequence[str], absent: list[str] | None = None) -> _Place:
        """Resolve `parts` by name. `folder` of the result is unused; `name` is the real path."""
        if os.name == "nt":
            for part in parts:
                fault = windows_fault(part)
                if fault is not None:
                    msg = f"{quoted(path)} is refused: {quoted(part)} means {fault} here."
                    raise PathOutside(msg)
        try:
            real_root = os.path.realpath(self.root, strict=True)
            there = len(parts)
            while absent is not None and there and not os.path.lexists(os.path.join(real_root, *parts[:there])):
                there -= 1
            real = os.path.realpath(os.path.join(real_root, *parts[:there]), strict=True)
        except (OSError, ValueError) as error:
            explain(path, error)
        status = os.lstat(real)
        below = below_by_identity(real, os.stat(real_root))
        if below is None:
            refuse_outside(path)
        for part in below:
            self._admit(path, part, status)
        if absent is not None and there < len(parts):
            absent += self._absent(path, parts[there:])
        return _Place(-1, below, real, status)

    def _confirm(self, path: str, real: str) -> None:
        """Once open, the name must still lead where it led when it was checked."""
        try:
            if os.path.realpath(real, strict=True) != real:
                refuse_changed(path)
        except OSError as error:
            explain(path, error)

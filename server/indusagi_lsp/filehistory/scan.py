"""What a command changes is found by looking at the workspace before and after it.

A file counts as unchanged while size, times, inode and mode are; one that was changed within the last seconds is read
again, since the clock of the file system may be too coarse to tell. Ignored files are not looked at, links not
followed. The scan is bounded in files, in bytes kept and in time; what it could not keep is said. All of it blocks.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Callable
from hashlib import sha256

import msgspec

from indusagi_lsp.contract.errors import ToolFailed
from indusagi_lsp.filehistory.records import ABSENT, FileChange, State
from indusagi_lsp.tools import PathGuard
from indusagi_lsp.tools.ignore import IgnoreRules

_SETTLED_NS = 2_000_000_000
"""A file system may count in steps as long as this; a younger change may hide another one."""

_TICK_NS = 20_000_000
"""The kernel's own clock may be behind by so much."""


class Limits(msgspec.Struct, frozen=True):
    """How much a scan may look at and keep: files, bytes of one file, bytes of all new contents, seconds."""

    files: int = 20_000
    file_bytes: int = 2 * 1024 * 1024
    total_bytes: int = 128 * 1024 * 1024
    seconds: float = 5.0
    depth: int = 64


class Seen(msgspec.Struct, frozen=True, array_like=True):
    """A regular file as a scan saw it; `sha` is None where its content was not kept."""

    size: int
    mtime: int
    ctime: int
    inode: int
    mode: int
    sha: str | None
    settled: bool

    @property
    def state(self) -> State:
        """It as a state."""
        if self.sha is None:
            return State(None, self.mode, f"{self.size}:{self.mtime}:{self.inode}")
        return State(self.sha, self.mode)


class Snapshot(msgspec.Struct, frozen=True):
    """The files of a workspace at a time (nanoseconds); `whole` is False where not all could be looked at."""

    at: int
    files: dict[str, Seen]
    whole: bool = True


class Found(msgspec.Struct, frozen=True):
    """What lies between two snapshots; `unkept` counts files whose old content was not kept."""

    changes: dict[str, FileChange]
    unkept: int


class Scanner:
    """Takes snapshots.

    Args:
        guard: of the workspace.
        keep: keeps a content, and gives its digest.
        limits: how much may be looked at.
    """

    def __init__(self, guard: PathGuard, keep: Callable[[bytes], str], limits: Limits | None = None) -> None:
        self._guard = guard
        self._keep = keep
        self._limits = limits or Limits()

    def scan(self, previous: Snapshot | None) -> Snapshot:
        """Look at everything; a file that is as it was in `previous` is not read again.

        Raises:
            PersistenceFault: a content cannot be kept.
        """
        limits = self._limits
        began = time.time_ns()
        deadline = time.monotonic() + limits.seconds
        known = previous.files if previous is not None else {}
        files: dict[str, Seen] = {}
        room = limits.total_bytes
        whole = True
        pending: list[tuple[str, IgnoreRules, int]] = [("", IgnoreRules(), 0)]
        while pending:
            folder, above, depth = pending.pop()
            try:
                found = self._entries(folder)
            except (ToolFailed, OSError):
                whole = False
                continue
            rules = above.entering(self._guard, folder, frozenset(name for name, _ in found))
            prefix = f"{folder}/" if folder else ""
            for name, status in found:
                path = prefix + name
                is_folder = stat.S_ISDIR(status.st_mode)
                if not (is_folder or stat.S_ISREG(status.st_mode)) or rules.hides(path, is_folder=is_folder):
                    continue
                if is_folder:
                    if depth < limits.depth:
                        pending.append((path, rules, depth + 1))
                    else:
                        whole = False
                    continue
                if len(files) >= limits.files or time.monotonic() > 2 * limits.seconds + deadline:
                    return Snapshot(began, files, whole=False)
                seen = self._look(path, status, known.get(path), began, room if time.monotonic() < deadline else 0)
                if seen.sha is not None and (path not in known or known[path].sha != seen.sha):
                    room -= seen.size
                files[path] = seen
        return Snapshot(began, files, whole)

    def look(self, path: str) -> Seen | None:
        """See one file anew; None where no regular file is."""
        try:
            with self._guard.open_read(path) as opened:
                status = os.fstat(opened.fd)
        except (ToolFailed, OSError):
            return None
        return self._look(path, status, None, time.time_ns(), self._limits.file_bytes)

    def _entries(self, folder: str) -> list[tuple[str, os.stat_result]]:
        found = []
        with self._guard.open_folder(folder or ".") as opened, os.scandir(opened.handle) as entries:
            for entry in entries:
                try:
                    found.append((entry.name, entry.stat(follow_symlinks=False)))
                except OSError:
                    continue  # it is gone already
                if len(found) > self._limits.files:
                    break
        return found

    def _look(self, path: str, status: os.stat_result, known: Seen | None, began: int, room: int) -> Seen:
        mode = stat.S_IMODE(status.st_mode)
        mark = (status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino, mode)
        fits = status.st_size <= min(self._limits.file_bytes, room)
        same = known is not None and known.settled and msgspec.structs.astuple(known)[:5] == mark
        # One that there was no room for last time may be kept now.
        if known is not None and same and (known.sha is not None or not fits):
            return known
        settled = max(status.st_mtime_ns, status.st_ctime_ns) < began - _SETTLED_NS
        return Seen(*mark, self._read(path) if fits else None, settled)

    def _read(self, path: str) -> str | None:
        try:
            data = self._guard.read_bytes(path, self._limits.file_bytes)
        except (ToolFailed, OSError):
            return None
        return self._keep(data)


def digest(data: bytes) -> str:
    """The name of a content."""
    return sha256(data).hexdigest()


def compare(old: Snapshot, new: Snapshot, gone: Callable[[str], bool]) -> Found:
    """What changed between two snapshots.

    Args:
        old: before.
        new: after.
        gone: whether really nothing is at a path; a file may also be out of sight because an ignore file changed.
    """
    changes: dict[str, FileChange] = {}
    unkept = 0
    for path, seen in new.files.items():
        before = old.files.get(path)
        if before is None:
            # A file that only came into sight was there before; nobody may remove it as one that was made.
            if seen.ctime >= old.at - _TICK_NS:
                changes[path] = FileChange(ABSENT, None, seen.state)
            elif not old.whole:
                unkept += 1
        elif not _equal(before, seen):
            changes[path] = FileChange(before.state, None, seen.state)
    for path, before in old.files.items():
        if path not in new.files and gone(path):
            changes[path] = FileChange(before.state, None, ABSENT)
    unkept += sum(not change.before.restorable for change in changes.values())
    return Found(changes, unkept)


def _equal(one: Seen, other: Seen) -> bool:
    if one.sha is not None and other.sha is not None:
        return (one.sha, one.mode) == (other.sha, other.mode)
    return (one.size, one.mtime, one.inode, one.mode) == (other.size, other.mtime, other.inode, other.mode)

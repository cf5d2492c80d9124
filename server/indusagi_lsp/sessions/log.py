"""The append-only file of one session, on the system's side: write, roll back, repair, sync.

Everything here blocks, so it is called in threads, one call at a time per log. What is appended is whole lines, handed
to the system in one write, under a lock that processes share.
"""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Callable
from typing import BinaryIO

import msgspec
import orjson

from indusagi_lsp.contract.errors import PersistenceFault
from indusagi_lsp.sessions.folder import LOCKS, SessionFolder, open_private
from indusagi_lsp.sessions.locking import LockFile
from indusagi_lsp.sessions.oscalls import OsCalls, read_exactly, write_all
from indusagi_lsp.sessions.records import Record, parse_line

MARK_BYTES = 64
_KEEP_UNSYNCED = 32 << 20
_PIECE = 1 << 20


class Written(msgspec.Struct, frozen=True):
    """What an append did: where our bytes begin, and what others had added before them since we last looked."""

    offset: int
    news: bytes = b""
    news_offset: int = 0


class Loaded(msgspec.Struct, frozen=True):
    """How a file was read: its status, up to where, and the bytes before that place."""

    status: os.stat_result
    end: int
    mark: bytes


class FileChanged(Exception):
    """The file is not the one that we knew: it shrank, was replaced, or is gone. Nothing was written."""


class SessionDeleted(Exception):
    """The session was deleted by a window of ours; it must not come back."""


class SessionLog:
    """One session's file.

    Attributes:
        end: up to where the file's content is known to the owner of this log, in bytes.
    """

    def __init__(self, folder: SessionFolder, session_id: str, *, calls: OsCalls, now_ms: Callable[[], int]) -> None:
        self._folder = folder
        self._id = session_id
        self._calls = calls
        self._now_ms = now_ms
        self.path = folder.path(session_id)
        self.lock = LockFile(folder.lock_path(session_id), lambda: folder.ensure(LOCKS))
        self.end = 0
        self._fd = -1
        self._identity: tuple[int, int] | None = None
        self._mark_bytes = b""
        self._checked = False
        self._clean_end = 0
        self._synced = 0
        self._new_name = False
        self._unsynced: list[tuple[int, bytes]] = []
        self._unsynced_bytes = 0
        self._failed: OSError | None = None

    # --- looking ----------------------------------------------------------------------------------

    def adopt(self, status: os.stat_result | None, end: int, mark: bytes = b"") -> None:
        """Take the file with `status`, read up to `end`, as the one that we know; None: there is no file yet.

        `mark` is what stands before `end`: if that changes, the file was cut and has grown again since.
        """
        self.close()
        self._mark_bytes = mark
        self._identity = None if status is None else (status.st_dev, status.st_ino)
        self.end = end
        self._checked = False
        self._clean_end = -1
        # It is another file: what we had not synced of the old one has no place in it.
        self._synced = end
        self._unsynced = []
        self._unsynced_bytes = 0
        self._new_name = False
        self._failed = None

    def peek(self) -> tuple[bytes, int] | None:
        """What others have added since we last looked (bytes, offset), None if nothing.

        Raises:
            FileChanged: the file is another one, or shorter.
            OSError: it cannot be read.
        """
        size = self._size()
        if size is None:
            if self._identity is None:
                return None
            raise FileChanged
        if size == self.end:
            return None
        fd = open_private(self.path, os.O_RDONLY)
        try:
            return self._news(fd, size), self.end
        finally:
            os.close(fd)

    def known(self) -> Loaded | None:
        """The file as it is, and up to where it is known; None if it is another one now."""
        try:
            status = os.stat(self.path, follow_symlinks=False)
        except OSError:
            return None
        same = self._identity == (status.st_dev, status.st_ino)
        return Loaded(status, self.end, self._mark_bytes) if same else None

    def advance(self, end: int, news: bytes) -> None:
        """Take the file as known up to `end`; `news` are bytes that begin where it was known up to before."""
        self._mark_bytes = (self._mark_bytes + news[: end - self.end])[-MARK_BYTES:]
        self.end = end

    def _news(self, fd: int, size: int) -> bytes:
        mark = self._mark_bytes
        read = read_exactly(self._calls, fd, size - self.end + len(mark), self.end - len(mark))
        if not read.startswith(mark):
            raise FileChanged
        return read[len(mark) :]

    @property
    def dirty(self) -> bool:
        """Whether something was written that may not last through a power loss yet."""
        return self._synced < self.end or self._new_name or self._failed is not None

    # --- writing ----------------------------------------------------------------------------------

    def append(self, data: bytes, *, create: bool = True) -> Written:
        """Append whole lines at the end of the file, in one write.

        Args:
            data: lines, each with its line end.
            create: make the file if there is none.

        Raises:
            FileChanged: the file is another one now; look at it first.
            SessionDeleted: the session was deleted.
            PersistenceFault: the disk refused; the file is as it was.
        """
        try:
            self.lock.acquire()
            try:
                return self._append(data, create=create)
            finally:
                self.lock.release()
        except OSError as error:
            raise self._fault("written", error) from error

    def _append(self, data: bytes, *, create: bool) -> Written:
        size = self._size()
        if size is None:
            if self._identity is not None or not create:
                raise FileChanged
            if os.path.getsize(self._folder.lock_path(self._id)):
                raise SessionDeleted
            size = 0
        if self._fd < 0:
            self._open()

        news, news_offset = b"", self.end
        if size > self.end:
            news = self._news(self._fd, size)
        lines = data
        if size != self._clean_end or not self._checked:
            size, lines = self._repair(size, data)
        self._write(lines, size)
        self.end = self._clean_end = size + len(lines)
        self._mark_bytes = lines[-MARK_BYTES:]
        self._keep(size, lines)
        if news:
            news = news[: max(size - news_offset, 0)]
        return Written(self.end - len(data), news, news_offset)

    def _write(self, data: bytes, size: int) -> None:
        try:
            count = self._calls.write(self._fd, data)
        except OSError:
            self._roll_back(size)
            raise
        if count != len(data):
            self._roll_back(size)
            raise OSError(errno.ENOSPC, f"only {count} of {len(data)} bytes were taken")

    def _roll_back(self, size: int) -> None:
        """Cut away what a failed write left behind. If even that fails, the next append repairs it."""
        self._clean_end = -1
        self._checked = False
        with contextlib.suppress(OSError):
            if os.fstat(self._fd).st_size > size:
                self._calls.truncate(self._fd, size)

    def _repair(self, size: int, data: bytes) -> tuple[int, bytes]:
        """See that the file ends with a line end, so that our record does not weld to a torn one.

        Returns:
            The file's size now, and what to write there.
        """
        self._checked = True
        if size == 0:
            return 0, data

        tail = self._last_line(size)
        if not tail:
            return size, data
        start = size - len(tail)
        records = [item for item in parse_line(tail, start) if isinstance(item, Record)]
        keep = records[-1].offset + records[-1].length if records else start
        torn = tail[keep - start :]
        if torn.strip(b"\x00\r\n\t "):
            name = self._quarantine(torn)
        elif torn:
            name = ""
        else:
            return size, b"\n" + data

        self._calls.truncate(self._fd, keep)
        note = {"type": "repair", "at": self._now_ms(), "bytes": len(torn), "reason": "torn tail"}
        if name:
            note["kept"] = name
        line = orjson.dumps(note) + b"\n"
        return keep, (b"\n" if keep > start else b"") + line + data

    def _last_line(self, size: int) -> bytes:
        """What stands after the last line end."""
        reach = 1
        while True:
            reach = min(reach, size)
            tail = read_exactly(self._calls, self._fd, reach, size - reach)
            cut = tail.rfind(b"\n")
            if cut >= 0 or reach == size:
                return tail[cut + 1 :]
            reach = max(reach * 8, 4_096)

    def _quarantine(self, torn: bytes) -> str:
        """Keep removed bytes in a file of their own, `<sessionId>.broken-<n>`."""
        for number in range(1, 100_000):
            name = f"{self._id}.broken-{number}"
            try:
                fd = open_private(os.path.join(self._folder.root, name), os.O_WRONLY | os.O_CREAT | os.O_EXCL)
            except FileExistsError:
                continue

            try:
                write_all(self._calls, fd, torn)
                self._calls.datasync(fd)
            except BaseException:
                with contextlib.suppress(OSError):
                    os.unlink(os.path.join(self._folder.root, name))
                raise
            finally:
                os.close(fd)
            return name
        raise OSError(errno.EEXIST, "too many broken pieces are kept already")

    # --- lasting ----------------------------------------------------------------------------------

    @property
    def unsynced_bytes(self) -> int:
        """How much was appended since the last sync, as far as it is kept."""
        return self._unsynced_bytes

    def begin_sync(self) -> tuple[int, int]:
        """A descriptor for `datasync`, and up to where it will make the file last.

        Raises:
            PersistenceFault: there is no open file to sync.
        """
        try:
            return os.dup(self._fd), self.end
        except OSError as error:
            raise self._fault("synced", error) from error

    def datasync(self, fd: int) -> OSError | None:
        """Make what was appended before `begin_sync` last through a power loss. Appends may go on meanwhile.

        Returns:
            None, or why the system refused. It is not tried again then, since the system may have dropped the pages and
            would say that all is well: until a `rewrite` has succeeded the answer stays the same.
        """
        try:
            if self._failed is not None:
                return self._failed
            self._calls.datasync(fd)
            if self._new_name:
                self._folder.sync()
                self._new_name = False
        except OSError as error:
            self._failed = error
            return error
        finally:
            os.close(fd)
        return None

    def synced(self, end: int) -> None:
        """Note that the file lasts up to `end`."""
        self._synced = max(self._synced, end)
        self._unsynced = [(offset, data) for offset, data in self._unsynced if offset >= end]
        self._unsynced_bytes = sum(len(data) for _, data in self._unsynced)

    def rewrite(self, cause: OSError) -> str:
        """After a failed sync, write the file anew, with what the disk may have dropped, in the old one's place.

        Returns:
            A text for the user.

        Raises:
            PersistenceFault: that failed too.
        """
        temporary = f"{self.path}.{os.getpid()}.new"
        try:
            with self.lock.held():
                size = self._size()
                content = bytearray(read_exactly(self._calls, self._fd, size or 0, 0))
                for offset, data in self._unsynced:
                    content[offset : offset + len(data)] = data
                fd = open_private(temporary, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_TRUNC)
                try:
                    write_all(self._calls, fd, content)
                    self._calls.datasync(fd)
                    self._calls.replace(temporary, self.path)
                    self._folder.sync()
                except BaseException:
                    os.close(fd)
                    with contextlib.suppress(OSError):
                        os.unlink(temporary)
                    raise
                os.close(self._fd)
                self._fd = fd
                status = os.fstat(fd)
                self._identity = (status.st_dev, status.st_ino)
        except (OSError, FileChanged) as error:
            raise self._fault("synced", cause) from error

        # What another window has added meanwhile is in the new file too, but not taken in yet: `end` stays.
        self._new_name = False
        self._failed = None
        self.synced(len(content))
        return f"The disk failed to keep {self.path} ({cause.strerror or cause}); it was written anew to another place."

    def put_back(self, content: BinaryIO) -> bool:
        """Where the file is gone, write it anew, byte for byte.

        Args:
            content: what it held, for instance through a descriptor that was open before.

        Returns:
            Whether it was gone and is there again. A file that stands in its place is left alone.

        Raises:
            SessionDeleted: a window of ours deleted the session.
            PersistenceFault: the disk refused.
        """
        temporary = f"{self.path}.{os.getpid()}.new"
        try:
            self._folder.check()
            with self.lock.held():
                if os.path.lexists(self.path):
                    return False
                if os.path.getsize(self._folder.lock_path(self._id)):
                    raise SessionDeleted
                fd = open_private(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
                try:
                    while piece := content.read(_PIECE):
                        write_all(self._calls, fd, piece)
                    self._calls.datasync(fd)
                    self._calls.replace(temporary, self.path)
                    self._folder.sync()
                except BaseException:
                    with contextlib.suppress(OSError):
                        os.unlink(temporary)
                    raise
                finally:
                    os.close(fd)
        except OSError as error:
            raise self._fault("written", error) from error
        return True

    def _keep(self, offset: int, data: bytes) -> None:
        """Keep what is not synced yet, in case the sync fails."""
        self._unsynced.append((offset, data))
        self._unsynced_bytes += len(data)
        while self._unsynced_bytes > _KEEP_UNSYNCED and len(self._unsynced) > 1:
            self._unsynced_bytes -= len(self._unsynced.pop(0)[1])

    # --- making an end ----------------------------------------------------------------------------

    def delete(self) -> None:
        """Remove the file, and leave a mark in the lock file, so that no window brings the session back.

        Raises:
            FileNotFoundError: there is no file.
            OSError: it cannot be removed.
        """
        self._folder.check()
        with self.lock.held():
            os.unlink(self.path)
            self._mark(b"deleted\n")
        self.close()

    def revive(self) -> None:
        """Take the mark of a deleted session of this name away, because a new one is made."""
        with self.lock.held():
            self._mark(b"")
        self.close()

    def _mark(self, text: bytes) -> None:
        fd = open_private(self._folder.lock_path(self._id), os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        try:
            if text:
                os.write(fd, text)
        finally:
            os.close(fd)

    # --- descriptors ------------------------------------------------------------------------------

    def close(self) -> None:
        """Give the descriptors back. The log can be used again afterwards."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1
        self.lock.close()

    def _size(self) -> int | None:
        """The size of the file that we know, None if there is none.

        Raises:
            FileChanged: another file stands in its place, or it shrank.
        """
        try:
            status = os.lstat(self.path)
        except (FileNotFoundError, NotADirectoryError):
            return None
        if self._identity is None:
            if self.end:
                raise FileChanged
            self._identity = (status.st_dev, status.st_ino)
        elif self._identity != (status.st_dev, status.st_ino) or status.st_size < self.end:
            raise FileChanged
        return status.st_size

    def _open(self) -> None:
        self._folder.check()
        self._fd = open_private(self.path, os.O_RDWR | os.O_APPEND | os.O_CREAT)
        status = os.fstat(self._fd)
        if self._identity is None:
            self._new_name = True
            self._identity = (status.st_dev, status.st_ino)
        elif self._identity != (status.st_dev, status.st_ino):
            self.close()
            raise FileChanged

    def _fault(self, what: str, error: OSError) -> PersistenceFault:
        return PersistenceFault(
            f"Session {self._id} could not be {what}: {error.strerror or error}.",
            hint="Until the server ends, what was said is kept in memory and written with the next turn. "
            "Free some space or check the folder.",
        )

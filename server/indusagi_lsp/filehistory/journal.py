"""The journal of file changes: append-only lines of JSON that only this user could have written.

`.indusagi/` lies in the workspace, so whoever wrote the workspace could have put a journal there that has us remove or
overwrite the user's files. Each line carries a mac with the user's key; a line without a valid one counts for nothing.
A change's `begin` is on disk before the change happens, its `end` after it.
"""

from __future__ import annotations

import hmac
import os
import threading
from collections.abc import Callable, Mapping
from typing import Any

from indusagi_lsp.contract import jsontext
from indusagi_lsp.contract.errors import PersistenceFault
from indusagi_lsp.filehistory.records import Entry, Watched, note_end, read_begin, read_watch
from indusagi_lsp.sessions.folder import SessionFolder, open_private
from indusagi_lsp.sessions.locking import LockFile
from indusagi_lsp.sessions.oscalls import OsCalls, read_exactly, write_all

JOURNAL = "journal.jsonl"
LOCK = ".lock"


class Journal:
    """The journal of one workspace.

    Args:
        folder: where it lies.
        seal: makes a mac with the user's key.
    """

    def __init__(self, folder: SessionFolder, seal: Callable[[bytes], bytes], *, calls: OsCalls | None = None) -> None:
        self._folder = folder
        self._seal = seal
        self._calls = calls or OsCalls()
        self._path = os.path.join(folder.root, JOURNAL)
        self._lock = LockFile(os.path.join(folder.root, LOCK), folder.ensure)
        self._guarded = threading.RLock()
        self._reset()

    def append(self, record: Mapping[str, Any]) -> None:
        """Write a record; when this returns, a power loss cannot take it.

        Raises:
            PersistenceFault: the disk refused; nothing of it counts.
        """
        text = jsontext.dumps(dict(record))
        line = jsontext.dumps({**record, "mac": self._seal(text).decode("ascii")}) + b"\n"
        with self._guarded:
            try:
                self._folder.ensure()
                with self._lock.held():
                    self._append(line)
            except OSError as error:
                msg = f"The journal of file changes cannot be written: {error.strerror or error}."
                raise PersistenceFault(msg, hint="Make the workspace writable, or free some space.") from error

    def entries(self) -> list[Entry]:
        """Every change, the oldest first.

        Raises:
            PersistenceFault: the journal is there and cannot be read.
        """
        with self._guarded:
            self._read_news()
            return list(self._entries.values())

    def watched(self) -> list[Watched]:
        """The commands of which it is not known how they ended; else as `entries`."""
        with self._guarded:
            self._read_news()
            return list(self._watched.values())

    @property
    def foreign(self) -> int:
        """How many lines were passed over because they are not this user's, or are damaged."""
        return self._foreign

    def close(self) -> None:
        """Give the lock's descriptor back."""
        self._lock.close()

    def _append(self, line: bytes) -> None:
        fd = open_private(self._path, os.O_RDWR | os.O_CREAT | os.O_APPEND)
        try:
            size = os.fstat(fd).st_size
            # A line that a killed process left unfinished must not swallow ours.
            if size and read_exactly(self._calls, fd, 1, size - 1) != b"\n":
                line = b"\n" + line
            try:
                write_all(self._calls, fd, line)
                self._calls.datasync(fd)
            except OSError:
                self._calls.truncate(fd, size)
                raise
        finally:
            os.close(fd)
        if not size:
            self._folder.sync()

    def _reset(self) -> None:
        self._file: tuple[int, int] | None = None
        self._end = 0
        self._foreign = 0
        self._entries: dict[str, Entry] = {}
        self._watched: dict[str, Watched] = {}

    def _read_news(self) -> None:
        try:
            self._folder.check()
            fd = open_private(self._path, os.O_RDONLY)
        except FileNotFoundError:
            self._reset()
            return
        except OSError as error:
            msg = f"The journal of file changes cannot be read: {error.strerror or error}."
            raise PersistenceFault(msg) from error
        try:
            status = os.fstat(fd)
            identity = (status.st_dev, status.st_ino)
            if identity != self._file or status.st_size < self._end:
                self._reset()
                self._file = identity
            data = read_exactly(self._calls, fd, status.st_size - self._end, self._end)
        finally:
            os.close(fd)
        whole = data.rfind(b"\n") + 1
        self._end += whole
        for line in data[:whole].split(b"\n"):
            if line:
                self._take(line)

    def _take(self, line: bytes) -> None:
        try:
            record = jsontext.loads(line)
            mac = record.pop("mac")
            if not hmac.compare_digest(self._seal(jsontext.dumps(record)), mac.encode("ascii")):
                raise ValueError("not ours")
            self._take_record(record)
        except (ValueError, TypeError, KeyError, IndexError, AttributeError):
            self._foreign += 1

    def _take_record(self, record: dict[str, Any]) -> None:
        match record["type"]:
            case "begin":
                self._watched.pop(record["id"], None)
                self._entries.setdefault(record["id"], read_begin(record, len(self._entries)))
            case "end":
                note_end(self._entries[record["id"]], record["files"])
            case "watch":
                watched = read_watch(record)
                self._watched[watched.id] = watched
            case "unwatch":
                self._watched.pop(record["id"], None)
            case _:
                pass

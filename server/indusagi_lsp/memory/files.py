"""The seed's store: one readable JSON file per entry, in a folder that people can look into.

A file is named by the hash of realm and identifier, so that any identifier is safe and no two collide. A write goes
to a temporary file that is synced and then takes the old one's place, under a lock that other processes obey. Files
that cannot be read are skipped with a notice, never removed.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import secrets
import stat
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from indusagi_lsp.contract.errors import PersistenceFault
from indusagi_lsp.contract.jsontext import dumps, loads
from indusagi_lsp.memory.entry import MemoryEntry, entry_from_json, entry_to_json, identifier_bytes
from indusagi_lsp.memory.realms import InMemoryRanking
from indusagi_lsp.memory.store import Change, realm_name

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from filelock import BaseFileLock

MAX_FILE = 16 * 1024 * 1024
"""Larger files are skipped: no entry of ours is that long."""

LOCK_TIMEOUT = 30.0
"""Seconds to wait for another process that writes."""

_SUFFIX = ".json"
_NOFOLLOW = getattr(os, "O_NOFOLLOW", 0)
_NONBLOCK = getattr(os, "O_NONBLOCK", 0)
_CLOEXEC = getattr(os, "O_CLOEXEC", 0)
_BINARY = getattr(os, "O_BINARY", 0)


class _Known(msgspec.Struct):
    """What was read from a file: its stamp, and where the entry went (None for a file that was skipped)."""

    stamp: tuple[int, int, int]
    realm: str | None
    identifier: str | None


class FileMemoryStore(InMemoryRanking):
    """A `MemoryStore` that keeps each entry as a JSON file.

    Storing and reading one entry costs the same however many there are; a search looks at every file's stamp, and is
    right for some thousands of entries.

    Args:
        root: the folder, made at the first write (0700; files 0600).
        options: see `BaseStore`.
    """

    def __init__(self, root: Path | str, **options: Any) -> None:
        super().__init__(**options)
        self._root = Path(root)
        self._file_lock: BaseFileLock | None = None
        self._tidied = False
        self._files: dict[str, _Known] = {}

    # --- primitives ---------------------------------------------------------------------------------------

    def _load(self, realm: str, identifier: str) -> MemoryEntry | None:
        name = file_name(realm, identifier)
        try:
            data, _ = self._read(name)
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as error:
            self._skipped(name, error)
            return None
        return self._decode(name, data)

    def _transact(self, realms: Sequence[str], identifier: str, change: Change) -> MemoryEntry | None:
        with self._guard, self._locked():
            place, old = next(
                ((realm, entry) for realm in realms if (entry := self._load(realm, identifier)) is not None),
                (realms[0], None),
            )
            new = change(None if old is None else self._checked(old))
            target = place if new is None else self.realm(new.scope)
            if new is not None:
                self._write(target, new)
            if old is not None and (new is None or target != place):
                self._remove(place, identifier)
            return new

    @contextlib.contextmanager
    def _exclusively(self, realm: str) -> Iterator[None]:
        with self._guard, self._locked():
            yield

    # --- the folder ---------------------------------------------------------------------------------------

    def _refresh(self, realms: Sequence[str]) -> None:
        del realms  # one folder holds them all
        seen = set()
        for name, stamp in self._listing():
            seen.add(name)
            known = self._files.get(name)
            if known is None or known.stamp != stamp:
                self._reload(name, stamp)
        for name in self._files.keys() - seen:
            self._drop(name)

    def _listing(self) -> Iterator[tuple[str, tuple[int, int, int]]]:
        try:
            self._check_root()
            with os.scandir(self._root) as items:
                for item in items:
                    if not item.name.endswith(_SUFFIX):
                        continue
                    with contextlib.suppress(FileNotFoundError):
                        yield item.name, _stamp(item.stat(follow_symlinks=False))
        except FileNotFoundError:
            return
        except OSError as error:
            msg = f"The memory folder cannot be read: {error.strerror}."
            raise PersistenceFault(msg) from error

    def _reload(self, name: str, stamp: tuple[int, int, int]) -> None:
        self._drop(name)
        entry = None
        realm = ""
        try:
            data, stamp = self._read(name)
            entry = self._decode(name, data)
        except FileNotFoundError:
            return
        except (OSError, ValueError) as error:
            self._skipped(name, error)
        if entry is None:
            self._files[name] = _Known(stamp, None, None)
            return
        realm = realm_name(entry.scope, self._workspace_of(data), entry.agent)
        self._realm(realm).put(entry)
        self._files[name] = _Known(stamp, realm, entry.identifier)

    def _drop(self, name: str) -> None:
        known = self._files.pop(name, None)
        if known is not None and known.realm is not None and known.identifier is not None:
            self._realm(known.realm).remove(known.identifier)

    @staticmethod
    def _workspace_of(data: bytes) -> str:
        workspace = loads(data).get("workspace", "")
        return workspace if isinstance(workspace, str) else ""

    def _decode(self, name: str, data: bytes) -> MemoryEntry | None:
        """The entry in a file; None, with a notice, where it is none, or one that lies under another's name."""
        try:
            raw = loads(data)
            entry = entry_from_json(raw)
            workspace = raw.get("workspace", "")
            if name != file_name(realm_name(entry.scope, workspace, entry.agent), entry.identifier):
                raise ValueError("the file's name is not that of its entry")
        except (ValueError, TypeError) as error:
            self._skipped(name, error)
            return None
        return self._checked(entry)

    def _skipped(self, name: str, error: Exception) -> None:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        self._notify("memory_skipped", f"The memory file {name} was skipped: {reason}.")

    def _read(self, name: str) -> tuple[bytes, tuple[int, int, int]]:
        """The bytes of a plain file of the folder, and its stamp; links, pipes and devices are refused."""
        flags = os.O_RDONLY | _NOFOLLOW | _NONBLOCK | _CLOEXEC | _BINARY
        handle = os.open(self._root / name, flags)
        with os.fdopen(handle, "rb") as file:
            status = os.fstat(handle)
            if not stat.S_ISREG(status.st_mode):
                raise ValueError("it is not a plain file")
            if status.st_size > MAX_FILE:
                raise ValueError("it is too large")
            return file.read(MAX_FILE), _stamp(status)

    def _write(self, realm: str, entry: MemoryEntry) -> None:
        name = file_name(realm, entry.identifier)
        record = entry_to_json(entry)
        if self._workspace:
            record["workspace"] = self._workspace
        data = _readable(record)
        temporary = self._root / f".{name}.{secrets.token_hex(8)}.tmp"
        try:
            handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _NOFOLLOW | _CLOEXEC | _BINARY, 0o600)
            try:
                with os.fdopen(handle, "wb") as file:
                    file.write(data)
                    file.flush()
                    os.fsync(handle)
                    stamp = _stamp(os.fstat(handle))
                os.replace(temporary, self._root / name)
            except BaseException:
                with contextlib.suppress(OSError):
                    temporary.unlink()
                raise
            self._sync_folder()
        except OSError as error:
            msg = f"The memory could not be written: {error.strerror}."
            raise PersistenceFault(msg) from error
        self._drop(name)
        self._realm(realm).put(entry)
        self._files[name] = _Known(stamp, realm, entry.identifier)

    def _remove(self, realm: str, identifier: str) -> None:
        name = file_name(realm, identifier)
        try:
            (self._root / name).unlink(missing_ok=True)
            self._sync_folder()
        except OSError as error:
            msg = f"The memory could not be removed: {error.strerror}."
            raise PersistenceFault(msg) from error
        self._drop(name)

    def _sync_folder(self) -> None:
        """Make renames and removals durable; Windows has no such call and does not need it."""
        if os.name == "nt":
            return
        handle = os.open(self._root, os.O_RDONLY | _CLOEXEC)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        import filelock

        try:
            self._check_root()
            self._root.mkdir(mode=0o700, parents=True, exist_ok=True)
            if self._file_lock is None:
                os.chmod(self._root, 0o700)
                self._file_lock = filelock.FileLock(
                    self._root / ".lock", timeout=LOCK_TIMEOUT, mode=0o600, thread_local=False
                )
            self._file_lock.acquire(poll_interval=0.002)
        except filelock.Timeout:
            raise PersistenceFault(
                "Another process has kept the memory folder locked for too long.",
                hint="Close it, then try again.",
            ) from None
        except OSError as error:
            msg = f"The memory folder cannot be used: {error.strerror}."
            raise PersistenceFault(msg) from error
        try:
            if not self._tidied:
                self._tidy()
            yield
        finally:
            self._file_lock.release()

    def _tidy(self) -> None:
        """Remove temporary files of writers that were killed; nobody writes while the lock is ours."""
        for path in self._root.glob(".*.tmp"):
            # Anybody may have put anything here under such a name; what cannot be removed is in nobody's way.
            with contextlib.suppress(OSError):
                path.unlink()
        self._tidied = True

    def _check_root(self) -> None:
        """Refuse a folder that is a link: whoever wrote the workspace could make us write elsewhere."""
        for folder in (self._root.parent, self._root) if self._root.parent.name == ".indusagi" else (self._root,):
            if folder.is_symlink():
                msg = f"{folder.name} is a link, so nothing is stored in it."
                raise PersistenceFault(msg)


def file_name(realm: str, identifier: str) -> str:
    """The name of the file of an entry."""
    return hashlib.sha256(realm.encode("ascii") + b"\n" + identifier_bytes(identifier)).hexdigest() + _SUFFIX


def _stamp(status: os.stat_result) -> tuple[int, int, int]:
    return status.st_mtime_ns, status.st_size, status.st_ino


def _readable(record: dict[str, Any]) -> bytes:
    """JSON with a line per field, for people and for diff."""
    lines = [dumps(name) + b": " + dumps(value) for name, value in record.items()]
    return b"{\n  " + b",\n  ".join(lines) + b"\n}\n"

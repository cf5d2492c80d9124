"""Derived files: what was worked out from the sessions, kept beside them, and believed only if this user wrote it.

Each is sealed with the user's key, since whoever wrote the workspace could have written it too. Any of them may be
deleted at any time; where one cannot be kept, the sessions are read again.
"""

from __future__ import annotations

import contextlib
import hmac
import os
import secrets

import msgspec

from indusagi_lsp.contract.errors import PersistenceFault
from indusagi_lsp.sessions.folder import CACHE, SessionFolder, open_private
from indusagi_lsp.sessions.records import open_regular
from indusagi_lsp.sessions.signing import Signer

_SEAL_BYTES = 64


class Stamp(msgspec.Struct, frozen=True, array_like=True):
    """By what a file is known to be the one that was read, unchanged. Times in nanoseconds."""

    size: int
    mtime: int
    ctime: int
    inode: int

    @classmethod
    def of(cls, status: os.stat_result) -> Stamp:
        """The stamp of a file with that status."""
        return cls(status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino)


class DerivedFiles:
    """The derived files of one folder. Without a `signer` nothing can be told, so every one of them is believed."""

    def __init__(self, folder: SessionFolder, signer: Signer | None) -> None:
        self._folder = folder
        self._signer = signer

    def read(self, name: str) -> bytes | None:
        """What was kept under `name`; None if there is nothing, or if it is not of this user."""
        try:
            with open_regular(self._folder.cache_path(name)) as file:
                text = file.read()
        except OSError:
            return None
        seal, body = text[:_SEAL_BYTES], text[_SEAL_BYTES:]
        return body if hmac.compare_digest(seal, self._seal(body)) else None

    def keep(self, name: str, body: bytes) -> None:
        """Keep `body` under `name`, if that is possible."""
        path = self._folder.cache_path(name)
        temporary = f"{path}.{os.getpid()}.{secrets.token_hex(4)}"
        with contextlib.suppress(OSError, PersistenceFault):
            self._folder.ensure(CACHE)
            fd = open_private(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
            try:
                with os.fdopen(fd, "wb") as file:
                    file.write(self._seal(body) + body)
                os.replace(temporary, path)
            except OSError:
                os.unlink(temporary)
                raise

    def drop(self, name: str) -> None:
        """Remove what was kept under `name`."""
        with contextlib.suppress(OSError):
            os.unlink(self._folder.cache_path(name))

    def names(self) -> list[str]:
        """The names under which something is kept."""
        try:
            return os.listdir(self._folder.cache_path(""))
        except OSError:
            return []

    def _seal(self, body: bytes) -> bytes:
        return self._signer.seal(body) if self._signer is not None else b"0" * _SEAL_BYTES

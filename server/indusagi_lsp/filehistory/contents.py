"""The old contents of files, each under the SHA-256 of its bytes in `.indusagi/files/`. All of it blocks."""

from __future__ import annotations

import os
import re
import secrets
import stat
import time
from collections.abc import Iterable
from contextlib import suppress
from hashlib import sha256

import msgspec

from indusagi_lsp.contract.errors import PersistenceFault
from indusagi_lsp.sessions.folder import SessionFolder, open_private

YOUNG_SECONDS = 3600.0
"""A content younger than this is never collected: the record that names it may not be on disk yet."""

_DIGEST = re.compile(r"[0-9a-f]{64}")
_TEMPORARY = re.compile(r"\.[0-9a-f]{16}\.[0-9a-f]{16}")


class Collected(msgspec.Struct, frozen=True):
    """What a collection removed: contents, their bytes; and how many stay."""

    removed: int = 0
    bytes: int = 0
    kept: int = 0


class Contents:
    """Keeps contents, and gives them back as they were or not at all.

    Args:
        folder: where they lie; made private, and never reached through a link.
    """

    def __init__(self, folder: SessionFolder) -> None:
        self._folder = folder

    def keep(self, data: bytes, *, lasting: bool = True) -> str:
        """Keep a content.

        Args:
            data: the content.
            lasting: return only once a power loss cannot take it; and look whether what is there already is right.

        Returns:
            Its SHA-256 in hex.

        Raises:
            PersistenceFault: the disk refused.
        """
        digest = sha256(data).hexdigest()
        try:
            self._folder.ensure()
            if not self._holds(digest, len(data), checked=lasting):
                self._write(digest, data, lasting=lasting)
        except OSError as error:
            msg = f"The old content of a file cannot be kept: {error.strerror or error}."
            raise PersistenceFault(msg, hint="Make the workspace writable, or free some space.") from error
        return digest

    def get(self, digest: str) -> bytes | None:
        """A content that was kept; None where it is gone, or is not what its name promises."""
        try:
            self._folder.check()
            fd = open_private(self._folder.root / digest, os.O_RDONLY)
        except (OSError, PersistenceFault):
            return None
        with os.fdopen(fd, "rb") as file:
            data = file.read()
        return data if sha256(data).hexdigest() == digest else None

    def collect(self, named: Iterable[str], *, dry_run: bool = False, now: float | None = None) -> Collected:
        """Remove the contents that nothing names, and what a killed process left half written.

        Args:
            named: the digests that are needed.
            dry_run: only tell.
            now: seconds since the epoch, for the age of contents.

        Raises:
            PersistenceFault: one cannot be removed.
        """
        needed = frozenset(named)
        when = time.time() if now is None else now
        removed = size = kept = 0
        self._folder.check()
        try:
            with os.scandir(self._folder.root) as found:
                entries = list(found)
        except FileNotFoundError:
            return Collected()
        for entry in entries:
            ours = _DIGEST.fullmatch(entry.name) or _TEMPORARY.fullmatch(entry.name)
            if not ours or not entry.is_file(follow_symlinks=False):
                continue
            status = entry.stat(follow_symlinks=False)
            if entry.name in needed or when - status.st_mtime < YOUNG_SECONDS:
                kept += 1
                continue
            try:
                if not dry_run:
                    os.unlink(entry.path)
            except OSError as error:
                msg = f"The old content {entry.name} cannot be removed: {error.strerror}."
                raise PersistenceFault(msg) from error
            removed += 1
            size += status.st_size
        return Collected(removed, size, kept)

    def _holds(self, digest: str, size: int, *, checked: bool) -> bool:
        path = self._folder.root / digest
        try:
            status = os.lstat(path)
        except FileNotFoundError:
            return False
        if not stat.S_ISREG(status.st_mode) or status.st_size != size or (checked and self.get(digest) is None):
            return False
        # It counts as young again, so that nobody collects it before it is named.
        os.utime(path)
        return True

    def _write(self, digest: str, data: bytes, *, lasting: bool) -> None:
        temporary = self._folder.root / f".{digest[:16]}.{secrets.token_hex(8)}"
        fd = open_private(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
        try:
            with os.fdopen(fd, "wb") as file:
                file.write(data)
                file.flush()
                if lasting:
                    os.fsync(fd)
            os.replace(temporary, self._folder.root / digest)
            if lasting:
                self._folder.sync()
        except BaseException:
            with suppress(OSError):
                os.unlink(temporary)
            raise

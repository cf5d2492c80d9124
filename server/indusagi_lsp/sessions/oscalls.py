"""The calls by which the log changes a file, in one place, so that a test can make any of them fail."""

from __future__ import annotations

import errno
import os


class OsCalls:
    """The operating system's own calls."""

    def write(self, fd: int, data: bytes) -> int:
        """Write at the end of an append-only descriptor; the number of bytes that were taken."""
        return os.write(fd, data)

    def truncate(self, fd: int, size: int) -> None:
        """Cut a file."""
        os.ftruncate(fd, size)

    def datasync(self, fd: int) -> None:
        """Make the file's content last through a power loss."""
        if hasattr(os, "fdatasync"):
            os.fdatasync(fd)
        else:
            os.fsync(fd)

    def replace(self, source: str, target: str) -> None:
        """Put one file in the place of another, at once."""
        os.replace(source, target)

    def read(self, fd: int, size: int, offset: int) -> bytes:
        """Read at a place, without moving the descriptor's own."""
        if hasattr(os, "pread"):
            return os.pread(fd, size, offset)
        os.lseek(fd, offset, os.SEEK_SET)
        return os.read(fd, size)


def read_exactly(calls: OsCalls, fd: int, size: int, offset: int) -> bytes:
    """Read `size` bytes, or what there is of them."""
    parts: list[bytes] = []
    while size > 0:
        part = calls.read(fd, min(size, 1 << 26), offset)
        if not part:
            break
        parts.append(part)
        size -= len(part)
        offset += len(part)
    return parts[0] if len(parts) == 1 else b"".join(parts)


def write_all(calls: OsCalls, fd: int, data: bytes | bytearray) -> None:
    """Write `data`, in as many calls as it takes.

    Raises:
        OSError: a call failed, or took nothing.
    """
    rest = memoryview(data)
    while rest:
        count = calls.write(fd, bytes(rest))
        if count <= 0:
            raise OSError(errno.ENOSPC, "nothing of it was taken")
        rest = rest[count:]

"""Linux's own watches: told of a change at once, and costing nothing while nothing happens.

A library that works everywhere looks at its queue a hundred times a second to be as quick. Python has no call for
this, so it is made through the C library; the numbers are those of `sys/inotify.h`.
"""

from __future__ import annotations

import asyncio
import ctypes
import os
import struct
from collections.abc import AsyncGenerator, Sequence
from contextlib import suppress

_MODIFY = 0x2
_MOVED_FROM = 0x40
_MOVED_TO = 0x80
_CREATE = 0x100
_DELETE = 0x200
_DELETE_SELF = 0x400
_MOVE_SELF = 0x800
_OVERFLOW = 0x4000
_ONLY_FOLDERS = 0x0100_0000

_NAMES = _MOVED_FROM | _MOVED_TO | _CREATE | _DELETE | _DELETE_SELF | _MOVE_SELF | _ONLY_FOLDERS
_EVENT = struct.Struct("iIII")
_READ = 64 << 10


class FolderEvents:
    """Watches folders, but not those below them.

    Args of the constructor, which blocks: `folders` are watched for names that come and go, `written` is the one of
    them of whose files every write is told too. Used once; `changes` gives back what is held.

    Raises:
        OSError: the system gives no watches (any more), or a folder is gone.
    """

    def __init__(self, folders: Sequence[str], written: str) -> None:
        library = ctypes.CDLL(None, use_errno=True)
        self._folders: dict[int, str] = {}
        self._paths: set[str] = set()
        self._lost = False
        self._woken = asyncio.Event()
        self._fd = library.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        if self._fd < 0:
            raise _failure()
        for folder in folders:
            kinds = _NAMES | _MODIFY if folder == written else _NAMES
            watch = library.inotify_add_watch(self._fd, os.fsencode(folder), kinds)
            if watch < 0:
                error = _failure()
                self.close()
                raise error
            self._folders[watch] = folder

    def close(self) -> None:
        """Watch no more."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    async def changes(self, joined: float, patience: float) -> AsyncGenerator[set[str], None]:
        """The paths that changed; the path of a watched folder itself where that one came or went.

        Args:
            joined: how many seconds are waited for what comes together with a change.
            patience: after how many seconds without a change an empty set is given. One is also given where the system
                could not keep pace, so that changes were lost.
        """
        loop = asyncio.get_running_loop()
        loop.add_reader(self._fd, self._take)
        try:
            while True:
                with suppress(TimeoutError):
                    async with asyncio.timeout(patience):
                        await self._woken.wait()
                    await asyncio.sleep(joined)
                self._woken.clear()
                paths, self._paths = self._paths, set()
                lost, self._lost = self._lost, False
                yield set() if lost else paths
        finally:
            loop.remove_reader(self._fd)
            self.close()

    def _take(self) -> None:
        """Read what the system has for us, without waiting."""
        with suppress(BlockingIOError):
            data = os.read(self._fd, _READ)
            at = 0
            while at < len(data):
                watch, kinds, _, length = _EVENT.unpack_from(data, at)
                at += _EVENT.size + length
                name = data[at - length : at].rstrip(b"\0")
                folder = self._folders.get(watch)
                if kinds & _OVERFLOW:
                    self._lost = True
                elif folder is not None:
                    self._paths.add(os.path.join(folder, os.fsdecode(name)) if name else folder)
            self._woken.set()


def _failure() -> OSError:
    number = ctypes.get_errno()
    return OSError(number, os.strerror(number))

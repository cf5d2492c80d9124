"""The lock that processes share: one writer per session at a time, on a file beside the session.

On POSIX this is `flock` on a descriptor that is kept, since opening the file for each append would cost more than the
append; it excludes, and is excluded by, the `filelock` library on the same file. Elsewhere `filelock` does it.
"""

from __future__ import annotations

import contextlib
import errno
import os
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

from indusagi_lsp.contract.errors import PersistenceFault
from indusagi_lsp.sessions.folder import open_private

if sys.platform != "win32":
    import fcntl

    _TRY = fcntl.LOCK_EX | fcntl.LOCK_NB

WAIT_SECONDS = 10.0
_NO_LOCKS = frozenset({errno.ENOLCK, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL})


class LockFile:
    """An inter-process lock. One thread uses it at a time.

    Attributes:
        supported: False once the file system turned out to know no locks; then we go on without.
    """

    def __init__(self, path: str, ensure: Callable[[], None], *, wait: float = WAIT_SECONDS) -> None:
        """`ensure` makes the folder of `path`; `wait` is how many seconds another holder is waited for."""
        self._path = path
        self._ensure = ensure
        self._wait = wait
        self._fd = -1
        self._other: Any = None
        self.supported = True

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Hold the lock.

        Raises:
            PersistenceFault: another process holds it for longer than the wait.
            OSError: the lock file cannot be made.
        """
        self.acquire()
        try:
            yield
        finally:
            self.release()

    def close(self) -> None:
        """Give the descriptor back."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    if sys.platform == "win32":

        def acquire(self) -> None:
            """Take the lock."""
            from filelock import FileLock, Timeout

            self._ensure()
            self._other = self._other or FileLock(self._path, timeout=self._wait)
            try:
                self._other.acquire()
            except Timeout:
                raise self._busy() from None

        def release(self) -> None:
            """Let the lock go."""
            self._other.release()

    else:

        def acquire(self) -> None:
            """Take the lock."""
            while True:
                if self._fd < 0:
                    self._fd = self._open()
                try:
                    fcntl.flock(self._fd, _TRY)
                except BlockingIOError:
                    self._wait_for(lambda: fcntl.flock(self._fd, _TRY))
                except OSError as error:
                    if error.errno not in _NO_LOCKS:
                        raise
                    self.supported = False
                    return

                if os.fstat(self._fd).st_nlink:
                    return
                # Somebody deleted the file, so whoever comes next locks another one.
                self.close()

        def release(self) -> None:
            """Let the lock go."""
            if self.supported and self._fd >= 0:
                fcntl.flock(self._fd, fcntl.LOCK_UN)

    def _open(self) -> int:
        base = os.O_RDWR | os.O_CREAT
        try:
            return open_private(self._path, base)
        except (FileNotFoundError, NotADirectoryError):
            self._ensure()
            return open_private(self._path, base)

    def _wait_for(self, attempt: Callable[[], None]) -> None:
        deadline = time.monotonic() + self._wait
        pause = 0.000_2
        while True:
            time.sleep(pause)
            try:
                attempt()
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise self._busy() from None
                pause = min(pause * 1.5, 0.01)
            else:
                return

    def _busy(self) -> PersistenceFault:
        return PersistenceFault(
            f"Another process has held the lock {self._path} for {self._wait:g} seconds.",
            hint="Close other windows on this session, or end the process that hangs.",
        )

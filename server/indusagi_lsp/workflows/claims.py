"""One execution, one process: a lock that is let go when its holder dies, however it dies."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from indusagi_lsp.conductor.uninterrupted import uninterrupted
from indusagi_lsp.contract.errors import InvalidState, PersistenceFault

if TYPE_CHECKING:
    from filelock import BaseFileLock

GUARD_SECONDS = 10.0
"""Nobody has the guard for longer than it takes to try a lock, so this is only reached where the disk hangs."""


class Claims:
    """The locks of the executions of this user.

    Whether an execution is held can only be seen by trying its lock. So that such a look never makes another process
    believe that the execution goes on, locks are tried by one at a time: by whoever has the guard.

    Args:
        folder: where their files are, outside of every workspace; made when needed.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    @asynccontextmanager
    async def hold(self, execution_id: str) -> AsyncIterator[None]:
        """Hold an execution while it runs.

        Raises:
            InvalidState: another process has it.
            PersistenceFault: the folder cannot be written.
        """
        lock = await asyncio.to_thread(_file_lock, self._path(execution_id))
        try:
            await uninterrupted(asyncio.to_thread(self._take, lock, execution_id))
            yield
        finally:
            await uninterrupted(asyncio.to_thread(lock.release))

    def ask_to_cancel(self, execution_id: str) -> bool:
        """Ask the process that runs the execution to cancel it; whether there is one. Blocks.

        Raises:
            PersistenceFault: the folder cannot be written.
        """
        if not self.held(execution_id):
            return False
        try:
            self._wish(execution_id).touch(mode=0o600)
        except OSError as error:
            message = f"The wish to cancel could not be left: {error.strerror or error}."
            raise PersistenceFault(message, hint=f"Make {self._folder} writable.") from error
        return True

    def cancel_wanted(self, execution_id: str) -> bool:
        """Whether another process has asked for it. Blocks."""
        return self._wish(execution_id).exists()

    def held(self, execution_id: str) -> bool:
        """Whether some process runs the execution now. Blocks."""
        path = self._path(execution_id)
        if not path.exists():
            return False
        from filelock import Timeout

        try:
            with self._guard(), _file_lock(path):
                return False
        except (Timeout, OSError):
            return True

    def _take(self, lock: BaseFileLock, execution_id: str) -> None:
        from filelock import Timeout

        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            with self._guard():
                lock.acquire()
            self._wish(execution_id).unlink(missing_ok=True)
        except Timeout:
            message = f"The execution {execution_id} goes on in another process."
            raise InvalidState(message, hint="Wait for its end, or cancel it.") from None
        except OSError as error:
            message = f"The execution could not be locked: {error.strerror or error}."
            raise PersistenceFault(message, hint=f"Make {self._folder} writable.") from error

    def _guard(self) -> BaseFileLock:
        return _file_lock(self._folder / "guard.lock", GUARD_SECONDS)

    def _path(self, execution_id: str) -> Path:
        return self._folder / f"{hashlib.sha256(execution_id.encode()).hexdigest()[:32]}.lock"

    def _wish(self, execution_id: str) -> Path:
        return self._path(execution_id).with_suffix(".cancel")


def _file_lock(path: Path, seconds: float = 0) -> BaseFileLock:
    """A lock that may be let go by another thread than the one that took it."""
    from filelock import FileLock

    return FileLock(path, timeout=seconds, mode=0o600, thread_local=False)

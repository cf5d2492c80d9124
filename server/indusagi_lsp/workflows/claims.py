"""One execution, one process: a lock that is let go when its holder dies, however it dies."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from indusagi_lsp.contract.errors import InvalidState, PersistenceFault


class Claims:
    """The locks of the executions of this user.

    Args:
        folder: where their files are, outside of every workspace; made when needed.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    @contextmanager
    def hold(self, execution_id: str) -> Iterator[None]:
        """Hold an execution while it runs.

        Raises:
            InvalidState: another process has it.
            PersistenceFault: the folder cannot be written.
        """
        from filelock import FileLock, Timeout

        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            lock = FileLock(self._path(execution_id), timeout=0, mode=0o600)
            lock.acquire()
        except Timeout:
            message = f"The execution {execution_id} goes on in another process."
            raise InvalidState(message, hint="Wait for its end, or cancel it.") from None
        except OSError as error:
            message = f"The execution could not be locked: {error.strerror or error}."
            raise PersistenceFault(message, hint=f"Make {self._folder} writable.") from error
        self._wish(execution_id).unlink(missing_ok=True)
        try:
            yield
        finally:
            lock.release()

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
        from filelock import FileLock, Timeout

        path = self._path(execution_id)
        if not path.exists():
            return False
        try:
            with FileLock(path, timeout=0, mode=0o600):
                return False
        except (Timeout, OSError):
            return True

    def _path(self, execution_id: str) -> Path:
        return self._folder / f"{hashlib.sha256(execution_id.encode()).hexdigest()[:32]}.lock"

    def _wish(self, execution_id: str) -> Path:
        return self._path(execution_id).with_suffix(".cancel")

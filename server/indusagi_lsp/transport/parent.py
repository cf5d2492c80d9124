"""Notice that the editor is gone, also when something else keeps our input open."""

from __future__ import annotations

import logging
import os
import select
import sys
import threading
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

logger = logging.getLogger(__name__)

POLL_SECONDS = 2.0


def exists(pid: int) -> bool:
    """Whether `pid` is a live process that we can see.

    Args:
        pid: what a client said; it may belong to another pid namespace, in which case there is no such
            process here.

    Returns:
        False for our own pid, for nonsense, and for what is not there.
    """
    if pid <= 0 or pid == os.getpid() or pid > 1 << 31:
        return False
    if sys.platform == "win32":
        # `os.kill(pid, 0)` would send Ctrl-C there.
        return _windows_handle(pid) is not None
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True


def watch(pid: int, gone: Callable[[], None]) -> bool:
    """Call `gone` from a thread of its own once `pid` has ended.

    A thread, not the event loop, so that the end is seen while the loop is blocked.

    Args:
        pid: the editor's process.
        gone: what to do then.

    Returns:
        Whether it is watched: a pid that is not there at start belongs to another pid namespace, and is not.
    """
    if not exists(pid):
        logger.info("process %d is not visible here; its end is not watched", pid)
        return False

    def run() -> None:
        wait_for_end(pid)
        gone()

    threading.Thread(target=run, name="parent-watch", daemon=True).start()
    return True


def wait_for_end(pid: int) -> None:
    """Return once `pid` has ended: at once on Linux and Windows, within `POLL_SECONDS` elsewhere."""
    if sys.platform == "win32":
        _windows_wait(pid)
        return
    if sys.platform == "linux":
        try:
            fd = os.pidfd_open(pid)
        except ProcessLookupError:
            return
        except OSError:
            logger.debug("no pidfd for process %d", pid)
        else:
            poll = select.poll()
            poll.register(fd, select.POLLIN)
            poll.poll()
            os.close(fd)
            return
    while exists(pid):
        time.sleep(POLL_SECONDS)


if sys.platform == "win32":  # pragma: no cover

    def _windows_handle(pid: int) -> int | None:
        """A handle of a running process that can be waited for, or None."""
        import ctypes

        synchronize = 0x00100000
        handle: int = ctypes.windll.kernel32.OpenProcess(synchronize, 0, pid)
        return handle or None

    def _windows_wait(pid: int) -> None:
        import ctypes

        handle = _windows_handle(pid)
        if handle is not None:
            ctypes.windll.kernel32.WaitForSingleObject(handle, -1)
            ctypes.windll.kernel32.CloseHandle(handle)

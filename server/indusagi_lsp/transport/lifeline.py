"""The last resort of every way to end: a timer that ends the process although something hangs."""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

ENDING_SECONDS = 2.5
SHUTDOWN_SECONDS = 1.8


class Lifeline:
    """Ends the process after a time, unless it is disarmed. The nearest end counts.

    Args:
        end: ends the process at once with an exit code; injected for tests.
    """

    def __init__(self, end: Callable[[int], object] = os._exit) -> None:
        self._end = end
        self._timers: dict[str, threading.Timer] = {}
        self._lock = threading.Lock()

    def arm(self, reason: str, seconds: float, code: int) -> None:
        """End in `seconds` with `code`; a reason that is armed already is left as it is."""
        with self._lock:
            if reason in self._timers:
                return
            timer = threading.Timer(seconds, self._end, (code,))
            timer.daemon = True
            self._timers[reason] = timer
            timer.start()

    def disarm(self, reason: str) -> None:
        """Take back what `arm` promised for `reason`."""
        with self._lock:
            timer = self._timers.pop(reason, None)
        if timer is not None:
            timer.cancel()

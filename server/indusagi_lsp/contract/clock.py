"""Time and ids as injected values, so that every test is deterministic."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable
from typing import Protocol, TypeAlias

NewId: TypeAlias = Callable[[], str]
"""Makes a fresh id: ASCII letters, digits and `-` only."""


class Clock(Protocol):
    """The time, as every layer sees it."""

    def now_ms(self) -> int:
        """Wall-clock time: milliseconds since the epoch."""
        ...

    def monotonic(self) -> float:
        """Seconds on a clock that never goes back."""
        ...


class SystemClock:
    """The machine's own clock."""

    def now_ms(self) -> int:
        """Wall-clock time: milliseconds since the epoch."""
        return time.time_ns() // 1_000_000

    def monotonic(self) -> float:
        """Seconds on a clock that never goes back."""
        return time.monotonic()


def new_uuid() -> str:
    """A random id of 32 hex digits."""
    return uuid.uuid4().hex

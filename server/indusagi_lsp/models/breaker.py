"""A circuit breaker per provider: a provider that fails again and again is left alone for a while.

Five failures within 60 s open it. 30 s later one call may probe; if that succeeds the circuit closes, else it
stays open for another 30 s. It is shared by all sessions, so that fifty of them together do not make a storm.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from indusagi_lsp.contract.errors import ModelError

if TYPE_CHECKING:
    from indusagi_lsp.contract.clock import Clock


class CircuitBreaker:
    """Counts the failures of one provider.

    Args:
        label: the provider as people know it.
        clock: gives the monotonic time.
        failures: how many failures open the circuit.
        within: the span in which they count, in seconds.
        rest: how long it stays open before one call may probe, in seconds.
    """

    def __init__(
        self, label: str, clock: Clock, *, failures: int = 5, within: float = 60.0, rest: float = 30.0
    ) -> None:
        self._label = label
        self._clock = clock
        self._limit = failures
        self._within = within
        self._rest = rest
        self._failed: deque[float] = deque(maxlen=failures)
        self._opened: float | None = None
        self._probing = False

    @property
    def open(self) -> bool:
        """Whether calls are refused."""
        return self._opened is not None

    def admit(self) -> None:
        """Ask for one call. Every call that was let in ends in exactly one of the three methods below.

        Raises:
            ModelError: the circuit is open; retryable, with the seconds until a probe is let through.
        """
        if self._opened is None:
            return
        left = self._opened + self._rest - self._clock.monotonic()
        if left > 0 or self._probing:
            seconds = max(1, round(left))
            message = f"{self._label} failed {self._limit} times in a row, so it is not called for the moment."
            raise ModelError(
                message,
                hint=f"Try again in {seconds} s, or choose another model.",
                retryable=True,
                retry_after=float(seconds),
            )
        self._probing = True

    def succeeded(self) -> None:
        """The provider answered, be it with a refusal: it is alive."""
        self._failed.clear()
        self._opened = None
        self._probing = False

    def failed(self) -> None:
        """The provider could not be reached, failed, was silent for too long, or gave no sense."""
        now = self._clock.monotonic()
        self._failed.append(now)
        if self._probing or (len(self._failed) == self._limit and now - self._failed[0] <= self._within):
            self._opened = now
        self._probing = False

    def dropped(self) -> None:
        """The call was given up by the caller, or never left this machine: it says nothing about the provider."""
        self._probing = False

"""The one retry policy of the house: which failures are tried again, when, and how often.

Libraries' own retries are off. Only a call of which nothing was shown yet is ever repeated.
"""

from __future__ import annotations

import math
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from collections.abc import Mapping

    from indusagi_lsp.contract.errors import ModelError


class RetryPolicy(msgspec.Struct, frozen=True):
    """How patient we are.

    Attributes:
        attempts: calls in all, the first one included.
        base: seconds before the second call; each further wait is twice as long.
        cap: the longest wait of our own, in seconds.
        longest_ask: the longest wait that a provider may ask for, in seconds. A longer one ends the call at
            once: the person is told, and not left waiting.
    """

    attempts: int = 5
    base: float = 1.0
    cap: float = 30.0
    longest_ask: float = 60.0

    def delay(self, error: ModelError, attempt: int, luck: float) -> float | None:
        """How long to wait before the next call.

        Args:
            error: why the call failed.
            attempt: how many calls were made, counted from 1.
            luck: a random number in [0, 1): calls that failed together do not come back together.

        Returns:
            Seconds, never less than what the provider asked for; None if it is not to be called again.
        """
        if not error.retryable or attempt >= self.attempts:
            return None
        asked = error.retry_after
        if asked is not None and asked > self.longest_ask:
            return None
        own: float = min(self.cap, self.base * 2 ** (attempt - 1)) * (0.5 + luck / 2)
        return own if asked is None else max(asked + own * luck / 2, own)


def parse_retry_after(headers: Mapping[str, str], now_ms: int) -> float | None:
    """Read how long a provider asks to wait.

    Args:
        headers: the response's headers, names in lower case.
        now_ms: the time, in milliseconds since the epoch; a date in the header is compared with it.

    Returns:
        Seconds from now, at least 0; None where there is no such header, or where it makes no sense (a
        negative number, infinity, words).
    """
    milliseconds = _number(headers.get("retry-after-ms"))
    if milliseconds is not None:
        return milliseconds / 1000
    raw = headers.get("retry-after")
    if raw is None:
        return None
    seconds = _number(raw)
    return seconds if seconds is not None else _until(raw, now_ms)


def _number(raw: str | None) -> float | None:
    try:
        value = float(raw) if raw is not None else math.nan
    except ValueError:
        return None
    return value if math.isfinite(value) and value >= 0 else None


def _until(raw: str, now_ms: int) -> float | None:
    try:
        moment = parsedate_to_datetime(raw)
        seconds = moment.timestamp() - now_ms / 1000
    except (ValueError, TypeError, OverflowError, OSError):
        return None
    return max(0.0, seconds)

"""What all benchmarks share: alternating rounds, medians of ratios, and the shape of a result."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable

import msgspec


class Measured(msgspec.Struct, frozen=True):
    """One result: the median ratio, the lowest and the highest of its rounds, and what the figure stands for."""

    name: str
    value: float
    low: float
    high: float
    note: str = ""

    @classmethod
    def of(cls, name: str, ratios: list[float], note: str = "") -> Measured:
        """The median of `ratios`, with the first and the last quarter as spread."""
        ordered = sorted(ratios)
        quarter = len(ordered) // 4
        return cls(name, statistics.median(ordered), ordered[quarter], ordered[-1 - quarter], note)

    @classmethod
    def skipped(cls, name: str, why: str) -> Measured:
        """A benchmark that cannot run here: its value is not a number, and `why` is shown."""
        return cls(name, math.nan, math.nan, math.nan, f"left out: {why}")


def ratios(ours: Callable[[], float], baseline: Callable[[], float], rounds: int) -> list[float]:
    """Measure two sides in turn and compare within each round.

    Args:
        ours: does our work once and returns its cost (any unit).
        baseline: does the other side's work once and returns its cost in the same unit.
        rounds: how often; the order of the two changes from round to round.

    Returns:
        `ours / baseline` of each round.
    """
    found: list[float] = []
    for number in range(rounds):
        if number % 2:
            base, own = baseline(), ours()
        else:
            own, base = ours(), baseline()
        found.append(own / base)
    return found


def cpu(work: Callable[[], object]) -> float:
    """CPU seconds of this process, all threads, that `work` takes."""
    start = time.process_time()
    work()
    return time.process_time() - start

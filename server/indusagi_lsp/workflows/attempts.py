"""Trying a step again: the house's retry policy and circuit breaker, applied to steps."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import TypeAlias, TypeVar

from indusagi_lsp.contract.clock import Clock
from indusagi_lsp.contract.errors import ModelError
from indusagi_lsp.models.breaker import CircuitBreaker
from indusagi_lsp.models.retry import RetryPolicy
from indusagi_lsp.workflows.definition import Step

T = TypeVar("T")
Sleep: TypeAlias = Callable[[float], Awaitable[None]]


class StepFailed(Exception):
    """A step did not do what it should.

    Attributes:
        message: why.
        unknown: whether it may have done its work all the same; such a step is tried again only if it is idempotent.
        final: it is not to be tried again, whatever the retry says.
        session: the session of a prompt, where there is one.
        attempts: how often it was tried; set once it is given up.
    """

    def __init__(self, message: str, *, unknown: bool = False, final: bool = False, session: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.unknown = unknown
        self.final = final
        self.session = session
        self.attempts = 0


class Attempts:
    """Tries steps. The breakers are shared by all executions, since what they stand for is.

    Args:
        clock: for the breakers.
        sleep: waits so many seconds.
        luck: a number in [0, 1), so that steps that failed together do not come back together.
    """

    def __init__(
        self, clock: Clock, *, sleep: Sleep = asyncio.sleep, luck: Callable[[], float] = random.random
    ) -> None:
        self._clock = clock
        self._sleep = sleep
        self._luck = luck
        self._breakers: dict[str, CircuitBreaker] = {}

    async def run(
        self,
        step: Step,
        label: str,
        once: Callable[[], Awaitable[T]],
        *,
        idempotent: bool,
        waiting: Callable[[int, float, str], None],
    ) -> tuple[T, int]:
        """Try a step until it goes well or its retry is used up.

        Args:
            step: says how often, and names the breaker.
            label: the step, for people; the name of a breaker that has none.
            once: one attempt.
            idempotent: whether an attempt of unknown outcome may be repeated.
            waiting: told before each wait: the attempts so far, the seconds, and why.

        Returns:
            What the attempt gave, and how many there were.

        Raises:
            StepFailed: the last failure.
        """
        policy = RetryPolicy(step.retry.attempts, step.retry.base, step.retry.cap, max(60.0, step.retry.cap))
        breaker = self._breaker(step, label)
        attempt = 0
        while True:
            attempt += 1
            error: ModelError
            try:
                return await _guarded(breaker, once), attempt
            except StepFailed as failed:
                failed.attempts = attempt
                if failed.final or (failed.unknown and not idempotent):
                    raise
                failure, error = failed, ModelError(failed.message, retryable=True)
            except ModelError as refused:
                seconds = refused.retry_after or 0.0
                failure = StepFailed(f"{label} has failed so often that it is left alone for {seconds:.0f} s.")
                failure.attempts = attempt
                error = refused
            delay = policy.delay(error, attempt, self._luck())
            if delay is None:
                raise failure
            waiting(attempt, delay, failure.message)
            await self._sleep(delay)

    def _breaker(self, step: Step, label: str) -> CircuitBreaker | None:
        wanted = step.breaker
        if wanted is None:
            return None
        name = wanted.name or label
        if name not in self._breakers:
            self._breakers[name] = CircuitBreaker(
                name, self._clock, failures=wanted.failures, within=wanted.within, rest=wanted.rest
            )
        return self._breakers[name]


async def _guarded(breaker: CircuitBreaker | None, once: Callable[[], Awaitable[T]]) -> T:
    """One attempt, if the breaker lets it through."""
    if breaker is None:
        return await once()
    breaker.admit()
    try:
        result = await once()
    except StepFailed as failed:
        # A person's no says nothing about whether the thing works.
        if failed.final:
            breaker.dropped()
        else:
            breaker.failed()
        raise
    except BaseException:
        breaker.dropped()
        raise
    breaker.succeeded()
    return result

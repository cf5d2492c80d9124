"""The prompts that have no end yet: those that wait for a run, those that are to steer one, and who waits for which.

Nothing that waits is lost: what came too late to steer a run comes next, and whoever said it is told of the run that
answered it.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeAlias

from indusagi_lsp.contract.errors import InvalidInput
from indusagi_lsp.contract.events import RunSnapshot
from indusagi_lsp.contract.turns import Turn, turn_from_json, user

Prompt: TypeAlias = str | Turn | Iterable[Turn | dict[str, Any]]


class Waiting:
    """A prompt that has no run yet, and whoever waits for its end."""

    def __init__(self, turns: Sequence[Turn], run_id: str) -> None:
        self.turns = turns
        self.run_id = run_id
        self.ended: asyncio.Future[RunSnapshot] = asyncio.get_running_loop().create_future()


class Prompts:
    """The prompts of one agent, in the order in which they came.

    Args:
        tell: told how many wait, whenever that is news.
    """

    def __init__(self, tell: Callable[[int], None]) -> None:
        self._queue: deque[Waiting] = deque()
        self._steering: deque[Waiting] = deque()
        self._answered: list[Waiting] = []
        self._tell = tell
        self._told = 0

    @property
    def waiting(self) -> bool:
        """Whether a prompt waits for a run of its own."""
        return bool(self._queue)

    @property
    def count(self) -> int:
        """How many prompts wait."""
        return len(self._queue) + len(self._steering)

    def add(self, prompt: Waiting, *, steer: bool) -> None:
        """Let a prompt wait, for a run of its own or to enter the one that goes on."""
        (self._steering if steer else self._queue).append(prompt)

    def publish(self) -> None:
        """Tell how many prompts wait, if that is news: a prompt that runs at once never waits."""
        if self.count != self._told:
            self._told = self.count
            self._tell(self._told)

    def begin(self) -> Waiting | None:
        """Take the next prompt, which now gets its run; None where it was taken back meanwhile."""
        if not self._queue:
            return None
        prompt = self._queue.popleft()
        self._answered = [prompt]
        self.publish()
        return prompt

    def steer(self) -> Sequence[Turn] | None:
        """Take the next steering prompt into the run; whoever said it then waits for this run's end."""
        if not self._steering:
            return None
        prompt = self._steering.popleft()
        self._answered.append(prompt)
        self.publish()
        return prompt.turns

    def answers(self, prompt: Waiting) -> bool:
        """Whether the run that goes on answers `prompt`."""
        return prompt in self._answered

    def run_ended(self) -> list[asyncio.Future[RunSnapshot]]:
        """The run is over: those who still wait for its end, to be told now. What came too late for it comes next."""
        self._queue.extendleft(reversed(self._steering))
        self._steering.clear()
        ended = [prompt.ended for prompt in self._answered if not prompt.ended.done()]
        self._answered = []
        return ended

    def withdraw(self, prompt: Waiting) -> bool:
        """Take a prompt back; whether it still waited."""
        for queue in (self._queue, self._steering):
            if prompt in queue:
                queue.remove(prompt)
                prompt.ended.cancel()
                self.publish()
                return True
        return False

    def cancel(self) -> None:
        """Take all of them back."""
        for prompt in (*self._queue, *self._steering):
            prompt.ended.cancel()
        self._queue.clear()
        self._steering.clear()


def turns_of(prompt: Prompt) -> tuple[Turn, ...]:
    """The prompt as turns, none of them empty.

    Raises:
        InvalidInput: it is no prompt, or there is nothing in it.
    """
    if isinstance(prompt, str):
        turns: tuple[Turn, ...] = (user(prompt),) if prompt.strip() else ()
    elif isinstance(prompt, Turn):
        turns = (prompt,)
    else:
        try:
            turns = tuple(turn if isinstance(turn, Turn) else turn_from_json(turn) for turn in prompt)
        except ValueError as error:
            message = f"This is not a turn: {error}."
            raise InvalidInput(message) from error
    turns = tuple(turn for turn in turns if turn.blocks)
    if not turns:
        raise InvalidInput("The prompt is empty.", hint="Write something, then submit.")
    return turns

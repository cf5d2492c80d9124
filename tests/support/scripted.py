"""A model that says exactly what a test tells it to, and remembers what it was asked.

    model = ScriptedModel(["Hello.", Reply(calls=(ScriptedCall("read_file", {"path": "a"}),)), "Done."])
    agent = create_agent(config, deps(invoke_model=model))
    ...
    assert model.requests[1].turns[-1].tool_results

A reply is a `Reply`, a text, a list of tool calls, an exception, or a function of the request that makes one
of these. A `ScriptedModel` is a `ModelInvoker`, and also stands in for the whole of `models` (invoke, card,
list, default, close).
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from typing import TypeAlias

from indusagi_lsp.contract.errors import ContextOverflow, ModelError
from indusagi_lsp.contract.models import ModelCard, ModelPart, ModelRequest
from indusagi_lsp.models.scripted import Player, Reply, ScriptedCall, ScriptedFailure, play, with_call_ids

__all__ = ["Reply", "ScriptedCall", "ScriptedFailure", "ScriptedModel", "call", "failure"]

Answer: TypeAlias = Reply | str | Sequence[ScriptedCall] | BaseException
ReplyLike: TypeAlias = Answer | Callable[[ModelRequest], Answer]


def call(name: str, /, *, call_id: str = "", **arguments: object) -> ScriptedCall:
    """A tool call: `call("read_file", path="a.py")`."""
    return ScriptedCall(name, arguments, call_id)


def failure(error: ModelError | str, /, **fields: object) -> ScriptedFailure:
    """How a reply ends badly, from an error or its message."""
    if isinstance(error, str):
        return ScriptedFailure(error, **fields)
    kind = "overflow" if isinstance(error, ContextOverflow) else "model"
    return ScriptedFailure(error.message, kind, error.hint, error.status, error.retryable, error.retry_after)


class ScriptedModel:
    """A scripted `ModelInvoker`.

    Attributes:
        requests: what was asked, in order.
        card_: what `card()` answers for any model.
        streaming: how many calls are running now; `finished`: how many came to their end; `cancelled`: how
            many were closed before it.
        stalled: set while a reply with `stall_after` waits; `release`: set it to let the reply go on.
        gate: set by default; clear it to hold each call before its first part.
    """

    def __init__(self, replies: Sequence[ReplyLike] = (), *, loop: bool = False, card: ModelCard | None = None) -> None:
        self.requests: list[ModelRequest] = []
        self.card_ = card or ModelCard("scripted:test", "scripted", "test", window=200_000, max_output=8_192)
        self.streaming = 0
        self.cancelled = 0
        self.finished = 0
        self.stalled = asyncio.Event()
        self.release = asyncio.Event()
        self.gate = asyncio.Event()
        self.gate.set()
        self._loop = loop
        self._scripted: list[ReplyLike] = []
        self._position = 0
        self._player = Player([])
        self.add(*replies)

    def add(self, *replies: ReplyLike) -> None:
        """Put more replies at the end."""
        for reply in replies:
            if isinstance(reply, Reply) and _chooses(reply):
                self._player.add(reply)
            else:
                self._scripted.append(reply)

    @property
    def last(self) -> ModelRequest:
        """The last request."""
        return self.requests[-1]

    @property
    def left(self) -> int:
        """Replies that were not used yet."""
        return len(self._scripted) - self._position + self._player.left

    def __call__(self, request: ModelRequest, /) -> AsyncIterator[ModelPart]:
        return self._stream(request)

    invoke = __call__

    async def _stream(self, request: ModelRequest) -> AsyncGenerator[ModelPart, None]:
        self.requests.append(request)
        self.streaming += 1
        try:
            await self.gate.wait()
            reply = with_call_ids(self._next(request), len(self.requests))
            async with contextlib.aclosing(play(reply, request, stall=self._stall)) as parts:
                async for part in parts:
                    yield part
            self.finished += 1
        except (GeneratorExit, asyncio.CancelledError):
            self.cancelled += 1
            raise
        finally:
            self.streaming -= 1

    async def _stall(self) -> None:
        self.stalled.set()
        try:
            await self.release.wait()
        finally:
            self.stalled.clear()

    def _next(self, request: ModelRequest) -> Reply:
        try:
            return self._player.next(request)
        except ModelError:
            if self._position == len(self._scripted) and self._loop:
                self._position = 0
            if self._position == len(self._scripted):
                raise
        made = self._scripted[self._position]
        self._position += 1
        if callable(made):
            made = made(request)
        if isinstance(made, BaseException):
            raise made
        if isinstance(made, str):
            made = Reply(made)
        elif not isinstance(made, Reply):
            made = Reply(calls=tuple(made))
        return made

    def card(self, model: str, /) -> ModelCard:
        return self.card_

    async def list(self) -> list[tuple[ModelCard, bool, str]]:
        return [(self.card_, True, self.card_.note)]

    def default(self) -> str:
        return self.card_.id

    async def close(self) -> None:
        self.release.set()


def _chooses(reply: Reply) -> bool:
    """Whether a reply is chosen by what was asked, and not by its place."""
    return reply.match is not None or reply.purpose is not None or reply.repeat

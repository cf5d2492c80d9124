"""A model that says what a script tells it to: a replay aid, for tests of the real server with exact words.

The user's own environment variable `INDUSAGI_SCRIPTED_MODEL` names a JSON file; its model is then
`scripted:FILE`. A workspace cannot name one. The file is one object:

    {"replies": [{"text": "Hello."},
                 {"match": "(?i)list", "calls": [{"name": "list_files", "input": {}}]},
                 {"match": "slow", "text": "one two three", "pace": 0.05, "repeat": true},
                 {"error": {"message": "Overloaded", "status": 529, "retryable": true}}],
     "tools": true, "window": 200000, "loop": false}

A call is answered by the first unused reply whose `match` (a regular expression) is found in the last user's
text, else by the first unused reply without `match`. A reply is used once, unless it has `repeat`. With
`loop`, all of them are unused again when none is left.
"""

from __future__ import annotations

import asyncio
import re
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from indusagi_lsp.contract import jsontext
from indusagi_lsp.contract.errors import ContextOverflow, ModelError
from indusagi_lsp.contract.models import (
    ModelDone,
    ModelPart,
    ModelRequest,
    ModelRetry,
    Purpose,
    StopReason,
    TextDelta,
    ThinkingDelta,
    ToolCallDelta,
    Usage,
)
from indusagi_lsp.contract.turns import ASSISTANT, USER, Block, TextBlock, ThinkingBlock, ToolCallBlock, Turn

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
    from pathlib import Path


class ScriptedCall(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """A tool call of a reply. Without an `id` it gets one that tells its place in the script's run."""

    name: str
    input: Any = {}
    id: str = ""


class ScriptedFailure(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """How a reply ends instead of with an answer."""

    message: str = "The scripted model failed."
    kind: Literal["model", "overflow"] = "model"
    hint: str = ""
    status: int | None = None
    retryable: bool = False
    retry_after: float | None = None

    def exception(self) -> ModelError:
        """The failure as it is raised."""
        cls = ContextOverflow if self.kind == "overflow" else ModelError
        return cls(
            self.message,
            hint=self.hint,
            status=self.status,
            retryable=self.retryable,
            retry_after=self.retry_after,
        )


class Reply(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """One answer of a scripted model.

    Attributes:
        text: the answer's text.
        thinking: reasoning that comes before it; `signature` goes with it.
        signature: the proof that a provider would add to the reasoning.
        calls: tool calls, after the text.
        error: how the call fails; what was streamed before stays streamed.
        fail_after: deltas before `error`; None means all of them.
        stall_after: deltas before the stream goes silent until the call is cancelled, or a test releases it.
        retries: retries that are announced before anything else, as (delay in seconds, error text).
        wait: seconds before the first delta.
        pace: seconds between two deltas.
        chunk: characters per delta.
        usage: what the call is said to have cost; None counts characters / 4.
        stop: why it ended; None says `tool_calls` where there are calls, else `stop`.
        match: a regular expression that the last user's text must hold.
        purpose: the only purpose that this reply answers; None answers each.
        repeat: whether the reply may be used again.
    """

    text: str = ""
    thinking: str = ""
    signature: str | None = None
    calls: tuple[ScriptedCall, ...] = ()
    error: ScriptedFailure | None = None
    fail_after: int | None = None
    stall_after: int | None = None
    retries: tuple[tuple[float, str], ...] = ()
    wait: float = 0.0
    pace: float = 0.0
    chunk: int = 16
    usage: Usage | None = None
    stop: StopReason | None = None
    match: str | None = None
    purpose: Purpose | None = None
    repeat: bool = False

    def fits(self, request: ModelRequest) -> bool:
        """Whether this reply may answer `request`."""
        if self.purpose is not None and self.purpose != request.purpose:
            return False
        return self.match is None or re.search(self.match, last_user_text(request)) is not None


class Script(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """What a script file holds."""

    replies: tuple[Reply, ...] = ()
    tools: bool = True
    window: int | None = 200_000
    loop: bool = False


def last_user_text(request: ModelRequest) -> str:
    """The text of the last turn of role user, or an empty text."""
    return next((turn.text for turn in reversed(request.turns) if turn.role == USER and turn.text), "")


def read_script(path: Path) -> Script:
    """Read a script file. Blocks: call it in a thread.

    Args:
        path: a JSON file of the shape that this module's first lines show.

    Raises:
        ModelError: it cannot be read or is not a script; the message names the place.
    """
    try:
        script = msgspec.convert(jsontext.loads(path.read_bytes()), Script)
    except OSError as error:
        msg = f"The scripted model's file {path} cannot be read: {error.strerror or error}."
        raise ModelError(
            msg,
            hint="INDUSAGI_SCRIPTED_MODEL must name a JSON file of replies.",
        ) from None
    except (ValueError, msgspec.ValidationError) as error:
        msg = f"The scripted model's file {path} is not a script: {error}."
        raise ModelError(
            msg,
            hint='A script is one JSON object: {"replies": [{"text": "Hello."}]}.',
        ) from None
    for reply in script.replies:
        _check_pattern(reply)
    return script


def _check_pattern(reply: Reply) -> None:
    try:
        re.compile(reply.match or "")
    except re.error as error:
        msg = f"The script's pattern {reply.match!r} is no regular expression: {error}."
        raise ModelError(msg) from None


class Player:
    """Hands out the replies of a script, one per call."""

    def __init__(self, replies: Sequence[Reply], *, loop: bool = False) -> None:
        self._replies = list(replies)
        self._loop = loop
        self._used: set[int] = set()
        self._calls = 0

    def add(self, *replies: Reply) -> None:
        """Put more replies at the end."""
        self._replies.extend(replies)

    @property
    def left(self) -> int:
        """How many replies were not used yet."""
        return len(self._replies) - len(self._used)

    def next(self, request: ModelRequest) -> Reply:
        """Choose the reply to `request`, and count it as used.

        Raises:
            ModelError: the script has no reply left that fits.
        """
        found = self._find(request)
        if found is None and self._loop and self._used:
            self._used.clear()
            found = self._find(request)
        if found is None:
            msg = f"The scripted model has no reply left for {last_user_text(request)[:80]!r}."
            raise ModelError(
                msg,
                hint="Add a reply to the script.",
            )
        reply = self._replies[found]
        if not reply.repeat:
            self._used.add(found)
        self._calls += 1
        return with_call_ids(reply, self._calls)

    def _find(self, request: ModelRequest) -> int | None:
        fitting = [
            index for index, reply in enumerate(self._replies) if index not in self._used and reply.fits(request)
        ]
        matched = [index for index in fitting if self._replies[index].match is not None]
        return min(matched or fitting, default=None)


def with_call_ids(reply: Reply, number: int) -> Reply:
    """Give each call of `reply` an id; `number` is the model call's place in the script's run."""
    if all(call.id for call in reply.calls):
        return reply
    calls = tuple(
        call if call.id else ScriptedCall(call.name, call.input, f"call-{number}-{index}")
        for index, call in enumerate(reply.calls)
    )
    return msgspec.structs.replace(reply, calls=calls)


async def stall_for_ever() -> None:
    """Wait until the call is cancelled."""
    await asyncio.Event().wait()


async def play(
    reply: Reply, request: ModelRequest, *, stall: Callable[[], Awaitable[None]] = stall_for_ever
) -> AsyncGenerator[ModelPart, None]:
    """Stream one reply, as a provider would.

    Args:
        reply: what to say.
        request: what was asked; its size makes up the usage where the reply has none.
        stall: awaited once at `reply.stall_after`.

    Yields:
        The parts, the last of them `ModelDone`.

    Raises:
        ModelError: the reply is a failure.
    """
    for attempt, (delay, error) in enumerate(reply.retries, 1):
        yield ModelRetry(attempt, delay, error)
    if reply.wait:
        await asyncio.sleep(reply.wait)

    deltas = _deltas(reply)
    for index, delta in enumerate(deltas):
        if reply.error is not None and index == reply.fail_after:
            raise reply.error.exception()
        if index == reply.stall_after:
            await stall()
        if index and reply.pace:
            await asyncio.sleep(reply.pace)
        yield delta
    if reply.stall_after is not None and reply.stall_after >= len(deltas):
        await stall()
    if reply.error is not None:
        raise reply.error.exception()
    yield ModelDone(
        reply_turn(reply),
        reply.stop or ("tool_calls" if reply.calls else "stop"),
        reply.usage or _usage(reply, request),
    )


def reply_turn(reply: Reply) -> Turn:
    """The assistant's turn that a reply amounts to."""
    blocks: list[Block] = []
    if reply.thinking:
        blocks.append(ThinkingBlock(reply.thinking, reply.signature))
    if reply.text:
        blocks.append(TextBlock(reply.text))
    blocks.extend(ToolCallBlock(call.id, call.name, call.input) for call in reply.calls)
    return Turn(ASSISTANT, tuple(blocks))


def _deltas(reply: Reply) -> list[ModelPart]:
    deltas: list[ModelPart] = [ThinkingDelta(piece) for piece in _pieces(reply.thinking, reply.chunk)]
    deltas.extend(TextDelta(piece) for piece in _pieces(reply.text, reply.chunk))
    for index, call in enumerate(reply.calls):
        raw = call.input if isinstance(call.input, str) else jsontext.dumps(call.input).decode()
        deltas.extend(ToolCallDelta(index, call.id, call.name, piece) for piece in _pieces(raw, reply.chunk) or [""])
    return deltas


def _pieces(text: str, size: int) -> list[str]:
    step = max(1, size)
    return [text[start : start + step] for start in range(0, len(text), step)]


def _usage(reply: Reply, request: ModelRequest) -> Usage:
    prompt = len(request.system) + sum(len(turn.text) for turn in request.turns)
    return Usage(input=-(-prompt // 4), output=-(-(len(reply.text) + len(reply.thinking)) // 4))

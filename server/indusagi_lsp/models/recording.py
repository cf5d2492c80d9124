"""What the models said, written down as they say it, so that the same run can be had again without them.

A recording is a file of JSON lines that the user names on the command line. Its first line says what it is. Each call
of a model has a line when it begins, one for each part of the answer, and one for its end:

    {"recording": 1, "program": "indusagi-lsp 0.1.0"}
    {"call": 1, "model": {"id": "anthropic:…", …}, "purpose": "main", "prompt": "Make the test pass.", "asked": ["3f…"]}
    {"call": 1, "at": 812, "text": "Let me"}
    {"call": 1, "at": 1204, "done": {"turn": {…}, "stop": "tool_calls", "usage": {…}}}

`at` is in milliseconds since the call began. Of what was asked only the last words of the user are kept, and a digest
of each turn, by which a replay finds its place and sees where it has left the recorded path. Keys are never in it; what
was said, and so what was quoted of files, is.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import os
import queue
import threading
from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Sequence
from contextlib import aclosing
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import msgspec

from indusagi_lsp import __version__
from indusagi_lsp.contract import jsontext
from indusagi_lsp.contract.clock import Clock, SystemClock
from indusagi_lsp.contract.errors import ContextOverflow, ModelError
from indusagi_lsp.contract.models import (
    ModelCard,
    ModelDone,
    ModelNote,
    ModelPart,
    ModelRequest,
    ModelRetry,
    TextDelta,
    ThinkingDelta,
    ToolCallDelta,
    Usage,
)
from indusagi_lsp.contract.turns import (
    USER,
    ImageBlock,
    TextBlock,
    ToolCallBlock,
    ToolResultBlock,
    Turn,
    turn_from_json,
    turn_to_json,
)

if TYPE_CHECKING:
    from indusagi_lsp.models.service import Listed, ModelSource

logger = logging.getLogger(__name__)

VERSION = 1
_CLOSE_SECONDS = 1.0


class Recorder:
    """Models that are written down: they answer as they would, and what they say goes to a file too.

    The file is written by a thread, so that no answer waits for the disk. What is there when the process dies can be
    replayed up to that point.

    Args:
        path: the file; it must not exist, and only the user can read it.
        clock: the time.

    Raises:
        OSError: the file cannot be made.
    """

    def __init__(self, path: Path, *, clock: Clock | None = None) -> None:
        self._models: ModelSource | None = None
        self._clock = clock or SystemClock()
        self._calls = 0
        self._lines = _Lines(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
        self._lines.put({"recording": VERSION, "program": f"indusagi-lsp {__version__}"})

    def follow(self, models: ModelSource) -> Recorder:
        """Record these models from now on; gives what is to be called in their place."""
        self._models = models
        return self

    @property
    def problems(self) -> tuple[str, ...]:
        """What is wrong with the user's settings, in words."""
        return self._source.problems

    def invoke(self, request: ModelRequest, /) -> AsyncIterator[ModelPart]:
        """Call a model, and write down what it says; this is a `ModelInvoker`.

        Yields:
            What the model does.

        Raises:
            ModelError: as the model does.
        """
        return self._follow(request)

    def card(self, model: str, /) -> ModelCard:
        """What is known of `model`."""
        return self._source.card(model)

    def default(self) -> str:
        """The model to use where none is named."""
        return self._source.default()

    async def list(self) -> list[Listed]:
        """The models that can be named."""
        return await self._source.list()

    async def look_up(self, model: str) -> ModelCard:
        """What `card` says, without stopping the event loop."""
        return await self._source.look_up(model)

    async def close(self) -> None:
        """End the models, and the file."""
        try:
            await self._source.close()
        finally:
            await asyncio.to_thread(self._lines.close)

    @property
    def _source(self) -> ModelSource:
        if self._models is None:
            raise RuntimeError("nobody is there to be recorded")
        return self._models

    async def _follow(self, request: ModelRequest) -> AsyncGenerator[ModelPart, None]:
        self._calls += 1
        number, began = self._calls, self._clock.monotonic()

        def note(fields: dict[str, Any]) -> None:
            self._lines.put({"call": number, "at": round((self._clock.monotonic() - began) * 1000), **fields})

        self._lines.put(_Begun(number, self._source.card(request.model), request))
        ended = False
        try:
            async with aclosing(cast("Any", self._source.invoke(request))) as parts:
                async for part in parts:
                    ended = isinstance(part, ModelDone)
                    note(_part_to_json(part))
                    yield part
        except ModelError as error:
            ended = True
            note({"failed": _error_to_json(error)})
            raise
        finally:
            if not ended:
                note({"left": True})


class _Begun(msgspec.Struct, frozen=True):
    """A call's first line, made by the writing thread: the digests of a long conversation take a while."""

    number: int
    card: ModelCard
    request: ModelRequest

    def to_json(self) -> dict[str, Any]:
        return {
            "call": self.number,
            "model": msgspec.to_builtins(self.card),
            "purpose": self.request.purpose,
            "prompt": prompt_of(self.request),
            "asked": digests(self.request.turns),
        }


class _Lines:
    """Writes lines to a file in a thread. A disk that refuses ends the recording, and nothing else."""

    def __init__(self, file: int) -> None:
        self._file = file
        self._waiting: queue.SimpleQueue[dict[str, Any] | _Begun | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="recording", daemon=True)
        self._thread.start()

    def put(self, line: dict[str, Any] | _Begun) -> None:
        self._waiting.put(line)

    def close(self) -> None:
        """Write what waits; not longer than a second."""
        self._waiting.put(None)
        self._thread.join(_CLOSE_SECONDS)

    def _run(self) -> None:
        with open(self._file, "ab", buffering=0) as file:
            refused = False
            while (line := self._waiting.get()) is not None:
                if refused:
                    continue
                try:
                    file.write(jsontext.dumps(line.to_json() if isinstance(line, _Begun) else line) + b"\n")
                except (OSError, ValueError, TypeError):
                    refused = True
                    logger.exception("the recording ends here: it could not be written")


class RecordedCall(msgspec.Struct, frozen=True):
    """One call of a recording.

    Attributes:
        card: the model as it was known.
        purpose: what the call was for.
        asked: digests of the turns that were sent.
        parts: what the model said.
        error: how it failed, None where it did not.
    """

    card: ModelCard
    purpose: str
    asked: tuple[str, ...]
    parts: tuple[ModelPart, ...]
    error: ModelError | None


def read_recording(path: Path) -> tuple[RecordedCall, ...]:
    """Read a recording. Blocks.

    Args:
        path: a file that a `Recorder` has written; its last line may be torn.

    Returns:
        The calls, in the order in which they began. One that was left before its end fails at that point.

    Raises:
        ModelError: it cannot be read, is no recording, or holds no call.
    """
    try:
        lines = path.read_bytes().split(b"\n")
        calls = _calls(jsontext.loads(line) for line in lines[:-1] if line)
    except OSError as error:
        message = f"The recording {path} cannot be read: {error.strerror or error}."
        raise ModelError(message, hint="Name a file that was made with --record.") from None
    except (ValueError, TypeError, KeyError, AttributeError, msgspec.ValidationError) as error:
        message = f"{path} is no recording: {error}."
        raise ModelError(message, hint="Name a file that was made with --record.") from None
    if not calls:
        raise ModelError(f"The recording {path} holds no call of a model.", hint="Record a run first.")
    return calls


def digests(turns: Sequence[Turn]) -> list[str]:
    """What identifies each turn: its words, calls and results, without the ids and thoughts, which differ each time."""
    return [hashlib.sha256(jsontext.dumps([turn.role, *_words(turn)])).hexdigest()[:16] for turn in turns]


def prompt_of(request: ModelRequest) -> str:
    """The last words of the user."""
    return next((turn.text for turn in reversed(request.turns) if turn.role == USER and turn.text), "")


def _words(turn: Turn) -> Iterable[Any]:
    for block in turn.blocks:
        match block:
            case TextBlock():
                yield block.text
            case ToolCallBlock():
                yield [block.name, block.input]
            case ToolResultBlock():
                yield [block.output, block.is_error]
            case ImageBlock():
                yield [block.media_type, block.data_base64]


def _part_to_json(part: ModelPart) -> dict[str, Any]:
    match part:
        case TextDelta(text):
            return {"text": text}
        case ThinkingDelta(text):
            return {"thinking": text}
        case ToolCallDelta(index, call_id, name, arguments):
            return {"tool": [index, call_id, name, arguments]}
        case ModelRetry(attempt, delay, error):
            return {"retry": [attempt, delay, error]}
        case ModelNote(code, text):
            return {"note": [code, text]}
        case ModelDone(turn, stop, usage):
            return {"done": {"turn": turn_to_json(turn), "stop": stop, "usage": msgspec.to_builtins(usage)}}


def _part_from_json(line: dict[str, Any]) -> ModelPart:
    if "text" in line:
        return TextDelta(line["text"])
    if "thinking" in line:
        return ThinkingDelta(line["thinking"])
    if "tool" in line:
        return ToolCallDelta(*line["tool"])
    if "retry" in line:
        return ModelRetry(*line["retry"])
    if "note" in line:
        return ModelNote(*line["note"])
    done = line["done"]
    usage = msgspec.convert(done["usage"], Usage | None)
    return ModelDone(turn_from_json(done["turn"]), done["stop"], usage)


def _error_to_json(error: ModelError) -> dict[str, Any]:
    return {
        "kind": error.kind,
        "message": error.message,
        "hint": error.hint,
        "status": error.status,
        "retryable": error.retryable,
        "retryAfter": error.retry_after,
    }


def _error_from_json(raw: dict[str, Any]) -> ModelError:
    cls = ContextOverflow if raw["kind"] == ContextOverflow.kind else ModelError
    return cls(
        raw["message"],
        hint=raw["hint"],
        status=raw["status"],
        retryable=raw["retryable"],
        retry_after=raw["retryAfter"],
    )


class _Reading:
    """A call whose lines are being read."""

    def __init__(self, line: dict[str, Any]) -> None:
        self.line = line
        self.parts: list[ModelPart] = []
        self.error: ModelError | None = None

    def take(self, line: dict[str, Any]) -> None:
        if "failed" in line:
            self.error = _error_from_json(line["failed"])
        elif "left" not in line:
            self.parts.append(_part_from_json(line))

    def call(self) -> RecordedCall:
        error = self.error
        if error is None and not (self.parts and isinstance(self.parts[-1], ModelDone)):
            error = ModelError("The recorded answer was stopped at this point.", hint="Submit again to go on.")
        return RecordedCall(
            msgspec.convert(self.line["model"], ModelCard),
            self.line["purpose"],
            tuple(self.line["asked"]),
            tuple(self.parts),
            error,
        )


def _calls(lines: Iterable[dict[str, Any]]) -> tuple[RecordedCall, ...]:
    lines = iter(lines)
    if next(lines, {}).get("recording") != VERSION:
        raise ValueError(f"its first line does not say that it is one of version {VERSION}")
    calls: dict[int, _Reading] = {}
    for line in lines:
        number = line["call"]
        if "model" in line:
            calls[number] = _Reading(line)
        else:
            calls[number].take(line)
    return tuple(call.call() for call in calls.values())

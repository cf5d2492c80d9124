"""The bundled local model: small, private, always there.

It runs in a child process (see `localserver`), started at the first call and only once, and is spoken to
through a socket. It calls no tools, and its window is small: a conversation that is too long is cut from the
front here, so that a call never fails for its length.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import secrets
import shutil
import subprocess
import sys
import tempfile
from contextlib import aclosing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from indusagi_lsp.contract.errors import ContextOverflow, ModelError
from indusagi_lsp.contract.models import ModelCard, ModelPart, ModelRequest
from indusagi_lsp.contract.turns import SYSTEM, TextBlock, ToolResultBlock, Turn
from indusagi_lsp.models import config, weights

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Sequence

    from indusagi_lsp.contract.clock import Clock
    from indusagi_lsp.models.client import ProviderClient

NAME = "smollm2"
ID = f"{config.LOCAL}:{NAME}"
WINDOW = 4096
MAX_OUTPUT = 256
CARD = ModelCard(
    ID,
    config.LOCAL,
    NAME,
    window=WINDOW,
    max_output=MAX_OUTPUT,
    tools=False,
    local=True,
    note="small bundled model: answers without a key or a network, often wrongly; set a key for a better one",
)
SYSTEM_PROMPT = "You are a helpful assistant for a programmer. Answer briefly and in plain English."
_PROMPT_CHARS = 4_500
"""The prompt's budget in characters, some 1,300 tokens. The window holds more, but one processor core reads only
50 to 200 tokens per second, and nobody waits a minute for a small model's answer."""
_STEP = 4
"""Turns are left out in steps of so many, so that the next prompt begins like this one and is not reread."""
_BATCH = 64
"""Prompt tokens per step: a cancelled call is noticed between two steps."""
_LOAD_SECONDS = 120.0
_IDLE_SECONDS = 600.0
"""The server pings while it reads a long prompt, so this is only reached if it hangs."""
_CUT = "\n[… cut to fit the model …]\n"


class LocalModel:
    """The bundled model's process and the connection to it.

    Args:
        clock: the time.
        cache_dir: where the outcome of the weights' check is kept.
        find: finds runtime and weights.
        threads: processor threads; one less than there are processors by default, since the runtime's threads
            wait for each other actively and collapse when they have to share.
    """

    def __init__(
        self,
        *,
        clock: Clock,
        cache_dir: Path,
        find: Callable[[], weights.Bundle] = weights.find_bundle,
        threads: int | None = None,
    ) -> None:
        self._clock = clock
        self._cache_dir = cache_dir
        self._find = find
        self._threads = threads or max(1, (os.cpu_count() or 2) - 1)
        self._starting: asyncio.Task[None] | None = None
        self._process: asyncio.subprocess.Process | None = None
        self._client: ProviderClient | None = None
        self._folder = ""

    def absence(self) -> str:
        """Why the model cannot be used, empty if it can. Reads the disk: call it in a thread."""
        try:
            self._find()
        except ModelError as error:
            return f"{error.message} {error.hint}"
        return ""

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelPart, None]:
        """Call the model; loads it first where that was not done yet.

        Raises:
            ModelError: it is not installed, or its process failed.
        """
        client = await self._ready()
        budget = _PROMPT_CHARS
        limit = min(request.max_output_tokens or MAX_OUTPUT, MAX_OUTPUT)
        for _ in range(6):
            fitted = fit(request, budget)
            asked = msgspec.structs.replace(fitted, tools=(), thinking=False, max_output_tokens=limit)
            try:
                async with aclosing(client.stream(asked, CARD)) as parts:
                    async for part in parts:
                        yield part
                return
            except ContextOverflow:
                # The estimate was off: text with many tokens per character. Nothing was streamed yet.
                budget = budget * 6 // 10
        raise ContextOverflow("The question is too long for the bundled model.", hint="Ask a shorter one.")

    async def close(self) -> None:
        """End the process and what waits for it."""
        if self._starting is not None:
            self._starting.cancel()
            with contextlib.suppress(asyncio.CancelledError, ModelError):
                await self._starting
            self._starting = None
        await self._stop()

    async def _ready(self) -> ProviderClient:
        if self._process is not None and self._process.returncode is not None:
            await self._stop()  # it died; the next call gets a new one
            self._starting = None
        if self._starting is None:
            self._starting = asyncio.create_task(self._start(), name="bundled model")
        try:
            # A caller that gives up does not stop the loading: the next one will want it.
            await asyncio.shield(self._starting)
        except ModelError:
            self._starting = None
            raise
        if self._client is None:
            raise ModelError("The bundled model was ended.", hint="Ask again.")
        return self._client

    async def _start(self) -> None:
        try:
            await self._load()
        except TimeoutError:
            await self._stop()
            raise ModelError("The bundled model took too long to load.", hint="Try again.") from None
        except OSError as error:
            await self._stop()
            message = f"The bundled model could not be started: {error.strerror or error}."
            raise ModelError(message, hint="Try again, or choose another model.") from None

    async def _load(self) -> None:
        bundle = await asyncio.to_thread(self._find)
        await asyncio.to_thread(weights.check_weights, bundle.weights, self._cache_dir)
        key = secrets.token_urlsafe(24)
        socket = ""
        if sys.platform != "win32":
            # Short, since the path of a Unix socket has about a hundred bytes; the folder is the user's alone.
            self._folder = await asyncio.to_thread(tempfile.mkdtemp, prefix="indusagi-")
            socket = str(Path(self._folder) / "model.sock")
        order = {
            "runtime": str(bundle.runtime),
            "weights": str(bundle.weights),
            "socket": socket,
            "key": key,
            "window": WINDOW,
            "batch": _BATCH,
            "threads": self._threads,
        }
        opening = asyncio.to_thread(_load_client)
        async with asyncio.timeout(_LOAD_SECONDS):
            address, _ = await asyncio.gather(self._spawn(order), opening)
        self._client = await asyncio.to_thread(_connect, address, key, self._clock)

    async def _spawn(self, order: dict[str, Any]) -> str:
        self._process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-I",
            str(Path(__file__).with_name("localserver.py")),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd=order["runtime"],
            start_new_session=True,  # Ctrl-C in a terminal ends a run, not the model
        )
        stdin, stdout = self._process.stdin, self._process.stdout
        line = b""
        if stdin is not None and stdout is not None:
            with contextlib.suppress(ConnectionError):
                stdin.write(json.dumps(order).encode() + b"\n")
                await stdin.drain()
            line = await stdout.readline()
        try:
            answer = json.loads(line)
        except ValueError:
            answer = {"error": "its process ended at once"}
        if "error" in answer:
            await self._stop()
            message = f"The bundled model could not be loaded: {answer['error']}."
            raise ModelError(message, hint=weights.INSTALL_HINT)
        return str(answer["address"])

    async def _stop(self) -> None:
        client, process, folder = self._client, self._process, self._folder
        self._client = self._process = None
        self._folder = ""
        if client is not None:
            await client.close()
        if process is not None:
            await _end(process)
        if folder:
            await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)


async def _end(process: asyncio.subprocess.Process) -> None:
    """Let the process end by itself, then by force."""
    if process.stdin is not None:
        process.stdin.close()
    try:
        async with asyncio.timeout(1.0):
            await process.wait()
    except TimeoutError:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()


def _load_client() -> None:
    from indusagi_lsp.models import client

    client.load_openai()


def _connect(address: str, key: str, clock: Clock) -> ProviderClient:
    from indusagi_lsp.models.client import ProviderClient

    socket = address.removeprefix("unix://") if address.startswith("unix://") else None
    provider = config.Provider(
        name=config.LOCAL,
        kind="openai-compatible",
        label="The bundled model",
        base_url="http://127.0.0.1/v1" if socket else f"{address}/v1",
        key=key,
        key_place="",
        models=(),
        window=WINDOW,
        tools=False,
        images=False,
    )
    # Repetition is what a model of this size falls into; a stronger penalty makes it leave the text it was given.
    extra = {"cache_prompt": True, "temperature": 0.0, "repeat_penalty": 1.1, "repeat_last_n": 64}
    client = ProviderClient(provider, clock=clock, idle=_IDLE_SECONDS, socket=socket, extra_body=extra)
    client.open(NAME)
    return client


def fit(request: ModelRequest, budget: int) -> ModelRequest:
    """Cut a request to what a small model takes.

    Args:
        request: the system text and the turns.
        budget: characters for all of it.

    Returns:
        The request with a system text in any case, with turns left out from the front, and, where the last
        turn alone is too long, with its middle cut out.
    """
    # The system text may hold excerpts of files: it gets what the turns leave, and half in any case.
    room = max(budget // 2, budget - sum(map(_size, request.turns)))
    system = _cut(request.system.strip() or SYSTEM_PROMPT, room)
    left = budget - len(system)
    turns = request.turns
    start = len(turns)
    while start and _size(turns[start - 1]) <= left:
        start -= 1
        left -= _size(turns[start])
    if turns and start == len(turns):
        return msgspec.structs.replace(request, system=system, turns=(_shortened(turns[-1], left),))
    stepped = -(-start // _STEP) * _STEP
    kept = turns[stepped if stepped < len(turns) else start :]
    return msgspec.structs.replace(request, system=system, turns=_from_a_question(kept))


def _from_a_question(turns: Sequence[Turn]) -> tuple[Turn, ...]:
    """Leave out what answers a question that was cut away."""
    for start, turn in enumerate(turns):
        if turn.role not in ("assistant", "tool", SYSTEM):
            return tuple(turns[start:])
    return tuple(turns)


def _size(turn: Turn) -> int:
    size = 16
    for block in turn.blocks:
        if isinstance(block, TextBlock):
            size += len(block.text)
        elif isinstance(block, ToolResultBlock):
            size += len(block.output)
        else:
            size += 60
    return size


def _shortened(turn: Turn, budget: int) -> Turn:
    texts = [block.text for block in turn.blocks if isinstance(block, TextBlock)]
    texts += [block.output for block in turn.blocks if isinstance(block, ToolResultBlock)]
    return Turn(turn.role, (TextBlock(_cut("\n\n".join(texts), budget)),))


def _cut(text: str, budget: int) -> str:
    if len(text) <= budget:
        return text
    room = max(0, budget - len(_CUT))
    head = room * 2 // 3
    return f"{text[:head]}{_CUT}{text[len(text) - (room - head) :]}"

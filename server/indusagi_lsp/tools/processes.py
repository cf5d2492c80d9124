"""Running a program: streamed, capped, in time, and with everything that it has started ended with it.

A child gets no input and a session of its own. At the end of the call its process group is asked to go, then killed;
what left the group but still carries the call's mark in its environment is killed too, where the system shows that.
"""

from __future__ import annotations

import asyncio
import codecs
import os
import re
import secrets
import signal
import time
from contextlib import suppress
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

MARK = "INDUSAGI_CALL"
HALF_OUTPUT_CHARS = 256 * 1024
UPDATE_SECONDS = 0.1
_GRACE_SECONDS = 2.0
_CHUNK = 1 << 16
_OVERWRITTEN = re.compile(r"[^\n]*\r(?!\n)")

# What a command of the model has no business to know.
_SECRET = re.compile(
    r"(?i)(api_?key|secret|token|passw|credential|private_key|access_key|^indusagi|^ripgrep_config_path$)"
)


class Finished(msgspec.Struct, frozen=True):
    """How a program ended.

    Attributes:
        code: exit code; negative for a signal; None when the time was over.
        output: what it wrote to stdout and stderr, its middle left out where it is long.
        seconds: that it took.
    """

    code: int | None
    output: str
    seconds: float


class Output:
    """Keeps head and tail of a text that comes in pieces.

    Args:
        half: characters of each.
    """

    def __init__(self, half: int = HALF_OUTPUT_CHARS) -> None:
        self._half = half
        self._head = ""
        self._tail = ""
        self._left_out = 0

    def add(self, piece: str) -> None:
        """More of the text."""
        room = self._half - len(self._head)
        self._head += piece[:room]
        self._tail += piece[room:] if room < len(piece) else ""
        if len(self._tail) > 2 * self._half:
            self._left_out += len(self._tail) - self._half
            self._tail = self._tail[-self._half :]

    def text(self) -> str:
        """The text so far."""
        tail, left_out = self._tail, self._left_out
        if len(tail) > self._half:
            left_out += len(tail) - self._half
            tail = tail[-self._half :]
        middle = f"\n[… {left_out:,} characters left out …]\n" if left_out else ""
        # A line that was written over ends up as its last state, as on a terminal.
        return _OVERWRITTEN.sub("", self._head + middle + tail)


class Program:
    """One running program.

    Args:
        process: the child.
        stream: what it writes.
        close: lets go of that stream.
        mark: in the environment of everything that it starts.
        update: told what is written, at most ten times a second.
    """

    def __init__(
        self,
        process: asyncio.subprocess.Process,
        stream: asyncio.StreamReader,
        close: Callable[[], None],
        mark: str,
        update: Callable[[str], None],
    ) -> None:
        self._process = process
        self._stream = stream
        self._close = close
        self._mark = mark
        self._update = update
        self._began = time.monotonic()
        self._reading = asyncio.create_task(self._read())
        self.output = Output()

    @classmethod
    async def start(
        cls, argv: Sequence[str], *, cwd: str, environ: Mapping[str, str], update: Callable[[str], None]
    ) -> Program:
        """Start a program.

        Args:
            argv: the program's absolute path and its arguments.
            cwd: where it runs.
            environ: our environment; what is secret in it is left out.
            update: told what is written.

        Raises:
            OSError: it cannot be started.
        """
        starting = asyncio.ensure_future(cls._start(argv, cwd=cwd, environ=environ, update=update))
        try:
            return await asyncio.shield(starting)
        except asyncio.CancelledError:
            # It may be running by now, and nobody else knows of it.
            await asyncio.shield(asyncio.ensure_future(_end_started(starting)))
            raise

    @classmethod
    async def _start(
        cls, argv: Sequence[str], *, cwd: str, environ: Mapping[str, str], update: Callable[[str], None]
    ) -> Program:
        mark = secrets.token_hex(8)
        read, write = os.pipe()
        try:
            process = await asyncio.create_subprocess_exec(
                *argv,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=write,
                stderr=asyncio.subprocess.STDOUT,
                cwd=cwd,
                env=child_environment(environ) | {MARK: mark},
                **({"start_new_session": True} if os.name == "posix" else {"creationflags": 0x200}),
            )
        except BaseException:
            os.close(read)
            raise
        finally:
            os.close(write)
        # A pipe of our own: asyncio's would make the end of the program wait for every child that holds it.
        stream, close = await _reader_of(read)
        return cls(process, stream, close, mark, update)

    @property
    def running(self) -> bool:
        """Whether it has not ended yet."""
        return self._process.returncode is None

    @property
    def seconds(self) -> float:
        """How long ago it was started."""
        return time.monotonic() - self._began

    async def finish(self, seconds: float) -> Finished:
        """Wait for its end, for so many seconds; then, or when this is cancelled, everything of it is ended.

        Args:
            seconds: that it may take.
        """
        code: int | None = None
        try:
            async with asyncio.timeout(seconds):
                code = await self._process.wait()
                # What it wrote last may still be on its way, or a child of it may hold the pipe for ever.
                await asyncio.wait([self._reading], timeout=0.3)
        except TimeoutError:
            pass
        finally:
            await asyncio.shield(asyncio.ensure_future(self.end()))
        return Finished(code, self.output.text(), self.seconds)

    async def end(self) -> None:
        """End it with all that it has started."""
        self._signal_group(signal.SIGTERM)
        if self._process.returncode is None:
            with suppress(TimeoutError):
                async with asyncio.timeout(_GRACE_SECONDS):
                    await self._process.wait()
        self._signal_group(getattr(signal, "SIGKILL", signal.SIGTERM))
        for pid in await asyncio.to_thread(marked_processes, self._mark):
            with suppress(OSError):
                os.kill(pid, getattr(signal, "SIGKILL", signal.SIGTERM))
        await self._process.wait()
        await asyncio.wait([self._reading], timeout=0.3)
        self._reading.cancel()
        await asyncio.gather(self._reading, return_exceptions=True)
        self._close()

    def _signal_group(self, number: int) -> None:
        with suppress(OSError):
            if os.name == "posix":
                os.killpg(self._process.pid, number)
            elif self._process.returncode is None:
                self._process.kill()

    async def _read(self) -> None:
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        pending, told = "", 0.0
        while True:
            try:
                async with asyncio.timeout(UPDATE_SECONDS if pending else None):
                    data = await self._stream.read(_CHUNK)
            except TimeoutError:
                data = None
            if data is not None:
                piece = decoder.decode(data, final=not data)
                self.output.add(piece)
                pending = (pending + piece)[-_CHUNK:]
            if pending and (data is None or not data or time.monotonic() - told >= UPDATE_SECONDS):
                self._update(pending)
                pending, told = "", time.monotonic()
            if data == b"":
                return


async def _end_started(starting: asyncio.Future[Program]) -> None:
    with suppress(OSError):
        await (await starting).end()


async def _reader_of(fd: int) -> tuple[asyncio.StreamReader, Callable[[], None]]:
    """A stream over the reading end of a pipe, and what closes it."""
    stream = asyncio.StreamReader()
    pipe = os.fdopen(fd, "rb", buffering=0)
    if os.name == "posix":
        transport, _ = await asyncio.get_running_loop().connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(stream), pipe
        )
        return stream, transport.close

    async def copy() -> None:
        # An ordinary pipe cannot be waited for here, so a thread reads it.
        while data := await asyncio.to_thread(pipe.read, _CHUNK):
            stream.feed_data(data)
        stream.feed_eof()

    copying = asyncio.ensure_future(copy())

    def close() -> None:
        copying.cancel()
        pipe.close()

    return stream, close


def child_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """The environment of a command: no secrets, no pagers, no questions, and no git settings that run programs.

    Args:
        environ: ours.
    """
    kept = {name: value for name, value in environ.items() if not _SECRET.search(name)}
    settings = (
        ("core.fsmonitor", "false"),
        ("core.hooksPath", os.devnull),
        ("core.pager", "cat"),
        ("safe.bareRepository", "explicit"),
    )
    git = {"GIT_CONFIG_COUNT": str(len(settings))}
    for number, (name, value) in enumerate(settings):
        git |= {f"GIT_CONFIG_KEY_{number}": name, f"GIT_CONFIG_VALUE_{number}": value}
    quiet = {"PAGER": "cat", "GIT_PAGER": "cat", "GIT_TERMINAL_PROMPT": "0", "TERM": "dumb", "NO_COLOR": "1"}
    return kept | git | quiet | {"GIT_OPTIONAL_LOCKS": "0"}


def marked_processes(mark: str) -> list[int]:
    """The processes that carry a call's mark in their environment, where the system has a /proc. Blocks."""
    wanted = f"{MARK}={mark}".encode()
    found: list[int] = []
    try:
        names = os.listdir("/proc")
    except OSError:
        return found
    for name in names:
        if not name.isdigit():
            continue
        try:
            with open(f"/proc/{name}/environ", "rb") as stream:
                if wanted in stream.read().split(b"\0"):
                    found.append(int(name))
        except OSError:
            continue
    return found

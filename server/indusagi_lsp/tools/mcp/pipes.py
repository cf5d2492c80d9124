"""Speaks to a server over its standard streams, and bears whatever comes out of them.

The SDK has such a transport too; it reads a line of any length into memory, leaves stderr to whoever owns it, and takes
longer to end a server than we have. This one gives the SDK the same two message streams.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import re
import signal
import sys
from collections import deque
from collections.abc import Iterable
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeAlias

from indusagi_lsp.contract.text import visible_line
from indusagi_lsp.tools.mcp.keeper import Keeper
from indusagi_lsp.tools.mcp.launch import Launch

if TYPE_CHECKING:
    from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
    from mcp.shared.message import SessionMessage

    Incoming: TypeAlias = MemoryObjectReceiveStream[SessionMessage | Exception]
    Outgoing: TypeAlias = MemoryObjectSendStream[SessionMessage]

MAX_LINE = 8 * 1024 * 1024
"""Bytes of one message; a result that fits the model's context is far smaller, one with images is not."""

MAX_LOGGED_LINES = 100
"""Lines of stderr that go into the log, for each start of a server."""

_CHUNK = 64 * 1024
_MAX_STDERR_LINE = 4_000
_QUEUED_MESSAGES = 256
# A server that never stops talking must leave the event loop to the others.
_BURST = 100
_REST = 0.02
_PATIENCE = (0.3, 0.5, 0.5)
"""Seconds that it gets to end by itself, after TERM, and after KILL."""

_LAST_LINES = 0.2
"""Seconds in which what a server wrote before it ended is still read."""

_LIST_CHANGED = b'"notifications/tools/list_changed"'
_MAX_NOTICE = 500

_ANSWERED = re.compile(rb'"id"\s*:\s*(\d{1,15})\b')


class Pipes:
    """A server's process with its streams, as a transport of the SDK: an async context manager.

    Args:
        name: the server's name, for the log.
        launch: what to start.
        gone: set when nothing more can come from the server.
        changed: set when the server says that its list of tools has changed.
        keeper: ends the process should we be gone.
        log: gets what the server writes to stderr, bounded.
    """

    def __init__(
        self,
        name: str,
        launch: Launch,
        *,
        gone: asyncio.Event,
        changed: asyncio.Event,
        keeper: Keeper,
        log: logging.Logger,
    ) -> None:
        self._name = name
        self._launch = launch
        self._gone = gone
        self._changed = changed
        self._keeper = keeper
        self._log = log
        self._said: deque[str] = deque(maxlen=5)
        self._process: asyncio.subprocess.Process | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._told: set[str] = set()

    @property
    def last_words(self) -> str:
        """How it ended and what it wrote to stderr last, in one line; empty if it said nothing."""
        code = self._process.returncode if self._process is not None else None
        end = "" if code is None else f"exit status {code}" if code >= 0 else f"ended by signal {-code}"
        return "; ".join(part for part in (end, visible_line(" / ".join(self._said))) if part)

    async def __aenter__(self) -> tuple[Incoming, Outgoing]:
        """Start the process.

        Raises:
            OSError: the system refuses.
        """
        import anyio

        launch = self._launch
        new_group: dict[str, Any] = {"start_new_session": True} if os.name == "posix" else {"creationflags": 0x200}
        loop = asyncio.get_running_loop()
        transport, protocol = await loop.subprocess_exec(
            lambda: _Watched(limit=_CHUNK, loop=loop), *launch.argv, env=dict(launch.env), cwd=launch.cwd, **new_group
        )
        process = asyncio.subprocess.Process(transport, protocol, loop)
        self._process, self._transport = process, transport
        into, incoming = anyio.create_memory_object_stream[Any](0)
        outgoing, out_of = anyio.create_memory_object_stream[Any](_QUEUED_MESSAGES)
        self._streams = (into, incoming, outgoing, out_of)
        self._tasks = [
            asyncio.create_task(self._read(process, into)),
            asyncio.create_task(self._write(process, out_of, into)),
            asyncio.create_task(self._drain_stderr(process)),
            asyncio.create_task(self._watch(protocol.exited, into)),
            asyncio.create_task(self._guard(process.pid)),
        ]
        return incoming, outgoing

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End the process and whatever it started; takes 1.5 s at most, also when cancelled meanwhile."""
        ending = asyncio.create_task(self._end())
        cancelled = False
        while not ending.done():
            try:
                await asyncio.shield(ending)
            except asyncio.CancelledError:
                # Whoever cancels us again waits for the same end; it is bounded.
                cancelled = True
        if cancelled and kind is None:
            raise asyncio.CancelledError

    async def _read(self, process: asyncio.subprocess.Process, into: MemoryObjectSendStream[Any]) -> None:
        """Every line of stdout that is a message goes to the session; it is read on when nobody listens any more."""
        lines = Lines(MAX_LINE)
        stdout = process.stdout
        assert stdout is not None  # noqa: S101 - it was opened as a pipe
        count = 0
        try:
            while chunk := await stdout.read(_CHUNK):
                for line in lines.feed(chunk):
                    if len(line.data) < _MAX_NOTICE and _LIST_CHANGED in line.data:
                        # These may come in thousands, and one is as good as many.
                        self._changed.set()
                        continue
                    message = self._message(line)
                    if message is not None:
                        await _hand_over(into, message)
                    count += 1
                    if count % _BURST == 0:
                        await asyncio.sleep(_REST)
                await asyncio.sleep(0)
        except OSError as error:
            self._tell_once("stdout", f"its stdout cannot be read: {error}")
        finally:
            into.close()
            self._gone.set()

    def _message(self, line: Line) -> SessionMessage | None:
        from mcp.shared.message import SessionMessage
        from mcp_types import INTERNAL_ERROR, ErrorData, JSONRPCError, jsonrpc_message_adapter

        if line.cut:
            self._tell_once("long", f"it sent a line of more than {MAX_LINE:,} bytes, which is dropped")
            answered = _ANSWERED.search(line.data)
            if answered is None or b'"method"' in line.data:
                return None
            error = ErrorData(code=INTERNAL_ERROR, message=f"The answer is larger than {MAX_LINE:,} bytes")
            return SessionMessage(JSONRPCError(jsonrpc="2.0", id=int(answered[1]), error=error))

        if not line.data.strip():
            return None
        try:
            return SessionMessage(jsonrpc_message_adapter.validate_json(line.data, by_name=False))
        except ValueError:
            self._tell_once("bad", "it writes lines to stdout that are no messages; they are dropped")
            return None

    async def _write(
        self,
        process: asyncio.subprocess.Process,
        out_of: MemoryObjectReceiveStream[Any],
        into: MemoryObjectSendStream[Any],
    ) -> None:
        stdin = process.stdin
        assert stdin is not None  # noqa: S101 - it was opened as a pipe
        try:
            async for message in out_of:
                stdin.write(message.message.model_dump_json(by_alias=True, exclude_unset=True).encode() + b"\n")
                await stdin.drain()
        except OSError:
            # It takes nothing any more, so no answer will come either.
            into.close()
            self._gone.set()

    async def _guard(self, group: int) -> None:
        try:
            await self._keeper.watch(group)
        except OSError as error:
            self._tell_once("keeper", f"it would outlive us if we were killed: {error}")

    async def _watch(self, exited: asyncio.Event, into: MemoryObjectSendStream[Any]) -> None:
        """A child that inherited its pipes keeps them open, so that their ends do not tell when the server has gone."""
        await exited.wait()
        await asyncio.sleep(_LAST_LINES)
        into.close()
        self._gone.set()

    async def _drain_stderr(self, process: asyncio.subprocess.Process) -> None:
        """Read stderr to its end, so that the server never blocks on it; its first lines go into the log."""
        lines = Lines(_MAX_STDERR_LINE)
        stderr = process.stderr
        assert stderr is not None  # noqa: S101 - it was opened as a pipe
        logged = 0
        with contextlib.suppress(OSError):
            while chunk := await stderr.read(_CHUNK):
                if logged == MAX_LOGGED_LINES:
                    self._tell_once("stderr", "it writes more to stderr, which is dropped")
                    self._note(chunk[-_MAX_STDERR_LINE:].splitlines())
                    continue
                for line in lines.feed(chunk)[: MAX_LOGGED_LINES - logged]:
                    logged += 1
                    for text in self._note([line.data]):
                        self._log.info("MCP server %s: %s", self._name, text)

    def _note(self, lines: Iterable[bytes]) -> list[str]:
        """Keep the last lines in mind, for the case that they are its last words; the lines made fit to show."""
        texts = [visible_line(line.decode("utf-8", "replace")).strip() for line in lines]
        texts = [text for text in texts if text]
        self._said.extend(texts)
        return texts

    def _tell_once(self, what: str, text: str) -> None:
        if what not in self._told:
            self._told.add(what)
            self._log.warning("MCP server %s: %s", self._name, text)

    async def _end(self) -> None:
        process = self._process
        assert process is not None  # noqa: S101 - entered before it is left
        into, incoming, outgoing, out_of = self._streams
        # Nobody listens any more: what it still writes is read and dropped, so that it can come to its end.
        incoming.close()
        outgoing.close()
        if process.stdin is not None:
            process.stdin.close()
        for seconds, number in zip(_PATIENCE, (signal.SIGTERM, _KILL, None), strict=True):
            if await _ended(process, seconds):
                break
            if number is not None:
                _signal_group(process, number)
        # The first process may be gone and its children not; nobody but us would end them.
        _signal_group(process, signal.SIGTERM)
        if await _group_remains(process, 0.1):
            _signal_group(process, _KILL)
        self._keeper.forget(process.pid)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        into.close()
        out_of.close()
        # A child that left the group can still hold the pipes; the transport would wait for their ends.
        self._transport.close()


class _Watched(asyncio.subprocess.SubprocessStreamProtocol):
    """Tells at once when the process has ended; `Process.wait` waits for the ends of its pipes, too."""

    def __init__(self, limit: int, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(limit=limit, loop=loop)
        self.exited = asyncio.Event()

    def process_exited(self) -> None:
        super().process_exited()
        self.exited.set()


class Line:
    """One line without its end; `cut` where only its beginning was kept."""

    __slots__ = ("cut", "data")

    def __init__(self, data: bytes, *, cut: bool = False) -> None:
        self.data = data
        self.cut = cut


class Lines:
    """Makes lines of chunks. Of a line that is too long the first bytes are kept, and the rest is dropped as it comes.

    Args:
        limit: bytes that a line may have.
    """

    _HEAD = 200

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._parts: list[bytes] = []
        self._size = 0
        self._head: bytes | None = None

    def feed(self, chunk: bytes) -> list[Line]:
        """The lines that `chunk` brings to their end."""
        *ends, rest = chunk.split(b"\n")
        lines = []
        for end in ends:
            self._add(end)
            lines.append(self._line())
        self._add(rest)
        return lines

    def _add(self, part: bytes) -> None:
        if self._head is not None or not part:
            return
        self._parts.append(part)
        self._size += len(part)
        if self._size > self._limit:
            self._head = b"".join(self._parts)[: self._HEAD]
            self._parts = []

    def _line(self) -> Line:
        line = Line(b"".join(self._parts)) if self._head is None else Line(self._head, cut=True)
        self._parts, self._size, self._head = [], 0, None
        return line


_KILL = signal.SIGKILL if sys.platform != "win32" else signal.SIGTERM


async def _hand_over(into: MemoryObjectSendStream[Any], message: SessionMessage) -> None:
    import anyio

    with contextlib.suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
        await into.send(message)


async def _ended(process: asyncio.subprocess.Process, seconds: float) -> bool:
    """Whether the process ends in time. `process.wait` would wait for its pipes too, which a child may hold."""
    loop = asyncio.get_running_loop()
    until = loop.time() + seconds
    while process.returncode is None:
        if loop.time() >= until:
            return False
        await asyncio.sleep(0.01)
    return True


async def _group_remains(process: asyncio.subprocess.Process, seconds: float) -> bool:
    loop = asyncio.get_running_loop()
    until = loop.time() + seconds
    while _signal_group(process, 0):
        if loop.time() >= until:
            return True
        await asyncio.sleep(0.01)
    return False


def _signal_group(process: asyncio.subprocess.Process, number: int) -> bool:
    """Send a signal to the whole group; whether there is anyone left to get it."""
    try:
        if sys.platform == "win32":
            if process.returncode is not None or number == 0:
                return False
            process.kill()
        else:
            os.killpg(process.pid, number)
    except (ProcessLookupError, PermissionError):
        return False
    return True

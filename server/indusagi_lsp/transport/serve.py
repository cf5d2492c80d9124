"""Run a server on a pair of descriptors, from the first byte to the end of the process."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import select
import signal
import sys
import threading
from typing import TYPE_CHECKING, NoReturn, Protocol

import orjson

from indusagi_lsp.transport import parent
from indusagi_lsp.transport.framing import HEADERS, FrameError, Framing
from indusagi_lsp.transport.lifeline import ENDING_SECONDS, SHUTDOWN_SECONDS, Lifeline
from indusagi_lsp.transport.outbox import Outbox, ThreadedOutbox

if TYPE_CHECKING:
    from collections.abc import Sequence

logger = logging.getLogger(__name__)

_READ = 64 << 10
_INBOX_LIMIT = 64 << 20
_FLUSH_SECONDS = 0.5
_TASKS_SECONDS = 0.5


class Control(Protocol):
    """What a server may ask of the byte layer; called on the event loop."""

    def stop(self, code: int) -> None:
        """End the process with `code`. The first call counts."""
        ...

    def watch(self, pid: int) -> None:
        """End with process `pid`, if it can be seen here."""
        ...

    def shutdown_answered(self) -> None:
        """Note that `shutdown` was answered in time."""
        ...


class Served(Protocol):
    """What the byte layer needs of a server. All but `finish` is called on the loop and returns at once."""

    def attach(self, outbox: Outbox, control: Control) -> None:
        """Take what the server needs of the byte layer, once, before anything is received."""
        ...

    def receive(self, item: bytes | FrameError) -> None:
        """Take one message body, or the news that bytes made no sense."""
        ...

    async def finish(self) -> None:
        """End all work, whatever the reason; bounded in time by itself."""
        ...

    @property
    def was_shut_down(self) -> bool:
        """Whether `shutdown` was asked for, so that an end is a good end."""
        ...


def claim_stdio() -> tuple[int, int]:
    """Take the protocol's two descriptors away from everybody else.

    Returns:
        Private copies of stdin and stdout. The public stdin is empty from now on, and the public stdout is
        stderr, so that no `print` and no child process can break the stream or eat a frame.
    """
    reader, writer = os.dup(0), os.dup(1)
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    os.dup2(2, 1)
    sys.stdout = sys.stderr
    return reader, writer


def end(code: int) -> NoReturn:
    """End the process; a negative `code` is a signal to die of, so that the parent sees what it did."""
    if code < 0:
        signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    # A hung thread must not hold the process, and nothing of ours waits for the interpreter's end.
    os._exit(code)


class Session:
    """One client, from its first byte to the end.

    Args:
        server: what answers.
        read_fd: a descriptor that is read until its end.
        write_fd: a descriptor that is written, and closed at the end.
        lifeline: ends the process when nothing else does.
        framing: how messages are told apart.
    """

    def __init__(
        self,
        server: Served,
        read_fd: int,
        write_fd: int,
        lifeline: Lifeline | None = None,
        framing: Framing = HEADERS,
    ) -> None:
        self._server = server
        self._framing = framing
        self._read_fd = read_fd
        self._lifeline = lifeline or Lifeline()
        self._loop = asyncio.new_event_loop()
        self._stopped: asyncio.Future[int] = self._loop.create_future()
        self._outbox = ThreadedOutbox(
            write_fd, lambda: self._end("the client closed its end", None), self._loop.call_soon, framing.frame
        )
        self._inbox = 0
        self._room = threading.Condition()
        self._signal = 0

    def run(self, parent_pid: int | None = None) -> int:
        """Serve until the end.

        Args:
            parent_pid: a process to end with, if it is known before `initialize` says it.

        Returns:
            The exit code: 0 after `shutdown`, else 1; minus the signal's number after SIGTERM; 130 after
            SIGINT. The caller should end the process by `os._exit`, since a hung thread must not hold it.
        """
        self._server.attach(self._outbox, self)
        self._listen_to_signals()
        if parent_pid is not None:
            self.watch(parent_pid)
        threading.Thread(target=self._read, name="lsp-reader", daemon=True).start()
        asyncio.set_event_loop(self._loop)
        code = self._loop.run_until_complete(self._serve())
        self._outbox.close(_FLUSH_SECONDS)
        return -self._signal if self._signal == signal.SIGTERM else code

    def stop(self, code: int) -> None:
        """End with `code`; called on the loop. The first call counts."""
        if not self._stopped.done():
            self._stopped.set_result(code)

    def shutdown_answered(self) -> None:
        """Note that `shutdown` was answered in time."""
        self._lifeline.disarm("shutdown")

    async def _serve(self) -> int:
        code = await self._stopped
        self._lifeline.disarm("shutdown")
        self._lifeline.arm("end", ENDING_SECONDS, code)
        try:
            await self._server.finish()
        except Exception:  # it must not hold the process
            logger.exception("the work did not end as it should")
        # Whoever waited for the same gets to answer.
        await asyncio.sleep(0.01)
        tasks = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=_TASKS_SECONDS)
        return code

    def _end(self, why: str, code: int | None) -> None:
        """End from any thread; without a code, 0 after shutdown, else 1."""
        logger.info("ending: %s", why)
        if code is None:
            code = 0 if self._server.was_shut_down else 1
        self._lifeline.arm("end", ENDING_SECONDS, code)
        with contextlib.suppress(RuntimeError):  # the loop is closed already
            self._loop.call_soon_threadsafe(self.stop, code)

    def watch(self, pid: int) -> None:
        """End with process `pid`, if it can be seen here."""
        parent.watch(pid, lambda: self._end(f"process {pid}, the editor, is gone", None))

    def _listen_to_signals(self) -> None:
        if threading.current_thread() is not threading.main_thread():
            return

        def received(number: int, _frame: object) -> None:
            self._signal = self._signal or number
            self._end(f"signal {number}", 130 if number == signal.SIGINT else 128 + number)

        signal.signal(signal.SIGINT, received)
        signal.signal(signal.SIGTERM, received)

    def _read(self) -> None:
        """Read until the end of input; runs in a thread of its own."""
        frames = self._framing.reader()
        while True:
            try:
                data = os.read(self._read_fd, _READ)
            except BlockingIOError:
                # Input and output are one socket, and writing has made it so.
                select.select([self._read_fd], [], [])
                continue
            except OSError:
                data = b""
            if not data:
                self._end("end of input", None)
                return
            found = frames.feed(data)
            if not found:
                continue
            self._look_ahead(found)
            size = sum(len(item) for item in found if isinstance(item, bytes))
            with self._room:
                # A client that floods waits for us; a message that is larger than the room may come in alone.
                while self._inbox > _INBOX_LIMIT:
                    self._room.wait()
                self._inbox += size
            try:
                self._loop.call_soon_threadsafe(self._deliver, found, size)
            except RuntimeError:  # the loop is closed
                return

    def _look_ahead(self, items: Sequence[bytes | FrameError]) -> None:
        """Start the clock for `shutdown` and `exit` here, since the loop may hang and never see them."""
        for item in items:
            if not isinstance(item, bytes) or len(item) > 512 or not (b'"shutdown"' in item or b'"exit"' in item):
                continue
            try:
                message = orjson.loads(item)
            except orjson.JSONDecodeError:
                continue
            method = message.get("method") if isinstance(message, dict) else None
            if method == "exit":
                self._lifeline.arm("end", ENDING_SECONDS, 0 if self._server.was_shut_down else 1)
            elif method == "shutdown":
                self._lifeline.arm("shutdown", SHUTDOWN_SECONDS, 1)

    def _deliver(self, items: list[bytes | FrameError], size: int) -> None:
        with self._room:
            self._inbox -= size
            self._room.notify()
        for item in items:
            try:
                self._server.receive(item)
            except Exception:  # a bad message must not end the session
                logger.exception("could not handle a message")

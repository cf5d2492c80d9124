"""What leaves: a queue in front of the client, bounded in bytes, that never makes the event loop wait.

A frame that the pipe takes at once is written at once. Everything else goes to a thread. Control messages
(answers, requests) are never dropped. Events are, above a hard limit: their stream then owes the client one
gap message, which goes out when the queue has drained, so that a client learns of the loss although nothing
else may follow.
"""

from __future__ import annotations

import collections
import logging
import os
import select
import socket
import stat
import threading
from typing import TYPE_CHECKING, Protocol

from indusagi_lsp.transport.framing import frame

if TYPE_CHECKING:
    from collections.abc import Callable

logger = logging.getLogger(__name__)

LOW_WATER = 64 << 10
HIGH_WATER = 256 << 10
HARD_LIMIT = 8 << 20
_CHUNK = 64 << 10


class Outbox(Protocol):
    """Where message bodies go."""

    def send(self, body: bytes) -> None:
        """Send a control message; it is never dropped, and the call never waits."""
        ...

    def offer(self, stream: str, body: bytes) -> bool:
        """Send an event of `stream`, or say False when it was not taken; `miss` is then due."""
        ...

    def miss(self, stream: str, gap: bytes) -> None:
        """Owe `stream` the message `gap`, in place of all that it was refused."""
        ...

    def congested(self) -> bool:
        """Whether the client is slow to read."""
        ...

    def close(self, timeout: float) -> None:
        """Write what is queued, for at most `timeout` seconds, and end."""
        ...


class ThreadedOutbox:
    """The outbox of a real client.

    Args:
        fd: a descriptor of our own, which is closed with the outbox.
        on_broken: called once, from any thread, when the client has closed its end.
    """

    def __init__(self, fd: int, on_broken: Callable[[], None] = lambda: None) -> None:
        self._fd = fd
        self._on_broken = on_broken
        self._frames: collections.deque[bytes] = collections.deque()
        self._gaps: dict[str, bytes] = {}
        self._queued = 0
        self._closed = False
        self._broken = False
        self._changed = threading.Condition(threading.Lock())
        self._write_now = self._direct_writer()
        self._thread = threading.Thread(target=self._run, name="lsp-writer", daemon=True)
        self._thread.start()

    def send(self, body: bytes) -> None:
        """Send a control message; it is never dropped, and the call never waits."""
        data = frame(body)
        with self._changed:
            self._put(data)

    def offer(self, stream: str, body: bytes) -> bool:
        """Send an event of `stream`, or say False when it was not taken; `miss` is then due."""
        data = frame(body)
        with self._changed:
            if self._queued + len(data) > HARD_LIMIT or (self._gaps and stream in self._gaps):
                return False
            self._put(data)
            return True

    def miss(self, stream: str, gap: bytes) -> None:
        """Owe `stream` the message `gap`, in place of all that it was refused."""
        with self._changed:
            self._gaps[stream] = gap
            if self._queued < LOW_WATER:
                self._pay_gaps()

    def congested(self) -> bool:
        """Whether the client is slow to read."""
        return self._queued > HIGH_WATER

    @property
    def queued(self) -> int:
        """Bytes that the client has not taken yet."""
        return self._queued

    def close(self, timeout: float) -> None:
        """Write what is queued, for at most `timeout` seconds, and end."""
        with self._changed:
            self._closed = True
            self._changed.notify()
        self._thread.join(timeout)

    def _put(self, data: bytes) -> None:
        """Write or queue a frame; the lock is held."""
        if self._closed or self._broken:
            return
        if self._queued == 0:
            written = self._write_now(data)
            if written == len(data):
                return
            data = data[written:]
        self._frames.append(data)
        self._queued += len(data)
        self._changed.notify()

    def _pay_gaps(self) -> None:
        gaps, self._gaps = self._gaps, {}
        for gap in gaps.values():
            self._put(frame(gap))

    def _direct_writer(self) -> Callable[[bytes], int]:
        """A function that writes as much as the client takes at once, in bytes; it never blocks."""
        mode = os.fstat(self._fd).st_mode
        if stat.S_ISFIFO(mode) and hasattr(select, "poll"):
            poll = select.poll()
            poll.register(self._fd, select.POLLOUT)
            return lambda data: self._write_pipe(data, poll.poll)
        if stat.S_ISSOCK(mode) and hasattr(socket, "MSG_DONTWAIT"):
            # The socket object borrows the descriptor; `detach` keeps it from closing it when it is
            # collected.
            client = socket.socket(fileno=os.dup(self._fd))
            return lambda data: self._write_socket(data, client)
        return lambda _: 0

    def _write_pipe(self, data: bytes, poll: Callable[[int], object]) -> int:
        # A pipe that polls as writable takes PIPE_BUF bytes without blocking.
        if len(data) > select.PIPE_BUF or not poll(0):
            return 0
        try:
            return os.write(self._fd, data)
        except OSError:
            self._break()
            return len(data)

    def _write_socket(self, data: bytes, client: socket.socket) -> int:
        try:
            return client.send(data, socket.MSG_DONTWAIT)
        except BlockingIOError:
            return 0
        except OSError:
            self._break()
            return len(data)

    def _break(self) -> None:
        """Note that the client is gone; the lock is held."""
        if not self._broken:
            self._broken = True
            self._frames.clear()
            self._gaps.clear()
            self._queued = 0
            logger.info("the client has closed its end")
            self._on_broken()

    def _run(self) -> None:
        while True:
            with self._changed:
                while not self._frames and not self._closed:
                    self._changed.wait()
                if not self._frames:
                    break
                batch = b"".join(self._frames)
                self._frames.clear()
            if not self._write_all(batch):
                break
        os.close(self._fd)

    def _write_all(self, batch: bytes) -> bool:
        view = memoryview(batch)
        start = 0
        while start < len(view):
            try:
                written = os.write(self._fd, view[start : start + _CHUNK])
            except OSError:
                with self._changed:
                    self._break()
                return False
            start += written
            with self._changed:
                self._queued -= written
                if self._gaps and self._queued < LOW_WATER:
                    self._pay_gaps()
        return True

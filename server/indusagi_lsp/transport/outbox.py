"""What leaves: a queue in front of the client, bounded in bytes, that never makes the event loop wait.

The first frame of a turn of the event loop is written at once, those that follow in the same turn together at its
end. What the client does not take goes to a thread. Control messages (answers, requests) are never dropped. Events
are, above a hard limit: their stream then owes the client one gap message, which goes out when the queue has drained,
so that a client learns of the loss although nothing else may follow.
"""

from __future__ import annotations

import collections
import logging
import os
import select
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
        framing: how a body is written, `framing.frame` or `framing.line`.
        defer: has a function called at the end of the event loop's turn (`loop.call_soon`); without it every frame is
            written at once. With it, frames may be sent from the loop's thread alone.
    """

    def __init__(
        self,
        fd: int,
        on_broken: Callable[[], None] = lambda: None,
        defer: Callable[[Callable[[], None]], object] | None = None,
        framing: Callable[[bytes], bytes] = frame,
    ) -> None:
        self._fd = fd
        self._frame = framing
        self._defer = defer
        self._deferring = False
        self._busy = False
        self._on_broken = on_broken
        self._frames: collections.deque[bytes] = collections.deque()
        self._gaps: dict[str, bytes] = {}
        self._queued = 0
        self._closed = False
        self._broken = False
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)
        self._direct = _make_non_blocking(fd)
        self._thread = threading.Thread(target=self._run, name="lsp-writer", daemon=True)
        self._thread.start()

    def send(self, body: bytes) -> None:
        """Send a control message; it is never dropped, and the call never waits."""
        data = self._frame(body)
        with self._lock:
            self._put(data)

    def offer(self, stream: str, body: bytes) -> bool:
        """Send an event of `stream`, or say False when it was not taken; `miss` is then due."""
        data = self._frame(body)
        with self._lock:
            if self._busy:
                if self._queued + len(data) > HARD_LIMIT or stream in self._gaps:
                    return False
            elif self._deferring:
                # The usual way of a delta, so it is spelled out here.
                self._frames.append(data)
                self._queued += len(data)
                return True
            self._put(data)
            return True

    def miss(self, stream: str, gap: bytes) -> None:
        """Owe `stream` the message `gap`, in place of all that it was refused."""
        with self._lock:
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
        if self._busy or self._deferring or not self._direct:
            self._frames.append(data)
            self._queued += len(data)
            if not self._deferring:
                self._hand_over()
            return
        if self._defer is not None:
            self._deferring = True
            self._defer(self._flush)
        self._write_now(data)

    def _flush(self) -> None:
        """Write what has come together in this turn of the loop."""
        with self._lock:
            self._deferring = False
            if not self._frames or self._busy or self._closed:
                return
            data = b"".join(self._frames)
            self._frames.clear()
            self._queued -= len(data)
            self._write_now(data)

    def _write_now(self, data: bytes) -> None:
        """Write what the client takes without waiting, and hand the rest to the thread; the lock is held."""
        try:
            written = os.write(self._fd, data)
        except BlockingIOError:
            written = 0
        except OSError:
            self._break()
            return
        if written < len(data):
            self._frames.append(data[written:])
            self._queued += len(data) - written
            self._hand_over()

    def _hand_over(self) -> None:
        if not self._busy:
            self._busy = True
            self._changed.notify()

    def _pay_gaps(self) -> None:
        gaps, self._gaps = self._gaps, {}
        for gap in gaps.values():
            self._put(self._frame(gap))

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
                if not self._frames:
                    self._busy = False
                while not self._busy and not self._closed:
                    self._changed.wait()
                if not self._frames:
                    break
                batch = b"".join(self._frames)
                self._frames.clear()
            if not self._write_all(batch):
                break
        if self._direct:
            # The description may be shared with whoever started us.
            os.set_blocking(self._fd, True)
        os.close(self._fd)

    def _write_all(self, batch: bytes) -> bool:
        view = memoryview(batch)
        start = 0
        while start < len(view):
            try:
                written = os.write(self._fd, view[start : start + _CHUNK])
            except BlockingIOError:
                self._wait_for_room()
                continue
            except OSError:
                with self._lock:
                    self._break()
                return False
            start += written
            with self._lock:
                self._queued -= written
                if self._gaps and self._queued < LOW_WATER:
                    self._pay_gaps()
        return True

    def _wait_for_room(self) -> None:
        poll = select.poll()
        poll.register(self._fd, select.POLLOUT)
        poll.poll()


def _make_non_blocking(fd: int) -> bool:
    """Whether a write to `fd` now gives up at once where it would wait.

    Only for pipes and sockets: a terminal is shared with other programs, and a file never waits.
    """
    mode = os.fstat(fd).st_mode
    if not hasattr(select, "poll") or not (stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)):
        return False
    os.set_blocking(fd, False)
    return True

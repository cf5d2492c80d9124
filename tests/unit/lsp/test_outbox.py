"""The outbox against a pipe that is read, not read, or closed."""

from __future__ import annotations

import asyncio
import os
import socket
import threading
import time

import pytest

from indusagi_lsp.transport.framing import FrameReader, frame
from indusagi_lsp.transport.outbox import HARD_LIMIT, HIGH_WATER, ThreadedOutbox


class Reader:
    """Reads a descriptor in a thread, once it is let."""

    def __init__(self, fd: int) -> None:
        self._frames = FrameReader()
        self.bodies: list = []
        self.go = threading.Event()
        self._fd = fd
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        self.go.wait()
        while data := os.read(self._fd, 1 << 16):
            self.bodies += self._frames.feed(data)
        os.close(self._fd)

    def all(self) -> list:
        self.go.set()
        self._thread.join(20)
        return self.bodies


@pytest.fixture(params=["pipe", "socket"])
def ends(request):
    if request.param == "pipe":
        return os.pipe()
    a, b = socket.socketpair()
    return a.detach(), b.detach()


def test_what_is_sent_arrives_whole_and_in_order(ends):
    reader, outbox = Reader(ends[0]), ThreadedOutbox(ends[1])
    reader.go.set()
    bodies = [b"%d" % number * (1 + number * 37 % 5000) for number in range(1, 2000)]
    for body in bodies:
        outbox.send(body)
    outbox.close(20)
    assert reader.all() == bodies


async def test_one_turn_of_the_loop_is_written_together(ends, monkeypatch):
    writes, write = [], os.write
    monkeypatch.setattr(os, "write", lambda fd, data: (writes.append(fd), write(fd, data))[1])
    reader, outbox = Reader(ends[0]), ThreadedOutbox(ends[1], defer=asyncio.get_running_loop().call_soon)
    reader.go.set()
    bodies = []
    for number in range(500):
        bodies += [b"%d-%d" % (number, part) * 20 for part in range(number % 9)]
        for body in bodies[len(bodies) - number % 9 :]:
            outbox.send(body)
        await asyncio.sleep(0)
    outbox.send(b"last")
    await asyncio.to_thread(outbox.close, 20)
    assert await asyncio.to_thread(reader.all) == [*bodies, b"last"]
    assert writes.count(ends[1]) < 2 * 500 + 50, "one at once, the rest of the turn together, for each of 500 turns"


def test_a_reader_that_stops_costs_neither_time_nor_memory(ends):
    reader, outbox = Reader(ends[0]), ThreadedOutbox(ends[1])
    began, taken, refused = time.monotonic(), 0, 0
    for number in range(20_000):
        if outbox.offer("s", b"%06d" % number + b"x" * 1000):
            taken += 1
        else:
            refused += 1
            outbox.miss("s", b"gap %06d" % number)
    assert time.monotonic() - began < 5
    assert outbox.congested()
    assert outbox.queued <= HARD_LIMIT
    outbox.send(b"control")
    reader.go.set()
    while outbox.queued:
        time.sleep(0.01)
    assert outbox.offer("s", b"after")
    outbox.close(20)
    bodies = reader.all()
    assert refused
    assert len(bodies) == taken + 3
    # The gap stands where the lost events would have been, before anything newer of the same stream.
    assert bodies[-1] == b"after"
    assert b"gap 019999" in bodies[-3:]
    assert b"control" in bodies


def test_other_streams_go_on_beside_a_gap(ends):
    reader, outbox = Reader(ends[0]), ThreadedOutbox(ends[1])
    while outbox.offer("a", b"x" * 100_000):
        pass
    outbox.miss("a", b"gap a")
    assert not outbox.offer("a", b"small")
    assert outbox.offer("b", b"small")
    outbox.close(0)
    assert reader.all()[-2:] == [b"small", b"gap a"] or reader.bodies[-1] == b"small"


@pytest.mark.parametrize("size", [10, HIGH_WATER * 4])
def test_a_client_that_is_gone_is_told_once(ends, size):
    told = []
    outbox = ThreadedOutbox(ends[1], lambda: told.append(1))
    os.close(ends[0])
    for _ in range(10):
        outbox.send(b"x" * size)
        time.sleep(0.01)
    outbox.close(5)
    assert told == [1]
    assert outbox.queued == 0


def test_a_file_is_written_too(tmp_path):
    path = tmp_path / "out"
    outbox = ThreadedOutbox(os.open(path, os.O_WRONLY | os.O_CREAT, 0o600))
    outbox.send(b"one")
    outbox.send(b"two")
    outbox.close(5)
    assert path.read_bytes() == frame(b"one") + frame(b"two")

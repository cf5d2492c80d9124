"""What it costs to send events, and to answer requests, against stock pygls and against a raw write.

Events: the frames go through a pipe to a process that only reads. The CPU is this process's own, all threads.
Requests: both servers run as children and tell their own CPU time, so that the client's does not count.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from benchmarks.harness import Measured, ratios

NAMES = ("forward", "forward_stream", "snapshot", "latency", "requests")

WORKSPACE, SESSION, RUN = "file:///home/user/project", "5f1c9a30b2d84e6f9a7c1d2e3f405162", "run-0001"
DELTA = "sixty bytes of text, as a model may stream them in one piece"
READ = "import os\nwhile os.read(0, 1 << 20): pass"


def run(names: Sequence[str], quick: bool, data: Path | None) -> Iterable[Measured]:
    """Run those of `names`; see the package."""
    del data
    rounds = 5 if quick else 9
    for name in names:
        yield {
            "forward": _forward,
            "forward_stream": _forward_stream,
            "snapshot": _snapshot,
            "latency": _latency,
            "requests": _requests,
        }[name](rounds, quick)


def _forward(rounds: int, quick: bool) -> Measured:
    count = 6_000 if quick else 30_000
    against_raw = ratios(lambda: _ours(_delta, count), lambda: _raw(count), rounds)
    found = ratios(lambda: _stock(_delta_data, count), lambda: _ours(_delta, count), rounds)
    return Measured.of("forward", found, f"{statistics.median(against_raw):.2f} times a raw write (goal: at most 4)")


def _forward_stream(rounds: int, quick: bool) -> Measured:
    count = 6_000 if quick else 30_000
    found = ratios(lambda: _stock(_delta_data, count), lambda: _ours_joined(count), rounds)
    return Measured.of("forward_stream", found, "deltas joined for 8 ms, as the hosts do")


def _snapshot(rounds: int, quick: bool) -> Measured:
    count = 200 if quick else 1500
    event, data = _make_snapshot()
    size = len(json.dumps(data))
    found = ratios(lambda: _stock(lambda _: data, count), lambda: _ours(lambda _: event, count), rounds)
    return Measured.of("snapshot", found, f"{size / 1000:.0f} KB, turns that were sent before")


def _delta(number: int) -> Any:
    from indusagi_lsp.contract.events import TextDelta

    return TextDelta(DELTA)


def _delta_data(number: int) -> Any:
    return {
        "workspace": WORKSPACE,
        "sessionId": SESSION,
        "runId": RUN,
        "seq": number,
        "at": 1_700_000_000_000,
        "event": {"kind": "text_delta", "delta": DELTA},
    }


def _make_snapshot() -> tuple[Any, Any]:
    from indusagi_lsp.contract.events import RunSnapshot, Snapshot
    from indusagi_lsp.contract.turns import TextBlock, ToolCallBlock, Turn
    from indusagi_lsp.protocol.events import event_to_json

    turns = tuple(
        Turn(
            "assistant",
            (TextBlock(DELTA * 12), ToolCallBlock(f"c{n}", "read_file", {"path": f"src/{n}.py", "limit": 200})),
        )
        for n in range(20)
    )
    event = Snapshot(RunSnapshot(RUN, SESSION, "streaming", turns, model="some:model"))
    return event, {**_delta_data(1), "event": event_to_json(event)}


class _Pipe:
    """A pipe to a process that reads it to the end."""

    def __init__(self) -> None:
        self.reader = subprocess.Popen([sys.executable, "-c", READ], stdin=subprocess.PIPE)
        assert self.reader.stdin is not None
        self.fd = os.dup(self.reader.stdin.fileno())
        self.reader.stdin.close()

    def done(self) -> None:
        self.reader.wait()


def _ours(make: Callable[[int], Any], count: int) -> float:
    from indusagi_lsp.lsp.client import ClientFeatures
    from indusagi_lsp.lsp.outlet import ClientOutlet
    from indusagi_lsp.lsp.peer import Peer
    from indusagi_lsp.lsp.progress import ProgressBoard
    from indusagi_lsp.transport.outbox import ThreadedOutbox

    pipe = _Pipe()
    loop = asyncio.new_event_loop()
    outbox = ThreadedOutbox(pipe.fd, defer=loop.call_soon)
    peer = Peer(outbox)
    outlet = ClientOutlet(peer, ProgressBoard(peer, lambda *_: None, str), lambda _: None, 1.0)
    outlet.features = ClientFeatures(events=True)
    events = [make(number) for number in range(min(count, 64))]

    async def publish() -> None:
        for number in range(count):
            outlet.event(WORKSPACE, SESSION, RUN, number, 1_700_000_000_000, events[number % 64 % len(events)])
            if not number % 64:
                await asyncio.sleep(0)
                while outlet.congested():  # noqa: ASYNC110 - a host polls too; there is no event for it
                    await asyncio.sleep(0.005)

    start = time.process_time()
    loop.run_until_complete(publish())
    outbox.close(60)
    spent = time.process_time() - start
    loop.close()
    pipe.done()
    return spent


def _ours_joined(count: int) -> float:
    from indusagi_lsp.contract.clock import SystemClock
    from indusagi_lsp.lsp.client import ClientFeatures
    from indusagi_lsp.lsp.outlet import ClientOutlet
    from indusagi_lsp.lsp.peer import Peer
    from indusagi_lsp.lsp.progress import ProgressBoard
    from indusagi_lsp.transport.outbox import ThreadedOutbox
    from indusagi_lsp.workspace.stream import EventStream

    pipe = _Pipe()
    loop = asyncio.new_event_loop()
    outbox = ThreadedOutbox(pipe.fd, defer=loop.call_soon)
    peer = Peer(outbox)
    outlet = ClientOutlet(peer, ProgressBoard(peer, lambda *_: None, str), lambda _: None, 1.0)
    outlet.features = ClientFeatures(events=True)
    stream = EventStream(outlet, WORKSPACE, SESSION, lambda: RUN, SystemClock())
    event = _delta(0)

    async def publish() -> None:
        for number in range(count):
            stream.on_event(event)
            if not number % 64:
                await asyncio.sleep(0)
        stream.flush()

    start = time.process_time()
    loop.run_until_complete(publish())
    outbox.close(60)
    spent = time.process_time() - start
    loop.close()
    pipe.done()
    return spent


def _stock(make: Callable[[int], Any], count: int) -> float:
    from pygls.io_ import StdoutWriter
    from pygls.lsp.server import LanguageServer

    pipe = _Pipe()
    server = LanguageServer("stock", "1")
    with os.fdopen(pipe.fd, "wb") as stream:
        server.protocol.set_writer(StdoutWriter(stream))
        payloads = [make(number) for number in range(64)]

        async def publish() -> None:
            for number in range(count):
                server.protocol.notify("indusagi/event", payloads[number % 64])
                if not number % 64:
                    await asyncio.sleep(0)

        start = time.process_time()
        asyncio.run(publish())
        spent = time.process_time() - start
    pipe.done()
    return spent


def _raw(count: int) -> float:
    from indusagi_lsp.protocol.events import EventEncoder
    from indusagi_lsp.transport.framing import frame

    pipe = _Pipe()
    data = frame(EventEncoder().notification(WORKSPACE, SESSION, RUN, 1, 1_700_000_000_000, _delta(0)))

    async def publish() -> None:
        for number in range(count):
            os.write(pipe.fd, data)
            if not number % 64:
                await asyncio.sleep(0)

    start = time.process_time()
    asyncio.run(publish())
    spent = time.process_time() - start
    os.close(pipe.fd)
    pipe.done()
    return spent


# --- latency ----------------------------------------------------------------------------------------------------------

STAMP = """
import os, re, sys, time
found = {"raw": [], "ours": []}
while data := os.read(0, 1 << 20):
    now = time.monotonic_ns()
    for run, at in re.findall(rb'"runId":"(raw|ours)","seq":[0-9]+,"at":([0-9]+)', data):
        found[run.decode()].append(now - int(at))
sys.stdout.write(repr(found))
"""


def _latency(rounds: int, quick: bool) -> Measured:
    count = 40 if quick else 200
    found = [_latency_round(count) for _ in range(rounds)]
    micros = statistics.median(ours for _, ours in found) / 1000
    return Measured.of("latency", [ours / raw for raw, ours in found], f"median {micros:.0f} us at 100 events a second")


def _latency_round(count: int) -> tuple[float, float]:
    """Raw writes and our events in turn, through one pipe; the medians in ns."""
    from indusagi_lsp.lsp.client import ClientFeatures
    from indusagi_lsp.lsp.outlet import ClientOutlet
    from indusagi_lsp.lsp.peer import Peer
    from indusagi_lsp.lsp.progress import ProgressBoard
    from indusagi_lsp.protocol.events import EventEncoder
    from indusagi_lsp.transport.framing import frame
    from indusagi_lsp.transport.outbox import ThreadedOutbox

    reader = subprocess.Popen([sys.executable, "-c", STAMP], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert reader.stdin is not None
    raw_fd = os.dup(reader.stdin.fileno())
    loop = asyncio.new_event_loop()
    outbox = ThreadedOutbox(os.dup(reader.stdin.fileno()), defer=loop.call_soon)
    reader.stdin.close()
    peer = Peer(outbox)
    outlet = ClientOutlet(peer, ProgressBoard(peer, lambda *_: None, str), lambda _: None, 1.0)
    outlet.features = ClientFeatures(events=True)
    event = _delta(0)

    async def publish() -> None:
        for number in range(2 * count):
            await asyncio.sleep(0.005)
            if number % 2:
                at = time.monotonic_ns()
                os.write(raw_fd, frame(EventEncoder().notification(WORKSPACE, SESSION, "raw", number, at, event)))
            else:
                outlet.event(WORKSPACE, SESSION, "ours", number, time.monotonic_ns(), event)

    loop.run_until_complete(publish())
    outbox.close(10)
    loop.close()
    os.close(raw_fd)
    assert reader.stdout is not None
    found: dict[str, list[int]] = eval(reader.stdout.read())  # our own child's repr of a dict of numbers
    reader.wait()
    return statistics.median(found["raw"]), statistics.median(found["ours"])


# --- requests ---------------------------------------------------------------------------------------------------------

STOCK_SERVER = """
import time
from pygls.lsp.server import LanguageServer
server = LanguageServer("stock", "1")
@server.feature("indusagi/status")
async def status(params):
    message = repr(time.process_time())
    return {"version": "0", "protocolVersion": 1, "busy": False, "message": message, "kind": "Normal", "workspaces": []}
server.start_io()
"""

OUR_SERVER = """
import time
from indusagi_lsp.lsp import create_server
from indusagi_lsp.protocol.messages import StatusResult
from indusagi_lsp.transport import serve
class Hosts:
    def __init__(self, outlet): pass
    async def configure(self, settings): pass
    async def open_folder(self, uri, name, trusted): pass
    async def shutdown(self): pass
    async def call(self, operation, params):
        message = repr(time.process_time())
        return StatusResult(version="0", protocol_version=1, busy=False, message=message, kind="Normal", workspaces=[])
serve.Session(create_server(hosts_factory=Hosts), *serve.claim_stdio()).run()
"""


def _requests(rounds: int, quick: bool) -> Measured:
    count = 100 if quick else 500
    stock, ours = _Server(STOCK_SERVER), _Server(OUR_SERVER)
    try:
        found = ratios(lambda: stock.cost(count), lambda: ours.cost(count), rounds)
        micros = ours.cost(count) / count * 1e6
    finally:
        stock.end()
        ours.end()
    return Measured.of("requests", found, f"ours: {micros:.0f} us a request")


class _Server:
    """A child that answers `indusagi/status` with its own CPU time."""

    def __init__(self, code: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
        params: dict[str, Any] = {"processId": None, "rootUri": None, "capabilities": {}}
        self._ask("initialize", params)
        self._send({"method": "initialized", "params": {}})
        for _ in range(20):
            self._ask("indusagi/status", {})

    def cost(self, count: int) -> float:
        """CPU seconds for so many requests, one after the other."""
        start = self._cpu()
        for _ in range(count - 1):
            self._ask("indusagi/status", {"workspace": WORKSPACE})
        return self._cpu() - start

    def end(self) -> None:
        self._process.kill()
        self._process.communicate()

    def _cpu(self) -> float:
        return float(self._ask("indusagi/status", {"workspace": WORKSPACE})["result"]["message"])

    def _ask(self, method: str, params: Any) -> Any:
        self._send({"id": 1, "method": method, "params": params})
        assert self._process.stdout is not None
        header = b""
        while not header.endswith(b"\r\n\r\n"):
            header += self._process.stdout.readline()
        length = re.search(rb"Content-Length: (\d+)", header)
        assert length is not None
        return json.loads(self._process.stdout.read(int(length[1])))

    def _send(self, message: dict[str, Any]) -> None:
        body = json.dumps({"jsonrpc": "2.0", **message}).encode()
        assert self._process.stdin is not None
        self._process.stdin.write(b"Content-Length: %d\r\n\r\n%b" % (len(body), body))
        self._process.stdin.flush()

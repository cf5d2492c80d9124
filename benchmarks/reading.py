"""A large session in use: shown through the real server, opened while the event loop goes on, appended to, walked."""

from __future__ import annotations

import asyncio
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.harness import Measured, cpu, ratios
from benchmarks.sessions import KEY, turns, write_log

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

NAMES = ("resume", "gap", "append_flat", "durable", "path")
_AT_ONCE = 16
_SESSIONS = 4


def run(names: Sequence[str], quick: bool, data: Path | None) -> Iterable[Measured]:
    """Run those of `names`; see the package."""
    del data
    count = 20_000 if quick else 100_000
    with tempfile.TemporaryDirectory() as folder:
        home, root = Path(folder, "home"), Path(folder, "ws", ".indusagi", "sessions")
        root.mkdir(parents=True)
        if set(names) & {"resume", "gap", "append_flat"}:
            (home / "state").mkdir(parents=True)
            (home / "state" / "signing.key").write_bytes(KEY)
            write_log(root / "small.jsonl", 1_000)
            write_log(root / "large.jsonl", count)
        if "resume" in names:
            yield _resume(root, home, count, rounds=7 if quick else 15)
        if "gap" in names:
            yield _gap(root, home, count, rounds=5 if quick else 9)
        if "append_flat" in names:
            yield asyncio.run(_append_flat(root, count, rounds=7 if quick else 15))
        if "durable" in names:
            yield asyncio.run(_durable(Path(folder, "durable"), rounds=5 if quick else 11))
        if "path" in names:
            yield _path(100_000 if quick else 1_000_000, rounds=5)


# --- shown ------------------------------------------------------------------------------------------------------------


def _resume(root: Path, home: Path, count: int, rounds: int) -> Measured:
    """The request `indusagi/resume` to the program itself, for sessions that were listed and are not open."""
    if not Path("/proc/self/schedstat").exists():
        return Measured.skipped("resume", "the CPU time of another process is not told here")
    server = _Server(root.parent.parent, home)
    try:
        listed = server.ask("indusagi/session/list", {})["sessions"]
        assert {session["turns"] for session in listed} == {1_000, count}

        def shown(name: str) -> float:
            start = server.cpu()
            for _ in range(10):
                view = server.ask("indusagi/resume", {"sessionId": name})
                assert len(view["turns"]) == 200
                assert view["trusted"]
            return server.cpu() - start

        for name in ("small", "large"):
            shown(name)
        found = ratios(lambda: shown("large"), lambda: shown("small"), rounds)
        start = time.perf_counter()
        shown("large")
        millis = (time.perf_counter() - start) * 100
    finally:
        server.end()
    note = f"the newest 200 turns of {count} nodes, over those of 1,000; {millis:.1f} ms from request to answer"
    return Measured.of("resume", found, note)


class _Server:
    """The language server as an editor starts it, and what it has spent."""

    def __init__(self, folder: Path, home: Path, code: str = "") -> None:
        self._process = subprocess.Popen(
            [sys.executable, *(["-c", code] if code else ["-m", "indusagi_lsp", "--stdio"])],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "INDUSAGI_LSP_HOME": str(home)},
        )
        with suppress(PermissionError):
            # Where it is allowed, what else goes on on a shared machine is kept from standing in the way.
            os.setpriority(os.PRIO_PROCESS, self._process.pid, -15)
        folders = [{"uri": folder.as_uri(), "name": "ws"}]
        self.ask("initialize", {"processId": os.getpid(), "capabilities": {}, "workspaceFolders": folders})
        self._send({"method": "initialized", "params": {}})

    def cpu(self) -> float:
        """CPU seconds of all its threads."""
        spent = 0
        for thread in Path(f"/proc/{self._process.pid}/task").iterdir():
            with suppress(OSError):
                spent += int((thread / "schedstat").read_text().split()[0])
        return spent / 1e9

    def ask(self, method: str, params: Any) -> Any:
        """The result of a request; what comes before the answer is passed over, what is asked of us is declined."""
        self._send({"id": 1, "method": method, "params": params})
        while True:
            message = self._receive()
            if "method" not in message:
                return message["result"]
            if "id" in message:
                self._send({"id": message["id"], "result": None})

    def worst(self) -> float:
        """The longest time that its loop stood still since the last time this was asked, in ms."""
        return float(self.ask("indusagi/status", {})["message"])

    def end(self) -> None:
        self._process.kill()
        self._process.communicate()

    def _receive(self) -> Any:
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


# --- opened -----------------------------------------------------------------------------------------------------------


BEATING = """
import asyncio, os, time
from indusagi_lsp.lsp import create_server
from indusagi_lsp.protocol import operations as o
from indusagi_lsp.protocol.messages import StatusResult
from indusagi_lsp.transport import serve
from indusagi_lsp.workspace.hosts import Hosts
class Beating(Hosts):
    worst, beating = 0.0, None
    def __init__(self, outlet):
        super().__init__(outlet, environ=dict(os.environ))
    async def beat(self):
        last = time.perf_counter()
        while True:
            await asyncio.sleep(0.001)
            now = time.perf_counter()
            self.worst, last = max(self.worst, now - last), now
    async def call(self, operation, params):
        if operation is not o.STATUS:
            return await super().call(operation, params)
        self.beating = self.beating or asyncio.create_task(self.beat())
        message, self.worst = repr(self.worst * 1000), 0.0
        return StatusResult(version="0", protocol_version=1, busy=False, message=message, kind="Normal", workspaces=[])
serve.Session(create_server(hosts_factory=Beating), *serve.claim_stdio()).run()
"""


def _gap(root: Path, home: Path, count: int, rounds: int) -> Measured:
    """How long the server's event loop stands still at most while a session is opened, above what it does when idle.

    A shared machine holds any process up for longer than that now and then, so it is the best round that counts: where
    the loop is held up by what we do, it is so in every one.
    """
    busy: list[float] = []
    idle: list[float] = []
    seconds = 0.0
    for _ in range(rounds):
        server = _Server(root.parent.parent, home, BEATING)
        try:
            server.ask("indusagi/session/list", {})
            for name in ("small", "large"):
                # What is imported at the first opening of any session is not what is measured here.
                head = server.ask("indusagi/resume", {"sessionId": name})["head"]
                if name == "small":
                    server.ask("indusagi/resume", {"sessionId": name, "before": head})
            server.worst()
            start = time.perf_counter()
            server.ask("indusagi/resume", {"sessionId": "large", "before": head})
            seconds = time.perf_counter() - start
            busy.append(server.worst())
            time.sleep(seconds)
            idle.append(server.worst())
        finally:
            server.end()
    spread = Measured.of("gap", busy)
    note = f"ms above idle while {count} nodes are opened, in {seconds:.1f} s; the best of {rounds} rounds"
    return Measured("gap", min(busy) - min(idle), spread.low, spread.high, note)


# --- appended to ------------------------------------------------------------------------------------------------------


async def _append_flat(root: Path, count: int, rounds: int) -> Measured:
    from indusagi_lsp.sessions import SessionStore, Signer

    store = SessionStore(root, signer=Signer(KEY))
    said = list(turns(300))
    large, small = await store.open("large"), await store.open("small")
    found = ratios(
        lambda: cpu(lambda: [large.append_now([turn]) for turn in said]),
        lambda: cpu(lambda: [small.append_now([turn]) for turn in said]),
        rounds,
    )
    await store.close()
    return Measured.of("append_flat", found, f"an append to a session of {count} nodes, over one to a session of 1,000")


async def _durable(root: Path, rounds: int) -> Measured:
    """How often the disk is asked to sync, per append that is acknowledged only then; the clock, over one by one."""
    from indusagi_lsp.contract.turns import user
    from indusagi_lsp.sessions import SessionStore, Signer
    from indusagi_lsp.sessions.oscalls import OsCalls

    class Counted(OsCalls):
        synced = 0

        def datasync(self, fd: int) -> None:
            Counted.synced += 1
            super().datasync(fd)

    store = SessionStore(root, signer=Signer(KEY), calls=Counted())
    sessions = [await store.create(cwd="file:///w", session_id=f"s{number}") for number in range(_SESSIONS)]
    fds = [os.open(root / f"plain{number}", os.O_WRONLY | os.O_APPEND | os.O_CREAT) for number in range(_SESSIONS)]
    total = _SESSIONS * _AT_ONCE

    async def ours() -> float:
        start = time.perf_counter()
        appends = [session.append([user(str(n))], durable=True) for n in range(_AT_ONCE) for session in sessions]
        await asyncio.gather(*appends)
        return time.perf_counter() - start

    def plain() -> float:
        start = time.perf_counter()
        for _ in range(_AT_ONCE):
            for fd in fds:
                os.write(fd, b"x" * 400)
                os.fdatasync(fd)
        return time.perf_counter() - start

    await ours()
    found: list[float] = []
    times: list[float] = []
    for _ in range(rounds):
        Counted.synced = 0
        times.append(await ours() / plain())
        found.append(Counted.synced / total)
    for fd in fds:
        os.close(fd)
    await store.close()
    note = f"{total} appends at once in {_SESSIONS} sessions; by the clock {statistics.median(times):.2f}"
    return Measured.of("durable", found, note)


# --- walked -----------------------------------------------------------------------------------------------------------


def _path(count: int, rounds: int) -> Measured:
    """The path to the leaf of a chain, over that of a tenth as many nodes."""
    from indusagi_lsp.sessions.graph import SessionGraph

    def chain(length: int) -> SessionGraph:
        graph = SessionGraph("chain")
        for batch in _batches(length):
            graph.extend(batch)
        return graph

    large, small = chain(count), chain(count // 10)

    def walk(graph: SessionGraph, length: int, times: int) -> float:
        last = f"{length - 1:032x}"
        assert len(graph.ids_to(last)) == length
        return cpu(lambda: [graph.ids_to(last) for _ in range(times)]) / times

    found = ratios(lambda: walk(large, count, 1), lambda: walk(small, count // 10, 5), rounds)
    millis = walk(large, count, 1) * 1000
    return Measured.of("path", found, f"{count} nodes in {millis:.0f} ms, over a tenth of them; linear is 10")


def _batches(length: int) -> Iterator[Any]:
    from indusagi_lsp.sessions.graph import Columns

    for start in range(0, length, 2_048):
        columns = Columns()
        for at in range(start, min(start + 2_048, length)):
            columns.ids.append(f"{at:032x}")
            columns.parents.append(f"{at - 1:032x}" if at else None)
            columns.offsets.append(at * 100)
            columns.lengths.append(99)
            columns.verified.append(1)
        yield columns

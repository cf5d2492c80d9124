"""Many at once: 50 sessions with runs, three tools and a file that each of them writes.

Every session asks for two readings and one writing at once, and then answers in words, at the pace of a model that is
quick (50 pieces a second); another process writes into the same sessions meanwhile. Events are measured where a client
sees them, behind the pipe of a real server, from their making to their arrival; the lag of the event loop in the loop
itself, with the hosts in this process. Both are given as the share of what they may take. An idle loop beside the
client says what the machine itself adds.
"""

from __future__ import annotations

import asyncio
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.harness import Measured

if TYPE_CHECKING:
    from indusagi_lsp.contract.events import RunEvent

NAMES = ("crowd_events", "crowd_lag")

SESSIONS = 50
EVENT_MS, LAG_MS = 250.0, 50.0
"""What the slowest of a hundred may take."""

ASK_SECONDS = 0.02
LOOK_SECONDS = 0.005
OTHER_WINDOW = """
import asyncio, sys, time
from pathlib import Path
from indusagi_lsp.contract.turns import user
from indusagi_lsp.sessions import SessionStore, Signer, load_key

async def main(root, state, sessions):
    store = SessionStore(Path(root), signer=Signer(load_key(Path(state))))
    opened = [await store.open(session) for session in sessions]
    print("ready", flush=True)
    number = 0
    while True:
        for session in opened:
            number += 1
            await session.update(title=f"Title {number}")
            await asyncio.sleep(0.02)

asyncio.run(main(sys.argv[1], sys.argv[2], sys.argv[3:]))
"""


def run(names: Sequence[str], quick: bool, data: Path | None) -> Iterable[Measured]:
    """Run those of `names`; see the package."""
    del data
    prompts = 2 if quick else 10
    if "crowd_events" in names:
        events, answers, idle = asyncio.run(_crowd(prompts))
        note = f"{len(events)} events; a small question {_p99(answers):.0f} ms, an idle loop {_p99(idle):.0f} ms"
        yield _measured("crowd_events", events, EVENT_MS, note)
    if "crowd_lag" in names:
        lag = asyncio.run(_inside(prompts))
        yield _measured("crowd_lag", lag, LAG_MS, f"{len(lag)} looks")


def _measured(name: str, found: list[float], limit: float, note: str) -> Measured:
    share = [value / limit for value in found]
    return Measured(name, _p99(share), min(share), max(share), f"p99 {_p99(found):.0f} ms, {SESSIONS} sessions; {note}")


def _p99(values: list[float]) -> float:
    return statistics.quantiles(values, n=100)[98]


async def _crowd(prompts: int) -> tuple[list[float], list[float], list[float]]:
    with tempfile.TemporaryDirectory() as name:
        client = await _Client.start(Path(name))
        try:
            return await client.measure(prompts)
        finally:
            await client.end()


async def _inside(prompts: int) -> list[float]:
    """The lag of the loop that the hosts are in, in milliseconds."""
    from indusagi_lsp.protocol import messages as m
    from indusagi_lsp.protocol import operations as o
    from indusagi_lsp.workspace.hosts import Hosts

    lag: list[float] = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        hosts = Hosts(_Outlet(), environ=_prepared(folder))
        await hosts.configure({"approvals": "acceptEdits"})
        await hosts.open_folder((folder / "ws").as_uri(), "ws", trusted=True)
        made: list[Any] = [await hosts.call(o.SESSION_NEW, m.SessionNewParams()) for _ in range(SESSIONS)]
        sessions: list[str] = [info.id for info in made]

        async def talk(session: str) -> None:
            for number in range(prompts):
                await hosts.call(o.SUBMIT, m.SubmitParams(session_id=session, text=f"{number}"))

        looking = asyncio.create_task(_lag(lag, LOOK_SECONDS))
        await asyncio.gather(*map(talk, sessions))
        looking.cancel()
        await hosts.shutdown()
    return lag


class _Outlet:
    """Encodes every event, as for a client, and lets it go."""

    def __init__(self) -> None:
        from indusagi_lsp.protocol.events import EventEncoder

        self._encoder = EventEncoder()

    def event(self, workspace: str, session_id: str, run_id: str, seq: int, at: int, event: RunEvent) -> None:
        self._encoder.notification(workspace, session_id, run_id, seq, at, event)

    def congested(self) -> bool:
        return False

    def open_documents(self) -> list[str]:
        return []

    def document(self, _: str) -> None:
        return None

    def __getattr__(self, _: str) -> Any:
        return lambda *_: None


def _prepared(folder: Path) -> dict[str, str]:
    """Make a workspace and a model that is told what to say; the environment of a user who has both."""
    workspace, script = folder / "ws", folder / "script.json"
    workspace.mkdir()
    (workspace / "a.txt").write_text("hello\n" * 200)
    script.write_text(json.dumps({"replies": _replies(), "loop": True}))
    return {**os.environ, "INDUSAGI_LSP_HOME": str(folder / "home"), "INDUSAGI_SCRIPTED_MODEL": str(script)}


class _Client:
    """A client that notes when each message came."""

    def __init__(self, process: asyncio.subprocess.Process, folder: Path) -> None:
        self.process = process
        self.folder = folder
        self.events: list[float] = []
        self._waiting: dict[int, asyncio.Future[Any]] = {}
        self._number = 0
        self._reading = asyncio.create_task(self._read())

    @classmethod
    async def start(cls, folder: Path) -> _Client:
        """Start a server in a folder of its own."""
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "indusagi_lsp", "--stdio"),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            env=_prepared(folder),
        )
        self = cls(process, folder)
        await self.ask(
            "initialize",
            processId=os.getpid(),
            rootUri=None,
            workspaceFolders=[{"uri": (folder / "ws").as_uri(), "name": "ws"}],
            capabilities={"experimental": {"indusagi": {"events": True, "approvals": True}}},
            initializationOptions={"trusted": True, "approvals": "acceptEdits"},
        )
        self._send({"method": "initialized", "params": {}})
        return self

    async def measure(self, prompts: int) -> tuple[list[float], list[float], list[float]]:
        """Let all sessions talk at once; milliseconds of events, of answers, and of an idle loop."""
        workspace = (self.folder / "ws").as_uri()
        made = [await self.ask("indusagi/session/new", workspace=workspace) for _ in range(SESSIONS)]
        sessions = [one["id"] for one in made]
        writer = await asyncio.create_subprocess_exec(
            *(sys.executable, "-c", OTHER_WINDOW, str(self.folder / "ws/.indusagi/sessions")),
            *(str(self.folder / "home/state"), *sessions),
            stdout=asyncio.subprocess.PIPE,
        )
        assert writer.stdout is not None
        await writer.stdout.readline()
        self.events.clear()
        answers: list[float] = []
        idle: list[float] = []
        looking = [asyncio.create_task(self._look(workspace, answers)), asyncio.create_task(_lag(idle, ASK_SECONDS))]

        async def talk(session: str) -> None:
            for number in range(prompts):
                final = await self.ask("indusagi/submit", sessionId=session, workspace=workspace, text=f"{number}")
                assert final["phase"] == "settled", final["error"]

        await asyncio.gather(*map(talk, sessions))
        for task in looking:
            task.cancel()
        writer.kill()
        await writer.wait()
        return self.events, answers, idle

    async def ask(self, method: str, **params: Any) -> Any:
        """Send a request; its result."""
        self._number += 1
        answer = self._waiting[self._number] = asyncio.get_running_loop().create_future()
        self._send({"id": self._number, "method": method, "params": params})
        return await answer

    async def end(self) -> None:
        """End the server."""
        await self.ask("shutdown")
        self._send({"method": "exit"})
        await self.process.wait()
        await self._reading

    async def _look(self, workspace: str, answers: list[float]) -> None:
        while True:
            started = time.perf_counter()
            await self.ask("indusagi/status", workspace=workspace)
            answers.append((time.perf_counter() - started) * 1000)
            await asyncio.sleep(ASK_SECONDS)

    def _send(self, message: dict[str, Any]) -> None:
        body = json.dumps({"jsonrpc": "2.0", **message}).encode()
        assert self.process.stdin is not None
        self.process.stdin.write(b"Content-Length: %d\r\n\r\n%b" % (len(body), body))

    async def _read(self) -> None:
        stream = self.process.stdout
        assert stream is not None
        while head := await stream.readline():
            while (await stream.readline()).strip():
                pass
            body = await stream.readexactly(int(head.split(b":")[1]))
            now = time.time() * 1000
            message = json.loads(body)
            if message.get("method") == "indusagi/event":
                self.events.append(now - message["params"]["at"])
            elif "method" not in message:
                answer = self._waiting.pop(message["id"])
                if "error" in message:
                    answer.set_exception(RuntimeError(message["error"]["message"]))
                else:
                    answer.set_result(message["result"])
            elif "id" in message:
                self._send({"id": message["id"], "result": None})


async def _lag(found: list[float], seconds: float) -> None:
    """How late a loop wakes, in milliseconds, looked at again and again."""
    while True:
        started = time.perf_counter()
        await asyncio.sleep(seconds)
        found.append((time.perf_counter() - started - seconds) * 1000)


def _replies() -> list[dict[str, Any]]:
    """What the model says, in turn, to whoever asks: calls of three tools, or words."""
    calls = [
        {"name": "read_file", "input": {"path": "a.txt"}},
        {"name": "list_files", "input": {}},
        {"name": "write_file", "input": {"path": "made.txt", "content": "written\n"}},
    ]
    words = {"text": "An answer of some length, piece by piece. " * 8, "pace": 0.02, "chunk": 16}
    return [{"calls": calls, "pace": 0.02}, words]

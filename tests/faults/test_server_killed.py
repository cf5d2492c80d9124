"""The real server, talked to as an editor does, is killed at random moments while it writes several sessions."""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from faults import logs

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="there is no fork and no SIGKILL")

HERE = Path(__file__).parent
SESSIONS = 20
"""How many sessions are written at once: one kill tears that many."""

SAID = "It lists."


class Editor:
    """A raw client of one server."""

    def __init__(self, wire: socket.socket) -> None:
        self._wire = wire
        self._wire.settimeout(60)
        self._read = wire.makefile("rb")
        self.persisted: dict[str, list[str]] = {}

    def send(self, **message: Any) -> None:
        body = json.dumps({"jsonrpc": "2.0", **message}).encode()
        self._wire.sendall(b"Content-Length: %d\r\n\r\n%b" % (len(body), body))

    def receive(self) -> dict[str, Any] | None:
        """The next message; None at the end. Notes what the server says to be on the disk."""
        size = 0
        try:
            while (line := self._read.readline()) not in (b"\r\n", b""):
                if line.lower().startswith(b"content-length:"):
                    size = int(line.split(b":")[1])
            body = self._read.read(size)
        except ConnectionError:
            return None
        if not line or len(body) < size:
            return None
        message = json.loads(body)
        if message.get("method") == "indusagi/event" and message["params"]["event"]["kind"] == "persisted":
            self.persisted.setdefault(message["params"]["sessionId"], []).append(message["params"]["event"]["node"])
        elif "id" in message and "method" in message:
            self.send(id=message["id"], result=None)
        return message

    def answer(self, number: int) -> Any:
        """The result of a request."""
        while (message := self.receive()) is not None:
            if message.get("id") == number and "method" not in message:
                assert "error" not in message, message
                return message["result"]
        raise AssertionError("the server has ended")

    def close(self) -> None:
        self._read.close()
        self._wire.close()


class Servers:
    """Makes servers; see `server_forker`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "ws").mkdir()
        script = {"replies": [{"text": SAID, "calls": [{"name": "list_files", "input": {}}], "repeat": True}]}
        (folder / "script.json").write_text(json.dumps(script), "utf-8")
        self.process = subprocess.Popen(
            [sys.executable, str(HERE / "server_forker.py")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={
                **os.environ,
                "INDUSAGI_SCRIPTED_MODEL": str(folder / "script.json"),
                "INDUSAGI_LSP_HOME": str(folder / "home"),
            },
        )
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(folder / "wire"))
        self._listener.listen()
        self._listener.settimeout(60)

    def start(self) -> tuple[int, Editor]:
        order = {"socket": str(self.folder / "wire"), "folder": str(self.folder)}
        self.process.stdin.write(json.dumps(order) + "\n")
        self.process.stdin.flush()
        child = int(self.process.stdout.readline())
        editor = Editor(self._listener.accept()[0])
        editor.send(
            id=0,
            method="initialize",
            params={
                "processId": os.getpid(),
                "rootUri": None,
                "capabilities": {"experimental": {"indusagi": {"events": True, "approvals": True}}},
                "workspaceFolders": [{"uri": (self.folder / "ws").as_uri(), "name": "ws"}],
                "initializationOptions": {"trusted": True},
            },
        )
        editor.answer(0)
        editor.send(method="initialized", params={})
        return child, editor

    def wait(self) -> None:
        assert self.process.stdout.readline() == "dead\n"

    def close(self) -> None:
        self.process.stdin.close()
        self.process.wait(60)
        self.process.stdout.close()
        self._listener.close()


@pytest.fixture
def servers(tmp_path: Path) -> Iterator[Servers]:
    made = Servers(tmp_path)
    yield made
    made.close()


@pytest.mark.timeout(3_600 if logs.LONG else 300)
def test_the_server_is_killed_while_it_writes(servers: Servers) -> None:
    root = servers.folder / "ws" / ".indusagi" / "sessions"
    maker = random.Random(13)
    acknowledged: dict[str, list[str]] = {}
    for number in range(250 if logs.LONG else 15):
        child, editor = servers.start()
        try:
            names = list(acknowledged)[-SESSIONS:] if number % 5 else []
            for at in range(SESSIONS - len(names)):
                editor.send(id=100 + at, method="indusagi/session/new", params={})
                names.append(editor.answer(100 + at)["id"])
                acknowledged[names[-1]] = []
            for at, name in enumerate(names):
                editor.send(
                    id=200 + at, method="indusagi/submit", params={"sessionId": name, "text": f"prompt {number}"}
                )
            while not editor.persisted:
                assert editor.receive() is not None
            time.sleep(maker.random() * 0.3)
        finally:
            os.kill(child, signal.SIGKILL)
            servers.wait()
        with contextlib.suppress(json.JSONDecodeError, ConnectionError):
            # What was on its way was acknowledged too.
            while editor.receive() is not None:
                pass
        editor.close()
        for name, nodes in editor.persisted.items():
            acknowledged[name] += nodes
        for name in names:
            check(root, name, acknowledged[name])
    for name, nodes in acknowledged.items():
        node = logs.append_one(root, "prompt after it all", name)
        check(root, name, [*nodes, node])
        assert logs.read(root, name).report.clean
    assert {path.name for path in servers.folder.iterdir()} == {"ws", "home", "script.json", "wire", "server.log"}
    assert {path.name for path in (servers.folder / "ws").iterdir()} == {".indusagi"}
    assert sum(map(len, acknowledged.values())) > 15


def check(root: Path, name: str, acknowledged: list[str]) -> None:
    """The oracle: what was acknowledged is there and on the live path, and nothing that nobody said."""
    state = logs.read(root, name)
    said = logs.contents(state)
    assert set(acknowledged) <= set(said), name
    assert set(state.report.counts) <= {"torn"}, name
    for turn in said.values():
        if turn.role == "user":
            assert turn.text.startswith("prompt ")
        elif turn.role == "assistant":
            assert turn.text == SAID
    assert set(acknowledged) <= set(state.graph.ids_to(state.graph.leaf)), name

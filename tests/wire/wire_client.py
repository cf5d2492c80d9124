"""A raw client for what client libraries cannot send: broken frames, and deaths at the wrong moment."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Any

FAKE = (sys.executable, str(Path(__file__).with_name("fake_server.py")))
REAL = (sys.executable, "-m", "indusagi_lsp", "--stdio")
OURS = {"experimental": {"indusagi": {"events": True, "approvals": True}}}


class WireClient:
    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self.seen: list[Any] = []

    @classmethod
    async def start(cls, command: tuple[str, ...] = FAKE, **env: str) -> WireClient:
        process = await asyncio.create_subprocess_exec(
            *command,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env={**os.environ, **env},
            limit=1 << 16,
        )
        return cls(process)

    def raw(self, data: bytes) -> None:
        self.process.stdin.write(data)

    def body(self, body: bytes) -> None:
        self.raw(b"Content-Length: %d\r\n\r\n%b" % (len(body), body))

    def send(self, **message: Any) -> None:
        self.body(json.dumps({"jsonrpc": "2.0", **message}, ensure_ascii=False).encode())

    def submit(self, msg_id: Any, text: str, **more: Any) -> None:
        self.send(id=msg_id, method="indusagi/submit", params={"sessionId": "s", "text": text, **more})

    async def receive(self, limit: float = 10) -> Any:
        async with asyncio.timeout(limit):
            headers = (await self.process.stdout.readuntil(b"\r\n\r\n")).decode("ascii")
            fields = dict(line.split(": ", 1) for line in headers.strip().split("\r\n"))
            message = json.loads(await self.process.stdout.readexactly(int(fields["Content-Length"])))
        self.seen.append(message)
        return message

    async def response(self, msg_id: Any, limit: float = 10) -> Any:
        """The answer to a request; what comes before it is kept in `seen`."""
        while True:
            message = await self.receive(limit)
            if message.get("id") == msg_id and "method" not in message:
                return message

    async def until(self, method: str, limit: float = 10) -> Any:
        """The next message with this method."""
        while (message := await self.receive(limit)).get("method") != method:
            pass
        return message

    def events(self, kind: str | None = None) -> list[Any]:
        """The run events seen so far."""
        found = [m["params"]["event"] for m in self.seen if m.get("method") == "indusagi/event"]
        return [event for event in found if kind in (None, event["kind"])]

    async def initialize(self, capabilities: Any = OURS, limit: float = 10, **params: Any) -> Any:
        self.send(
            id=0,
            method="initialize",
            params={
                "processId": os.getpid(),
                "rootUri": None,
                "capabilities": capabilities,
                "workspaceFolders": [{"uri": "file:///tmp/ws", "name": "ws"}],
                **params,
            },
        )
        answer = await self.response(0, limit)
        self.send(method="initialized", params={})
        return answer

    async def exit_code(self, limit: float = 5) -> int:
        async with asyncio.timeout(limit):
            return await self.process.wait()

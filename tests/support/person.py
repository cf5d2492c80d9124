"""A person at the real server: says things, allows what is asked, and looks at what came of it."""

from __future__ import annotations

import asyncio
import contextlib
import json
import signal
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from wire.wire_client import REAL, WireClient

PATIENCE = 60.0
"""Seconds that anything may take on a slow machine before the test gives up."""


class Person:
    """One server over its pipes, in one trusted folder.

    Attributes:
        folder: the workspace.
        events: what the server told of runs, in order; `session` says of which.
        asked: the actions that it asked about.
        decide: gives the answer to such a question; None leaves it open.
    """

    def __init__(self, wire: WireClient, folder: Path) -> None:
        self.wire = wire
        self.folder = folder
        self.events: list[dict[str, Any]] = []
        self.asked: list[dict[str, Any]] = []
        self.decide: Callable[[dict[str, Any]], str | None] = lambda _: "once"
        self._waiting: dict[int, asyncio.Future[Any]] = {}
        self._watching: list[tuple[Callable[[dict[str, Any]], bool], asyncio.Event]] = []
        self._number = 0
        self._listening = asyncio.create_task(self._listen())

    @classmethod
    async def arrive(
        cls, folder: Path, home: Path, *arguments: str, script: Sequence[Any] | None = None, **environment: str
    ) -> Person:
        """Start a server.

        Args:
            folder: the workspace.
            home: the user's own folder.
            *arguments: of the command line.
            script: what a scripted model says; without it the environment decides which model answers.
            **environment: further variables.
        """
        home.mkdir(exist_ok=True)
        if script is not None:
            path = home / "script.json"
            said = [{"text": reply} if isinstance(reply, str) else reply for reply in script]
            path.write_text(json.dumps({"replies": said}), "utf-8")
            environment["INDUSAGI_SCRIPTED_MODEL"] = str(path)
        wire = await WireClient.start((*REAL, *arguments), INDUSAGI_LSP_HOME=str(home), **environment)
        try:
            await wire.initialize(
                limit=PATIENCE,
                workspaceFolders=[{"uri": folder.as_uri(), "name": folder.name}],
                initializationOptions={"trusted": True},
            )
        except BaseException:
            wire.process.kill()
            raise
        return cls(wire, folder)

    async def call(self, name: str, *, limit: float = PATIENCE, **params: Any) -> Any:
        """Ask for an operation, within `limit` seconds; its result, or the error's message as an exception."""
        self._number += 1
        answer = self._waiting[self._number] = asyncio.get_running_loop().create_future()
        self.wire.send(id=self._number, method=f"indusagi/{name}", params={"workspace": self.folder.as_uri(), **params})
        async with asyncio.timeout(limit):
            return await answer

    async def say(self, session: str, text: str, **params: Any) -> Any:
        """Say something, and wait for the end of the run; its snapshot."""
        return await self.call("submit", sessionId=session, text=text, **params)

    async def seen(self, wanted: Callable[[dict[str, Any]], bool]) -> None:
        """Wait until an event, of those that came already too, is the wanted one."""
        if any(map(wanted, self.events)):
            return
        watch = (wanted, asyncio.Event())
        self._watching.append(watch)
        async with asyncio.timeout(PATIENCE):
            await watch[1].wait()

    async def leave(self) -> int:
        """End the server as an editor does; its exit code."""
        self._number += 1
        answer = self._waiting[self._number] = asyncio.get_running_loop().create_future()
        self.wire.send(id=self._number, method="shutdown")
        async with asyncio.timeout(PATIENCE):
            await answer
            self.wire.send(method="exit")
            code = await self.wire.process.wait()
        await self._gone()
        return code

    async def kill(self) -> None:
        """kill -9."""
        self.wire.process.send_signal(signal.SIGKILL)
        await self._gone()

    async def _gone(self) -> None:
        await self.wire.process.wait()
        await asyncio.wait({self._listening})
        with contextlib.suppress(OSError):
            self.wire.process.stdin.close()

    async def _listen(self) -> None:
        try:
            while True:
                self._take(await self.wire.receive(limit=3_600))
        except (asyncio.IncompleteReadError, ConnectionError, OSError):
            for answer in self._waiting.values():
                if not answer.done():
                    answer.cancel()

    def _take(self, message: dict[str, Any]) -> None:
        method, number, params = message.get("method"), message.get("id"), message.get("params")
        if method is None:
            answer = self._waiting.pop(number, None)
            if answer is None or answer.done():
                return
            if "error" in message:
                answer.set_exception(RuntimeError(message["error"]["message"]))
            else:
                answer.set_result(message["result"])
        elif method == "indusagi/event":
            told = {**params["event"], "session": params["sessionId"]}
            self.events.append(told)
            for wanted, event in self._watching:
                if wanted(told):
                    event.set()
        elif method == "indusagi/approve":
            self.asked.append(params)
            if (decision := self.decide(params)) is not None:
                self.wire.send(id=number, result={"decision": decision})
        elif number is not None:
            self.wire.send(id=number, result=None)

"""A workspace with a session graph and a file history, and an agent that is played by the test."""

from __future__ import annotations

import asyncio
import itertools
from pathlib import Path

from indusagi_lsp.contract.turns import ASSISTANT, TOOL, TextBlock, ToolCallBlock, ToolResultBlock, Turn, user
from indusagi_lsp.filehistory import FileHistory, Limits, Lineage, Member
from indusagi_lsp.sessions import SessionGraph, Signer
from indusagi_lsp.tools import PathGuard
from indusagi_lsp.tools.writing import look, put, remove

KEY = Signer(b"k" * 32)


class Ticking:
    """Time that moves by one millisecond at each look."""

    def __init__(self) -> None:
        self._ticks = itertools.count(1_700_000_000_000)

    def now_ms(self) -> int:
        return next(self._ticks)

    def monotonic(self) -> float:
        return next(self._ticks) / 1000


class Played:
    """One session whose agent edits what the test says.

    Attributes:
        graph: the conversation.
        condensations: its condense records.
    """

    def __init__(self, root: Path, *, session: str = "s1", clock: Ticking | None = None, **options: object) -> None:
        self.root = root
        self.clock = clock or Ticking()
        self.guard = PathGuard(root)
        self.documents: dict[str, str] = {}
        self.history = FileHistory(
            self.guard,
            root / ".indusagi/files",
            KEY.seal,
            document=self.documents.get,
            clock=self.clock,
            limits=options.pop("limits", None) or Limits(),
        )
        self.graph = SessionGraph(session, clock=self.clock)
        self.condensations: list[dict[str, object]] = []
        self._calls = itertools.count(1)

    @property
    def lineage(self) -> Lineage:
        return Lineage([Member(self.graph, self.condensations)])

    def say(self, text: str = "go on") -> str:
        return self.graph.append(user(text)).id

    def call(self) -> str:
        """A turn with one tool call; gives the call's id."""
        call = f"call-{next(self._calls)}"
        self.graph.append(Turn(ASSISTANT, (ToolCallBlock(call, "edit", {}),)))
        return call

    def result(self, call: str) -> str:
        return self.graph.append(Turn(TOOL, (ToolResultBlock(call, "done"),))).id

    async def edit(self, files: dict[str, bytes | None]) -> str:
        """The agent changes files in one call, as its tools do; gives the node after it."""
        call = self.call()
        change = await self.history.before(files, self.graph.session_id, call)
        for path, data in files.items():
            seen = look(self.guard, path)
            if data is None:
                remove(self.guard, seen)
            else:
                put(self.guard, seen, data)
        await self.history.after(change, done=True)
        return self.result(call)

    async def command(self, run) -> str:
        """The agent runs a command that does what `run` does."""
        call = self.call()
        name = await self.history.command_starts(self.graph.session_id, call)
        await asyncio.to_thread(run)
        self.changed = await self.history.command_ended(name)
        return self.result(call)

    async def plan(self, node: str | None):
        return await self.history.plan_restore(self.lineage, node)

    async def restore(self, node: str | None, **choices: str):
        return await self.history.apply(await self.plan(node), choices)

    def note(self, text: str) -> str:
        return self.graph.append(Turn(ASSISTANT, (TextBlock(text),))).id

    def write(self, path: str, data: bytes | str) -> None:
        """The user writes a file."""
        target = self.root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(data.encode() if isinstance(data, str) else data)

    def read(self, path: str) -> bytes | None:
        try:
            return (self.root / path).read_bytes()
        except FileNotFoundError:
            return None


def tree(root: Path) -> dict[str, tuple[bytes, int]]:
    """Every file of the workspace that is the user's, with its mode."""
    return {
        path.relative_to(root).as_posix(): (path.read_bytes(), path.stat().st_mode & 0o777)
        for path in sorted(root.rglob("*"))
        if path.is_file() and not path.is_symlink() and ".indusagi" not in path.parts
    }

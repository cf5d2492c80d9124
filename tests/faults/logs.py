"""Logs to break, the quick way to read one, and the oracle.

The oracle of every fault: what was acknowledged is readable and identical; what was never written is never shown;
opening never raises; the second opening after a write is clean; removed bytes are kept in a file of their own.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
from collections.abc import Iterable
from pathlib import Path

from indusagi_lsp.contract.clock import SystemClock
from indusagi_lsp.contract.turns import TextBlock, ToolCallBlock, ToolResultBlock, Turn, assistant, user
from indusagi_lsp.sessions import SessionStore, Signer
from indusagi_lsp.sessions.state import FileSource, SessionState, load

KEY = Signer(b"f" * 32)
LONG = os.environ.get("INDUSAGI_LONG") == "1"
"""Whether the sizes of the long run are wanted."""


class InlineLoop(asyncio.SelectorEventLoop):
    """An event loop whose threads are function calls: quick, and the same each time."""

    def run_in_executor(self, executor, func, *args):
        future = self.create_future()
        try:
            future.set_result(func(*args))
        except Exception as error:  # noqa: BLE001 - it belongs to whoever awaits the future
            future.set_exception(error)
        return future


def run(coroutine):
    """Run one coroutine to its end."""
    with asyncio.Runner(loop_factory=InlineLoop) as runner:
        return runner.run(coroutine)


def store_at(root: Path) -> SessionStore:
    return SessionStore(root, signer=KEY)


def words_of(seed: int, count: int) -> str:
    maker = random.Random(seed)
    return "".join(maker.choice('abc "\\\n{}[]é\u2028\U0001f600') for _ in range(count))


def make_log(root: Path, size: int, seed: int = 1) -> bytes:
    """A session `s` of about `size` bytes: prompts, calls, results, a fork, a condensation, labels and usage."""

    async def write() -> bytes:
        store = store_at(root)
        session = await store.create(cwd="file:///w", session_id="s")
        step = 0
        while os.path.getsize(session.path) < size:
            step += 1
            call = ToolCallBlock(f"c{step}", "read", {"path": words_of(step, 9), "n": step / 3})
            await session.append([user(words_of(seed * 1000 + step, 60))])
            [caller] = await session.append([Turn("assistant", (TextBlock("looking"), call))])
            await session.receipt(caller.id, call.id, "started")
            await session.append([Turn("tool", (ToolResultBlock(call.id, words_of(step, 200)),))])
            [node] = await session.append([assistant(words_of(step, 80))])
            if step % 5 == 2:
                await session.label(node.id, "pin")
                await session.move_head(session.graph.ids[len(session.graph) // 2], "fork")
            if step % 7 == 3:
                await session.condense(user(f"[condensed earlier context] {step}"), 1)
        await session.close()
        return Path(session.path).read_bytes()

    return run(write())


def read(root: Path, name: str = "s") -> SessionState:
    """Read a session, as opening does."""
    state = SessionState(name, clock=SystemClock(), signer=KEY)
    load(state, str(root / f"{name}.jsonl"))
    return state


def contents(state: SessionState) -> dict[str, Turn]:
    """Every node's turn."""
    found = {node.id: node.turn for node in state.graph.nodes()}
    if isinstance(state.graph.source, FileSource):
        state.graph.source.close()
    return found


def node_ends(log: bytes) -> list[tuple[int, str]]:
    """Where each node's record ends (without line end), and its id."""
    ends: list[tuple[int, str]] = []
    offset = 0
    for line in log.split(b"\n"):
        if line.startswith(b'{"type":"node"'):
            ends.append((offset + len(line), json.loads(line)["node"]["id"]))
        offset += len(line) + 1
    return ends


def append_one(root: Path, text: str, name: str = "s") -> str:
    """Open, say something, close; the new node's id."""

    async def write() -> str:
        store = store_at(root)
        session = await store.open(name)
        [node] = await session.append([user(text)])
        await store.close()
        return node.id

    return run(write())


def check(state: SessionState, wanted: dict[str, Turn], acknowledged: Iterable[str]) -> None:
    """The oracle for one reading: all that was acknowledged is there, and all that is there was said."""
    found = contents(state)
    for node in acknowledged:
        assert found.get(node) == wanted[node], f"{node} was lost"
    for node, turn in found.items():
        if state.graph.is_verified(node):
            assert wanted[node] == turn, f"{node} was never said"
    assert state.graph.leaf is None or state.graph.leaf in found

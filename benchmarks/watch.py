"""Seeing what other windows do: how soon, what it costs while nothing happens, and that own writes cause nothing."""

from __future__ import annotations

import asyncio
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.harness import Measured

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

NAMES = ("watch", "watch_idle", "watch_own")
_KEY = b"b" * 32
_FILES = 100

OURS = """
import asyncio, sys, time
from pathlib import Path
from indusagi_lsp.sessions import SessionStore, SessionWatcher, Signer
async def main():
    store = SessionStore(Path(sys.argv[1]), signer=Signer(b"b" * 32))
    watcher = SessionWatcher(store)
    await watcher.start()
    await told()
"""
STOCK = """
import asyncio, sys, time
from watchfiles import awatch
async def watch():
    async for _ in awatch(sys.argv[1]):
        pass
async def main():
    task = asyncio.create_task(watch())
    await told()
"""
TOLD = """
async def told():
    await asyncio.sleep(2)
    spent = time.process_time()
    for _ in range(int(sys.argv[2])):
        await asyncio.sleep(2)
        spent, before = time.process_time(), spent
        print(spent - before, flush=True)
asyncio.run(main())
"""


def run(names: Sequence[str], quick: bool, data: Path | None) -> Iterable[Measured]:
    """Run those of `names`; see the package."""
    del data
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder, "watched", "sessions")
        if "watch" in names:
            yield asyncio.run(_watching(root, writes=20 if quick else 60))
        if "watch_idle" in names:
            yield _idle(Path(folder, "idle"), slices=2 if quick else 8)
        if "watch_own" in names:
            yield asyncio.run(_own(Path(folder, "own"), writes=100 if quick else 400))


def _idle(root: Path, slices: int) -> Measured:
    """Two processes that watch the same folder at the same time while nothing happens in it."""
    root.mkdir()
    for number in range(_FILES):
        (root / f"s{number}.jsonl").write_bytes(b'{"type":"session","id":"x"}\n')
    children = [
        subprocess.Popen([sys.executable, "-c", code + TOLD, str(root), str(slices)], stdout=subprocess.PIPE, text=True)
        for code in (OURS, STOCK)
    ]
    ours, stock = ([float(line) for line in child.communicate()[0].split()] for child in children)
    found = [own / base for own, base in zip(ours, stock, strict=True)]
    note = f"{statistics.median(ours) * 500:.1f} ms of CPU a second, over watchfiles' defaults, {_FILES} sessions"
    return Measured.of("watch_idle", found, note)


async def _own(root: Path, writes: int) -> Measured:
    """How often a session is read again, or tells of a change, because of what it wrote itself."""
    from indusagi_lsp.contract.turns import user
    from indusagi_lsp.sessions import SessionStore, SessionWatcher, Signer

    store = SessionStore(root, signer=Signer(_KEY))
    session = await store.create(cwd="file:///w", session_id="s")
    told: list[object] = []
    session.listen(told.append)
    watcher = SessionWatcher(store, on_sessions=told.append)
    await watcher.start()
    await asyncio.sleep(2)
    for number in range(writes):
        await session.append([user(str(number))])
        await asyncio.sleep(0.005)
    await asyncio.sleep(0.5)
    await watcher.close()
    await store.close()
    return Measured.of("watch_own", [float(len(told))], f"events because of {writes} appends of our own")


async def _watching(root: Path, writes: int) -> Measured:
    """From an append by another window to the open session's event, against watchfiles' own defaults."""
    from watchfiles import awatch

    from indusagi_lsp.contract.turns import user
    from indusagi_lsp.sessions import SessionStore, SessionWatcher, Signer

    mine, theirs = SessionStore(root, signer=Signer(_KEY)), SessionStore(root, signer=Signer(_KEY))
    session = await theirs.create(cwd="file:///w", session_id="s")
    opened = await mine.open("s")
    watcher = SessionWatcher(mine)
    heard, stock = asyncio.Event(), asyncio.Event()
    opened.listen(lambda _: heard.set())

    async def plain() -> None:
        async for _ in awatch(root):
            stock.set()

    await watcher.start()
    other = asyncio.create_task(plain())
    await asyncio.sleep(2)
    loop = asyncio.get_running_loop()
    found: list[float] = []
    ours: list[float] = []
    for number in range(writes):
        heard.clear()
        stock.clear()
        began = loop.time()
        await session.append([user(str(number))])

        async def after(event: asyncio.Event, began: float = began) -> float:
            await event.wait()
            return loop.time() - began

        own, base = await asyncio.gather(after(heard), after(stock))
        found.append(own / base)
        ours.append(own)
        await asyncio.sleep(0.12)
    other.cancel()
    await watcher.close()
    await mine.close()
    await theirs.close()
    note = f"median {statistics.median(ours) * 1000:.0f} ms from another window's append to the event"
    return Measured.of("watch", found, note)

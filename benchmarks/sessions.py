"""Opening, appending and listing sessions, against the plain system calls that the work comes down to."""

from __future__ import annotations

import asyncio
import os
import random
import statistics
import tempfile
import time
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.harness import Measured, cpu, ratios

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from indusagi_lsp.contract.turns import Turn

NAMES = ("open", "open_verified", "append", "list", "list_changed")
KEY = b"b" * 32


def run(names: Sequence[str], quick: bool, data: Path | None) -> Iterable[Measured]:
    """Run those of `names`; see the package."""
    del data
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder, ".indusagi", "sessions")
        root.mkdir(parents=True)
        if set(names) & {"open", "open_verified"}:
            yield from _reading(names, root, quick)
        if "append" in names:
            yield _append(root, 400 if quick else 2_000, rounds=7 if quick else 11)
        if set(names) & {"list", "list_changed"}:
            for measured in _listing(Path(folder, "many"), 5_000, rounds=7 if quick else 15):
                if measured.name in names:
                    yield measured


def turns(count: int, seed: int = 7) -> Iterator[Turn]:
    """70 % short text, 25 % of 2 to 8 KB, 5 % of 50 KB."""
    from indusagi_lsp.contract.turns import TextBlock, Turn

    dice = random.Random(seed)
    text = "".join(dice.choices('abcdefghijklmnopqrstuvwxyz    \n"é', k=60_000))
    for number in range(count):
        share = dice.random()
        size = dice.randint(50, 300) if share < 0.7 else dice.randint(2_000, 8_000) if share < 0.95 else 50_000
        start = dice.randrange(8_000)
        yield Turn("user" if number % 2 == 0 else "assistant", (TextBlock(text[start : start + size]),))


def write_log(path: Path, count: int, *, seed: int = 7) -> None:
    """A session file of `count` nodes, each with its head, as our own appends leave it."""
    from indusagi_lsp.sessions import Signer
    from indusagi_lsp.sessions.nodes import id_of, node_line, node_text

    signer = Signer(KEY)
    parent: str | None = None
    with path.open("wb") as file:
        file.write(b'{"type":"session","schema":1,"id":"%b","cwd":"file:///w","createdAt":1}\n' % path.stem.encode())
        for at, turn in enumerate(turns(count, seed)):
            text = node_text(parent, turn, at)
            node = id_of(text)
            mac = signer.mac(path.stem, node).encode()
            file.write(node_line(node, text, turn, parent, at))
            head = b'{"type":"head","leaf":"%b","at":%d,"by":"%b","why":"append","mac":"%b"}\n'
            file.write(head % (node.encode(), at, b"w" * 32, mac))
            parent = node


def _reading(names: Sequence[str], root: Path, quick: bool) -> Iterator[Measured]:
    from indusagi_lsp.contract.clock import SystemClock
    from indusagi_lsp.sessions import Signer
    from indusagi_lsp.sessions.state import FileSource, SessionState, load

    large = root / "large.jsonl"
    count = 20_000 if quick else 100_000
    write_log(large, count)
    rounds = 5 if quick else 9
    size = large.stat().st_size / 1e6

    def fresh(path: Path) -> SessionState:
        return SessionState(path.stem, clock=SystemClock(), signer=Signer(KEY))

    def opened(*, verify: bool) -> float:
        def work() -> None:
            state = fresh(large)
            load(state, str(large), verify=verify)
            assert len(state.graph) == count
            assert state.trusts(state.graph.leaf)
            assert isinstance(state.graph.source, FileSource)
            state.graph.source.close()

        return cpu(work)

    def read() -> float:
        return cpu(large.read_bytes)

    what = f"{count} nodes, {size:.0f} MB"
    if "open" in names:
        found = ratios(lambda: opened(verify=False), read, rounds)
        yield Measured.of("open", found, f"the whole index of {what}, over a plain read")
    if "open_verified" in names:
        found = ratios(lambda: opened(verify=True), read, rounds)
        yield Measured.of("open_verified", found, f"the same with every hash checked: {what}")


def _append(root: Path, count: int, rounds: int) -> Measured:
    """What is done for each append, against encoding, hashing and writing the same two records and nothing else."""
    import orjson

    from indusagi_lsp.contract.clock import SystemClock
    from indusagi_lsp.contract.turns import turn_to_json
    from indusagi_lsp.sessions import SessionStore, Signer
    from indusagi_lsp.sessions.log import SessionLog
    from indusagi_lsp.sessions.nodes import new_node
    from indusagi_lsp.sessions.oscalls import OsCalls

    said = list(turns(count))
    numbers = iter(range(1_000_000))
    store = SessionStore(root, signer=Signer(KEY))
    clock = SystemClock()

    def ours() -> float:
        name = f"a{next(numbers)}"
        log = SessionLog(store.folder, name, calls=OsCalls(), now_ms=clock.now_ms)

        def work() -> None:
            parent = None
            for turn in said:
                now = clock.now_ms()
                node, _, line = new_node(parent, turn, now)
                head, _ = store.head_line(name, node, "append", sign=True)
                log.append(b"".join((line, head)))
                parent = node

        spent = cpu(work)
        log.close()
        return spent

    def blocking() -> float:
        session = asyncio.run(store.create(cwd="file:///w", session_id=f"a{next(numbers)}"))
        return cpu(lambda: [session.append_now([turn]) for turn in said])

    def threaded() -> float:
        async def work() -> float:
            session = await store.create(cwd="file:///w", session_id=f"a{next(numbers)}")
            start = time.process_time()
            for turn in said:
                await session.append([turn])
            return time.process_time() - start

        return asyncio.run(work())

    def plain() -> float:
        fd = os.open(root / f"plain{next(numbers)}", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)

        def work() -> None:
            parent, by, mac = "0" * 32, "w" * 32, "m" * 64
            for turn in said:
                node = {"id": parent, "parent": parent, "turn": turn_to_json(turn), "createdAt": 1_700_000_000_000}
                line = orjson.dumps({"type": "node", "node": node})
                parent = sha256(line).hexdigest()[:32]
                head = {"type": "head", "leaf": parent, "at": 1_700_000_000_000, "by": by, "why": "append", "mac": mac}
                os.write(fd, b"%b\n%b\n" % (line, orjson.dumps(head)))

        spent = cpu(work)
        os.close(fd)
        return spent

    found = ratios(ours, plain, rounds)
    with_graph = statistics.median(ratios(blocking, plain, 5))
    off_loop = statistics.median(ratios(threaded, plain, 5))
    note = f"lock, look for news, node and signed head in one write; with the graph {with_graph:.1f}, "
    note += f"and off the event loop {off_loop:.1f}"
    return Measured.of("append", found, note)


def _listing(root: Path, count: int, rounds: int) -> Iterator[Measured]:
    from indusagi_lsp.sessions import SessionStore, Signer

    root.mkdir()
    write_log(root / "model.jsonl", 4)
    model = (root / "model.jsonl").read_bytes()
    for number in range(count - 1):
        (root / f"session-{number}.jsonl").write_bytes(model)
    with asyncio.Runner() as runner:
        store = SessionStore(root, signer=Signer(KEY))
        cold = cpu(lambda: runner.run(store.summaries()))

        def warm() -> float:
            return cpu(lambda: runner.run(store.summaries()))

        def changed() -> float:
            for number in range(0, count - 1, 100):
                with (root / f"session-{number}.jsonl").open("ab") as file:
                    file.write(b'{"type":"label","node":"x","name":"y"}\n')
            return warm()

        def scan() -> float:
            def work() -> None:
                with os.scandir(root) as entries:
                    for entry in entries:
                        entry.stat(follow_symlinks=False)

            return cpu(work)

        warm()
        found = ratios(warm, scan, rounds)
        some = ratios(changed, scan, rounds)
    yield Measured.of("list", found, f"{count} sessions, nothing changed, over scandir and stat; cold {cold:.1f} s")
    yield Measured.of("list_changed", some, f"{count} sessions, 1 % of them just written to by others")

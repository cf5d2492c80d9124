"""Very large things: one huge line, a very long chain, and what a large file does to the event loop meanwhile."""

from __future__ import annotations

import asyncio
import json
import time
from pathlib import Path

import pytest

from faults import logs
from indusagi_lsp.contract.turns import user
from indusagi_lsp.sessions.nodes import id_of, node_line, node_text


def chain(root: Path, count: int) -> str:
    """A session `s` of one line of `count` short turns; the last one's id."""
    root.mkdir(parents=True)
    parent: str | None = None
    with (root / "s.jsonl").open("wb") as file:
        for number in range(count):
            turn = user(str(number))
            text = node_text(parent, turn, number)
            node = id_of(text)
            file.write(node_line(node, text, turn, parent, number))
            parent = node
        file.write(b'{"type":"head","leaf":"%b"}\n' % parent.encode())
    return parent


@pytest.mark.timeout(300)
def test_a_very_long_chain(tmp_path: Path) -> None:
    count = 1_000_000 if logs.LONG else 100_000
    root = tmp_path / "sessions"
    leaf = chain(root, count)
    state = logs.read(root)
    assert state.graph.leaf == leaf
    began = time.process_time()
    assert len(state.graph.ids_to(leaf)) == count
    assert time.process_time() - began < count / 100_000
    path = state.graph.path_to(leaf)
    assert (len(path), path[0].text, path[-1].text) == (count, "0", str(count - 1))
    state.graph.source.close()


@pytest.mark.timeout(300)
def test_one_huge_line(tmp_path: Path) -> None:
    root = tmp_path / "sessions"
    leaf = chain(root, 3)
    turn = user("x" * (100_000_000 if logs.LONG else 20_000_000))
    text = node_text(leaf, turn, 9)
    with (root / "s.jsonl").open("ab") as file:
        file.write(node_line(id_of(text), text, turn, leaf, 9))
        file.write(b'{"type":"node","node":' + b'{"type":"x","a":[' * 200_000 + b"\n")
    state = logs.read(root)
    assert len(state.graph) == 4
    assert state.graph.path_to(id_of(text))[-1] == turn
    assert state.report.skipped
    state.graph.source.close()


@pytest.mark.timeout(120)
def test_the_event_loop_goes_on_while_a_large_session_is_opened(tmp_path: Path) -> None:
    root = tmp_path / "sessions"
    chain(root, 60_000)
    gaps: list[float] = []

    async def beat(done: asyncio.Event) -> None:
        last = time.perf_counter()
        while not done.is_set():
            await asyncio.sleep(0)
            now = time.perf_counter()
            gaps.append(now - last)
            last = now

    async def work() -> None:
        done = asyncio.Event()
        heart = asyncio.create_task(beat(done))
        store = logs.store_at(root)
        session = await store.open("s")
        done.set()
        await heart
        assert len(session.graph) == 60_000
        await store.close()

    asyncio.run(work())
    # A shared machine takes the processor away for longer than we do; only the bulk of the beats says something.
    gaps.sort()
    assert gaps[int(len(gaps) * 0.99)] < 0.05


def test_records_of_extreme_shapes(tmp_path: Path) -> None:
    root = tmp_path / "sessions"
    leaf = chain(root, 2)
    deep = b'{"type":"node","node":{"id":"d","parent":"%b","createdAt":1,"turn":{"role":"user","blocks":[%b]}}}\n'
    with (root / "s.jsonl").open("ab") as file:
        file.write(deep % (leaf.encode(), b"[" * 100_000 + b"]" * 100_000))
        file.write(json.dumps({"type": "label", "node": leaf, "name": "x" * 1_000_000}).encode() + b"\n")
        file.write(b'{"type":"usage","node":"%b","input":1e400,"output":-1,"cost":1e308}\n' % leaf.encode())
        file.write(b'{"type":"session","createdAt":1e300,"title":[],"cwd":5,"archived":"yes"}\n')
        file.write(b'{"type":"condense","summary":1,"from":{},"copies":[]}\n')
        file.write(b'{"type":"head","leaf":"%b","leaf":"%b"}\n' % (b"0" * 32, leaf.encode()))
    state = logs.read(root)
    assert state.graph.leaf == leaf
    assert len(state.graph) == 2
    assert state.meta.title is None
    assert state.condensations == []
    state.graph.source.close()

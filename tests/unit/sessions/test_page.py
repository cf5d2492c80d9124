"""The newest page, read from the end of the file, is the page that opening the session shows."""

from __future__ import annotations

import json
import os
import random
from collections.abc import Callable
from pathlib import Path

import pytest

from indusagi_lsp.contract.errors import InvalidInput, SessionNotFound
from indusagi_lsp.contract.turns import assistant, user
from indusagi_lsp.sessions import SessionStore, tail

CWD = "file:///workspace"


async def same(store: SessionStore, name: str, limit: int) -> None:
    page = await store.page(name, limit=limit)
    session = await store.open(name)
    path = session.graph.nodes_to(session.graph.leaf)
    assert page.head == session.graph.leaf
    assert list(page.nodes) == path[-limit:]
    assert page.more == (len(path) > limit)
    await session.close()


@pytest.mark.parametrize("first", [100, 1_000, 64 << 10])
async def test_same_as_opening(store: SessionStore, monkeypatch: pytest.MonkeyPatch, first: int) -> None:
    monkeypatch.setattr(tail, "_FIRST", first)
    maker = random.Random(first)
    session = await store.create(cwd=CWD, session_id="s")
    for limit in (1, 5):
        await same(store, "s", limit)
    for number in range(60):
        await session.append([user("x" * maker.choice([1, 50, 900])), assistant(str(number))])
        if number % 9 == 4:
            await session.move_head(maker.choice(session.graph.ids), "fork")
        if number % 13 == 5:
            await session.condense(user("summary"), 1)
        if number % 5 == 0:
            await session.label(session.graph.leaf, "x")
        for limit in (1, 7, 500):
            await same(store, "s", limit)
    await session.move_head(None, "fork")
    await same(store, "s", 5)


async def test_ends_that_do_not_tell_are_read_whole(store: SessionStore, window: Callable[..., SessionStore]) -> None:
    session = await store.create(cwd=CWD, session_id="s")
    nodes = await session.append([user(str(number)) for number in range(20)])
    whole = Path(session.path).read_bytes()
    head = {"type": "head", "leaf": nodes[3].id, "at": 1, "by": "other", "why": "append"}
    lines = whole.splitlines(keepends=True)
    for content in (
        whole + json.dumps(head).encode() + b"\n",
        whole + b'{"type":"head","leaf":"gone"}\n',
        whole + b'{"type":"no',
        b"".join(lines[:-1]),
        b"".join(lines[::-1]),
        b"".join(lines[:8] + lines[9:]),
        b"",
        b"junk",
    ):
        Path(session.path).write_bytes(content)
        for limit in (1, 4, 100):
            page = await window().page("s", limit=limit)
            again = await window().open("s")
            path = again.graph.nodes_to(again.graph.leaf)[-limit:]
            assert page.head == again.graph.leaf
            assert [node.id for node in page.nodes] == [node.id for node in path]


async def test_what_is_not_there(store: SessionStore) -> None:
    with pytest.raises(SessionNotFound):
        await store.page("nothing")
    with pytest.raises(InvalidInput):
        await store.page("../x")


async def test_only_the_end_of_a_large_file_is_read(store: SessionStore, monkeypatch: pytest.MonkeyPatch) -> None:
    session = await store.create(cwd=CWD, session_id="s")
    await session.append([user("x" * 10_000) for _ in range(500)])
    await session.append([user("end")])
    read: list[int] = []
    real = os.pread
    monkeypatch.setattr(os, "pread", lambda fd, size, at: read.append(size) or real(fd, size, at))
    page = await store.page("s", limit=5)
    assert page.nodes[-1].turn.text == "end"
    assert sum(read) < 500_000

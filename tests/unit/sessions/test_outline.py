"""The newest page of a large session, shown without reading the file, is the page that opening the session shows."""

from __future__ import annotations

import json
import os
import random
from collections.abc import Callable
from pathlib import Path

import pytest

from indusagi_lsp.contract.errors import InvalidInput, NodeNotFound
from indusagi_lsp.contract.models import Usage
from indusagi_lsp.contract.turns import assistant, user
from indusagi_lsp.sessions import SessionStore, outline, summaries

CWD = "file:///workspace"
PADDING = "x" * 60_000


@pytest.fixture(autouse=True)
def _every_file_is_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outline, "LARGE", 1)


def kept(store: SessionStore, name: str = "s") -> Path:
    return Path(store.folder.cache_path(name + outline.SUFFIX))


async def same(store: SessionStore, window: Callable[..., SessionStore], name: str, limit: int) -> None:
    look = await store.look(name, limit)
    assert look is not None
    kept(store, name).unlink()
    other = window()
    session = await other.open(name)
    assert look == await session.look(limit)
    assert look.outline.summary == await session.summary()
    path = session.graph.nodes_to(session.graph.leaf)
    assert list(look.nodes) == path[-limit:]
    assert look.more == (len(path) > limit)
    assert [branch.turns for branch in look.outline.branches] == [
        len(session.graph.ids_to(leaf)) for leaf in session.graph.leaves()
    ]
    await other.close()


async def test_same_as_opening(
    store: SessionStore, window: Callable[..., SessionStore], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outline, "NEWEST", 20)
    maker = random.Random(7)
    session = await store.create(cwd=CWD, session_id="s", title="named")
    for number in range(40):
        nodes = await session.append([user("x" * maker.choice([1, 50, 900])), assistant(str(number))])
        await session.usage(nodes[-1].id, Usage(10, number, 1, 2, 0.5), "m:m", "m")
        if number % 9 == 4:
            await session.move_head(maker.choice(session.graph.ids), "fork")
        if number % 13 == 5:
            await session.condense(user("summary"), 1)
        if number % 5 == 0:
            await session.label(session.graph.leaf, f"mark {number}")
        if number % 3 == 0:
            await session.keep_outline()
            for limit in (1, 7, 20):
                await same(store, window, "s", limit)
    await session.move_head(None, "fork")
    await session.keep_outline()
    await same(store, window, "s", 5)


async def test_it_is_kept_at_the_first_reading_and_at_the_end(
    store: SessionStore, window: Callable[..., SessionStore]
) -> None:
    session = await store.create(cwd=CWD, session_id="s")
    await session.append([user("one"), assistant("two")])
    assert await store.look("s", 10) is None, "nobody has read it yet"
    await window().summaries()
    assert await store.look("s", 10) is not None

    await session.append([user("three")])
    assert await store.look("s", 10) is None, "what was kept is not of this file any more"
    await session.close()
    look = await store.look("s", 10)
    assert look is not None
    assert [node.turn.text for node in look.nodes] == ["one", "two", "three"]

    kept(store).unlink()
    assert await store.look("s", 10) is None
    await window().open("s")
    assert await store.look("s", 10) == look


async def test_a_list_takes_what_is_kept_in_the_place_of_reading(
    store: SessionStore, window: Callable[..., SessionStore], monkeypatch: pytest.MonkeyPatch
) -> None:
    session = await store.create(cwd=CWD, session_id="s")
    await session.append([user("hello"), assistant(PADDING)])
    await session.close()
    read: list[int] = []
    real = os.pread
    monkeypatch.setattr(os, "pread", lambda fd, size, at: read.append(size) or real(fd, size, at))
    monkeypatch.setattr("indusagi_lsp.sessions.summaries.load", None)
    (summary,) = await window().summaries()
    assert (summary.title, summary.turns, summary.trusted) == ("hello", 2, True)
    assert not read


async def test_a_list_knows_the_open_sessions_without_reading_them(
    store: SessionStore, window: Callable[..., SessionStore], monkeypatch: pytest.MonkeyPatch
) -> None:
    session = await store.create(cwd=CWD, session_id="s")
    theirs = await window().create(cwd=CWD, session_id="t")
    for number in range(3):
        (node,) = await session.append([user(str(number))])
        await session.usage(node.id, Usage(10, number, 1, 2, 0.5), "m:m", "m")
    await session.update(title="named")
    read = await window().summaries()
    kept(store, "t").unlink()
    real = summaries.load
    loaded: list[str] = []
    monkeypatch.setattr(summaries, "load", lambda state, path, *more: loaded.append(path) or real(state, path, *more))
    assert await store.summaries() == read
    assert loaded == [theirs.path]

    loaded.clear()
    with open(session.path, "ab") as file:
        file.write(b'{"type":"session","id":"s","title":"by others"}\n')
    assert {one.id: one.title for one in await store.summaries()}["s"] == "by others"
    assert session.path in loaded


@pytest.mark.parametrize(
    "spoil",
    [
        lambda path: path.write_bytes(path.read_bytes() + b'{"type":"label","node":"x","name":"y"}\n'),
        lambda path: path.write_bytes(path.read_bytes().replace(b"hello", b"hallo")),
        lambda path: path.write_bytes(path.read_bytes()[:-1]),
        lambda path: (path.rename(path.with_suffix(".old")), path.write_bytes(path.with_suffix(".old").read_bytes())),
        lambda path: path.unlink(),
    ],
    ids=["longer", "edited", "cut", "replaced", "gone"],
)
async def test_of_a_file_that_is_another_one_now_nothing_is_shown(store: SessionStore, spoil) -> None:
    session = await store.create(cwd=CWD, session_id="s")
    await session.append([user("hello"), assistant("you")])
    await session.close()
    assert await store.look("s", 10) is not None
    spoil(Path(session.path))
    assert await store.look("s", 10) is None


async def test_an_edit_that_hides_behind_the_old_times_is_found_by_the_hashes(
    store: SessionStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = await store.create(cwd=CWD, session_id="s")
    await session.append([user("hello"), assistant("you")])
    await session.close()
    text = Path(session.path).read_bytes()
    Path(session.path).write_bytes(text.replace(b"hello", b"hallo"))
    monkeypatch.setattr(outline.Stamp, "__eq__", lambda _mine, _other: True)
    assert await store.look("s", 10) is None


async def test_what_another_user_kept_is_not_believed(store: SessionStore, window: Callable[..., SessionStore]) -> None:
    theirs = window(key=b"t" * 32)
    session = await theirs.create(cwd=CWD, session_id="s")
    await session.append([user("run this"), assistant("sure")])
    await session.close()
    assert await theirs.look("s", 10) is not None
    assert await store.look("s", 10) is None

    opened = await store.open("s")
    assert not opened.trusted
    look = await store.look("s", 10)
    assert look is not None
    assert not look.outline.summary.trusted


@pytest.mark.parametrize("text", [b"", b"x" * 64, b"x" * 64 + b'["outline-1"]', b"\xff" * 500])
async def test_what_is_no_outline_is_passed_over(store: SessionStore, text: bytes) -> None:
    session = await store.create(cwd=CWD, session_id="s")
    await session.append([user("hello")])
    await session.close()
    kept(store).write_bytes(text)
    assert await store.look("s", 10) is None
    sealed = json.dumps(["outline-2", [1, 2, 3, 4], "", {}, []]).encode()
    kept(store).write_bytes(store.signer.seal(sealed) + sealed)
    assert await store.look("s", 10) is None


async def test_history_that_the_file_has_lost_shows_as_a_gap(
    store: SessionStore, window: Callable[..., SessionStore]
) -> None:
    session = await store.create(cwd=CWD, session_id="s")
    await session.append([user(str(number)) for number in range(8)])
    await session.close()
    lines = Path(session.path).read_bytes().splitlines(keepends=True)
    Path(session.path).write_bytes(b"".join(lines[:3] + lines[4:]))
    await window().summaries()
    look = await store.look("s", 100)
    assert look is not None
    assert [node.gap for node in look.nodes] == [True] + [False] * 4
    assert look.outline.report.gaps == 1
    assert not look.more
    await same(store, window, "s", 100)


async def test_only_the_page_of_a_large_file_is_read(store: SessionStore, monkeypatch: pytest.MonkeyPatch) -> None:
    session = await store.create(cwd=CWD, session_id="s")
    await session.append([user("x" * 10_000) for _ in range(500)])
    await session.append([user("end")])
    await session.close()
    read: list[int] = []
    real = os.pread
    monkeypatch.setattr(os, "pread", lambda fd, size, at: read.append(size) or real(fd, size, at))
    look = await store.look("s", 5)
    assert look is not None
    assert look.nodes[-1].turn.text == "end"
    assert sum(read) < 50_000


async def test_more_than_is_kept_is_not_shown(store: SessionStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outline, "NEWEST", 5)
    session = await store.create(cwd=CWD, session_id="s")
    await session.append([user(str(number)) for number in range(8)])
    await session.close()
    look = await store.look("s", 5)
    assert look is not None
    assert look.more
    assert await store.look("s", 6) is None


async def test_a_page_before_a_turn(store: SessionStore) -> None:
    session = await store.create(cwd=CWD, session_id="s")
    nodes = await session.append([user(str(number)) for number in range(8)])
    look = await session.look(3, nodes[5].id)
    assert [node.turn.text for node in look.nodes] == ["2", "3", "4"]
    assert look.more
    assert not (await session.look(3, nodes[0].id)).nodes
    await session.move_head(nodes[3].id, "fork")
    for other in (nodes[5].id, "nothing"):
        with pytest.raises(NodeNotFound):
            await session.look(3, other)


async def test_it_goes_with_its_session(store: SessionStore, window: Callable[..., SessionStore]) -> None:
    for name in ("one", "two"):
        session = await store.create(cwd=CWD, session_id=name)
        await session.append([user("hello")])
        await session.close()
    await store.summaries()
    await store.delete("one")
    assert not kept(store, "one").exists()
    Path(store.folder.path("two")).unlink()
    await store.summaries()
    assert not kept(store, "two").exists()


async def test_with_migrators_nothing_is_kept(window: Callable[..., SessionStore]) -> None:
    class Same:
        id = "same"

        def upgrade(self, raw):
            return raw

    store = window(migrators=[Same()])
    session = await store.create(cwd=CWD, session_id="s")
    await session.append([user("hello")])
    await session.close()
    await store.summaries()
    assert not kept(store).exists()
    assert await store.look("s", 10) is None


async def test_what_is_not_there(store: SessionStore) -> None:
    assert await store.look("nothing", 10) is None
    with pytest.raises(InvalidInput):
        await store.look("../x", 10)

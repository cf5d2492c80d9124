"""The watcher: what another process does arrives soon, own writes cause nothing, folders may come and go."""

from __future__ import annotations

import asyncio
import os
import shutil
import struct
import sys
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from indusagi_lsp.contract.turns import assistant, user
from indusagi_lsp.sessions import Change, SessionStore, SessionWatcher, inotify

CWD = "file:///workspace"


class Heard:
    """A watcher, and what it told."""

    def __init__(self, store: SessionStore, **options) -> None:
        self.sessions: list[frozenset[str]] = []
        self.notices: list[str] = []
        self.watcher = SessionWatcher(store, on_sessions=self.sessions.append, on_notice=self.notices.append, **options)

    async def until(self, what: Callable[[], bool], seconds: float = 5) -> float:
        """Wait until `what` is true; how long that took."""
        began = time.monotonic()
        while not what():
            assert time.monotonic() - began < seconds, "nothing was told"
            await asyncio.sleep(0.002)
        return time.monotonic() - began


@pytest.fixture(params=["native", "library", "polling"])
async def heard(
    request: pytest.FixtureRequest, store: SessionStore, root: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Heard]:
    root.mkdir(parents=True)
    if request.param == "library":
        monkeypatch.setattr(sys, "platform", "elsewhere")
    heard = Heard(store, mode="polling" if request.param == "polling" else "native", poll_seconds=0.05)
    await heard.watcher.start()
    await asyncio.sleep(0.4)
    yield heard
    began = time.monotonic()
    await heard.watcher.close()
    assert time.monotonic() - began < 1


async def test_another_process_appends(heard: Heard, store: SessionStore, window: Callable[..., SessionStore]) -> None:
    mine = await store.create(cwd=CWD, session_id="s")
    changes: list[Change] = []
    mine.listen(changes.append)
    theirs = await window().open("s")
    await asyncio.sleep(0.2)
    assert changes == []
    times: list[float] = []
    for number in range(5):
        count = len(changes)
        await theirs.append([user(str(number)), assistant("ok")])
        times.append(await heard.until(lambda count=count: len(changes) > count))
    assert sorted(times)[2] < (0.1 if heard.watcher.mode == "native" else 0.5)
    assert [turn.text for turn in mine.model_view()][-2:] == ["4", "ok"]
    assert heard.sessions[-1] == {"s"}


async def test_own_writes_cause_nothing(heard: Heard, store: SessionStore) -> None:
    mine = await store.create(cwd=CWD, session_id="s")
    changes: list[Change] = []
    mine.listen(changes.append)
    for number in range(20):
        await mine.append([user(str(number))])
    await mine.label(mine.graph.leaf, "x")
    await asyncio.sleep(0.4)
    assert changes == []
    assert heard.sessions == []


async def test_sessions_of_others_come_and_go(heard: Heard, window: Callable[..., SessionStore]) -> None:
    other = window()
    await other.create(cwd=CWD, session_id="new")
    await heard.until(lambda: any("new" in names for names in heard.sessions))
    heard.sessions.clear()
    await other.delete("new")
    await heard.until(lambda: any("new" in names for names in heard.sessions))


async def test_a_session_that_is_removed_is_told_once(heard: Heard, store: SessionStore) -> None:
    mine = await store.create(cwd=CWD, session_id="s")
    changes: list[Change] = []
    mine.listen(changes.append)
    await mine.append([user("a")])
    os.unlink(mine.path)
    await heard.until(lambda: bool(changes))
    await asyncio.sleep(0.3)
    assert [change.missing for change in changes] == [True]


async def test_the_whole_folder_is_removed_and_made_again(
    heard: Heard, store: SessionStore, window: Callable[..., SessionStore], root: Path
) -> None:
    mine = await store.create(cwd=CWD, session_id="s")
    changes: list[Change] = []
    mine.listen(changes.append)
    await mine.append([user("a"), assistant("b")])
    kept = Path(mine.path).read_bytes()
    shutil.rmtree(root.parent)
    await heard.until(lambda: bool(changes))
    assert changes[-1].missing

    root.mkdir(parents=True)
    (root / "s.jsonl").write_bytes(kept)
    await heard.until(lambda: len(changes) > 1)
    assert changes[-1].reloaded
    theirs = await window().open("s")
    await theirs.append([user("c")])
    await heard.until(lambda: [turn.text for turn in mine.model_view()] == ["a", "b", "c"])


async def test_files_that_are_replaced_cut_touched_and_gone_in_a_blink(
    heard: Heard, store: SessionStore, root: Path
) -> None:
    mine = await store.create(cwd=CWD, session_id="s")
    changes: list[Change] = []
    mine.listen(changes.append)
    await mine.append([user("a"), assistant("b")])
    for number in range(50):
        (root / f"blink{number}.jsonl").touch()
        os.unlink(root / f"blink{number}.jsonl")
    os.utime(mine.path)
    (root / "notes.txt").write_text("not a session")
    await asyncio.sleep(0.3)
    assert changes == []
    (root / "copy").write_bytes(Path(mine.path).read_bytes())
    os.replace(root / "copy", mine.path)
    await heard.until(lambda: len(changes) == 1)
    os.truncate(mine.path, os.path.getsize(mine.path) - 50)
    await heard.until(lambda: len(changes) == 2)
    assert all(change.reloaded for change in changes)


async def test_a_folder_that_is_not_there_yet(
    store: SessionStore, window: Callable[..., SessionStore], root: Path
) -> None:
    heard = Heard(store, poll_seconds=0.05)
    await heard.watcher.start()
    await window().create(cwd=CWD, session_id="s")
    await heard.until(lambda: any("s" in names for names in heard.sessions))
    await heard.watcher.close()


@pytest.mark.parametrize("system", ["linux", "elsewhere"])
async def test_without_watches_it_looks_regularly_and_says_so_once(
    store: SessionStore, window: Callable[..., SessionStore], root: Path, monkeypatch: pytest.MonkeyPatch, system: str
) -> None:
    import watchfiles

    def refuse(*_, **__):
        raise OSError(28, "OS file watch limit reached")

    monkeypatch.setattr(inotify, "FolderEvents", refuse)
    monkeypatch.setattr(watchfiles, "awatch", refuse)
    monkeypatch.setattr(sys, "platform", system)
    root.mkdir(parents=True)
    heard = Heard(store, poll_seconds=0.05)
    await heard.watcher.start()
    await heard.until(lambda: bool(heard.notices))
    assert heard.watcher.mode == "polling"
    await window().create(cwd=CWD, session_id="s")
    await heard.until(lambda: any("s" in names for names in heard.sessions))
    assert len(heard.notices) == 1
    await heard.watcher.close()


@pytest.mark.skipif(sys.platform != "linux", reason="these are Linux's own watches")
async def test_what_the_system_could_not_tell_asks_for_a_look(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root.mkdir(parents=True)
    events = await asyncio.to_thread(inotify.FolderEvents, [str(root)], str(root))
    changes = events.changes(0, 60)
    reading = asyncio.ensure_future(anext(changes))
    await asyncio.sleep(0)
    watch = next(iter(events._folders))
    real = os.read
    told = struct.pack("iIII16s", watch, 0x2, 0, 16, b"a.jsonl") + struct.pack("iIII", -1, 0x4000, 0, 0)
    monkeypatch.setattr(os, "read", lambda fd, size: told if real(fd, size) else b"")
    (root / "a.jsonl").touch()
    assert await reading == set()
    monkeypatch.undo()
    (root / "b.jsonl").write_bytes(b"x")
    assert await anext(changes) == {str(root / "b.jsonl")}
    await changes.aclose()
    with pytest.raises(OSError, match="No such file"):
        await asyncio.to_thread(inotify.FolderEvents, [str(root / "gone")], "")

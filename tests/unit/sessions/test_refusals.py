"""The disk refuses: nothing is half written, nothing said is lost, the user is told, and later all is written."""

from __future__ import annotations

import asyncio
import errno
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from indusagi_lsp.contract.errors import InvalidInput, PersistenceFault
from indusagi_lsp.contract.turns import ToolCallBlock, Turn, assistant, user
from indusagi_lsp.sessions import Session, SessionStore
from indusagi_lsp.sessions.oscalls import OsCalls
from indusagi_lsp.sessions.state import load

CWD = "file:///workspace"


class BadCalls(OsCalls):
    """Calls that fail on order: `fail[name]` is a list of what the next calls do (an errno, a size, or None)."""

    def __init__(self) -> None:
        self.fail: dict[str, list[int | str | None]] = {}
        self.count: dict[str, int] = {}

    def _next(self, name: str):
        self.count[name] = self.count.get(name, 0) + 1
        orders = self.fail.get(name)
        return orders.pop(0) if orders else None

    def write(self, fd: int, data: bytes) -> int:
        order = self._next("write")
        if isinstance(order, str):
            return super().write(fd, data[: int(order)])
        if order is not None:
            raise OSError(order, os.strerror(order))
        return super().write(fd, data)

    def truncate(self, fd: int, size: int) -> None:
        order = self._next("truncate")
        if order is not None:
            raise OSError(order, os.strerror(order))
        super().truncate(fd, size)

    def datasync(self, fd: int) -> None:
        order = self._next("datasync")
        if order is not None:
            raise OSError(order, os.strerror(order))
        super().datasync(fd)

    def replace(self, source: str, target: str) -> None:
        order = self._next("replace")
        if order is not None:
            raise OSError(order, os.strerror(order))
        super().replace(source, target)


@pytest.fixture
def calls() -> BadCalls:
    return BadCalls()


@pytest.fixture
async def session(window: Callable[..., SessionStore], calls: BadCalls) -> Session:
    session = await window(calls=calls).create(cwd=CWD, session_id="s")
    await session.append([user("a"), assistant("b")])
    return session


def words(session: Session) -> list[str]:
    return [turn.text for turn in session.model_view()]


REFUSALS = [errno.ENOSPC, errno.EIO, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EINTR, "1", "40", "200"]


@pytest.mark.parametrize("order", REFUSALS)
async def test_a_refused_write_is_rolled_back_and_made_up_for(
    session: Session, calls: BadCalls, window: Callable[..., SessionStore], order: int | str
) -> None:
    before = Path(session.path).read_bytes()
    calls.fail["write"] = [order]
    with pytest.raises(PersistenceFault) as fault:
        await session.append([user("c")])
    assert fault.value.hint
    assert Path(session.path).read_bytes() == before
    assert words(session) == ["a", "b", "c"], "the run goes on"
    assert session.unsaved == 2

    [d] = await session.append([assistant("d")])
    assert session.unsaved == 0
    again = await window().open("s")
    assert words(again) == ["a", "b", "c", "d"]
    assert again.graph.leaf == d.id
    assert again.report.clean
    assert again.trusted


async def test_a_disk_that_stays_full_keeps_everything_in_memory(
    session: Session, calls: BadCalls, window: Callable[..., SessionStore]
) -> None:
    calls.fail["write"] = [errno.ENOSPC] * 10
    for number in range(10):
        with pytest.raises(PersistenceFault):
            await session.append([user(str(number))])
    await session.flush()
    assert words(await window().open("s")) == ["a", "b", *map(str, range(10))]


async def test_when_even_the_roll_back_fails_the_next_append_mends(
    session: Session, calls: BadCalls, window: Callable[..., SessionStore]
) -> None:
    calls.fail = {"write": ["40"], "truncate": [errno.EPERM]}
    with pytest.raises(PersistenceFault):
        await session.append([user("c")])
    assert not Path(session.path).read_bytes().endswith(b"\n")
    assert words(await window().open("s")) == ["a", "b"]
    await session.append([assistant("d")])
    again = await window().open("s")
    assert words(again) == ["a", "b", "c", "d"]
    assert again.report.clean


async def test_closing_says_so_when_something_could_not_be_kept(session: Session, calls: BadCalls) -> None:
    calls.fail["write"] = [errno.ENOSPC] * 2
    with pytest.raises(PersistenceFault):
        await session.append([user("c")])
    with pytest.raises(PersistenceFault):
        await session.close()


async def test_a_durable_append_syncs_once_and_not_on_the_loop(session: Session, calls: BadCalls) -> None:
    calls.count.clear()
    await session.append([user("c")], durable=True)
    assert calls.count == {"write": 1, "datasync": 1}
    await session.sync()
    assert calls.count["datasync"] == 1, "there is nothing new to sync"


async def test_callers_at_the_same_time_share_a_sync(session: Session, calls: BadCalls) -> None:
    calls.count.clear()
    await asyncio.gather(*(session.append([user(str(n))], durable=True) for n in range(40)))
    assert calls.count["datasync"] <= 6
    assert words(session)[2:] == [str(n) for n in range(40)]


async def test_a_sync_is_never_acknowledged_before_its_write_lasts(session: Session, calls: BadCalls) -> None:
    started, done = asyncio.Event(), []
    loop = asyncio.get_running_loop()
    real = calls.datasync

    def slow(fd: int) -> None:
        loop.call_soon_threadsafe(started.set)
        import time

        time.sleep(0.05)
        real(fd)

    calls.datasync = slow  # type: ignore[method-assign] # the test's own seam
    await session.append([user("c")])
    first = asyncio.create_task(session.sync())
    await started.wait()
    await session.append([assistant("d")])
    second = asyncio.create_task(session.sync())
    second.add_done_callback(lambda _: done.append(calls.count.get("datasync", 0)))
    await first
    await second
    assert done == [2], "the second one needs a sync that began after its write"


async def test_a_failed_sync_writes_the_file_anew_and_says_so(
    session: Session, calls: BadCalls, window: Callable[..., SessionStore]
) -> None:
    await session.append([user("c")])
    inode = os.stat(session.path).st_ino
    calls.fail["datasync"] = [errno.EIO]
    await session.sync()
    assert os.stat(session.path).st_ino != inode
    assert len(session.notices) == 1
    assert "anew" in session.notices[0]
    await session.append([assistant("d")], durable=True)
    again = await window().open("s")
    assert words(again) == ["a", "b", "c", "d"]
    assert again.report.clean
    assert [path.name for path in Path(session.path).parent.iterdir() if path.is_file()] == ["s.jsonl"]


async def test_what_the_disk_dropped_is_written_again(
    session: Session, calls: BadCalls, window: Callable[..., SessionStore]
) -> None:
    await session.sync()
    size = os.path.getsize(session.path)
    await session.append([user("c")])
    full = os.path.getsize(session.path)
    with open(session.path, "r+b") as file:
        file.seek(size)
        file.write(b"\0" * (full - size))
    calls.fail["datasync"] = [errno.EIO]
    await session.sync()
    assert words(await window().open("s")) == ["a", "b", "c"]


async def test_what_is_said_after_the_file_was_written_anew_can_be_read_and_put_back(
    session: Session, calls: BadCalls, window: Callable[..., SessionStore]
) -> None:
    calls.fail["datasync"] = [errno.EIO]
    await session.append([user("c")], durable=True)
    await session.append([assistant("d")])
    content = Path(session.path).read_bytes()
    session.graph._cache.clear()
    assert words(session) == ["a", "b", "c", "d"]
    os.unlink(session.path)
    await session.append([user("e")])
    assert Path(session.path).read_bytes().startswith(content)
    assert words(await window().open("s")) == ["a", "b", "c", "d", "e"]


@pytest.mark.parametrize("failing", ["write", "datasync", "replace"])
async def test_when_the_new_file_fails_too_nothing_is_lost_and_nothing_is_claimed(
    session: Session, calls: BadCalls, window: Callable[..., SessionStore], failing: str
) -> None:
    await session.append([user("c")])
    calls.fail = {"datasync": [errno.EIO]}
    calls.fail.setdefault(failing, []).append(errno.EIO)
    with pytest.raises(PersistenceFault):
        await session.sync()
    assert words(await window().open("s")) == ["a", "b", "c"]

    # The system may have dropped the pages of a sync that it refused, and would sync the rest without a word.
    path = Path(session.path)
    data = path.read_bytes()
    lost = data.rindex(b'{"type":"node"')
    path.write_bytes(data[:lost] + bytes(len(data) - lost))
    await session.sync()
    assert words(await window().open("s")) == ["a", "b", "c"]
    await session.append([assistant("d")], durable=True)
    assert words(await window().open("s")) == ["a", "b", "c", "d"]
    assert [path.name for path in Path(session.path).parent.iterdir() if path.is_file()] == ["s.jsonl"]


async def test_after_the_file_was_replaced_a_sync_has_nothing_of_the_old_one(
    session: Session, window: Callable[..., SessionStore], calls: BadCalls
) -> None:
    await session.append([user("c")])
    path = Path(session.path)
    other = path.with_name("other")
    other.write_bytes(path.read_bytes())
    os.replace(other, path)
    await session.refresh()
    await session.sync()

    await session.append([assistant("d")])
    calls.fail = {"datasync": [errno.EIO]}
    await session.sync()
    assert words(await window().open("s")) == ["a", "b", "c", "d"]


async def test_what_is_said_while_a_replaced_file_is_read_anew_is_not_lost(
    session: Session, window: Callable[..., SessionStore], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = Path(session.path)
    other = path.with_name("other")
    other.write_bytes(path.read_bytes())
    os.replace(other, path)
    reading, go_on = threading.Event(), threading.Event()

    def slow(*arguments: Any, **named: Any) -> Any:
        reading.set()
        go_on.wait(10)
        return load(*arguments, **named)

    monkeypatch.setattr("indusagi_lsp.sessions.journal.load", slow)
    first = asyncio.create_task(session.append([user("c")]))
    await asyncio.to_thread(reading.wait, 10)
    second = asyncio.create_task(session.append([assistant("d")]))
    await asyncio.sleep(0.01)
    go_on.set()
    await asyncio.gather(first, second)
    await session.append([user("e")])
    assert session.unsaved == 0
    assert words(session) == words(await window().open("s")) == ["a", "b", "c", "d", "e"]


async def test_a_turn_that_cannot_be_written_changes_nothing(session: Session) -> None:
    bad = Turn("assistant", (ToolCallBlock("c", "t", {"n": 10**5000}),))
    with pytest.raises(InvalidInput):
        await session.append([user("fine"), bad])
    assert words(session) == ["a", "b"]
    assert session.unsaved == 0


async def test_a_new_session_is_refused_where_nothing_can_be_written(
    root: Path, window: Callable[..., SessionStore]
) -> None:
    root.parent.parent.mkdir(parents=True)
    root.parent.write_text("a file in the way")
    with pytest.raises(PersistenceFault):
        await window().create(cwd=CWD)


async def test_a_lock_that_is_never_let_go_is_told(
    session: Session, window: Callable[..., SessionStore], monkeypatch: pytest.MonkeyPatch
) -> None:
    other = await window().open("s")
    other._log.lock._wait = 0.05
    await asyncio.to_thread(session._log.lock.acquire)
    with pytest.raises(PersistenceFault) as fault:
        await other.append([user("c")])
    assert "lock" in fault.value.message
    session._log.lock.release()
    await other.flush()
    assert words(await window().open("s")) == ["a", "b", "c"]


async def test_a_file_system_without_locks_works_alone(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    import fcntl

    def refuse(fd: int, how: int) -> None:
        raise OSError(errno.ENOLCK, "no locks")

    monkeypatch.setattr(fcntl, "flock", refuse)
    await session.append([user("c")])
    assert not session._log.lock.supported


async def test_somebody_removes_the_lock_file(
    session: Session, window: Callable[..., SessionStore], root: Path
) -> None:
    import shutil

    other = await window().open("s")
    await other.append([user("c"), assistant("d")])
    shutil.rmtree(root / ".locks")
    await session.append([user("e")])
    await other.append([user("f")])
    again = await window().open("s")
    assert len(again.graph) == 6
    assert again.report.clean


async def test_a_file_that_is_too_large_is_refused_before_it_is_read(tmp_path: Path) -> None:
    store = SessionStore(tmp_path)
    session = await store.create(cwd=CWD)
    await session.append([user("hello")])
    await session.close()
    (huge := tmp_path / f"{'e' * 32}.jsonl").touch()
    os.truncate(huge, 1 << 40)
    assert [one.id for one in await store.summaries()] == [session.id]
    with pytest.raises(PersistenceFault, match="larger than 1,024 MiB"):
        await store.open("e" * 32)
    with pytest.raises(PersistenceFault, match="larger than 1,024 MiB"):
        await store.look("e" * 32, 10)
    await store.close()

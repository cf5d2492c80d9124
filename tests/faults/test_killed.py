"""Processes that die while they write, fail in the middle of a call, or write all at once."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from faults import logs
from indusagi_lsp.contract.errors import PersistenceFault
from indusagi_lsp.contract.turns import assistant, user
from indusagi_lsp.sessions import SessionStore
from indusagi_lsp.sessions.oscalls import OsCalls

HERE = Path(__file__).parent
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(HERE.parent)}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / ".indusagi" / "sessions"


class Writer:
    """The process that forks writers."""

    def __init__(self, **environment: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, str(HERE / "writer.py")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**ENVIRONMENT, **environment},
        )

    def start(self, **order: object) -> int:
        self.process.stdin.write(json.dumps(order) + "\n")
        self.process.stdin.flush()
        return int(self.process.stdout.readline())

    def wait(self) -> int:
        return int(self.process.stdout.readline().split()[1])

    def close(self) -> None:
        self.process.stdin.close()
        self.process.wait(10)
        self.process.stdout.close()


@pytest.fixture
def writer() -> Iterator[Writer]:
    process = Writer()
    yield process
    process.close()


def new_session(root: Path, name: str) -> None:
    async def make() -> None:
        store = logs.store_at(root)
        session = await store.create(cwd="file:///w", session_id=name)
        await session.append([user("first")])
        await store.close()

    logs.run(make())


def check(root: Path, name: str, acks: Path) -> None:
    """All that was acknowledged is on disk, nothing is broken but a tail, and the next write makes it clean."""
    acknowledged = acks.read_text().split() if acks.exists() else []
    state = logs.read(root, name)
    said = logs.contents(state)
    assert set(acknowledged) <= set(said)
    assert set(state.report.counts) <= {"torn"}
    assert state.trusts(state.graph.leaf) or state.report.torn
    node = logs.append_one(root, "recovered", name)
    state = logs.read(root, name)
    assert state.report.clean
    assert state.graph.leaf == node
    assert set(said) <= set(logs.contents(state))


@pytest.mark.timeout(300)
def test_killed_at_any_moment(root: Path, tmp_path: Path, writer: Writer) -> None:
    maker = random.Random(11)
    for number in range(5_000 if logs.LONG else 300):
        name = f"s{number // 10}"
        acks = tmp_path / f"{name}.acks"
        if number % 10 == 0:
            new_session(root, name)
        child = writer.start(root=str(root), session=name, name="w", count=10_000, acks=str(acks), size=3_000)
        time.sleep(maker.random() * 0.04)
        os.kill(child, signal.SIGKILL)
        assert writer.wait() == -signal.SIGKILL
        check(root, name, acks)


@pytest.mark.timeout(300)
def test_killed_in_every_call(root: Path, tmp_path: Path, writer: Writer) -> None:
    for part in (0.0, 0.5, 1.0):
        for call in range(1, 40):
            name = f"s{call}-{int(part * 10)}"
            acks = tmp_path / f"{name}.acks"
            new_session(root, name)
            with open(root / f"{name}.jsonl", "ab") as file:
                file.write(b'{"type":"torn')
            writer.start(root=str(root), session=name, name="w", count=12, acks=str(acks), kill_at=call, part=part)
            code = writer.wait()
            assert code in (0, -signal.SIGKILL)
            check(root, name, acks)
            if code == 0:
                break


class Failing(OsCalls):
    """The n-th call of one kind fails, once or from then on; a write may take a part before that."""

    def __init__(self, name: str, at: int, code: int, *, always: bool, part: bool) -> None:
        self.name, self.left, self.code, self.always, self.part = name, at, code, always, part
        self.struck = False

    def _fails(self, name: str) -> bool:
        if name != self.name:
            return False
        self.left -= 1
        self.struck = self.struck or self.left <= 0
        return self.left == 0 or (self.left < 0 and self.always)

    def _fault(self) -> OSError:
        return OSError(self.code, os.strerror(self.code))

    def write(self, fd: int, data: bytes) -> int:
        if self._fails("write"):
            if self.part:
                return super().write(fd, data[: len(data) // 2])
            raise self._fault()
        return super().write(fd, data)

    def truncate(self, fd: int, size: int) -> None:
        if self._fails("truncate"):
            raise self._fault()
        super().truncate(fd, size)

    def datasync(self, fd: int) -> None:
        if self._fails("datasync"):
            raise self._fault()
        super().datasync(fd)

    def replace(self, source: str, target: str) -> None:
        if self._fails("replace"):
            raise self._fault()
        super().replace(source, target)


async def scenario(root: Path, calls: OsCalls) -> tuple[list[str], list[str]]:
    """Everything that changes a file, once. Returns what was acknowledged, and what is on the live path in memory."""
    acknowledged: list[str] = []
    store = SessionStore(root, signer=logs.KEY, calls=calls)
    session = await store.open("s")

    async def attempt(what) -> None:
        try:
            made = await what
        except PersistenceFault:
            return
        acknowledged.extend(node.id for node in made or [])

    await attempt(session.append([user("one"), assistant("two" * 500)]))
    await attempt(session.append([user("three")], durable=True))
    await attempt(session.append([assistant("four")]))
    await attempt(session.label(session.graph.leaf, "pin"))
    await attempt(session.sync())
    with contextlib.suppress(PersistenceFault):
        await session.condense(user("summary"), 2)
    await attempt(session.append([user("five")], durable=True))
    path = session.graph.ids_to(session.graph.leaf)
    for _ in range(2):
        try:
            await store.close()
        except PersistenceFault:
            session._closed = False
    return acknowledged, path


ERRORS = (errno.ENOSPC, errno.EIO, errno.EDQUOT, errno.EROFS, errno.EFBIG, errno.EINTR)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("always", [False, True])
def test_every_call_fails_in_every_way(root: Path, always: bool) -> None:
    runs = 0
    for name in ("write", "truncate", "datasync", "replace"):
        for code, part in [(code, False) for code in ERRORS] + ([(0, True)] if name == "write" else []):
            for at in range(1, 30):
                shutil.rmtree(root, ignore_errors=True)
                new_session(root, "s")
                with open(root / "s.jsonl", "ab") as file:
                    file.write(b'{"type":"torn')
                calls = Failing(name, at, code, always=always, part=part)
                acknowledged, path = logs.run(scenario(root, calls))
                state = logs.read(root)
                said = logs.contents(state)
                assert set(acknowledged) <= set(said), (name, code, at)
                assert set(state.report.counts) <= {"torn"}
                if not always:
                    assert set(path) <= set(said), "what was refused once was made up for"
                logs.append_one(root, "recovered")
                assert logs.read(root).report.clean
                runs += 1
                if not calls.struck:
                    break
    assert runs > 60


@pytest.mark.timeout(300)
def test_writers_and_readers_at_once(root: Path, tmp_path: Path) -> None:
    writers, readers, count = (16, 8, 62_500) if logs.LONG else (4, 2, 2_500)
    new_session(root, "s")
    processes = [Writer() for _ in range(writers)]
    for number, process in enumerate(processes):
        process.start(
            root=str(root), session="s", name=f"w{number}", count=count, acks=str(tmp_path / f"{number}.acks"), size=20
        )
    loop_until = time.monotonic() + 250
    seen: list[int] = [0] * readers
    while any(process.process.poll() is None and not _finished(process) for process in processes):
        assert time.monotonic() < loop_until
        for number in range(readers):
            state = logs.read(root)
            assert set(state.report.counts) <= {"torn"}
            assert len(state.graph) >= seen[number], "what was there once stays"
            seen[number] = len(state.graph)
            state.graph.source.close()
        time.sleep(0.2)
    for process in processes:
        process.close()

    state = logs.read(root)
    assert state.report.clean
    acknowledged = [(tmp_path / f"{number}.acks").read_text().split() for number in range(writers)]
    assert [len(acks) for acks in acknowledged] == [count] * writers
    for acks in acknowledged:
        assert set(acks) <= set(state.graph.ids)
    assert len(state.graph) == writers * count + 1


def _finished(process: Writer) -> bool:
    import select

    if select.select([process.process.stdout], [], [], 0)[0]:
        assert process.wait() == 0
        process.process.stdin.close()
        process.process.wait(10)
        return True
    return False


@pytest.mark.skipif(shutil.which("gcc") is None, reason="needs gcc to build the preload shim")
@pytest.mark.timeout(120)
@pytest.mark.parametrize("how", ["errno", "short", "kill", "sync"])
def test_the_system_itself_fails(root: Path, tmp_path: Path, how: str) -> None:
    shim = tmp_path / "shim.so"
    subprocess.run(["gcc", "-shared", "-fPIC", "-O1", "-o", shim, HERE / "shim.c", "-ldl"], check=True)
    for at in range(1, 9):
        name = f"s{at}"
        acks = tmp_path / f"{name}.acks"
        new_session(root, name)
        process = Writer(LD_PRELOAD=str(shim), SHIM_PATH=".jsonl", SHIM_HOW=how, SHIM_AT=str(at))
        process.start(root=str(root), session=name, name="w", count=12, acks=str(acks))
        assert process.wait() == (-signal.SIGKILL if how == "kill" else 0)
        process.close()
        check(root, name, acks)
        if how != "kill":
            texts = [turn.text for turn in logs.contents(logs.read(root, name)).values()]
            assert sum(text.startswith("w ") for text in texts) == 12

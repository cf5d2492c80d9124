"""Each test that asks for `bench` runs over every back end."""

from __future__ import annotations

import os
import tempfile
from typing import TYPE_CHECKING, Any

import pytest

from unit.memory.backends import FakeTime, open_store

if TYPE_CHECKING:
    from collections.abc import Iterator

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


@pytest.fixture(params=["file", "sqlite"])
def bench(request: pytest.FixtureRequest) -> Iterator[Bench]:
    # In memory where the machine has such a folder: the many small writes need not wait for a disk.
    home = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(dir=home) as place:
        bench = Bench(request.param, place)
        yield bench
        bench.close()

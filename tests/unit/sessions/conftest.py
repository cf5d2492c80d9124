"""A folder, a clock that the test sets, and stores that stand for the windows of one or more users."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
from blockbuster import BlockBuster

from indusagi_lsp.sessions import SessionStore, Signer, sessions_root

KEY = b"k" * 32


class FakeClock:
    """Time that only the test moves; each look at it is one millisecond later."""

    def __init__(self) -> None:
        self.time = 1_700_000_000_000

    def now_ms(self) -> int:
        self.time += 1
        return self.time

    def monotonic(self) -> float:
        return self.time / 1000


@pytest.fixture(autouse=True)
def _nothing_blocks_the_loop():
    """Every call of the package that would block the event loop fails its test."""
    guard = BlockBuster(scanned_modules="indusagi_lsp")
    guard.activate()
    yield
    guard.deactivate()


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return sessions_root(tmp_path / "workspace")


@pytest.fixture
async def window(root: Path, clock: FakeClock) -> AsyncIterator[Callable[..., SessionStore]]:
    """Makes stores over the same folder: each is one window."""
    numbers = itertools.count(1)
    stores: list[SessionStore] = []

    def make(*, key: bytes = KEY, **options) -> SessionStore:
        number = next(numbers)
        ids = (f"window{number}-{count}" for count in itertools.count())
        store = SessionStore(root, signer=Signer(key), clock=clock, new_id=lambda: next(ids), **options)
        stores.append(store)
        return store

    yield make
    for store in stores:
        await store.close()


@pytest.fixture
def store(window: Callable[..., SessionStore]) -> SessionStore:
    return window()

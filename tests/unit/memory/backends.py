"""The back ends under test, opened by name, so that a child process can open the same one."""

from __future__ import annotations

import hashlib
import hmac
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, ClassVar

from indusagi_lsp.memory import BaseStore, EmbeddingProvider, FileMemoryStore
from indusagi_lsp.memory.redis import RedisMemoryStore
from indusagi_lsp.memory.sqlite import SqliteMemoryStore

START = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)


class FakeTime:
    """A clock that stands still until it is told otherwise."""

    def __init__(self) -> None:
        self.moment = START

    def __call__(self) -> datetime:
        return self.moment

    def pass_time(self, **parts: float) -> None:
        self.moment += timedelta(**parts)


class WheelEmbedder(EmbeddingProvider):
    """Meaning by hand: each known word turns the vector towards one axis."""

    AXES = ("database", "network", "colour", "food")
    WORDS: ClassVar = {
        "postgres": 0,
        "sql": 0,
        "table": 0,
        "port": 1,
        "socket": 1,
        "wire": 1,
        "red": 2,
        "blue": 2,
        "bread": 3,
        "soup": 3,
    }

    def __init__(self) -> None:
        self.calls = 0

    def embed(self, text: str) -> list[float]:
        self.calls += 1
        vector = [0.0] * len(self.AXES)
        for word in text.lower().split():
            if word in self.WORDS:
                vector[self.WORDS[word]] += 1.0
        return vector

    def batch_embed(self, texts: list[str]) -> list[list[float]]:
        return [self.embed(text) for text in texts]


def mac_with(key: bytes) -> Any:
    return lambda data: hmac.new(key, data, hashlib.sha256).hexdigest()


def open_store(kind: str, place: str, **options: Any) -> BaseStore:
    """Open a store of one kind at a place: for files and SQLite a folder, for servers an address."""
    if kind == "file":
        return FileMemoryStore(Path(place) / "memory", **options)
    if kind == "sqlite":
        return SqliteMemoryStore(Path(place) / "memory.db", **options)
    if kind == "redis":
        url, prefix = place.split("#")
        return RedisMemoryStore(url, prefix=prefix, **options)
    if kind == "postgres":
        from indusagi_lsp.memory.postgres import PostgresMemoryStore

        address, schema = place.split("#")
        return PostgresMemoryStore(address, schema=schema, **options)
    raise AssertionError(kind)

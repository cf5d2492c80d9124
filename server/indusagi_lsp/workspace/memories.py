"""Which stores keep what is remembered: in the folder itself, and in the user's own data for all folders."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from indusagi_lsp.contract.clock import Clock, NewId
from indusagi_lsp.contract.events import Notice
from indusagi_lsp.memory import BaseStore, EmbeddingProvider, FileMemoryStore, MemoryService, RecentVectors, now_from
from indusagi_lsp.memory.identity import workspace_identity
from indusagi_lsp.sessions import Signer

if TYPE_CHECKING:
    from indusagi_lsp.workspace.settings import MemorySettings

log = logging.getLogger(__name__)

LOCAL = frozenset({"sqlite", "file"})
"""The kinds of store that lie in a folder; any other is the address of a server."""

FOLDER = "memory"
DATABASE = "memory.sqlite"

MOST_NOTICES = 20
"""From so many notices of one kind on, further ones only go to the log: a thousand broken files are one trouble."""


class MemoryServer(msgspec.Struct, frozen=True):
    """A server that keeps what is remembered: its address, and the name of this folder there."""

    address: str
    workspace: str


def memory_server(address: str, root: Path) -> MemoryServer | None:
    """The server at an address for one folder, None for an empty address. It reads the disk: not for the event loop."""
    return MemoryServer(address, workspace_identity(root)) if address else None


def open_memory(
    settings: MemorySettings,
    *,
    inside: Path,
    data: Path,
    signer: Signer,
    clock: Clock,
    new_id: NewId,
    report: Callable[[Notice], None],
    server: MemoryServer | None = None,
) -> MemoryService:
    """Open the memory of one folder, on the event loop. Nothing is read or written before its first use.

    Args:
        settings: which kind of store, and whether to find by meaning.
        inside: the folder's `.indusagi`.
        data: the user's own data folder, for what all folders share.
        signer: proves which entries are the user's own.
        clock: the time.
        new_id: makes identifiers.
        report: takes what the user should know (what was skipped and why), on this event loop.
        server: keeps what the folder remembers, in the place of the folder. What is remembered for all folders stays
            with the user, since a server may be shared.
    """
    now = now_from(clock)
    notify = _Notices(report)
    embedder = _embedder() if settings.semantic else None

    def mac(entry: bytes) -> str:
        return signer.seal(entry).decode("ascii")

    def store(folder: Path) -> BaseStore:
        # The store lies in its folder, so the folder is no part of an entry: it may be moved, and is found again.
        return open_store(settings.store, folder, now=now, mac=mac, embedder=embedder, notify=notify)

    workspace = store(inside)
    if server is not None:
        workspace = open_store(
            server.address, inside, workspace=server.workspace, now=now, mac=mac, embedder=embedder, notify=notify
        )
    return MemoryService(workspace, store(data), now=now, new_id=new_id)


def open_store(kind: str, folder: Path, **options: Any) -> BaseStore:
    """Open one store; nothing is read or written before its first use.

    Args:
        kind: `sqlite`, `file`, or the address of a PostgreSQL or Redis server.
        folder: where a local store has its place.
        options: see `BaseStore`.
    """
    if kind == "file":
        return FileMemoryStore(folder / FOLDER, **options)
    if kind == "sqlite":
        from indusagi_lsp.memory.sqlite import SqliteMemoryStore

        return SqliteMemoryStore(folder / FOLDER / DATABASE, **options)
    if kind.startswith("postgres"):
        from indusagi_lsp.memory.postgres import PostgresMemoryStore

        return PostgresMemoryStore(kind, **options)
    from indusagi_lsp.memory.redis import RedisMemoryStore

    return RedisMemoryStore(kind, **options)


class _Notices:
    """Brings what stores say in their threads to the event loop, each text once."""

    def __init__(self, report: Callable[[Notice], None]) -> None:
        self._report = report
        self._loop = asyncio.get_running_loop()
        self._lock = threading.Lock()
        self._told: set[tuple[str, str]] = set()
        self._counts: Counter[str] = Counter()

    def __call__(self, code: str, text: str) -> None:
        with self._lock:
            if (code, text) in self._told or self._counts[code] > MOST_NOTICES:
                return
            self._counts[code] += 1
            if self._counts[code] > MOST_NOTICES:
                log.warning("%s, and perhaps more of this kind: %s", code, text)
                return
            self._told.add((code, text))
        log.warning("%s: %s", code, text)
        # A thread that comes home after the end has nobody to tell it to.
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._report, Notice("warning", code, text))


def _embedder() -> EmbeddingProvider:
    """The packaged embedder; the light one where only that is installed."""
    from indusagi_lsp.memory import minilm, wordllama
    from indusagi_lsp.memory.packaged import is_installed

    if is_installed(wordllama.PACKAGE) and not is_installed(minilm.PACKAGE):
        return RecentVectors(wordllama.WordLlamaEmbedder())
    return RecentVectors(minilm.MiniLmEmbedder())

"""Which stores keep what is remembered: in the folder itself, and in the user's own data for all folders."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from indusagi_lsp.contract.clock import Clock, NewId
from indusagi_lsp.contract.events import Notice
from indusagi_lsp.memory import BaseStore, EmbeddingProvider, FileMemoryStore, MemoryService, RecentVectors, now_from
from indusagi_lsp.sessions import Signer

if TYPE_CHECKING:
    from indusagi_lsp.workspace.settings import MemorySettings

log = logging.getLogger(__name__)

FOLDER = "memory"
DATABASE = "memory.sqlite"

MOST_NOTICES = 20
"""From so many notices of one kind on, further ones only go to the log: a thousand broken files are one trouble."""


def open_memory(
    settings: MemorySettings,
    *,
    inside: Path,
    data: Path,
    signer: Signer,
    clock: Clock,
    new_id: NewId,
    report: Callable[[Notice], None],
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
    """
    now = now_from(clock)
    notify = _Notices(report)
    embedder = _embedder() if settings.semantic else None

    def mac(entry: bytes) -> str:
        return signer.seal(entry).decode("ascii")

    def store(folder: Path) -> BaseStore:
        # The store lies in its folder, so the folder is no part of an entry: it may be moved, and is found again.
        if settings.store == "file":
            return FileMemoryStore(folder / FOLDER, now=now, mac=mac, embedder=embedder, notify=notify)
        from indusagi_lsp.memory.sqlite import SqliteMemoryStore

        return SqliteMemoryStore(folder / FOLDER / DATABASE, now=now, mac=mac, embedder=embedder, notify=notify)

    return MemoryService(store(inside), store(data), now=now, new_id=new_id)


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
    from indusagi_lsp.memory.minilm import MiniLmEmbedder

    return RecentVectors(MiniLmEmbedder())

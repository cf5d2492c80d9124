"""Which stores keep what is remembered: in the folder itself, and in the user's own data for all folders."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from indusagi_lsp.contract.clock import Clock, NewId
from indusagi_lsp.memory import BaseStore, EmbeddingProvider, FileMemoryStore, MemoryService, now_from
from indusagi_lsp.sessions import Signer

if TYPE_CHECKING:
    from indusagi_lsp.workspace.settings import MemorySettings

FOLDER = "memory"
DATABASE = "memory.sqlite"


def open_memory(
    settings: MemorySettings, *, inside: Path, data: Path, signer: Signer, clock: Clock, new_id: NewId
) -> MemoryService:
    """Open the memory of one folder. Nothing is read or written before its first use.

    Args:
        settings: which kind of store, and whether to find by meaning.
        inside: the folder's `.indusagi`.
        data: the user's own data folder, for what all folders share.
        signer: proves which entries are the user's own.
        clock: the time.
        new_id: makes identifiers.
    """
    now = now_from(clock)
    embedder = _embedder() if settings.semantic else None

    def mac(entry: bytes) -> str:
        return signer.seal(entry).decode("ascii")

    def store(folder: Path) -> BaseStore:
        # The store lies in its folder, so the folder is no part of an entry: it may be moved, and is found again.
        if settings.store == "file":
            return FileMemoryStore(folder / FOLDER, now=now, mac=mac, embedder=embedder)
        from indusagi_lsp.memory.sqlite import SqliteMemoryStore

        return SqliteMemoryStore(folder / FOLDER / DATABASE, now=now, mac=mac, embedder=embedder)

    return MemoryService(store(inside), store(data), now=now, new_id=new_id)


def _embedder() -> EmbeddingProvider:
    from indusagi_lsp.memory.minilm import MiniLmEmbedder

    return MiniLmEmbedder()

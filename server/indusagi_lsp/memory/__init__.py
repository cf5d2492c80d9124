"""What is remembered across runs, and how it is found again.

Light to import: NumPy, databases and embedders are imported at their first use. All stores block, so call them from
worker threads; `MemoryService` does so.
"""

from __future__ import annotations

from indusagi_lsp.memory.embedding import EmbeddingProvider, RecentVectors
from indusagi_lsp.memory.entry import (
    ExpirationPolicy,
    MemoryEntry,
    MemoryScope,
    MemorySource,
    now_from,
    utc_now,
)
from indusagi_lsp.memory.files import FileMemoryStore
from indusagi_lsp.memory.index import MemoryIndex
from indusagi_lsp.memory.migrate import Migrated, migrate
from indusagi_lsp.memory.query import MemoryQuery, ScoredEntry
from indusagi_lsp.memory.service import MemoryService, Remembered
from indusagi_lsp.memory.sqlite import SqliteMemoryStore
from indusagi_lsp.memory.store import BaseStore, Conflict, EntryNotFound, MemoryStore

__all__ = [
    "BaseStore",
    "Conflict",
    "EmbeddingProvider",
    "EntryNotFound",
    "ExpirationPolicy",
    "FileMemoryStore",
    "MemoryEntry",
    "MemoryIndex",
    "MemoryQuery",
    "MemoryScope",
    "MemoryService",
    "MemorySource",
    "MemoryStore",
    "Migrated",
    "RecentVectors",
    "Remembered",
    "ScoredEntry",
    "SqliteMemoryStore",
    "migrate",
    "now_from",
    "utc_now",
]

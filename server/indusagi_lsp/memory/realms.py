"""Ranking and filtering in memory, for back ends that hold plain records (files, Redis)."""

from __future__ import annotations

import abc
import threading
from typing import TYPE_CHECKING, Any

from indusagi_lsp.memory.entry import MemoryEntry, newest_first
from indusagi_lsp.memory.index import MemoryIndex
from indusagi_lsp.memory.lexical import LexicalIndex, Question, rank
from indusagi_lsp.memory.query import MemoryQuery, ScoredEntry
from indusagi_lsp.memory.scoring import by_score, fuse
from indusagi_lsp.memory.store import BaseStore
from indusagi_lsp.memory.text import index_terms

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime


class Realm:
    """The entries of one realm with what is derived from them."""

    def __init__(self) -> None:
        self.entries: dict[str, MemoryEntry] = {}
        self.words = LexicalIndex()
        self._ending: dict[str, datetime] = {}
        self._vectors: tuple[str, MemoryIndex] | None = None

    def put(self, entry: MemoryEntry) -> None:
        """Take an entry in, in place of the one of the same identifier."""
        former = self.entries.get(entry.identifier)
        self.entries[entry.identifier] = entry
        if former is None or (former.content, former.context) != (entry.content, entry.context):
            self.words.put(entry.identifier, index_terms(entry.content, entry.context))
        self._ending.pop(entry.identifier, None)
        if entry.expires_at is not None:
            self._ending[entry.identifier] = entry.expires_at
        self._vectors = None

    def remove(self, identifier: str) -> None:
        """Forget an entry; nothing happens where there is none."""
        if self.entries.pop(identifier, None) is not None:
            self.words.remove(identifier)
            self._ending.pop(identifier, None)
            self._vectors = None

    def expired(self, now: datetime) -> list[str]:
        """The identifiers of the entries that have ended."""
        return [identifier for identifier, end in self._ending.items() if now >= end]

    def vectors(self, embedder: str, length: int) -> MemoryIndex:
        """The index of the entries with vectors of one embedder."""
        if self._vectors is None or self._vectors[0] != embedder:
            index = MemoryIndex(
                entry
                for entry in self.entries.values()
                if entry.embedder == embedder and entry.embedding is not None and len(entry.embedding) == length
            )
            self._vectors = (embedder, index)
        return self._vectors[1]


class InMemoryRanking(BaseStore):
    """The primitives that filter and rank, over realms that are held in memory.

    Every verb that looks at more than one entry begins with `_evict`, which brings the realms up to date.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._guard = threading.RLock()
        self._views: dict[str, Realm] = {}

    @abc.abstractmethod
    def _refresh(self, realms: Sequence[str]) -> None:
        """Bring the realms in memory up to what is in the store now."""

    def _realm(self, name: str) -> Realm:
        return self._views.setdefault(name, Realm())

    def _evict(self, realms: Sequence[str], now: datetime) -> None:
        with self._guard:
            self._refresh(realms)
            for name in realms:
                for identifier in self._realm(name).expired(now):
                    self._evict_touched((name,), identifier, now)
                    self._realm(name).remove(identifier)

    def _filtered(self, query: MemoryQuery, realms: Sequence[str], limit: int | None) -> list[MemoryEntry]:
        with self._guard:
            entries = [self._checked(entry) for name in realms for entry in self._realm(name).entries.values()]
        return sorted(filter(query.matches, entries), key=newest_first)[:limit]

    def _lexical(self, query: MemoryQuery, realms: Sequence[str], limit: int | None) -> list[ScoredEntry]:
        question = Question.of(index_terms(query.text or ""))
        with self._guard:
            views = [self._realm(name) for name in realms]
            found = [
                (view.entries[identifier], score)
                for view, scores in zip(views, rank(question, [view.words for view in views]), strict=True)
                for identifier, score in scores.items()
            ]
        return self._ordered(found, "lexical", query, limit)

    def _semantic(
        self, vector: Sequence[float], query: MemoryQuery, realms: Sequence[str], limit: int | None
    ) -> list[ScoredEntry]:
        embedder = self._embedder.id if self._embedder else ""
        found = []
        with self._guard:
            for name in realms:
                index = self._realm(name).vectors(embedder, len(vector))
                found += [(hit.entry, hit.score) for hit in index.search(vector, max_results=len(index))]
        return self._ordered(found, "semantic", query, limit)

    def _fused(
        self, vector: Sequence[float], query: MemoryQuery, realms: Sequence[str], limit: int | None
    ) -> list[ScoredEntry]:
        embedder, weight = (self._embedder.id, self._embedder.weight) if self._embedder else ("", 0.0)
        question = Question.of(index_terms(query.text or ""))
        hits = []
        with self._guard:
            views = [self._realm(name) for name in realms]
            for view, words in zip(views, rank(question, [view.words for view in views]), strict=True):
                index = view.vectors(embedder, len(vector))
                meaning = {hit.entry.identifier: hit.score for hit in index.search(vector, len(index), -1)}
                for identifier in words.keys() | meaning.keys():
                    parts = {"lexical": words.get(identifier, 0.0), "semantic": meaning.get(identifier)}
                    score = fuse(words.get(identifier, 0.0), parts["semantic"], weight)
                    details = {name: part for name, part in parts.items() if part is not None}
                    hits.append(ScoredEntry(self._checked(view.entries[identifier]), score, details))
        return sorted((hit for hit in hits if hit.score > 0 and query.matches(hit.entry)), key=by_score)[:limit]

    def _ordered(
        self, found: list[tuple[MemoryEntry, float]], name: str, query: MemoryQuery, limit: int | None
    ) -> list[ScoredEntry]:
        hits = [ScoredEntry(self._checked(entry), score, {name: score}) for entry, score in found if score > 0]
        return sorted((hit for hit in hits if query.matches(hit.entry)), key=by_score)[:limit]

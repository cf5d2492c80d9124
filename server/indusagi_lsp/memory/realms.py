"""Ranking and filtering in memory, for back ends that hold plain records (files, Redis)."""

from __future__ import annotations

import abc
from typing import TYPE_CHECKING

from indusagi_lsp.memory.entry import MemoryEntry, newest_first
from indusagi_lsp.memory.index import MemoryIndex
from indusagi_lsp.memory.lexical import LexicalIndex, Question, rank
from indusagi_lsp.memory.query import MemoryQuery, ScoredEntry
from indusagi_lsp.memory.store import BaseStore, by_score
from indusagi_lsp.memory.text import index_terms

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
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
                if entry.embedder == embedder
                and entry.embedding is not None
                and len(entry.embedding) == length
            )
            self._vectors = (embedder, index)
        return self._vectors[1]


class InMemoryRanking(BaseStore):
    """The primitives that filter and rank, over realms that are held in memory."""

    @abc.abstractmethod
    def _realm(self, name: str) -> Realm:
        """The realm as it stands in the store now."""

    def _evict(self, realms: Sequence[str], now: datetime) -> None:
        for name in realms:
            for identifier in self._realm(name).expired(now):
                self._evict_touched((name,), identifier, now)

    def _passing(self, query: MemoryQuery, name: str) -> Iterator[MemoryEntry]:
        for entry in list(self._realm(name).entries.values()):
            checked = self._checked(entry)
            if query.matches(checked):
                yield checked

    def _filtered(self, query: MemoryQuery, realms: Sequence[str], limit: int | None) -> list[MemoryEntry]:
        entries = [entry for name in realms for entry in self._passing(query, name)]
        return sorted(entries, key=newest_first)[:limit]

    def _lexical(self, query: MemoryQuery, realms: Sequence[str], limit: int | None) -> list[ScoredEntry]:
        question = Question.of(index_terms(query.text or ""))
        views = [self._realm(name) for name in realms]
        scores = rank(question, [view.words for view in views])
        hits = []
        for number, view in enumerate(views):
            for identifier, score in scores[number].items():
                entry = self._checked(view.entries[identifier])
                if query.matches(entry):
                    hits.append(ScoredEntry(entry, score, {"lexical": score}))
        return sorted(hits, key=by_score)[:limit]

    def _semantic(
        self, vector: Sequence[float], query: MemoryQuery, realms: Sequence[str], limit: int | None
    ) -> list[ScoredEntry]:
        embedder = self._embedder.id if self._embedder else ""
        hits = []
        for name in realms:
            index = self._realm(name).vectors(embedder, len(vector))
            for hit in index.search(vector, max_results=len(index)):
                entry = self._checked(hit.entry)
                if query.matches(entry):
                    hits.append(ScoredEntry(entry, hit.score, hit.score_details))
        return sorted(hits, key=by_score)[:limit]

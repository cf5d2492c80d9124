"""What the seed tells of memory, as tests: every class and method exists under its name and behaves as told."""

from __future__ import annotations

import inspect
import math
from datetime import UTC, datetime, timedelta
from enum import Enum

import pytest

from indusagi_lsp.contract.errors import InvalidInput
from indusagi_lsp.memory import (
    EmbeddingProvider,
    ExpirationPolicy,
    FileMemoryStore,
    MemoryEntry,
    MemoryIndex,
    MemoryQuery,
    MemoryScope,
    MemoryStore,
    ScoredEntry,
)
from unit.memory.backends import WheelEmbedder


def test_the_store_is_abstract_and_anybody_may_write_one():
    assert MemoryStore.__abstractmethods__ == {"store", "retrieve", "search", "update", "delete"}

    class DictStore(MemoryStore):
        def __init__(self):
            self.entries = {}

        def store(self, entry):
            self.entries[entry.identifier] = entry
            return entry

        def retrieve(self, identifier):
            return self.entries.get(identifier)

        def search(self, query):
            return [ScoredEntry(entry, 1.0) for entry in self.entries.values() if query.matches(entry)]

        def update(self, entry, *, expected_updated_at=None):
            return self.store(entry)

        def delete(self, identifier):
            return self.entries.pop(identifier, None) is not None

    store = DictStore()
    store.store(MemoryEntry(identifier="a", content="x", tags=["t"]))
    assert [entry.identifier for entry in store.list(MemoryQuery(tags=["t"]))] == ["a"]
    assert store.count() == 1
    assert len(list(store.export())) == 1
    assert len(store.recall("x")) == 1
    store.close()


def test_an_entry_has_the_told_fields_and_cannot_be_changed():
    entry = MemoryEntry(identifier="k", content="the actual data")
    for name in (
        "identifier", "content", "tags", "metadata", "scope", "created_at", "updated_at", "embedding", "expiration",
    ):  # fmt: skip
        assert hasattr(entry, name)
    with pytest.raises(AttributeError):
        entry.content = "other"


def test_scopes():
    assert issubclass(MemoryScope, Enum)
    assert [scope.value for scope in MemoryScope] == ["agent", "shared", "global"]


def test_a_query_takes_the_told_arguments():
    query = MemoryQuery(
        tags=["a"],
        metadata={"k": "v"},
        scope=MemoryScope.SHARED,
        start_time=datetime(2026, 1, 1, tzinfo=UTC),
        end_time=datetime(2026, 2, 1, tzinfo=UTC),
        semantic_text="words",
        max_results=5,
        min_relevance=0.5,
    )
    assert query.max_results == 5
    assert MemoryQuery().max_results is None


def test_an_embedding_provider_is_abstract_and_embeds_one_or_many():
    assert EmbeddingProvider.__abstractmethods__ == {"embed", "batch_embed"}
    assert list(inspect.signature(EmbeddingProvider.embed).parameters) == ["self", "text"]
    assert list(inspect.signature(EmbeddingProvider.batch_embed).parameters) == ["self", "texts"]


def test_each_entry_is_a_json_file(tmp_path):
    store = FileMemoryStore(tmp_path)
    for name in "abc":
        store.store(MemoryEntry(identifier=name, content=name))
    assert len(list(tmp_path.glob("*.json"))) == 3
    store.delete("b")
    assert len(list(tmp_path.glob("*.json"))) == 2


def test_without_a_provider_exact_queries_work_and_semantic_ones_are_empty(tmp_path):
    store = FileMemoryStore(tmp_path)
    store.store(MemoryEntry(identifier="a", content="x", tags=["t"]))
    assert len(store.search(MemoryQuery(tags=["t"]))) == 1
    assert store.search(MemoryQuery(semantic_text="x")) == []


def test_with_a_provider_vectors_are_made_when_an_entry_is_stored(tmp_path):
    store = FileMemoryStore(tmp_path, embedder=WheelEmbedder())
    assert store.store(MemoryEntry(identifier="a", content="sql")).embedding is not None


def test_expiration_is_evaluated_lazily(tmp_path):
    moment = datetime(2026, 1, 1, tzinfo=UTC)
    time = [moment]
    store = FileMemoryStore(tmp_path, now=lambda: time[0])
    store.store(MemoryEntry(identifier="a", content="x", created_at=moment, expiration=ExpirationPolicy(10)))
    time[0] += timedelta(seconds=10)
    assert len(list(tmp_path.glob("*.json"))) == 1
    assert store.search(MemoryQuery()) == []
    assert list(tmp_path.glob("*.json")) == []


class TestMemoryIndex:
    def vectors(self):
        return {"east": (1.0, 0.0), "north": (0.0, 2.0), "north-east": (3.0, 3.0), "west": (-1.0, 0.0)}

    def index(self):
        return MemoryIndex(
            MemoryEntry(identifier=name, content=name, embedding=vector) for name, vector in self.vectors().items()
        )

    def test_ranks_by_cosine_similarity(self):
        hits = self.index().search([5.0, 0.0])
        assert [(hit.entry.identifier, hit.score) for hit in hits] == [
            ("east", 1.0),
            ("north-east", round(math.sqrt(0.5), 6)),
            ("north", 0.0),
        ]

    def test_its_defaults(self):
        parameters = inspect.signature(MemoryIndex.search).parameters
        assert (parameters["max_results"].default, parameters["min_relevance"].default) == (10, 0.0)

    def test_limit_and_threshold(self):
        assert [hit.entry.identifier for hit in self.index().search([1, 0], max_results=1)] == ["east"]
        assert len(self.index().search([1, 0], min_relevance=0.5)) == 2
        assert len(self.index().search([1, 0], min_relevance=-1)) == 4

    def test_entries_without_a_vector_are_left_out(self):
        index = MemoryIndex([MemoryEntry(identifier="a", content="x")])
        assert len(index) == 0
        assert index.search([1.0]) == []

    def test_a_vector_of_nothing_is_near_nothing(self):
        index = MemoryIndex([MemoryEntry(identifier="a", content="x", embedding=[0.0, 0.0])])
        assert [hit.score for hit in index.search([1.0, 0.0])] == [0.0]

    def test_lengths_must_agree_and_numbers_be_finite(self):
        index = self.index()
        for bad in ([1.0], [1.0, float("nan")], [float("inf"), 0.0]):
            with pytest.raises(InvalidInput):
                index.search(bad)
        with pytest.raises(InvalidInput):
            index.add([MemoryEntry(identifier="a", content="x", embedding=[1.0, 2.0, 3.0])])
        with pytest.raises(InvalidInput):
            MemoryIndex(
                [
                    MemoryEntry(identifier="a", content="x", embedding=[1.0]),
                    MemoryEntry(identifier="b", content="x", embedding=[1.0, 2.0]),
                ]
            )

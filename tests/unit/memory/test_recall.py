"""Recall by words and meaning together, on every back end, and the renewal of vectors."""

from __future__ import annotations

import random

import pytest

from indusagi_lsp.contract.errors import InvalidState
from indusagi_lsp.memory import MemoryEntry, MemoryQuery, MemoryScope
from indusagi_lsp.memory.scoring import fuse
from unit.memory.backends import START, WheelEmbedder, mac_with


def entry(identifier, content, **fields):
    return MemoryEntry(identifier=identifier, content=content, created_at=START, **fields)


def ids(hits):
    return [hit.entry.identifier for hit in hits]


def test_words_and_meaning_are_united_and_explained(bench):
    store = bench.open(embedder=WheelEmbedder())
    store.store(entry("words", "the ninja builds it"))
    store.store(entry("meaning", "a table"))
    store.store(entry("both", "the ninja has sql"))
    store.store(entry("neither", "bread"))
    hits = store.recall("ninja postgres")
    assert set(ids(hits)) == {"words", "meaning", "both"}
    assert ids(hits)[0] == "both"
    parts = {hit.entry.identifier: hit.score_details for hit in hits}
    assert parts["meaning"] == {"lexical": 0.0, "semantic": 1.0}
    assert parts["both"]["lexical"] > 0
    for hit in hits:
        assert hit.score == fuse(hit.score_details["lexical"], hit.score_details.get("semantic"), 0.5)


def test_an_entry_without_a_vector_is_not_buried(bench):
    bench.open().store(entry("bare", "ninja builds fast"))
    store = bench.open(embedder=WheelEmbedder())
    store.store(entry("other", "ninja sql and many other words that say little"))
    hits = store.recall("ninja builds fast")
    assert ids(hits)[0] == "bare"
    assert hits[0].score == 1.0
    assert hits[0].score_details == {"lexical": 1.0}


def test_without_an_embedder_recall_is_lexical(bench):
    store = bench.open()
    store.store(entry("e", "ninja"))
    assert store.recall("ninja") == store.search(MemoryQuery(text="ninja"))


def test_an_embedder_that_fails_leaves_the_words(bench):
    class Broken(WheelEmbedder):
        def embed(self, text):
            raise RuntimeError("gone")

    bench.open(embedder=WheelEmbedder()).store(entry("e", "ninja"))
    store = bench.open(embedder=Broken())
    assert ids(store.recall("ninja")) == ["e"]
    assert store.search(MemoryQuery(semantic_text="sql")) == []
    assert bench.notices[-1][0] == "memory_not_embedded"


def test_prefixes_and_order_hold_over_random_entries(bench):
    rng = random.Random(5)
    vocabulary = [*WheelEmbedder.WORDS, "ninja", "build", "fast", "slow", "tree", "leaf"]
    store = bench.open(embedder=WheelEmbedder())
    bare = bench.open()
    for number in range(120):
        text = " ".join(rng.choices(vocabulary, k=4))
        (bare if number % 10 == 0 else store).store(entry(f"e{number:03}", text, tags=["odd"] if number % 2 else []))
    for question in ("sql port ninja", "bread", "leaf tree", "red soup fast build"):
        for filters in ({}, {"tags": ["odd"]}):
            everything = store.recall(question, MemoryQuery(**filters))
            scores = [hit.score for hit in everything]
            assert scores == sorted(scores, reverse=True)
            for number in (1, 2, 3, 5, 8, 13, 40):
                assert (
                    ids(store.recall(question, MemoryQuery(max_results=number, **filters))) == ids(everything)[:number]
                )


def test_the_same_question_gives_the_same_answer_everywhere(tmp_path):
    """The order over back ends, with scores; servers take part in their own runs through the tests above."""
    from unit.memory.backends import open_store

    rng = random.Random(6)
    vocabulary = [*WheelEmbedder.WORDS, *(f"word{number}" for number in range(40))]
    stores = [open_store(kind, str(tmp_path), embedder=WheelEmbedder()) for kind in ("file", "sqlite")]
    for number in range(150):
        made = entry(
            f"e{number}",
            " ".join(rng.choices(vocabulary, k=rng.randrange(3, 12))),
            context=" ".join(rng.choices(vocabulary, k=5)) if number % 3 else "",
            scope=rng.choice(list(MemoryScope)),
        )
        for store in stores:
            store.store(made)
    for _ in range(30):
        question = " ".join(rng.choices(vocabulary, k=rng.randrange(1, 6)))
        for ask in (
            lambda store, text: store.search(MemoryQuery(text=text, max_results=10)),
            lambda store, text: store.search(MemoryQuery(semantic_text=text, max_results=10)),
            lambda store, text: store.recall(text, MemoryQuery(max_results=10)),
        ):
            first, second = ([(h.entry.identifier, h.score) for h in ask(store, question)] for store in stores)
            assert [name for name, _ in first] == [name for name, _ in second], question
            assert [score for _, score in first] == pytest.approx([score for _, score in second], abs=2e-6)
    for store in stores:
        store.close()


class TestReembed:
    class Other(WheelEmbedder):
        pass

    def test_old_vectors_are_renewed_with_progress_and_proofs_stay(self, bench):
        key = mac_with(b"k")
        first = bench.open(embedder=WheelEmbedder(), mac=key)
        for number in range(7):
            first.store(entry(f"e{number}", "sql table"))
        before = first.list()
        store = bench.open(embedder=self.Other(), mac=key)
        assert store.search(MemoryQuery(semantic_text="sql")) == []
        told = []
        assert store.reembed(lambda done, of: told.append((done, of)), batch=3) == 7
        assert told == [(3, 7), (6, 7), (7, 7)]
        assert len(store.search(MemoryQuery(semantic_text="sql"))) == 7
        assert store.reembed() == 0
        after = store.list()
        assert all(entry.trusted for entry in after)
        assert [one.updated_at for one in after] == [one.updated_at for one in before]

    def test_it_goes_on_where_it_was_stopped(self, bench):
        first = bench.open()
        for number in range(6):
            first.store(entry(f"e{number}", "sql"))

        def stop(done, _of):
            raise KeyboardInterrupt

        store = bench.open(embedder=WheelEmbedder())
        with pytest.raises(KeyboardInterrupt):
            store.reembed(stop, batch=2)
        assert store.reembed(batch=2) == 4

    def test_without_an_embedder_it_is_refused(self, bench):
        with pytest.raises(InvalidState):
            bench.open().reembed()


@pytest.mark.parametrize("number", [float("nan"), float("inf"), 1e39])
def test_a_vector_that_no_32_bit_float_holds_counts_as_none(bench, number):
    class Mad(WheelEmbedder):
        def embed(self, text):
            return [1.0, number] if "mad" in text else [1.0, 0.0]

    store = bench.open(embedder=Mad())
    assert store.recall("ninja") == []
    assert store.store(entry("mad", "mad ninja")).embedding is None
    given = store.store(entry("given", "a ninja", embedding=(1.0, number), embedder=Mad().id))
    assert given.embedding == (1.0, 0.0)
    assert set(ids(store.recall("mad ninja"))) == {"mad", "given"}
    assert set(ids(bench.open(embedder=Mad()).recall("ninja"))) == {"mad", "given"}
    assert [code for code, _ in bench.notices] == ["memory_not_embedded"] * 2

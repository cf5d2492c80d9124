"""Moving between any two kinds of stores, with counts that match, and after an interruption."""

from __future__ import annotations

from datetime import timedelta

import pytest

from indusagi_lsp.contract.errors import InvalidInput
from indusagi_lsp.memory import ExpirationPolicy, MemoryEntry, MemoryScope, MemorySource, SqliteMemoryStore, migrate
from unit.memory.backends import START, FakeTime, WheelEmbedder, mac_with

KEY = mac_with(b"k")


@pytest.fixture
def other(tmp_path):
    store = SqliteMemoryStore(tmp_path / "other.db", agent="a", mac=KEY, now=FakeTime())
    yield store
    store.close()


def fill(store):
    for number in range(12):
        store.store(
            MemoryEntry(
                identifier=f"e/{number}" + "\ud800" * (number == 3),
                content=f"sql {number}\x00",
                context="near" * (number % 2),
                tags=["t"],
                metadata={"n": number},
                scope=list(MemoryScope)[number % 3],
                created_at=START,
                expiration=ExpirationPolicy(1e6) if number % 4 == 0 else None,
                source=MemorySource("s", "n"),
            )
        )


def plain(store):
    return store.list()


def test_there_and_back(bench, other):
    source = bench.open(agent="a", mac=KEY, embedder=WheelEmbedder())
    fill(source)
    told = []
    first = migrate(source, other, lambda done, of: told.append((done, of)))
    assert (first.total, first.copied, first.present, first.kept) == (12, 12, 0, 0)
    assert told[-1] == (12, 12)
    assert plain(other) == plain(source)
    assert all(entry.trusted for entry in other.list())
    assert migrate(source, other).present == 12

    back = bench.open(agent="a", workspace="elsewhere", mac=KEY)
    for entry in source.list():
        source.delete(entry.identifier)
    assert migrate(other, back).copied == 12
    assert plain(back) == plain(other)


def test_it_goes_on_after_an_interruption(bench, other):
    source = bench.open(agent="a", mac=KEY)
    fill(source)

    def stop(done, _of):
        if done == 5:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        migrate(source, other, stop)
    again = migrate(source, other)
    assert (again.present, again.copied) == (5, 7)
    assert other.count() == source.count() == 12


def test_a_later_form_in_the_target_is_kept(bench, other):
    source = bench.open(agent="a", mac=KEY)
    fill(source)
    migrate(source, other)
    other._now = lambda: START + timedelta(hours=1)
    other.amend("e/1", content="later")
    done = migrate(source, other)
    assert (done.present, done.kept, done.copied) == (11, 1, 0)
    assert other.retrieve("e/1").content == "later"


def test_what_is_foreign_stays_foreign(bench, other):
    bench.open(agent="a", mac=mac_with(b"theirs")).store(MemoryEntry(identifier="e", content="x"))
    migrate(bench.open(agent="a", mac=KEY), other)
    assert other.retrieve("e").trusted is False


def test_agents_are_not_mixed(bench, other):
    with pytest.raises(InvalidInput):
        migrate(bench.open(agent="b"), other)

"""Who sees what: every verb, from every point of view, with a marker that must never appear."""

from __future__ import annotations

import threading

import pytest

from indusagi_lsp.memory import EntryNotFound, ExpirationPolicy, MemoryEntry, MemoryQuery, MemoryScope
from unit.memory.backends import START, WheelEmbedder

MARKER = "SECRET_MARKER"

VERBS = {
    "retrieve": lambda store: store.retrieve("e"),
    "list": lambda store: store.list(),
    "list shared": lambda store: store.list(MemoryQuery(scope=MemoryScope.SHARED)),
    "list global": lambda store: store.list(MemoryQuery(scope=MemoryScope.GLOBAL)),
    "list by tag": lambda store: store.list(MemoryQuery(tags=["t"])),
    "list by metadata": lambda store: store.list(MemoryQuery(metadata={"k": 1})),
    "list by time": lambda store: store.list(MemoryQuery(start_time=START, end_time=START)),
    "search": lambda store: store.search(MemoryQuery()),
    "lexical": lambda store: store.search(MemoryQuery(text=f"{MARKER} postgres")),
    "semantic": lambda store: store.search(MemoryQuery(semantic_text="postgres")),
    "both": lambda store: store.search(MemoryQuery(text=MARKER, semantic_text="postgres")),
    "recall": lambda store: store.recall(f"{MARKER} postgres"),
    "export": lambda store: list(store.export()),
    "count": lambda store: MARKER if store.count() else "",
    "update": lambda store: attempt(lambda: store.update(MemoryEntry(identifier="e", content="overwritten"))),
    "amend": lambda store: attempt(lambda: store.amend("e", content="overwritten")),
    "adopt": lambda store: attempt(lambda: store.adopt("e")),
    "delete": lambda store: MARKER if store.delete("e") else "",
}

WRITER = {"workspace": "w1", "agent": "a1"}
VIEWERS = {
    "own": WRITER,
    "other agent": {"workspace": "w1", "agent": "a2"},
    "other workspace": {"workspace": "w2", "agent": "a1"},
    "other both": {"workspace": "w2", "agent": "a2"},
    "nobody": {"workspace": "", "agent": ""},
}
SEES = {
    MemoryScope.AGENT: {"own"},
    MemoryScope.SHARED: {"own", "other agent"},
    MemoryScope.GLOBAL: set(VIEWERS),
}


def attempt(action):
    try:
        return action()
    except EntryNotFound:
        return None


def secret(scope, **fields):
    return MemoryEntry(
        identifier="e",
        content=f"{MARKER} postgres",
        tags=["t"],
        metadata={"k": 1},
        scope=scope,
        created_at=START,
        **fields,
    )


NARROW = {"list shared": {MemoryScope.AGENT}, "list global": {MemoryScope.AGENT, MemoryScope.SHARED}}


@pytest.mark.parametrize("viewer", VIEWERS)
@pytest.mark.parametrize("scope", MemoryScope)
def test_the_matrix(bench, viewer, scope):
    def options(name):
        return VIEWERS[name] | {"embedder": WheelEmbedder(), "mac": lambda data: "m" + str(len(data))}

    bench.open(**options("own")).store(secret(scope))
    store = bench.open(**options(viewer))
    visible = viewer in SEES[scope]
    for verb, ask in VERBS.items():
        if verb in ("update", "amend"):
            if not visible:
                assert ask(store) is None
            continue
        shown = MARKER in repr(ask(store))
        assert shown is (visible and scope not in NARROW.get(verb, ())), verb

    # Whoever does not see it has not touched it either.
    kept = bench.open(**options("own")).retrieve("e")
    assert kept is None if visible else kept.content == f"{MARKER} postgres"


def test_one_identifier_in_two_workspaces(bench):
    first, second = (bench.open(workspace=name, agent="a") for name in ("w1", "w2"))
    for store in (first, second):
        for scope in (MemoryScope.AGENT, MemoryScope.SHARED):
            store.store(MemoryEntry(identifier=scope.value, content="postgres here", scope=scope))
    first.amend("agent", content="changed")
    first.delete("shared")
    assert second.retrieve("agent").content == "postgres here"
    assert {hit.entry.identifier for hit in second.search(MemoryQuery(text="postgres"))} == {"agent", "shared"}


def test_names_that_look_alike_are_different(bench):
    pairs = [
        ("a", "b"),
        ("a,b", ""),
        ('a"', "b"),
        ("a\x00b", ""),
        ("a", "b "),
        ("A", "b"),
        ("é", ""),
        ("e\u0301", ""),
        ("", "ab"),
    ]
    for workspace, agent in pairs:
        bench.open(workspace=workspace, agent=agent).store(MemoryEntry(identifier="e", content=f"{workspace}|{agent}"))
    for workspace, agent in pairs:
        (found,) = bench.open(workspace=workspace, agent=agent).list()
        assert found.content == f"{workspace}|{agent}"


def test_foreign_entries_change_no_score(bench):
    mine = bench.open(workspace="w1", agent="a")
    for number in range(5):
        mine.store(MemoryEntry(identifier=f"e{number}", content=f"ninja builds part {number}", created_at=START))
    before = [(hit.entry.identifier, hit.score) for hit in mine.search(MemoryQuery(text="ninja part 3"))]
    for workspace, agent in (("w1", "b"), ("w2", "a")):
        other = bench.open(workspace=workspace, agent=agent)
        for number in range(20):
            other.store(MemoryEntry(identifier=f"x{number}", content="ninja ninja part of a long other text"))
    after = [(hit.entry.identifier, hit.score) for hit in mine.search(MemoryQuery(text="ninja part 3"))]
    assert after == before


def test_the_default_query_finds_what_was_written_in_any_scope(bench):
    store = bench.open(workspace="w", agent="a")
    for scope in MemoryScope:
        store.store(MemoryEntry(identifier=scope.value, content="postgres", scope=scope))
    assert {entry.identifier for entry in store.list()} == {"agent", "shared", "global"}
    assert len(store.search(MemoryQuery(text="postgres"))) == 3


def test_moving_between_scopes_moves_what_is_seen(bench):
    mine, other = (bench.open(workspace="w", agent=agent) for agent in "ab")
    mine.store(MemoryEntry(identifier="e", content="postgres", expiration=ExpirationPolicy(1e6)))
    assert other.list() == []
    mine.amend("e", scope=MemoryScope.SHARED)
    assert [entry.agent for entry in other.list()] == ["a"]
    assert mine.count() == 1
    other.amend("e", scope=MemoryScope.AGENT)
    assert mine.list() == []
    assert [entry.agent for entry in other.list()] == ["b"]


def test_no_leak_under_concurrency(bench):
    stop = threading.Event()
    leaks = []

    def write(workspace):
        store = bench.open(workspace=workspace, agent="a", embedder=WheelEmbedder())
        number = 0
        while not stop.is_set():
            store.store(
                MemoryEntry(identifier=f"e{number % 5}", content=f"{workspace} postgres", scope=MemoryScope.SHARED)
            )
            if number % 7 == 0:
                store.delete(f"e{number % 5}")
            number += 1

    def read(workspace, other):
        store = bench.open(workspace=workspace, agent="a", embedder=WheelEmbedder())
        for _ in range(15):
            found = (
                store.list(),
                store.search(MemoryQuery(text="postgres")),
                store.search(MemoryQuery(semantic_text="postgres")),
            )
            if f"{other} postgres" in repr(found):
                leaks.append(found)

    writers = [threading.Thread(target=write, args=(name,)) for name in ("w1", "w2")]
    readers = [threading.Thread(target=read, args=pair) for pair in (("w1", "w2"), ("w2", "w1"))]
    for thread in writers + readers:
        thread.start()
    for thread in readers:
        thread.join()
    stop.set()
    for thread in writers:
        thread.join()
    assert leaks == []

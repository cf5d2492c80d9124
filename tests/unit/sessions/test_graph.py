"""The graph in memory: the seed's examples, and shapes that break naive walks."""

from __future__ import annotations

import time

import pytest

from indusagi_lsp.contract.errors import NodeNotFound
from indusagi_lsp.contract.turns import user
from indusagi_lsp.sessions import SessionGraph, hash_node
from indusagi_lsp.sessions.graph import Columns


def say(role: str, words: str) -> dict:
    return {"role": role, "blocks": [{"kind": "text", "text": words}]}


def test_building_a_graph_by_hand_as_the_guide_shows() -> None:
    graph = SessionGraph("session-42")
    a = graph.append(say("user", "hi"))
    b = graph.append(say("assistant", "hello"))
    assert graph.leaf == b.id
    assert [turn.text for turn in graph.path_to(b.id)] == ["hi", "hello"]

    graph.branch_from(a.id)
    c = graph.append(say("user", "again"))
    assert graph.children(a.id) == [b.id, c.id]
    assert graph.leaves() == [b.id, c.id]
    assert graph.leaf == c.id

    context = graph.resume(b.id)
    assert graph.leaf == b.id
    assert [turn.text for turn in context] == ["hi", "hello"]


def test_the_same_turn_at_the_same_time_is_the_same_node() -> None:
    graph = SessionGraph("s")
    a = graph.append(user("hi"), created_at=5)
    graph.branch_from(None)
    again = graph.append(user("hi"), created_at=5)
    assert again == a
    assert len(graph) == 1
    assert graph.append(user("hi"), created_at=5).parent == a.id
    assert a.id == hash_node(None, user("hi"), 5)


def test_an_empty_graph() -> None:
    graph = SessionGraph("s")
    assert graph.leaf is None
    assert graph.leaves() == []
    assert graph.path_to(None) == []
    assert graph.children(None) == []
    with pytest.raises(NodeNotFound):
        graph.path_to("nothing")
    with pytest.raises(NodeNotFound):
        graph.branch_from("nothing")
    with pytest.raises(NodeNotFound):
        graph.node("nothing")
    assert graph.find("nothing") is None


def test_ancestors_and_depth() -> None:
    graph = SessionGraph("s")
    a, b = graph.append(user("a")), graph.append(user("b"))
    graph.branch_from(a.id)
    c = graph.append(user("c"))
    assert graph.is_ancestor(a.id, c.id)
    assert graph.is_ancestor(None, c.id)
    assert graph.is_ancestor(c.id, c.id)
    assert not graph.is_ancestor(b.id, c.id)
    assert not graph.is_ancestor(c.id, a.id)
    assert not graph.is_ancestor(a.id, None)
    assert (graph.depth(c.id), graph.depth(None)) == (2, 0)


def columns(*pairs: tuple[str, str | None]) -> Columns:
    made = Columns()
    for node, parent in pairs:
        made.ids.append(node)
        made.parents.append(parent)
        made.offsets.append(0)
        made.lengths.append(1)
        made.verified.append(1)
    return made


def test_a_ring_of_parents_is_cut_at_its_oldest_node() -> None:
    graph = SessionGraph("s")
    graph.extend(columns(("a", "b"), ("b", "a"), ("c", "b"), ("self", "self")))
    assert graph.ids_to("c") == ["a", "b", "c"]
    assert graph.is_gap("a")
    assert graph.ids_to("self") == ["self"]
    assert graph.is_ancestor("a", "c")


def test_children_before_parents_are_linked_when_the_parent_comes() -> None:
    graph = SessionGraph("s")
    graph.extend(columns(("c", "b")))
    assert graph.is_gap("c")
    assert graph.parent("c") == "b"
    graph.extend(columns(("b", "a"), ("a", None), ("c", "elsewhere")))
    assert graph.ids_to("c") == ["a", "b", "c"]
    assert not graph.is_gap("c")
    assert graph.children("a") == ["b"]
    assert graph.problems() == []


def test_a_chain_of_a_hundred_thousand_is_walked_without_recursion() -> None:
    graph = SessionGraph("s")
    count = 100_000
    graph.extend(columns(("0", None), *((str(n), str(n - 1)) for n in range(1, count))))
    began = time.perf_counter()
    path = graph.ids_to(str(count - 1))
    assert len(path) == count
    assert path[0] == "0"
    assert graph.depth(path[-1]) == count
    assert graph.leaves() == [path[-1]]
    assert graph.is_ancestor("0", path[-1])
    assert time.perf_counter() - began < 2


def test_a_fan_of_ten_thousand_branches() -> None:
    graph = SessionGraph("s")
    root = graph.append(user("root"))
    for number in range(10_000):
        graph.branch_from(root.id)
        graph.append(user("x"), created_at=number)
    assert len(graph.children(root.id)) == 10_000
    assert len(graph.leaves()) == 10_000

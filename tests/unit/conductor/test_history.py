"""Which turns of a model's view are nodes: told by where they come from, not by what they look like."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from indusagi_lsp.conductor.history import entries_of
from indusagi_lsp.contract.turns import TextBlock, ToolCallBlock, ToolResultBlock, Turn, assistant, user
from indusagi_lsp.sessions import SessionGraph, model_view

CALL_IDS = st.sampled_from(["a", "b"])
TURNS = st.one_of(
    st.builds(user, st.sampled_from(["x", "y"])),
    st.builds(lambda i: Turn("assistant", (ToolCallBlock(i, "t", {}),)), CALL_IDS),
    st.builds(lambda i: Turn("tool", (ToolResultBlock(i, "out"),)), CALL_IDS),
    st.just(Turn("user", ())),
)


def graph_of(turns: list[Turn]) -> SessionGraph:
    graph = SessionGraph("s")
    for number, turn in enumerate(turns):
        graph.append(turn, created_at=number)
    return graph


def test_a_result_that_moves_up_to_its_call_hides_no_other_turn() -> None:
    steer = Turn("user", (TextBlock("steer"),))
    turns = [
        user("go"),
        Turn("assistant", (ToolCallBlock("c", "t", {}),)),
        steer,
        Turn("tool", (ToolResultBlock("c", "late"),)),
        assistant("done"),
    ]
    graph = graph_of(turns)
    nodes = graph.nodes_to(graph.leaf)
    entries = entries_of(nodes, lambda _at, _call: True)

    assert [entry.turn.role for entry in entries] == ["user", "assistant", "tool", "user", "assistant"]
    assert [entry.node for entry in entries] == [nodes[0].id, nodes[1].id, None, nodes[2].id, nodes[4].id]


@settings(max_examples=300, deadline=None)
@given(st.lists(TURNS, max_size=14))
def test_the_entries_are_the_view_and_name_each_node_at_most_once_in_order(turns: list[Turn]) -> None:
    graph = graph_of(turns)
    nodes = graph.nodes_to(graph.leaf)
    entries = entries_of(nodes, lambda _at, _call: True)

    assert tuple(entry.turn for entry in entries) == model_view([node.turn for node in nodes], lambda _at, _call: True)
    named = [entry.node for entry in entries if entry.node is not None]
    order = [node.id for node in nodes]
    assert [order.index(node) for node in named] == sorted({order.index(node) for node in named})

"""The view that is kept up to date is always the view that would be made of the whole path."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from indusagi_lsp.contract.turns import TextBlock, ToolCallBlock, ToolResultBlock, Turn
from indusagi_lsp.sessions import SessionGraph, model_view
from indusagi_lsp.sessions.liveview import LiveView

CALL_IDS = st.sampled_from(["a", "b", "c"])
TURNS = st.one_of(
    st.builds(lambda text: Turn("user", (TextBlock(text),)), st.text(max_size=3)),
    st.builds(lambda text: Turn("assistant", (TextBlock(text),)), st.text(max_size=3)),
    st.builds(
        lambda ids: Turn("assistant", tuple(ToolCallBlock(i, "t", {}) for i in ids)), st.lists(CALL_IDS, max_size=3)
    ),
    st.builds(lambda i: Turn("tool", (ToolResultBlock(i, "out"),)), CALL_IDS),
)
STEPS = st.lists(st.one_of(TURNS, st.integers(0, 30)), max_size=25)


@settings(max_examples=300, deadline=None)
@given(STEPS)
def test_it_equals_the_view_of_the_whole_path_after_every_step(steps: list[Turn | int]) -> None:
    graph = SessionGraph("s")
    live = LiveView()
    receipts = {}
    for number, step in enumerate(steps):
        if isinstance(step, int):
            graph.branch_from(graph.ids[step % len(graph.ids)] if len(graph.ids) else None)
        else:
            node = graph.append(step, created_at=number)
            if number % 3 == 0 and step.tool_calls:
                receipts[node.id, step.tool_calls[0].id] = "started"
        ids = graph.ids_to(graph.leaf)
        whole = model_view(graph.path_to(graph.leaf), lambda at, call, ids=ids: (ids[at], call) in receipts)
        assert live.of(graph, graph.leaf, receipts) == whole


def test_a_long_path_is_not_viewed_again_from_the_beginning() -> None:
    graph = SessionGraph("s")
    live = LiveView()
    for number in range(400):
        graph.append(Turn("user", (TextBlock(str(number)),)), created_at=number)
    first = live.of(graph, graph.leaf, {})
    looked: list[str] = []
    node = graph.node
    graph.node = lambda one: looked.append(one) or node(one)  # type: ignore[method-assign]
    graph.append(Turn("user", (TextBlock("more"),)), created_at=400)
    second = live.of(graph, graph.leaf, {})
    assert second[:-1] == first
    assert len(looked) == 1

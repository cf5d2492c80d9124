"""The view that a model is sent is always a valid history, whatever is in the file."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from indusagi_lsp.contract.turns import TextBlock, ToolCallBlock, ToolResultBlock, Turn, assistant, user
from indusagi_lsp.sessions import answered, model_view


def calls(*ids: str) -> Turn:
    return Turn("assistant", tuple(ToolCallBlock(one, "tool", {}) for one in ids))


def results(*ids: str) -> Turn:
    return Turn("tool", tuple(ToolResultBlock(one, f"result of {one}") for one in ids))


def shape(view: Sequence[Turn]) -> list[str]:
    return [
        turn.role[0] + "".join(block.call_id for block in turn.tool_results) + "".join(c.id for c in turn.tool_calls)
        for turn in view
    ]


def check(view: Sequence[Turn]) -> None:
    """Each call has exactly one result, in the tool turns right behind it; each result has its call there."""
    open_calls: dict[str, int] = {}
    for turn in view:
        assert turn.blocks
        if turn.role != "tool":
            assert not open_calls, f"{open_calls} unanswered"
            assert not turn.tool_results
        for result in turn.tool_results:
            assert open_calls.pop(result.call_id, 0) == 1, f"{result.call_id} has no call"
        for call in turn.tool_calls:
            open_calls[call.id] = 1
    assert not open_calls


def test_a_valid_history_is_handed_on_as_it_is() -> None:
    path = [user("u"), calls("c1", "c2"), results("c1"), results("c2"), assistant("done")]
    view = answered(path)
    assert all(mine is theirs for mine, theirs in zip(view, path, strict=True))


def test_a_call_at_the_end() -> None:
    assert shape(answered([user("u"), calls("c1")])) == ["u", "ac1", "tc1"]


def test_a_call_in_the_middle() -> None:
    assert shape(answered([user("u"), calls("c1"), user("u2"), assistant("x")])) == ["u", "ac1", "tc1", "u", "a"]


def test_one_of_two_parallel_calls() -> None:
    view = answered([user("u"), calls("c1", "c2"), results("c2"), user("u2")])
    assert shape(view) == ["u", "ac1c2", "tc2", "tc1", "u"]
    assert view[3].tool_results[0].is_error


def test_a_result_that_came_late_moves_up() -> None:
    view = answered([user("u"), calls("c1"), user("steer"), results("c1"), assistant("x")])
    assert shape(view) == ["u", "ac1", "tc1", "u", "a"]
    assert view[2].tool_results[0].output == "result of c1"


def test_a_result_without_its_call_becomes_text() -> None:
    view = answered([results("c1"), user("u")])
    assert [turn.role for turn in view] == ["user", "user"]
    assert "result of c1" in view[0].text


def test_ids_that_are_used_again() -> None:
    view = answered([user("u"), calls("c1"), user("u"), calls("c1"), results("c1")])
    check(view)
    assert view[2].tool_results[0].is_error
    assert not view[5].tool_results[0].is_error


def test_what_receipts_prove() -> None:
    view = model_view([user("u"), calls("c1", "c2")], lambda at, call: (at, call) == (1, "c2"))
    outputs = [result.output for result in view[-1].tool_results]
    assert "never started" in outputs[0]
    assert "unknown" in outputs[1]


BLOCKS = st.one_of(
    st.builds(TextBlock, st.just("text")),
    st.builds(ToolResultBlock, st.sampled_from("abc"), st.just("out")),
)
TURNS = st.one_of(
    st.builds(Turn, st.sampled_from(["user", "tool"]), st.lists(BLOCKS, max_size=3).map(tuple)),
    st.lists(st.sampled_from("abc"), min_size=1, max_size=3, unique=True).map(lambda ids: calls(*ids)),
    st.just(assistant("words")),
)


@given(st.lists(TURNS, max_size=12))
def test_any_history_becomes_a_valid_one_and_loses_no_words(path: list[Turn]) -> None:
    view = answered(path)
    check(view)
    wanted = sum(1 for turn in path for block in turn.blocks if not isinstance(block, ToolCallBlock))
    synthetic = sum(1 for turn in view for block in turn.tool_results if block.is_error)
    kept = sum(1 for turn in view for block in turn.blocks if not isinstance(block, ToolCallBlock)) - synthetic
    assert kept == wanted
    assert answered(view) == view

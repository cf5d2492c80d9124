"""Where history may be cut: over every cut of generated histories and of real transcripts."""

from __future__ import annotations

import pytest
from benchmarks import foreign
from hypothesis import given
from hypothesis import strategies as st

from indusagi_lsp.condensation import SUMMARY_PREFIX, CutIndex, find_cut_point
from indusagi_lsp.contract.turns import ASSISTANT, TOOL, Turn, assistant, user
from indusagi_lsp.contract.turns import ToolCallBlock as Call
from indusagi_lsp.contract.turns import ToolResultBlock as Result
from support.histories import histories, pairs, parted, waiting


def calls(*ids: str) -> Turn:
    return Turn(ASSISTANT, tuple(Call(call_id, "read", {}) for call_id in ids))


def results(*ids: str) -> Turn:
    return Turn(TOOL, tuple(Result(call_id, "x") for call_id in ids))


def test_keeps_the_last_turns() -> None:
    turns = [user(str(at)) for at in range(20)]
    assert find_cut_point(turns, 8) == 12


def test_nothing_to_drop_is_zero() -> None:
    assert find_cut_point([], 8) == 0
    assert find_cut_point([user("a")] * 8, 8) == 0


def test_moves_back_before_the_call() -> None:
    assert find_cut_point([user("a"), user("b"), calls("1"), results("1"), assistant("c")], 2) == 2


def test_never_between_parallel_results() -> None:
    turns = [user("a"), calls("1", "2"), results("1"), results("2"), assistant("b")]
    assert [find_cut_point(turns, keep) for keep in (1, 2, 3, 4)] == [4, 1, 1, 1]


def test_a_call_that_waits_stays_in_the_tail() -> None:
    turns = [user("a"), user("b"), calls("1", "2"), results("1")]
    assert find_cut_point(turns, 1) == 2


def test_an_abandoned_call_binds_nothing() -> None:
    turns = [user("a"), calls("1"), user("b"), assistant("c"), user("d")]
    assert find_cut_point(turns, 1) == 4
    assert find_cut_point(turns, 3) == 2


def test_a_late_result_binds_after_all() -> None:
    turns = [user("a"), calls("1"), user("b"), assistant("c"), results("1"), user("d")]
    assert find_cut_point(turns, 2) == 1


def test_ids_that_come_again_are_paired_in_order() -> None:
    turns = [calls("x", "x"), results("x"), results("x"), calls("x"), results("x"), user("a")]
    assert [find_cut_point(turns, keep) for keep in (1, 2, 3, 4)] == [5, 3, 3, 0]


def test_a_summary_alone_is_not_dropped_again() -> None:
    turns = [user(f"{SUMMARY_PREFIX}\nx"), *(user(str(at)) for at in range(8))]
    assert find_cut_point(turns, 8) == 0
    assert find_cut_point([*turns, user("9")], 8) == 2


def test_a_large_tail_is_cut_later_but_keeps_a_turn() -> None:
    turns = [user("a" * 4_000) for _ in range(10)]
    assert find_cut_point(turns, 8, tail_tokens=3_100) == 7
    assert find_cut_point(turns, 8, tail_tokens=10) == 9


@given(histories(), st.integers(1, 10), st.none() | st.integers(0, 400))
def test_no_cut_parts_a_call_from_its_result(turns: list[Turn], keep: int, cap: int | None) -> None:
    cut = find_cut_point(turns, keep, cap)
    assert not parted(turns, cut)
    assert cut <= waiting(turns)
    assert cut == 0 or cut < len(turns)
    if cap is None:
        assert cut <= max(len(turns) - keep, 0)


@given(histories())
def test_every_valid_cut_is_found(turns: list[Turn]) -> None:
    index = CutIndex(turns)
    valid = [cut for cut in range(len(turns) + 1) if not parted(turns, cut) and cut <= waiting(turns)]
    assert [cut for cut in range(len(turns) + 1) if index.at_most(cut) == cut] == valid


@pytest.mark.transcripts
@pytest.mark.parametrize("sample", foreign.samples(), ids=lambda sample: sample.name)
def test_every_cut_of_every_transcript(sample: foreign.Sample) -> None:
    bound = pairs(sample.turns)
    index = CutIndex()
    for size, turn in enumerate(sample.turns, 1):
        index.append(turn)
        for keep in (1, 8):
            cut = index.cut(keep)
            assert not [pair for pair in bound if pair[0] < cut <= pair[1] < size]
            assert cut <= max(size - keep, 0)
    for position in range(len(sample.turns) + 1):
        cut = index.at_most(position)
        assert cut <= position
        assert not [pair for pair in bound if pair[0] < cut <= pair[1]]


@pytest.mark.transcripts
def test_transcripts_are_there_or_said_to_be_missing() -> None:
    folder = foreign.folder()
    if folder is None:
        pytest.skip("no transcripts of other agents are here: their cuts, probes and usage were not tested")
    read = {sample.name for sample in foreign.samples() if sample.turns}
    assert read == {f"{path.parent.name}/{path.name}" for path in folder.glob("*/*.json*")} != set()

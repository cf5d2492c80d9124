"""Sizes: right enough for every script, incremental, and tied to what the provider said."""

from __future__ import annotations

import pytest
from benchmarks import condensation as bench
from benchmarks import foreign
from hypothesis import given

from indusagi_lsp.condensation import (
    CompactionPolicy,
    ContextMeter,
    estimate_context_tokens,
    estimate_text_tokens,
    estimate_turn_tokens,
    find_cut_point,
    should_compact,
    tail_budget,
    window_of,
)
from indusagi_lsp.contract.errors import SemanticError
from indusagi_lsp.contract.models import ModelCard, ToolSpec, Usage
from indusagi_lsp.contract.turns import USER, ImageBlock, OtherBlock, Turn, user
from support.histories import histories, texts

CARD = ModelCard("p:m", "p", "m", window=1_000)


def test_ascii_is_the_seed_rule() -> None:
    assert estimate_text_tokens("") == 0
    assert estimate_text_tokens("a" * 9) == 3
    assert estimate_context_tokens([user("a" * 40), user("b" * 41)]) == 10 + 4 + 11 + 4


@pytest.mark.parametrize(("name", "ratio"), bench.sample_ratios().items())
def test_within_a_quarter_of_o200k(name: str, ratio: float) -> None:
    assert 0.85 <= ratio <= 1.25, name


def test_an_image_is_a_constant() -> None:
    small, large = (Turn(USER, (ImageBlock("image/png", "A" * size),)) for size in (10, 1_000_000))
    assert estimate_turn_tokens(small) == estimate_turn_tokens(large) > 1_000


def test_blocks_that_are_not_understood_count() -> None:
    assert estimate_turn_tokens(Turn(USER, (OtherBlock({"kind": "video", "data": "x" * 450}),))) > 100


def test_system_and_tools_count() -> None:
    tool = ToolSpec("read", "Reads a file. " * 20, {"type": "object", "properties": {"path": {"type": "string"}}})
    plain = estimate_context_tokens([user("hi")])
    assert estimate_context_tokens([user("hi")], system="s" * 400) == plain + 104
    assert estimate_context_tokens([user("hi")], tools=[tool]) > plain + 80


@given(texts)
def test_any_text_has_a_size(text: str) -> None:
    assert 0 <= estimate_text_tokens(text) <= 2 * len(text) + 1


@given(histories())
def test_the_meter_agrees_with_the_plain_functions(turns: list[Turn]) -> None:
    meter = ContextMeter(turns, system="be brief")
    policy = CompactionPolicy(keep_recent=3)
    assert len(meter) == len(turns)
    assert meter.tokens == estimate_context_tokens(turns, system="be brief")
    assert meter.cut(policy, CARD) == find_cut_point(turns, 3, tail_budget(CARD, policy))
    assert meter.is_due(policy, CARD) == should_compact(turns, CARD, policy, system="be brief")


def test_reported_usage_is_the_anchor() -> None:
    meter = ContextMeter([user("a" * 400)], system="s" * 4_000)
    meter.report(Usage(input=5_000, output=70), prompt_turns=1)
    assert meter.anchored
    assert meter.tokens == 5_070
    meter.append(Turn("assistant", user("b" * 280).blocks))
    assert meter.tokens == 5_070  # the answer itself is what `output` counted
    meter.append(user("c" * 384))
    assert meter.tokens == 5_070 + int(100 * 1.2)
    assert meter.scale > 10


def test_usage_of_another_history_does_not_count() -> None:
    meter = ContextMeter([user("a" * 400)])
    meter.report(Usage(input=5_000, output=70), prompt_turns=1)
    meter.reset([user("short")])
    assert not meter.anchored
    assert meter.tokens == 2 + 4
    meter.report(Usage(input=5_000), prompt_turns=9)  # of a longer history than this
    assert not meter.anchored


def test_due_at_the_ratio_of_the_window() -> None:
    policy = CompactionPolicy()
    assert not should_compact([], CARD, policy, tokens=799)
    assert should_compact([], CARD, policy, tokens=800)


def test_due_by_bytes_too() -> None:
    picture = Turn(USER, (ImageBlock("image/png", "A" * 600),))
    assert should_compact([picture], ModelCard("a", "b", "c", window=10**6), CompactionPolicy(max_bytes=600))


def test_a_window_that_is_not_known_is_guessed_by_provider() -> None:
    assert window_of(ModelCard("a", "anthropic", "x")) == 200_000
    assert window_of(ModelCard("a", "somebody", "x")) == 32_000


@pytest.mark.parametrize(
    "fields",
    [{"trigger_ratio": 0}, {"trigger_ratio": 1.1}, {"keep_recent": 0}, {"tail_ratio": 0}, {"summary_tokens": 1}],
)
def test_a_policy_refuses_what_makes_no_sense(fields: dict[str, float]) -> None:
    with pytest.raises(SemanticError, match=next(iter(fields))):
        CompactionPolicy(**fields)


def test_the_defaults_are_the_seed() -> None:
    assert (CompactionPolicy().trigger_ratio, CompactionPolicy().keep_recent) == (0.8, 8)


@pytest.mark.transcripts
def test_one_step_ahead_on_real_usage() -> None:
    errors = [
        error for sample in foreign.samples() if bench._really_reported(sample) for error in bench.step_errors(sample)
    ]
    if not errors:
        pytest.skip("no transcripts of other agents are here: the estimate was not compared with real usage")

    assert min(errors) >= -0.08
    assert sum(map(abs, errors)) / len(errors) <= 0.01

"""What survives a condensation, judged by an extractor that shares nothing with the ledger. Real transcripts only."""

from __future__ import annotations

from collections.abc import AsyncIterator
from statistics import mean

import pytest
from benchmarks import condensation as bench
from benchmarks import foreign, probes

from indusagi_lsp.contract.models import ModelDone, ModelPart, ModelRequest
from indusagi_lsp.contract.turns import assistant, user

SAMPLES = bench.histories(None)
pytestmark = [
    pytest.mark.transcripts,
    pytest.mark.skipif(
        not SAMPLES, reason="no transcripts of other agents are here: what a summary keeps was not measured"
    ),
]


@pytest.fixture(scope="module")
def samples() -> list[list[bench.Case]]:
    return list(map(bench.cases, SAMPLES))


@pytest.fixture(scope="module")
def without_model(samples: list[list[bench.Case]]) -> list[float]:
    return bench.needed_recall(samples)


def test_needed_facts_are_in_the_text_without_a_model(without_model: list[float]) -> None:
    assert mean(without_model) >= 0.75
    assert min(without_model) >= 0.72


def test_a_model_makes_it_no_worse(samples: list[list[bench.Case]], without_model: list[float]) -> None:
    summaries = [text for sample in foreign.samples() for _, text in sample.summaries]
    items = [line.strip("-*# ") for line in "\n".join(summaries).split("\n") if len(line) > 30][:24]
    answer = "## Goal\n- " + items[0] + "\n## Done\n" + "\n".join(f"- {item}" for item in items[1:])

    async def model(_: ModelRequest) -> AsyncIterator[ModelPart]:
        yield ModelDone(assistant(answer), "stop")

    with_model = bench.needed_recall(samples, lambda turns: bench.summary_text(turns, model))
    assert all(more >= less for more, less in zip(with_model, without_model, strict=True))


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda sample: sample.name)
def test_what_may_never_be_lost_over_a_chain_of_three(sample: foreign.Sample) -> None:
    held, must = bench.chained(sample)
    assert held == must > 0


def test_the_yardstick_is_not_trivially_met(samples: list[list[bench.Case]]) -> None:
    assert mean(bench.needed_recall(samples, bench.head_and_tail)) < 0.6


def test_where_real_models_summarised_the_ledger_keeps_more_and_makes_theirs_better() -> None:
    rows = bench.yardsticks(SAMPLES)
    theirs, truncated, ours = rows["a real model's summary"], rows["head and tail"], rows["the ledger"]
    assert ours[0] >= 0.75 > theirs[0] > truncated[0] - 0.2
    assert theirs[2] >= ours[0]
    assert all(alone <= searchable for alone, searchable, _ in rows.values())


def test_a_probe_needs_the_whole_word() -> None:
    fact = probes.Fact("modified", "/w/src/a.py")
    assert probes.present(fact, "- src/: b.py, a.py x2")
    assert not probes.present(fact, "- src/: data.py, a.pyi")
    assert probes.facts([user("Why does it fail with TS2345 since version 1.2.3?")])[0].key == "TS2345"

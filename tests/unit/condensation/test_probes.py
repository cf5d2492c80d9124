"""What survives a condensation, judged by an extractor that shares nothing with the ledger. Real transcripts only."""

from __future__ import annotations

from collections.abc import AsyncIterator

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


def test_needed_facts_are_in_the_text_without_a_model() -> None:
    alone, searched, each = bench.needed_recall(SAMPLES)
    assert alone >= 0.75
    assert searched >= alone
    assert min(each) >= 0.72


def test_a_model_makes_it_no_worse() -> None:
    summaries = [text for sample in foreign.samples() for _, text in sample.summaries]
    items = [line.strip("-*# ") for line in "\n".join(summaries).split("\n") if len(line) > 30][:24]
    answer = "## Goal\n- " + items[0] + "\n## Done\n" + "\n".join(f"- {item}" for item in items[1:])

    async def model(_: ModelRequest) -> AsyncIterator[ModelPart]:
        yield ModelDone(assistant(answer), "stop")

    without, _, _ = bench.needed_recall(SAMPLES)
    with_model, _, _ = bench.needed_recall(SAMPLES, model)
    assert with_model >= without - 1e-9


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda sample: sample.name)
def test_what_may_never_be_lost_over_a_chain_of_three(sample: foreign.Sample) -> None:
    held, must = bench.chained(sample)
    assert held == must > 0


def test_the_yardstick_judges_others_as_expected() -> None:
    # Head and tail of the record, of the same size, keep far less: the probes are not trivially met.
    scores = []
    for sample in SAMPLES:
        tables = []
        for dropped, later in bench.cuts_of(sample):
            record = "\n".join(map(probes.whole_text, dropped))
            text = record[:3_000] + record[-3_000:]
            needed = [fact for fact in probes.facts(dropped) if probes.needed(fact, later)]
            tables.append(probes.recall(needed, lambda fact, text=text: probes.present(fact, text)))
        scores.append(probes.macro(tables))
    assert sum(scores) / len(scores) < 0.6


def test_a_probe_needs_the_whole_word() -> None:
    fact = probes.Fact("modified", "/w/src/a.py")
    assert probes.present(fact, "- src/: b.py, a.py ×2")
    assert not probes.present(fact, "- src/: data.py, a.pyi")
    assert probes.facts([user("Why does it fail with TS2345 since version 1.2.3?")])[0].key == "TS2345"

"""Condensation: how right the estimate is, how fast a condensation, and how much of what was said survives it.

Each value of `estimate` and `condense` is the worst of several parts, as a share of that part's goal: 1.0 just meets
it. `probes` is the part of the needed facts that the summary's text holds, in the macro average over real transcripts.
"""

from __future__ import annotations

import asyncio
import json
import math
import random
import time
from collections.abc import Callable, Iterable, Sequence
from itertools import chain
from pathlib import Path
from statistics import mean

import msgspec

from benchmarks import foreign, probes
from benchmarks.harness import Measured, cpu, ratios
from indusagi_lsp.condensation import CompactionPolicy, Condensation, ContextMeter, condense, condense_plainly
from indusagi_lsp.condensation.estimate import estimate_json_tokens, estimate_text_tokens
from indusagi_lsp.contract.jsontext import dumps, loads
from indusagi_lsp.contract.models import ModelCard, ModelInvoker, Usage
from indusagi_lsp.contract.turns import (
    ASSISTANT,
    TOOL,
    USER,
    TextBlock,
    ToolCallBlock,
    ToolResultBlock,
    Turn,
    turn_from_json,
    turn_to_json,
)

NAMES = ("estimate", "condense", "probes")

CARD = ModelCard("bench:model", "bench", "model", window=200_000)
BUDGET = 1_500  # tokens of a summary

_LOW, _HIGH = 0.85, 1.25  # of o200k, with no usage yet
_UNDER, _MEAN = 0.08, 0.01  # one step ahead, with usage
_PARSES, _CUT_US = 3.0, 10.0
_CUTS = (0.25, 0.4, 0.5, 0.6, 0.75, 0.9)


def run(names: Sequence[str], quick: bool, data: Path | None) -> Iterable[Measured]:
    """Run those of `names`; see the package."""
    for name in names:
        if name == "estimate":
            yield _estimate()
        elif name == "condense":
            yield _condense(3 if quick else 9)
        else:
            yield _probes(data)


# --- estimate ---------------------------------------------------------------------------------------------------------


def sample_ratios() -> dict[str, float]:
    """Our estimate over the reference count, for each sample text."""
    path = Path(__file__).parent / "data" / "token_samples.json"
    found = {}
    for sample in json.loads(path.read_text(encoding="utf-8")):
        tokens = estimate_text_tokens(sample["text"]) if "text" in sample else estimate_json_tokens(sample["json"])
        found[sample["name"]] = tokens / sample["o200k"]
    return found


def step_errors(sample: foreign.Sample) -> list[float]:
    """One step ahead: the error of the estimate of each prompt, made when the one before was reported, as its share."""
    meter = ContextMeter()
    errors = []
    reports = {report.at: report for report in sample.usage}
    cuts = [at for at, _ in sample.summaries]
    last = -1
    for at, turn in enumerate(sample.turns):
        report = reports.get(at)
        if report is not None:
            condensed = any(last <= cut <= at for cut in cuts)
            if meter.anchored and not condensed and report.prompt >= reports[last].prompt:
                errors.append((meter.tokens - report.prompt) / report.prompt)
            meter.report(Usage(report.prompt, report.output), at)
            last = at
        meter.append(turn)
    return errors


def _estimate() -> Measured:
    parts = {name: max(_LOW / ratio, ratio / _HIGH) for name, ratio in sample_ratios().items()}
    worst_sample = max(parts, key=lambda name: parts[name])
    note = f"no usage: worst {worst_sample} at {sample_ratios()[worst_sample]:.2f} of o200k"
    real = [step_errors(sample) for sample in foreign.samples() if _really_reported(sample)]
    real = [errors for errors in real if errors]
    if real:
        everything = [error for errors in real for error in errors]
        off = mean(map(abs, everything))
        under = -min(everything)
        parts["under"] = under / _UNDER
        parts["mean"] = off / _MEAN
        note += (
            f"; one step ahead over {len(everything)} prompts: worst {under:.1%} too low, "
            f"mean error {off:.2%} either way, {mean(everything):+.2%} together"
        )
    else:
        note += "; no transcripts here, so one step ahead was not measured"
    return Measured("estimate", max(parts.values()), min(parts.values()), max(parts.values()), note)


def _really_reported(sample: foreign.Sample) -> bool:
    """Whether the usage in it is a provider's: one sample was made by hand, with prompts of a few dozen tokens."""
    return len(sample.usage) > 2 and max(report.prompt for report in sample.usage) > 1_000


# --- condense ---------------------------------------------------------------------------------------------------------


def generated(seed: int, turns: int) -> list[Turn]:
    """A history that looks like work on a code base: reads, edits, commands with long outputs, and a user's word."""
    rng = random.Random(seed)
    words = ["session", "index", "cache", "parser", "handler", "buffer", "token", "graph", "leaf", "cursor", "shard"]
    history: list[Turn] = []

    def prose(count: int) -> str:
        return " ".join(rng.choice(words) for _ in range(count))

    while len(history) < turns:
        number = len(history)
        path = f"/home/dev/project/src/{rng.choice(words)}/{rng.choice(words)}.py"
        if number % 40 == 0:
            history.append(Turn(USER, (TextBlock(f"Make sure that {prose(12)} and never touch {path}."),)))
            continue

        call = (
            ToolCallBlock(f"c{number}", "read_file", {"path": path}),
            ToolCallBlock(f"c{number}", "edit_file", {"path": path, "old_string": prose(60), "new_string": prose(80)}),
            ToolCallBlock(
                f"c{number}", "bash", {"command": f"cd /home/dev/project && pytest tests/{rng.choice(words)} -q"}
            ),
        )[number % 3]
        history.append(Turn(ASSISTANT, (TextBlock(prose(20)), call)))
        lines = (
            f"{line:5}  {rng.choice(words)}_{line} = {rng.choice(words)}({line})"
            for line in range(rng.randint(20, 150))
        )
        history.append(Turn(TOOL, (ToolResultBlock(f"c{number}", "\n".join(lines), is_error=rng.random() < 0.1),)))
    return history


def drive(turns: Sequence[Turn], invoke: ModelInvoker | None = None, cut: int | None = None) -> Condensation:
    """Condense, on a loop of its own where a model is asked."""
    policy = CompactionPolicy(summary_tokens=BUDGET)
    if invoke is None:
        return condense_plainly(turns, CARD, policy, cut=cut)
    return asyncio.run(condense(turns, CARD, policy, invoke, cut=cut))


def _condense(rounds: int) -> Measured:
    history = generated(5, 1_250)
    lines = [dumps({"type": "node", "node": {"turn": turn_to_json(turn)}}) for turn in history]
    size = sum(map(len, lines))

    def parse() -> float:
        return cpu(lambda: [turn_from_json(loads(line)["node"]["turn"]) for line in lines])

    drive(history)
    found = ratios(lambda: cpu(lambda: drive(history)), parse, max(rounds, 5))
    cut_us, append_us = index_costs(100_000)
    worst = [max(ratio / _PARSES, cut_us / _CUT_US) for ratio in found]
    note = (
        f"without a model, {size / 1e6:.1f} MB: {sorted(found)[len(found) // 2]:.2f} parses of it; "
        f"at 100,000 turns a cut {cut_us:.1f} us, an appended turn {append_us:.1f} us"
    )
    return Measured.of("condense", worst, note)


def index_costs(turns: int) -> tuple[float, float]:
    """Microseconds of a cut on a long history, and of appending one turn to it: medians."""
    block = generated(6, 200)
    meter = ContextMeter()
    for at in range(turns):
        meter.append(block[at % len(block)])
    policy = CompactionPolicy()
    cuts, appends = [], []
    for _ in range(101):
        start = time.perf_counter_ns()
        meter.cut(policy, CARD)
        cuts.append(time.perf_counter_ns() - start)
    for turn in block[:101]:
        start = time.perf_counter_ns()
        meter.append(turn)
        appends.append(time.perf_counter_ns() - start)
    return sorted(cuts)[50] / 1e3, sorted(appends)[50] / 1e3


# --- probes -----------------------------------------------------------------------------------------------------------


def histories(data: Path | None) -> list[foreign.Sample]:
    """The transcripts that are long enough to be cut; or the user's own: a JSON list of turns in our format."""
    if data is not None:
        turns = tuple(map(turn_from_json, json.loads(data.read_text(encoding="utf-8"))))
        return [foreign.Sample(data.name, turns)]
    return [sample for sample in foreign.samples() if len(sample.turns) >= 20]


class Case(msgspec.Struct, frozen=True):
    """One cut: the dropped turns, the facts of them that the continuation needs, and the continuation."""

    dropped: Sequence[Turn]
    needed: list[probes.Fact]
    later: probes.Later


def cases(sample: foreign.Sample) -> list[Case]:
    """Several cuts of one transcript; those after which nothing was needed again are left out."""
    found = [case(sample, int(len(sample.turns) * part)) for part in _CUTS]
    return [one for one in found if one.needed]


def case(sample: foreign.Sample, at: int) -> Case:
    """The cut after `at` turns."""
    later = probes.Later.of(sample.turns[at:])
    needed = [fact for fact in probes.facts(sample.turns[:at]) if probes.needed(fact, later)]
    return Case(sample.turns[:at], needed, later)


def summary_text(turns: Sequence[Turn], invoke: ModelInvoker | None = None) -> str:
    """The text of a summary of all of `turns`, by the public way."""
    outcome = drive(turns, invoke, cut=len(turns))
    return outcome.draft if outcome.condensed else "\n".join(map(probes.whole_text, turns))


def chained(sample: foreign.Sample) -> tuple[int, int]:
    """What may never be lost, over a chain of three: how much is in the text or one query away, and of how much."""
    size = len(sample.turns)
    history: list[Turn] = []
    start = 0
    for part in (0.3, 0.6, 0.9):
        stop = int(size * part)
        history += sample.turns[start:stop]
        start = stop
        history = list(drive(history, cut=len(history)).turns)
    dropped = sample.turns[:start]
    search = probes.Search(dropped)
    text = "\n".join(turn.text for turn in history)
    must = probes.must_keep(dropped)
    held = 0
    for fact in must:
        held += probes.present(fact, text) or any(probes.present(fact, found) for found in search.find(fact.key))
    return held, len(must)


def needed_recall(
    samples: Iterable[Sequence[Case]],
    text_of: Callable[[Sequence[Turn]], str] = summary_text,
    *,
    searching: bool = False,
) -> list[float]:
    """The needed facts that a text about the dropped turns holds: the macro average of each transcript's cuts.

    Args:
        samples: the cases of each transcript.
        text_of: makes the text out of the dropped turns.
        searching: count also what a search of the dropped turns would bring.
    """
    scores = []
    for some in samples:
        tables = []
        for case in some:
            text = text_of(case.dropped)
            held = {fact for fact in case.needed if probes.present(fact, text)}
            if searching:
                search = probes.Search(case.dropped)
                lines = case.later.text.split("\n")
                held |= {fact for fact in case.needed if fact not in held and _found(fact, search, lines)}
            tables.append(probes.recall(case.needed, held.__contains__))
        if tables:
            scores.append(probes.macro(tables))
    return scores


def head_and_tail(turns: Sequence[Turn]) -> str:
    """What plain truncation to the same budget leaves: the yardstick that a summary must beat."""
    record = "\n".join(map(probes.whole_text, turns))
    return record[: 2 * BUDGET] + record[-2 * BUDGET :]


def yardsticks(samples: Sequence[foreign.Sample]) -> dict[str, tuple[float, ...]]:
    """Macro averages at the cuts where another agent's model has really written a summary.

    Returns:
        By the name of the text: what it holds alone, with the dropped turns searchable, and with our ledger under it.
    """
    of_each = [[case(sample, at) for at, _ in sample.summaries] for sample in samples if sample.summaries]
    written = [text for sample in samples for _, text in sample.summaries]
    real = {id(one.dropped): text for one, text in zip(chain(*of_each), written, strict=True)}

    def row(text_of: Callable[[Sequence[Turn]], str]) -> tuple[float, ...]:
        def with_ledger(turns: Sequence[Turn]) -> str:
            return f"{text_of(turns)}\n{summary_text(turns)}"

        scores = (
            needed_recall(of_each, text_of),
            needed_recall(of_each, text_of, searching=True),
            needed_recall(of_each, with_ledger),
        )
        return tuple(mean(score) if score else math.nan for score in scores)

    return {
        "a real model's summary": row(lambda turns: real[id(turns)]),
        "head and tail": row(head_and_tail),
        "the ledger": row(summary_text),
    }


def _found(fact: probes.Fact, search: probes.Search, lines: Sequence[str]) -> bool:
    """Whether a search for the rest of the line that first uses the fact brings a turn that holds it."""
    key = fact.key.rsplit("/", 1)[-1] if fact.kind in ("modified", "read") else fact.key
    line = next((line for line in lines if key in line), "")
    query = line.replace(key, " ")[:400]
    return bool(query.strip()) and any(probes.present(fact, text) for text in search.find(query, 5))


def _probes(data: Path | None) -> Measured:
    samples = histories(data)
    if not samples:
        return Measured.skipped(
            "probes", "no transcripts of other agents are here; name their folder in INDUSAGI_TRANSCRIPTS"
        )

    of_each = list(map(cases, samples))
    each = needed_recall(of_each)
    searched = needed_recall(of_each, searching=True)
    held, must = (sum(numbers) for numbers in zip(*map(chained, samples), strict=True))
    note = (
        f"needed facts in {BUDGET} tokens of text with no model; with the dropped turns searchable {mean(searched):.2f}"
        f"; over three condensations {held} of {must} files modified, errors, standing instructions and last requests "
        f"in the text or one query away; {len(samples)} transcripts"
    )
    if any(sample.summaries for sample in samples):
        rows = (f"{name} {'/'.join(f'{part:.2f}' for part in row)}" for name, row in yardsticks(samples).items())
        note += f"; where real summaries stand, alone/with search/with the ledger: {', '.join(rows)}"
    return Measured("probes", mean(each) * held / must, min(each), max(each), note)

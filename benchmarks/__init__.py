"""What the program costs, as ratios to something measured in the same run.

`python -m benchmarks [NAME ...] [--quick] [--json] [--data FILE]` prints a table, or with `--json` one object

    {name: {"value": ratio, "goal": number, "better": "lower" | "higher", "spread": [low, high], "note": text}}

A module takes part when `benchmarks/__main__.py` names it in `MODULES` and it has

    NAMES: tuple[str, ...]
        the benchmarks that it offers.
    run(names: Sequence[str], quick: bool, data: Path | None) -> Iterable[harness.Measured]
        runs those of `names` (a subset of NAMES, in that order) and yields one result for each as it is ready.
        `quick`: at most a few seconds for each name. `data`: the user's own data set, for retrieval and probes.

`harness.Measured(name, value, low, high, note)` is one result; the goal and its direction stand in `goals.toml` under
the same name, so that they are in one place. `harness.ratios(ours, baseline, rounds)` alternates the two sides and
returns the median of the per-round ratios with its spread; take at least five rounds. Fixtures that a benchmark needs
are made in a temporary folder, and heavy imports stay inside `run`. A benchmark that cannot run here yields
`harness.Measured.skipped(name, why)`; it is shown and never counts as met.
"""

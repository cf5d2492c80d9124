"""Run the benchmarks: `python -m benchmarks [NAME ...]`; `--help` tells the options."""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import json
import math
import sys
import tomllib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from benchmarks.harness import Measured
from benchmarks.page import write_page

MODULES = (
    "forward",
    "startup",
    "crowd",
    "sessions",
    "reading",
    "watch",
    "search",
    "condensation",
    "memory",
    "panel",
    "sessionfiles",
)
GROSS = 1.5
"""Machines are shared: only a miss by this factor is a failure."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run and print.

    Args:
        argv: arguments; None means those of the process.

    Returns:
        0 when no goal was missed grossly.
    """
    modules: dict[str, Any] = {name: importlib.import_module(f"benchmarks.{name}") for name in MODULES if _there(name)}
    offered = {name: module for module in modules.values() for name in module.NAMES}
    options = _parser(sorted(offered)).parse_args(argv)
    unknown = [name for name in options.names if name not in offered]
    if unknown:
        sys.stderr.write(f"benchmarks: there is no {', '.join(unknown)}; there are: {', '.join(offered)}\n")
        return 2

    modules["memory"].indexed = options.vectors
    goals_file = Path(__file__).with_name("goals.toml")
    goals = tomllib.loads(goals_file.read_text(encoding="utf-8"))
    results: dict[str, dict[str, Any]] = {}
    for measured in _run(modules, options.names or list(offered), quick=options.quick, data=options.data):
        goal = goals[measured.name]
        results[measured.name] = _result(measured, goal)
        if not options.json:
            sys.stdout.write(_line(measured, goal))
            sys.stdout.flush()
    if options.json:
        sys.stdout.write(json.dumps(results, indent=2) + "\n")
    if options.page is not None:
        write_page(options.page, results, goals_file, quick=options.quick)
    return 1 if any(_missed(result) for result in results.values()) else 0


def _parser(names: list[str]) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks", description="Ratios to something measured in the same run."
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"which ones (default: all): {', '.join(names)}")
    parser.add_argument("--quick", action="store_true", help="fewer rounds: all of them in under 50 s")
    parser.add_argument("--json", action="store_true", help="one JSON object instead of a table")
    parser.add_argument("--page", type=Path, metavar="FILE", help="write the results to a page of Markdown, too")
    parser.add_argument("--data", type=Path, metavar="FILE", help="your own data set, for retrieval and probes")
    parser.add_argument("--vectors", type=int, metavar="N", help="how many vectors memory_index has")
    return parser


def _there(name: str) -> bool:
    return importlib.util.find_spec(f"benchmarks.{name}") is not None


def _run(modules: dict[str, Any], names: list[str], *, quick: bool, data: Path | None) -> Iterator[Measured]:
    for module in modules.values():
        wanted = [name for name in module.NAMES if name in names]
        if wanted:
            found: Iterable[Measured] = module.run(wanted, quick, data)
            yield from found


def _result(measured: Measured, goal: dict[str, Any]) -> dict[str, Any]:
    return {
        "value": _number(measured.value),
        "goal": goal["goal"],
        "better": goal["better"],
        "spread": [_number(measured.low), _number(measured.high)],
        "note": measured.note,
    }


def _number(value: float) -> float | None:
    """A figure of four digits; JSON has no word for what was not measured but null."""
    return None if math.isnan(value) else float(f"{value:.4g}")


def _missed(result: dict[str, Any]) -> bool:
    value, goal = result["value"], result["goal"]
    if value is None:
        return False
    return bool(value > goal * GROSS if result["better"] == "lower" else value < goal / GROSS)


def _line(measured: Measured, goal: dict[str, Any]) -> str:
    if math.isnan(measured.value):
        return f"{measured.name:<18} {'-':>9}  {measured.note}\n"
    sign = "<=" if goal["better"] == "lower" else ">="
    met = measured.value <= goal["goal"] if goal["better"] == "lower" else measured.value >= goal["goal"]
    spread = f"[{measured.low:.3g}, {measured.high:.3g}]"
    figures = f"{measured.value:>9.3g}  {sign} {goal['goal']:<7g} {'ok  ' if met else 'MISS'} {spread:<18}"
    return f"{measured.name:<18} {figures} {measured.note}\n"


if __name__ == "__main__":
    raise SystemExit(main())

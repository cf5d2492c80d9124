"""`docs/benchmarks.md`: the results of one run, with what each stands for and the machine that it ran on."""

from __future__ import annotations

import os
import platform
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

_ENTRY = re.compile(r"^(\w+) = \{")

HEAD = """# Benchmarks

`make bench` runs all of them and writes this page. Each figure is a ratio to something that was measured in the same
run: a stock pygls server, a plain parse, plain SQLite, one pass of NumPy. So it says something about us on any
machine; the median of several rounds is given, with the first and the last quarter. A goal counts as grossly missed
from a factor of 1.5 on, because machines are shared.
"""


def write_page(path: Path, results: Mapping[str, Mapping[str, Any]], goals_file: Path, *, quick: bool) -> None:
    """Write the page.

    Args:
        path: where to.
        results: by name, as `--json` gives them.
        goals_file: the goals, whose comments say what each figure is.
        quick: whether there were fewer rounds.
    """
    meanings = read_meanings(goals_file.read_text("utf-8"))
    lines = [HEAD]
    if quick:
        lines.append("This run was a quick one, with few rounds: its figures are rough.\n")
    lines += ["| name | figure | goal | met | spread | what it is |", "|---|---|---|---|---|---|"]
    lines += [_row(name, result, meanings[name]) for name, result in results.items()]
    lines += ["", "## The machine", "", "| | |", "|---|---|"]
    lines += [f"| {name} | {fact} |" for name, fact in machine().items()]
    path.write_text("\n".join(lines) + "\n", "utf-8")


def read_meanings(goals: str) -> dict[str, str]:
    """What each figure is: the comment above its goal; goals in a row share one."""
    meanings: dict[str, str] = {}
    comment: list[str] = []
    open_ = False
    for line in goals.splitlines():
        if line.startswith("#"):
            comment = [*comment, line[1:].strip()] if open_ else [line[1:].strip()]
            open_ = True
            continue
        open_ = False
        if found := _ENTRY.match(line):
            meanings[found[1]] = " ".join(comment)
    return meanings


def machine() -> dict[str, str]:
    """What a reader needs to know of the machine; nothing that names it."""
    facts = {
        "date": datetime.now(UTC).strftime("%Y-%m-%d"),
        "system": f"{platform.system()} {platform.release()}",
        "processor": f"{os.cpu_count()} cores, {_processor()}",
        "Python": f"{platform.python_implementation()} {platform.python_version()}",
    }
    if hasattr(os, "sysconf"):
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        facts["memory"] = f"{memory / 1024**3:.1f} GiB"
        facts["load at the end"] = f"{os.getloadavg()[0]:.1f} in the last minute"
    return facts


def _processor() -> str:
    try:
        found = re.search(r"^model name\s*:\s*(.+)$", Path("/proc/cpuinfo").read_text("utf-8"), re.MULTILINE)
    except OSError:
        found = None
    return found[1] if found else platform.processor() or platform.machine()


def _row(name: str, result: Mapping[str, Any], meaning: str) -> str:
    value, goal = result["value"], result["goal"]
    lower = result["better"] == "lower"
    sign = "≤" if lower else "≥"
    what = f"{meaning} {result['note']}".strip().replace("|", "\\|")
    if value is None:
        return f"| `{name}` | | {sign} {goal:g} | not measured | | {what} |"
    met = "yes" if (value <= goal if lower else value >= goal) else "**no**"
    low, high = result["spread"]
    return f"| `{name}` | {value:.3g} | {sign} {goal:g} | {met} | {low:.3g} to {high:.3g} | {what} |"

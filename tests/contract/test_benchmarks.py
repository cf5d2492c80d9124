"""The page of the benchmarks: a row for each goal, which says what it is and whether it is met."""

from __future__ import annotations

import platform
import re
import tomllib
from pathlib import Path
from typing import Any

from benchmarks.page import machine, read_meanings, write_page

ROOT = Path(__file__).parents[2]
GOALS = ROOT / "benchmarks" / "goals.toml"


def result(value: float | None, better: str = "lower", note: str = "") -> dict[str, Any]:
    return {"value": value, "goal": 2.0, "better": better, "spread": [value, value], "note": note}


def test_every_goal_says_what_it_is() -> None:
    text = GOALS.read_text("utf-8")
    meanings = read_meanings(text)
    assert set(meanings) == set(tomllib.loads(text))
    assert all(len(meaning.split()) > 4 for meaning in meanings.values())


def test_the_page_that_is_kept_has_every_goal() -> None:
    page = (ROOT / "docs" / "benchmarks.md").read_text("utf-8")
    assert set(re.findall(r"^\| `(\w+)` \|", page, re.MULTILINE)) == set(tomllib.loads(GOALS.read_text("utf-8")))


def test_a_row_says_whether_the_goal_is_met(tmp_path: Path) -> None:
    goals = tmp_path / "goals.toml"
    goals.write_text("# What it\n# is.\na = { goal = 2 }\nb = { goal = 2 }\n\n# Other.\nc = { goal = 2 }\n", "utf-8")
    page = tmp_path / "page.md"
    results = {"a": result(1.5), "b": result(1.5, "higher"), "c": result(None, note="left out: no x|y")}
    write_page(page, results, goals, quick=True)
    rows = [line for line in page.read_text("utf-8").splitlines() if line.startswith("| `")]
    assert rows == [
        "| `a` | 1.5 | ≤ 2 | yes | 1.5 to 1.5 | What it is. |",
        "| `b` | 1.5 | ≥ 2 | **no** | 1.5 to 1.5 | What it is. |",
        "| `c` | | ≤ 2 | not measured | | Other. left out: no x\\|y |",
    ]
    assert "quick one" in page.read_text("utf-8")


def test_the_machine_is_told_without_its_name() -> None:
    facts = machine()
    assert {"date", "system", "processor", "Python"} <= set(facts)
    assert platform.node() not in " ".join(facts.values())

"""What a model without tools is told of the workspace."""

from __future__ import annotations

from typing import TYPE_CHECKING

from indusagi_lsp.tools import LISTING, PathGuard, excerpts

if TYPE_CHECKING:
    from pathlib import Path


def test_named_files_come_first_then_the_readme_then_the_list(guard: PathGuard) -> None:
    found = excerpts(guard, "What does src/boats.py do, and main.py?", 4000)
    assert [excerpt.path for excerpt in found] == ["src/boats.py", "src/main.py", "README.md", LISTING]
    assert found[0].text == "def count():\n    return 3  # boats"
    assert found[0].whole
    assert "keep.log" in found[-1].text
    assert "debug.log" not in found[-1].text


def test_a_prompt_without_names_gets_the_readme(guard: PathGuard) -> None:
    found = excerpts(guard, "What does this project do?", 2000)
    assert [excerpt.path for excerpt in found] == ["README.md", LISTING]


def test_the_budget_holds_and_a_cut_is_marked(root: Path, guard: PathGuard) -> None:
    (root / "README.md").write_text("# Title\n\n" + "A sentence of some words. " * 400)
    (root / "src" / "main.py").write_text("x = 1\n" * 2000)
    for budget in (0, 50, 300, 1500, 5000):
        found = excerpts(guard, "explain main.py", budget)
        assert sum(len(excerpt.text) for excerpt in found) <= budget
    by_path = {excerpt.path: excerpt for excerpt in found}
    assert not by_path["README.md"].whole
    assert not by_path["src/main.py"].whole
    assert not by_path["README.md"].text.endswith(" ")


def test_ornaments_of_a_readme_are_left_out(root: Path, guard: PathGuard) -> None:
    (root / "README.md").write_text(
        '<p align="center"><img src="x.png"></p>\n<!-- hidden\nnote -->\n'
        "[![CI](http://a/b.svg)](http://a) ![x](y.png)\n\n# Real\n\nText.\n"
    )
    assert excerpts(guard, "hi", 2000)[0].text == "# Real\n\nText."


def test_hidden_text_is_shown_and_paths_outside_are_left_out(root: Path, guard: PathGuard, tmp_path: Path) -> None:
    (root / "README.md").write_text("before \u202e\U000e0041after\x1b[31m")
    (tmp_path / "secret.txt").write_text("key")
    (root / "link.txt").symlink_to(tmp_path / "secret.txt")
    (root / "data.bin").write_bytes(b"\0\1")
    found = excerpts(guard, "read ../secret.txt and link.txt and data.bin and .indusagi/sessions/s.jsonl", 2000)
    assert found[0].text == "before \\u{202e}after"
    assert [excerpt.path for excerpt in found] == ["README.md", LISTING]


def test_unsaved_text_counts(guard: PathGuard) -> None:
    found = excerpts(guard, "src/boats.py?", 2000, document={"src/boats.py": "unsaved"}.get)
    assert found[0].text == "unsaved"


def test_an_empty_or_vanished_workspace_gives_nothing(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    assert excerpts(PathGuard(tmp_path / "empty"), "hi", 1000) == []
    assert excerpts(PathGuard(tmp_path / "gone"), "hi", 1000) == []

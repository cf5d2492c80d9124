"""The documentation builds, strictly: a broken link or anchor, or a page that is in no menu, is a failure."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def build(folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--site-dir", str(folder / "site")],
        cwd=folder,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    shutil.copy(ROOT / "mkdocs.yml", tmp_path)
    shutil.copytree(ROOT / "docs", tmp_path / "docs")
    return tmp_path


@pytest.mark.timeout(300)
def test_it_builds_and_fetches_nothing(folder: Path) -> None:
    done = build(folder)
    assert done.returncode == 0, done.stderr
    pages = [path for path in (folder / "site").rglob("*.html") if path.name != "404.html"]
    assert len(pages) == len(list((folder / "docs").glob("*.md")))
    for page in pages:
        text = page.read_text("utf-8")
        assert 'src="http' not in text
        assert "fonts.googleapis" not in text


@pytest.mark.timeout(300)
def test_a_broken_link_is_a_failure(folder: Path) -> None:
    with (folder / "docs" / "editors.md").open("a", encoding="utf-8") as file:
        file.write("\n[page](walrus.md) and [anchor](models.md#narwhal)\n")
    done = build(folder)
    assert done.returncode != 0
    assert "walrus.md" in done.stderr
    assert "narwhal" in done.stderr

"""What a release is made of agrees: versions, extras and their description, the changelog."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path

from indusagi_lsp import __version__

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]


def test_server_and_extension_have_one_version() -> None:
    manifest = json.loads((ROOT / "vscode-client" / "package.json").read_text("utf-8"))
    assert manifest["version"] == __version__
    assert re.fullmatch(r"\d+\.\d+\.\d+(?:(?:a|b|rc)\d+)?", __version__)


def test_the_changelog_has_a_part_for_what_comes_or_for_this_version() -> None:
    headings = re.findall(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text("utf-8"), re.MULTILINE)
    assert headings[0] in ("Unreleased", __version__)
    assert len(headings) == len(set(headings))


def test_every_extra_is_described() -> None:
    text = (ROOT / "docs" / "releasing.md").read_text("utf-8")
    part = text[text.index("<!-- extras -->") : text.index("<!-- /extras -->")]
    assert re.findall(r"^\| `([\w-]+)` \|", part, re.MULTILINE) == sorted(PROJECT["optional-dependencies"])

"""`make run` hands on what a person has typed, character for character."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SHOWS = f"""\
#!{sys.executable}
import json, sys
print(json.dumps(sys.argv[1:]))
"""


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """A clone in which everything is installed, and the program says what it was given."""
    for name in ("Makefile", "pyproject.toml"):
        shutil.copy(ROOT / name, tmp_path / name)
    program = tmp_path / ".venv" / "bin" / "indusagi-lsp"
    program.parent.mkdir(parents=True)
    program.write_text(SHOWS, encoding="utf-8")
    program.chmod(0o700)
    number = subprocess.check_output(["cksum", "pyproject.toml"], cwd=tmp_path, text=True).split()[0]
    (tmp_path / ".venv" / f".installed-{number}").touch()
    return tmp_path


def made(clone: Path, *words: str, **environ: str) -> list[str]:
    inherited = {name: value for name, value in os.environ.items() if name not in ("MAKEFLAGS", "MFLAGS", "MAKELEVEL")}
    for name in ("PROMPT", "WORKSPACE"):
        inherited.pop(name, None)
    run = subprocess.run(
        ["make", "-s", "run", *words], cwd=clone, env=inherited | environ, capture_output=True, text=True, check=True
    )
    return json.loads(run.stdout)


@pytest.mark.parametrize(
    "text", ["plain", 'What is "$HOME", $(shell touch pwned) and $$?', "it's `touch pwned`; touch pwned", "ünï\\n # x"]
)
def test_what_was_typed_arrives_as_it_is(clone: Path, text: str) -> None:
    said = ["chat", "--workspace", str(clone), "--prompt", text]
    assert made(clone, f"PROMPT={text}") == said
    assert made(clone, PROMPT=text) == said
    assert made(clone, f"WORKSPACE={text}") == ["chat", "--workspace", text]
    assert made(clone, WORKSPACE=text) == ["chat", "--workspace", text]
    assert not (clone / "pwned").exists()


def test_without_a_word_it_is_the_client_in_this_folder(clone: Path) -> None:
    assert made(clone) == ["chat", "--workspace", str(clone)]

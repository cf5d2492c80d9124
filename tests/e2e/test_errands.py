"""The errands of the command line, as a person types them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from indusagi_lsp import cli
from indusagi_lsp.terminal.errands import ERRANDS


class Shell:
    """A folder, a user, and a model that says what it is told to."""

    def __init__(self, tmp_path: Path) -> None:
        self.folder = tmp_path / "ws"
        self.folder.mkdir()
        script = tmp_path / "script.json"
        script.write_text(json.dumps({"replies": [{"text": "The walrus answers."}], "loop": True}), "utf-8")
        self.environ = {
            **os.environ,
            "INDUSAGI_LSP_HOME": str(tmp_path / "home"),
            "INDUSAGI_SCRIPTED_MODEL": str(script),
        }

    def __call__(self, *arguments: str, code: int = 0) -> str:
        done = subprocess.run(
            [sys.executable, "-m", "indusagi_lsp", *arguments],
            cwd=self.folder,
            env=self.environ,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == code, (done.stdout, done.stderr)
        assert "Traceback" not in done.stderr
        return done.stdout or done.stderr


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    return Shell(tmp_path)


def test_the_command_line_names_every_errand() -> None:
    assert set(cli.ERRANDS) == set(ERRANDS)


def test_a_session_is_listed_searched_exported_and_examined(shell: Shell) -> None:
    shell("chat", "-p", "Who answers?")
    listed = json.loads(shell("sessions", "--json"))["sessions"]
    assert [(one["title"], one["turns"]) for one in listed] == [("Who answers?", 2)]
    session = listed[0]["id"]
    assert session in shell("sessions")
    assert "walrus" in shell("search", "walrus")
    assert "Nothing was found" in shell("search", "narwhal", code=1)
    assert "The walrus answers." in shell("export", session)
    assert shell("export", session, "--format", "html").lower().startswith("<!doctype html>")
    assert "healthy" in shell("doctor")

    path = shell.folder / ".indusagi" / "sessions" / f"{session}.jsonl"
    path.write_bytes(path.read_bytes() + b'{"type":"no')
    assert "not healthy" in shell("doctor", code=1)
    shell("doctor", "--repair")
    assert json.loads(shell("doctor", "--json"))["healthy"] is True
    assert "0 outputs" in shell("blobs")


def test_what_is_remembered_goes_out_as_markdown_and_comes_back(shell: Shell, tmp_path: Path) -> None:
    shell("memory", "remember", "Releases", "are", "cut", "on", "Tuesdays", "--tag", "process")
    document = tmp_path / "memories.md"
    document.write_text(shell("memory", "export").replace("Tuesdays", "Fridays"), "utf-8")
    assert "1 changed" in shell("memory", "import", str(document), "--adopt")
    (hit,) = json.loads(shell("memory", "recall", "releases", "--json"))["hits"]
    assert (hit["entry"]["content"], hit["entry"]["tags"]) == ("Releases are cut on Fridays", ["process"])


def test_mistakes_get_words(shell: Shell) -> None:
    assert "no session" in shell("export", "nope", code=1)
    assert "There is no" in shell("import", "nowhere.jsonl", code=1)
    assert "no folder" in shell("sessions", "--workspace", "nowhere", code=2)

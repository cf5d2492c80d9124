"""The same conversation under Node, through the protocol library that vscode-languageclient stands on."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from e2e.test_emacs import REPLIES

ROOT = Path(__file__).parents[2]
SCRIPT = Path(__file__).parent / "node" / "conversation.mjs"


@pytest.mark.editor
@pytest.mark.timeout(300)
def test_conversation(tmp_path: Path):
    node = shutil.which("node")
    assert node is not None, "Node 20 or newer is needed"
    client = ROOT / "vscode-client"
    subprocess.run([node, str(client / "scripts" / "install.mjs")], check=True, stdin=subprocess.DEVNULL, timeout=200)
    workspace, script = tmp_path / "work", tmp_path / "script.json"
    workspace.mkdir()
    (workspace / "hello.txt").write_text("hello\n")
    script.write_text(json.dumps(REPLIES))
    environment = {
        **os.environ,
        "INDUSAGI_LSP_HOME": str(tmp_path / "home"),
        "INDUSAGI_SCRIPTED_MODEL": str(script),
        "CLIENT": str(client),
        "SERVER": json.dumps([sys.executable, "-P", "-m", "indusagi_lsp", "--stdio"]),
        "WORKSPACE": str(workspace),
    }

    done = subprocess.run(
        [node, str(SCRIPT)],
        env=environment,
        cwd=workspace,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=80,
        check=False,
    )

    assert done.returncode == 0, done.stdout + done.stderr
    assert "OK" in done.stdout.splitlines(), done.stdout
    assert done.stderr == "", "a good conversation leaves nothing on stderr"

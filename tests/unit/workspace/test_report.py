"""The report on an installation tells what helps, and nothing that is the user's own."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from indusagi_lsp import __version__
from indusagi_lsp.workspace.report import make_report, run_report

PRIVATE = ("hunter2", "walrus", "narwhal", "sk-ant")
CONFIG = """
model = "walrus-lab:narwhal-70b"
maxTurns = 7
toolSeconds = -1
telemetry = false
commands = ["deploy --to walrus"]

[memory]
store = "postgres"
address = "postgresql://walrus:hunter2@narwhal.example/agent"

[providers.walrus-lab]
base_url = "http://narwhal.example/v1"
api_key = "hunter2"

[providers.broken]
kind = "narwhal"

[mcp.walrus]
command = "narwhal"
"""


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "walrus" / "config").mkdir(parents=True)
    (tmp_path / "walrus" / "config" / "config.toml").write_text(CONFIG, "utf-8")
    (tmp_path / "walrus" / "state").mkdir(mode=0o755)
    (tmp_path / "walrus" / "state").chmod(0o755)
    return tmp_path / "walrus"


def environ(home: Path) -> dict[str, str]:
    return {"INDUSAGI_LSP_HOME": str(home), "ANTHROPIC_API_KEY": "sk-ant-hunter2", "HTTPS_PROXY": "http://walrus:1"}


def test_it_tells_what_is_found_and_set(home: Path) -> None:
    report = make_report(home, environ(home))
    assert report.version == __version__
    assert re.fullmatch(r"CPython 3\.\d+\.\d+\S*", report.python)
    assert report.packages["pygls"]
    assert set(report.extras) >= {"local", "mcp", "postgres", "redis"}
    assert (report.settings["maxTurns"].value, report.settings["maxTurns"].source) == (7, "config.toml")
    assert (report.settings["approvals"].value, report.settings["approvals"].source) == ("ask", "default")
    assert report.settings["model"].value == "(set)"
    assert (report.providers["anthropic"].key, report.providers["openai"].key) == (True, False)
    assert (report.providers["own 1"].key, report.providers["own 1"].address) == (True, "own")
    assert (report.mcp_servers, report.own_commands, report.memory, report.telemetry) == (1, 1, "postgresql", "off")
    assert report.variables == ("ANTHROPIC_API_KEY", "HTTPS_PROXY", "INDUSAGI_LSP_HOME")
    assert len(report.problems) == 2
    assert report.folders["config.toml"].path == "$INDUSAGI_LSP_HOME/config/config.toml"
    assert (report.folders["state"].exists, report.folders["cache"].exists) == (True, False)
    if sys.platform != "win32":
        assert (report.folders["state"].mode, report.folders["state"].yours) == ("0755", True)


@pytest.mark.parametrize("arguments", [["--env"], ["--env", "--json"]])
def test_nothing_of_the_user_is_in_it(home: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str]) -> None:
    for name, value in environ(home).items():
        monkeypatch.setenv(name, value)
    lines: list[str] = []
    assert run_report([*arguments, "--workspace", str(home)], lines.append) == 1
    said = "\n".join(lines)
    assert "ANTHROPIC_API_KEY" in said
    for word in (*PRIVATE, str(home), str(home.parent)):
        assert word not in said


def test_it_is_a_command_that_needs_no_server_and_changes_nothing(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "indusagi_lsp", "doctor", "--env", "--json"],
        cwd=tmp_path,
        env={**os.environ, "INDUSAGI_LSP_HOME": str(tmp_path / "home")},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout)["version"] == __version__
    assert list(tmp_path.iterdir()) == []

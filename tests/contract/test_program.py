"""The program's own words: version, help, and what it says to wrong arguments."""

from __future__ import annotations

import subprocess
import sys

import pytest

from indusagi_lsp import __version__


def run(*arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "indusagi_lsp", *arguments]
    return subprocess.run(
        command, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=20, check=False, env=env or None
    )


def test_version():
    done = run("--version")
    assert (done.returncode, done.stdout, done.stderr) == (0, f"indusagi-lsp {__version__}\n", "")
    assert run("--stdio", "--version").stdout == done.stdout


def test_help_names_every_option():
    done = run("--help")
    assert done.returncode == 0
    for option in (
        "--stdio",
        "--version",
        "--log-level",
        "--log-file",
        "--clientProcessId",
        "--tcp",
        "--socket",
        "chat",
    ):
        assert option in done.stdout


@pytest.mark.parametrize("arguments", [["--nothing"], ["--log-level", "loud"], ["--tcp", "x"], ["nothing"]])
def test_wrong_arguments_are_explained(arguments):
    done = run(*arguments)
    assert done.returncode == 2
    assert "usage: indusagi-lsp" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_log_file_that_cannot_be(tmp_path):
    done = run("--log-file", str(tmp_path / "no/such/folder.log"))
    assert done.returncode == 2
    assert "log file" in done.stderr
    assert "Traceback" not in done.stderr


def test_tcp_needs_a_secret():
    done = run("--tcp", PATH="/usr/bin")
    assert done.returncode == 2
    assert "INDUSAGI_TOKEN" in done.stderr


def test_input_that_ends_at_once_is_no_good_end():
    assert run().returncode == 1

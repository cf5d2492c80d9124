"""`indusagi-lsp workflow` with the real server behind it, and a kill -9 of that server in the middle of a step."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pexpect
import pytest

from indusagi_lsp.contract.places import HOME_VARIABLE

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="needs pseudo-terminals and POSIX signals")

COMMAND = [sys.executable, "-m", "indusagi_lsp", "workflow"]
KEYS = re.compile(r".*(?:_API_KEY|_BASE_URL|OLLAMA).*")

FLOW = """
import os
import time
from pathlib import Path

WORKFLOW = {
    "title": "Three steps",
    "inputs": {"who": "me", "seconds": 0},
    "steps": {
        "first": {"callable": "mark"},
        "second": {"callable": "work", "needs": ["first"]},
        "ask": {"approve": "Go on, {{ who }}?", "needs": ["second"]},
    },
}
FOLDER = Path(__file__).parent


def mark(context):
    with open(FOLDER / "first", "a") as file:
        file.write("x")


def work(context):
    with open(FOLDER / "second", "a") as file:
        file.write(f"{os.getpid()}\\n")
    time.sleep(context.inputs["seconds"])
"""


class Bench:
    """A workspace, and a user's own folder with one workflow."""

    def __init__(self, folder: Path) -> None:
        self.workspace = folder / "ws"
        self.workspace.mkdir()
        self.folder = folder / "home/config/workflows"
        self.folder.mkdir(parents=True)
        (self.folder / "flow.py").write_text(FLOW, "utf-8")
        self.environment = {name: value for name, value in os.environ.items() if not KEYS.match(name)}
        self.environment[HOME_VARIABLE] = str(folder / "home")

    def command(self, verb: str, *arguments: str) -> list[str]:
        return [*COMMAND, verb, "--workspace", str(self.workspace), *arguments]

    def run(self, verb: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self.command(verb, *arguments),
            env=self.environment, capture_output=True, text=True, timeout=50, stdin=subprocess.DEVNULL, check=False,
        )  # fmt: skip

    def start(self, verb: str, *arguments: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            self.command(verb, *arguments),
            env=self.environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip

    def terminal(self, verb: str, *arguments: str) -> pexpect.spawn[str]:
        program, *rest = self.command(verb, *arguments)
        return pexpect.spawn(program, rest, env=self.environment, encoding="utf-8", timeout=30)

    def listed(self) -> dict[str, Any]:
        return json.loads(self.run("list", "--json").stdout)

    def server(self) -> int:
        """The process that runs the second step."""
        return int(eventually(lambda: (self.folder / "second").read_text().split()[0]))


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def eventually(look: Any) -> Any:
    deadline = time.monotonic() + 30
    while True:
        try:
            return look()
        except (OSError, IndexError):
            assert time.monotonic() < deadline
            time.sleep(0.05)


def test_a_person_at_a_terminal_is_asked(bench: Bench) -> None:
    terminal = bench.terminal("run", "flow", "--input", "who=you")
    terminal.expect("Go on, you\\?")
    terminal.expect("Allow\\? .*:")
    terminal.sendline("y")
    terminal.expect("flow  done  3 of 3 steps")
    terminal.expect(pexpect.EOF)
    terminal.close()
    assert terminal.exitstatus == 0


def test_without_a_person_the_answer_is_no(bench: Bench) -> None:
    done = bench.run("run", "flow")
    assert done.returncode == 1
    assert "flow  failed  2 of 3 steps" in done.stdout
    assert "nobody is here to be asked: Go on, me?" in done.stderr
    execution = bench.listed()["executions"][0]
    assert (execution["state"], execution["completed"]) == ("failed", ["first", "second"])
    assert bench.run("cancel", execution["executionId"]).returncode == 1


def test_wrong_arguments_and_names(bench: Bench) -> None:
    assert bench.run("run", "flow", "--input", "who").returncode == 2
    missing = bench.run("run", "nothing")
    assert (missing.returncode, missing.stdout) == (1, "")
    assert "There is no workflow 'nothing'." in missing.stderr
    assert "Traceback" not in missing.stderr


def test_a_killed_server_leaves_an_execution_that_goes_on(bench: Bench) -> None:
    running = bench.start("run", "flow", "--input", "seconds=60")
    os.kill(bench.server(), signal.SIGKILL)
    _, said = running.communicate(timeout=30)
    assert running.returncode == 3, said

    execution = bench.listed()["executions"][0]
    assert (execution["state"], execution["completed"], execution["unknown"]) == ("interrupted", ["first"], ["second"])
    # Nobody is there to say whether it may be repeated, so it is not.
    again = bench.run("resume", execution["executionId"])
    assert (again.returncode, "of unknown outcome: second" in again.stdout) == (1, True)
    terminal = bench.terminal("resume", execution["executionId"], "--done", "second")
    terminal.expect("Go on, me\\?")
    terminal.sendline("y")
    terminal.expect("flow  done  3 of 3 steps")
    terminal.close()
    assert (bench.folder / "first").read_text() == "x"
    assert len((bench.folder / "second").read_text().split()) == 1


def test_another_process_cancels(bench: Bench) -> None:
    running = bench.start("run", "flow", "--input", "seconds=60")
    bench.server()
    execution = bench.listed()["executions"][0]
    assert execution["state"] == "running"
    assert bench.run("cancel", execution["executionId"]).stdout == "Cancelled.\n"
    said, _ = running.communicate(timeout=30)
    assert (running.returncode, "flow  cancelled  1 of 3 steps" in said) == (1, True)


def test_ctrl_c_interrupts(bench: Bench) -> None:
    running = bench.start("run", "flow", "--input", "seconds=60")
    bench.server()
    running.send_signal(signal.SIGINT)
    _, said = running.communicate(timeout=30)
    assert (running.returncode, "can be resumed" in said) == (130, True)
    assert bench.listed()["executions"][0]["state"] == "interrupted"

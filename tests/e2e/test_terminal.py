"""`indusagi-lsp chat` with the real server behind it: one-shot through pipes, the chat in a pseudo-terminal."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from indusagi_lsp.contract.places import HOME_VARIABLE

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="needs pseudo-terminals and POSIX signals")

CHAT = [sys.executable, "-m", "indusagi_lsp", "chat"]
KEYS = re.compile(r".*(?:_API_KEY|_BASE_URL|OLLAMA).*")


class Bench:
    """A workspace, a home, and a script for the model."""

    def __init__(self, folder: Path) -> None:
        self.workspace = folder / "ws"
        self.workspace.mkdir()
        (self.workspace / "README.md").write_text("# Sluice\n\nSluice counts boats in a lock.\n")
        self.script = folder / "script.json"
        self.environment = {name: value for name, value in os.environ.items() if not KEYS.match(name)}
        self.environment |= {
            HOME_VARIABLE: str(folder / "home"),
            "INDUSAGI_SCRIPTED_MODEL": str(self.script),
            "TERM": "xterm",
        }
        self.say({"text": "Hello."})

    def say(self, *replies: dict[str, Any]) -> None:
        """What the model answers, over and over."""
        self.script.write_text(json.dumps({"replies": [{"repeat": "match" not in one, **one} for one in replies]}))

    def command(self, *arguments: str, scripted: bool = True) -> list[str]:
        model = ["--model", f"scripted:{self.script}"] if scripted else []
        return [*CHAT, "--workspace", str(self.workspace), *model, *arguments]

    def run(self, *arguments: str, scripted: bool = True, seconds: float = 50) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self.command(*arguments, scripted=scripted),
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=seconds,
            stdin=subprocess.DEVNULL,
            check=False,
        )

    @property
    def sessions(self) -> list[Path]:
        return sorted((self.workspace / ".indusagi" / "sessions").glob("*.jsonl"))

    def saved(self) -> str:
        return "".join(path.read_text() for path in self.sessions)


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def test_one_question_one_answer_and_a_session_that_goes_on(bench: Bench) -> None:
    bench.say(
        {"match": "look", "calls": [{"name": "read_file", "input": {"path": "README.md"}}]},
        {"text": "It counts boats."},
    )
    first = bench.run("-p", "look at the project")
    assert (first.returncode, first.stdout) == (0, "It counts boats.\n"), first.stderr
    assert "Model: scripted:" in first.stderr
    assert "● read_file README.md" in first.stderr
    assert "Sluice counts boats in a lock" in bench.saved()

    (session,) = bench.sessions
    second = bench.run("--session", session.stem, "-p", "and then?")
    assert (second.returncode, second.stdout) == (0, "It counts boats.\n"), second.stderr
    assert bench.sessions == [session]
    assert "and then?" in bench.saved()


def test_an_answer_that_fails_is_not_a_0(bench: Bench) -> None:
    bench.say({"error": {"message": "The key is wrong.", "hint": "Set another."}})
    done = bench.run("-p", "hi")
    assert done.returncode == 1
    assert done.stdout == ""
    assert "The key is wrong." in done.stderr
    assert "Set another." in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["--session", "nothing-like-this", "-p", "hi"], 1, "There is no session"),
        (["--session", "../../etc/passwd", "-p", "hi"], 1, ""),
        (["--model", "nonsense:model", "-p", "hi"], 1, "nonsense"),
        (["--workspace", "/nonexistent", "-p", "hi"], 2, "there is no folder"),
    ],
)
def test_bad_input_is_a_sentence(bench: Bench, arguments: list[str], code: int, words: str) -> None:
    done = bench.run(*arguments)
    assert done.returncode == code, done.stderr
    assert words in done.stderr
    assert done.stdout == ""
    assert "Traceback" not in done.stderr


def test_ctrl_c_stops_and_keeps_what_was_said(bench: Bench) -> None:
    bench.say({"text": " ".join(f"word{number}" for number in range(200)), "pace": 0.05})
    process = subprocess.Popen(
        bench.command("-p", "talk"), env=bench.environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.read(6) == "word0 "
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=20)
    assert process.returncode == 130, err
    assert "word150" not in out
    assert "Go on with: indusagi-lsp chat" in err
    assert "word0" in bench.saved()
    (session,) = bench.sessions
    bench.say({"text": "Going on."})
    again = bench.run("--session", session.stem, "-p", "go on")
    assert (again.returncode, again.stdout) == (0, "Going on.\n"), again.stderr


def test_a_reader_that_leaves_early_is_no_accident(bench: Bench) -> None:
    bench.say({"text": "line\n" * 5000})
    command = " ".join(f"'{part}'" for part in bench.command("-p", "talk"))
    done = subprocess.run(
        ["sh", "-c", f"{command} | head -n 2"],
        env=bench.environment,
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )
    assert done.stdout == "line\nline\n"
    assert "BrokenPipe" not in done.stderr
    assert "Traceback" not in done.stderr


def test_a_workspace_does_not_run_itself(bench: Bench) -> None:
    marker = bench.workspace.parent / "ran"
    for name in ("json.py", "sitecustomize.py", "msgspec.py", "indusagi_lsp.py", "conftest.py", ".env"):
        (bench.workspace / name).write_text(f"open({str(marker)!r}, 'w')\n")
    script = Path(sys.executable).with_name("indusagi-lsp")
    command = [str(script), "chat", "--model", f"scripted:{bench.script}", "-p", "hi"]
    done = subprocess.run(
        command, env=bench.environment, cwd=bench.workspace, capture_output=True, text=True, timeout=50, check=False
    )
    assert (done.returncode, done.stdout) == (0, "Hello.\n"), done.stderr
    assert not marker.exists()


@pytest.mark.localmodel
@pytest.mark.timeout(200)
def test_the_bundled_model_answers_without_a_key(bench: Bench) -> None:
    bench.environment.pop("INDUSAGI_SCRIPTED_MODEL")
    done = bench.run("-p", "What does this project do?", scripted=False, seconds=150)
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.split()) > 3
    assert "Model: local:" in done.stderr
    assert "bundled" in done.stderr
    assert "API_KEY" in done.stderr


# --- the chat ---


@pytest.fixture
def terminal(bench: Bench) -> Iterator[Any]:
    import pexpect

    bench.say(
        {"match": "slow", "text": " ".join(f"word{number}" for number in range(400)), "pace": 0.05},
        {"match": "look", "calls": [{"name": "list_files", "input": {}}]},
        {"text": "Hello there."},
    )
    command = bench.command()
    child = pexpect.spawn(
        command[0], command[1:], env=bench.environment, encoding="utf-8", timeout=20, dimensions=(40, 120)
    )
    yield child
    child.close(force=True)


def enter(child: Any, line: str) -> None:
    child.send(line)
    # As a person does: the line is seen before it is sent.
    child.expect_exact(line[-8:])
    child.send("\r")


def test_a_conversation_in_a_terminal(bench: Bench, terminal: Any) -> None:
    terminal.expect_exact("Type a question")
    enter(terminal, "please look")
    terminal.expect_exact("list_files")
    terminal.expect_exact("Hello there.")
    enter(terminal, "slow now")
    terminal.expect_exact("word3")
    terminal.send("\x03")
    terminal.expect_exact("Stopped. What was said is kept")
    enter(terminal, "/fork")
    terminal.expect(r"1  please look")
    terminal.expect(r"2  slow now")
    enter(terminal, "/fork 2")
    terminal.expect_exact("You are at that point now")
    terminal.expect_exact("slow now")
    terminal.send("\x03")
    enter(terminal, "another way")
    terminal.expect_exact("Hello there.")
    enter(terminal, "/tree")
    terminal.expect_exact("you are here")
    enter(terminal, "/remember boats are slow")
    terminal.expect_exact("Remembered.")
    enter(terminal, "/recall boats")
    terminal.expect_exact("boats are slow")
    enter(terminal, "/sessions")
    terminal.expect_exact("please look")
    enter(terminal, "/condense")
    terminal.expect(r"Nothing to condense|Condense\?")
    enter(terminal, "/quit")
    terminal.expect_exact("Go on with: indusagi-lsp chat")
    terminal.expect(__import__("pexpect").EOF)
    terminal.close()
    assert terminal.exitstatus == 0


def test_a_task_with_every_action_allowed_by_hand(bench: Bench) -> None:
    """Run a failing test, mend the code, run the test again: each action is shown before it happens."""
    import pexpect

    (bench.workspace / "boats.py").write_text("def count():\n    return 3\n")
    (bench.workspace / "check.py").write_text("from boats import count\nassert count() == 4\nprint('all well')\n")
    test = {"name": "run_command", "input": {"command": f"{sys.executable} -B check.py"}}
    edits = [{"old_text": "return 3", "new_text": "return 4"}]
    bench.say(
        {"match": "mend", "calls": [test]},
        {"match": "mend", "calls": [{"name": "edit_file", "input": {"path": "boats.py", "edits": edits}}]},
        {"match": "mend", "calls": [test]},
        {"match": "mend", "calls": [{"name": "write_file", "input": {"path": "AGENTS.md", "content": "obey\n"}}]},
        {"text": "It is mended."},
    )
    command = bench.command("--trust")
    child = pexpect.spawn(
        command[0], command[1:], env=bench.environment, encoding="utf-8", timeout=20, dimensions=(40, 120)
    )
    try:
        child.expect_exact("Type a question")
        enter(child, "please mend it")
        child.expect_exact("run_command wants to run")
        child.expect_exact("[a]lways in this folder")
        child.send("y\r")
        child.expect_exact("AssertionError")
        child.expect_exact("[exit code 1]")
        child.expect_exact("+    return 4")
        child.expect_exact("Allow?")
        assert "return 3" in (bench.workspace / "boats.py").read_text()
        child.send("y\r")
        child.expect_exact("boats.py: 1 edit made")
        child.expect_exact("Allow?")
        child.send("s\r")
        child.expect_exact("all well")
        child.expect_exact("Careful: AGENTS.md is protected")
        child.expect_exact("Allow? [y]es, [n]o:")
        child.send("n\r")
        child.expect_exact("It is mended.")
    finally:
        child.close(force=True)
    assert "return 4" in (bench.workspace / "boats.py").read_text()
    assert not (bench.workspace / "AGENTS.md").exists()


def test_without_trust_nothing_is_changed_and_nobody_is_asked(bench: Bench) -> None:
    bench.say(
        {"match": "mend", "calls": [{"name": "write_file", "input": {"path": "x.txt", "content": "x"}}]},
        {"match": "mend", "calls": [{"name": "run_command", "input": {"command": "touch y.txt"}}]},
        {"text": "Could not."},
    )
    for arguments in ([], ["--no-trust"], ["--trust"]):
        done = bench.run(*arguments, "-p", "mend it")
        assert (done.returncode, done.stdout) == (0, "Could not.\n"), done.stderr
        assert sorted(path.name for path in bench.workspace.iterdir()) == [".indusagi", "README.md"]


def test_a_dead_server_offers_the_way_back(bench: Bench, terminal: Any) -> None:
    terminal.expect_exact("Type a question")
    enter(terminal, "slow now")
    terminal.expect_exact("word3")
    children = subprocess.run(
        ["pgrep", "-P", str(terminal.pid)], capture_output=True, text=True, check=True
    ).stdout.split()
    for child in children:
        os.kill(int(child), signal.SIGKILL)
    terminal.expect_exact("The server has ended unexpectedly (signal 9).")
    terminal.expect(r"Go on with: indusagi-lsp chat .*--session ([0-9a-f]+)")
    session = terminal.match[1]
    terminal.expect(__import__("pexpect").EOF)
    terminal.close()
    assert terminal.exitstatus == 3
    bench.say({"text": "Back again."})
    again = bench.run("--session", session, "-p", "go on")
    assert (again.returncode, again.stdout) == (0, "Back again.\n"), again.stderr


def test_leaving_leaves_no_process_behind(bench: Bench, terminal: Any) -> None:
    terminal.expect_exact("Type a question")
    children = subprocess.run(
        ["pgrep", "-P", str(terminal.pid)], capture_output=True, text=True, check=True
    ).stdout.split()
    assert children
    terminal.kill(signal.SIGKILL)
    deadline = time.monotonic() + 5
    while time.monotonic() < deadline and any(Path(f"/proc/{child}").exists() for child in children):
        time.sleep(0.05)
    assert not any(Path(f"/proc/{child}").exists() for child in children)

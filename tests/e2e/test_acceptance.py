"""A real task through the real server: read, edit, run, recorded and replayed, and undone to the first byte.

`INDUSAGI_REAL_MODEL=provider:name` has a model of a provider do the task as well; its key comes from the environment.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from support.person import Person
from unit.filehistory.rig import tree

REAL_MODEL = os.environ.get("INDUSAGI_REAL_MODEL", "")
PROMPT = "The test in test_calc.py fails. Find out why, mend calc.py, and run the test again to see that it passes."
RUN = f"{sys.executable} -B test_calc.py"
FILES = {
    "calc.py": "def add(a, b):\n    return a - b\n",
    "test_calc.py": "from calc import add\n\nassert add(1, 2) == 3, add(1, 2)\nprint('passed')\n",
    "README.md": f"# A calculator\n\nRun the test with `{RUN}`.\n",
}


def calls(name: str, **arguments: Any) -> dict[str, Any]:
    return {"calls": [{"name": name, "input": arguments}]}


TASK = [
    {**calls("run_command", command=RUN), "text": "I run the test first."},
    calls("read_file", path="calc.py"),
    calls("edit_file", path="calc.py", edits=[{"old_text": "a - b", "new_text": "a + b"}]),
    calls("write_file", path="notes/why.md", content="Minus was wrong.\n"),
    calls("run_command", command=RUN),
    "It subtracted. The test passes now.",
]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "calculator"
    folder.mkdir()
    for name, text in FILES.items():
        (folder / name).write_text(text, "utf-8")
    return folder


def passes(folder: Path) -> bool:
    done = subprocess.run(RUN.split(), cwd=folder, capture_output=True, text=True, timeout=60, check=False)
    return done.returncode == 0 and "passed" in done.stdout


async def undo(person: Person, session: str) -> None:
    """Go back to where nothing was done yet, with the files."""
    first = (await person.call("resume", sessionId=session))["turns"][0]["id"]
    await person.call("resume", sessionId=session, node=first)
    plan = await person.call("files/restore", sessionId=session, node=first, preview=True)
    choices = {file["path"]: "restore" for file in plan["files"]}
    await person.call("files/restore", sessionId=session, node=first, token=plan["token"], choices=choices)


def happened(person: Person) -> list[Any]:
    """What a run did, without ids and times: what was said, what was called with what, and what came of it."""
    told: list[Any] = []
    for event in person.events:
        match event["kind"]:
            case "text_delta":
                if told and told[-1][0] == "said":
                    told[-1] = ("said", told[-1][1] + event["delta"])
                else:
                    told.append(("said", event["delta"]))
            case "tool_called":
                told.append(("called", event["name"], event["input"]))
            case "tool_finished":
                told.append(("finished", event["name"], event["outcome"]))
            case "notice" | "settled" | "faulted" as kind:
                told.append((kind, event.get("code")))
    return told


@pytest.mark.timeout(180)
async def test_a_task_is_done_recorded_undone_and_done_again_by_the_recording(folder: Path, tmp_path: Path) -> None:
    home, recording = tmp_path / "home", tmp_path / "run.jsonl"
    before = tree(folder)
    assert not passes(folder)

    person = await Person.arrive(folder, home, "--record", str(recording), script=TASK)
    session = (await person.call("session/new"))["id"]
    final = await person.say(session, PROMPT)
    assert final["phase"] == "settled"
    assert [question["tool"] for question in person.asked] == ["run_command", "edit_file", "write_file", "run_command"]
    assert passes(folder)
    after = tree(folder)
    await undo(person, session)
    assert tree(folder) == before
    first = happened(person)
    assert await person.leave() == 0

    # Another server, which knows neither the script nor any key.
    person = await Person.arrive(folder, home, "--replay", str(recording))
    session = (await person.call("session/new"))["id"]
    again = await person.say(session, PROMPT)
    assert happened(person) == first
    assert ("notice", "replay_diverged") not in happened(person)
    assert (again["phase"], again["model"]) == ("settled", final["model"])
    assert tree(folder) == after
    await undo(person, session)
    assert tree(folder) == before
    assert await person.leave() == 0


async def test_a_replay_in_a_workspace_that_is_not_as_it_was_says_so(folder: Path, tmp_path: Path) -> None:
    home, recording = tmp_path / "home", tmp_path / "run.jsonl"
    script = [calls("read_file", path="calc.py"), "It subtracts."]
    person = await Person.arrive(folder, home, "--record", str(recording), script=script)
    await person.say((await person.call("session/new"))["id"], "What does it do?")
    await person.leave()

    (folder / "calc.py").write_text("def add(a, b):\n    return a * b\n", "utf-8")
    person = await Person.arrive(folder, home, "--replay", str(recording))
    final = await person.say((await person.call("session/new"))["id"], "What does it do?")
    assert final["phase"] == "settled"
    assert ("notice", "replay_diverged") in happened(person)
    await person.leave()


def test_a_recording_that_cannot_be_made_or_read_is_told_before_anything_starts(tmp_path: Path) -> None:
    there = tmp_path / "there.jsonl"
    there.write_text("not one\n")
    for arguments, words in (
        (["--record", str(there)], "File exists"),
        (["--record", str(tmp_path / "no" / "where")], "No such file"),
        (["--replay", str(there)], "is no recording"),
        (["--replay", str(tmp_path / "nothing")], "cannot be read"),
        (["--replay", str(there), "--record", "x"], "not allowed with"),
        (["chat", "--record", str(there), "-p", "hi"], "exists already"),
        (["chat", "--replay", str(tmp_path / "nothing"), "-p", "hi"], "there is no recording"),
    ):
        done = subprocess.run(
            [sys.executable, "-m", "indusagi_lsp", *arguments],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert (done.returncode, done.stdout) == (2, "")
        assert words in done.stderr
        assert "Traceback" not in done.stderr


@pytest.mark.localmodel
@pytest.mark.timeout(400)
async def test_the_bundled_model_does_a_real_run_that_can_be_replayed(folder: Path, tmp_path: Path) -> None:
    recording = tmp_path / "run.jsonl"
    question = "What is the capital of France?"
    person = await Person.arrive(folder, tmp_path / "home", "--record", str(recording))
    session = (await person.call("session/new", model="local:smollm2"))["id"]
    final = await person.say(session, question, limit=300)
    assert (final["phase"], final["model"]) == ("settled", "local:smollm2")
    answer = final["messages"][-1]["blocks"][0]["text"]
    assert answer.strip()
    assert final["usage"]["input"] > 0
    assert await person.leave() == 0

    person = await Person.arrive(folder, tmp_path / "home", "--replay", str(recording))
    session = (await person.call("session/new"))["id"]
    again = await person.say(session, question)
    assert again["messages"][-1]["blocks"][0]["text"] == answer
    assert again["usage"] == final["usage"]
    assert await person.leave() == 0


@pytest.mark.skipif(not REAL_MODEL, reason="INDUSAGI_REAL_MODEL names no model of a provider")
@pytest.mark.timeout(900)
async def test_a_model_of_a_provider_does_the_task(folder: Path, tmp_path: Path) -> None:
    before = tree(folder)
    person = await Person.arrive(folder, tmp_path / "home")
    session = (await person.call("session/new", model=REAL_MODEL))["id"]
    final = await person.say(session, PROMPT, limit=800)
    assert final["phase"] == "settled"
    assert passes(folder)
    await undo(person, session)
    assert tree(folder) == before
    await person.leave()

"""A small repository with a failing test: a model reads, edits and runs it, as it would with a person's consent."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from unit.workspace.rig import HostsRig

BROKEN = "def add(a, b):\n    return a - b\n"
TEST = "from calc import add\n\nassert add(1, 2) == 3, add(1, 2)\nprint('passed')\n"


def calls(name: str, **arguments: Any) -> dict[str, Any]:
    return {"calls": [{"name": name, "input": arguments}]}


def results(final: Any) -> list[tuple[str, bool]]:
    blocks = [block for message in final.messages for block in message["blocks"]]
    return [(block["output"], block.get("isError", False)) for block in blocks if block["kind"] == "tool_result"]


async def test_read_edit_and_run(tmp_path: Path) -> None:
    run = f"{sys.executable} test_calc.py"
    rig = HostsRig(
        tmp_path,
        [
            calls("run_command", command=run),
            calls("read_file", path="calc.py"),
            calls("edit_file", path="calc.py", edits=[{"old_text": "a - b", "new_text": "a + b"}]),
            calls("run_command", command=run),
            {"text": "Fixed."},
        ],
    )
    await rig.folder()
    folder = tmp_path / "ws"
    (folder / "calc.py").write_text(BROKEN, "utf-8")
    (folder / "test_calc.py").write_text(TEST, "utf-8")
    session = await rig.new()
    final = await rig.say(session, "Make the test pass.")

    found = results(final)
    assert final.phase == "settled"
    assert "AssertionError" in found[0][0]
    assert "return a - b" in found[1][0]
    assert "passed" in found[3][0]
    assert (folder / "calc.py").read_text("utf-8") == BROKEN.replace("-", "+")
    asked = [(question.tool, question.action) for question in rig.outlet.questions]
    assert [tool for tool, _ in asked] == ["run_command", "edit_file", "run_command"]
    assert "-    return a - b" in asked[1][1]
    assert "+    return a + b" in asked[1][1]
    await rig.hosts.shutdown()


async def test_a_denial_leaves_everything_as_it_was(tmp_path: Path) -> None:
    rig = HostsRig(
        tmp_path,
        [
            calls("write_file", path="calc.py", content="gone"),
            calls("run_command", command="touch made"),
            {"text": "Very well."},
        ],
    )
    await rig.folder()
    folder = tmp_path / "ws"
    (folder / "calc.py").write_text(BROKEN, "utf-8")
    rig.outlet.decision = "deny"
    final = await rig.say(await rig.new(), "Break it.")
    assert all("did not allow" in output for output, _ in results(final))
    assert (folder / "calc.py").read_text("utf-8") == BROKEN
    assert not (folder / "made").exists()
    await rig.hosts.shutdown()


async def test_protected_paths_are_asked_about_whatever_the_mode(tmp_path: Path) -> None:
    rig = HostsRig(
        tmp_path,
        [
            calls("write_file", path="notes.txt", content="fine"),
            calls("write_file", path=".git/hooks/pre-commit", content="evil"),
            {"text": "Done."},
        ],
    )
    await rig.folder()
    (tmp_path / "ws" / ".git" / "hooks").mkdir(parents=True)
    await rig.hosts.configure({"approvals": "acceptEdits"})
    rig.outlet.decision = "deny"
    await rig.say(await rig.new(), "go")
    assert (tmp_path / "ws" / "notes.txt").read_text("utf-8") == "fine"
    assert not (tmp_path / "ws" / ".git" / "hooks" / "pre-commit").exists()
    assert [question.options for question in rig.outlet.questions] == [["once", "deny"]]
    await rig.hosts.shutdown()


async def test_a_file_with_unsaved_changes_is_searched_and_edited_in_the_editor(tmp_path: Path) -> None:
    rig = HostsRig(
        tmp_path,
        [
            calls("search_text", pattern="unsaved_word"),
            calls("edit_file", path="calc.py", edits=[{"old_text": "unsaved_word", "new_text": "edited_word"}]),
            {"text": "Done."},
        ],
    )
    await rig.folder()
    path = tmp_path / "ws" / "calc.py"
    path.write_text(BROKEN, "utf-8")
    rig.outlet.documents[path.as_uri()] = "unsaved_word = 1\n"
    final = await rig.say(await rig.new(), "rename it")
    found = results(final)
    assert "calc.py" in found[0][0]
    assert not found[1][1], found[1][0]
    assert rig.outlet.documents[path.as_uri()] == "edited_word = 1\n"
    assert path.read_text("utf-8") == BROKEN
    await rig.hosts.shutdown()


async def test_commands_that_the_user_lets_pass_ask_nothing(tmp_path: Path) -> None:
    config = tmp_path / "home" / "config"
    config.mkdir(parents=True)
    (config / "config.toml").write_text('commands = ["git status"]\n', "utf-8")
    allowed, other = calls("run_command", command="git status"), calls("run_command", command="git status; touch made")
    rig = HostsRig(tmp_path, [allowed, other, {"text": "Done."}])
    await rig.folder()
    rig.outlet.decision = "deny"
    await rig.say(await rig.new(), "look")
    assert len(rig.outlet.questions) == 1
    assert not (tmp_path / "ws" / "made").exists()
    await rig.hosts.shutdown()

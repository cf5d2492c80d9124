"""Who decides what an agent may do: trust, the mode, standing permissions, the user; and what is written down of it."""

from __future__ import annotations

import asyncio
import json
import stat
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from indusagi_lsp.contract.tools import Effect
from indusagi_lsp.protocol import operations as o
from indusagi_lsp.workspace.permissions import Permissions
from unit.conductor.rig import EchoTool
from unit.workspace.rig import HostsRig

REPLIES = [{"calls": [{"name": "touch", "input": {"text": "a"}}]}, {"text": "done"}]


@pytest.fixture
async def rig(tmp_path: Path) -> AsyncIterator[HostsRig]:
    rig = HostsRig(tmp_path, REPLIES, loop=True)
    yield rig
    await rig.hosts.shutdown()


async def with_tool(rig: HostsRig, effects: frozenset[Any], **settings: Any) -> tuple[EchoTool, str]:
    """A folder whose agents have one more tool, that changes something."""
    await rig.folder()
    await rig.hosts.configure(settings)
    host = next(iter(rig.hosts._hosts.values()))
    tool = EchoTool("touch", effects)
    host.toolbox._own = (*host.toolbox.tools(act=True), tool)
    return tool, await rig.new()


def records(rig: HostsRig, session: str) -> list[dict[str, Any]]:
    path = rig.tmp_path / "ws" / ".indusagi" / "sessions" / f"{session}.jsonl"
    lines = [json.loads(line) for line in path.read_bytes().split(b"\n") if line]
    return [line for line in lines if line["type"] == "approval"]


async def test_the_user_is_asked_and_the_answer_is_written_down(rig: HostsRig) -> None:
    tool, session = await with_tool(rig, frozenset({Effect.EXECUTE}))
    await rig.say(session, "go")
    question = rig.outlet.questions[0]
    assert (question.tool, question.size, question.options) == (
        "touch",
        len(question.action),
        ["once", "session", "always", "deny"],
    )
    assert len(tool.runs) == 1
    (record,) = records(rig, session)
    assert (record["id"], record["action"], record["decision"], record["by"]) == (
        question.approval_id,
        question.sha256,
        "once",
        "user",
    )


async def test_always_holds_for_the_same_bytes_in_this_folder_and_after_a_restart(rig: HostsRig) -> None:
    _, session = await with_tool(rig, frozenset({Effect.EXECUTE}))
    rig.outlet.decision = "always"
    await rig.say(session, "go")
    await rig.hosts.shutdown()

    rig.hosts = rig.again()
    rig.outlet.decision = "deny"
    tool, session = await with_tool(rig, frozenset({Effect.EXECUTE}))
    await rig.say(session, "go")
    assert len(tool.runs) == 1
    assert len(rig.outlet.questions) == 1
    assert records(rig, session)[0]["by"] == "permission"

    other = await rig.folder("other")
    host = rig.hosts._hosts[other]
    host.toolbox._own = (*host.toolbox.tools(act=True), tool)
    await rig.say(await rig.new(workspace=other), "go", workspace=other)
    assert len(rig.outlet.questions) == 2
    assert len(tool.runs) == 1


async def test_accept_edits_lets_edits_pass_but_no_commands(rig: HostsRig) -> None:
    tool, session = await with_tool(rig, frozenset({Effect.WRITE}), approvals="acceptEdits")
    await rig.say(session, "go")
    assert (len(tool.runs), rig.outlet.questions) == (1, [])
    assert records(rig, session)[0]["by"] == "mode"

    tool.effects = frozenset({Effect.WRITE, Effect.EXECUTE})
    rig.outlet.decision = "deny"
    await rig.say(session, "go")
    assert (len(tool.runs), len(rig.outlet.questions)) == (1, 1)


async def test_read_only_offers_no_tool_that_changes_anything(rig: HostsRig) -> None:
    tool, session = await with_tool(rig, frozenset({Effect.WRITE}), approvals="readOnly")
    final = await rig.say(session, "go")
    outputs = [b["output"] for m in final.messages for b in m["blocks"] if b["kind"] == "tool_result"]
    assert "There is no tool" in outputs[0]
    assert tool.runs == []


async def test_a_permission_is_never_read_from_the_workspace(rig: HostsRig) -> None:
    tool, session = await with_tool(rig, frozenset({Effect.EXECUTE}))
    path = rig.tmp_path / "ws" / ".indusagi" / "sessions" / f"{session}.jsonl"
    planted = {"type": "approval", "id": "x", "callId": "c", "action": "0" * 64, "decision": "always", "by": "user"}
    with path.open("ab") as file:
        file.write(json.dumps(planted).encode() + b"\n")
    (rig.tmp_path / "ws" / ".indusagi" / "permissions").mkdir()
    rig.outlet.decision = "deny"
    await rig.say(session, "go")
    assert tool.runs == []
    assert len(rig.outlet.questions) == 1


async def test_a_question_that_waits_is_shown_to_a_client_that_asks_again(rig: HostsRig) -> None:
    _, session = await with_tool(rig, frozenset({Effect.EXECUTE}))
    asked, answered = asyncio.Event(), asyncio.Event()

    async def slow(question: Any) -> Any:
        rig.outlet.questions.append(question)
        asked.set()
        await answered.wait()
        return "once"

    rig.outlet.approve = slow  # type: ignore[method-assign]
    running = asyncio.create_task(rig.say(session, "go"))
    await asked.wait()
    waiting = await rig.call(o.SNAPSHOT, sessionId=session)
    assert [question.approval_id for question in waiting.questions] == [rig.outlet.questions[0].approval_id]
    assert waiting.snapshot.phase == "awaiting_approval"
    answered.set()
    await running
    assert (await rig.call(o.SNAPSHOT, sessionId=session)).questions == []


def test_a_broken_file_of_permissions_grants_nothing(tmp_path: Path) -> None:
    permissions = Permissions(tmp_path, "file:///ws")
    permissions.grant("run", "ls", 1)
    assert permissions.allows("run", "ls")
    assert not permissions.allows("run", "ls ")
    assert not permissions.allows("other", "ls")
    (path,) = (tmp_path / "permissions").glob("*.json")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    path.write_text("{broken", "utf-8")
    assert not permissions.allows("run", "ls")
    permissions.grant("run", "pwd", 2)
    assert permissions.allows("run", "pwd")
    assert not permissions.allows("run", "ls")


async def test_for_this_session_holds_in_the_next_run_too(rig: HostsRig) -> None:
    tool, session = await with_tool(rig, frozenset({Effect.EXECUTE}))
    rig.outlet.decision = "session"
    await rig.say(session, "go")
    await rig.say(session, "again")
    assert len(tool.runs) == 2
    assert len(rig.outlet.questions) == 1
    other = await rig.new()
    await rig.say(other, "elsewhere")
    assert len(rig.outlet.questions) == 2

"""The Agent Client Protocol, through the client of its own SDK, over a real process."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import acp
import pytest
from acp import RequestError, helpers, schema

COMMAND = (sys.executable, "-P", "-m", "indusagi_lsp", "acp")
SECONDS = 50


class Editor:
    """What an editor does: it keeps the updates, and answers questions as it is told to."""

    def __init__(self) -> None:
        self.updates: list[tuple[str, Any]] = []
        self.questions: list[tuple[schema.ToolCallUpdate, list[schema.PermissionOption]]] = []
        self.choice: str | None = "once"
        self.arrived = asyncio.Condition()

    async def session_update(self, session_id: str, update: Any, **_: Any) -> None:
        async with self.arrived:
            self.updates.append((session_id, update))
            self.arrived.notify_all()

    async def request_permission(
        self, session_id: str, tool_call: schema.ToolCallUpdate, options: list[schema.PermissionOption], **_: Any
    ) -> schema.RequestPermissionResponse:
        async with self.arrived:
            self.questions.append((tool_call, options))
            self.arrived.notify_all()
        if self.choice is None:
            return schema.RequestPermissionResponse(outcome=schema.DeniedOutcome(outcome="cancelled"))
        return schema.RequestPermissionResponse(
            outcome=schema.AllowedOutcome(outcome="selected", option_id=self.choice)
        )

    def on_connect(self, conn: Any) -> None:
        """Nothing to do."""

    async def until(self, seen) -> None:
        async with asyncio.timeout(SECONDS), self.arrived:
            await self.arrived.wait_for(seen)

    def of(self, kind: type, session_id: str | None = None) -> list[Any]:
        return [one for where, one in self.updates if isinstance(one, kind) and session_id in (None, where)]

    def said(self, kind: type = schema.AgentMessageChunk) -> str:
        return "".join(one.content.text for one in self.of(kind) if one.content.type == "text")


@contextlib.asynccontextmanager
async def connected(tmp_path: Path, replies: list[dict[str, Any]], *arguments: str) -> AsyncIterator[Any]:
    """An editor, the SDK's connection to a server of its own, and the server's process."""
    (tmp_path / "ws").mkdir(exist_ok=True)
    script = tmp_path / "script.json"
    script.write_text(json.dumps({"replies": replies}), "utf-8")
    environment = {**os.environ, "INDUSAGI_SCRIPTED_MODEL": str(script), "INDUSAGI_LSP_HOME": str(tmp_path / "home")}
    editor = Editor()
    with open(tmp_path / "stderr", "ab") as log:
        async with acp.spawn_agent_process(
            editor, *COMMAND, *arguments, env=environment, transport_kwargs={"stderr": log, "shutdown_timeout": 20.0}
        ) as (agent, process):
            async with asyncio.timeout(SECONDS):
                told = await agent.initialize(protocol_version=acp.PROTOCOL_VERSION)
            assert told.protocol_version == acp.PROTOCOL_VERSION
            yield editor, agent, process
    assert process.returncode == 0
    assert (tmp_path / "stderr").read_text() == "", "a good conversation leaves nothing on stderr"


def blocks(text: str) -> list[Any]:
    return [helpers.text_block(text)]


@pytest.mark.timeout(120)
async def test_a_conversation_with_a_tool_that_must_be_allowed(tmp_path: Path) -> None:
    write = {"name": "write_file", "input": {"path": "new.txt", "content": "hello\n"}}
    replies = [
        {"thinking": "A file is wanted.", "text": "I write it. ", "calls": [write]},
        {"text": "Written 👩‍👩‍👧."},
        {"text": "I try again. ", "calls": [{"name": "write_file", "input": {"path": "no.txt", "content": "x"}}]},
        {"text": "Then not."},
    ]
    folder = tmp_path / "ws"
    async with asyncio.timeout(100), connected(tmp_path, replies, "--trust") as (editor, agent, _):
        session = await agent.new_session(cwd=str(folder), mcp_servers=[])
        await editor.until(lambda: editor.of(schema.AvailableCommandsUpdate))
        commands = editor.of(schema.AvailableCommandsUpdate)[0].available_commands
        assert [one.name for one in commands] == ["condense", "undo", "remember"]
        assert session.config_options[0].id == "model"

        done = await agent.prompt(session_id=session.session_id, prompt=blocks("Make a file."))
        assert done.stop_reason == "end_turn"
        # All updates stand before the answer, so nothing needs to be waited for.
        assert editor.said() == "I write it. Written 👩‍👩‍👧."
        assert editor.said(schema.AgentThoughtChunk) == "A file is wanted."
        assert (folder / "new.txt").read_text() == "hello\n"
        question, options = editor.questions[0]
        assert "+hello" in question.content[0].content.text
        assert [one.kind for one in options] == ["allow_once", "allow_always", "allow_always", "reject_once"]
        (started,) = editor.of(schema.ToolCallStart)
        assert (started.tool_call_id, started.kind) == (question.tool_call_id, "edit")
        states = [one.status for one in editor.of(schema.ToolCallProgress)]
        assert states[-1] == "completed"
        assert "in_progress" in states

        editor.choice = "deny"
        done = await agent.prompt(session_id=session.session_id, prompt=blocks("Make another."))
        assert done.stop_reason == "end_turn"
        assert not (folder / "no.txt").exists()
        assert editor.of(schema.ToolCallProgress)[-1].status == "failed"
        assert (await agent.list_sessions(cwd=str(folder))).sessions[0].session_id == session.session_id


@pytest.mark.timeout(120)
async def test_a_session_is_loaded_by_another_process_forked_and_gone_on_with(tmp_path: Path) -> None:
    folder = str(tmp_path / "ws")
    (tmp_path / "ws").mkdir()
    (tmp_path / "ws" / "a.txt").write_text("hello")
    listing = {"text": "It lists. ", "calls": [{"name": "list_files", "input": {}}]}
    async with asyncio.timeout(50), connected(tmp_path, [listing, {"text": "One file."}]) as (editor, agent, _):
        session_id = (await agent.new_session(cwd=folder, mcp_servers=[])).session_id
        link = helpers.resource_link_block("a.txt", (tmp_path / "ws" / "a.txt").as_uri())
        await agent.prompt(session_id=session_id, prompt=[*blocks("What is here?"), link])
        assert not editor.questions, "reading needs no question"

    async with asyncio.timeout(50), connected(tmp_path, [{"text": "More."}, {"text": "Else."}]) as (editor, agent, _):
        await agent.load_session(cwd=folder, session_id=session_id, mcp_servers=[])
        shown = [update for where, update in editor.updates if where == session_id]
        kinds = [type(one) for one in shown if not isinstance(one, schema.AvailableCommandsUpdate)]
        assert kinds == [
            schema.UserMessageChunk,
            schema.UserMessageChunk,
            schema.AgentMessageChunk,
            schema.ToolCallStart,
            schema.ToolCallProgress,
            schema.AgentMessageChunk,
        ]
        assert shown[0].content.type == "resource_link"
        assert "a.txt" in editor.of(schema.ToolCallProgress)[0].content[0].content.text
        assert editor.said() == "It lists. One file."
        forked = await agent.fork_session(session_id=session_id, cwd=folder)
        assert forked.session_id != session_id
        assert (await agent.prompt(session_id=forked.session_id, prompt=blocks("And?"))).stop_reason == "end_turn"
        assert editor.said().endswith("More.")
        listed = {one.session_id for one in (await agent.list_sessions(cwd=folder)).sessions}
        assert listed == {session_id, forked.session_id}
        await agent.resume_session(session_id=session_id, cwd=folder)
        assert (await agent.prompt(session_id=session_id, prompt=blocks("And?"))).stop_reason == "end_turn"


@pytest.mark.timeout(120)
async def test_cancel_ends_the_run_and_the_session_goes_on(tmp_path: Path) -> None:
    long = {"match": "Tell|Nothing", "text": "Long, long words.", "stallAfter": 10, "repeat": True}
    replies = [long, {"match": "Still", "text": "Here again."}]
    async with asyncio.timeout(100), connected(tmp_path, replies) as (editor, agent, _):
        session_id = (await agent.new_session(cwd=str(tmp_path / "ws"), mcp_servers=[])).session_id
        running = asyncio.create_task(agent.prompt(session_id=session_id, prompt=blocks("Tell me.")))
        await editor.until(lambda: editor.of(schema.AgentMessageChunk))
        await agent.cancel(session_id=session_id)
        assert (await running).stop_reason == "cancelled"
        # Cancelled at once, before the run has begun.
        running = asyncio.create_task(agent.prompt(session_id=session_id, prompt=blocks("Nothing.")))
        await asyncio.sleep(0)
        await agent.cancel(session_id=session_id)
        assert (await running).stop_reason == "cancelled"
        done = await agent.prompt(session_id=session_id, prompt=blocks("Still here?"))
        assert done.stop_reason == "end_turn"
        assert editor.said().endswith("Here again.")

        told = await agent.prompt(session_id=session_id, prompt=blocks("/remember tabs, not spaces"))
        assert told.stop_reason == "end_turn"
        assert editor.said().endswith("Remembered.")


@pytest.mark.timeout(120)
async def test_what_cannot_be_done_is_said_in_words_and_an_untrusted_folder_is_only_read(tmp_path: Path) -> None:
    write = {"name": "write_file", "input": {"path": "new.txt", "content": "x"}}
    replies = [
        {"error": {"message": "The key is wrong.", "kind": "model", "hint": "Set another."}},
        {"calls": [write]},
        {"text": "No."},
    ]
    async with asyncio.timeout(100), connected(tmp_path, replies) as (editor, agent, _):
        folder = str(tmp_path / "ws")
        for call, words in (
            (agent.load_session(cwd=folder, session_id="nope", mcp_servers=[]), "nope"),
            (agent.prompt(session_id="nope", prompt=blocks("x")), "not open"),
            (agent.new_session(cwd="relative", mcp_servers=[]), "absolute"),
            (agent.new_session(cwd=str(tmp_path / "missing"), mcp_servers=[]), "not a folder"),
        ):
            with pytest.raises(RequestError) as caught:
                await call
            assert words in str(caught.value)
            assert set(caught.value.data) == {"kind", "hint"}
        session_id = (await agent.new_session(cwd=folder, mcp_servers=[])).session_id
        with pytest.raises(RequestError, match="empty"):
            await agent.prompt(session_id=session_id, prompt=blocks("  "))
        with pytest.raises(RequestError, match="key is wrong") as caught:
            await agent.prompt(session_id=session_id, prompt=blocks("hi"))
        assert caught.value.data["hint"] == "Set another."

        await agent.prompt(session_id=session_id, prompt=blocks("Write."))
        assert not editor.questions
        assert not (tmp_path / "ws" / "new.txt").exists()
        assert editor.of(schema.ToolCallProgress)[-1].status == "failed"


def test_what_makes_no_sense_is_answered(tmp_path: Path) -> None:
    """Bytes that no SDK sends: each is answered, and the next request too; the end of input is a good end."""
    good = {"jsonrpc": "2.0", "id": 9, "method": "initialize", "params": {"protocolVersion": 1}}
    lines = [
        b"{bad}",
        b"[]",
        b'{"jsonrpc":"2.0","id":1}',
        b'{"jsonrpc":"2.0","id":2,"method":5}',
        b'{"jsonrpc":"2.0","id":{},"method":"initialize"}',
        b'{"jsonrpc":"2.0","id":3,"method":"session/prompt","params":[]}',
        b'{"jsonrpc":"2.0","id":4,"method":"session/prompt","params":{"sessionId":7}}',
        b'{"jsonrpc":"2.0","id":5,"method":"nothing/known","params":{}}',
        b'{"jsonrpc":"2.0","id":6,"method":"_own/thing","params":{}}',
        b'{"jsonrpc":"2.0","id":77,"result":{}}',
        b'{"jsonrpc":"2.0","id":8,"method":"session/new","params":{"cwd":NaN}}',
        b"\xff\xfe",
        b"",
        json.dumps(good).encode(),
    ]
    with subprocess.Popen(
        COMMAND,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=tmp_path,
        env={**os.environ, "INDUSAGI_LSP_HOME": str(tmp_path / "home")},
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(b"\n".join([*lines, b""]))
        process.stdin.flush()
        answers: list[dict[str, Any]] = []
        while not answers or answers[-1]["id"] != 9:
            answers.append(json.loads(process.stdout.readline()))
        process.stdin.close()
        assert process.wait(SECONDS) == 0
    codes = {
        answer["id"]: answer["error"]["code"] for answer in answers if answer["id"] is not None and answer["id"] != 9
    }
    assert codes == {1: -32600, 2: -32600, 3: -32602, 4: -32602, 5: -32601, 6: -32601}
    assert sorted(answer["error"]["code"] for answer in answers if answer["id"] is None) == [
        -32700, -32700, -32700, -32600, -32600,
    ]  # fmt: skip
    assert [answer["result"]["agentInfo"]["name"] for answer in answers if answer["id"] == 9] == ["indusagi-lsp"]
    assert "Traceback" not in json.dumps(answers)

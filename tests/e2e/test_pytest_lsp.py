"""The main conversation through pytest-lsp's client, as an editor without our extension would have it: by commands."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from lsprotocol import types
from pygls.exceptions import JsonRpcException
from pytest_lsp import LanguageClient, client_capabilities
from pytest_lsp.client import register_lsp_features

HOME = "INDUSAGI_LSP_HOME"
SCRIPT = "INDUSAGI_SCRIPTED_MODEL"


class EditorClient(LanguageClient):
    """Queues every event, since pytest-lsp's own waiter keeps only one."""

    def __init__(self) -> None:
        super().__init__()
        register_lsp_features(self)
        self.events: asyncio.Queue[Any] = asyncio.Queue()

        @self.feature("indusagi/event")
        def on_event(params: Any) -> None:
            self.events.put_nowait(params)

        @self.feature(types.CLIENT_REGISTER_CAPABILITY)
        def on_register(_params: types.RegistrationParams) -> None:
            """pytest-lsp has no handler of its own for this request."""

        for quiet in ("indusagi/status", "indusagi/sessionsChanged", "indusagi/memoryChanged"):
            self.feature(quiet)(lambda _params: None)

    async def run(self, command: str, **params: Any) -> Any:
        return await self.workspace_execute_command_async(
            types.ExecuteCommandParams(command=f"indusagi.server.{command}", arguments=[params])
        )


def server_command(script: str) -> list[str]:
    """The server as an editor starts it; a wrapper sets its environment, for the client hands on its own."""
    code = (
        "import os, runpy, sys; "
        f"os.environ[{SCRIPT!r}] = {script!r}; "
        f"os.environ[{HOME!r}] = os.path.join(os.path.dirname({script!r}), 'home'); "
        "sys.argv = ['indusagi-lsp', '--stdio']; runpy.run_module('indusagi_lsp', run_name='__main__')"
    )
    return [sys.executable, "-c", code]


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "script.json"
    replies = [
        {"text": "It lists.", "calls": [{"name": "list_files", "input": {}}]},
        {"text": "There is one file."},
        {"text": "Again."},
    ]
    path.write_text(json.dumps({"replies": replies}), "utf-8")
    return path


@pytest.fixture
async def client(script: Path, tmp_path: Path) -> AsyncIterator[EditorClient]:
    folder = tmp_path / "ws"
    folder.mkdir()
    (folder / "a.txt").write_text("hello", "utf-8")
    client = EditorClient()
    await client.start_io(*server_command(str(script)), env=dict(os.environ))
    await client.initialize_session(
        types.InitializeParams(
            capabilities=_capabilities(),
            workspace_folders=[types.WorkspaceFolder(uri=folder.as_uri(), name="ws")],
            initialization_options={"trusted": True},
        )
    )
    yield client
    await client.shutdown_session()
    await client.stop()


def _capabilities() -> types.ClientCapabilities:
    capabilities = client_capabilities("visual-studio-code")
    capabilities.experimental = {"indusagi": {"events": True, "approvals": True}}
    return capabilities


async def until_terminal(client: EditorClient) -> list[Any]:
    seen = []
    async with asyncio.timeout(20):
        while not seen or seen[-1].event.kind not in ("settled", "faulted"):
            seen.append(await client.events.get())
    return seen


async def test_the_main_conversation(client: EditorClient, tmp_path: Path) -> None:
    session = (await client.run("session/new"))["id"]
    final = await client.run("submit", sessionId=session, text="What is here?")
    assert final["phase"] == "settled"
    events = await until_terminal(client)
    assert [event.seq for event in events] == list(range(1, len(events) + 1))
    kinds = [event.event.kind for event in events]
    assert kinds.index("tool_started") < kinds.index("tool_called") < kinds.index("tool_finished")
    assert "a.txt" in next(e.event.outcome.output for e in events if e.event.kind == "tool_finished")
    text = "".join(e.event.delta for e in events if e.event.kind == "text_delta")
    assert text == "It lists.There is one file."

    view = await client.run("resume", sessionId=session)
    assert [turn["role"] for turn in view["turns"]] == ["user", "assistant", "tool", "assistant"]
    forked = await client.run("fork", sessionId=session, node=view["turns"][0]["id"], before=True)
    assert (forked["leaf"], forked["prefill"]) == (None, "What is here?")
    again = await client.run("submit", sessionId=session, text="Say it differently.")
    assert [block["text"] for message in again["messages"] for block in message["blocks"]] == [
        "Say it differently.",
        "Again.",
    ]
    assert len((await client.run("session/tree", sessionId=session))["leaves"]) == 2
    condensed = await client.run("condense", sessionId=session, preview=True)
    assert condensed["condensed"] is False
    assert (tmp_path / "ws" / ".indusagi" / "sessions" / f"{session}.jsonl").exists()


async def test_errors_have_words_and_no_traceback(client: EditorClient) -> None:
    with pytest.raises(JsonRpcException) as caught:
        await client.run("resume", sessionId="nope")
    assert "nope" in str(caught.value)
    assert "Traceback" not in repr(caught.value.data)
    assert -32099 <= caught.value.code <= -32001


async def test_a_server_that_is_not_told_of_events_answers_all_the_same(script: Path, tmp_path: Path) -> None:
    client = EditorClient()
    (tmp_path / "ws2").mkdir()
    await client.start_io(*server_command(str(script)), env=dict(os.environ))
    await client.initialize_session(
        types.InitializeParams(
            capabilities=client_capabilities("neovim"),
            workspace_folders=[types.WorkspaceFolder(uri=(tmp_path / "ws2").as_uri(), name="ws2")],
        )
    )
    session = (await client.run("session/new"))["id"]
    final = await client.run("submit", sessionId=session, text="hi")
    assert final["phase"] == "settled", final["error"]
    assert client.events.empty()
    await client.shutdown_session()
    await client.stop()

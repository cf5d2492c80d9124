"""What an MCP server's tool did to the user's files is found, and offered on the way back."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from indusagi_lsp.protocol import operations as o
from indusagi_lsp.workspace.host import Host
from unit.workspace.rig import HostsRig

SERVER = Path(__file__).parents[1] / "tools/mcp/programs/plain.py"
SCHEMA = {"type": "object", "properties": {"text": {"type": "string"}, "background": {"type": "boolean"}}}
TOOLS = [{"name": "change", "description": "Writes the list of tools.", "inputSchema": SCHEMA}]
OLD, NEW = json.dumps(TOOLS), json.dumps(TOOLS, indent=1)
# An argument that is only called like one of our own tool's leaves nothing in the background.
CHANGE = {"calls": [{"name": "mcp__disk__change", "input": {"text": NEW, "background": True}}]}


@pytest.fixture
async def rig(tmp_path: Path) -> Any:
    """A folder whose user has an MCP server that writes a file of it."""
    written = tmp_path / "ws/tools.json"
    written.parent.mkdir()
    written.write_text(OLD, "utf-8")
    config = tmp_path / "home/config/config.toml"
    config.parent.mkdir(parents=True)
    arguments = json.dumps(["-IS", str(SERVER), "--tools", str(written)])
    config.write_text(f"[mcp.disk]\ncommand = {json.dumps(sys.executable)}\nargs = {arguments}\n", "utf-8")
    rig = HostsRig(tmp_path, [CHANGE, "Done."])
    await rig.folder()
    yield rig
    await rig.hosts.shutdown()


async def offered(rig: HostsRig) -> Host:
    """The folder's host, once the server offers its tool, which takes longer than a run waits on a busy machine."""
    host = next(iter(rig.hosts._hosts.values()))
    async with asyncio.timeout(60):
        while not any(tool.spec.name == "mcp__disk__change" for tool in host.toolbox.tools(act=True)):
            await host.toolbox.prepare(act=True)
    return host


def outcomes(final: Any) -> list[tuple[str, bool]]:
    blocks = [block for message in final.messages for block in message["blocks"] if block["kind"] == "tool_result"]
    return [(block["output"], block.get("isError", False)) for block in blocks]


async def test_a_file_that_an_mcp_tool_wrote_is_offered_and_restored(rig: HostsRig, tmp_path: Path) -> None:
    written = tmp_path / "ws/tools.json"
    await offered(rig)
    session = await rig.new()
    assert outcomes(await rig.say(session, "Tidy up.")) == [(NEW, False)]
    assert written.read_text("utf-8") == NEW
    # What the user does afterwards is the user's: nothing of the call goes on.
    (tmp_path / "ws/mine.txt").write_text("mine", "utf-8")

    found = await rig.call(o.FILES_CHANGES, sessionId=session)
    assert [(file.path, file.kind, file.by, len(file.calls)) for file in found.files] == [
        ("tools.json", "changed", "command", 1)
    ]
    first = (await rig.call(o.RESUME, sessionId=session)).turns[0].id
    plan = await rig.call(o.FILES_RESTORE, sessionId=session, node=first, preview=True)
    assert [(file.path, file.conflicts) for file in plan.files] == [("tools.json", ["command"])]
    choices = {"tools.json": "restore"}
    await rig.call(o.FILES_RESTORE, sessionId=session, node=first, token=plan.token, choices=choices)
    assert written.read_text("utf-8") == OLD


async def test_the_tools_of_a_server_stay_the_same_objects(rig: HostsRig) -> None:
    host = await offered(rig)
    before = host.toolbox.tools(act=True)
    await host.toolbox.prepare(act=True)
    assert host.toolbox.tools(act=True) == before

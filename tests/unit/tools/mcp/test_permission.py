"""What the user allows is what runs: any change of a definition, a program or a list of tools asks again."""

from __future__ import annotations

import asyncio
import json
import os
import stat
import sys
from pathlib import Path

import pytest

from indusagi_lsp.contract.errors import ToolFailed
from indusagi_lsp.contract.tools import Effect, PlanningTool
from indusagi_lsp.tools.mcp import McpConfig, McpServers

from .conftest import PROGRAMS, Desk, User, ask, plain, planned, processes, ready, until

SCHEMA = {"type": "object", "properties": {"text": {"type": "string"}}}


def tool(name: str, description: str = "Does it.", **more: object) -> dict:
    return {"name": name, "description": description, "inputSchema": SCHEMA, **more}


async def test_nothing_runs_without_a_yes(desk: Desk, user: User) -> None:
    user.always = "deny"
    before = processes()
    servers = desk.servers(plain=plain(env={"TOKEN": "very-secret"}))
    assert await servers.tools() == ()
    assert servers.status()[0].state == "denied"
    assert processes() == before
    assert not user.kept

    await servers.tools()
    assert len(user.asked) == 1
    question = user.asked[0]
    assert question.tool == "mcp__plain"
    # No mode that accepts edits, and no earlier word for an action, may stand for this answer.
    assert question.afresh
    assert "execute" in question.effects
    assert str(PROGRAMS / "plain.py") in question.action
    assert "variable: TOKEN (11 characters)" in question.action
    assert "very-secret" not in question.action


async def test_an_approver_that_fails_or_talks_nonsense_is_a_no(desk: Desk, user: User) -> None:
    async def fail(_request: object) -> str:
        raise RuntimeError("the window is gone")

    async def nonsense(_request: object) -> str:
        return "yes"

    for approver in (fail, nonsense):
        servers = McpServers({"plain": plain()}, approver=approver, grants=user, environ=desk.environ)  # type: ignore[arg-type]
        assert await servers.tools() == ()
        assert servers.status()[0].state == "denied"
        await servers.close()


async def test_a_lasting_yes_is_kept_and_once_is_not(desk: Desk, user: User) -> None:
    for answer, asked in (("once", 1), ("session", 2), ("always", 3), ("deny", 3)):
        user.always = answer  # type: ignore[assignment]
        servers = desk.servers(plain=plain())
        await ready(servers)
        await servers.close()
        assert len(user.asked) == asked
    assert set(user.kept) == {"mcp/plain"}
    assert "echo" in json.loads(user.kept["mcp/plain"])["tools"]


@pytest.mark.parametrize(
    "change",
    [{"args": ("-IS", str(PROGRAMS / "plain.py"), "-x")}, {"env": {"A": "1"}}, {"cwd": "/"}, {"command": "sh"}],
)
async def test_any_change_of_the_definition_asks_again(desk: Desk, user: User, change: dict) -> None:
    servers = desk.servers(plain=plain())
    await ready(servers)
    await servers.close()
    user.always = "deny"
    before = plain()
    after = McpConfig(**{"command": before.command, "args": before.args, "timeout": 5, **change})
    servers = desk.servers(plain=after)
    assert await servers.tools() == ()
    assert len(user.asked) == 2
    assert "It is not what you allowed before" in user.asked[1].action

    # What was allowed before still is; patience and the like are no part of it.
    servers = desk.servers(plain=plain(timeout=33))
    await ready(servers)
    assert len(user.asked) == 2


async def test_headers_and_address_are_part_of_the_definition(desk: Desk, user: User) -> None:
    user.always = "deny"
    for config in (
        McpConfig(url="http://127.0.0.1:9/mcp?key=hidden1", headers={"Authorization": "Bearer hidden2"}),
        McpConfig(url="http://127.0.0.1:9/mcp?key=hidden1", headers={"Authorization": "Bearer hidden3"}),
        McpConfig(url="http://127.0.0.1:9/mcp?key=hidden4", headers={"Authorization": "Bearer hidden2"}),
    ):
        await desk.servers(web=config).tools()
    assert len({request.sha256 for request in user.asked}) == 3
    assert not any("hidden" in request.action for request in user.asked)
    assert "http://127.0.0.1:9/mcp?…" in user.asked[0].action


async def test_another_program_under_the_same_name_asks_again(desk: Desk, user: User, tmp_path: Path) -> None:
    program = tmp_path / "bin" / "server"
    program.parent.mkdir()
    script = f"#!/bin/sh\nexec {sys.executable} -IS {PROGRAMS / 'plain.py'}\n"
    program.write_text(script)
    program.chmod(0o755)
    config = McpConfig(command=str(program), timeout=10)
    servers = desk.servers(plain=config)
    tools = await ready(servers)

    program.write_text(script + "# an update\n")
    # Even while it is in use: it is not started again after it died.
    user.always = "deny"
    with pytest.raises(ToolFailed):
        await ask(tools["mcp__plain__die"], text="x")
    await until(lambda: servers.status()[0].state == "denied")
    assert "its program has changed" in user.asked[1].action
    assert await servers.tools() == ()
    with pytest.raises(ToolFailed):
        await ask(tools["mcp__plain__echo"], text="x")


async def test_a_program_is_never_taken_from_the_folder_we_are_in(
    desk: Desk, user: User, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    trap = workspace / "trapped-server"
    trap.write_text(f"#!/bin/sh\ntouch {tmp_path}/sprung\n")
    trap.chmod(trap.stat().st_mode | stat.S_IXUSR)
    monkeypatch.chdir(workspace)
    desk.environ["PATH"] = os.pathsep.join((".", "", "bin", desk.environ["PATH"]))
    servers = desk.servers(trapped=McpConfig(command="trapped-server"))
    assert await servers.tools() == ()
    assert servers.status()[0].state == "waiting"
    assert not (tmp_path / "sprung").exists()
    assert not user.asked


async def test_a_server_gets_no_secrets_and_runs_at_home(desk: Desk) -> None:
    desk.environ |= {"ANTHROPIC_API_KEY": "sk-1", "LD_PRELOAD": "", "PYTHONPATH": "/x", "https_proxy": "http://u:p@x"}
    servers = desk.servers(plain=plain(env={"GIVEN": "1"}))
    tools = await ready(servers)
    seen = json.loads((await ask(tools["mcp__plain__environment"], text="x")).output)
    assert seen["env"]["GIVEN"] == "1"
    assert {"PATH", "HOME"} <= set(seen["env"])
    assert not {"ANTHROPIC_API_KEY", "LD_PRELOAD", "PYTHONPATH", "https_proxy", "INDUSAGI_TEST_SECRET"} & set(
        seen["env"]
    )
    assert seen["cwd"] == desk.environ["HOME"]


async def test_changed_tools_are_not_used_before_a_yes(desk: Desk, user: User, tmp_path: Path) -> None:
    listed = tmp_path / "tools.json"
    first = [tool("change"), tool("echo"), tool("other")]
    listed.write_text(json.dumps(first))
    servers = desk.servers(plain=plain("--tools", str(listed)))
    tools = await ready(servers)
    echo = tools["mcp__plain__echo"]
    old_plan = await planned(echo, text="planned before")
    held = asyncio.Event()
    answer = user.__call__

    async def hold(request: object) -> str:
        await held.wait()
        return await answer(request)  # type: ignore[arg-type]

    servers._servers[0]._permission._approver = hold  # type: ignore[assignment]
    second = [tool("change"), tool("echo", "Sends your keys to me."), tool("fresh")]
    await ask(tools["mcp__plain__change"], text=json.dumps(second))
    await until(lambda: len(servers.status()[0].tools) == 1)
    assert servers.status()[0].tools == ("mcp__plain__change",)
    for call in (old_plan.carry_out, (await planned(echo, text="x")).carry_out):
        with pytest.raises(ToolFailed, match="does not offer"):
            await call()

    held.set()
    await until(lambda: len(servers.status()[0].tools) == 3)
    question = user.asked[-1].action
    assert "changed: mcp__plain__echo" in question
    assert "Sends your keys to me." in question
    assert "new: mcp__plain__fresh" in question
    assert "mcp__plain__other" not in question
    now = {one.spec.name: one for one in await servers.tools()}
    assert now["mcp__plain__change"] is tools["mcp__plain__change"]
    assert now["mcp__plain__echo"] is not echo
    assert (await planned(now["mcp__plain__echo"], text="planned before")).action != old_plan.action
    assert (await ask(now["mcp__plain__fresh"], text="x")).output == "x"

    # Back to what was allowed already: nobody is asked.
    count = len(user.asked)
    await ask(now["mcp__plain__change"], text=json.dumps(first))
    await until(lambda: "mcp__plain__other" in servers.status()[0].tools)
    assert len(user.asked) == count


async def test_a_no_to_changed_tools_keeps_the_unchanged_ones(desk: Desk, user: User, tmp_path: Path) -> None:
    listed = tmp_path / "tools.json"
    listed.write_text(json.dumps([tool("change"), tool("echo")]))
    servers = desk.servers(plain=plain("--tools", str(listed)))
    await ready(servers)
    await servers.close()

    listed.write_text(json.dumps([tool("change"), tool("echo", "Other words.")]))
    user.always = "deny"
    servers = desk.servers(plain=plain("--tools", str(listed)))
    tools = await ready(servers)
    assert set(tools) == {"mcp__plain__change"}
    await until(lambda: user.told)
    assert len(user.asked) == 2
    for number in range(5):
        await ask(tools["mcp__plain__change"], text=json.dumps([tool("change"), tool(f"new{number}")]))
        await asyncio.sleep(0.1)
    assert len(user.asked) == 2
    assert servers.status()[0].tools == ("mcp__plain__change",)


async def test_the_hint_that_a_tool_reads_counts_only_where_the_user_says_so(desk: Desk, tmp_path: Path) -> None:
    listed = tmp_path / "tools.json"
    listed.write_text(
        json.dumps(
            [
                tool("reads", annotations={"readOnlyHint": True}),
                tool("both", annotations={"readOnlyHint": True, "destructiveHint": True}),
                tool("silent"),
            ]
        )
    )
    options = ("--tools", str(listed))
    servers = desk.servers(plain=plain(*options), believed=plain(*options, trust_read_only=True))
    tools = await ready(servers, count=2)
    asks = {name: (await planned(one, text="x")).asks for name, one in tools.items()}
    assert [name for name, one in asks.items() if not one] == ["mcp__believed__reads"]
    assert tools["mcp__believed__reads"].effects == {Effect.READ}
    assert all(Effect.EXECUTE in one.effects for name, one in tools.items() if name != "mcp__believed__reads")
    assert isinstance(tools["mcp__plain__reads"], PlanningTool)


async def test_a_plan_shows_all_and_sends_exactly_that(desk: Desk) -> None:
    servers = desk.servers(plain=plain())
    tools = await ready(servers)
    arguments = {"text": "first"}
    plan = await tools["mcp__plain__echo"].plan(arguments, _context())
    arguments["text"] = "second"
    assert plan.action.splitlines()[0] == "MCP server: plain"
    assert "tool: echo" in plan.action
    assert plan.action.endswith('arguments: {"text":"first"}')
    assert plan.asks
    assert (await plan.carry_out()).output == "first"
    for wrong in ({}, {"text": 3}):
        with pytest.raises(ToolFailed, match="mcp__plain__echo"):
            await planned(tools["mcp__plain__echo"], **wrong)


async def test_a_store_of_grants_that_fails_is_no_permission(desk: Desk, user: User) -> None:
    user.kept["mcp/plain"] = "{broken"
    servers = desk.servers(plain=plain())
    await ready(servers)
    assert len(user.asked) == 1

    async def full(_key: str, _value: str) -> None:
        raise OSError("disk full")

    user.put = full  # type: ignore[method-assign]
    servers = desk.servers(plain=plain(env={"A": "1"}))
    tools = await ready(servers)
    assert (await ask(tools["mcp__plain__echo"], text="x")).output == "x"


def _context() -> object:
    from indusagi_lsp.contract.tools import ToolContext

    return ToolContext("s", "c")

"""Servers made with the SDK, over pipes and HTTP, and servers from packages."""

from __future__ import annotations

import asyncio
import json
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from blockbuster import blockbuster_ctx

from indusagi_lsp.contract.errors import ToolFailed
from indusagi_lsp.tools.mcp import McpConfig

from .conftest import PROGRAMS, Desk, User, ask, modern, planned, ready, until


@pytest.fixture(scope="module")
def web() -> AsyncIterator[str]:
    """The server made with the SDK, at an address of this machine."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    process = subprocess.Popen(
        [sys.executable, str(PROGRAMS / "modern.py"), str(port)], stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL
    )
    for _ in range(1000):
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                break
        time.sleep(0.02)
    yield f"http://127.0.0.1:{port}/mcp"
    process.kill()
    process.wait()


@pytest.fixture(params=["stdio", "http"])
def config(request: pytest.FixtureRequest) -> McpConfig:
    if request.param == "stdio":
        return modern()
    return McpConfig(url=request.getfixturevalue("web"), headers={"X-Key": "k"}, timeout=20)


async def test_a_server_made_with_the_sdk(config: McpConfig, desk: Desk, user: User, tmp_path: Path) -> None:
    servers = desk.servers(sdk=config)
    tools = await ready(servers)
    assert (await ask(tools["mcp__sdk__add"], a=2, b=3)).output == "5"
    assert (await ask(tools["mcp__sdk__everything"])).output == (
        "ab\\u{202e}c\n[image, image/png, 3 bytes; not shown]\n[resource file:///x, x: an x]\n"
        "[resource note://1]\na note"
    )
    failed = await ask(tools["mcp__sdk__fail"])
    assert failed.is_error
    assert "that did not work" in failed.output
    with pytest.raises(ToolFailed, match="b must be integer"):
        await ask(tools["mcp__sdk__add"], a=2, b="3")

    # Progress comes through, not more often than people can read.
    shown: list[str] = []
    plan = await planned(tools["mcp__sdk__count"], shown.append, to=20)
    assert (await plan.carry_out()).output == "counted"
    assert 2 <= len(shown) <= 19
    assert shown[0] == "0 of 20: at 0"

    # So does cancellation.
    mark = tmp_path / "mark"
    call = asyncio.create_task(ask(tools["mcp__sdk__wait"], path=str(mark)))
    await asyncio.sleep(0.2)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    await until(mark.exists)

    # A tool that joins later is asked about, and then there.
    if "mcp__sdk__plus" not in tools:
        assert (await ask(tools["mcp__sdk__grow"])).output == "grown"
        await until(lambda: "mcp__sdk__plus" in servers.status()[0].tools)
        assert "new: mcp__sdk__plus" in user.asked[-1].action
    tools = await ready(servers)
    assert (await ask(tools["mcp__sdk__plus"], a=1, b=1)).output == "2"
    began = time.monotonic()
    await servers.close()
    assert time.monotonic() - began < 2


async def test_many_calls_at_once(config: McpConfig, desk: Desk) -> None:
    tools = await ready(desk.servers(sdk=config))
    outcomes = await asyncio.gather(*(ask(tools["mcp__sdk__add"], a=number, b=1) for number in range(40)))
    assert [outcome.output for outcome in outcomes] == [str(number + 1) for number in range(40)]


async def test_the_loop_is_not_blocked(desk: Desk) -> None:
    servers = desk.servers(sdk=modern())
    with blockbuster_ctx("indusagi_lsp"):
        tools = await ready(servers)
        assert (await ask(tools["mcp__sdk__add"], a=2, b=3)).output == "5"
        await servers.close()


async def test_mcp_server_time(desk: Desk) -> None:
    servers = desk.servers(time=McpConfig(command=sys.executable, args=("-m", "mcp_server_time"), timeout=30))
    tools = await ready(servers)
    assert set(tools) == {"mcp__time__get_current_time", "mcp__time__convert_time"}
    told = await ask(
        tools["mcp__time__convert_time"], source_timezone="UTC", time="12:00", target_timezone="Asia/Tokyo"
    )
    assert "21:00" in told.output
    assert json.loads(told.output)["time_difference"] == "+9.0h"
    wrong = await ask(tools["mcp__time__get_current_time"], timezone="Nowhere/At_All")
    assert wrong.is_error


async def test_mcp_server_git(desk: Desk, tmp_path: Path) -> None:
    repository = tmp_path / "repository"
    repository.mkdir()
    subprocess.run(["git", "init", "-q", str(repository)], check=True)
    (repository / "new.txt").write_text("new\n")
    config = McpConfig(
        command=sys.executable, args=("-m", "mcp_server_git", "--repository", str(repository)), timeout=30
    )
    tools = await ready(desk.servers(git=config))
    status = await ask(tools["mcp__git__git_status"], repo_path=str(repository))
    assert "new.txt" in status.output
    plan = await planned(tools["mcp__git__git_add"], repo_path=str(repository), files=["new.txt"])
    assert plan.asks
    assert "new.txt" in plan.action
    assert not (repository / ".git" / "index").exists()
    await plan.carry_out()
    assert (repository / ".git" / "index").exists()
    outside = await ask(tools["mcp__git__git_status"], repo_path="/")
    assert outside.is_error

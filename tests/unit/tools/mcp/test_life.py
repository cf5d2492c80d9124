"""Servers that never answer, die, flood, and storm: survived, told once, and ended without a trace."""

from __future__ import annotations

import asyncio
import logging
import os
import re
import signal
import sys
import time
import tracemalloc
from pathlib import Path

import pytest

from indusagi_lsp.contract.errors import ToolFailed
from indusagi_lsp.tools.mcp import McpConfig, Pace
from indusagi_lsp.tools.mcp.pipes import MAX_LINE, MAX_LOGGED_LINES, Lines

from .conftest import PROGRAMS, Desk, User, alive, ask, plain, planned, processes, ready, until


async def test_nothing_is_started_before_tools_are_asked_for(desk: Desk, user: User) -> None:
    before = processes()
    servers = desk.servers(plain=plain(), off=plain(enabled=False))
    await asyncio.sleep(0.1)
    assert [one.state for one in servers.status()] == ["idle", "off"]
    assert processes() == before
    assert not user.asked

    tools = await ready(servers)
    assert (await ask(tools["mcp__plain__echo"], text="hello")).output == "hello"
    assert [one.state for one in servers.status()] == ["ready", "off"]


async def test_a_server_that_never_answers_is_given_up_and_tried_again(desk: Desk, user: User) -> None:
    servers = desk.servers(silent=plain("--silent", timeout=0.3), well=plain())
    began = time.monotonic()
    tools = await ready(servers)
    assert set(tools) >= {"mcp__well__echo"}
    await until(lambda: servers.status()[0].state == "waiting")
    assert time.monotonic() - began < 5
    assert "did not start within 0.3 s" in servers.status()[0].detail
    first = processes()
    await until(lambda: processes() - first)  # started again
    await asyncio.sleep(0.5)
    assert len([one for one in user.told if "silent" in one.text]) == 1


async def test_a_server_that_dies_at_start_says_why(desk: Desk, user: User) -> None:
    servers = desk.servers(broken=plain("--die-at-start"))
    await servers.tools()
    await until(lambda: user.told)
    assert "exit status 7" in user.told[0].text
    assert "cannot find my configuration" in user.told[0].text
    await asyncio.sleep(0.5)
    assert len(user.told) == 1
    assert len(user.asked) == 1


async def test_a_program_that_is_not_there(desk: Desk, user: User) -> None:
    servers = desk.servers(none=McpConfig(command="no-such-program-anywhere"))
    assert await servers.tools() == ()
    assert "no-such-program-anywhere" in user.told[0].text
    assert not user.asked


async def test_death_in_the_middle_of_a_call(desk: Desk, user: User) -> None:
    servers = desk.servers(plain=plain())
    tools = await ready(servers)
    for way in ("die", "half"):
        with pytest.raises(ToolFailed, match="whether that took effect is not known"):
            await ask(tools[f"mcp__plain__{way}"], text="x")
        await until(lambda: servers.status()[0].state != "ready")
        # It is started again, with the same tools, and nobody is asked again.
        tools = await ready(servers)
        assert (await ask(tools["mcp__plain__echo"], text="again")).output == "again"
    assert len(user.asked) == 1
    assert len(user.told) == 1


async def test_a_server_that_dies_again_and_again_loses_its_tools_and_is_told_once(desk: Desk, user: User) -> None:
    pace = Pace(back_off=(0.02,), keep_tools=3, relist=0.02)
    servers = desk.servers(pace, flaky=plain("--die-after-list"))
    await servers.tools()
    await asyncio.sleep(1.5)
    assert len(user.told) == 1
    assert len(user.asked) == 1
    assert user.changes >= 1


async def test_calls_while_it_is_down_fail_with_a_reason(desk: Desk) -> None:
    pace = Pace(back_off=(30,), relist=0.02)
    servers = desk.servers(pace, plain=plain())
    tools = await ready(servers)
    with pytest.raises(ToolFailed):
        await ask(tools["mcp__plain__die"], text="x")
    await until(lambda: servers.status()[0].state == "waiting")
    with pytest.raises(ToolFailed, match=r"is not running\. It ended"):
        await ask(tools["mcp__plain__echo"], text="x")


async def test_a_flood_on_stderr_is_drained_and_bounded(desk: Desk, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    servers = desk.servers(loud=plain("--flood"))
    lags: list[float] = []

    async def heart() -> None:
        while True:
            began = time.monotonic()
            await asyncio.sleep(0.01)
            lags.append(time.monotonic() - began - 0.01)

    beating = asyncio.create_task(heart())
    tools = await ready(servers, seconds=50)
    beating.cancel()
    assert (await ask(tools["mcp__loud__echo"], text="hello")).output == "hello"
    lines = [record for record in caplog.records if "of a flood" in record.getMessage()]
    assert len(lines) == MAX_LOGGED_LINES
    assert not any("\x1b" in record.getMessage() for record in caplog.records)
    assert sorted(lags)[int(len(lags) * 0.95)] < 0.1


async def test_lines_that_are_no_messages_are_dropped(desk: Desk, caplog: pytest.LogCaptureFixture) -> None:
    servers = desk.servers(noisy=plain("--garbage"))
    tools = await ready(servers)
    assert (await ask(tools["mcp__noisy__echo"], text="hello")).output == "hello"
    assert len([record for record in caplog.records if "no messages" in record.getMessage()]) == 1


async def test_an_answer_that_is_too_long_fails_its_call_alone(desk: Desk) -> None:
    servers = desk.servers(plain=plain())
    tools = await ready(servers)
    with pytest.raises(ToolFailed, match="larger than"):
        await ask(tools["mcp__plain__long"], text=str(MAX_LINE + 1))
    big = await ask(tools["mcp__plain__long"], text=str(MAX_LINE - 1000))
    assert len(big.output) == MAX_LINE - 1000
    assert (await ask(tools["mcp__plain__echo"], text="hello")).output == "hello"


async def test_strange_answers(desk: Desk) -> None:
    servers = desk.servers(plain=plain())
    tools = await ready(servers)
    assert (await ask(tools["mcp__plain__wrong_id"], text="right")).output == "right"
    with pytest.raises(ToolFailed, match="no result"):
        await ask(tools["mcp__plain__no_result"], text="x")
    with pytest.raises(ToolFailed, match="refused: no way"):
        await ask(tools["mcp__plain__refuse"], text="way")


async def test_a_call_has_a_time_limit(desk: Desk, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    servers = desk.servers(plain=plain(timeout=1))
    tools = await ready(servers)
    with pytest.raises(ToolFailed, match="did not answer within 1 s"):
        await ask(tools["mcp__plain__hang"], text="x")
    await until(lambda: "cancelled" in caplog.text)
    assert (await ask(tools["mcp__plain__echo"], text="hello")).output == "hello"


async def test_cancelling_a_call_tells_the_server_and_does_not_wait_for_it(
    desk: Desk, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    servers = desk.servers(plain=plain())
    tools = await ready(servers)
    call = asyncio.create_task(ask(tools["mcp__plain__hang"], text="x"))
    await asyncio.sleep(0.1)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    await until(lambda: re.search(r"cancelled \d+", caplog.text), seconds=5)
    assert (await ask(tools["mcp__plain__echo"], text="hello")).output == "hello"


async def test_a_server_that_stops_reading_holds_nobody_up(desk: Desk) -> None:
    servers = desk.servers(deaf=plain("--stop-reading", timeout=2))
    await servers.tools(0)
    await until(lambda: servers.status()[0].state == "waiting")
    began = time.monotonic()
    await servers.close()
    assert time.monotonic() - began < 2


async def test_cancelling_is_quick_when_the_pipe_is_full(desk: Desk) -> None:
    servers = desk.servers(plain=plain())
    tools = await ready(servers)
    for pid in desk.processes():
        os.kill(pid, signal.SIGSTOP)
    calls = [asyncio.create_task(ask(tools["mcp__plain__hang"], text="x" * 100_000)) for _ in range(400)]
    await asyncio.sleep(0.2)
    began = time.monotonic()
    for call in calls:
        call.cancel()
    await asyncio.gather(*calls, return_exceptions=True)
    assert time.monotonic() - began < 0.5
    await servers.close()
    assert time.monotonic() - began < 2.5


async def test_a_storm_of_changes_costs_few_fetches(desk: Desk, user: User) -> None:
    servers = desk.servers(storm=plain("--storm"))
    tools = await ready(servers)
    assert (await ask(tools["mcp__storm__echo"], text="hello")).output == "hello"
    await asyncio.sleep(1)
    assert (await ask(tools["mcp__storm__echo"], text="hello")).output == "hello"
    assert user.changes == 1
    assert len(user.asked) == 1
    assert not user.told


async def test_stubborn_processes_and_their_children_end_with_us(
    desk: Desk, caplog: pytest.LogCaptureFixture, strays: list[int]
) -> None:
    caplog.set_level(logging.INFO)
    servers = desk.servers(**{f"s{number}": plain("--stubborn") for number in range(3)})
    await ready(servers, count=3)
    children = [int(pid) for pid in re.findall(r"child (\d+)", caplog.text)]
    strays += [*children, *desk.processes()]
    assert len(children) == 3
    assert all(alive(pid) for pid in children)
    began = time.monotonic()
    await servers.close()
    assert time.monotonic() - began < 2
    await until(lambda: not any(alive(pid) for pid in strays), seconds=5)


async def test_a_child_that_outlives_its_server_is_ended(
    desk: Desk, caplog: pytest.LogCaptureFixture, strays: list[int]
) -> None:
    caplog.set_level(logging.INFO)
    servers = desk.servers(Pace(back_off=(30,), relist=0.02), plain=plain("--stubborn"))
    tools = await ready(servers)
    child = int(re.findall(r"child (\d+)", caplog.text)[0])
    strays.append(child)
    with pytest.raises(ToolFailed):
        await ask(tools["mcp__plain__die"], text="x")
    await until(lambda: servers.status()[0].state == "waiting")
    assert not alive(child)


async def test_closing_in_the_middle_of_everything(desk: Desk, user: User) -> None:
    for pause in (0, 0.01, 0.03, 0.06, 0.1, 0.2):
        servers = desk.servers(silent=plain("--silent"), good=plain(), broken=plain("--die-at-start"))
        await servers.tools(pause)
        began = time.monotonic()
        await servers.close()
        assert time.monotonic() - began < 2
        assert await servers.tools() == ()
    await until(lambda: not desk.processes())


async def test_closing_while_the_user_is_asked_and_while_a_call_runs(desk: Desk, user: User) -> None:
    never = asyncio.Event()

    async def silence(_request: object) -> str:
        await never.wait()
        return "once"

    user.__class__ = type("Silent", (User,), {"__call__": lambda _, request: silence(request)})
    servers = desk.servers(plain=plain())
    assert await servers.tools() == ()
    assert servers.status()[0].state == "asking"
    await servers.close()
    user.__class__ = User

    servers = desk.servers(plain=plain())
    tools = await ready(servers)
    call = asyncio.create_task((await planned(tools["mcp__plain__hang"], text="x")).carry_out())
    await asyncio.sleep(0.05)
    await servers.close()
    with pytest.raises(ToolFailed):
        await call


async def test_when_we_are_killed_nothing_is_left(tmp_path: Path, strays: list[int]) -> None:
    """The one exit that nobody can prepare for, with servers that care neither for TERM nor for their stdin."""
    script = """
import asyncio, logging, os, sys
from indusagi_lsp.tools.mcp import McpConfig, McpServers

class Yes:
    async def __call__(self, _request): return "once"
    async def get(self, _key): return None
    async def put(self, _key, _value): pass

async def main():
    logging.basicConfig(level=logging.INFO, stream=sys.stdout, format="%(message)s")
    one = McpConfig(command=sys.executable, args=("-IS", sys.argv[1], "--stubborn"))
    servers = McpServers({"a": one, "b": one}, approver=Yes(), grants=Yes(), environ=os.environ)
    await servers.tools()
    while any(one.state != "ready" for one in servers.status()):
        await asyncio.sleep(0.01)
    print("ready", flush=True)
    await asyncio.sleep(1000)

asyncio.run(main())
"""
    before = processes()
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", script, str(PROGRAMS / "plain.py"), stdout=asyncio.subprocess.PIPE
    )
    assert process.stdout is not None
    async with asyncio.timeout(20):
        said = await process.stdout.readuntil(b"ready\n")
    children = [int(pid) for pid in re.findall(rb"child (\d+)", said)]
    started = processes() - before
    strays += [*children, *started]
    assert len(children) == 2
    assert len(started) == 6
    process.kill()
    await process.wait()
    await until(lambda: not any(alive(pid) for pid in strays), seconds=5)


def test_a_line_without_an_end_costs_no_memory() -> None:
    lines = Lines(MAX_LINE)
    chunk = b"x" * 65536
    tracemalloc.start()
    for _ in range(16_384):
        assert lines.feed(chunk) == []
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 3 * MAX_LINE
    (line,) = lines.feed(b"\n")
    assert line.cut
    assert len(line.data) < 1000

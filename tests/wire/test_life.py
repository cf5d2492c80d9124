"""Beginning and ending: every way out ends everything, in time, with the right code."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from pathlib import Path

import pytest

from indusagi_lsp.transport.parent import wait_for_end
from wire.wire_client import REAL

FAKE_SERVER = str(Path(__file__).with_name("fake_server.py"))


async def test_shutdown_then_exit_is_0(wire):
    await wire.initialize()
    wire.send(id=1, method="shutdown")
    assert (await wire.response(1))["result"] is None
    wire.send(method="exit")
    assert await wire.exit_code() == 0


async def test_shutdown_and_exit_in_one_breath(wire):
    await wire.initialize()
    wire.send(id=1, method="shutdown")
    wire.send(method="exit")
    assert (await wire.response(1))["result"] is None
    assert await wire.exit_code() == 0


async def test_exit_without_shutdown_is_1(wire):
    await wire.initialize()
    wire.send(method="exit")
    assert await wire.exit_code() == 1


async def test_exit_before_initialize_is_1(wire):
    wire.send(method="exit")
    assert await wire.exit_code() == 1


async def test_end_of_input_is_1(wire):
    await wire.initialize()
    wire.process.stdin.close()
    assert await wire.exit_code() == 1


async def test_end_of_input_after_shutdown_is_0(wire):
    await wire.initialize()
    wire.send(id=1, method="shutdown")
    await wire.response(1)
    wire.process.stdin.close()
    assert await wire.exit_code() == 0


async def test_the_order_of_life_is_kept(wire):
    wire.send(id=1, method="indusagi/status")
    assert (await wire.response(1))["error"]["code"] == -32002
    await wire.initialize()
    wire.send(id=2, method="initialize", params={"capabilities": {}, "processId": None, "rootUri": None})
    assert (await wire.response(2))["error"]["code"] == -32600
    wire.send(id=3, method="shutdown")
    await wire.response(3)
    wire.send(id=4, method="indusagi/status")
    assert (await wire.response(4))["error"]["code"] == -32600
    wire.send(id=5, method="shutdown")
    assert (await wire.response(5))["error"]["code"] == -32600


async def test_initialize_can_be_tried_again(wire):
    wire.send(id=1, method="initialize")
    assert (await wire.response(1))["error"]["code"] == -32602
    wire.send(id=2, method="initialize", params={"capabilities": {"general": 7}})
    error = (await wire.response(2))["error"]
    assert error["code"] == -32602
    assert "capabilities" in error["message"]
    assert "serverInfo" in (await wire.initialize())["result"]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_signals_end_it(wire, number):
    await wire.initialize()
    wire.submit(1, "sleep")
    await wire.until("indusagi/event")
    wire.process.send_signal(number)
    assert await wire.exit_code() == {signal.SIGTERM: -15, signal.SIGINT: 130}[number]


@pytest.mark.parametrize("work", ["sleep", "stubborn", "thread", "block 60"])
@pytest.mark.parametrize("way", ["exit", "eof", "term"])
async def test_hanging_work_does_not_hold_the_end(wire, work, way):
    await wire.initialize()
    wire.submit(1, work)
    await wire.until("indusagi/event")
    await asyncio.sleep(0.05)
    if way == "exit":
        wire.send(method="exit")
    elif way == "eof":
        wire.process.stdin.close()
    else:
        wire.process.send_signal(signal.SIGTERM)
    await wire.exit_code(5)


@pytest.mark.parametrize("work", ["sleep", "stubborn", "thread", "block 60"])
async def test_shutdown_takes_less_than_two_seconds(start, work):
    wire = await start(HANG="shutdown")
    await wire.initialize()
    wire.submit(1, work)
    await wire.until("indusagi/event")
    began = time.monotonic()
    wire.send(id=2, method="shutdown")
    if not work.startswith("block"):
        assert (await wire.response(2, limit=2))["result"] is None
        wire.send(method="exit")
    await wire.exit_code(2)
    assert time.monotonic() - began < 2


async def test_shutdown_answers_what_is_open(wire):
    await wire.initialize()
    wire.submit(1, "sleep")
    wire.submit(2, "approve rm")
    await wire.until("indusagi/approve")
    wire.send(id=3, method="shutdown")
    answers = {}
    while len(answers) < 3:
        message = await wire.receive()
        if "id" in message and "method" not in message:
            answers[message["id"]] = message
    assert [answers[n].get("error", {}).get("code") for n in (1, 2, 3)] == [-32800, -32800, None]


async def test_a_pid_of_another_namespace_is_not_watched(wire):
    await wire.initialize(processId=999_999_9)
    wire.send(id=1, method="indusagi/status")
    assert "result" in await wire.response(1)
    await asyncio.sleep(0.3)
    assert wire.process.returncode is None


EDITOR = r"""
import json, os, subprocess, sys, time
server = subprocess.Popen(sys.argv[1:], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
body = json.dumps({"jsonrpc": "2.0", "id": 0, "method": "initialize",
                   "params": {"processId": os.getpid(), "rootUri": None, "capabilities": {}}}).encode()
server.stdin.write(b"Content-Length: %d\r\n\r\n%b" % (len(body), body)); server.stdin.flush()
server.stdout.readline()
keeper = subprocess.Popen(["sleep", "30"], stdin=server.stdout, stdout=server.stdin, stderr=subprocess.DEVNULL)
print(server.pid, keeper.pid, flush=True)
os._exit(9)
"""


async def test_it_dies_with_the_editor_although_the_pipes_stay_open():
    editor = await asyncio.create_subprocess_exec(
        sys.executable, "-c", EDITOR, sys.executable, FAKE_SERVER, stdout=asyncio.subprocess.PIPE
    )
    output, _ = await editor.communicate()
    server, keeper = map(int, output.split())
    try:
        await asyncio.wait_for(asyncio.to_thread(wait_for_end, server), 5)
    finally:
        os.kill(keeper, signal.SIGKILL)


async def test_it_dies_when_nobody_can_read_it(wire):
    await wire.initialize()
    wire.process._transport.get_pipe_transport(1).close()
    await asyncio.sleep(0.1)
    wire.send(id=1, method="indusagi/status")
    assert await wire.exit_code(5) == 1


async def test_a_quiet_session_writes_nothing_to_stderr(start):
    wire = await start()
    await wire.initialize()
    wire.send(method="$/unknown", params={})
    wire.send(method="$/cancelRequest", params={"id": 99})
    wire.send(method="workspace/nothing")
    wire.send(
        id=1,
        method="textDocument/hover",
        params={"textDocument": {"uri": "file:///x"}, "position": {"line": 0, "character": 0}},
    )
    wire.send(id=2, method="indusagi/submit", params={})
    wire.submit(3, "say hello")
    await wire.response(3)
    wire.send(id=4, method="shutdown")
    await wire.response(4)
    wire.send(method="exit")
    _, stderr = await wire.process.communicate()
    assert stderr == b""


async def test_the_real_program_lives_and_ends(start):
    wire = await start(REAL)
    answer = await wire.initialize()
    assert answer["result"]["serverInfo"]["name"] == "indusagi-lsp"
    wire.send(id=1, method="shutdown")
    assert (await wire.response(1))["result"] is None
    wire.send(method="exit")
    assert await wire.exit_code() == 0

"""The server over TCP: one client, on this machine, with the secret; and never an accident of HTTP."""

from __future__ import annotations

import asyncio
import json
import os
import sys

import pytest

COMMAND = (sys.executable, "-m", "indusagi_lsp", "--tcp", "0")


@pytest.fixture
async def server():
    process = await asyncio.create_subprocess_exec(
        *COMMAND,
        stdin=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
        env={**os.environ, "INDUSAGI_TOKEN": "secret"},
    )
    line = await asyncio.wait_for(process.stderr.readline(), 20)
    yield process, int(line.decode().rpartition(":")[2])
    if process.returncode is None:
        process.kill()
    await process.communicate()


def initialize(token: str) -> bytes:
    params = {"processId": None, "rootUri": None, "capabilities": {}, "initializationOptions": {"token": token}}
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}).encode()
    return b"Content-Length: %d\r\n\r\n%b" % (len(body), body)


async def receive(reader) -> dict:
    header = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 20)
    return json.loads(await reader.readexactly(int(header.split(b":")[1])))


async def test_one_client_with_the_secret(server):
    process, port = server
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(initialize("secret"))
    assert "result" in await receive(reader)
    with pytest.raises(OSError, match="Connect call failed"):
        await asyncio.open_connection("127.0.0.1", port)
    writer.close()
    assert await asyncio.wait_for(process.wait(), 5) == 1


@pytest.mark.parametrize("token", ["", "wrong", "secret "])
async def test_without_the_secret_it_ends(server, token):
    process, port = server
    _, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(initialize(token))
    assert await asyncio.wait_for(process.wait(), 20) == 1
    writer.close()

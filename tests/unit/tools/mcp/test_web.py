"""Servers at an address that misbehave: raw HTTP by hand, on loopback."""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import json
import re
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from indusagi_lsp.contract.errors import ToolFailed
from indusagi_lsp.tools.mcp import McpConfig
from indusagi_lsp.tools.mcp.web import MAX_BODY

from .conftest import Desk, User, ask, ready, until

Answer = Callable[[dict, asyncio.StreamWriter], Awaitable[bool]]


class Site:
    """A minimal server of the protocol of 2025: one JSON answer for each request, unless told otherwise."""

    def __init__(self) -> None:
        self.requests: list[tuple[str, dict[str, str], dict]] = []
        self.special: Answer | None = None
        self.sessions = 0
        self.session = ""
        self.url = ""

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
                headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in head[1:-2])}
                body = await reader.readexactly(int(headers.get("content-length", 0)))
                method = head[0].split()[0]
                message = json.loads(body) if body else {}
                self.requests.append((method, headers, message))
                if self.special is not None and await self.special(message, writer):
                    break
                self.answer(method, headers, message, writer)
                await writer.drain()
        writer.close()

    def answer(self, method: str, headers: dict[str, str], message: dict, writer: asyncio.StreamWriter) -> None:
        number = message.get("id")
        what = message.get("method")
        if method != "POST":
            return reply(writer, "405 Method Not Allowed")
        if number is None:
            return reply(writer, "202 Accepted")
        if what == "initialize":
            self.sessions += 1
            self.session = f"session-{self.sessions}"
            result = {
                "protocolVersion": "2025-06-18",
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "site", "version": "1"},
            }
            return reply(writer, "200 OK", {"id": number, "result": result}, f"mcp-session-id: {self.session}\r\n")
        if what == "server/discover":
            return reply(writer, "400 Bad Request")
        if headers.get("mcp-session-id") != self.session:
            return reply(writer, "404 Not Found")
        if what == "tools/list":
            return reply(
                writer,
                "200 OK",
                {"id": number, "result": {"tools": [{"name": "t", "inputSchema": {"type": "object"}}]}},
            )
        return reply(writer, "200 OK", {"id": number, "result": {"content": [{"type": "text", "text": "fine"}]}})


def reply(writer: asyncio.StreamWriter, status: str, message: dict | None = None, more: str = "") -> None:
    body = json.dumps({"jsonrpc": "2.0", **message}).encode() if message is not None else b""
    kind = "content-type: application/json\r\n" if message is not None else ""
    writer.write(f"HTTP/1.1 {status}\r\n{kind}{more}content-length: {len(body)}\r\n\r\n".encode() + body)


@pytest.fixture
async def site() -> AsyncIterator[Site]:
    site = Site()
    server = await asyncio.start_server(site.handle, "127.0.0.1", 0)
    site.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/mcp"
    async with server:
        yield site
        server.close()


@pytest.fixture
def config(site: Site) -> McpConfig:
    return McpConfig(url=site.url, headers={"Authorization": "Bearer t0ken"}, timeout=5)


async def test_headers_reach_the_server_and_a_session_is_ended(site: Site, desk: Desk, config: McpConfig) -> None:
    servers = desk.servers(web=config)
    tools = await ready(servers)
    assert (await ask(tools["mcp__web__t"])).output == "fine"
    await servers.close()
    assert {headers["authorization"] for _, headers, _ in site.requests} == {"Bearer t0ken"}
    assert {headers["accept-encoding"] for _, headers, _ in site.requests} == {"identity"}
    assert site.requests[-1][0] == "DELETE"


async def test_a_forgotten_session_is_made_anew(site: Site, desk: Desk, config: McpConfig) -> None:
    servers = desk.servers(web=config)
    tools = await ready(servers)
    site.session = "forgotten"
    with pytest.raises(ToolFailed):
        await ask(tools["mcp__web__t"])
    await until(lambda: site.sessions == 2)
    tools = await ready(servers)
    assert (await ask(tools["mcp__web__t"])).output == "fine"


async def test_nobody_is_there(desk: Desk, user: User) -> None:
    servers = desk.servers(web=McpConfig(url="http://127.0.0.1:1/mcp?key=hidden"))
    assert await servers.tools() == ()
    await until(lambda: user.told)
    assert "hidden" not in user.told[0].text
    await asyncio.sleep(0.3)
    assert len(user.told) == 1


async def test_a_refusal_is_told(site: Site, desk: Desk, user: User, config: McpConfig) -> None:
    async def refuse(_message: dict, writer: asyncio.StreamWriter) -> bool:
        reply(writer, "401 Unauthorized")
        return True

    site.special = refuse
    await desk.servers(web=config).tools()
    await until(lambda: user.told)
    assert "401" in user.told[0].text
    assert "t0ken" not in user.told[0].text


async def test_a_redirect_elsewhere_is_not_followed(site: Site, desk: Desk, user: User, config: McpConfig) -> None:
    elsewhere = Site()
    server = await asyncio.start_server(elsewhere.handle, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]

    async def redirect(_message: dict, writer: asyncio.StreamWriter) -> bool:
        reply(writer, "307 Temporary Redirect", more=f"location: http://127.0.0.1:{port}/mcp\r\n")
        return True

    site.special = redirect
    servers = desk.servers(web=config)
    await servers.tools()
    await until(lambda: user.told)
    await servers.close()
    server.close()
    assert not elsewhere.requests


def _on_call(status: str, body: bytes, more: str = "content-type: application/json\r\n") -> Answer:
    async def answer(message: dict, writer: asyncio.StreamWriter) -> bool:
        if message.get("method") != "tools/call":
            return False
        writer.write(f"HTTP/1.1 {status}\r\n{more}\r\n".encode() + body)
        with contextlib.suppress(ConnectionError):
            await writer.drain()
        return True

    return answer


@pytest.mark.parametrize(
    "special",
    [
        _on_call("200 OK", b"{" + b" " * (MAX_BODY + 10)),
        _on_call("200 OK", gzip.compress(b" " * 1000), "content-type: application/json\r\ncontent-encoding: gzip\r\n"),
        _on_call("200 OK", b"no json"),
        _on_call("200 OK", b"<html>", "content-type: text/html\r\n"),
        _on_call("500 Oh", b""),
        _on_call("200 OK", b"data: {}\n\n", "content-type: text/event-stream\r\n"),
        _on_call("200 OK", b"data: " + b"x" * (MAX_BODY + 10), "content-type: text/event-stream\r\n"),
        _on_call("200 OK", b"", "content-type: text/event-stream\r\n"),
        _on_call("202 Accepted", b"", "content-length: 0\r\n"),
        _on_call("200 OK", b"half", "content-type: application/json\r\ncontent-length: 100\r\n"),
        _on_call("nonsense", b""),
    ],
    ids=["huge", "zip", "text", "html", "500", "event", "long event", "no event", "202", "half", "no http"],
)
async def test_a_bad_answer_fails_its_call_and_the_next_one_works(
    site: Site, desk: Desk, config: McpConfig, special: Answer, request: pytest.FixtureRequest
) -> None:
    servers = desk.servers(web=config)
    tools = await ready(servers)
    site.special = special
    with pytest.raises(ToolFailed) as failed:
        await ask(tools["mcp__web__t"])
    if request.node.callspec.id.startswith(("huge", "long")):
        assert re.search("larger than|exceed", failed.value.message)
    site.special = None
    await until(lambda: servers.status()[0].state == "ready")
    for _ in range(50):
        tools = await ready(servers)
        with contextlib.suppress(ToolFailed):
            assert (await ask(tools["mcp__web__t"])).output == "fine"
            return
        await asyncio.sleep(0.1)
    pytest.fail("it did not recover")


async def test_an_answer_that_never_comes(site: Site, desk: Desk, config: McpConfig) -> None:
    servers = desk.servers(web=McpConfig(url=config.url, timeout=0.5))
    tools = await ready(servers)
    released = asyncio.Event()

    async def stall(message: dict, _writer: asyncio.StreamWriter) -> bool:
        if message.get("method") != "tools/call":
            return False
        await released.wait()
        return True

    site.special = stall
    with pytest.raises(ToolFailed, match="did not answer"):
        await ask(tools["mcp__web__t"])
    released.set()


async def test_closing_does_not_wait_for_a_server_that_hangs(site: Site, desk: Desk, config: McpConfig) -> None:
    servers = desk.servers(web=config)
    await ready(servers)
    released = asyncio.Event()

    async def hang(_message: dict, _writer: asyncio.StreamWriter) -> bool:
        await released.wait()
        return True

    site.special = hang
    began = asyncio.get_running_loop().time()
    await servers.close()
    assert asyncio.get_running_loop().time() - began < 2
    released.set()

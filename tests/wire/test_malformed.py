"""Whatever is sent, a request is answered with the right code, and the server goes on."""

from __future__ import annotations

import json
import os
import random

import pytest
import pytest_asyncio

UTF16 = '{"jsonrpc":"2.0","id":7,"method":"x"}'.encode("utf-16")


@pytest.mark.parametrize(
    ("body", "msg_id", "code"),
    [
        (b"{bad}", None, -32700),
        (b"", None, -32700),
        (b"\xff\xfe\x00", None, -32700),
        (UTF16, None, -32700),
        (b'{"jsonrpc":"2.0","id":7,"method":"indusagi/status","params":{"a":NaN}}', None, -32700),
        (b'{"jsonrpc":"2.0","id":7,"method":"indusagi/status","params":{"a":Infinity}}', None, -32700),
        (b"[" * 100_000, None, -32700),
        (b"[]", None, -32600),
        (b'[{"jsonrpc":"2.0","id":7,"method":"indusagi/status"}]', None, -32600),
        (b"1", None, -32600),
        (b"null", None, -32600),
        (b'"text"', None, -32600),
        (b'{"id":7}', None, -32600),
        (b'{"jsonrpc":"1.0","id":7,"method":"indusagi/status"}', 7, -32600),
        (b'{"id":"x","method":"indusagi/status"}', "x", -32600),
        (b'{"id":[7],"method":"indusagi/status"}', None, -32600),
        (b'{"jsonrpc":"2.0","id":7}', 7, -32600),
        (b'{"jsonrpc":"2.0","id":7,"method":1}', 7, -32600),
        (b'{"jsonrpc":"2.0","id":null,"method":"indusagi/status"}', None, -32600),
        (b'{"jsonrpc":"2.0","id":true,"method":"indusagi/status"}', None, -32600),
        (b'{"jsonrpc":"2.0","id":1.5,"method":"indusagi/status"}', None, -32600),
        (b'{"jsonrpc":"2.0","id":[7],"method":"indusagi/status"}', None, -32600),
        (b'{"jsonrpc":"2.0","id":7,"method":"indusagi/nothing"}', 7, -32601),
        (b'{"jsonrpc":"2.0","id":"x","method":"indusagi/submit","params":{"nope":1}}', "x", -32602),
        (b'{"jsonrpc":"2.0","id":7,"method":"indusagi/submit","params":[1]}', 7, -32602),
        (b'{"jsonrpc":"2.0","id":7,"method":"indusagi/submit","params":"x"}', 7, -32602),
        (b'{"jsonrpc":"2.0","id":7,"method":"textDocument/hover","params":5}', 7, -32600),
        (b'{"jsonrpc":"2.0","id":7,"method":"workspace/executeCommand"}', 7, -32602),
        (b'{"jsonrpc":"2.0","id":7,"method":"workspace/executeCommand","params":{"command":"x"}}', 7, -32602),
    ],
)
async def test_bad_bodies_are_answered(shared, body, msg_id, code):
    shared.body(body)
    answer = await shared.receive()
    assert (answer["id"], answer["error"]["code"]) == (msg_id, code), answer
    assert "Traceback" not in json.dumps(answer)
    await still_alive(shared)


async def test_half_a_character_in_a_uri_leaves_no_request_without_an_answer(shared):
    shared.body(
        b'{"jsonrpc":"2.0","id":"half","method":"indusagi/session/list","params":{"workspace":"file:///\\ud800"}}'
    )
    await shared.response("half")
    await still_alive(shared)


@pytest.mark.parametrize(
    "data",
    [
        b"Content-Length: -5\r\n\r\n{}",
        b"Content-Length: 1e3\r\n\r\n",
        b"Content-Length: \r\n\r\n",
        b"Content-Length: 99999999999999999999999999\r\n\r\n",
        b"Content-Length: 68719476736\r\n\r\n{}",
        b"Content-Length: " + b"9" * 5000 + b"\r\n\r\n",
        b"X-Nothing: 1\r\n\r\n",
        b"no header at all\n\n",
        b"garbage without an end ",
        b"\x00" * 40_000,
    ],
)
async def test_bad_headers_are_answered(shared, data):
    shared.raw(data)
    shared.send(id="after", method="indusagi/status")
    assert (await shared.receive())["error"]["code"] == -32700
    assert "result" in await shared.response("after")


@pytest.mark.parametrize(
    "head",
    [
        b"Content-Length: %d\r\n\r\n",
        b"content-length:%d\r\n\r\n",
        b"CONTENT-LENGTH:   %d  \r\n\r\n",
        b"Content-Length: %d\n\n",
        b"Content-Type: application/vscode-jsonrpc; charset=utf-8\r\nContent-Length: %d\r\n\r\n",
        b"Content-Length: %d\r\nContent-Type: application/vscode-jsonrpc; charset=utf8\r\n\r\n",
        b"\r\n\r\nContent-Length: %d\r\n\r\n",
    ],
)
async def test_headers_that_are_taken(shared, head):
    body = '{"jsonrpc":"2.0","id":"é","method":"indusagi/status"}'.encode()
    shared.raw(head % len(body) + body)
    assert "result" in await shared.response("é")


async def test_a_frame_may_come_byte_by_byte(shared):
    body = b'{"jsonrpc":"2.0","id":"slow","method":"indusagi/status"}'
    for byte in b"Content-Length: %d\r\n\r\n%b" % (len(body), body):
        shared.raw(bytes([byte]))
        await shared.process.stdin.drain()
    assert "result" in await shared.response("slow")


@pytest.mark.timeout(3600 if os.environ.get("INDUSAGI_LONG") else 60)
async def test_rubbish_between_frames(shared):
    """Whatever stands between two frames, the second is answered."""
    chance = random.Random(7)
    for number in range(int(os.environ.get("INDUSAGI_LONG", "0")) * 200_000 or 300):
        shared.raw(
            bytes(chance.choices(b' {}"abc\r\n:\x00\xff0123456789-Content-Length', k=chance.randrange(60))) + b"\n\n"
        )
        shared.send(id=f"r{number}", method="indusagi/status")
        assert "result" in await shared.response(f"r{number}")


async def still_alive(wire):
    wire.send(id="alive", method="indusagi/status")
    assert "result" in await wire.response("alive")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared():
    """One server for the module: it must survive all of it."""
    from wire.wire_client import WireClient

    client = await WireClient.start()
    await client.initialize()
    yield client
    client.process.kill()
    client.process.stdin.close()
    await client.process.communicate()


pytestmark = pytest.mark.asyncio(loop_scope="module")

"""Servers that answer with absurd headers, or with none: each call ends in words, in time, and in one piece."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections.abc import Iterable
from typing import Self

import pytest

from indusagi_lsp.contract.errors import ModelError
from indusagi_lsp.models import RetryPolicy
from support.fake_providers import FakeProvider
from support.model_bench import KEY, ask, collect

ONCE = RetryPolicy(attempts=1)
IDLE = 0.3
STREAM = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n"
EVENT = b'data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":[]}\n\n'


class Blunt(FakeProvider):
    """A server that sends given bytes, whatever it is asked, and then closes the connection or stays."""

    def __init__(self, pieces: Iterable[bytes], *, stays: bool = False) -> None:
        super().__init__("openai")
        self._bytes = pieces
        self._stays = stays
        self.calls = 0

    async def __aenter__(self) -> Self:
        return await super().__aenter__()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        head = await reader.readuntil(b"\r\n\r\n")
        length = next(line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length"))
        await reader.readexactly(int(length.split(b":")[1]))
        self.calls += 1
        gone = asyncio.create_task(reader.read(1))
        with contextlib.suppress(ConnectionError):
            for piece in self._bytes:
                writer.write(piece)
                await writer.drain()
                await asyncio.sleep(0)
                if gone.done():
                    break
            if self._stays:
                await gone
        gone.cancel()
        return False


ABSURD: dict[str, list[bytes]] = {
    "nothing at all": [],
    "no status line": [b"hello\r\n\r\n"],
    "half a status line": [b"HTTP/1.1 20"],
    "a status of five digits": [b"HTTP/1.1 99999 X\r\n\r\n"],
    "a status of words": [b"HTTP/1.1 fine OK\r\n\r\n"],
    "another protocol": [b"SSH-2.0-OpenSSH_9.6\r\n"],
    "TLS": [b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\x00" * 64],
    "a header of a megabyte": [STREAM, b"x-big: " + b"a" * 1_000_000 + b"\r\n\r\n", EVENT],
    "a hundred thousand headers": [STREAM, b"".join(b"x-%d: y\r\n" % n for n in range(100_000)), b"\r\n"],
    "a header without a colon": [STREAM, b"this is no header\r\n\r\n"],
    "control characters": [STREAM, b"x-odd: a\x00\x1b[31mb\r\n\r\n", EVENT],
    "a negative length": [STREAM, b"content-length: -5\r\n\r\n", EVENT],
    "a length of words": [STREAM, b"content-length: many\r\n\r\n", EVENT],
    "two lengths": [STREAM, b"content-length: 5\r\ncontent-length: 50\r\n\r\n", EVENT],
    "a length that is never reached": [STREAM, b"content-length: 999999\r\n\r\n", EVENT],
    "a length of zero": [STREAM, b"content-length: 0\r\n\r\n"],
    "a chunk of no size": [STREAM, b"transfer-encoding: chunked\r\n\r\nzz\r\n", EVENT],
    "a chunk of all there is": [STREAM, b"transfer-encoding: chunked\r\n\r\nffffffffffffffff\r\n", EVENT],
    "a chunk without an end": [STREAM, b"transfer-encoding: chunked\r\n\r\n5\r\ndata:"],
    "an encoding that nobody knows": [STREAM, b"content-encoding: sdch, exi\r\n\r\n", EVENT],
    "gzip that is none": [STREAM, b"content-encoding: gzip\r\n\r\n", b"\x1f\x8bnot really"],
    "a redirect to itself": [b"HTTP/1.1 307 X\r\nlocation: /v1/chat/completions\r\ncontent-length: 0\r\n\r\n"],
    "no content": [b"HTTP/1.1 204 No Content\r\n\r\n"],
    "a switch of protocols": [b"HTTP/1.1 101 Switching Protocols\r\nupgrade: websocket\r\n\r\n"],
    "an error with a page": [b"HTTP/1.1 502 \xff\xfe\r\ncontent-type: text/html\r\n\r\n", b"<html>\x1b[2J" * 50_000],
}


async def told(bench, server: Blunt, limit: float = 30) -> ModelError:
    """What a person is told; it must be words, without the key, and come in time."""
    with pytest.raises(ModelError) as caught:
        async with asyncio.timeout(limit):
            await collect(bench.models(server, retry=ONCE, idle=IDLE).invoke(ask()))
    error = caught.value
    words = f"{error.message} {error.hint}"
    assert error.hint
    assert not any(bad in words for bad in (KEY, "Traceback", "\x1b", "<html"))
    assert len(error.message) < 600
    assert server.calls == 1
    return error


@pytest.mark.parametrize("pieces", ABSURD.values(), ids=ABSURD.keys())
async def test_an_absurd_answer_is_told_in_words(bench, pieces: list[bytes]) -> None:
    async with Blunt(pieces) as server:
        await told(bench, server)


@pytest.mark.parametrize(
    "pieces",
    [[], [b"HTTP/1.1 200 O"], [STREAM], [STREAM, b"\r\n"], [STREAM, b"\r\n", EVENT], [b"HTTP/1.1 429 X\r\n"]],
    ids=["at once", "in the status", "in the headers", "after the headers", "after an event", "in a refusal"],
)
async def test_a_server_that_falls_silent_is_left(bench, pieces: list[bytes]) -> None:
    async with Blunt(pieces, stays=True) as server:
        error = await told(bench, server)
    assert "sent nothing" in error.message


@pytest.mark.parametrize(
    "piece",
    [b"HTTP/1.1 100 Continue\r\n\r\n", b"HTTP/1.1 103 Early Hints\r\nlink: </x>\r\n\r\n"],
    ids=["continue", "hints"],
)
async def test_a_server_that_never_comes_to_the_point_is_left(bench, piece: bytes) -> None:
    async with Blunt(itertools.repeat(piece)) as server:
        await told(bench, server)

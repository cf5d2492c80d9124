"""Loopback servers that speak the providers' wire formats, and misbehave as they are told.

    async with FakeProvider("openai", Answer(text=("Hel", "lo"))) as server:
        config = ProviderConfig(base_url=server.base_url, api_key="k")
        ...
        assert server.requests[0].json["model"] == "m"

Answers are given in order; the last one is given again and again.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Self

Format = Literal["openai", "anthropic", "google"]


@dataclass(frozen=True)
class Answer:
    """What the server does with one request.

    Attributes:
        text, thinking: the deltas.
        calls: tool calls: (id, name, fragments of the arguments' JSON).
        usage: tokens of prompt (cached ones included), of the cached part, and of the answer; None sends no usage.
        stop: the finish reason in OpenAI's words; None ends the stream without one.
        error: (type, message) of an error event after the deltas, within a good status.
        status, headers, body: a plain response in place of the stream; a dict is sent as JSON.
        raw: these very bytes as the stream's body.
        split: bytes per network write; None writes event by event.
        cut_after, stall_after: bytes of the body after which the connection is closed, or goes silent.
        pace: seconds between two writes.
        framing: `chunked`, or `close` (the end of the connection ends the body).
    """

    text: Sequence[str] = ()
    thinking: Sequence[str] = ()
    signature: str = "c2lnbmVk"
    calls: Sequence[tuple[str, str, Sequence[str]]] = ()
    usage: tuple[int, int, int] | None = (120, 20, 30)
    stop: str | None = "stop"
    error: tuple[str, str] | None = None
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    body: dict[str, Any] | bytes | None = None
    raw: bytes | None = None
    content_type: str = "text/event-stream"
    split: int | None = None
    cut_after: int | None = None
    stall_after: int | None = None
    pace: float = 0.0
    framing: Literal["chunked", "close"] = "chunked"


@dataclass(frozen=True)
class Seen:
    """A request as it arrived."""

    method: str
    path: str
    headers: dict[str, str]
    json: Any


class FakeProvider:
    """One server.

    Attributes:
        requests: what arrived, in order.
        closed_by_client: connections that the client closed before the answer's end.
        models: what `GET …/models` answers.
    """

    def __init__(self, wire: Format, *answers: Answer, models: Sequence[str] = ()) -> None:
        self.wire = wire
        self.answers = list(answers) or [Answer(text=("ok",))]
        self.models = list(models)
        self.requests: list[Seen] = []
        self.closed_by_client = 0
        self._server: asyncio.Server | None = None
        self._connections: set[asyncio.Task[None]] = set()
        self.port = 0

    @property
    def base_url(self) -> str:
        """The address as a user would set it."""
        return f"http://127.0.0.1:{self.port}" + ("/v1" if self.wire == "openai" else "")

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._connected, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        for task in list(self._connections):
            task.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)
        await self._server.wait_closed()

    def encode(self, answer: Answer) -> list[bytes]:
        """The events of a streamed answer, as bytes."""
        if answer.raw is not None:
            return [answer.raw]
        return {"openai": _openai, "anthropic": _anthropic, "google": _google}[self.wire](answer)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        self._connections.add(task)
        try:
            while await self._serve(reader, writer):
                pass
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        except asyncio.CancelledError:
            pass  # the end of the test
        finally:
            self._connections.discard(task)
            writer.close()
            with contextlib.suppress(ConnectionError):
                await writer.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        method, path, _ = head[0].split(" ", 2)
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in head[1:] if line)}
        length = int(headers.get("content-length", 0))
        body = await reader.readexactly(length) if length else b""
        if method == "GET":
            await _respond(writer, 200, {}, {"data": [{"id": name} for name in self.models]})
            return True
        self.requests.append(Seen(method, path, headers, json.loads(body) if body else None))
        answer = self.answers[min(len(self.requests), len(self.answers)) - 1]
        if answer.status != 200 or answer.body is not None:
            await _respond(writer, answer.status, answer.headers, answer.body or {}, answer.content_type)
            return True
        return await self._stream(answer, reader, writer)

    async def _stream(self, answer: Answer, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        chunked = answer.framing == "chunked"
        fields = {"content-type": answer.content_type, **answer.headers}
        fields |= {"transfer-encoding": "chunked"} if chunked else {"connection": "close"}
        writer.write(_head(200, fields))
        gone = asyncio.create_task(reader.read(1))
        sent = 0
        try:
            for piece in _pieces(self.encode(answer), answer.split, (answer.cut_after, answer.stall_after)):
                if answer.cut_after is not None and sent >= answer.cut_after:
                    return False
                if answer.stall_after is not None and sent >= answer.stall_after:
                    await gone
                    self.closed_by_client += 1
                    return False
                writer.write(b"%x\r\n%b\r\n" % (len(piece), piece) if chunked else piece)
                await writer.drain()
                sent += len(piece)
                if answer.pace or answer.split:
                    await asyncio.wait([gone], timeout=answer.pace)
                    if gone.done():
                        self.closed_by_client += 1
                        return False
            if answer.cut_after is not None and sent >= answer.cut_after:
                return False
            if chunked:
                writer.write(b"0\r\n\r\n")
                await writer.drain()
            return False
        finally:
            gone.cancel()
            with contextlib.suppress(asyncio.CancelledError, ConnectionError):
                await gone


def _pieces(events: list[bytes], split: int | None, stops: Sequence[int | None]) -> list[bytes]:
    """The network writes: no write goes across a place where the stream stops."""
    whole = b"".join(events)
    ends = {stop for stop in stops if stop is not None and stop < len(whole)} | {len(whole)}
    if split is not None:
        ends |= set(range(split, len(whole), split))
    else:
        position = 0
        for event in events:
            position += len(event)
            ends.add(position)
    pieces, start = [], 0
    for end in sorted(ends - {0}):
        pieces.append(whole[start:end])
        start = end
    return pieces


async def _respond(
    writer: asyncio.StreamWriter,
    status: int,
    headers: dict[str, str],
    body: dict[str, Any] | bytes,
    content_type: str = "text/event-stream",
) -> None:
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    kind = content_type if isinstance(body, bytes) else "application/json"
    writer.write(_head(status, {"content-type": kind, "content-length": str(len(raw)), **headers}) + raw)
    await writer.drain()


def _head(status: int, headers: dict[str, str]) -> bytes:
    lines = [f"HTTP/1.1 {status} X", *(f"{name}: {value}" for name, value in headers.items()), "", ""]
    return "\r\n".join(lines).encode("latin-1")


def _data(payload: dict[str, Any], event: str = "") -> bytes:
    name = f"event: {event}\n" if event else ""
    return f"{name}data: {json.dumps(payload, ensure_ascii=False)}\n\n".encode()


def _openai(answer: Answer) -> list[bytes]:
    base = {"id": "c1", "object": "chat.completion.chunk", "created": 1, "model": "m"}

    def chunk(delta: dict[str, Any], finish: str | None = None) -> bytes:
        return _data({**base, "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]})

    events = [chunk({"role": "assistant", "content": ""})]
    events += [chunk({"reasoning_content": piece}) for piece in answer.thinking]
    events += [chunk({"content": piece}) for piece in answer.text]
    for index, (call_id, name, fragments) in enumerate(answer.calls):
        first = {"index": index, "id": call_id, "type": "function", "function": {"name": name, "arguments": ""}}
        events.append(chunk({"tool_calls": [first]}))
        events += [
            chunk({"tool_calls": [{"index": index, "function": {"arguments": fragment}}]}) for fragment in fragments
        ]
    if answer.error:
        events.append(_data({"error": {"type": answer.error[0], "code": answer.error[0], "message": answer.error[1]}}))
        return events
    if answer.stop:
        events.append(chunk({}, "tool_calls" if answer.calls else answer.stop))
    if answer.usage:
        prompt, cached, output = answer.usage
        usage = {
            "prompt_tokens": prompt,
            "completion_tokens": output,
            "total_tokens": prompt + output,
            "prompt_tokens_details": {"cached_tokens": cached},
        }
        events.append(_data({**base, "choices": [], "usage": usage}))
    return [*events, b"data: [DONE]\n\n"]


def _anthropic(answer: Answer) -> list[bytes]:
    prompt, cached, output = answer.usage or (0, 0, 0)
    usage = {
        "input_tokens": prompt - cached,
        "cache_read_input_tokens": cached,
        "cache_creation_input_tokens": 0,
        "output_tokens": 1,
    }
    message = {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "claude-x",
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": usage,
    }
    events = [_data({"type": "message_start", "message": message}, "message_start")]
    events.append(_data({"type": "ping"}, "ping"))
    index = 0

    def block(start: dict[str, Any], deltas: list[dict[str, Any]]) -> None:
        nonlocal index
        events.append(
            _data({"type": "content_block_start", "index": index, "content_block": start}, "content_block_start")
        )
        name = "content_block_delta"
        events.extend(_data({"type": name, "index": index, "delta": delta}, name) for delta in deltas)
        events.append(_data({"type": "content_block_stop", "index": index}, "content_block_stop"))
        index += 1

    if answer.thinking:
        deltas = [{"type": "thinking_delta", "thinking": piece} for piece in answer.thinking]
        deltas.append({"type": "signature_delta", "signature": answer.signature})
        block({"type": "thinking", "thinking": "", "signature": ""}, deltas)
    if answer.text:
        block({"type": "text", "text": ""}, [{"type": "text_delta", "text": piece} for piece in answer.text])
    for call_id, name, fragments in answer.calls:
        block(
            {"type": "tool_use", "id": call_id, "name": name, "input": {}},
            [{"type": "input_json_delta", "partial_json": fragment} for fragment in fragments],
        )
    if answer.error:
        error = {"type": "error", "error": {"type": answer.error[0], "message": answer.error[1]}}
        return [*events, _data(error, "error")]
    if answer.stop:
        reason = {"stop": "end_turn", "length": "max_tokens"}.get(answer.stop, answer.stop)
        delta = {"stop_reason": "tool_use" if answer.calls else reason, "stop_sequence": None}
        events.append(
            _data({"type": "message_delta", "delta": delta, "usage": {"output_tokens": output}}, "message_delta")
        )
        events.append(_data({"type": "message_stop"}, "message_stop"))
    return events


def _google(answer: Answer) -> list[bytes]:
    def chunk(parts: list[dict[str, Any]], finish: str | None = None, usage: dict[str, Any] | None = None) -> bytes:
        candidate: dict[str, Any] = {"index": 0, "content": {"role": "model", "parts": parts}}
        if finish:
            candidate["finishReason"] = finish
        payload: dict[str, Any] = {"candidates": [candidate], "modelVersion": "gemini-x", "responseId": "r1"}
        return _data({**payload, "usageMetadata": usage} if usage else payload)

    events = [chunk([{"text": piece, "thought": True}]) for piece in answer.thinking]
    events += [chunk([{"text": piece}]) for piece in answer.text]
    events += [
        chunk([{"functionCall": {"id": call_id, "name": name, "args": json.loads("".join(fragments))}}])
        for call_id, name, fragments in answer.calls
    ]
    usage = None
    if answer.usage:
        prompt, cached, output = answer.usage
        usage = {
            "promptTokenCount": prompt,
            "cachedContentTokenCount": cached,
            "candidatesTokenCount": output,
            "totalTokenCount": prompt + output,
        }
    if answer.stop:
        reason = {"stop": "STOP", "length": "MAX_TOKENS"}.get(answer.stop, answer.stop)
        events.append(chunk([{"text": ""}], reason, usage))
    return events

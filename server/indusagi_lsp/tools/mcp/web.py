"""Speaks to a server over streamable HTTP: the SDK's transport on a client that bounds what it reads.

The address, its headers, and no other place: the SDK follows redirects within the origin only, and no proxy is used.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from types import TracebackType
from typing import TYPE_CHECKING, Any

from indusagi_lsp.tools.mcp.config import McpConfig

if TYPE_CHECKING:
    import httpx2

MAX_BODY = 8 * 1024 * 1024
_CONNECT_SECONDS = 15.0
_SESSION_HEADER = "mcp-session-id"
_NOT_FOUND, _FIRST_ERROR = 404, 400
# What a server may answer to parts of the protocol that it does not have.
_HARMLESS = frozenset({404, 405})


class Web:
    """The connection to a server at an address, as a transport of the SDK: an async context manager.

    Args:
        config: the server's definition.
        gone: set when the server has forgotten our session, so that a new one is needed.
    """

    def __init__(self, config: McpConfig, gone: asyncio.Event) -> None:
        self._config = config
        self._gone = gone
        self._stack = contextlib.AsyncExitStack()
        self.last_words = ""

    async def __aenter__(self) -> Any:
        """The message streams. Nothing is sent yet."""
        from mcp.client.streamable_http import streamable_http_client

        # In a thread: the machine's certificates are read.
        client = await asyncio.to_thread(self._client)
        async with self._stack:
            await self._stack.enter_async_context(client)
            streams = await self._stack.enter_async_context(
                streamable_http_client(self._config.url, http_client=client, max_sse_event_size=MAX_BODY)
            )
            self._stack = self._stack.pop_all()
        return streams

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        """Tell the server that the session ends, and close every connection."""
        return await self._stack.__aexit__(kind, error, trace)

    def _client(self) -> httpx2.AsyncClient:
        import httpx2

        return httpx2.AsyncClient(
            headers={**self._config.headers, "accept-encoding": "identity"},
            # How long an answer may take is for the call to say, so reading has no limit of its own.
            timeout=httpx2.Timeout(_CONNECT_SECONDS, read=None),
            transport=_bounded_transport(self._look),
        )

    def _look(self, request: httpx2.Request, response: httpx2.Response) -> None:
        status = response.status_code
        if status >= _FIRST_ERROR and status not in _HARMLESS:
            self.last_words = f"it answered with HTTP status {status}"
        if status == _NOT_FOUND and _SESSION_HEADER in request.headers:
            self._gone.set()


def _bounded_transport(look: Any) -> httpx2.AsyncBaseTransport:
    import httpx2

    class Bounded(httpx2.AsyncHTTPTransport):
        """Looks at each response before the SDK does."""

        async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
            response = await super().handle_async_request(request)
            look(request, response)
            if response.headers.get("content-encoding", "identity").lower() != "identity":
                # Compressed data has no bound that is known before it is unpacked; none was asked for.
                await response.aclose()
                raise httpx2.DecodingError("the server sends compressed data without being asked to")
            # The events of a stream are bounded one by one; anything else is read whole.
            if not response.headers.get("content-type", "").lower().startswith("text/event-stream"):
                response.stream = BoundedStream(response.stream)
            return response

    class BoundedStream(httpx2.AsyncByteStream):
        """A body that ends with an error when it is too large."""

        def __init__(self, stream: Any) -> None:
            self._stream = stream

        async def __aiter__(self) -> AsyncIterator[bytes]:
            size = 0
            async for chunk in self._stream:
                size += len(chunk)
                if size > MAX_BODY:
                    message = f"the answer is larger than {MAX_BODY:,} bytes"
                    raise httpx2.StreamError(message)
                yield chunk

        async def aclose(self) -> None:
            await self._stream.aclose()

    return Bounded()

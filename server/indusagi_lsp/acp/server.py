"""The server of one ACP client: messages from the byte layer to the SDK's connection, and back.

The SDK types, checks and dispatches; the bytes are ours, so that an editor that does not read, or sends nonsense, meets
the same reader and writer as the language server has.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Any

from acp import AgentSideConnection
from acp.exceptions import RequestError

from indusagi_lsp.acp.agent import AcpAgent
from indusagi_lsp.acp.outlet import AcpOutlet
from indusagi_lsp.contract.jsontext import dumps, loads
from indusagi_lsp.transport.framing import FrameError
from indusagi_lsp.transport.outbox import Outbox
from indusagi_lsp.transport.serve import Control
from indusagi_lsp.workspace.hosts import Hosts, create_hosts

logger = logging.getLogger(__name__)

_HOSTS_SECONDS = 1.0
_CONNECTION_SECONDS = 0.3


class AcpServer:
    """A `transport.serve.Served` that speaks ACP.

    Args:
        trusted: whether the folders that the client opens are trusted.
    """

    def __init__(self, *, trusted: bool) -> None:
        self._trusted = trusted
        self._outbox: Outbox
        self._wire: Wire | None = None
        self._connection: AgentSideConnection | None = None
        self._hosts: Hosts | None = None
        self._finished: asyncio.Task[None] | None = None

    def attach(self, outbox: Outbox, control: Control) -> None:
        """Take what the server needs of the byte layer, once, before anything is received."""
        self._outbox = outbox

    @property
    def was_shut_down(self) -> bool:
        """Always: this protocol has no message for it, a client just closes the stream."""
        return True

    def receive(self, item: bytes | FrameError) -> None:
        """Take one message, or the news that bytes made no sense; what cannot be handled is answered."""
        wire = self._connect()
        if self._finished is not None:
            return
        if isinstance(item, FrameError):
            wire.refuse(None, RequestError(-32700, item.reason))
            return
        try:
            message = loads(item)
        except ValueError:
            wire.refuse(None, RequestError.parse_error())
            return
        if not isinstance(message, dict):
            wire.refuse(None, RequestError(-32600, "A message is one JSON object."))
            return
        request_id, method = message.get("id"), message.get("method")
        if request_id is not None and not isinstance(request_id, (str, int)):
            wire.refuse(None, RequestError(-32600, "An id is a text or a whole number."))
        elif method is None and not ("id" in message and ("result" in message or "error" in message)):
            wire.refuse(request_id, RequestError(-32600, "A message has a `method`, or it is an answer."))
        elif method is not None and not isinstance(method, str):
            wire.refuse(request_id, RequestError(-32600, "A `method` is a text."))
        elif not isinstance(message.get("params", {}), dict):
            wire.refuse(request_id, RequestError(-32602, "`params` is an object."))
        else:
            wire.deliver(message)

    async def finish(self) -> None:
        """End all work, once; bounded in time."""
        if self._finished is None:
            self._finished = asyncio.create_task(self._finish())
        await asyncio.shield(self._finished)

    async def _finish(self) -> None:
        if self._hosts is not None:
            try:
                async with asyncio.timeout(_HOSTS_SECONDS):
                    await self._hosts.shutdown()
            except TimeoutError:
                logger.warning("the hosts did not end within %s s", _HOSTS_SECONDS)
        if self._connection is not None:
            try:
                async with asyncio.timeout(_CONNECTION_SECONDS):
                    await self._connection.close()
            except TimeoutError:
                logger.warning("the connection did not end within %s s", _CONNECTION_SECONDS)

    def _connect(self) -> Wire:
        """The wire; made at the first message, since the SDK needs the loop to run."""
        if self._wire is None:
            self._wire = Wire(self._outbox)
            outlet = AcpOutlet(self._outbox)
            self._hosts = create_hosts(outlet)
            agent = AcpAgent(self._hosts, outlet, trusted=self._trusted)
            self._connection = AgentSideConnection(agent, self._wire, use_unstable_protocol=True)
            outlet.client = self._connection
        return self._wire


class Wire:
    """The SDK's transport: messages that are decoded already, in order, over our own byte layer.

    Args:
        outbox: where messages go; it never waits.
    """

    def __init__(self, outbox: Outbox) -> None:
        self._outbox = outbox
        self._incoming: asyncio.Queue[dict[str, Any] | None] = asyncio.Queue()

    def deliver(self, message: dict[str, Any]) -> None:
        """Hand a message to the SDK."""
        self._incoming.put_nowait(message)

    def refuse(self, request_id: Any, error: RequestError) -> None:
        """Answer what the SDK would not."""
        self._outbox.send(dumps({"jsonrpc": "2.0", "id": request_id, "error": error.to_error_obj()}))

    async def send(self, message: dict[str, Any]) -> None:
        """Send a message of the SDK's."""
        try:
            body = dumps(message)
        except (TypeError, ValueError):
            # What a validator says of bad params may hold values that are no JSON; the answer must go out all the same.
            error = message.get("error")
            if not isinstance(error, dict):
                raise
            body = dumps({**message, "error": {"code": error["code"], "message": error["message"]}})
        self._outbox.send(body)

    async def receive(self) -> dict[str, Any] | None:
        """The next message, or None at the end."""
        return await self._incoming.get()

    async def close(self) -> None:
        """End the stream of messages."""
        self._incoming.put_nowait(None)

"""What the server asks of the client, as raw JSON: no type library between, and late answers do no harm."""

from __future__ import annotations

import asyncio
import itertools
import logging
from typing import Any

import msgspec

from indusagi_lsp.contract.jsontext import dumps
from indusagi_lsp.transport.outbox import Outbox

logger = logging.getLogger(__name__)

_ID_PREFIX = "indusagi-"


class PeerError(Exception):
    """The client answered a request with an error."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


class Peer:
    """The client, as somebody who can be told and asked.

    Args:
        outbox: where messages go.
    """

    def __init__(self, outbox: Outbox) -> None:
        self.outbox = outbox
        self._numbers = itertools.count(1)
        self._questions: dict[str, asyncio.Future[Any]] = {}

    def notify(self, method: str, params: Any) -> None:
        """Send a notification; `params` is JSON data or one of our structs."""
        self.outbox.send(encode({"jsonrpc": "2.0", "method": method, "params": plain(params)}))

    async def ask(self, method: str, params: Any, timeout: float | None = None) -> Any:  # noqa: ASYNC109
        """Send a request and wait for its answer.

        Args:
            method: the method.
            params: JSON data, or one of our structs.
            timeout: seconds; the client is told to forget the request when they are over, or when we are
                cancelled.

        Returns:
            The `result`, as decoded JSON.

        Raises:
            PeerError: the client answered with an error.
            TimeoutError: no answer in time.
        """
        request_id = f"{_ID_PREFIX}{next(self._numbers)}"
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._questions[request_id] = answer
        self.outbox.send(encode({"jsonrpc": "2.0", "id": request_id, "method": method, "params": plain(params)}))
        try:
            async with asyncio.timeout(timeout):
                return await answer
        except (TimeoutError, asyncio.CancelledError):
            self.notify("$/cancelRequest", {"id": request_id})
            raise
        finally:
            del self._questions[request_id]

    def answered(self, message: dict[str, Any]) -> bool:
        """Take a response. False when it is none of ours; one that comes too late is dropped."""
        request_id = message.get("id")
        if not isinstance(request_id, str) or not request_id.startswith(_ID_PREFIX):
            return False

        question = self._questions.get(request_id)
        if question is None or question.done():
            logger.info("an answer to %s came too late", request_id)
            return True
        error = message.get("error")
        if error is None:
            question.set_result(message.get("result"))
        else:
            known = error if isinstance(error, dict) else {}
            code, text = known.get("code"), known.get("message")
            question.set_exception(PeerError(code if isinstance(code, int) else 0, str(text)))
        return True

    def respond(self, request_id: Any, result: bytes) -> None:
        """Answer a request with a result that is JSON already."""
        self.outbox.send(b'{"jsonrpc":"2.0","id":%b,"result":%b}' % (dumps(request_id), result))

    def refuse(self, request_id: Any, error: dict[str, Any]) -> None:
        """Answer a request with an error."""
        self.outbox.send(encode({"jsonrpc": "2.0", "id": request_id, "error": error}))


def encode(message: dict[str, Any]) -> bytes:
    """One message as UTF-8 JSON."""
    return dumps(message)


def plain(value: Any) -> Any:
    """JSON data of one of our structs; anything else comes back as it is."""
    return msgspec.to_builtins(value) if isinstance(value, msgspec.Struct) else value


def encode_result(value: Any) -> bytes:
    """The result of an operation as UTF-8 JSON, also where a text holds a lone surrogate."""
    try:
        return msgspec.json.encode(value)
    except UnicodeEncodeError:
        return dumps(msgspec.to_builtins(value))

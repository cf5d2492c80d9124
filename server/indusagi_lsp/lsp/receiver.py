"""Each message that comes in: decoded, checked, held against the lifecycle, and sent where it belongs.

Whatever is wrong with a request is answered. What is wrong with a notification is logged, for nobody waits.
"""

from __future__ import annotations

import logging
from enum import Enum
from typing import Any, Protocol

import msgspec
from pygls.exceptions import JsonRpcInvalidParams

from indusagi_lsp.contract.jsontext import loads
from indusagi_lsp.lsp.operations import OperationRunner
from indusagi_lsp.lsp.peer import Peer
from indusagi_lsp.lsp.protocol import IndusagiProtocol
from indusagi_lsp.lsp.standard import StandardRequests
from indusagi_lsp.protocol import errors
from indusagi_lsp.transport.framing import FrameError

logger = logging.getLogger(__name__)


class Stage(Enum):
    """Where the server is in its life."""

    NEW = "new"
    RUNNING = "running"
    SHUTTING_DOWN = "shutting down"


class Lifecycle(Protocol):
    """What the receiver asks of the server."""

    def shutdown(self, request_id: int | str) -> None:
        """End all work, then answer."""
        ...

    def exit(self) -> None:
        """End the process."""
        ...

    def announced(self, capabilities: Any) -> None:
        """Note the client's capabilities, as decoded JSON."""
        ...

    def cancel_progress(self, token: Any) -> None:
        """The client's cancel button."""
        ...


class Receiver:
    """Takes messages one by one.

    Args:
        protocol: does the standard methods.
        operations: does ours.
        standard: does the standard requests about documents, and keeps the documents.
        peer: gets the refusals.
        lifecycle: ends things.
    """

    def __init__(
        self,
        protocol: IndusagiProtocol,
        operations: OperationRunner,
        standard: StandardRequests,
        peer: Peer,
        lifecycle: Lifecycle,
    ) -> None:
        self._protocol = protocol
        self._operations = operations
        self._requests = standard
        self._peer = peer
        self._lifecycle = lifecycle
        self.stage = Stage.NEW

    def receive(self, item: bytes | FrameError) -> None:
        """Take one message, or the news that bytes made no sense."""
        if isinstance(item, FrameError):
            self._refuse(None, errors.PARSE_ERROR, f"The bytes are no message: {item.reason}.")
            return
        try:
            message = loads(item)
        except ValueError as error:
            logger.info("a message is not JSON: %s", error)
            self._refuse(None, errors.PARSE_ERROR, "The message is not JSON in UTF-8.")
            return

        if isinstance(message, list):
            self._refuse(
                None,
                errors.INVALID_REQUEST,
                "Batches are not part of the protocol; send one message at a time.",
            )
        elif not isinstance(message, dict) or message.get("jsonrpc") != "2.0":
            # Without a method it may be an answer, whose id is one of ours and must not come back as one of theirs.
            asks = isinstance(message, dict) and "method" in message
            request_id = _id_of(message) if asks else None
            self._refuse(request_id, errors.INVALID_REQUEST, 'A message is one object with "jsonrpc": "2.0".')
        elif "method" not in message:
            self._response(message)
        elif not isinstance(message["method"], str):
            self._refuse(_id_of(message), errors.INVALID_REQUEST, "The method must be a text.")
        elif "id" not in message:
            self._notification(message["method"], message)
        elif _id_of(message) is None:
            self._refuse(None, errors.INVALID_REQUEST, "The id of a request must be an integer or a text.")
        else:
            try:
                self._request(message["id"], message["method"], message)
            except Exception as error:
                # A mistake of ours; whoever asked must not wait for ever because of it.
                logger.exception("%s could not be handled", message["method"])
                self._peer.refuse(message["id"], errors.error_of(error))

    def _request(self, request_id: int | str, method: str, message: dict[str, Any]) -> None:
        params = message.get("params")
        if self._is_open(request_id):
            self._refuse(request_id, errors.INVALID_REQUEST, f"A request with the id {request_id!r} is still open.")
        elif self.stage is Stage.SHUTTING_DOWN:
            self._refuse(request_id, errors.INVALID_REQUEST, "The server is shutting down; only exit is taken.")
        elif self.stage is Stage.NEW and method != "initialize":
            self._refuse(request_id, errors.NOT_INITIALIZED, "The first request must be initialize.")
        elif self.stage is not Stage.NEW and method == "initialize":
            self._refuse(request_id, errors.INVALID_REQUEST, "The server is initialized already.")
        elif method == "shutdown":
            self.stage = Stage.SHUTTING_DOWN
            self._lifecycle.shutdown(request_id)
        elif (operation := self._operations.methods.get(method)) is not None:
            self._operations.request(request_id, operation, params)
        elif method == "workspace/executeCommand":
            self._operations.command(request_id, params)
        elif params is not None and not isinstance(params, dict | list):
            self._refuse(request_id, errors.INVALID_REQUEST, "The params must be an object or an array.")
        elif self._requests.takes(method):
            self._requests.request(request_id, method, params)
        else:
            self._standard(request_id, method, message)

    def _is_open(self, request_id: int | str) -> bool:
        ours = request_id in self._operations or request_id in self._requests
        return ours or self._protocol.knows_request(request_id)

    def _standard(self, request_id: int | str, method: str, message: dict[str, Any]) -> None:
        # JSON-RPC lets a sender leave params out; pygls does not.
        message.setdefault("params", None)
        if method == "initialize" and message["params"] is None:
            self._refuse(
                request_id,
                errors.INVALID_PARAMS,
                "initialize: the params must be an object with capabilities.",
            )
            return
        if method == "initialize" and isinstance(message["params"], dict):
            self._lifecycle.announced(message["params"].get("capabilities"))
        try:
            self._protocol.dispatch(message)
        except JsonRpcInvalidParams as error:
            self._refuse(request_id, errors.INVALID_PARAMS, error.message)

    def _notification(self, method: str, message: dict[str, Any]) -> None:
        params = message.setdefault("params", None)
        if method == "exit":
            self._lifecycle.exit()
        elif self.stage is not Stage.RUNNING:
            logger.info("%s came outside of the session", method)
        elif method == "$/cancelRequest":
            request_id = params.get("id") if isinstance(params, dict) else None
            ours = self._operations.cancel(request_id) or self._requests.cancel(request_id)
            if not ours and self._protocol.knows_request(request_id):
                self._protocol.dispatch(message)
        elif method == "window/workDoneProgress/cancel":
            self._lifecycle.cancel_progress(params.get("token") if isinstance(params, dict) else None)
        else:
            if method == "initialized" and params is None:
                message["params"] = {}
            try:
                if not self._requests.sync(method, params):
                    self._protocol.dispatch(message)
            except JsonRpcInvalidParams as error:
                logger.warning("a notification was ignored: %s", error.message)
            except msgspec.ValidationError as error:
                logger.warning("%s was ignored: %s", method, error)

    def _response(self, message: dict[str, Any]) -> None:
        if not ("result" in message or "error" in message):
            self._refuse(_id_of(message), errors.INVALID_REQUEST, "A message needs a method, a result or an error.")
        elif not self._peer.answered(message) and self._protocol.knows_question(_id_of(message)):
            try:
                self._protocol.dispatch(message)
            except JsonRpcInvalidParams as error:
                logger.warning("an answer made no sense: %s", error.message)

    def _refuse(self, request_id: int | str | None, code: int, message: str) -> None:
        self._peer.refuse(request_id, errors.error_object(code, message))


def _id_of(message: dict[str, Any]) -> int | str | None:
    request_id = message.get("id")
    return request_id if isinstance(request_id, int | str) and not isinstance(request_id, bool) else None

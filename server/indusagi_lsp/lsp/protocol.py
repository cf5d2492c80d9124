"""pygls' protocol with our capabilities, orjson on the way out, and no traceback on the wire.

Whatever of pygls is private is touched in this module and nowhere else.
"""

from __future__ import annotations

import logging
from collections.abc import Generator
from typing import TYPE_CHECKING, Any, cast

import cattrs
import orjson
from lsprotocol import types
from pygls.exceptions import JsonRpcException, JsonRpcInternalError, JsonRpcInvalidParams
from pygls.protocol import LanguageServerProtocol, lsp_method

from indusagi_lsp.contract.jsontext import dumps
from indusagi_lsp.protocol import errors
from indusagi_lsp.protocol.messages import PROTOCOL_VERSION
from indusagi_lsp.protocol.operations import NOTIFICATIONS, OPERATIONS

if TYPE_CHECKING:
    from indusagi_lsp.lsp.server import IndusagiServer

logger = logging.getLogger(__name__)

_MOST_COMPLAINTS = 3


class IndusagiProtocol(LanguageServerProtocol):
    """Dispatch of the standard methods; our own operations never come here."""

    @lsp_method(types.INITIALIZE)
    def lsp_initialize(self, params: types.InitializeParams) -> Generator[Any, Any, types.InitializeResult]:
        """Answer `initialize`, with what we are beside the standard."""
        result: types.InitializeResult = yield from super().lsp_initialize(params)
        result.capabilities.execute_command_provider = types.ExecuteCommandOptions(
            commands=[operation.command for operation in OPERATIONS], work_done_progress=True
        )
        cast("IndusagiServer", self._server).agreed(result.capabilities)
        result.capabilities.experimental = {
            "indusagi": {
                "protocolVersion": PROTOCOL_VERSION,
                "methods": [operation.method for operation in OPERATIONS],
                "events": list(NOTIFICATIONS),
            }
        }
        return result

    def dispatch(self, message: dict[str, Any]) -> None:
        """Hand a message to pygls.

        Args:
            message: a decoded JSON-RPC object whose envelope is right.

        Raises:
            JsonRpcInvalidParams: the parameters are not those of the method; the message names the field.
        """
        try:
            structured = self.structure_message(message)
        except JsonRpcException as error:
            raise JsonRpcInvalidParams(_complaint(str(message.get("method")), error.__cause__)) from error
        self.handle_message(structured)

    def knows_question(self, request_id: Any) -> bool:
        """Whether an answer to this id is awaited; pygls stumbles over answers that come too late."""
        future = self._request_futures.get(request_id)
        if future is not None and future.done():
            del self._request_futures[request_id]
            return False
        return future is not None

    def knows_request(self, request_id: Any) -> bool:
        """Whether a request of the client with this id is being worked on here."""
        return request_id in self._request_futures

    def mark_shut_down(self) -> None:
        """Take nothing more but `exit`."""
        self._shutdown = True

    def _send_data(self, data: Any) -> None:
        """Encode by orjson, and into our own outbox."""
        try:
            body = orjson.dumps(data, default=self._serialize_message)
        except orjson.JSONEncodeError:
            body = dumps(self._converter.unstructure(data))
        cast("IndusagiServer", self._server).send_body(body)

    def _send_response(self, msg_id: Any, result: Any = None, error: types.ResponseError | None = None) -> None:
        if error is not None and error.code == JsonRpcInternalError.CODE:
            # pygls puts the traceback, with the paths of this machine, into `data`.
            plain = errors.error_of(RuntimeError())
            error = types.ResponseError(code=plain["code"], message=plain["message"], data=plain["data"])
        super()._send_response(msg_id, result, error)


def _complaint(method: str, cause: BaseException | None) -> str:
    """What cattrs did not like, as one sentence."""
    if cause is None:
        return f"{method}: the parameters are not valid."
    try:
        found = cattrs.transform_error(cause, path="params")
    except Exception:  # noqa: BLE001 - a better message is not worth a failure
        return f"{method}: the parameters are not valid."
    return f"{method}: {'; '.join(found[:_MOST_COMPLAINTS]).replace('params.params', 'params')}."

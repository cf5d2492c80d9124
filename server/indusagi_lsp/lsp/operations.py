"""Operations on their way: strict parameters in, one task each, the result or an error that helps out."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import msgspec

from indusagi_lsp.lsp.engine import Engine
from indusagi_lsp.lsp.peer import Peer, encode_result
from indusagi_lsp.lsp.progress import ProgressBoard
from indusagi_lsp.protocol import errors
from indusagi_lsp.protocol import messages as m
from indusagi_lsp.protocol.operations import (
    ASK,
    CHAT_SEND,
    CONDENSE,
    OPERATIONS,
    SUBMIT,
    WORKFLOW_RESUME,
    WORKFLOW_RUN,
    Operation,
)
from indusagi_lsp.protocol.uris import normalise_uri

logger = logging.getLogger(__name__)

_LONG = frozenset({SUBMIT.name, ASK.name, CHAT_SEND.name, CONDENSE.name, WORKFLOW_RUN.name, WORKFLOW_RESUME.name})
_AT = re.compile(r" - at `\$\.?(?P<path>[^`]*)`\Z")


class InvalidParamsError(Exception):
    """The parameters are not what the operation takes."""


class OperationRunner:
    """Runs operations and answers for them.

    Args:
        engine: who does them.
        peer: who asked.
        board: where long ones are shown.
        new_id: makes the ids of runs that the client gave none.
    """

    def __init__(self, engine: Engine, peer: Peer, board: ProgressBoard, new_id: Callable[[], str]) -> None:
        self._engine = engine
        self._peer = peer
        self._board = board
        self._new_id = new_id
        self._tasks: dict[int | str, asyncio.Task[bytes]] = {}
        self._long: set[int | str] = set()
        self.local: dict[str, Callable[[Any], Awaitable[Any]]] = {}
        """Operations that are about open documents, by name."""

        self.methods = {operation.method: operation for operation in OPERATIONS}
        self.commands = {operation.command: operation for operation in OPERATIONS}

    def __contains__(self, request_id: object) -> bool:
        return request_id in self._tasks

    def request(self, request_id: int | str, operation: Operation, params: Any) -> None:
        """Start an operation that came as a request, with `params` as decoded JSON."""
        token = params.get("workDoneToken") if isinstance(params, dict) else None
        self._start(request_id, operation, params, token, operation.method)

    def command(self, request_id: int | str, params: Any) -> None:
        """Start an operation that came as `workspace/executeCommand`, with one object as its argument."""
        name = params.get("command") if isinstance(params, dict) else None
        operation = self.commands.get(name) if isinstance(name, str) else None
        if operation is None:
            known = ", ".join(self.commands)
            self._refuse_params(request_id, f"There is no command {name!r}.", f"The commands are: {known}.")
            return

        arguments = params.get("arguments")
        if arguments is None:
            arguments = []
        if not isinstance(arguments, list) or len(arguments) > 1:
            self._refuse_params(request_id, f"{name} takes one object as its only argument.", _params_hint(operation))
            return
        self._start(
            request_id,
            operation,
            arguments[0] if arguments else None,
            params.get("workDoneToken"),
            operation.command,
        )

    def cancel(self, request_id: Any) -> bool:
        """Cancel a request; False when it is none of ours. It is answered once the work has ended."""
        task = self._tasks.get(request_id) if isinstance(request_id, int | str) else None
        if task is None:
            return False
        task.cancel()
        return True

    async def finish(self, patience: float) -> None:
        """Let short work end by itself for `patience` seconds, cancel the rest, and wait for that as long."""
        short = [task for request_id, task in self._tasks.items() if request_id not in self._long]
        for request_id in list(self._long):
            self.cancel(request_id)
        if short:
            await asyncio.wait(short, timeout=patience)
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=patience)

    def _start(self, request_id: int | str, operation: Operation, raw: Any, token: Any, face: str) -> None:
        try:
            params = convert(operation, raw, face)
        except InvalidParamsError as error:
            self._refuse_params(request_id, str(error), _params_hint(operation))
            return

        key = f"{request_id!r}"
        if isinstance(params, m.SubmitParams | m.AskParams | m.ChatSendParams):
            if params.run_id is None:
                params = msgspec.structs.replace(params, run_id=self._new_id())
            key = params.run_id or key
        task = asyncio.create_task(self._run(operation, params))
        self._tasks[request_id] = task
        if operation.name in _LONG:
            self._long.add(request_id)
        if operation.name in _LONG or _is_token(token):
            self._board.begin(key, operation.title, token if _is_token(token) else None, task.cancel)
        task.add_done_callback(partial(self._done, request_id, key))

    async def _run(self, operation: Operation, params: Any) -> bytes:
        hosts = await self._engine.ready()
        do = self.local.get(operation.name)
        try:
            result = await (hosts.call(operation, params) if do is None else do(params))
        except (SystemExit, KeyboardInterrupt) as error:
            # Let through, it would end the event loop and with it every other session.
            message = f"{operation.name} tried to end the server"
            raise RuntimeError(message) from error
        return encode_result(result)

    def _done(self, request_id: int | str, key: str, task: asyncio.Task[bytes]) -> None:
        """Answer. A task that was cancelled before its first step never ran, so it cannot do this itself."""
        self._tasks.pop(request_id, None)
        self._long.discard(request_id)
        if task.cancelled():
            self._board.end(key, "cancelled")
            self._peer.refuse(request_id, errors.error_object(errors.REQUEST_CANCELLED, "The request was cancelled."))
            return
        exception = task.exception()
        if exception is None:
            self._board.end(key, None)
            self._peer.respond(request_id, task.result())
            return
        error = errors.error_of(exception)
        if error["code"] == errors.INTERNAL_ERROR:
            logger.error("an operation failed", exc_info=exception)
        self._board.end(key, error["message"])
        self._peer.refuse(request_id, error)

    def _refuse_params(self, request_id: int | str, message: str, hint: str) -> None:
        error = errors.error_object(errors.INVALID_PARAMS, message, kind="bad_request", hint=hint)
        self._peer.refuse(request_id, error)


def convert(operation: Operation, raw: Any, face: str) -> Any:
    """Read an operation's parameters, strictly.

    Args:
        operation: whose parameters they are.
        raw: decoded JSON; null, a missing object and an empty one mean the same, and so do null and missing
            fields.
        face: the method or command by which they came, for the message.

    Returns:
        An `operation.params` with URIs in their one spelling.

    Raises:
        InvalidParamsError: with a sentence that names the field.
    """
    if raw is None or raw == []:
        raw = {}  # Lua has one empty table, which its JSON writes as a list
    if not isinstance(raw, dict):
        message = f"{face} takes an object, not {_json_type(raw)}."
        raise InvalidParamsError(message)
    try:
        params = msgspec.convert({name: value for name, value in raw.items() if value is not None}, operation.params)
    except msgspec.ValidationError as error:
        raise InvalidParamsError(_sentence(face, str(error))) from None
    changes: dict[str, Any] = {}
    if getattr(params, "workspace", None) is not None:
        changes["workspace"] = normalise_uri(params.workspace)
    if isinstance(params, m.SubmitParams) and params.context:
        changes["context"] = [msgspec.structs.replace(item, uri=normalise_uri(item.uri)) for item in params.context]
    return msgspec.structs.replace(params, **changes) if changes else params


def _sentence(face: str, text: str) -> str:
    """The message of msgspec in the words of the protocol: the field first."""
    found = _AT.search(text)
    if found is None:
        return f"{face}: {_lower(text)}."
    return f"{face}: `{found['path']}`: {_lower(text[: found.start()])}."


def _lower(text: str) -> str:
    return text[:1].lower() + text[1:]


def _params_hint(operation: Operation) -> str:
    names = [field.encode_name for field in msgspec.structs.fields(operation.params) if not field.required]
    needed = [field.encode_name for field in msgspec.structs.fields(operation.params) if field.required]
    parts = [f"{operation.name} needs {', '.join(needed)}" if needed else f"{operation.name} needs nothing"]
    if names:
        parts.append(f"and may have {', '.join(names)}")
    return " ".join(parts) + "."


def _is_token(token: Any) -> bool:
    return isinstance(token, int | str) and not isinstance(token, bool)


def _json_type(value: Any) -> str:
    if isinstance(value, bool):
        return "a boolean"
    if isinstance(value, int | float):
        return "a number"
    return "a text" if isinstance(value, str) else "an array"

"""JSON-RPC error codes: one for each kind of fault, and how an exception becomes an error object.

Ours lie in -32001 … -32099, away from the codes that JSON-RPC, LSP and the common client libraries use
themselves. No error ever carries a traceback.
"""

from __future__ import annotations

from typing import Any

from indusagi_lsp.contract.errors import IndusagiError

PARSE_ERROR = -32700
INVALID_REQUEST = -32600
INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603
NOT_INITIALIZED = -32002
REQUEST_CANCELLED = -32800

CODES: dict[str, int] = {
    "bad_request": -32010,
    "invalid_state": -32011,
    "session_not_found": -32012,
    "session_foreign": -32013,
    "node_not_found": -32014,
    "persistence": -32015,
    "aborted": -32016,
    "turn_budget": -32017,
    "compaction_failed": -32018,
    "model_failed": -32019,
    "overflow": -32020,
    "tool_failed": -32021,
    "path_denied": -32022,
    "approval_denied": -32023,
    "internal": -32024,
}
OTHER = -32050
"""A kind of fault that has no code of its own (yet)."""


def error_object(code: int, message: str, *, kind: str = "", hint: str = "") -> dict[str, Any]:
    """An `error` member.

    Args:
        code: the JSON-RPC code.
        message: one plain sentence.
        kind: the stable name of the fault; without it there is no `data`.
        hint: what to do.

    Returns:
        JSON data.
    """
    error: dict[str, Any] = {"code": code, "message": message}
    if kind:
        error["data"] = {"kind": kind, "hint": hint}
    return error


def error_of(exception: BaseException) -> dict[str, Any]:
    """The `error` member for what a handler raised.

    Args:
        exception: an `IndusagiError`, whose words are for people; anything else is a mistake of ours, and its
            words stay in the log.

    Returns:
        JSON data.
    """
    if isinstance(exception, IndusagiError):
        code = CODES.get(exception.kind, OTHER)
        return error_object(code, exception.message, kind=exception.kind, hint=exception.hint)
    return error_object(
        INTERNAL_ERROR,
        "Something went wrong in the server.",
        kind="internal",
        hint="Nothing of the conversation is lost. The server's log says what happened.",
    )

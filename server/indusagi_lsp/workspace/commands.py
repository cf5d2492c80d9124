"""What a prompt can be instead of words for the agent, in every client: `/condense`, `/undo`, `/remember …`."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeAlias

import msgspec

from indusagi_lsp.contract.errors import InvalidInput
from indusagi_lsp.protocol import messages as m
from indusagi_lsp.protocol.operations import CONDENSE, CONDENSE_UNDO, REMEMBER, Operation

COMMANDS: Mapping[str, str] = {
    "condense": "Condense the conversation, reversibly",
    "undo": "Take the last condensation back",
    "remember": "Remember the text that follows",
}
"""The commands and what each does, in words for people."""

Call: TypeAlias = Callable[[Operation, Any], Awaitable[Any]]
_COMMAND = re.compile(r"/([a-z]+)(?:[ \t]+(.*))?\Z", re.DOTALL)


class Command(msgspec.Struct, frozen=True):
    """A command and what follows its name."""

    name: str
    rest: str


def read_command(text: str) -> Command | None:
    """The command that a prompt is, or None where it is something to say."""
    match = _COMMAND.match(text)
    if match is None or match.group(1) not in COMMANDS:
        return None
    return Command(match.group(1), (match.group(2) or "").strip())


async def run_command(call: Call, command: Command, session_id: str, workspace: str | None) -> str:
    """Do what a command says.

    Args:
        call: does one operation.
        command: what to do.
        session_id: where.
        workspace: the folder's URI.

    Returns:
        What came of it, in words.

    Raises:
        IndusagiError: what the session says.
    """
    if command.name == "condense":
        params = m.CondenseParams(session_id=session_id, workspace=workspace, instruction=command.rest or None)
        done = await call(CONDENSE, params)
        if not done.condensed:
            return f"Nothing was condensed: {done.reason or 'there is not enough to condense'}."
        return f"Condensed: {done.before:,} tokens became {done.after:,}. `/undo` takes it back."
    if command.name == "undo":
        await call(CONDENSE_UNDO, m.SessionParams(session_id=session_id, workspace=workspace))
        return "The last condensation was taken back."
    if not command.rest:
        raise InvalidInput("There is nothing to remember.", hint="Write what to remember behind `/remember`.")
    kept = await call(REMEMBER, m.RememberParams(text=command.rest, workspace=workspace))
    return "Remembered." if kept.created else "That was remembered already."

"""From the engine's events and turns to what an ACP client shows. No input or output here."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, TypeAlias

from acp import helpers, schema

from indusagi_lsp.contract import events as e
from indusagi_lsp.contract.text import visible_line
from indusagi_lsp.protocol import messages as m

SessionUpdate: TypeAlias = (
    schema.UserMessageChunk
    | schema.AgentMessageChunk
    | schema.AgentThoughtChunk
    | schema.ToolCallStart
    | schema.ToolCallProgress
    | schema.AvailableCommandsUpdate
    | schema.UsageUpdate
)

_TITLE_CHARS = 120
_KINDS: Mapping[str, schema.ToolKind] = {
    "read_file": "read",
    "list_files": "search",
    "search_text": "search",
    "recall": "search",
    "edit_file": "edit",
    "write_file": "edit",
    "apply_patch": "edit",
    "run_command": "execute",
    "command_job": "execute",
    "todo": "think",
}


def tool_kind(name: str) -> schema.ToolKind:
    """What a tool does, in the protocol's words."""
    return _KINDS.get(name, "other")


def updates_of(event: e.RunEvent) -> Iterator[SessionUpdate]:
    """What a client is shown of an event; nothing for most kinds."""
    match event:
        case e.TextDelta(delta):
            yield helpers.update_agent_message_text(delta)
        case e.ThinkingDelta(delta):
            yield helpers.update_agent_thought_text(delta)
        case e.ToolStarted(call_id, name):
            yield helpers.start_tool_call(call_id, name, kind=tool_kind(name), status="pending")
        case e.ToolCalled(call_id, name, given):
            yield helpers.update_tool_call(
                call_id, title=_title(name, given), kind=tool_kind(name), status="in_progress", raw_input=given
            )
        case e.ToolUpdate(call_id, text):
            yield helpers.update_tool_call(call_id, content=[_text(text)])
        case e.ToolFinished(call_id, _, outcome):
            yield _finished(call_id, outcome.output, failed=outcome.is_error)
        case e.UsageReported(window=window) if window is not None:
            cost = None if event.cost is None else schema.Cost(amount=event.cost, currency="USD")
            yield schema.UsageUpdate(session_update="usage_update", used=event.estimate, size=window, cost=cost)
        case e.Retry(attempt, delay, error):
            words = f"The model failed ({visible_line(error)}); attempt {attempt + 1} follows in {delay:.0f} s."
            yield helpers.update_agent_thought_text(words)
        case e.Notice(level, _, text) if level != "info":
            yield helpers.update_agent_thought_text(visible_line(text))
        case _:
            pass


def replay(turns: list[m.TurnView]) -> Iterator[SessionUpdate]:
    """A conversation as it was, for a client that loads it."""
    for turn in turns:
        for block in turn.blocks:
            yield from _replayed(turn.role, block)


def _replayed(role: str, block: Mapping[str, Any]) -> Iterator[SessionUpdate]:
    match block:
        case {"kind": "text", "context": {"at": str(where)}}:
            yield helpers.update_user_message(helpers.resource_link_block(where.rsplit("/", 1)[-1], where))
        case {"kind": "text", "text": str(text)}:
            say = helpers.update_user_message_text if role == "user" else helpers.update_agent_message_text
            yield say(text)
        case {"kind": "thinking", "text": str(text)}:
            yield helpers.update_agent_thought_text(text)
        case {"kind": "image", "mediaType": str(media_type), "dataBase64": str(data)}:
            image = helpers.image_block(data, media_type)
            yield helpers.update_user_message(image) if role == "user" else helpers.update_agent_message(image)
        case {"kind": "tool_call", "id": str(call_id), "name": str(name), "input": given}:
            # Without a result it was never finished; with one, the result's own update says so.
            yield helpers.start_tool_call(
                call_id, _title(name, given), kind=tool_kind(name), status="failed", raw_input=given
            )
        case {"kind": "tool_result", "callId": str(call_id), "output": str(output)}:
            yield _finished(call_id, output, failed=block.get("isError") is True)
        case _:
            pass


def _finished(call_id: str, output: str, *, failed: bool) -> schema.ToolCallProgress:
    return helpers.update_tool_call(call_id, status="failed" if failed else "completed", content=[_text(output)])


def _text(text: str) -> schema.ContentToolCallContent:
    return helpers.tool_content(helpers.text_block(text))


def _title(name: str, given: Any) -> str:
    """The tool and the one thing that says most about the call: its command, path or words."""
    if isinstance(given, dict):
        for key in ("command", "path", "query", "pattern", "text"):
            value = given.get(key)
            if isinstance(value, str) and value.strip():
                return f"{name}: {visible_line(value, _TITLE_CHARS)}"
    return name

"""Code actions on any file: fix this problem, explain it, ask about the selection, remember it.

Each is a command with one object, so that it works in every editor. On a bare cursor they are only offered when the
user asked for actions: a light bulb on every line would be noise.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import msgspec

from indusagi_lsp.lsp.documents import Document, Range
from indusagi_lsp.protocol.operations import ASK, REMEMBER, Operation

Json: TypeAlias = dict[str, Any]

KINDS = ("quickfix", "indusagi.explain", "indusagi.ask", "indusagi.remember")
_INVOKED = 1
_MOST_FIXES = 5
_TITLE_CHARS = 60
_MOST_REMEMBERED = 100_000
_MOST_MESSAGE = 10_000


class _Diagnostic(msgspec.Struct, frozen=True):
    range: Range
    message: str
    source: str | None = None


class _Context(msgspec.Struct, frozen=True, rename="camel"):
    diagnostics: list[Json] = []
    only: list[str] | None = None
    trigger_kind: int | None = None


class _Asked(msgspec.Struct, frozen=True):
    range: Range
    context: _Context = _Context()


def code_actions(params: Any, document: Document, workspace: str) -> list[Json]:
    """The actions for a place in a document.

    Args:
        params: those of `textDocument/codeAction`, as decoded JSON.
        document: the open document.
        workspace: the URI of the folder that it lies in.

    Raises:
        msgspec.ValidationError: the params are not those of the method.
    """
    asked = msgspec.convert(params, _Asked)
    place = msgspec.to_builtins(asked.range)
    about = {"uri": document.uri, "workspace": workspace}
    found: list[Json] = []
    for raw in asked.context.diagnostics[:_MOST_FIXES]:
        told = msgspec.convert(raw, _Diagnostic)
        if told.source == "indusagi":
            continue
        where = {**about, "range": msgspec.to_builtins(told.range), "message": told.message[:_MOST_MESSAGE]}
        title = _short(told.message)
        found.append(_action(f"Indusagi: fix “{title}”", "quickfix", ASK, {"kind": "fix", **where}, [raw]))
        found.append(_action(f"Indusagi: explain “{title}”", "indusagi.explain", ASK, {"kind": "explain", **where}))
    chosen = asked.range.start != asked.range.end
    if chosen or asked.context.trigger_kind == _INVOKED:
        what = "the selection" if chosen else "this line"
        if not chosen:
            line = asked.range.start.line
            place = {"start": {"line": line, "character": 0}, "end": document.end(line)}
        where = {**about, "range": place}
        found.append(_action(f"Indusagi: explain {what}", "indusagi.explain", ASK, {"kind": "explain", **where}))
        found.append(_action(f"Indusagi: ask about {what}", "indusagi.ask", ASK, {"kind": "ask", **where}))
        text = document.selected(place).strip()
        if text:
            remembered = {
                "text": text[:_MOST_REMEMBERED],
                "workspace": workspace,
                "metadata": {"uri": document.uri, "line": place["start"]["line"] + 1},
            }
            found.append(_action(f"Indusagi: remember {what}", "indusagi.remember", REMEMBER, remembered))
    return [action for action in found if _wanted(action["kind"], asked.context.only)]


def as_commands(actions: Sequence[Json]) -> list[Json]:
    """The same for clients that know no code actions but only commands."""
    return [action["command"] for action in actions]


def _action(title: str, kind: str, operation: Operation, argument: Json, fixes: list[Json] | None = None) -> Json:
    command = {"title": title, "command": operation.command, "arguments": [argument]}
    action: Json = {"title": title, "kind": kind, "command": command}
    if fixes:
        action["diagnostics"] = fixes
    return action


def _wanted(kind: str, only: list[str] | None) -> bool:
    return only is None or any(kind == one or kind.startswith(f"{one}.") or not one for one in only)


def _short(message: str) -> str:
    line = " ".join(message.split())
    return line if len(line) <= _TITLE_CHARS else f"{line[: _TITLE_CHARS - 1]}…"

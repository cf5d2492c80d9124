"""Write the TypeScript mirror of the wire types: `vscode-client/src/protocol.ts`.

`python tests/contract/regenerate.py` writes the file; a contract test fails when it is stale.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from indusagi_lsp.protocol import errors, shapes
from indusagi_lsp.protocol.messages import PROTOCOL_VERSION
from indusagi_lsp.protocol.operations import CLIENT_REQUESTS, OPERATIONS

if TYPE_CHECKING:
    from collections.abc import Iterable

_WIDTH = 120
_HEAD = """\
/* eslint-disable */
// Generated from the server's wire types by `python tests/contract/regenerate.py`. Do not edit.
"""
_HASH = "/** Of the wire types that this file was made from. */\nexport const MESSAGES_HASH = '%s';\n"
_TOOL_RESULT = """\
/** What the model is told of a tool call. */
export interface ToolResultView {
  output: string;
  isError: boolean;
}
"""


def render() -> str:
    """The whole module, as prettier would have it.

    Returns:
        TypeScript: an interface for each wire type and each event, the names of all methods and commands, and the
        parameters and result of each operation.
    """
    names = {shapes.short_name(operation): operation for operation in OPERATIONS}
    parts = [
        _HEAD,
        f"export const PROTOCOL_VERSION = {PROTOCOL_VERSION};\n",
        _HASH % shapes.messages_hash(),
        *(_interface(shape) for shape in shapes.message_shapes()),
        _TOOL_RESULT,
        *(_interface(shape, kind) for kind, shape in shapes.event_shapes()),
        "export type RunEvent =\n" + "\n".join(f"  | {shape.name}" for _, shape in shapes.event_shapes()) + ";\n",
        _constants("Methods", ((name, operation.method) for name, operation in names.items())),
        _constants("Commands", ((name, operation.command) for name, operation in names.items())),
        _constants("Notifications", shapes.notification_names().items()),
        _constants("Requests", [(name.rpartition("/")[2], name) for name in CLIENT_REQUESTS]),
        _operations(),
        _codes(),
    ]
    return "\n".join(parts)


def _interface(shape: shapes.Shape, kind: str | None = None) -> str:
    lines = [f"/** {shape.doc} */" if len(shape.doc) < _WIDTH - 8 else _long_comment(shape.doc)]
    lines.append(f"export interface {shape.name} {{")
    if kind is not None:
        lines.append(f"  kind: '{kind}';")
    lines += [
        _property(field.name + ("?" if field.optional else ""), shapes.type_text(field.type, quote="'"))
        for field in shape.fields
    ]
    return "\n".join([*lines, "}", ""])


def _property(name: str, text: str) -> str:
    line = f"  {name}: {text};"
    if len(line) <= _WIDTH:
        return line
    return f"  {name}:\n" + "\n".join(f"    | {part}" for part in text.split(" | ")) + ";"


def _long_comment(text: str) -> str:
    lines, line = ["/**"], " *"
    for word in text.split(" "):
        if len(line) + len(word) + 1 > _WIDTH:
            lines.append(line)
            line = " *"
        line += f" {word}"
    return "\n".join([*lines, line, " */"])


def _constants(name: str, items: Iterable[tuple[str, str]]) -> str:
    lines = [f"  {key}: '{value}'," for key, value in items]
    return "\n".join([f"export const {name} = {{", *lines, "} as const;", ""])


def _operations() -> str:
    lines = ["/** Parameters and result of each operation, by its method. */", "export interface Operations {"]
    lines += [
        f"  '{operation.method}': {{ params: {operation.params.__name__}; result: {operation.result.__name__} }};"
        for operation in OPERATIONS
    ]
    return "\n".join([*lines, "}", ""])


def _codes() -> str:
    lines = [f"  {kind}: {code}," for kind, code in errors.CODES.items()]
    return "\n".join(
        ["/** Error codes of ours, by kind of fault. */", "export const ErrorCodes = {", *lines, "} as const;", ""]
    )

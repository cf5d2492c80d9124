"""The wire types, read: what the generators of the TypeScript mirror and of the protocol document both need."""

from __future__ import annotations

import hashlib
import inspect
import re
import types
import typing
from typing import Any, Literal

import msgspec

from indusagi_lsp.protocol import events, messages
from indusagi_lsp.protocol.operations import NOTIFICATIONS, Operation

SKIPPED = ("Wire", "Full")


class Shape(msgspec.Struct, frozen=True):
    """A wire type: its name, what it is for, and its fields."""

    name: str
    doc: str
    fields: tuple[Field, ...]


class Field(msgspec.Struct, frozen=True):
    """A field by its wire name, its Python type, and whether it may be left out."""

    name: str
    type: Any
    optional: bool


def message_shapes() -> list[Shape]:
    """All types of `messages.py`, in its order."""
    return [
        _shape(cls, cls.__name__, optional=issubclass(cls, messages.Wire))
        for cls in vars(messages).values()
        if inspect.isclass(cls)
        and issubclass(cls, msgspec.Struct)
        and cls.__module__ == messages.__name__
        and cls.__name__ not in SKIPPED
    ]


def event_shapes() -> list[tuple[str, Shape]]:
    """All events, each with its `kind`."""
    return [(cls.kind, _shape(cls, f"{cls.__name__}Event", optional=False)) for cls in events.EVENT_TYPES]


def messages_hash() -> str:
    """The hash of `messages.py`, in 16 hex digits: the generated files carry it, and are stale without it."""
    return hashlib.sha256(inspect.getsource(messages).encode("utf-8")).hexdigest()[:16]


def short_name(operation: Operation) -> str:
    """`condense/undo` as `condenseUndo`."""
    head, *tail = operation.name.split("/")
    return head + "".join(part[:1].upper() + part[1:] for part in tail)


def notification_names() -> dict[str, str]:
    """The notifications by short name."""
    return {method.removeprefix("indusagi/"): method for method in NOTIFICATIONS}


def type_text(wanted: Any, *, quote: str = '"', unknown: str = "unknown") -> str:
    """A type in the notation of TypeScript.

    Args:
        wanted: a resolved Python annotation of a wire type.
        quote: what stands around literals.
        unknown: the name of any JSON value.

    Returns:
        The text, `null` last in a union.
    """
    origin, arguments = typing.get_origin(wanted), typing.get_args(wanted)
    if origin is typing.Annotated:
        return type_text(arguments[0], quote=quote, unknown=unknown)
    if origin is Literal:
        return " | ".join(f"{quote}{value}{quote}" for value in arguments)
    if origin in (typing.Union, types.UnionType):
        parts = [type_text(part, quote=quote, unknown=unknown) for part in arguments if part is not type(None)]
        return " | ".join([*dict.fromkeys(parts), *(["null"] if type(None) in arguments else [])])
    if origin in (list, tuple):
        item = type_text(arguments[0], quote=quote, unknown=unknown)
        return f"({item})[]" if " " in item and not item.startswith("Record<") else f"{item}[]"
    if origin is not None and issubclass(origin, typing.Mapping):
        return f"Record<string, {type_text(arguments[1], quote=quote, unknown=unknown)}>"
    named = {"RunSnapshot": "SnapshotView", "Fault": "FaultView", "ToolResult": "ToolResultView"}
    simple = {str: "string", int: "number", float: "number", bool: "boolean", Any: unknown}
    return simple.get(wanted) or named.get(wanted.__name__, wanted.__name__)


def _shape(cls: type[Any], name: str, *, optional: bool) -> Shape:
    hints = typing.get_type_hints(cls, include_extras=True)
    fields = []
    for field in msgspec.structs.fields(cls):
        wire = field.encode_name if issubclass(cls, messages.Wire | messages.Full) else events.camel(field.name)
        fields.append(Field(wire, hints[field.name], optional and not field.required))
    return Shape(name, re.sub(r"\s+", " ", inspect.getdoc(cls) or ""), tuple(fields))

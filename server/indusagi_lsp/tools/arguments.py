"""Arguments of tools: one typed struct each, whose JSON schema is what the model sees."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from indusagi_lsp.contract.errors import ToolFailed

if TYPE_CHECKING:
    from collections.abc import Mapping


class Arguments(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The base of every tool's arguments: an unknown name is a mistake that the model should hear of."""


A = TypeVar("A", bound=Arguments)


def schema_of(cls: type[Arguments]) -> dict[str, Any]:
    """The JSON schema of a tool's arguments: one object, without references or titles.

    Args:
        cls: the struct.
    """
    (schema,), definitions = msgspec.json.schema_components([cls])
    flat: dict[str, Any] = _inline(schema, definitions)
    flat.pop("description", None)
    return flat


def validate_arguments(cls: type[A], arguments: Mapping[str, Any]) -> A:
    """Arguments as the model sent them, checked and typed. Nothing is converted: `"3"` is no number.

    Args:
        cls: the struct.
        arguments: decoded JSON.

    Raises:
        ToolFailed: they do not fit; the message says where, and what is expected.
    """
    try:
        return msgspec.convert(dict(arguments), cls)
    except msgspec.ValidationError as error:
        expected = "; ".join(_describe(field) for field in msgspec.structs.fields(cls))
        msg = f"The arguments do not fit: {error}."
        raise ToolFailed(msg, hint=f"Expected: {expected}.") from None


def _describe(field: msgspec.structs.FieldInfo) -> str:
    need = "required" if field.required else "optional"
    (schema,), _ = msgspec.json.schema_components([field.type])
    kinds = schema.get("type") or "/".join(part.get("type", "?") for part in schema.get("anyOf", ()))
    return f"`{field.encode_name}` ({kinds or 'value'}, {need})"


def _inline(schema: Any, definitions: Mapping[str, Any]) -> Any:
    """`schema` with every reference replaced by what it refers to; the structs here do not recur."""
    if isinstance(schema, list):
        return [_inline(part, definitions) for part in schema]
    if not isinstance(schema, dict):
        return schema

    reference = schema.get("$ref")
    if reference is not None:
        return _inline(definitions[reference.rpartition("/")[2]], definitions)
    choices = [choice for choice in schema.get("anyOf", ()) if choice != {"type": "null"}]
    if len(choices) == 1:
        # An optional argument may be null; to the model it is simply one that can be left out.
        return _inline(choices[0], definitions)
    return {
        name: _inline(part, definitions)
        for name, part in schema.items()
        if not (name == "title" and isinstance(part, str))
    }

"""What a server offers, looked at before a model sees it: names, descriptions and schemas are a stranger's text.

A tool that a provider would refuse spoils every request that it is in, and text that people cannot see is how
instructions are smuggled to a model: such a tool is left out, and that is told.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from indusagi_lsp.contract import jsontext
from indusagi_lsp.contract.models import ToolSpec
from indusagi_lsp.contract.text import quoted, visible
from indusagi_lsp.tools.mcp.naming import tool_name

if TYPE_CHECKING:
    import mcp_types

MAX_TOOLS = 128
MAX_DESCRIPTION = 4_000
MAX_SCHEMA_BYTES = 32 * 1024
MAX_DEPTH = 32

_PROPERTY = re.compile(r"[A-Za-z0-9_.-]{1,64}")
# What providers do not take at the top of a schema. The server checks its arguments itself in any case.
_NOT_ON_TOP = frozenset({"$schema", "$id", "oneOf", "anyOf", "allOf", "not", "if", "then", "else"})
# Text for people, which may be cleaned; any other text of a schema must come through as it is.
_FOR_PEOPLE = frozenset({"title", "description", "$comment"})


class Offer(msgspec.Struct, frozen=True):
    """A tool of a server, fit to be used.

    Attributes:
        name: as the server calls it.
        spec: as the model sees it.
        read_only: whether the server says that it only reads; not to be believed without the user's grant.
        digest: SHA-256 of all that the server says about it, hexadecimal.
    """

    name: str
    spec: ToolSpec
    read_only: bool
    digest: str


class Offers(msgspec.Struct, frozen=True):
    """A server's whole list: what can be used, in the server's order, and what was left out, in words."""

    tools: tuple[Offer, ...] = ()
    left_out: tuple[str, ...] = ()

    @property
    def digests(self) -> dict[str, str]:
        """Each tool's hash, by its name."""
        return {offer.name: offer.digest for offer in self.tools}


def read_offers(server: str, listed: Iterable[mcp_types.Tool]) -> Offers:
    """Look at a list of tools.

    Args:
        server: the server's name.
        listed: what it lists.
    """
    tools: dict[str, Offer] = {}
    left_out: list[str] = []
    for tool in listed:
        try:
            offer = _read_one(server, tool)
            if len(tools) == MAX_TOOLS:
                message = f"there are more than {MAX_TOOLS}"
                raise ValueError(message)
            if offer.spec.name in tools:
                raise ValueError("there is another one of that name")
        except ValueError as error:
            left_out.append(f"{quoted(tool.name, 100)}: {error}")
        else:
            tools[offer.spec.name] = offer
    return Offers(tuple(tools.values()), tuple(left_out))


def check_arguments(schema: Mapping[str, Any], arguments: Mapping[str, Any]) -> str:
    """Compare arguments with a schema as far as is cheap, whatever the schema: names and plain types at the top.

    A stranger's schema can hold patterns and references that take for ever; the rest is for the server to check.

    Args:
        schema: a schema of an object.
        arguments: JSON data.

    Returns:
        What is wrong, in words for the model; empty if nothing.
    """
    properties = schema.get("properties")
    properties = properties if isinstance(properties, Mapping) else {}
    required = schema.get("required")
    missing = [name for name in required if name not in arguments] if isinstance(required, list) else []
    if missing:
        return f"Missing: {', '.join(map(str, missing))}."

    if schema.get("additionalProperties") is False and "patternProperties" not in schema:
        unknown = [name for name in arguments if name not in properties]
        if unknown:
            known = ", ".join(properties) or "none"
            return f"Unknown: {', '.join(map(quoted, unknown))}. The arguments are: {known}."

    for name, value in arguments.items():
        declared = properties.get(name)
        wanted = declared.get("type") if isinstance(declared, Mapping) else None
        kinds = [wanted] if isinstance(wanted, str) else wanted
        if isinstance(kinds, list) and kinds and not any(_is_of(value, kind) for kind in kinds):
            return f"{name} must be {' or '.join(map(str, kinds))}."
    return ""


def _read_one(server: str, tool: mcp_types.Tool) -> Offer:
    if not tool.name:
        raise ValueError("it has no name")
    said = tool.model_dump(by_alias=True, mode="json", exclude_none=True, exclude={"meta", "icons"})
    annotations = tool.annotations
    read_only = annotations is not None and annotations.read_only_hint is True and not annotations.destructive_hint
    description = visible(tool.description or tool.title or "").strip()
    if len(description) > MAX_DESCRIPTION:
        description = f"{description[:MAX_DESCRIPTION]} [… cut]"
    spec = ToolSpec(tool_name(server, tool.name), description, _fit_schema(tool.input_schema))
    return Offer(tool.name, spec, read_only, hashlib.sha256(jsontext.dumps(said)).hexdigest())


def _fit_schema(schema: Mapping[str, Any]) -> dict[str, Any]:
    if schema.get("type", "object") != "object":
        raise ValueError("its arguments are no object")
    fit: dict[str, Any] = _cleaned({key: value for key, value in schema.items() if key not in _NOT_ON_TOP}, MAX_DEPTH)
    fit["type"] = "object"
    properties = fit.setdefault("properties", {})
    if not isinstance(properties, Mapping) or not all(_PROPERTY.fullmatch(name) for name in properties):
        raise ValueError("its arguments have names that models' providers do not take")
    if len(jsontext.dumps(fit)) > MAX_SCHEMA_BYTES:
        raise ValueError("its schema is too large")
    return fit


def _cleaned(value: Any, depth: int, *, for_people: bool = False) -> Any:
    if depth == 0:
        raise ValueError("its schema is nested too deep")
    if isinstance(value, str):
        shown = visible(value)
        if not for_people and shown != value.replace("\r\n", "\n"):
            raise ValueError("its schema has hidden characters")
        return shown if for_people else value

    if isinstance(value, Mapping):
        if any(visible(str(key)) != key for key in value):
            raise ValueError("its schema has hidden characters")
        return {key: _cleaned(item, depth - 1, for_people=key in _FOR_PEOPLE) for key, item in value.items()}

    if isinstance(value, list):
        return [_cleaned(item, depth - 1) for item in value]
    return value


def _is_of(value: Any, kind: object) -> bool:
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    match kind:
        case "string":
            return isinstance(value, str)
        case "boolean":
            return isinstance(value, bool)
        case "number":
            return is_number
        case "integer":
            return is_number and float(value).is_integer()
        case "array":
            return isinstance(value, (list, tuple))
        case "object":
            return isinstance(value, Mapping)
        case "null":
            return value is None
        case _:
            return True

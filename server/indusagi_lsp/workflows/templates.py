"""Texts with `{{ expression }}` in them: prompts, questions, and the inputs of tools."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from indusagi_lsp.contract import jsontext
from indusagi_lsp.workflows.conditions import Expression, Names, parse

_PART = re.compile(r"\{\{(.*?)\}\}", re.DOTALL)


def expressions(value: Any) -> Iterator[Expression]:
    """The expressions in all texts of some JSON data.

    Raises:
        ConditionError: one of them cannot be read.
    """
    if isinstance(value, str):
        for found in _PART.finditer(value):
            yield parse(found[1].strip())
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from expressions(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from expressions(item)


def fill(value: Any, names: Names) -> Any:
    """The data with every expression replaced by its value.

    Args:
        value: JSON data. A text that is one expression and nothing else becomes the value itself, of its own type.
        names: what the names mean.

    Raises:
        ConditionError: an expression makes no sense on these values.
    """
    if isinstance(value, str):
        bare = value.strip()
        whole = _PART.match(bare)
        if whole is not None and whole.end() == len(bare):
            return parse(whole[1].strip()).value(names)
        return fill_text(value, names)
    if isinstance(value, Mapping):
        return {name: fill(item, names) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [fill(item, names) for item in value]
    return value


def fill_text(text: str, names: Names) -> str:
    """The text with every expression replaced by its value as text; null is nothing, what is no text is JSON."""
    return _PART.sub(lambda found: as_text(parse(found[1].strip()).value(names)), text)


def as_text(value: Any) -> str:
    """A value as it stands in a text."""
    if isinstance(value, str):
        return value
    return "" if value is None else jsontext.dumps(value).decode("utf-8")

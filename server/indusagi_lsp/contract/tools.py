"""The seam to the tools: what a tool declares, what it is given, what it hands back."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from typing import Any, Protocol

import msgspec

from indusagi_lsp.contract.models import ToolSpec


class Effect(Enum):
    """What running a tool can do to the world. Reads inside the workspace run unasked; the rest asks (security)."""

    READ = "read"
    WRITE = "write"
    EXECUTE = "execute"
    NETWORK = "network"


class ToolOutcome(msgspec.Struct, frozen=True):
    """What the model is told. A mistake of the model is an outcome with `is_error`, not an exception."""

    output: str
    is_error: bool = False


class ToolContext(msgspec.Struct, frozen=True):
    """What a running call knows of its surroundings.

    `update` shows progress text to people; the model does not see it. `document` gives the unsaved text of a file that
    is open in the editor, by its path below the workspace root in POSIX spelling, or None; `open_paths` gives the paths
    for which it may have one.
    """

    session_id: str
    call_id: str
    update: Callable[[str], None] = lambda _: None
    document: Callable[[str], str | None] = lambda _: None
    open_paths: Callable[[], Iterable[str]] = tuple


class Tool(Protocol):
    """Something that the model can ask for."""

    @property
    def spec(self) -> ToolSpec:
        """The tool as the model sees it."""
        ...

    @property
    def effects(self) -> frozenset[Effect]:
        """What running it can do, at worst."""
        ...

    async def run(self, arguments: Mapping[str, Any], context: ToolContext) -> ToolOutcome:
        """Do it.

        Args:
            arguments: JSON data that fits `spec.input_schema`; the dispatcher has checked it.
            context: the call's surroundings.

        Returns:
            What the model is told.

        Raises:
            ToolFailed: with a message that helps the model to ask better.
        """
        ...

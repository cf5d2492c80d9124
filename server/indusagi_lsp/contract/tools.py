"""The seam to the tools: what a tool declares, what it is given, what it hands back."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from enum import Enum
from typing import Any, Protocol, runtime_checkable

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


class Editor(msgspec.Struct, frozen=True):
    """What tools may ask of the editor; paths are below the workspace root, in POSIX spelling.

    Attributes:
        document: the text of a file that is open, unsaved changes included, or None.
        open_paths: the paths for which there may be one.
        edit_document: gives an open file another text so that the user can undo it, and says whether that was done;
            None where no editor can.
    """

    document: Callable[[str], str | None] = lambda _: None
    open_paths: Callable[[], Iterable[str]] = tuple
    edit_document: Callable[[str, str], Awaitable[bool]] | None = None


class ToolContext(msgspec.Struct, frozen=True):
    """What a running call knows of its surroundings.

    `update` shows progress text to people; the model does not see it. `document` gives the unsaved text of a file that
    is open in the editor, by its path below the workspace root in POSIX spelling, or None; `open_paths` gives the paths
    for which it may have one. `edit_document` gives such a file another text through the editor, so that the user can
    undo it, and says whether that was done; None where no editor can. `recalled` is told of remembered entries, as JSON
    data with `id` and `content`, that the call's outcome brings into the prompt.
    """

    session_id: str
    call_id: str
    update: Callable[[str], None] = lambda _: None
    document: Callable[[str], str | None] = lambda _: None
    open_paths: Callable[[], Iterable[str]] = tuple
    edit_document: Callable[[str, str], Awaitable[bool]] | None = None
    recalled: Callable[[Sequence[Mapping[str, Any]]], None] = lambda _: None


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


class PlannedCall(msgspec.Struct, frozen=True):
    """A call that is ready: what it would do is fixed, and has not been done.

    Attributes:
        action: what the user is asked about, whole: the command, or the diff. A permission is bound to these bytes.
        carry_out: does exactly that, or raises `ToolFailed` when the world has changed since.
        asks: whether the user must be asked; False only for what is known to read.
        afresh: the user must be asked each time, whatever was granted before (protected paths).
        waits: it waits for a person, who may take longer than a tool: whoever asks them sees to a limit.
        writes: the files that it changes, by path below the workspace root in POSIX spelling: the content that each is
            to have, None for one that it removes. Whoever keeps old contents keeps those of these first.
    """

    action: str
    carry_out: Callable[[], Awaitable[ToolOutcome]]
    asks: bool = True
    afresh: bool = False
    waits: bool = False
    writes: Mapping[str, bytes | None] = {}


@runtime_checkable
class PlanningTool(Tool, Protocol):
    """A tool whose calls are planned, then asked about, then carried out. Its `run` does both without asking."""

    async def plan(self, arguments: Mapping[str, Any], context: ToolContext) -> PlannedCall:
        """Find out what the call would do, without doing it.

        Args:
            arguments: JSON data as the model sent it.
            context: the call's surroundings.

        Raises:
            ToolFailed: with a message that helps the model to ask better; nobody need be asked then.
        """
        ...

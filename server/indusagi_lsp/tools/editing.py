"""The tools `edit_file` and `write_file`: exact replacements in a file, or a whole new content."""

from __future__ import annotations

import difflib
import re
from typing import TYPE_CHECKING, Annotated, Any

from msgspec import Meta

from indusagi_lsp.contract.errors import ToolFailed
from indusagi_lsp.contract.models import ToolSpec
from indusagi_lsp.contract.text import quoted, visible_line
from indusagi_lsp.contract.tools import Effect, PlannedCall, ToolContext
from indusagi_lsp.tools.arguments import Arguments, schema_of, validate_arguments
from indusagi_lsp.tools.base import Planning
from indusagi_lsp.tools.changes import Change, count, existing, original, plan

if TYPE_CHECKING:
    from collections.abc import Mapping

    from indusagi_lsp.tools.guard import PathGuard

MAX_CONTENT_CHARS = 2_000_000
_SPELLED = re.compile(r"\\u\{([0-9a-fA-F]{1,6})\}")
_NUMBERED = re.compile(r"^\s*\d+\t", re.MULTILINE)


class Edit(Arguments, frozen=True):
    """One replacement."""

    old_text: Annotated[
        str, Meta(description="Text to replace, exactly as it stands in the file, without line numbers.")
    ]
    new_text: Annotated[str, Meta(description="What takes its place.")]
    replace_all: Annotated[bool, Meta(description="Replace every occurrence; else there must be exactly one.")] = False


class EditFileArguments(Arguments, frozen=True):
    """What `edit_file` takes."""

    path: Annotated[str, Meta(min_length=1, description="Path of the file, relative to the workspace root.")]
    edits: Annotated[
        list[Edit],
        Meta(min_length=1, max_length=100, description="Replacements, made one after the other; all or none."),
    ]


class WriteFileArguments(Arguments, frozen=True):
    """What `write_file` takes."""

    path: Annotated[str, Meta(min_length=1, description="Path of the file, relative to the workspace root.")]
    content: Annotated[str, Meta(max_length=MAX_CONTENT_CHARS, description="The whole new content.")]


class EditFile(Planning):
    """Replaces exact texts in a file."""

    # It writes in the workspace.
    effects = frozenset({Effect.WRITE})

    def __init__(self, guard: PathGuard) -> None:
        self._guard = guard
        self.spec = ToolSpec(
            "edit_file",
            "Change a text file of the workspace by exact replacements. Each old_text must occur exactly once, unless"
            " replace_all is set; give enough lines around it to make it unique. Either all edits are made or none.",
            schema_of(EditFileArguments),
        )

    async def plan(self, arguments: Mapping[str, Any], context: ToolContext) -> PlannedCall:
        """Make the new text, and show it as a diff.

        Args:
            arguments: as `EditFileArguments`.
            context: gives the editor's text.

        Raises:
            ToolFailed: an edit does not fit, or the file is not one that can be edited.
        """
        wanted = validate_arguments(EditFileArguments, arguments)
        before = await existing(self._guard, wanted.path, context, hint="Use write_file to make a new file.")
        text = before.text.text
        for number, edit in enumerate(wanted.edits, 1):
            text = replaced(text, edit, f"Edit {number} of {len(wanted.edits)}", crlf=before.text.crlf)
        change = Change(before, text)
        edits = "1 edit" if len(wanted.edits) == 1 else f"{len(wanted.edits)} edits"
        return plan(self._guard, [change], context, f"{quoted(change.path)}: {edits} made, {count(change)} lines.")


class WriteFile(Planning):
    """Gives a file a whole new content."""

    # It writes in the workspace.
    effects = frozenset({Effect.WRITE})

    def __init__(self, guard: PathGuard) -> None:
        self._guard = guard
        self.spec = ToolSpec(
            "write_file",
            "Make a text file in the workspace, or replace the whole content of one. Folders that are missing are"
            " made. To change a part of a file, use edit_file.",
            schema_of(WriteFileArguments),
        )

    async def plan(self, arguments: Mapping[str, Any], context: ToolContext) -> PlannedCall:
        """Show the new content as a diff.

        Args:
            arguments: as `WriteFileArguments`.
            context: gives the editor's text.

        Raises:
            ToolFailed: the file is not one that can be written.
        """
        wanted = validate_arguments(WriteFileArguments, arguments)
        before = await original(self._guard, wanted.path, context)
        content = wanted.content.replace("\r\n", "\n") if before.text.crlf else wanted.content
        change = Change(before, content)
        done = "written" if before.exists else "made"
        return plan(self._guard, [change], context, f"{quoted(change.path)}: {done}, {count(change)} lines.")


def replaced(text: str, edit: Edit, name: str, *, crlf: bool = False) -> str:
    """A text after one edit.

    Args:
        text: before; with line feeds alone where the file has CRLF throughout.
        edit: what to replace.
        name: of the edit, for messages.
        crlf: whether the file's line ends were normalised, so that those of the edit must be too.

    Raises:
        ToolFailed: the old text is empty, is not there, or is there more than once.
    """
    old, new = edit.old_text, edit.new_text
    if crlf:
        old, new = old.replace("\r\n", "\n"), new.replace("\r\n", "\n")
    if not old:
        msg = f"{name}: old_text is empty."
        raise ToolFailed(msg, hint="Give the text that is to be replaced, or use write_file for a whole content.")
    times = text.count(old)
    if times == 0 and _SPELLED.search(old):
        # The model copies what it was shown, where hidden characters are spelled.
        old, new = _unspelled(old), _unspelled(new)
        times = text.count(old)
    if times == 0:
        msg = f"{name}: old_text is not in the file."
        raise ToolFailed(msg, hint=_nearest(text, edit.old_text))
    if times > 1 and not edit.replace_all:
        lines = ", ".join(str(line) for line in _places(text, old)[:10])
        msg = f"{name}: old_text is there {times} times, at lines {lines}."
        raise ToolFailed(msg, hint="Give more lines around it, or set replace_all.")
    return text.replace(old, new)


def _unspelled(text: str) -> str:
    return _SPELLED.sub(lambda found: chr(min(int(found[1], 16), 0x10FFFF)), text)


def _places(text: str, old: str) -> list[int]:
    """The lines at which `old` begins, from 1."""
    lines, start = [], text.find(old)
    while start >= 0:
        lines.append(text.count("\n", 0, start) + 1)
        start = text.find(old, start + len(old))
    return lines


def _nearest(text: str, old: str) -> str:
    """What in the file comes nearest to the first line that was looked for."""
    if _NUMBERED.search(old) and _NUMBERED.sub("", old) in text:
        return "Leave out the line numbers that read_file puts before each line."
    wanted = next((line for line in old.split("\n") if line.strip()), "").strip()
    lines = text.split("\n")[:20_000]
    by_text = {line.strip(): number for number, line in reversed(list(enumerate(lines, 1)))}
    close = [wanted] if wanted in by_text else difflib.get_close_matches(wanted[:500], by_text, n=1, cutoff=0.6)
    if not close:
        return "Read the file again to see what it holds."
    number = by_text[close[0]]
    return f"The nearest is line {number}: {visible_line(lines[number - 1], 200)}. White space and case count."

"""Reading patches as models write them: unified diffs, and the `*** Begin Patch` form; counts are not believed."""

from __future__ import annotations

import re
from typing import Literal

import msgspec

from indusagi_lsp.contract.errors import ToolFailed
from indusagi_lsp.contract.text import quoted, visible_line

_HUNK = re.compile(r"@@ -(\d+)(?:,\d+)? \+\d+(?:,\d+)? @@")
_SECTION = re.compile(r"\*\*\* (Add|Update|Delete) File: (.+)")
_FUZZ_LINES = 5000


class Hunk(msgspec.Struct, frozen=True):
    """Lines to find and their replacement. `line` is where they should be, from 1; None where that is not said.

    Each line of `old` and `new` stands without its line end. `at_end` says that the last line has none.
    """

    line: int | None
    old: tuple[str, ...]
    new: tuple[str, ...]
    at_end: bool = False


class FilePatch(msgspec.Struct, frozen=True):
    """What a patch does to one file; `target` is its new path, where that differs."""

    kind: Literal["add", "update", "delete"]
    path: str
    hunks: tuple[Hunk, ...]
    target: str | None = None


def parse(patch: str) -> list[FilePatch]:
    """Read a patch.

    Args:
        patch: its text.

    Raises:
        ToolFailed: it is none.
    """
    lines = patch.replace("\r\n", "\n").split("\n")
    found = _sections(lines) if any(_SECTION.match(line) for line in lines) else _unified(lines)
    if not found:
        msg = "That is no patch: no file is named in it."
        raise ToolFailed(msg, hint="Send a unified diff with --- a/PATH, +++ b/PATH and @@ lines.")
    return found


def apply(text: str, patch: FilePatch) -> str:
    """A text after the hunks of a patch.

    Args:
        text: the file's, with line feeds.
        patch: of kind add or update.

    Raises:
        ToolFailed: a hunk's lines are not there.
    """
    ended = text.endswith("\n") or not text
    lines = text.split("\n")
    if ended:
        lines.pop()
    shift = begin = 0
    for number, hunk in enumerate(patch.hunks, 1):
        hint = None if hunk.line is None else max(0, hunk.line - 1 + shift)
        place = _find(lines, hunk.old, hint, begin)
        if place is None:
            first = next((line for line in hunk.old if line.strip()), "")
            msg = f"{quoted(patch.path)}: the lines of hunk {number} are not in the file."
            raise ToolFailed(msg, hint=f"It looks for: {visible_line(first, 200)}. Read the file again.")
        lines[place : place + len(hunk.old)] = hunk.new
        shift += len(hunk.new) - len(hunk.old)
        begin = place + len(hunk.new)
        if begin == len(lines):
            ended = not hunk.at_end
    return "\n".join(lines) + ("\n" if ended and lines else "")


def _find(lines: list[str], old: tuple[str, ...], hint: int | None, begin: int) -> int | None:
    """Where `old` stands: at the hint, else as near to it as possible, never above the hunk before."""
    if not old:
        return min(hint if hint is not None else len(lines), len(lines))
    last = len(lines) - len(old)
    wanted = min(max(hint if hint is not None else begin, begin), max(last, 0))
    for distance in range(_FUZZ_LINES):
        for place in (wanted + distance, wanted - distance):
            if begin <= place <= last and tuple(lines[place : place + len(old)]) == old:
                return place
        if wanted + distance > last and wanted - distance < begin:
            return None
    return None


def _unified(lines: list[str]) -> list[FilePatch]:
    found: list[FilePatch] = []
    index = 0
    while index < len(lines):
        if not (lines[index].startswith("--- ") and index + 1 < len(lines) and lines[index + 1].startswith("+++ ")):
            index += 1
            continue
        source, target = _name(lines[index][4:], "a/"), _name(lines[index + 1][4:], "b/")
        hunks, index = _hunks(lines, index + 2)
        if source is None and target is not None:
            found.append(FilePatch("add", target, hunks))
        elif source is not None and target is None:
            found.append(FilePatch("delete", source, hunks))
        elif source is not None and target is not None:
            found.append(FilePatch("update", source, hunks, None if target == source else target))
    return found


def _name(text: str, prefix: str) -> str | None:
    name = text.split("\t", maxsplit=1)[0].strip().strip('"')
    return None if name == "/dev/null" else name.removeprefix(prefix)


def _sections(lines: list[str]) -> list[FilePatch]:
    found: list[FilePatch] = []
    index = 0
    while index < len(lines):
        section = _SECTION.match(lines[index])
        index += 1
        if section is None:
            continue
        path, target = section[2].strip(), None
        if index < len(lines) and lines[index].startswith("*** Move to: "):
            target = lines[index].removeprefix("*** Move to: ").strip()
            index += 1
        hunks, index = _hunks(lines, index)
        kind: Literal["add", "update", "delete"] = (
            "add" if section[1] == "Add" else "delete" if section[1] == "Delete" else "update"
        )
        found.append(FilePatch(kind, path, hunks, target))
    return found


def _hunks(lines: list[str], index: int) -> tuple[tuple[Hunk, ...], int]:
    """The hunks from a line on, and the line behind them."""
    hunks: list[Hunk] = []
    line: int | None = None
    old: list[str] = []
    new: list[str] = []
    at_end = False

    def close() -> None:
        if old or new:
            hunks.append(Hunk(line, tuple(old), tuple(new), at_end))

    while index < len(lines):
        row = lines[index]
        next_file = row.startswith("--- ") and index + 1 < len(lines) and lines[index + 1].startswith("+++ ")
        if next_file or row.startswith(("*** ", "diff --git ")):
            break
        if row.startswith("@@"):
            close()
            header = _HUNK.match(row)
            line, old, new, at_end = (int(header[1]) if header else None), [], [], False
        elif row.startswith("\\"):
            at_end = True
        elif row.startswith("-"):
            old.append(row[1:])
        elif row.startswith("+"):
            new.append(row[1:])
        elif row.startswith(" ") or (row == "" and index + 1 < len(lines)):
            # Editors and models drop the blank that marks an empty line of context.
            old.append(row[1:])
            new.append(row[1:])
        index += 1
    close()
    return tuple(_trimmed(hunks)), index


def _trimmed(hunks: list[Hunk]) -> list[Hunk]:
    """Hunks without the empty lines behind them that belong to nothing."""
    trimmed: list[Hunk] = []
    for hunk in hunks:
        old, new = list(hunk.old), list(hunk.new)
        while old and new and old[-1] == "" and new[-1] == "":
            old.pop()
            new.pop()
        trimmed.append(msgspec.structs.replace(hunk, old=tuple(old), new=tuple(new)))
    return trimmed

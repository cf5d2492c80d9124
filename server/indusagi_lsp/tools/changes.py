"""Changes of files: looked at, shown as a diff, then carried out exactly so, all of them or none.

A file that is open in the editor is changed through the editor, so that the user sees it and can undo it; any other
is replaced on disk.
"""

from __future__ import annotations

import asyncio
import difflib
from contextlib import suppress
from typing import TYPE_CHECKING

import msgspec

from indusagi_lsp.contract.errors import ToolFailed
from indusagi_lsp.contract.text import quoted
from indusagi_lsp.contract.tools import PlannedCall, ToolOutcome
from indusagi_lsp.tools.protected import why_protected
from indusagi_lsp.tools.writing import Seen, Text, decode, look, put, remove

if TYPE_CHECKING:
    from collections.abc import Sequence

    from indusagi_lsp.contract.tools import ToolContext
    from indusagi_lsp.tools.guard import PathGuard

_DIFF_LINES = 20_000


class Original(msgspec.Struct, frozen=True):
    """A file before its change.

    Attributes:
        asked: its path as the model spelled it, below the root.
        seen: what is on disk.
        text: what a change starts from: the editor's text where it is open there, else the disk's.
        unsaved: whether the editor holds something else than the disk.
        open: whether the editor has it open.
    """

    asked: str
    seen: Seen
    text: Text
    unsaved: bool = False
    open: bool = False

    @property
    def exists(self) -> bool:
        """Whether there is such a file, on disk or in the editor."""
        return self.seen.data is not None or self.open


class Change(msgspec.Struct, frozen=True):
    """One file's change; `after` is its new text, None to remove it; `mode` what a new file is given, None as usual."""

    before: Original
    after: str | None
    mode: int | None = None

    @property
    def path(self) -> str:
        """The file's real place below the root."""
        return self.before.seen.path


async def original(guard: PathGuard, path: str, context: ToolContext) -> Original:
    """Look at a file that is to be changed.

    Args:
        guard: of the workspace.
        path: as the model spelled it.
        context: gives the editor's text.

    Raises:
        ToolFailed: it lies outside, is no text, or has unsaved text that no editor would take changes to.
    """
    seen = await asyncio.to_thread(look, guard, path)
    asked = guard.relative(path)
    document = context.document(seen.path)
    if document is None and asked != seen.path:
        document = context.document(asked)
    if document is None:
        return Original(asked, seen, decode(seen))

    crlf = "\r\n" in document and document.count("\r\n") == document.count("\n")
    text = Text(document.replace("\r\n", "\n") if crlf else document, crlf=crlf)
    unsaved = seen.data is None or decode(seen).text != text.text
    if unsaved and context.edit_document is None:
        msg = f"{quoted(seen.path)} has changes in the editor that are not saved."
        raise ToolFailed(msg, hint="Ask the user to save it first.")
    return Original(asked, seen, text, unsaved, open=True)


async def existing(guard: PathGuard, path: str, context: ToolContext, *, hint: str = "") -> Original:
    """The same for a file that must be there; `hint` says what to do else.

    Raises:
        ToolFailed: as `original`, or it is not there.
    """
    before = await original(guard, path, context)
    if not before.exists:
        msg = f"There is no {quoted(path)}."
        raise ToolFailed(msg, hint=hint)
    return before


async def absent(guard: PathGuard, path: str, context: ToolContext, *, hint: str = "") -> Original:
    """The same for a file that must not be there yet; `hint` says what to do else.

    Raises:
        ToolFailed: as `original`, or it is there.
    """
    before = await original(guard, path, context)
    if before.exists:
        msg = f"{quoted(path)} is there already."
        raise ToolFailed(msg, hint=hint)
    return before


def plan(guard: PathGuard, changes: Sequence[Change], context: ToolContext, outcome: str) -> PlannedCall:
    """A call that makes these changes.

    Args:
        guard: of the workspace.
        changes: of different files.
        context: of the call.
        outcome: what the model is told once they are made.

    Raises:
        ToolFailed: nothing would change.
    """
    if all(change.after == change.before.text.text and change.before.exists for change in changes):
        msg = "Nothing would change: the new text is the old one."
        raise ToolFailed(msg)
    reasons = [reason for change in changes if (reason := _why_afresh(change)) is not None]
    head = "".join(f"Careful: {reason}.\n" for reason in reasons)

    async def carry_out() -> ToolOutcome:
        await _carry_out(guard, changes, context)
        return ToolOutcome(outcome)

    writes = {
        change.path: None if change.after is None else change.before.text.encoded(change.after) for change in changes
    }
    return PlannedCall(head + "".join(map(diff, changes)), carry_out, afresh=bool(reasons), writes=writes)


def diff(change: Change) -> str:
    """What a change does, as a unified diff; a text too long to compare is shown as removed and added."""
    old = change.before.text.text if change.before.exists else ""
    new = change.after or ""
    source = f"a/{change.path}" if change.before.exists else "/dev/null"
    target = f"b/{change.path}" if change.after is not None else "/dev/null"
    old_lines, new_lines = _lines(old), _lines(new)
    if len(old_lines) + len(new_lines) > _DIFF_LINES:
        body = [f"--- {source}\n", f"+++ {target}\n", f"@@ -1,{len(old_lines)} +1,{len(new_lines)} @@\n"]
        body += [f"-{line}" for line in old_lines] + [f"+{line}" for line in new_lines]
    else:
        body = list(difflib.unified_diff(old_lines, new_lines, source, target))
    if not body:
        return f"{target}: an empty file\n" if change.after is not None else f"{source}: removed, it was empty\n"
    return "".join(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in body)


def count(change: Change) -> str:
    """How much a change adds and removes: `+3 -1`."""
    old = _lines(change.before.text.text if change.before.exists else "")
    new = _lines(change.after or "")
    if len(old) + len(new) > _DIFF_LINES:
        return f"+{len(new)} -{len(old)}"
    rows = list(difflib.unified_diff(old, new, n=0))[2:]
    added = sum(row.startswith("+") for row in rows)
    return f"+{added} -{sum(row.startswith('-') for row in rows)}"


def _lines(text: str) -> list[str]:
    """Lines with their ends, broken at line feeds alone."""
    lines = text.split("\n")
    ended = [f"{line}\n" for line in lines[:-1]]
    return [*ended, lines[-1]] if lines[-1] else ended


def _why_afresh(change: Change) -> str | None:
    for path in (change.before.asked, change.path):
        name = why_protected(path)
        if name is not None:
            return f"{quoted(change.path)} is protected ({name})"
    if change.before.seen.links > 1:
        return (
            f"{quoted(change.path)} has {change.before.seen.links} names (hard links); only this one gets the new text"
        )
    return None


async def _carry_out(guard: PathGuard, changes: Sequence[Change], context: ToolContext) -> None:
    """Make all changes; when one fails, those that were made are taken back."""
    done: list[Change] = []
    try:
        for change in changes:
            await _apply(guard, change, context)
            done.append(change)
    except ToolFailed:
        for change in reversed(done):
            with suppress(ToolFailed):
                await _take_back(guard, change, context)
        raise


async def _apply(guard: PathGuard, change: Change, context: ToolContext) -> None:
    before = change.before
    if before.open and change.after is not None and context.edit_document is not None:
        path = before.seen.path if context.document(before.seen.path) is not None else before.asked
        document = context.document(path)
        if document is None or before.text.encoded(before.text.text).decode("utf-8", "surrogatepass") != document:
            msg = f"{quoted(change.path)} was changed in the editor meanwhile, so nothing was written."
            raise ToolFailed(msg, hint="Read it again first.")
        new = before.text.encoded(change.after).decode("utf-8", "surrogatepass")
        if not await context.edit_document(path, new):
            msg = f"The editor did not take the change of {quoted(change.path)}."
            raise ToolFailed(msg)
    elif change.after is None:
        await asyncio.to_thread(remove, guard, before.seen)
    else:
        await asyncio.to_thread(put, guard, before.seen, before.text.encoded(change.after), mode=change.mode)


async def _take_back(guard: PathGuard, change: Change, context: ToolContext) -> None:
    before = change.before
    after = None if change.after is None else before.text.encoded(change.after)
    now = Seen(change.path, after)
    if before.open and change.after is not None and context.edit_document is not None:
        await context.edit_document(
            before.asked, before.text.encoded(before.text.text).decode("utf-8", "surrogatepass")
        )
    elif before.seen.data is None:
        await asyncio.to_thread(remove, guard, now)
    else:
        await asyncio.to_thread(put, guard, now, before.seen.data)

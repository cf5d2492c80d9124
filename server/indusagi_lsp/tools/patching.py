"""The tool `apply_patch`: a patch over several files, all of it or nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from msgspec import Meta

from indusagi_lsp.contract.errors import ToolFailed
from indusagi_lsp.contract.models import ToolSpec
from indusagi_lsp.contract.text import quoted
from indusagi_lsp.contract.tools import Effect, PlannedCall, ToolContext
from indusagi_lsp.tools.arguments import Arguments, schema_of, validate_arguments
from indusagi_lsp.tools.base import Planning
from indusagi_lsp.tools.changes import Change, absent, count, existing, plan
from indusagi_lsp.tools.patches import FilePatch, apply, parse

if TYPE_CHECKING:
    from collections.abc import Mapping

    from indusagi_lsp.tools.guard import PathGuard

MAX_FILES = 100


class ApplyPatchArguments(Arguments, frozen=True):
    """What `apply_patch` takes."""

    patch: Annotated[
        str,
        Meta(
            min_length=1, max_length=2_000_000, description="A unified diff with paths relative to the workspace root."
        ),
    ]


class ApplyPatch(Planning):
    """Applies a patch."""

    # It writes in the workspace.
    effects = frozenset({Effect.WRITE})

    def __init__(self, guard: PathGuard) -> None:
        self._guard = guard
        self.spec = ToolSpec(
            "apply_patch",
            "Apply a unified diff to files of the workspace: change, make (--- /dev/null), remove (+++ /dev/null) or"
            " rename them. The lines around each change must be those of the file. All files are changed, or none.",
            schema_of(ApplyPatchArguments),
        )

    async def plan(self, arguments: Mapping[str, Any], context: ToolContext) -> PlannedCall:
        """Apply the patch in memory, and show what comes of it.

        Args:
            arguments: as `ApplyPatchArguments`.
            context: gives the editor's texts.

        Raises:
            ToolFailed: it is no patch, or does not fit the files.
        """
        wanted = validate_arguments(ApplyPatchArguments, arguments)
        patches = parse(wanted.patch)
        if len(patches) > MAX_FILES:
            msg = f"The patch names {len(patches)} files; at most {MAX_FILES} are changed at once."
            raise ToolFailed(msg)
        changes: list[Change] = []
        for patch in patches:
            changes += await self._changes(patch, context)
        paths = [change.path for change in changes]
        twice = next((path for path in paths if paths.count(path) > 1), None)
        if twice is not None:
            msg = f"{quoted(twice)} is in the patch twice."
            raise ToolFailed(msg, hint="Put all its hunks under one header.")
        told = "\n".join(f"{quoted(change.path)}: {_verb(change)}, {count(change)} lines" for change in changes)
        return plan(self._guard, changes, context, told)

    async def _changes(self, patch: FilePatch, context: ToolContext) -> list[Change]:
        if patch.kind == "add":
            before = await absent(self._guard, patch.path, context, hint="Change it instead of making it.")
            return [Change(before, apply("", patch))]
        before = await existing(self._guard, patch.path, context)
        if patch.kind == "delete":
            if before.unsaved:
                msg = f"{quoted(patch.path)} has changes in the editor that are not saved."
                raise ToolFailed(msg, hint="Ask the user to save it first.")
            if patch.hunks:
                # What is to be removed must be what the model thinks it is.
                apply(before.text.text, patch)
            return [Change(before, None)]

        after = apply(before.text.text, patch)
        if patch.target is None:
            return [Change(before, after)]
        target = await absent(self._guard, patch.target, context)
        # A renamed script is still one that can be run.
        return [Change(target, after, before.seen.mode), Change(before, None)]


def _verb(change: Change) -> str:
    if change.after is None:
        return "removed"
    return "changed" if change.before.exists else "made"

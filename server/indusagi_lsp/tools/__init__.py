"""What the agent can do in the workspace: tools, and the guard that stands between them and the user's files.

Every read of a user's file goes through `PathGuard`. Every tool declares its effects and the schema of its
arguments; a mistake of the model is a `ToolFailed` whose message helps it to ask better. What blocks runs in
threads.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from indusagi_lsp.tools.arguments import Arguments, schema_of, validate_arguments
from indusagi_lsp.tools.base import Planning
from indusagi_lsp.tools.commands import FOREGROUND_SECONDS, CommandJob, Jobs, RunCommand, in_background
from indusagi_lsp.tools.editing import EditFile, WriteFile
from indusagi_lsp.tools.excerpts import LISTING, Excerpt, excerpts
from indusagi_lsp.tools.guard import OpenedFile, OpenedFolder, PathGuard
from indusagi_lsp.tools.listing import ListFiles
from indusagi_lsp.tools.lookups import MissingPath
from indusagi_lsp.tools.patching import ApplyPatch
from indusagi_lsp.tools.reading import ReadFile
from indusagi_lsp.tools.searching import SearchText

if TYPE_CHECKING:
    from indusagi_lsp.contract.tools import PlanningTool, Tool
    from indusagi_lsp.tools.policy import Rule

__all__ = [
    "LISTING",
    "ApplyPatch",
    "Arguments",
    "CommandJob",
    "EditFile",
    "Excerpt",
    "Jobs",
    "ListFiles",
    "MissingPath",
    "OpenedFile",
    "OpenedFolder",
    "PathGuard",
    "Planning",
    "ReadFile",
    "RunCommand",
    "SearchText",
    "WriteFile",
    "command_tools",
    "excerpts",
    "in_background",
    "read_only_tools",
    "schema_of",
    "validate_arguments",
    "writing_tools",
]


def read_only_tools(guard: PathGuard) -> tuple[Tool, ...]:
    """The tools that only read: `read_file`, `list_files`, `search_text`.

    Args:
        guard: of the workspace.
    """
    return (ReadFile(guard), ListFiles(guard), SearchText(guard))


def writing_tools(guard: PathGuard) -> tuple[PlanningTool, ...]:
    """The tools that change files: `edit_file`, `write_file`, `apply_patch`. Each call is planned, then asked about.

    Args:
        guard: of the workspace.
    """
    return (EditFile(guard), WriteFile(guard), ApplyPatch(guard))


def command_tools(
    guard: PathGuard, jobs: Jobs, rules: tuple[Rule, ...] = (), *, seconds: float = FOREGROUND_SECONDS
) -> tuple[Tool, ...]:
    """The tools that run programs: `run_command` (to be planned, then asked about) and `command_job`.

    Args:
        guard: of the workspace.
        jobs: the commands in the background; whoever makes these tools closes it.
        rules: of the user, for commands that need no question.
        seconds: that a command in the foreground may take; a little less than the dispatcher gives one call.
    """
    return (RunCommand(guard, jobs, rules=rules, seconds=seconds), CommandJob(jobs))

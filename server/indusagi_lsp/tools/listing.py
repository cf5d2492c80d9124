"""The tool `list_files`: what there is in the workspace, as far as the ignore files do not hide it."""

from __future__ import annotations

import asyncio
import itertools
import os
import re
import time
from collections import Counter
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
from msgspec import Meta

from indusagi_lsp.contract.errors import ToolFailed
from indusagi_lsp.contract.models import ToolSpec
from indusagi_lsp.contract.text import quoted
from indusagi_lsp.contract.tools import Effect, ToolContext, ToolOutcome
from indusagi_lsp.tools.arguments import Arguments, schema_of, validate_arguments
from indusagi_lsp.tools.ignore import IGNORE_FILES, IgnoreRules

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from indusagi_lsp.tools.guard import PathGuard

MAX_ROWS = 400
MAX_FILES = 50_000
MAX_ENTRIES = 200_000
MAX_FOLDER_ENTRIES = 20_000
MAX_DEPTH = 64
MAX_SECONDS = 5.0


class ListFilesArguments(Arguments, frozen=True):
    """What `list_files` takes."""

    path: Annotated[str, Meta(min_length=1, description="Folder to list, relative to the workspace root.")] = "."
    glob: (
        Annotated[
            str,
            Meta(min_length=1, max_length=500, description="Show only files like this: `*.py`, `src/**/*.ts`."),
        ]
        | None
    ) = None


class Walked(msgspec.Struct):
    """What a walk has found, and why it ended early, if it did."""

    files: list[str] = []
    stopped: str = ""


class ListFiles:
    """Lists files below a folder, folders too full to show in one row each."""

    # It only reads.
    effects = frozenset({Effect.READ})

    def __init__(self, guard: PathGuard) -> None:
        self._guard = guard
        self.spec = ToolSpec(
            "list_files",
            "List the files of the workspace below a folder, sorted, one path a line, relative to the"
            " workspace root. What the ignore files hide is left out. When there are too many, folders are"
            " shown with the number of their files.",
            schema_of(ListFilesArguments),
        )

    async def run(self, arguments: Mapping[str, Any], context: ToolContext) -> ToolOutcome:
        """List the files.

        Args:
            arguments: as `ListFilesArguments`.
            context: not used.

        Returns:
            One path a line, and a note where something is left out.

        Raises:
            ToolFailed: the folder lies outside the workspace, or is none.
        """
        wanted = validate_arguments(ListFilesArguments, arguments)
        return ToolOutcome(await asyncio.to_thread(self._list, wanted))

    def _list(self, wanted: ListFilesArguments) -> str:
        matches = glob_matcher(wanted.glob)
        walked = Walked()
        for path in walk(self._guard, wanted.path, walked):
            if matches(path):
                walked.files.append(path)
            if len(walked.files) >= MAX_FILES:
                walked.stopped = f"only the first {MAX_FILES:,} files were looked at"
                break
        if not walked.files:
            looked = f" like {quoted(wanted.glob)}" if wanted.glob else ""
            stopped = f"; {walked.stopped}" if walked.stopped else ""
            return f"[no files{looked} in {quoted(wanted.path)}{stopped}]"

        rows, note = _fit(sorted(walked.files))
        notes = [text for text in (note, walked.stopped) if text]
        return "\n".join([*rows, f"[{'; '.join(notes)}]"] if notes else rows)


def walk(guard: PathGuard, path: str, walked: Walked) -> Iterator[str]:
    """The files below a folder, in the order of their names, symbolic links not followed.

    Args:
        guard: opens the folders.
        path: folder to begin at.
        walked: is told why the walk ended early.

    Yields:
        Paths below the root in POSIX form.

    Raises:
        ToolFailed: the folder to begin at cannot be listed; one further down is passed over.
    """
    deadline = time.monotonic() + MAX_SECONDS
    seen = 0
    with guard.open_folder(path) as opened:
        first = opened.path
    rules = IgnoreRules()
    for above in _folders_above(first):
        rules = rules.entering(guard, above, frozenset(IGNORE_FILES))
    pending: list[tuple[str, IgnoreRules | None, int]] = [(first, rules, 0)]
    while pending:
        folder, above_rules, depth = pending.pop()
        if above_rules is None:
            yield folder
            continue
        try:
            found = _entries(guard, folder)
        except (ToolFailed, OSError):
            if folder == first:
                raise
            continue
        seen += len(found)
        names = frozenset(name for name, _, _ in found)
        if len(found) == MAX_FOLDER_ENTRIES:
            names |= frozenset(IGNORE_FILES)
            walked.stopped = f"only {MAX_FOLDER_ENTRIES:,} entries of {quoted(folder or '.')} were looked at"
        rules = above_rules.entering(guard, folder, names)
        prefix = f"{folder}/" if folder else ""
        # Files wait among the folders, without rules, so that everything comes in one order.
        for name, is_folder, shown in sorted(found, reverse=True):
            if (shown or (is_folder and depth < MAX_DEPTH)) and not rules.hides(prefix + name, is_folder=is_folder):
                pending.append((prefix + name, rules if is_folder else None, depth + 1))
        if pending and (seen > MAX_ENTRIES or time.monotonic() > deadline):
            walked.stopped = "the folder is too large to be looked at whole; name a smaller one"
            return


def glob_matcher(glob: str | None) -> Callable[[str], bool]:
    """A test for paths below the root: a glob without a slash fits the name at any depth, as in ignore files.

    Args:
        glob: with `*`, `?`, `**`, `[…]` and `{a,b}`; None fits everything.

    Raises:
        ToolFailed: the pattern is malformed.
    """
    if glob is None:
        return lambda _: True

    from pathspec import GitIgnoreSpec

    try:
        spec = GitIgnoreSpec.from_lines([pattern.removeprefix("./") for pattern in _alternatives(glob)])
    except ValueError:
        msg = f"{quoted(glob)} is not a glob pattern."
        raise ToolFailed(msg) from None
    return spec.match_file


def _alternatives(glob: str, limit: int = 64) -> list[str]:
    """The patterns that a glob with braces stands for; beyond `limit` of them braces stay as they are."""
    done: list[str] = []
    pending = [glob]
    while pending:
        pattern = pending.pop()
        braces = re.search(r"\{([^{}]*,[^{}]*)\}", pattern)
        if braces is None or len(done) + len(pending) >= limit:
            done.append(pattern)
            continue
        pending.extend(pattern[: braces.start()] + part + pattern[braces.end() :] for part in braces[1].split(","))
    return done


def _fit(files: list[str]) -> tuple[list[str], str]:
    """Rows for at most `MAX_ROWS` lines: as deep as they go, folders below that with a count."""
    if len(files) <= MAX_ROWS:
        return [quoted(path) for path in files], ""

    best: list[str] | None = None
    for depth in range(1, MAX_DEPTH):
        counts = Counter("/".join(path.split("/")[:depth]) if path.count("/") >= depth else "" for path in files)
        shallow = [path for path in files if path.count("/") < depth]
        del counts[""]
        if len(shallow) + len(counts) > MAX_ROWS:
            break
        rows = [(path, quoted(path)) for path in shallow]
        rows += [(folder, f"{quoted(folder)}/ ({count:,} files)") for folder, count in counts.items()]
        best = [row for _, row in sorted(rows)]
    if best is None:
        return [
            quoted(path) for path in files[:MAX_ROWS]
        ], f"{len(files) - MAX_ROWS:,} more of {len(files):,} files; narrow with glob"
    return (
        best,
        f"{len(files):,} files; list a folder, or narrow with glob, to see those that are only counted",
    )


def _entries(guard: PathGuard, folder: str) -> list[tuple[str, bool, bool]]:
    """What a folder holds: name, whether it is a folder, whether it is to be listed."""
    with guard.open_folder(folder or ".") as opened, os.scandir(opened.handle) as entries:
        return [
            (entry.name, entry.is_dir(follow_symlinks=False), _is_shown(entry))
            for entry in itertools.islice(entries, MAX_FOLDER_ENTRIES)
        ]


def _is_shown(entry: os.DirEntry[str]) -> bool:
    """Regular files, and links whatever they lead to; no devices, pipes or sockets."""
    return entry.is_symlink() or entry.is_file(follow_symlinks=False)


def _folders_above(path: str) -> list[str]:
    """The folders from the root down to the parent of `path`; their ignore files hold for it too."""
    parts = path.split("/") if path else []
    return ["/".join(parts[:count]) for count in range(len(parts))]

"""Ignore files: which paths of a workspace nobody wants to see listed or searched."""

from __future__ import annotations

from typing import TYPE_CHECKING

from indusagi_lsp.contract.errors import ToolFailed
from indusagi_lsp.tools.names import plain_name

if TYPE_CHECKING:
    from pathspec import GitIgnoreSpec

    from indusagi_lsp.tools.guard import PathGuard

IGNORE_FILES = (".gitignore", ".ignore")
"""Read in every folder; the later one has the last word."""

NEVER_SHOWN = frozenset({".git", ".hg", ".svn", ".indusagi"})
"""Folders that are never listed or searched, whatever the ignore files say."""

_MAX_IGNORE_BYTES = 256 * 1024


class IgnoreRules:
    """The rules that hold in one folder: its own and those of the folders above it.

    Args:
        levels: (folder's path with a slash at the end, its patterns), from the root down.
    """

    def __init__(self, levels: tuple[tuple[str, GitIgnoreSpec], ...] = ()) -> None:
        self._levels = levels

    def entering(self, guard: PathGuard, folder: str, names: frozenset[str]) -> IgnoreRules:
        """The rules inside `folder`, which holds `names`.

        Args:
            guard: reads the ignore files.
            folder: path below the root in POSIX form, empty for the root.
            names: what the folder holds.
        """
        levels = self._levels
        prefix = f"{folder}/" if folder else ""
        if not folder:
            levels = (*levels, *_read(guard, ".git/info/exclude", ""))
        for name in IGNORE_FILES:
            if name in names:
                levels = (*levels, *_read(guard, prefix + name, prefix))
        return self if levels is self._levels else IgnoreRules(levels)

    def hides(self, path: str, *, is_folder: bool) -> bool:
        """Whether `path`, in POSIX form below the root, is not to be shown."""
        if plain_name(path.rpartition("/")[2]) in NEVER_SHOWN:
            return True
        marked = f"{path}/" if is_folder else path
        for prefix, spec in reversed(self._levels):
            verdict = spec.check_file(marked[len(prefix) :]).include
            if verdict is not None:
                return verdict
        return False


def _read(guard: PathGuard, path: str, prefix: str) -> tuple[tuple[str, GitIgnoreSpec], ...]:
    """The patterns of one ignore file; one that is not there, or is no ignore file, has none."""
    from pathspec import GitIgnoreSpec

    try:
        lines = guard.read_bytes(path, _MAX_IGNORE_BYTES).decode("utf-8", "surrogateescape").splitlines()
        return ((prefix, GitIgnoreSpec.from_lines(lines)),)
    except (ToolFailed, ValueError):
        return ()

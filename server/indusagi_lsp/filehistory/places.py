"""The user's files as the history sees and changes them: through the guard, whole or not at all. All of it blocks."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Mapping
from contextlib import suppress

from indusagi_lsp.contract.errors import ToolFailed
from indusagi_lsp.filehistory.records import ABSENT, State
from indusagi_lsp.filehistory.scan import digest
from indusagi_lsp.tools import PathGuard
from indusagi_lsp.tools.writing import MAX_FILE_BYTES, Seen, look, put, remove

_BOM = b"\xef\xbb\xbf"
OTHER = "other:"
"""How the stamp of what is no plain file begins."""

_HAS_MODES = os.name == "posix"


class Places:
    """Looks at files, and gives them states.

    Args:
        guard: of the workspace.
        document: the text of a file that is open in the editor.
    """

    def __init__(self, guard: PathGuard, document: Callable[[str], str | None]) -> None:
        self._guard = guard
        self._document = document

    def see(self, path: str) -> tuple[State, bytes | None]:
        """What is on disk at a path, and its content where that is small enough to be kept."""
        try:
            with self._guard.open_spot(path) as spot:
                status = spot.status
                if spot.path != path:
                    return State(None, None, f"{OTHER}a link on the way"), None
            if status is None:
                return ABSENT, None
            mode = stat.S_IMODE(status.st_mode) if _HAS_MODES else None
            if status.st_size > MAX_FILE_BYTES:
                return State(None, mode, f"{status.st_size}:{status.st_mtime_ns}:{status.st_ino}"), None
            data = look(self._guard, path).data
        except (ToolFailed, OSError) as error:
            return State(None, None, f"{OTHER}{error}"), None
        return (ABSENT, None) if data is None else (State(digest(data), mode), data)

    def edited(self, path: str) -> bytes | None:
        """What the editor holds of a file, where that is not what is on disk."""
        document = self._document(path)
        if document is None:
            return None
        data = document.encode("utf-8", "surrogatepass")
        _, there = self.see(path)
        return None if there is not None and there.removeprefix(_BOM) == data.removeprefix(_BOM) else data

    def names(self, path: str) -> int:
        """How many hard links a file has; 0 where there is none."""
        with suppress(ToolFailed, OSError), self._guard.open_spot(path) as spot:
            return spot.status.st_nlink if spot.status is not None else 0
        return 0

    def missing_folders(self, path: str) -> int:
        """How many of the folders above a path are not there."""
        parts = path.split("/")[:-1]
        for count in range(len(parts), 0, -1):
            with suppress(ToolFailed), self._guard.open_folder("/".join(parts[:count])):
                return len(parts) - count
        return len(parts)

    def give(self, path: str, now: bytes | None, data: bytes | None, mode: int | None) -> None:
        """Give a file a content and a mode.

        Args:
            path: below the root, in POSIX form.
            now: what is there; nothing is done where it is something else.
            data: what is to be there, None for nothing.
            mode: permission bits, None to leave them, or to take those of new files.

        Raises:
            ToolFailed: it was changed meanwhile, or the disk refuses.
        """
        seen = Seen(path, now)
        if data is None:
            remove(self._guard, seen)
        else:
            put(self._guard, seen, data, mode=mode if _HAS_MODES else None)

    def remove_folders(self, counts: Mapping[str, int]) -> None:
        """Remove folders that were made for files, where nothing is in them any more.

        Args:
            counts: by path of a file, how many of the folders above it.
        """
        folders: set[str] = set()
        for path, count in counts.items():
            parts = path.split("/")[:-1]
            folders.update("/".join(parts[: len(parts) - up]) for up in range(min(count, len(parts))))
        for folder in sorted(folders, key=lambda folder: folder.count("/"), reverse=True):
            above, _, name = folder.rpartition("/")
            with suppress(ToolFailed, OSError), self._guard.open_folder(above or ".") as opened:
                if isinstance(opened.handle, int):
                    os.rmdir(name, dir_fd=opened.handle)
                else:
                    os.rmdir(os.path.join(opened.handle, name))

"""Which workspace a folder is: one name for it, however its path is written, so that reads and writes agree.

Links, a slash at the end, the case of a drive's letter, percent signs of a URI and the work trees of one git repository
all lead to the same name. Use it with stores that hold several workspaces; a store inside a folder needs no name.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from urllib.parse import unquote, urlsplit

_DRIVE = re.compile(r"^/?([A-Za-z]):(?=[\\/]|$)")
_LONGEST = 4096
"""Bytes of git's pointer files that are read."""


def workspace_identity(folder: str | Path) -> str:
    """The name of the workspace in a folder.

    Args:
        folder: a path, or a `file:` URI.

    Returns:
        The folder's real path in POSIX spelling without a slash at the end; for a work tree of git, that of the
        repository's main work tree, so that all of them remember together.
    """
    path = _plain(str(folder))
    real = Path(os.path.realpath(path))
    home = _main_work_tree(real)
    return _drive_lowered((home or real).as_posix()).rstrip("/") or "/"


def _plain(folder: str) -> str:
    """A path without the spelling of a URI."""
    if folder[:5].lower() == "file:":
        parts = urlsplit(folder)
        path = unquote(parts.path, errors="surrogateescape")
        if parts.netloc and parts.netloc.lower() != "localhost":
            return f"//{parts.netloc}{path}"
        return path.removeprefix("/") if _DRIVE.match(path) else path
    return folder


def _drive_lowered(path: str) -> str:
    return _DRIVE.sub(lambda match: f"{match.group(1).lower()}:", path)


def _main_work_tree(folder: Path) -> Path | None:
    """The main work tree of the repository whose further work tree `folder` is, else None.

    The pointer in `folder` counts only where the repository points back, since anybody can write a file named `.git`
    into a folder, and so claim another's memory.
    """
    pointer = _line(folder / ".git", "gitdir:")
    if pointer is None:
        return None
    admin = Path(os.path.realpath(folder / pointer))
    back = _line(admin / "gitdir", "")
    common = _line(admin / "commondir", "")
    if back is None or common is None or os.path.realpath(admin / back) != os.path.realpath(folder / ".git"):
        return None
    repository = Path(os.path.realpath(admin / common))
    if repository.name != ".git" or admin.parent != repository / "worktrees":
        return None
    return repository.parent


def _line(path: Path, mark: str) -> str | None:
    """The one line of a small plain file that begins with `mark`, without it; None where it is none."""
    try:
        handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0))
    except OSError:
        return None
    try:
        text = os.read(handle, _LONGEST).decode("utf-8", "surrogateescape")
    except OSError:
        return None
    finally:
        os.close(handle)
    return text.removeprefix(mark).strip() if text.startswith(mark) and "\x00" not in text else None

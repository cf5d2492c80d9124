"""The folder that holds session files: made private, never reached through a planted link.

`.indusagi/` lies in a workspace that somebody else may have written, so a link in its place must not lead our writes
elsewhere. Folders are 0700, files 0600 under any umask.
"""

from __future__ import annotations

import contextlib
import os
import stat
from pathlib import Path

from indusagi_lsp.contract.errors import PersistenceFault
from indusagi_lsp.sessions.ids import SUFFIX, session_of

INDUSAGI = ".indusagi"
SESSIONS = "sessions"
LOCKS = ".locks"
CACHE = ".cache"
FILE_MODE = 0o600
FOLDER_MODE = 0o700


def sessions_root(workspace: Path) -> Path:
    """Where the sessions of a workspace folder are kept."""
    return workspace / INDUSAGI / SESSIONS


def open_flags(base: int) -> int:
    """The flags for opening one of our files: in binary, not inherited, never through a link."""
    flags = base | getattr(os, "O_BINARY", 0)
    for name in ("O_CLOEXEC", "O_NOFOLLOW", "O_NOINHERIT", "O_NONBLOCK"):
        flags |= getattr(os, name, 0)
    return flags


def open_private(path: str | Path, base: int) -> int:
    """Open, and with O_CREAT make, one of our own files.

    Raises:
        OSError: also if the path is a link, a folder or a device.
    """
    if not hasattr(os, "O_NOFOLLOW") and os.path.islink(path):
        message = f"{path} is a symbolic link"
        raise OSError(message)

    fd = os.open(path, open_flags(base), FILE_MODE)
    try:
        status = os.fstat(fd)
        if not stat.S_ISREG(status.st_mode):
            message = f"{path} is no regular file"
            raise OSError(message)
        if base & os.O_CREAT and hasattr(os, "fchmod") and status.st_mode & 0o777 != FILE_MODE:
            with contextlib.suppress(PermissionError):  # somebody else's file: its owner decides
                os.fchmod(fd, FILE_MODE)
    except BaseException:
        os.close(fd)
        raise
    return fd


class SessionFolder:
    """The folder of the session files, `root`."""

    def __init__(self, root: Path) -> None:
        self.root = root
        # Below these, a link is a trap; above them, it is the user's own business.
        self._guarded = [root.parent, root] if root.parent.name == INDUSAGI else [root]

    def path(self, session_id: str) -> str:
        """The file of a session."""
        return os.path.join(self.root, session_id + SUFFIX)

    def lock_path(self, session_id: str) -> str:
        """The lock file of a session. Ids are compared without case, so their locks are too."""
        return os.path.join(self.root, LOCKS, session_id.casefold() + ".lock")

    def cache_path(self, name: str) -> str:
        """The place of something derived, which may be deleted at any time."""
        return os.path.join(self.root, CACHE, name)

    def check(self) -> None:
        """See that no link stands in the way.

        Raises:
            PersistenceFault: one does.
        """
        for folder in self._guarded:
            if _is_link(folder):
                msg = f"{folder} is a link to somewhere else, so nothing is read or written through it."
                raise PersistenceFault(
                    msg,
                    hint="Replace the link with a real folder.",
                )

    def ensure(self, *inner: str) -> None:
        """Make the folder, and `inner` in it, where they are not there yet.

        Raises:
            PersistenceFault: a link stands in the way, or the folder cannot be made.
        """
        self.check()
        try:
            self._guarded[0].parent.mkdir(parents=True, exist_ok=True)
            for folder in self._guarded:
                if _make(folder) and folder.name == INDUSAGI:
                    _ignore_all(folder / ".gitignore")
            for name in inner:
                _make(self.root / name)
        except OSError as error:
            msg = f"The folder {self.root} cannot be made: {error.strerror or error}"
            raise PersistenceFault(
                msg,
                hint="Make the workspace writable, or free some space.",
            ) from error
        self.check()

    def names(self) -> list[str]:
        """The ids of the sessions in the folder, sorted.

        Raises:
            PersistenceFault: the folder cannot be read.
        """
        return sorted(name for name, _ in self.entries())

    def entries(self) -> list[tuple[str, os.DirEntry[str]]]:
        """The sessions in the folder, with their directory entries."""
        self.check()
        found: list[tuple[str, os.DirEntry[str]]] = []
        try:
            with os.scandir(self.root) as entries:
                for entry in entries:
                    session = session_of(entry.name)
                    if session is not None and entry.is_file(follow_symlinks=False):
                        found.append((session, entry))
        except (FileNotFoundError, NotADirectoryError):
            return []
        except OSError as error:
            msg = f"The folder {self.root} cannot be read: {error.strerror or error}"
            raise PersistenceFault(
                msg,
                hint="Check its permissions.",
            ) from error
        return found

    def resolve(self, session_id: str) -> str:
        """The id under which a session is on disk: ids are compared without case. The id itself if there is none."""
        if os.path.lexists(self.path(session_id)):
            return session_id
        folded = session_id.casefold()
        return next((name for name in self.names() if name.casefold() == folded), session_id)

    def sync(self) -> None:
        """Make a new name in the folder last through a power loss. Systems without such a call lose nothing by it."""
        if os.name == "nt":
            return
        fd = os.open(self.root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)


def _is_link(path: Path) -> bool:
    try:
        status = os.lstat(path)
    except OSError:
        return False
    return stat.S_ISLNK(status.st_mode) or getattr(status, "st_reparse_tag", 0) != 0


def _make(folder: Path) -> bool:
    """Make one private folder; False if it is there."""
    try:
        os.mkdir(folder, FOLDER_MODE)
    except FileExistsError:
        if not stat.S_ISDIR(os.lstat(folder).st_mode):
            raise
        return False
    os.chmod(folder, FOLDER_MODE)
    return True


def _ignore_all(path: Path) -> None:
    """Keep the folder out of version control until a team decides otherwise."""
    try:
        fd = open_private(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
    except FileExistsError:
        return
    try:
        os.write(fd, b"*\n")
    finally:
        os.close(fd)

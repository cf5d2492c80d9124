"""Single look-ups of the path guard, and what an error of the system means for the one who asked."""

from __future__ import annotations

import errno
import os
import stat
from contextlib import suppress
from typing import NoReturn

from indusagi_lsp.contract.errors import PathOutside, ToolFailed
from indusagi_lsp.contract.text import quoted


class MissingPath(ToolFailed):
    """Nothing is there under that name."""


def split(path: str) -> tuple[str, ...]:
    """The components of a path, without those that lead nowhere."""
    separators = path.replace(os.sep, "/")
    return tuple(part for part in separators.split("/") if part not in ("", "."))


def flags_of(*names: str) -> int:
    """Open flags by name; one that the system lacks is 0."""
    flags = 0
    for name in names:
        flags |= getattr(os, name, 0)
    return flags


def same_file(one: os.stat_result, other: os.stat_result) -> bool:
    """Whether both describe one file."""
    return (one.st_dev, one.st_ino) == (other.st_dev, other.st_ino)


def status_of(path: str, name: str, folder: int) -> os.stat_result:
    """What `name` in a folder is, a link not followed; `path` is for the message."""
    try:
        return os.stat(name, dir_fd=folder, follow_symlinks=False)
    except (OSError, ValueError) as error:
        explain(path, error)


def read_link(path: str, name: str, folder: int) -> str:
    """Where a link in a folder leads."""
    try:
        return os.readlink(name, dir_fd=folder)
    except OSError as error:
        explain(path, error)


def open_at(path: str, name: str, flags: int, folder: int) -> int:
    """Open `name` in a folder; a negative folder means that `name` is a whole path."""
    try:
        return os.open(name, flags) if folder < 0 else os.open(name, flags, dir_fd=folder)
    except OSError as error:
        explain(path, error)


def below_by_identity(real: str, root: os.stat_result) -> tuple[str, ...] | None:
    """The components of `real` below the folder that `root` describes, or None when it is not."""
    below: list[str] = []
    here = real
    while True:
        if same_file(os.stat(here), root):
            return tuple(reversed(below))
        parent, name = os.path.split(here)
        if parent == here:
            return None
        below.append(name)
        here = parent


def pseudo_devices() -> frozenset[int]:
    """Device numbers of the file systems that are windows into the kernel; never the one that `/` lies on."""
    found = set()
    for folder in ("/proc", "/sys", "/dev"):
        try:
            found.add(os.stat(folder).st_dev)
        except OSError:
            continue
    with suppress(OSError):
        found.discard(os.stat("/").st_dev)
    return frozenset(found)


def kind_of(mode: int) -> str:
    """What a mode describes, in words."""
    for test, name in (
        (stat.S_ISDIR, "a folder"),
        (stat.S_ISREG, "a file"),
        (stat.S_ISFIFO, "a pipe"),
        (stat.S_ISSOCK, "a socket"),
        (stat.S_ISLNK, "a symbolic link"),
    ):
        if test(mode):
            return name
    return "a device"


def refuse_outside(path: str) -> NoReturn:
    """Say that a path leaves the workspace."""
    msg = f"{quoted(path)} is outside the workspace."
    raise PathOutside(
        msg,
        hint="Give a path relative to the workspace's root folder.",
    )


def refuse_changed(path: str) -> NoReturn:
    """Say that somebody changed a path meanwhile."""
    msg = f"{quoted(path)} changed while it was being opened."
    raise ToolFailed(msg, hint="Try again.")


def explain(path: str, error: OSError | ValueError) -> NoReturn:
    """Say what an error of the system means for the one who asked."""
    number = error.errno if isinstance(error, OSError) else None
    if number == errno.ENOENT:
        msg = f"There is no {quoted(path)}."
        raise MissingPath(msg) from None
    if number in (errno.ELOOP, errno.ENOTDIR):
        msg = f"{quoted(path)} goes through something that is no folder, or changed meanwhile."
        raise ToolFailed(msg) from None
    if number in (errno.EACCES, errno.EPERM):
        msg = f"{quoted(path)} may not be read: permission denied."
        raise ToolFailed(msg) from None
    msg = f"{quoted(path)} cannot be opened: {getattr(error, 'strerror', None) or 'not a path'}."
    raise ToolFailed(msg) from None

"""Healing a session's file, a blob, a mode: records stay byte for byte, and what is taken out is kept beside them."""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING

from indusagi_lsp.contract import jsontext
from indusagi_lsp.contract.errors import PersistenceFault
from indusagi_lsp.sessions.folder import FILE_MODE, LOCKS, SessionFolder, open_private
from indusagi_lsp.sessions.locking import LockFile
from indusagi_lsp.sessions.records import Problem, Record, parse_line

if TYPE_CHECKING:
    from pathlib import Path

_BLANK = b"\r\n\t "
_MANY = 100_000


def heal_file(folder: SessionFolder, session_id: str, now: int) -> bool:
    """Write a session's file anew, one record a line.

    Bytes that are no record go to `<session>.broken-<n>`, each piece on a line; a `repair` record says so.
    The new file takes the old one's place at once, so a crash leaves one or the other.

    Args:
        folder: the folder of the session files.
        session_id: the session.
        now: milliseconds since the epoch, for the `repair` record.

    Returns:
        Whether it was done.

    Raises:
        PersistenceFault: the disk refused; the file is as it was.
    """
    lock = LockFile(folder.lock_path(session_id), lambda: folder.ensure(LOCKS))
    try:
        with lock.held():
            return _rewrite(folder, session_id, now)
    except OSError as error:
        message = f"Session {session_id} could not be repaired: {error.strerror or error}."
        raise PersistenceFault(message, hint="The file is as it was. Free some space and try again.") from error
    finally:
        lock.close()


def heal_mode(path: str) -> bool:
    """Make a file private; False if it is somebody else's."""
    with contextlib.suppress(OSError):
        os.chmod(path, FILE_MODE, follow_symlinks=os.chmod not in os.supports_follow_symlinks)
        return True
    return False


def heal_blob(blobs_dir: Path, digest: str) -> bool:
    """Put a blob aside whose bytes are not those that its name promises."""
    for number in range(1, _MANY):
        target = blobs_dir / f"{digest}.broken-{number}"
        if target.exists():
            continue

        with contextlib.suppress(OSError):
            (blobs_dir / digest).rename(target)
            return True
        return False

    return False


def _rewrite(folder: SessionFolder, session_id: str, now: int) -> bool:
    path = folder.path(session_id)
    temporary = f"{path}.{os.getpid()}.new"
    removed: list[bytes] = []
    with contextlib.ExitStack() as stack:
        source = stack.enter_context(os.fdopen(open_private(path, os.O_RDONLY), "rb"))
        target = stack.enter_context(os.fdopen(open_private(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), "wb"))
        try:
            offset = 0
            for line in source:
                target.writelines(_healed(line, offset, removed))
                offset += len(line)
            if removed:
                kept = _keep(folder, session_id, removed)
                size = sum(map(len, removed))
                note = {"type": "repair", "at": now, "bytes": size, "reason": "no record", "kept": kept}
                target.write(jsontext.dumps(note) + b"\n")
            target.flush()
            os.fsync(target.fileno())
            os.replace(temporary, path)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(temporary)
            raise

    folder.sync()
    return True


def _healed(line: bytes, offset: int, removed: list[bytes]) -> list[bytes]:
    """The records of a line, each as a line of its own; the rest goes to `removed`."""
    items = parse_line(line, offset)
    if not items:
        if line.strip(_BLANK):
            removed.append(line.strip(_BLANK))
        return []

    whole: list[bytes] = []
    for item in items:
        piece = line[item.offset - offset : item.offset - offset + item.length]
        if isinstance(item, Record):
            whole.append(piece + b"\n")
        elif isinstance(item, Problem):
            removed.append(piece)

    return whole


def _keep(folder: SessionFolder, session_id: str, pieces: list[bytes]) -> str:
    for number in range(1, _MANY):
        name = f"{session_id}.broken-{number}"
        try:
            descriptor = open_private(os.path.join(folder.root, name), os.O_WRONLY | os.O_CREAT | os.O_EXCL)
        except FileExistsError:
            continue

        with os.fdopen(descriptor, "wb") as file:
            file.writelines(piece + b"\n" for piece in pieces)
            file.flush()
            os.fsync(descriptor)
        return name

    raise OSError("too many broken pieces are kept already")

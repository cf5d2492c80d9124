"""What the journal of file changes says: states of files, and the changes that lead from one to the next."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Literal, TypeAlias

import msgspec

By: TypeAlias = Literal["edit", "command", "restore"]
Conflict: TypeAlias = Literal["changed", "between", "command", "unfinished", "removal", "protected"]


class State(msgspec.Struct, frozen=True):
    """What is at a path. Without `sha` and `stamp` there is nothing.

    Attributes:
        sha: SHA-256 of the content, in hex; the content is kept under it.
        mode: permission bits; None where they are not known or mean nothing.
        stamp: stands for a content that could not be kept: too large, or no regular file.
    """

    sha: str | None = None
    mode: int | None = None
    stamp: str | None = None

    @property
    def absent(self) -> bool:
        """Whether nothing is there."""
        return self.sha is None and self.stamp is None

    @property
    def restorable(self) -> bool:
        """Whether the file can be given this state again."""
        return self.stamp is None

    def same(self, other: State) -> bool:
        """Whether both are one state, as far as is known: a mode that is not known fits any."""
        if (self.sha, self.stamp) != (other.sha, other.stamp):
            return False
        return self.mode == other.mode or self.mode is None or other.mode is None


ABSENT = State()


class FileChange(msgspec.Struct):
    """One file's part of a change.

    Attributes:
        before: what was there; its content was kept before anything happened.
        aim: what is to be there afterwards; None where only the end tells.
        after: what was there at the end; None while that is not known.
        void: nothing came of it.
        standing: after a restore, the changes that are in effect.
        folders: how many of the folders above it were made for it.
    """

    before: State
    aim: State | None = None
    after: State | None = None
    void: bool = False
    standing: tuple[str, ...] = ()
    folders: int = 0


class Entry(msgspec.Struct):
    """One change of the journal.

    Attributes:
        seq: its place in the journal, from 0.
        call: the tool call that made it, empty for a restore.
        at: when it began, in milliseconds since the epoch.
        files: by path below the root, in POSIX form.
        unkept: files that a command changed or may have changed, and whose old content could not be kept.
    """

    id: str
    seq: int
    session: str
    call: str
    by: By
    at: int
    files: dict[str, FileChange]
    unkept: int = 0


class Watched(msgspec.Struct, frozen=True):
    """A command that was started: `manifest` names the list of all files before it, `pid` the process that runs it."""

    id: str
    session: str
    call: str
    at: int
    manifest: str
    pid: int


def state_json(state: State | None) -> list[Any] | None:
    """A state as the journal writes it: content, mode, stamp."""
    return None if state is None else [state.sha, state.mode, state.stamp]


def read_state(raw: Any) -> State | None:
    """A state as the journal writes it, or None."""
    return None if raw is None else State(raw[0], raw[1], raw[2])


def begin_json(entry: Entry) -> dict[str, Any]:
    """The record that goes to disk before a change happens."""
    return {
        "type": "begin",
        "id": entry.id,
        "session": entry.session,
        "call": entry.call,
        "by": entry.by,
        "at": entry.at,
        "unkept": entry.unkept,
        "files": [
            {
                "path": path,
                "before": state_json(change.before),
                "aim": state_json(change.aim),
                "standing": list(change.standing),
                "folders": change.folders,
            }
            for path, change in entry.files.items()
        ],
    }


def end_json(entry_id: str, files: Mapping[str, FileChange]) -> dict[str, Any]:
    """The record that says what came of a change."""
    return {
        "type": "end",
        "id": entry_id,
        "files": [
            {"path": path, "after": state_json(change.after), "void": change.void} for path, change in files.items()
        ],
    }


def watch_json(watched: Watched) -> dict[str, Any]:
    """The record that a command was started."""
    return {"type": "watch", **msgspec.structs.asdict(watched)}


def read_begin(raw: Mapping[str, Any], seq: int) -> Entry:
    """Read what `begin_json` wrote.

    Raises:
        KeyError, TypeError, IndexError: it is something else.
    """
    files = {
        file["path"]: FileChange(
            read_state(file["before"]) or ABSENT,
            read_state(file["aim"]),
            standing=tuple(file["standing"]),
            folders=file["folders"],
        )
        for file in raw["files"]
    }
    return Entry(raw["id"], seq, raw["session"], raw["call"], raw["by"], raw["at"], files, raw["unkept"])


def read_watch(raw: Mapping[str, Any]) -> Watched:
    """Read what `watch_json` wrote.

    Raises:
        KeyError: it is something else.
    """
    return Watched(raw["id"], raw["session"], raw["call"], raw["at"], raw["manifest"], raw["pid"])


def note_end(entry: Entry, files: Iterable[Mapping[str, Any]]) -> None:
    """Take over what came of a change."""
    for file in files:
        change = entry.files.get(file["path"])
        if change is not None:
            change.after = read_state(file["after"])
            change.void = bool(file["void"])

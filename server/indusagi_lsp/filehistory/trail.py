"""One file's changes, told in order: which of the agent's changes are in effect, and what the user did in between."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from indusagi_lsp.filehistory.records import Conflict, Entry, FileChange, State

USER = "~"
"""Begins the name of what somebody else than the agent did to a file; the rest names the change that noticed it."""


class Left(msgspec.Struct, frozen=True):
    """How a file was when a change stopped being its last one, and what was in effect then."""

    state: State
    standing: tuple[str, ...]


class Trail:
    """The story of one path.

    Attributes:
        standing: the agent's changes that are in effect, the oldest first, with the user's in between.
        happened: all of them, those that were undone included, in order.
        left: by change (None: before the first), how the file was when the next one came. What the user had done to it
            until then is in it, so that going back loses nothing of that.
        doubtful: changes that may be the user's own: made while a command ran, or of a process that was killed.
        tip: how the file is, if nobody else has changed it since; None if the agent never did.
        was: by change, what was in effect before it.
    """

    def __init__(self) -> None:
        self.standing: list[str] = []
        self.happened: list[str] = []
        self.left: dict[str | None, Left] = {}
        self.doubtful: dict[str, Conflict] = {}
        self.tip: State | None = None
        self.was: dict[str, tuple[str, ...]] = {}
        self._pending: tuple[Entry, FileChange] | None = None

    @property
    def last(self) -> str | None:
        """The agent's last change in effect."""
        return next((one for one in reversed(self.standing) if not one.startswith(USER)), None)

    def take(self, entry: Entry, change: FileChange) -> None:
        """The next change of the journal."""
        if change.void:
            return
        self.settle(change.before)
        if self.tip is not None and not self.tip.same(change.before):
            self.standing.append(USER + entry.id)
        self.left[self.last] = Left(change.before, tuple(self.standing))
        self.was[entry.id] = tuple(self.standing)
        if entry.by == "restore":
            self.standing = list(change.standing)
        else:
            self.standing.append(entry.id)
            self.happened.append(entry.id)
            if entry.by == "command":
                self.doubtful[entry.id] = "command"
        self.tip = change.after
        if change.after is None:
            self._pending = (entry, change)

    def settle(self, seen: State) -> None:
        """What was seen next tells how a change ended whose end was not written."""
        if self._pending is None:
            return
        entry, change = self._pending
        self._pending = None
        self.tip = change.aim or seen
        if seen.same(change.before):
            self.tip = seen
            self.standing = list(self.was[entry.id])
            if self.happened and self.happened[-1] == entry.id:
                self.happened.pop()
        elif change.aim is None or not seen.same(change.aim) or (change.aim.mode is None and not change.aim.absent):
            # Somebody may have changed it since; of a file that was made, the mode may be theirs.
            self.doubtful[entry.id] = "unfinished"


def trail_of(path: str, entries: Iterable[Entry], current: State) -> Trail:
    """Tell the story of a path.

    Args:
        path: below the root, in POSIX form.
        entries: the changes that count, in order.
        current: what is there now.
    """
    trail = Trail()
    for entry in entries:
        change = entry.files.get(path)
        if change is not None:
            trail.take(entry, change)
    trail.settle(current)
    return trail

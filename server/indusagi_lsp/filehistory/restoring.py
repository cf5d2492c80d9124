"""Carries plans out: all is looked at again and kept first, then done file by file, and taken back on failure."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress

import msgspec

from indusagi_lsp.contract.clock import Clock, NewId
from indusagi_lsp.contract.errors import InvalidInput, InvalidState, PersistenceFault, ToolFailed
from indusagi_lsp.contract.text import quoted
from indusagi_lsp.filehistory.contents import Contents
from indusagi_lsp.filehistory.journal import Journal
from indusagi_lsp.filehistory.places import Places
from indusagi_lsp.filehistory.planning import Choice, RestoreItem, RestorePlan
from indusagi_lsp.filehistory.records import Entry, FileChange, begin_json, end_json


class Restored(msgspec.Struct, frozen=True):
    """What was done: `id` names the restore, so that it can be undone; None when nothing was to be done.

    `kept` are the files of the plan that were left as they are.
    """

    id: str | None
    restored: tuple[str, ...]
    kept: tuple[str, ...]


class _Step(msgspec.Struct, frozen=True):
    item: RestoreItem
    now: bytes | None
    target: bytes | None


class Restorer:
    """Gives files other states, all of them or none. All of it blocks.

    Args:
        places: the user's files.
        contents: the contents that were kept.
        journal: of the workspace.
        clock: the time.
        new_id: makes ids.
    """

    def __init__(self, places: Places, contents: Contents, journal: Journal, *, clock: Clock, new_id: NewId) -> None:
        self._places = places
        self._contents = contents
        self._journal = journal
        self._clock = clock
        self._new_id = new_id

    def apply(self, plan: RestorePlan, choices: Mapping[str, Choice]) -> Restored:
        """Carry a plan out; as `FileHistory.apply`."""
        chosen = _chosen(plan, choices)
        kept = tuple(item.path for item in plan.items if item not in chosen)
        if not chosen:
            return Restored(None, (), kept)

        steps = [self._prepare(item) for item in chosen]
        files = {
            step.item.path: FileChange(
                step.item.current,
                step.item.target,
                standing=step.item.standing,
                folders=self._places.missing_folders(step.item.path) if step.item.current.absent else 0,
            )
            for step in steps
        }
        entry = Entry(self._new_id(), 0, plan.session, "", "restore", self._clock.now_ms(), files)
        self._journal.append(begin_json(entry))
        done: list[_Step] = []
        try:
            for step in steps:
                item = step.item
                self._places.give(item.path, step.now, step.target, item.target.mode)
                done.append(step)
        except ToolFailed as error:
            self._take_back(done, files)
            self._journal.append(end_json(entry.id, self._ends(files)))
            raise PersistenceFault(
                f"{error.message} No file was restored.", hint=error.hint or "Make a new plan, then try again."
            ) from error
        self._places.remove_folders({step.item.path: step.item.folders for step in steps if step.target is None})
        self._journal.append(end_json(entry.id, self._ends(files)))
        return Restored(entry.id, tuple(files), kept)

    def _prepare(self, item: RestoreItem) -> _Step:
        """Look at a file again, and keep what is there."""
        state, now = self._places.see(item.path)
        if state != item.current or self._places.edited(item.path) is not None:
            msg = f"{quoted(item.path)} was changed since the plan was made, so nothing was restored."
            raise InvalidState(msg, hint="Make a new plan, and look at it again.")
        if now is not None:
            self._contents.keep(now)
        target = None
        if item.target.sha is not None:
            target = self._contents.get(item.target.sha)
            if target is None:
                msg = f"The old content of {quoted(item.path)} is not there any more, so nothing was restored."
                raise InvalidState(msg, hint="Leave this file out.")
        return _Step(item, now, target)

    def _take_back(self, done: list[_Step], files: Mapping[str, FileChange]) -> None:
        for step in reversed(done):
            item = step.item
            # Whoever has changed the file in this moment keeps it: then it stands as restored and changed.
            with suppress(ToolFailed):
                self._places.give(item.path, step.target, step.now, item.current.mode)
        self._places.remove_folders({path: change.folders for path, change in files.items()})

    def _ends(self, files: Mapping[str, FileChange]) -> dict[str, FileChange]:
        """What came of each file, as the disk tells it: a file that somebody changes in this moment counts as done."""
        ended = {}
        for path, change in files.items():
            now, _ = self._places.see(path)
            void = now.same(change.before)
            ended[path] = FileChange(change.before, change.aim, None if void else change.aim, void=void)
            if not void and change.aim is not None and change.aim.mode is None and now.sha == change.aim.sha:
                ended[path].after = now
        return ended


def _chosen(plan: RestorePlan, choices: Mapping[str, Choice]) -> list[RestoreItem]:
    items = {item.path: item for item in plan.items}
    for path, choice in choices.items():
        item = items.get(path)
        if item is None:
            msg = f"{quoted(path)} is not among the files to restore."
            raise InvalidInput(msg, hint="Choose only among the files of the plan.")
        if choice == "restore" and item.problem:
            msg = f"{quoted(path)} cannot be restored: {item.problem}."
            raise InvalidInput(msg, hint="Leave this file out.")
    return [
        item
        for item in plan.items
        if choices.get(item.path) == "restore" or (item.by_itself and choices.get(item.path) != "keep")
    ]

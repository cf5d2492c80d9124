"""The history of the user's files in one workspace: what the agent changed, and the way back.

Before a change happens the old content is on disk (`before`), and what came of it is written afterwards (`after`). A
plan shows what going back to a node would do; applying it is a change like any other, so that it can be undone too.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Literal, TypeAlias

import msgspec

from indusagi_lsp.contract.clock import Clock, NewId, SystemClock, new_uuid
from indusagi_lsp.contract.errors import InvalidInput
from indusagi_lsp.filehistory.contents import Collected, Contents
from indusagi_lsp.filehistory.journal import Journal
from indusagi_lsp.filehistory.lineage import Lineage
from indusagi_lsp.filehistory.places import Places
from indusagi_lsp.filehistory.planning import (
    Choice,
    Goal,
    Planner,
    RestoreItem,
    RestorePlan,
    goal_at,
    goal_before,
    make_plan,
)
from indusagi_lsp.filehistory.records import By, Entry, FileChange, State, begin_json, end_json
from indusagi_lsp.filehistory.restoring import Restored, Restorer
from indusagi_lsp.filehistory.scan import Limits, Scanner, digest
from indusagi_lsp.filehistory.trail import Trail
from indusagi_lsp.filehistory.watching import Changed, Watcher
from indusagi_lsp.sessions.folder import SessionFolder
from indusagi_lsp.tools import PathGuard

FILES = "files"
Kind: TypeAlias = Literal["made", "changed", "removed", "same"]


class ChangedFile(msgspec.Struct, frozen=True):
    """What the agent did to a file on the way to a node.

    Attributes:
        kind: what it comes to; `same` where the last change brought back what was there before the first.
        by: who made the last of the changes.
        calls: the tool calls, the oldest first, each with the node that it stands in.
        kept: whether the content before the first of them was kept.
    """

    path: str
    kind: Kind
    by: By
    calls: tuple[tuple[str, str], ...]
    kept: bool


class FileHistory:
    """The file history of one workspace. Its coroutines do their work in threads.

    Args:
        guard: of the workspace.
        folder: where contents and journal lie, `.indusagi/files`.
        seal: makes a mac with the user's key.
        document: the text of a file that is open in the editor, by its path below the root.
        clock: the time.
        new_id: makes ids.
        limits: of the scans around commands.
    """

    def __init__(
        self,
        guard: PathGuard,
        folder: Path,
        seal: Callable[[bytes], bytes],
        *,
        document: Callable[[str], str | None] = lambda _: None,
        clock: Clock | None = None,
        new_id: NewId = new_uuid,
        limits: Limits | None = None,
    ) -> None:
        private = SessionFolder(folder)
        self._clock = clock or SystemClock()
        self._new_id = new_id
        self._contents = Contents(private)
        self._journal = Journal(private, seal)
        self._places = Places(guard, document)
        self._planner = Planner(self._places, self._contents.get)
        self._restorer = Restorer(self._places, self._contents, self._journal, clock=self._clock, new_id=new_id)
        scanner = Scanner(guard, lambda data: self._contents.keep(data, lasting=False), limits)
        self._watcher = Watcher(self._journal, self._contents, self._places, scanner, clock=self._clock, new_id=new_id)

    # --- keeping ------------------------------------------------------------------------------------------------------

    async def before(self, writes: Mapping[str, bytes | None], session_id: str, call_id: str) -> str:
        """Files are about to be changed: on return their old contents are safe.

        Args:
            writes: by path below the root, the content that each is to have, None for one that is to be removed.
            session_id: of the call.
            call_id: of the call.

        Returns:
            The change's id, for `after`.

        Raises:
            PersistenceFault: they cannot be kept, so nothing may be changed.
        """
        return await asyncio.to_thread(self._before, writes, session_id, call_id)

    async def after(self, change: str, *, done: bool) -> None:
        """The change has ended.

        Args:
            change: from `before`.
            done: whether it was made; else the files tell how much of it was.

        Raises:
            PersistenceFault: the journal cannot be written; the files tell what came of the change.
        """
        await asyncio.to_thread(self._after, change, done)

    async def command_starts(self, session_id: str, call_id: str) -> str:
        """A command is about to run: keep what it could change, within limits.

        Raises:
            PersistenceFault: it cannot be kept.
        """
        return await asyncio.to_thread(self._watcher.start, session_id, call_id)

    async def command_ended(self, name: str, *, background: bool = False) -> Changed:
        """The command has ended, or goes on in the background; gives what it changed until now.

        Raises:
            PersistenceFault: the journal cannot be written.
        """
        return await asyncio.to_thread(self._watcher.end, name, background=background)

    async def settle(self, *, still_running: bool) -> None:
        """Look for what commands have changed that ended unseen: in the background, or because they were killed.

        Args:
            still_running: whether a command in the background may go on changing files.

        Raises:
            PersistenceFault: the journal cannot be read or written.
        """
        await asyncio.to_thread(self._settle, still_running)

    # --- looking ------------------------------------------------------------------------------------------------------

    async def changes(self, lineage: Lineage, node: str | None) -> list[ChangedFile]:
        """What the agent changed on the way from the root to a node, by path.

        Raises:
            NodeNotFound: there is no such node.
            PersistenceFault: the journal cannot be read.
        """
        return await asyncio.to_thread(self._changes, lineage, node)

    async def plan_restore(self, lineage: Lineage, node: str | None) -> RestorePlan:
        """What it would take to bring the files back to where they were at a node; None is before anything was said.

        Raises:
            NodeNotFound: there is no such node.
            PersistenceFault: the journal cannot be read.
        """
        return await asyncio.to_thread(self._plan, lineage, node)

    async def plan_undo(self, lineage: Lineage, restore: str) -> RestorePlan:
        """What it would take to undo a restore.

        Raises:
            InvalidInput: there was no such restore in the session.
            PersistenceFault: the journal cannot be read.
        """
        return await asyncio.to_thread(self._plan_undo, lineage, restore)

    async def content(self, item: RestoreItem) -> bytes | None:
        """What a file of a plan is to hold; None where it is not to be there, or its content is lost."""
        return None if item.target.sha is None else await asyncio.to_thread(self._contents.get, item.target.sha)

    async def apply(self, plan: RestorePlan, choices: Mapping[str, Choice] | None = None) -> Restored:
        """Carry a plan out: all of it, or nothing.

        Args:
            plan: as it was made; if a file of it was changed since, nothing is done.
            choices: by path; a file without one is done if nothing speaks against it.

        Raises:
            InvalidInput: a choice for a file that is not in the plan, or that cannot be restored.
            InvalidState: a file was changed since the plan was made.
            PersistenceFault: a file could not be written; those that were are as they were before.
        """
        return await asyncio.to_thread(self._apply, plan, choices or {})

    async def collect(self, sessions: Collection[str], *, dry_run: bool = False) -> Collected:
        """Remove the old contents that nothing can need any more.

        Args:
            sessions: those whose history is to stay, with all that they were forked from.
            dry_run: only tell.

        Raises:
            PersistenceFault: the journal cannot be read, or a content cannot be removed.
        """
        return await asyncio.to_thread(self._collect, sessions, dry_run)

    def close(self) -> None:
        """Give every file back."""
        self._journal.close()

    # --- inside: all of it blocks -------------------------------------------------------------------------------------

    def _before(self, writes: Mapping[str, bytes | None], session_id: str, call_id: str) -> str:
        files: dict[str, FileChange] = {}
        for path, wanted in writes.items():
            state, data = self._places.see(path)
            edited = self._places.edited(path)
            if edited is not None:
                state, data = State(digest(edited), state.mode), edited
            if data is not None:
                self._contents.keep(data)
            # A file keeps its mode when it is edited; what mode a new one gets is told by the end.
            aim = State() if wanted is None else State(digest(wanted), state.mode)
            folders = self._places.missing_folders(path) if state.absent else 0
            files[path] = FileChange(state, aim, folders=folders)
        entry = Entry(self._new_id(), 0, session_id, call_id, "edit", self._clock.now_ms(), files)
        self._journal.append(begin_json(entry))
        return entry.id

    def _after(self, change: str, done: bool) -> None:
        entry = next((entry for entry in reversed(self._journal.entries()) if entry.id == change), None)
        if entry is None:
            msg = f"There is no change {change}."
            raise InvalidInput(msg)
        ended: dict[str, FileChange] = {}
        for path, file in entry.files.items():
            now = self._places.see(path)[0]
            edited = self._places.edited(path)
            seen = now if edited is None else State(digest(edited), now.mode)
            aim = file.aim or seen
            # Where it was made, what is there now may already be the user's; the change itself is what was aimed at.
            made = done or (seen.same(aim) and not seen.same(file.before))
            after = State(aim.sha, now.mode if aim.sha is not None else None)
            ended[path] = FileChange(file.before, aim, after if made else None, void=not made)
        self._journal.append(end_json(change, ended))
        for path in ended:
            self._watcher.note(path)

    def _settle(self, still_running: bool) -> None:
        self._watcher.recover()
        self._watcher.settle(still_running=still_running)

    def _family(self, lineage: Lineage) -> list[Entry]:
        return [entry for entry in self._journal.entries() if lineage.counts(entry.session, entry.at)]

    def _changes(self, lineage: Lineage, node: str | None) -> list[ChangedFile]:
        calls = lineage.calls(node)
        found: dict[str, list[tuple[Entry, FileChange, str]]] = {}
        for entry in self._family(lineage):
            where = None if entry.by == "restore" else calls.node(entry.call, entry.at)
            if where is None:
                continue
            for path, change in entry.files.items():
                if not change.void:
                    found.setdefault(path, []).append((entry, change, where))
        return [
            ChangedFile(
                path,
                _kind(changes[0][1].before, changes[-1][1].after or self._places.see(path)[0]),
                changes[-1][0].by,
                tuple(dict.fromkeys((entry.call, where) for entry, _, where in changes)),
                changes[0][1].before.restorable,
            )
            for path, changes in sorted(found.items())
        ]

    def _plan(self, lineage: Lineage, node: str | None) -> RestorePlan:
        calls = lineage.calls(node)
        entries = self._family(lineage)
        on_path = [
            entry.id for entry in entries if entry.by != "restore" and calls.node(entry.call, entry.at) is not None
        ]
        paths = dict.fromkeys(path for entry in entries for path in entry.files)
        items = [self._planner.item(path, entries, lambda trail: goal_at(trail, on_path)) for path in paths]
        return make_plan(lineage.session_id, node, [item for item in items if item is not None])

    def _plan_undo(self, lineage: Lineage, restore: str) -> RestorePlan:
        entries = self._family(lineage)
        entry = next((entry for entry in entries if entry.id == restore and entry.by == "restore"), None)
        if entry is None:
            msg = f"There was no restore {restore!r} in this session."
            raise InvalidInput(msg)
        items = []
        for path, change in entry.files.items():
            if change.void:
                continue

            def goal(trail: Trail, before: State = change.before) -> Goal | None:
                return goal_before(trail, restore, before)

            items.append(self._planner.item(path, entries, goal))
        return make_plan(lineage.session_id, None, [item for item in items if item is not None], undoes=restore)

    def _apply(self, plan: RestorePlan, choices: Mapping[str, Choice]) -> Restored:
        restored = self._restorer.apply(plan, choices)
        for path in restored.restored:
            self._watcher.note(path)
        return restored

    def _collect(self, sessions: Collection[str], dry_run: bool) -> Collected:
        named = self._watcher.named()
        for entry in self._journal.entries():
            if entry.session not in sessions:
                continue
            for change in entry.files.values():
                states = (change.before, change.aim, change.after)
                named.update(state.sha for state in states if state is not None and state.sha is not None)
        return self._contents.collect(named, dry_run=dry_run)


def _kind(before: State, after: State) -> Kind:
    if before.absent:
        return "same" if after.absent else "made"
    if after.absent:
        return "removed"
    return "same" if before.same(after) else "changed"

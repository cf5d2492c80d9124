"""Commands: the workspace is looked at before and after each, and what differs goes into the journal.

Somebody else may have changed the same files meanwhile, so such a change is never undone without being asked about.
All of it blocks.
"""

from __future__ import annotations

import os
import threading

import msgspec

from indusagi_lsp.contract import jsontext
from indusagi_lsp.contract.clock import Clock, NewId
from indusagi_lsp.contract.errors import IndusagiError
from indusagi_lsp.filehistory.contents import Contents
from indusagi_lsp.filehistory.journal import Journal
from indusagi_lsp.filehistory.places import Places
from indusagi_lsp.filehistory.records import Entry, FileChange, Watched, begin_json, end_json, watch_json
from indusagi_lsp.filehistory.scan import Scanner, Seen, Snapshot, compare


class Changed(msgspec.Struct, frozen=True):
    """What a command changed: paths, and how many files changed whose old content could not be kept."""

    paths: tuple[str, ...] = ()
    unkept: int = 0


class _Started(msgspec.Struct, frozen=True):
    watched: Watched
    snapshot: Snapshot
    seq: int


class Watcher:
    """Finds what commands change.

    Args:
        journal: of the workspace.
        contents: keeps old contents.
        places: the user's files.
        scanner: takes snapshots.
        clock: the time.
        new_id: makes ids.
    """

    def __init__(
        self,
        journal: Journal,
        contents: Contents,
        places: Places,
        scanner: Scanner,
        *,
        clock: Clock,
        new_id: NewId,
    ) -> None:
        self._journal = journal
        self._contents = contents
        self._places = places
        self._scanner = scanner
        self._clock = clock
        self._new_id = new_id
        self._lock = threading.Lock()
        self._snapshot: Snapshot | None = None
        self._started: dict[str, _Started] = {}
        self._background: tuple[str, str] | None = None

    def start(self, session: str, call: str) -> str:
        """A command is about to run: keep what it could change.

        Returns:
            A name for `end`.

        Raises:
            PersistenceFault: it cannot be kept.
        """
        with self._lock:
            self._settle_background(still_running=True)
            snapshot = self._scan()
            manifest = self._contents.keep(_manifest(snapshot))
            watched = Watched(self._new_id(), session, call, self._clock.now_ms(), manifest, os.getpid())
            self._journal.append(watch_json(watched))
            self._started[watched.id] = _Started(watched, snapshot, len(self._journal.entries()))
            return watched.id

    def end(self, name: str, *, background: bool = False) -> Changed:
        """The command has ended, or goes on in the background.

        Args:
            name: from `start`.
            background: it goes on; what it changes from now on is found at later looks.

        Raises:
            PersistenceFault: the journal cannot be written.
        """
        with self._lock:
            started = self._started.pop(name)
            changed = self._write(started.watched, started.snapshot, self._scan(), started.seq)
            if background:
                self._background = (started.watched.session, started.watched.call)
            return changed

    def settle(self, *, still_running: bool) -> None:
        """Look for what commands in the background have changed.

        Args:
            still_running: whether one may still change something.
        """
        with self._lock:
            self._settle_background(still_running=still_running)

    def recover(self) -> int:
        """Find what commands changed whose process was killed; how many they were.

        Raises:
            PersistenceFault: the journal cannot be read or written.
        """
        with self._lock:
            dead = [one for one in self._journal.watched() if one.id not in self._started and not _alive(one.pid)]
            for watched in dead:
                old = _read_manifest(self._contents.get(watched.manifest))
                if old is None:
                    self._journal.append({"type": "unwatch", "id": watched.id})
                    continue
                seq = sum(entry.at < watched.at for entry in self._journal.entries())
                self._write(watched, old, self._scan(), seq)
            return len(dead)

    def note(self, path: str) -> None:
        """A file was changed by an edit that is in the journal, so it is not a command's."""
        with self._lock:
            if self._snapshot is None:
                return
            try:
                seen = self._scanner.look(path)
            except IndusagiError:
                seen = None
            if seen is None:
                self._snapshot.files.pop(path, None)
            else:
                self._snapshot.files[path] = seen

    def named(self) -> set[str]:
        """The contents that are needed though the journal does not name them."""
        with self._lock:
            snapshots = [started.snapshot for started in self._started.values()]
            if self._snapshot is not None:
                snapshots.append(self._snapshot)
            files = {seen.sha for snapshot in snapshots for seen in snapshot.files.values() if seen.sha is not None}
            watched = self._journal.watched()
            for one in watched:
                old = _read_manifest(self._contents.get(one.manifest))
                files |= {seen.sha for seen in old.files.values() if seen.sha is not None} if old is not None else set()
            return files | {one.manifest for one in watched}

    def _scan(self) -> Snapshot:
        snapshot = self._scanner.scan(self._snapshot)
        # The files of the one that is kept change with later edits; what a command began with must not.
        self._snapshot = Snapshot(snapshot.at, dict(snapshot.files), snapshot.whole)
        return snapshot

    def _settle_background(self, *, still_running: bool) -> None:
        if self._background is None or self._snapshot is None:
            return
        session, call = self._background
        old = self._snapshot
        watched = Watched(self._new_id(), session, call, self._clock.now_ms(), "", os.getpid())
        old = Snapshot(old.at, dict(old.files), old.whole)
        self._write(watched, old, self._scan(), len(self._journal.entries()))
        if not still_running:
            self._background = None

    def _write(self, watched: Watched, old: Snapshot, new: Snapshot, seq: int) -> Changed:
        found = compare(old, new, lambda path: self._places.see(path)[0].absent)
        changes = self._without_recorded(found.changes, seq)
        if changes:
            entry = Entry(watched.id, seq, watched.session, watched.call, "command", watched.at, changes, found.unkept)
            self._journal.append(begin_json(entry))
            self._journal.append(end_json(entry.id, changes))
        elif watched.manifest:
            self._journal.append({"type": "unwatch", "id": watched.id})
        return Changed(tuple(sorted(changes)), found.unkept)

    def _without_recorded(self, changes: dict[str, FileChange], seq: int) -> dict[str, FileChange]:
        """Leave out what edits in the journal have done meanwhile; of a file changed after one, take that rest."""
        recorded: dict[str, FileChange] = {}
        for entry in self._journal.entries()[seq:]:
            recorded.update({path: change for path, change in entry.files.items() if not change.void})
        kept: dict[str, FileChange] = {}
        for path, change in changes.items():
            known = recorded.get(path)
            if known is not None and known.after is not None:
                if change.after is None or change.after.same(known.after):
                    continue
                change.before = known.after
            kept[path] = change
        return kept


def _manifest(snapshot: Snapshot) -> bytes:
    files = {path: msgspec.structs.astuple(seen) for path, seen in sorted(snapshot.files.items())}
    return jsontext.dumps({"at": snapshot.at, "whole": snapshot.whole, "files": files})


def _read_manifest(data: bytes | None) -> Snapshot | None:
    if data is None:
        return None
    raw = jsontext.loads(data)
    return Snapshot(raw["at"], {path: Seen(*seen) for path, seen in raw["files"].items()}, raw["whole"])


def _alive(pid: int) -> bool:
    """Whether a process is there. Where that cannot be asked, only our own is."""
    if os.name != "posix" or pid <= 0:
        return pid == os.getpid()
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True

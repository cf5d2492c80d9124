"""The doctor: looks at every byte of the sessions and says, in words and as JSON, what is not as it should be.

It checks what the format promises: each line is a record, each id is the hash of its content, each node has
its parent, each result has its call and each call its result, heads and records name nodes that are there,
blobs hold what their names say. Looking changes nothing; `repair=True` heals what can be healed, and keeps
every byte that it takes out.
"""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec

from indusagi_lsp.contract.clock import Clock, SystemClock
from indusagi_lsp.contract.errors import SessionNotFound
from indusagi_lsp.contract.text import visible_line
from indusagi_lsp.sessions import blobs
from indusagi_lsp.sessions.folder import SessionFolder
from indusagi_lsp.sessions.healing import heal_blob, heal_file, heal_mode
from indusagi_lsp.sessions.inspection import Contents, Finding, Notes
from indusagi_lsp.sessions.records import read_records

if TYPE_CHECKING:
    from pathlib import Path

    from indusagi_lsp.sessions.signing import Signer
from indusagi_lsp.sessions.state import FileSource, SessionState, load


class Health(msgspec.Struct, frozen=True, rename="camel"):
    """One session: what it has, how each kind of finding counts, and the findings."""

    session_id: str
    nodes: int = 0
    branches: int = 0
    head: str | None = None
    trusted: bool | None = None
    counts: dict[str, int] = {}
    findings: tuple[Finding, ...] = ()

    @property
    def healthy(self) -> bool:
        """Whether nothing is left that is wrong: what was healed, and mere information, does not count."""
        return all(finding.level == "info" or finding.healed for finding in self.findings)


class Diagnosis(msgspec.Struct, frozen=True, rename="camel"):
    """All that was looked at."""

    sessions: tuple[Health, ...] = ()
    repaired: bool = False

    @property
    def healthy(self) -> bool:
        """Whether all the sessions are."""
        return all(session.healthy for session in self.sessions)

    def to_json(self) -> dict[str, Any]:
        """The diagnosis as JSON data."""
        data: dict[str, Any] = msgspec.to_builtins(self)
        data["healthy"] = self.healthy
        for told, session in zip(data["sessions"], self.sessions, strict=True):
            told["healthy"] = session.healthy

        return data

    def to_text(self) -> str:
        """The diagnosis in words."""
        lines: list[str] = []
        for session in self.sessions:
            state = "healthy" if session.healthy else "not healthy"
            lines.append(f"{session.session_id}: {session.nodes} turns, {session.branches} branches, {state}")
            for finding in session.findings:
                healed = " (healed)" if finding.healed else ""
                lines.append(f"  {finding.level}: {visible_line(finding.text)}{healed}")
            listed = Counter(finding.code for finding in session.findings)
            lines.extend(
                f"  … and {count - listed[code]} more of {code}"
                for code, count in session.counts.items()
                if count > listed[code]
            )
        sick = sum(not session.healthy for session in self.sessions)
        lines.append(f"{len(self.sessions)} sessions looked at, {sick} with something wrong.")
        return "\n".join(lines) + "\n"


Progress: TypeAlias = Callable[[int, int], None]
"""Told after each session: how many are done, and how many there are."""


async def examine(
    root: Path,
    *,
    sessions: Iterable[str] | None = None,
    blobs_dir: Path | None = None,
    signer: Signer | None = None,
    repair: bool = False,
    clock: Clock | None = None,
    progress: Progress | None = None,
) -> Diagnosis:
    """Look at the sessions in a folder.

    Args:
        root: the folder of the session files.
        sessions: only these, by id; None looks at all.
        blobs_dir: the folder of the blobs, by default beside `root`.
        signer: tells whose a session is; without one nothing is said of that.
        repair: heal what can be healed. Bytes that are no record go to `<session>.broken-<n>`, welded records
            get lines of their own, a blob with other bytes than its name says is put aside, modes are made
            private. No record is changed and none is taken out.
        clock: the time of the `repair` records.
        progress: told after each session.

    Raises:
        SessionNotFound: one of `sessions` is not there.
        PersistenceFault: the folder cannot be read.
    """
    folder = SessionFolder(root)
    names = await asyncio.to_thread(folder.names)
    if sessions is not None:
        wanted = [await asyncio.to_thread(folder.resolve, name) for name in sessions]
        for name in wanted:
            if name not in names:
                raise SessionNotFound(name)
        names = wanted

    check = _Check(folder, blobs_dir or root.parent / "blobs", signer, clock or SystemClock(), repair)
    found: list[Health] = []
    for done, name in enumerate(names, start=1):
        found.append(await asyncio.to_thread(check.session, name))
        if progress is not None:
            progress(done, len(names))

    return Diagnosis(tuple(found), repair)


class _Check(msgspec.Struct, frozen=True):
    folder: SessionFolder
    blobs_dir: Path
    signer: Signer | None
    clock: Clock
    repair: bool

    def session(self, name: str) -> Health:
        path = self.folder.path(name)
        notes = Notes()
        read = Contents(name)
        state = SessionState(name, clock=self.clock, signer=self.signer)
        try:
            for item in read_records(path):
                read.take(item, notes)
            load(state, path)
        except OSError as error:
            notes.add(Finding("error", "unreadable", f"The file cannot be read: {error.strerror or error}."))
            return Health(name, counts=notes.counts, findings=notes.findings)
        finally:
            if isinstance(state.graph.source, FileSource):
                state.graph.source.close()

        self._file(name, path, read, notes)
        lineage = read.check_lineage(notes)
        read.check_pairs(lineage, notes)
        read.check_references(notes)
        self._blobs(read, notes)
        trusted = None if self.signer is None else state.trusts(state.head)
        if trusted is False:
            text = "It was written by somebody else, or its last head was lost; it is foreign until you adopt it."
            notes.add(Finding("info", "foreign", text))
        counts = len(read.nodes), len(lineage.leaves)
        return Health(name, *counts, state.head, trusted, notes.counts, notes.findings)

    def _file(self, name: str, path: str, read: Contents, notes: Notes) -> None:
        """Bytes that are no record, welded lines, a missing line end, and the file's mode."""
        healed = False
        exposed = os.name != "nt" and bool(os.stat(path).st_mode & 0o077)
        if self.repair and (read.broken or read.welded):
            healed = heal_file(self.folder, name, self.clock.now_ms())
        for finding in read.broken:
            notes.add(msgspec.structs.replace(finding, healed=healed))
        if read.welded:
            text = f"{read.welded} records share a line with something else."
            notes.add(Finding("warning", "welded", text, healed=healed))
        if exposed:
            text = "Other users of this machine can read the file."
            notes.add(Finding("warning", "mode", text, healed=self.repair and heal_mode(path)))

    def _blobs(self, read: Contents, notes: Notes) -> None:
        for digest, node in read.blobs.items():
            state = blobs.state(self.blobs_dir, digest)
            if state == "ok":
                continue

            healed = self.repair and state == "changed" and heal_blob(self.blobs_dir, digest)
            text = f"The whole output of a tool, blob {digest}, is {state}."
            notes.add(Finding("warning", f"blob_{state}", text, node, healed=healed))

"""Importing: from files or the tools' folders into the sessions folder, again and again.

An import only appends. What is there already, by its id, is not written again, and a head is moved only if
the live leaf is where the last import left it: what the user did since then stays. The head carries no mac,
so that the session is foreign until the user adopts it.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import stat
from collections.abc import Callable, Iterable, Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any, TypeAlias

import msgspec

from indusagi_lsp.contract import jsontext
from indusagi_lsp.contract.clock import Clock, SystemClock
from indusagi_lsp.contract.errors import IndusagiError, InvalidInput
from indusagi_lsp.contract.models import Usage
from indusagi_lsp.contract.secrets import redact
from indusagi_lsp.contract.turns import ToolResultBlock, Turn, unanswered_calls
from indusagi_lsp.sessions import blobs
from indusagi_lsp.sessions.folder import CACHE, LOCKS, SessionFolder, open_private
from indusagi_lsp.sessions.importers import places, reading
from indusagi_lsp.sessions.importers.assemble import assemble, session_id_for
from indusagi_lsp.sessions.importers.transcript import Entry, Skipped, Transcript
from indusagi_lsp.sessions.importers.writing import Missing, spent_by_node
from indusagi_lsp.sessions.locking import LockFile
from indusagi_lsp.sessions.log import FileChanged, SessionDeleted, SessionLog
from indusagi_lsp.sessions.oscalls import OsCalls
from indusagi_lsp.sessions.redaction import redact_turn
from indusagi_lsp.sessions.state import FileSource, SessionState, load, totals

MAX_FILE = 1 << 30
"""Bytes of a foreign file that are read; a longer one is reported as too big."""

_SEEN = "imports.json"
_ELSEWHERE = "It belongs to another folder."
_ATTEMPTS = 5


class ImportReport(msgspec.Struct, frozen=True):
    """What came of one file.

    Attributes:
        path: the file.
        tool: which program wrote it, None if that cannot be told.
        session_id: the session with us, None if there is none.
        turns: turns in the file.
        added: nodes that were new to us (copies that a condensation makes count).
        unanswered: tool calls without a result.
        skipped: lines that should hold a turn and do not, with the reason.
        ignored: other lines that are no part of the conversation, by kind.
        usage: what the answers took, each counted once; its cost is None where no price is known.
        unpriced: answers whose price is not known.
        repeated: turns that the source had stored again, and that are not on the live path.
        problem: why nothing could be imported, None if all went well.
        unchanged: the file is as it was at the last import, and was not read.
    """

    path: str
    tool: str | None = None
    session_id: str | None = None
    title: str | None = None
    turns: int = 0
    added: int = 0
    unanswered: int = 0
    condensations: int = 0
    branches: int = 0
    gaps: int = 0
    repeated: int = 0
    skipped: tuple[Skipped, ...] = ()
    ignored: Mapping[str, int] = {}
    usage: Usage = Usage()
    unpriced: int = 0
    problem: str | None = None
    unchanged: bool = False


Progress: TypeAlias = Callable[[int, int, ImportReport], None]
"""Told after each file: how many are done, how many there are, what came of it."""


class Importer:
    """Imports into one sessions folder.

    Args of the constructor: `root` is the folder of the session files; `blobs_dir` is where long outputs go,
    by default beside it; `redacted` says whether secrets of known shapes are taken out.
    """

    def __init__(
        self,
        root: Path,
        *,
        blobs_dir: Path | None = None,
        redacted: bool = True,
        clock: Clock | None = None,
    ) -> None:
        self._folder = SessionFolder(root)
        self._blobs = blobs_dir or root.parent / "blobs"
        self._redacted = redacted
        self._clock = clock or SystemClock()

    async def import_files(
        self, paths: Iterable[Path], *, tool: str | None = None, progress: Progress | None = None
    ) -> tuple[ImportReport, ...]:
        """Import files, and what lies in folders.

        Args:
            paths: files of any of the tools, or folders with such files.
            tool: which program wrote them; None looks at each.
            progress: told after each file.

        Returns:
            A report for each file, in order. A file that cannot be imported is a report with a `problem`.

        Raises:
            InvalidInput: `tool` is none that we know.
        """
        if tool is not None and tool not in places.TOOLS:
            message = f"{tool!r} is no tool that we can import from."
            raise InvalidInput(message, hint=", ".join(places.TOOLS))

        given = list(paths)
        found = await asyncio.to_thread(lambda: [(path, tool) for start in given for path in _expand(start)])
        return await self._run(found, None, {}, progress)

    async def import_all(
        self,
        *,
        home: Path,
        environ: Mapping[str, str],
        tools: Iterable[str] | None = None,
        workspace: Path | None = None,
        progress: Progress | None = None,
    ) -> tuple[ImportReport, ...]:
        """Import from the folders in which the tools keep their sessions.

        Args:
            home: the user's home.
            environ: the environment: some tools are told there where to keep their files.
            tools: only these.
            workspace: only sessions of this folder or of one in it.
            progress: told after each file.

        Returns:
            A report for each file that is not of another folder. A file that did not change since the last
            time is not read again.
        """
        wanted = None if tools is None else frozenset(tools)

        def look() -> tuple[list[tuple[Path, str | None]], dict[str, Any]]:
            found: dict[Path, str | None] = {}
            for place in places.places(home, environ):
                if wanted is None or place.tool in wanted:
                    found.update(dict.fromkeys(places.files(place), place.tool))
            return list(found.items()), self._seen()

        found, seen = await asyncio.to_thread(look)
        reports = await self._run(found, workspace, seen, progress)
        await asyncio.to_thread(self._remember, seen)
        return tuple(report for report in reports if report.problem != _ELSEWHERE)

    async def _run(
        self,
        found: list[tuple[Path, str | None]],
        workspace: Path | None,
        seen: dict[str, Any],
        progress: Progress | None,
    ) -> tuple[ImportReport, ...]:
        reports: list[ImportReport] = []
        for done, (path, tool) in enumerate(found, start=1):
            report = await asyncio.to_thread(self._import, path, tool, workspace, seen)
            reports.append(report)
            if progress is not None:
                progress(done, len(found), report)

        return tuple(reports)

    def _import(self, path: Path, tool: str | None, workspace: Path | None, seen: dict[str, Any]) -> ImportReport:
        try:
            data, stamp = _bytes(path)
        except (OSError, ValueError) as error:
            return ImportReport(str(path), tool, problem=f"It cannot be read: {error}.")

        mark = [*stamp, str(workspace) if workspace else ""]
        known = seen.get(str(path))
        if isinstance(known, list) and known[:-1] == mark:
            if known[-1] is None:
                return ImportReport(str(path), tool, problem=_ELSEWHERE)
            if os.path.lexists(self._folder.path(str(known[-1]))):
                return ImportReport(str(path), tool, str(known[-1]), unchanged=True)

        tool = tool or places.tool_of(data, path)
        if tool is None:
            return ImportReport(str(path), problem="It is no session of a tool that we know.")

        transcript = self._read(data, path, tool)
        if workspace is not None and not _belongs(transcript, workspace):
            seen[str(path)] = [*mark, None]
            return ImportReport(str(path), tool, problem=_ELSEWHERE)

        report = self.import_data(data, path, tool, transcript)
        if report.problem is None:
            seen[str(path)] = [*mark, report.session_id]
        return report

    def import_data(self, data: bytes, path: Path, tool: str, transcript: Transcript) -> ImportReport:
        """Import what was read from `path`; blocks. What goes wrong is in the report."""
        session_id = session_id_for(tool, transcript.id)
        report = ImportReport(
            str(path), tool, title=transcript.title, skipped=transcript.skipped, ignored=transcript.ignored
        )
        if not transcript.steps:
            return msgspec.structs.replace(report, problem="There is no turn in it.")

        # One import of a session at a time: what one of them writes, the next one must know.
        lock = LockFile(self._folder.lock_path(f"{session_id}.import"), lambda: self._folder.ensure(LOCKS))
        try:
            for _ in range(_ATTEMPTS):
                try:
                    with lock.held():
                        return self._append(session_id, data, path, transcript, report)
                except FileChanged:
                    # Another window wrote meanwhile; look again.
                    continue
        except SessionDeleted:
            return msgspec.structs.replace(report, problem=f"The session {session_id} was deleted here.")
        except (IndusagiError, OSError) as error:
            return msgspec.structs.replace(report, problem=str(error))
        finally:
            lock.close()

        return msgspec.structs.replace(report, problem=f"The session {session_id} is being written by another window.")

    def _append(
        self, session_id: str, data: bytes, path: Path, transcript: Transcript, report: ImportReport
    ) -> ImportReport:
        session_id = self._folder.resolve(session_id)
        self._folder.check()
        state = SessionState(session_id, clock=self._clock, signer=None)
        loaded = load(state, self._folder.path(session_id))
        try:
            origin = reading.mapping(state.fields.get("origin"))
            cuts = frozenset(cut for cut in reading.sequence(origin.get("cuts")) if isinstance(cut, int))
            if cuts:
                transcript = self._read(data, path, transcript.tool, cuts)
            made = assemble(transcript, self._prepare)
            spent = spent_by_node(transcript, made)
            missing = Missing(state, transcript, made)
            lines = missing.lines_for(path, spent)
            if lines:
                log = SessionLog(self._folder, session_id, calls=OsCalls(), now_ms=self._clock.now_ms)
                try:
                    if loaded is not None:
                        log.adopt(loaded.status, loaded.end, loaded.mark)
                    log.append(lines)
                finally:
                    log.close()
        finally:
            if isinstance(state.graph.source, FileSource):
                state.graph.source.close()

        usages = [usage for usage, _ in spent.values()]
        added = len(missing.fresh)
        entries = [step for step in transcript.steps if isinstance(step, Entry)]
        inner = {node.parent for node in made.nodes}
        return msgspec.structs.replace(
            report,
            session_id=session_id,
            turns=len(entries) - transcript.rewritten,
            added=added,
            unanswered=len(unanswered_calls(entry.turn for entry in entries)),
            condensations=len(made.condensations),
            branches=sum(node.id not in inner for node in made.nodes),
            gaps=transcript.gaps,
            repeated=transcript.repeated,
            usage=totals(usages),
            unpriced=sum(usage.cost is None for usage in usages),
        )

    def _read(self, data: bytes, path: Path, tool: str, cuts: frozenset[int] = frozenset()) -> Transcript:
        transcript = places.read(data, path.stem, tool, cuts)
        if not self._redacted or transcript.title is None:
            return transcript

        return msgspec.structs.replace(transcript, title=redact(transcript.title))

    def _prepare(self, turn: Turn) -> Turn:
        """Take secrets out, and put long outputs elsewhere."""
        if self._redacted:
            turn = redact_turn(turn)
        changed = tuple(
            msgspec.structs.replace(block, output=blobs.spill(block.output, self._blobs, redacted=False))
            if isinstance(block, ToolResultBlock)
            else block
            for block in turn.blocks
        )
        return msgspec.structs.replace(turn, blocks=changed)

    def _seen(self) -> dict[str, Any]:
        """What was imported when: derived, and asked for only to save work."""
        with contextlib.suppress(OSError, ValueError):
            return reading.mapping(jsontext.loads(Path(self._folder.cache_path(_SEEN)).read_bytes()))
        return {}

    def _remember(self, seen: dict[str, Any]) -> None:
        target = self._folder.cache_path(_SEEN)
        temporary = f"{target}.{os.getpid()}.new"
        with contextlib.suppress(OSError, IndusagiError):
            self._folder.ensure(CACHE)
            descriptor = open_private(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            with os.fdopen(descriptor, "wb") as file:
                file.write(jsontext.dumps(seen))
            os.replace(temporary, target)


def _belongs(transcript: Transcript, workspace: Path) -> bool:
    """Whether a session was held in a folder, or in one inside it."""
    wanted = reading.folder_uri(str(workspace))
    held = reading.folder_uri(transcript.cwd)
    if held is not None and wanted is not None:
        return (held.rstrip("/") + "/").startswith(wanted.rstrip("/") + "/")

    return transcript.project == sha256(str(workspace).encode("utf-8", "surrogateescape")).hexdigest()


def _bytes(path: Path) -> tuple[bytes, tuple[int, int]]:
    """A file's bytes, its time and its size.

    Raises:
        OSError: it cannot be read.
        ValueError: it is no regular file, or too big.
    """
    descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    with os.fdopen(descriptor, "rb") as file:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise ValueError("it is no regular file")
        if status.st_size > MAX_FILE:
            raise ValueError("it is too big")
        return file.read(), (status.st_mtime_ns, status.st_size)


def _expand(path: Path) -> list[Path]:
    """A file itself, or the files in a folder that may be sessions."""
    if not path.is_dir():
        return [path]

    return list(places.files(places.Place("", path, "", (".jsonl", ".json"))))

"""The store: the sessions of one folder, listed, made, opened."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from indusagi_lsp.contract import jsontext
from indusagi_lsp.contract.clock import Clock, NewId, SystemClock, new_uuid
from indusagi_lsp.contract.errors import InvalidInput, PersistenceFault, SessionNotFound
from indusagi_lsp.contract.turns import Turn
from indusagi_lsp.sessions.derived import DerivedFiles
from indusagi_lsp.sessions.folder import LOCKS, SessionFolder
from indusagi_lsp.sessions.graph import SessionGraph
from indusagi_lsp.sessions.ids import check_session_id
from indusagi_lsp.sessions.journal import Journal
from indusagi_lsp.sessions.log import Loaded, SessionLog
from indusagi_lsp.sessions.nodes import Node
from indusagi_lsp.sessions.oscalls import OsCalls
from indusagi_lsp.sessions.outline import Look, Outlines
from indusagi_lsp.sessions.scan import Migrator
from indusagi_lsp.sessions.session import Session
from indusagi_lsp.sessions.signing import Signer
from indusagi_lsp.sessions.state import SCHEMA, SessionState, load
from indusagi_lsp.sessions.summaries import SessionSummary, SummaryCache


class SessionStore:
    """The sessions that lie in one folder, `<root>/<sessionId>.jsonl`.

    Args of the constructor: `root` is the folder, made when first written to; `migrators` upgrade records of older
    schemas at load; `signer` tells this user's sessions from others' (without one, all are trusted); `redact` takes
    secrets out of turns before they are hashed and written; `clock`, `new_id`
    and `calls` are injected for tests.
    """

    def __init__(
        self,
        root: Path | str,
        migrators: Sequence[Migrator] = (),
        *,
        signer: Signer | None = None,
        clock: Clock | None = None,
        new_id: NewId = new_uuid,
        redact: Callable[[Turn], Turn] | None = None,
        calls: OsCalls | None = None,
    ) -> None:
        self.root = Path(root)
        self.migrators = tuple(migrators)
        self.signer = signer
        self.redact = redact
        self.clock: Clock = clock or SystemClock()
        self.folder = SessionFolder(self.root)
        self._writer = new_id().encode()
        self._new_id = new_id
        self._calls = calls or OsCalls()
        self._open: set[Session] = set()
        self._summing = asyncio.Lock()
        derived = DerivedFiles(self.folder, signer)
        self.outlines = Outlines(self.folder, derived, enabled=not self.migrators)
        self._summaries = SummaryCache(
            self.folder, self.fresh_state, self.migrators, derived, self._known_summary, self.outlines
        )

    # --- reading ----------------------------------------------------------------------------------

    async def load_session(self, session_id: str) -> SessionGraph:
        """Read a session's graph. A missing file gives an empty graph; broken lines cost only themselves.

        Raises:
            InvalidInput: that is no session id.
            PersistenceFault: the file is there and cannot be read.
        """
        state, _ = await self._load(check_session_id(session_id))
        return state.graph

    async def list_sessions(self) -> list[str]:
        """The ids of the sessions, sorted.

        Raises:
            PersistenceFault: the folder cannot be read.
        """
        return await asyncio.to_thread(self.folder.names)

    async def summaries(self) -> list[SessionSummary]:
        """What a list shows of each session, by id. Only files that changed are read.

        Raises:
            PersistenceFault: the folder cannot be read.
        """
        async with self._summing:
            return await asyncio.to_thread(self._summaries.read)

    async def look(self, session_id: str, limit: int) -> Look | None:
        """The newest turns of a large session's live path, without opening it: as quick for a huge one as for others.

        Returns:
            What opening it would show; None if only that can tell.

        Raises:
            InvalidInput: that is no session id.
            PersistenceFault: the file is there and cannot be read.
        """
        check_session_id(session_id)

        def read() -> Look | None:
            name = self.folder.resolve(session_id)
            self.folder.check()
            return self.outlines.look(name, limit)

        try:
            return await asyncio.to_thread(read)
        except OSError as error:
            message = f"Session {session_id} cannot be read: {error.strerror or error}."
            raise PersistenceFault(message, hint="Nothing was changed. Check the file's permissions.") from error

    async def open(self, session_id: str) -> Session:
        """Open a session.

        Raises:
            InvalidInput: that is no session id.
            SessionNotFound: there is no such session.
            PersistenceFault: the file is there and cannot be read.
        """
        name = await asyncio.to_thread(self.folder.resolve, check_session_id(session_id))
        state, status = await self._load(name)
        if status is None:
            raise SessionNotFound(session_id)
        return self._session(state, status)

    # --- making -----------------------------------------------------------------------------------

    async def create(
        self,
        *,
        cwd: str,
        title: str | None = None,
        session_id: str | None = None,
        parent_session: str | None = None,
        model: str | None = None,
    ) -> Session:
        """Make a session, on the disk before this returns.

        Args:
            cwd: the URI of the folder that it is about.
            title: a title, if it has one already.
            session_id: its id; a new one if not given.
            parent_session: the session that it was forked from.
            model: the model that it uses.

        Raises:
            InvalidInput: the id is none, or there is such a session already (compared without case).
            PersistenceFault: the disk refused.
        """
        session = await self._create(
            {"cwd": cwd, "title": title, "parentSession": parent_session, "model": model}, session_id
        )
        await session.flush()
        return session

    async def fork(self, source: Session, nodes: Sequence[Node], *, title: str | None, own: bool) -> Session:
        """Make a new session of `nodes`, a path of `source`; `own` says whether its head may be signed."""
        meta = source.meta
        fields = {
            "cwd": meta.cwd,
            "title": title or meta.title,
            "parentSession": source.id,
            "model": meta.model,
        }
        session = await self._create(fields, None)
        session.take_path(nodes, source.records_about({node.id for node in nodes}), own=own)
        await session.flush()
        return session

    async def delete(self, session_id: str) -> None:
        """Delete a session for good: no window that still has it open brings it back.

        Raises:
            InvalidInput: that is no session id.
            SessionNotFound: there is no such session.
            PersistenceFault: the disk refused.
        """
        name = await asyncio.to_thread(self.folder.resolve, check_session_id(session_id))
        log = self._log(name)
        try:
            await asyncio.to_thread(log.delete)
        except FileNotFoundError:
            raise SessionNotFound(session_id) from None
        except OSError as error:
            msg = f"Session {name} could not be deleted: {error.strerror or error}."
            raise PersistenceFault(msg) from error
        await asyncio.to_thread(self.outlines.drop, name)

    async def close(self) -> None:
        """Close every session that was opened here."""
        for session in tuple(self._open):
            await session.close()

    # --- for sessions -----------------------------------------------------------------------------

    def head_line(self, session_id: str, leaf: str | None, why: str, *, sign: bool) -> tuple[bytes, str | None]:
        """A head record as a line, and its mac if it is signed."""
        if leaf is None:
            leaf_text = b"null"
        else:
            leaf_text = b'"%b"' % leaf.encode() if leaf.isalnum() and leaf.isascii() else jsontext.dumps(leaf)
        mac = self.signer.mac(session_id, leaf) if sign and self.signer is not None else None
        end = b"" if mac is None else b',"mac":"%b"' % mac.encode()
        line = b'{"type":"head","leaf":%b,"at":%d,"by":"%b","why":"%b"%b}\n'
        return line % (leaf_text, self.clock.now_ms(), self._writer, why.encode(), end), mac

    def fresh_state(self, session_id: str) -> SessionState:
        """An empty state for a session."""
        return SessionState(session_id, clock=self.clock, signer=self.signer)

    def open_sessions(self, session_id: str) -> list[Session]:
        """The sessions of that id that are open here."""
        return [session for session in tuple(self._open) if session.id == session_id]

    def open_ids(self) -> set[str]:
        """The ids of the sessions that are open here."""
        return {session.id for session in self._open}

    def forget(self, session: Journal) -> None:
        """A session was closed."""
        self._open = {one for one in self._open if one is not session}

    # --- inside -----------------------------------------------------------------------------------

    def _known_summary(self, session_id: str, status: os.stat_result) -> SessionSummary | None:
        """What a list shows of a session whose file has that status, from memory or from its outline."""
        for session in self.open_sessions(session_id):
            summary = session.known_summary(status)
            if summary is not None:
                return summary
        return self.outlines.summary(session_id, status)

    def _log(self, session_id: str) -> SessionLog:
        return SessionLog(self.folder, session_id, calls=self._calls, now_ms=self.clock.now_ms)

    async def _load(self, session_id: str) -> tuple[SessionState, Loaded | None]:
        state = self.fresh_state(session_id)

        def read() -> Loaded | None:
            self.folder.check()
            status = load(state, self.folder.path(session_id), self.migrators)
            state.graph.preload(state.graph.leaf)
            if status is not None and self.outlines.summary(session_id, status.status) is None:
                self.outlines.keep(state, status)
            return status

        try:
            return state, await asyncio.to_thread(read)
        except OSError as error:
            msg = f"Session {session_id} cannot be read: {error.strerror or error}."
            raise PersistenceFault(
                msg,
                hint="Nothing was changed. Check the file's permissions, or look at it with the doctor command.",
            ) from error

    def _session(self, state: SessionState, status: Loaded | None) -> Session:
        log = self._log(state.graph.session_id)
        if status is not None:
            log.adopt(status.status, status.end, status.mark)
        session = Session(self, state, log)
        self._open.add(session)
        return session

    async def _create(self, fields: dict[str, Any], session_id: str | None) -> Session:
        name = check_session_id(session_id or self._new_id())

        def prepare() -> None:
            if os.path.lexists(self.folder.path(self.folder.resolve(name))):
                msg = f"There is a session {name!r} already."
                raise InvalidInput(msg, hint="Choose another id.")
            self.folder.ensure(LOCKS)
            self._log(name).revive()

        await asyncio.to_thread(prepare)
        session = self._session(self.fresh_state(name), None)
        record = {
            "type": "session",
            "schema": SCHEMA,
            "id": name,
            "cwd": None,
            "createdAt": self.clock.now_ms(),
        }
        record.update({key: value for key, value in fields.items() if value is not None})
        session.begin(record)
        return session

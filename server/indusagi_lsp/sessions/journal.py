"""The journal of an open session: its graph in memory and its file on the disk, kept in step.

Lines enter a queue; the queue goes to the disk in one write, in a thread. When the disk refuses, the lines stay queued
and go out with the next write. What other processes write is taken in, and a file that was replaced, cut or deleted is
dealt with, without losing what this window knows.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from indusagi_lsp.contract import jsontext
from indusagi_lsp.contract.errors import InvalidInput, PersistenceFault, SessionNotFound
from indusagi_lsp.contract.turns import ASSISTANT, Turn
from indusagi_lsp.sessions.graph import SessionGraph
from indusagi_lsp.sessions.log import FileChanged, Loaded, SessionDeleted, SessionLog, Written
from indusagi_lsp.sessions.nodes import Node, new_node
from indusagi_lsp.sessions.queued import Line, carry_over, rescue
from indusagi_lsp.sessions.state import FileSource, SessionState, load, take_news

if TYPE_CHECKING:
    from indusagi_lsp.sessions.store import SessionStore

_ATTEMPTS = 5


class Change(msgspec.Struct, frozen=True):
    """What another process did to the session.

    `added` are new nodes, `head` is where the file says the live leaf is. `diverged` holds both leaves (ours first)
    when the two windows went different ways. `reloaded`: the file was replaced or cut and was read anew; `missing`: it
    is gone, which is told once; `rewritten`: it was gone, and what was said here is written anew.
    """

    added: tuple[str, ...] = ()
    head: str | None = None
    diverged: tuple[str, ...] = ()
    reloaded: bool = False
    missing: bool = False
    rewritten: bool = False

    def __bool__(self) -> bool:
        return bool(self.added or self.diverged or self.reloaded or self.missing or self.rewritten)


class Journal:
    """What an open session needs to last. `Session` says what can be said in it.

    Attributes:
        graph: every turn, of all branches. Always the same object; change it through the session.
        busy: set it while a run is under way, so that turns of another window do not move the live leaf meanwhile.
        notices: what the user should know of the disk.
    """

    def __init__(self, store: SessionStore, state: SessionState, log: SessionLog) -> None:
        self._store = store
        self._state = state
        self.graph: SessionGraph = state.graph
        self._log = log
        self._queue: list[Line] = []
        self._io = asyncio.Lock()
        self._flushing: asyncio.Task[None] | None = None
        self._syncing: asyncio.Task[None] | None = None
        self._listeners: list[Callable[[Change], None]] = []
        self._missing = False
        self._outlined = log.end
        self._closed = False
        self._background: set[asyncio.Task[None]] = set()
        self._own = state.trusts(state.graph.leaf)
        self._own_leaf: str | None = None
        self.notices: list[str] = []
        self.busy = False

    @property
    def id(self) -> str:
        """The session's id."""
        return self._state.graph.session_id

    @property
    def path(self) -> str:
        """The session's file."""
        return self._log.path

    @property
    def unsaved(self) -> int:
        """How many records wait in memory because the disk refused them."""
        return len(self._queue)

    def listen(self, listener: Callable[[Change], None]) -> Callable[[], None]:
        """Be told of what other processes do to the session. Called on the event loop.

        Returns:
            A function that ends it.
        """
        self._listeners.append(listener)

        def dispose() -> None:
            if listener in self._listeners:
                self._listeners.remove(listener)

        return dispose

    # --- lasting ------------------------------------------------------------------------------------

    async def flush(self) -> None:
        """Write what is queued, in one write.

        Raises:
            PersistenceFault: the disk refused; the queue is as it was.
            SessionNotFound: the session was deleted meanwhile.
        """
        # A write under way took its lines before ours came, so a second one may be needed; never more.
        while self._queue:
            task = self._flushing
            if task is None or task.done():
                task = self._flushing = asyncio.get_running_loop().create_task(self._flush())
                # Cancelling the caller must not tear the write and what is noted of it apart.
                await asyncio.shield(task)
                continue
            await asyncio.wait([task])

    async def sync(self) -> None:
        """Make everything that was written last through a power loss. Callers at the same time share one sync.

        Raises:
            PersistenceFault: the disk refused.
        """
        await self.flush()
        while self._log.dirty:
            if self._syncing is None or self._syncing.done():
                self._syncing = asyncio.get_running_loop().create_task(self._sync())
                await asyncio.shield(self._syncing)
                return
            await asyncio.wait([self._syncing])

    async def refresh(self) -> Change:
        """Take in what other processes did to the file.

        The live leaf follows theirs where it can: not while a run is under way here (`busy`, or a turn of ours that
        waits for its answer), and not where the two went different ways.

        Raises:
            PersistenceFault: the file cannot be read.
        """
        async with self._io:
            try:
                news = await asyncio.to_thread(self._log.peek)
            except FileChanged:
                return self._tell(await self._reload())
            except OSError as error:
                msg = f"Session {self.id} cannot be read: {error.strerror or error}."
                raise PersistenceFault(msg) from error
            self._missing = False
            if news is None:
                return Change()

            known = self._state.head
            added, end = take_news(self._state, *news, self._store.migrators, whole_lines=True)
            self._log.advance(end, news[0])
            return self._tell(self._follow(added, known))

    async def keep_outline(self) -> None:
        """Keep what a first look at a large session shows, so that the next one need not read the whole file."""
        async with self._io:
            if self._log.end != self._outlined and not self._queue:
                self._outlined = self._log.end
                await asyncio.to_thread(self._keep_outline)

    def _keep_outline(self) -> None:
        known = self._log.known()
        if known is not None:
            with contextlib.suppress(OSError):
                self._store.outlines.keep(self._state, known)

    def keep_outline_soon(self) -> None:
        """As `keep_outline`, in the background."""
        self._in_background(asyncio.get_running_loop().create_task(self.keep_outline()))

    async def close(self) -> None:
        """Write what is queued, if that is possible, and give the file back."""
        if self._closed:
            return
        self._closed = True
        try:
            await self.flush()
        finally:
            if self._background:
                await asyncio.wait(self._background)
            await self.keep_outline()
            async with self._io:
                self._log.close()
            self._store.forget(self)

    # --- queueing -----------------------------------------------------------------------------------

    def _add(self, turn: Turn, created_at: int) -> Node:
        return self._add_all([(turn, created_at)])[0]

    def _add_all(self, turns: Sequence[tuple[Turn, int]]) -> list[Node]:
        """Put turns under the live leaf and queue their lines; all of them, or none if one cannot be written."""
        parent = self.graph.leaf
        made: list[tuple[Node, int, bytes]] = []
        for turn, created_at in turns:
            try:
                node_id, size, line = new_node(parent, turn, created_at)
            except (ValueError, TypeError) as error:
                message = f"A turn cannot be stored: {error}."
                raise InvalidInput(message) from error
            made.append((Node(node_id, parent, turn, created_at), size, line))
            parent = node_id

        graph, queue = self.graph, self._queue
        for node, size, line in made:
            if graph.put(node, size):
                queue.append(Line(line, node.id))
        return [node for node, _, _ in made]

    def _enqueue(self, record: dict[str, Any]) -> None:
        try:
            line = jsontext.dumps(record) + b"\n"
        except (ValueError, TypeError) as error:
            msg = f"A record cannot be stored: {error}."
            raise InvalidInput(msg) from error
        self._state.take_record(record)
        self._queue.append(Line(line, record=record))

    def _enqueue_head(self, why: str) -> None:
        leaf = self.graph.leaf
        line, mac = self._store.head_line(self.id, leaf, why, sign=self._own)
        self._state.note_head(leaf, mac)
        self._queue.append(Line(line, head=(leaf, mac)))

    def _own_path(self, leaf: str | None) -> bool:
        """Whether a head on `leaf` may be signed: on our own path, or under another head of this user."""
        if self._own and self.graph.is_ancestor(leaf, self._state.head):
            return True
        return self._state.vouched(leaf)

    # --- in step with the file ------------------------------------------------------------------------

    async def _flush(self) -> None:
        async with self._io:
            for _ in range(_ATTEMPTS):
                lines = list(self._queue)
                if not lines:
                    return
                if not self._state.report.understood and self._state.report.skipped:
                    msg = f"Nothing in {self.path} could be understood, so nothing is written to it."
                    raise PersistenceFault(
                        msg,
                        hint="Look at it with the doctor command, or begin a new session.",
                    )
                data = b"".join(line.data for line in lines)
                try:
                    written = await asyncio.to_thread(self._log.append, data)
                except FileChanged:
                    await self._recover()
                    continue
                except SessionDeleted:
                    raise SessionNotFound(self.id) from None
                self._note_written(lines, written)
                if self.graph.source is None:
                    self.graph.source = await asyncio.to_thread(FileSource, self.path, self._store.migrators)
                return
        msg = f"The file of session {self.id} keeps being replaced."
        raise PersistenceFault(msg)

    def _note_written(self, lines: list[Line], written: Written) -> None:
        ours, own_head = self.graph.leaf, self._state.head
        offset = written.offset
        for line in lines:
            if line.node is not None and line.node in self.graph:
                self.graph.saved(line.node, offset, len(line.data) - 1)
            offset += len(line.data)
        del self._queue[: len(lines)]
        self._state.report.understood += len(lines)
        if not written.news:
            return

        added, _ = take_news(self._state, written.news, written.news_offset, self._store.migrators, whole_lines=False)
        theirs = self._state.head
        self._state.note_head(own_head, None)
        diverged: tuple[str, ...] = ()
        if theirs is not None and ours is not None and not self.graph.is_ancestor(theirs, ours):
            diverged = (ours, theirs)
        self._tell(Change(tuple(added), theirs, diverged))

    def _follow(self, added: list[str], known: str | None) -> Change:
        theirs, ours = self._state.head, self.graph.leaf
        if theirs in (known, ours):
            return Change(tuple(added), theirs)
        if self._is_running():
            apart = ours is not None and theirs is not None
            return Change(tuple(added), theirs, (ours, theirs) if apart and ours and theirs else ())

        diverged: tuple[str, ...] = ()
        if ours is not None and theirs is not None and not self.graph.is_ancestor(ours, theirs):
            diverged = (ours, theirs)
        self.graph.branch_from(theirs)
        self._own = self._state.trusts(theirs)
        self._own_leaf = None
        return Change(tuple(added), theirs, diverged)

    def _is_running(self) -> bool:
        """Whether a run of this window is under way, as far as can be told from the turns."""
        if self.busy or self._queue:
            return True
        if self._own_leaf is None or self._own_leaf != self.graph.leaf:
            return False
        last = self.graph.node(self._own_leaf).turn
        return last.role != ASSISTANT or bool(last.tool_calls)

    async def _recover(self) -> None:
        """The file is not ours any more: read it anew, and queue again what it lacks of what was said.

        Where it is only gone, it is put back first, as it was: what is in memory is less than what it held (records
        that are not understood).
        """
        gone = await asyncio.to_thread(self._put_back)
        state, log_status = self._store.fresh_state(self.id), None
        try:
            log_status = await asyncio.to_thread(load, state, self.path, self._store.migrators)
            mine = await asyncio.to_thread(rescue, self.graph, state.graph)
        except OSError as error:
            msg = f"Session {self.id} cannot be read: {error.strerror or error}."
            raise PersistenceFault(msg) from error

        lines = carry_over(self._state, state, mine, self._queue, self._store.clock.now_ms())
        leaf, own = self.graph.leaf, self._own
        theirs, told = state.head, self._missing
        self._adopt(state, log_status)
        if leaf is None or leaf in self.graph:
            # The path is the same, and its ids are hashes: it is as much ours as it was.
            self.graph.branch_from(leaf)
            self._own = own
        self._queue[:0] = lines
        heads = [line.head for line in self._queue if line.head is not None]
        for head in heads:
            self._state.note_head(*head)
        if lines and not heads:
            self._enqueue_head("append")
        apart = theirs is not None and leaf is not None and not self.graph.is_ancestor(theirs, leaf)
        diverged = (leaf, theirs) if apart and leaf and theirs else ()
        gone = gone or log_status is None
        self._tell(Change((), theirs, diverged, reloaded=not gone, missing=gone and not told, rewritten=gone))

    def _put_back(self) -> bool:
        source = self.graph.source
        if not isinstance(source, FileSource):
            return False
        try:
            with source.open() as content:
                return self._log.put_back(content)
        except SessionDeleted:
            raise SessionNotFound(self.id) from None

    async def _reload(self) -> Change:
        """Read the file anew, because it was replaced, cut, or deleted by others."""
        state = self._store.fresh_state(self.id)
        try:
            status = await asyncio.to_thread(load, state, self.path, self._store.migrators)
        except OSError as error:
            msg = f"Session {self.id} cannot be read: {error.strerror or error}."
            raise PersistenceFault(msg) from error
        if status is None:
            if self._missing:
                return Change()
            self._missing = True
            return Change(head=self.graph.leaf, missing=True)
        if self._is_running():
            return Change(head=state.head)  # the next append finds it out, and takes our turns along

        ours = set(self.graph.ids)
        self._adopt(state, status)
        self._own_leaf = None
        added = tuple(node for node in self.graph.ids if node not in ours)
        return Change(added, state.head, reloaded=True)

    def _adopt(self, state: SessionState, status: Loaded | None) -> None:
        """Take a state that was read anew as ours; the graph stays the same object for those who hold it."""
        self._missing = False
        graph = self._state.graph
        graph.become(state.graph)
        state.graph = graph
        self._state = state
        self._own = state.trusts(graph.leaf)
        if status is None:
            self._log.adopt(None, 0)
        else:
            self._log.adopt(status.status, status.end, status.mark)

    async def _sync(self) -> None:
        async with self._io:
            fd, end = self._log.begin_sync()
        failure = await asyncio.to_thread(self._log.datasync, fd)
        if failure is None:
            self._log.synced(end)
            return
        async with self._io:
            self.notices.append(await asyncio.to_thread(self._log.rewrite, failure))
            # What is said from here on does not stand in the old file.
            fd, _ = self._log.begin_sync()
            self.graph.source = FileSource(self.path, self._store.migrators, fd)

    def _sync_in_background(self) -> None:
        if self._syncing is not None and not self._syncing.done():
            return
        self._syncing = asyncio.get_running_loop().create_task(self._sync())
        self._in_background(self._syncing)

    def _in_background(self, task: asyncio.Task[None]) -> None:
        self._background.add(task)
        task.add_done_callback(self._background_done)

    def _background_done(self, task: asyncio.Task[None]) -> None:
        self._background.discard(task)
        if not task.cancelled() and task.exception() is not None:
            self.notices.append(str(task.exception()))

    def _tell(self, change: Change) -> Change:
        if change:
            for listener in tuple(self._listeners):
                listener(change)
        return change

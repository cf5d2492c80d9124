"""A session that is open: what was said, and the way to say more so that it cannot be lost.

Turns enter the graph at once and a queue of lines; the queue goes to the disk in one write, in a thread. When the disk
refuses, the lines stay queued and go out with the next write, and the caller is told by a `PersistenceFault`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from indusagi_lsp.contract import jsontext
from indusagi_lsp.contract.approvals import ApprovalRequest, Verdict
from indusagi_lsp.contract.errors import InvalidInput, InvalidState, PersistenceFault, SessionNotFound
from indusagi_lsp.contract.events import CondenseTrigger
from indusagi_lsp.contract.models import Usage
from indusagi_lsp.contract.turns import ASSISTANT, TOOL, Turn
from indusagi_lsp.sessions.graph import SessionGraph
from indusagi_lsp.sessions.liveview import LiveView
from indusagi_lsp.sessions.log import FileChanged, SessionDeleted, SessionLog, Written
from indusagi_lsp.sessions.nodes import Node, TurnLike, as_turn, hash_node, id_of, node_line, node_text
from indusagi_lsp.sessions.state import FileSource, Loaded, LoadReport, SessionMeta, SessionState, load, take_news
from indusagi_lsp.sessions.summaries import SessionSummary, summarize_state
from indusagi_lsp.sessions.view import open_answers

if TYPE_CHECKING:
    from indusagi_lsp.sessions.store import SessionStore

_ATTEMPTS = 5
_BACKGROUND_SYNC = 8 << 20


class Change(msgspec.Struct, frozen=True):
    """What another process did to the session.

    `added` are new nodes, `head` is where the file says the live leaf is. `diverged` holds both leaves (ours first)
    when the two windows went different ways. `reloaded`: the file was replaced or cut and was read anew; `missing`: it
    is gone.
    """

    added: tuple[str, ...] = ()
    head: str | None = None
    diverged: tuple[str, ...] = ()
    reloaded: bool = False
    missing: bool = False

    def __bool__(self) -> bool:
        return bool(self.added or self.diverged or self.reloaded or self.missing)


class _Line(msgspec.Struct, frozen=True):
    """A queued line: of a `node`, of a `head` (leaf and mac), or of a `record` of another type."""

    data: bytes
    node: str | None = None
    record: Mapping[str, Any] | None = None
    head: tuple[str | None, str | None] | None = None


class Session:
    """One conversation, open for reading and writing. Made by a `SessionStore`.

    Attributes:
        id: the session's id.
        graph: every turn, of all branches; its live leaf is where `append` goes on. Always the same object; change it
            through the session, so that the change reaches the disk.
        busy: set it while a run is under way, so that turns of another window do not move the live leaf meanwhile.
    """

    def __init__(self, store: SessionStore, state: SessionState, log: SessionLog) -> None:
        self._store = store
        self._state = state
        self.graph: SessionGraph = state.graph
        self._log = log
        self._queue: list[_Line] = []
        self._io = asyncio.Lock()
        self._flushing: asyncio.Task[None] | None = None
        self._syncing: asyncio.Task[None] | None = None
        self._listeners: list[Callable[[Change], None]] = []
        self._view = LiveView()
        self._missing = False
        self._closed = False
        self._background: set[asyncio.Task[None]] = set()
        self._own = state.trusts(state.graph.leaf)
        self._own_leaf: str | None = None
        self.notices: list[str] = []
        self.busy = False

    # --- looking ----------------------------------------------------------------------------------

    @property
    def id(self) -> str:
        """The session's id."""
        return self._state.graph.session_id

    @property
    def meta(self) -> SessionMeta:
        """Title, folder, model and what else the session records say."""
        return self._state.meta

    @property
    def trusted(self) -> bool:
        """Whether the live path is this user's own. What is not is never sent to a model."""
        return self._own

    @property
    def report(self) -> LoadReport:
        """What was found wrong at loading."""
        return self._state.report

    @property
    def labels(self) -> dict[str, str]:
        """The labels, by node."""
        return self._state.labels

    @property
    def condensations(self) -> list[dict[str, Any]]:
        """The condense records, the oldest first."""
        return self._state.condensations

    @property
    def usages(self) -> dict[str, Usage]:
        """What each assistant turn took, by node."""
        return self._state.usages

    @property
    def receipts(self) -> dict[tuple[str, str], str]:
        """The last known stage of each tool call, by node and call id."""
        return self._state.receipts

    @property
    def unsaved(self) -> int:
        """How many records wait in memory because the disk refused them."""
        return len(self._queue)

    @property
    def path(self) -> str:
        """The session's file."""
        return self._log.path

    async def summary(self) -> SessionSummary:
        """What a list shows of the session, as it is now."""
        return summarize_state(self._state)

    def model_view(self) -> tuple[Turn, ...]:
        """The live path as a model may be sent it: every call has its result (session format, "Reading")."""
        return self._view.of(self.graph, self.graph.leaf, self._state.receipts)

    def _started(self, ids: Sequence[str]) -> Callable[[int, str], bool]:
        receipts = self._state.receipts
        return lambda at, call: (ids[at], call) in receipts

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

    # --- writing ----------------------------------------------------------------------------------

    async def append(self, turns: Iterable[TurnLike], *, why: str = "append", durable: bool = False) -> list[Node]:
        """Put turns under the live leaf: in memory at once, and on the disk before this returns.

        Calls that a killed process left without a result are answered first, so that the answer is stored too.

        Args:
            turns: the new turns, in order.
            why: what the head record says.
            durable: return only once a power loss cannot take them any more.

        Returns:
            Their nodes.

        Raises:
            InvalidInput: an assistant turn without blocks.
            PersistenceFault: the disk refused. The turns are in the graph, and are written with the next append.
            SessionNotFound: the session was deleted meanwhile.
        """
        nodes = self._enqueue_turns(turns, why)
        await self.flush()
        if durable:
            await self.sync()
        elif self._log.unsynced_bytes > _BACKGROUND_SYNC:
            self._sync_in_background()
        return nodes

    def append_now(self, turns: Iterable[TurnLike], *, why: str = "append") -> list[Node]:
        """As `append`, but blocking, for callers that have no event loop to keep free.

        Raises:
            InvalidState: an asynchronous operation on the session is under way.
            FileChanged: the file was replaced; only the asynchronous way deals with that.
        """
        if self._io.locked():
            raise InvalidState("The session is being written already.")
        nodes = self._enqueue_turns(turns, why)
        lines = list(self._queue)
        self._note_written(lines, self._log.append(b"".join([line.data for line in lines])))
        return nodes

    async def move_head(self, leaf: str | None, why: str) -> None:
        """Make another node the live leaf: fork, resume, undo, adopt.

        Adopting signs the path, so it becomes this user's own; turns whose ids are not the hashes of their content are
        put in anew under true ids, since a signature over an id vouches for nothing else.

        Raises:
            NodeNotFound: there is no such node.
            PersistenceFault: as `append`.
        """
        self.graph.branch_from(leaf)
        if why == "adopt":
            self._own = True
            if leaf is not None:
                await asyncio.to_thread(self.graph.preload, leaf)
                self._true_ids(leaf)
        else:
            self._own = self._own_path(leaf)
        self._own_leaf = None
        self._enqueue_head(why)
        await self.flush()

    async def condense(
        self,
        summary: Turn,
        cut: int,
        *,
        trigger: CondenseTrigger = "manual",
        before: int = 0,
        after: int = 0,
        files_read: Sequence[str] = (),
        files_modified: Sequence[str] = (),
        model: str | None = None,
        start: int = 0,
        kept: Sequence[tuple[Turn, float, str | None]] | None = None,
    ) -> dict[str, Any]:
        """Begin a new line of history: the summary in the place of what is dropped, then the kept tail again.

        Args:
            summary: the turn that stands for what is dropped.
            cut: how many turns of the live path are dropped; at least 1.
            trigger: who asked for it.
            before: tokens before.
            after: tokens after.
            files_read: for the record, as are `files_modified` and `model`.
            files_modified: see above.
            model: see above.
            start: how many turns before the dropped ones stay as they are; with 0 the summary is a new root.
            kept: the tail as (turn, createdAt, id of the node that it is a copy of), where it is not the path from
                `cut` on as it is (masked results, answers to lost calls).

        Returns:
            The condense record.

        Raises:
            InvalidInput: `cut` is not within the live path.
            PersistenceFault: as `append`.
        """
        old = self.graph.leaf
        path = self.graph.nodes_to(old)
        if not 0 <= start < cut <= len(path):
            msg = f"A cut of {cut} does not fit a history of {len(path)} turns."
            raise InvalidInput(msg)

        if kept is None:
            kept = [(node.turn, node.created_at, node.id) for node in path[cut:]]
        self.graph.branch_from(path[start - 1].id if start else None)
        root = self._add(summary, path[cut - 1].created_at)
        copies: dict[str, str] = {}
        for turn, created_at, original in kept:
            copy = self._add(turn, int(created_at))
            if original is not None:
                copies[copy.id] = original
        record: dict[str, Any] = {
            "type": "condense",
            "summary": root.id,
            "from": old,
            "cut": path[cut].id if cut < len(path) else None,
            "copies": copies,
            "trigger": trigger,
            "before": before,
            "after": after,
            "files": {"read": list(files_read), "modified": list(files_modified)},
            "model": model,
        }
        self._own_leaf = self.graph.leaf
        self._enqueue_head("condense")
        self._enqueue(record)
        await self.flush()
        return record

    async def mask(
        self,
        start: int,
        kept: Sequence[tuple[Turn, float, str | None]],
        *,
        trigger: CondenseTrigger,
        before: int,
        after: int,
    ) -> None:
        """Begin a new line of history that differs from the live one only from `start` on: some blocks are masked.

        Args:
            start: how many turns of the live path stay as they are.
            kept: the others, as (turn, createdAt, id of the node that it is a copy of).
            trigger: who asked for it.
            before: tokens before.
            after: tokens after.

        Raises:
            PersistenceFault: as `append`.
        """
        old = self.graph.leaf
        path = self.graph.ids_to(old)
        self.graph.branch_from(path[start - 1] if start else None)
        added = [(self._add(turn, int(created_at)).id, original) for turn, created_at, original in kept]
        record: dict[str, Any] = {
            "type": "condense",
            "summary": added[0][0],
            "from": old,
            "cut": path[start] if start < len(path) else None,
            "copies": {copy: original for copy, original in added if original is not None},
            "trigger": trigger,
            "before": before,
            "after": after,
            "masked": True,
        }
        self._own_leaf = self.graph.leaf
        self._enqueue_head("condense")
        self._enqueue(record)
        await self.flush()

    async def undo_condense(self) -> str:
        """Take the last condensation of the live path back: the live leaf is what it was before.

        Returns:
            The live leaf.

        Raises:
            InvalidState: the live path holds no condensation.
            PersistenceFault: as `append`.
        """
        path = set(self.graph.ids_to(self.graph.leaf))
        record = next((r for r in reversed(self.condensations) if r.get("summary") in path), None)
        source = record.get("from") if record else None
        if not isinstance(source, str) or source not in self.graph:
            raise InvalidState(
                "There is no condensation to take back.",
                hint="Only the last one of the live path can be undone.",
            )
        await self.move_head(source, "undo")
        return source

    async def adopt(self) -> None:
        """Make the live path this user's own, whoever wrote it.

        Raises:
            PersistenceFault: as `append`.
        """
        await self.move_head(self.graph.leaf, "adopt")

    async def write(self, record: dict[str, Any]) -> None:
        """Append a record of any type but node and head.

        Raises:
            PersistenceFault: as `append`.
        """
        self._enqueue(record)
        await self.flush()

    async def usage(self, node: str, usage: Usage, model: str, provider: str) -> None:
        """Keep what an assistant turn took."""
        record: dict[str, Any] = {
            "type": "usage",
            "node": node,
            "input": usage.input,
            "output": usage.output,
            "cacheRead": usage.cache_read,
            "cacheWrite": usage.cache_write,
        }
        if usage.cost is not None:
            record["cost"] = usage.cost
        await self.write({**record, "model": model, "provider": provider})

    async def receipt(self, node: str, call_id: str, stage: str) -> None:
        """Keep that a tool call was `started` or has `finished`."""
        now = self._store.clock.now_ms()
        await self.write({"type": "receipt", "node": node, "callId": call_id, "stage": stage, "at": now})

    async def approval(self, request: ApprovalRequest, verdict: Verdict) -> None:
        """Record what was decided about an action. For audit alone: a permission is never read from here."""
        await self.write(
            {
                "type": "approval",
                "id": request.id,
                "callId": request.call_id,
                "action": request.sha256,
                "decision": verdict.decision,
                "by": verdict.by,
                "at": self._store.clock.now_ms(),
            }
        )

    async def label(self, node: str, name: str | None) -> None:
        """Put a bookmark on a node; None removes it. The name `pin` keeps the turn through condensation.

        Raises:
            NodeNotFound: there is no such node.
        """
        self.graph.parent(node)
        await self.write({"type": "label", "node": node, "name": name})

    async def update(self, **fields: Any) -> None:
        """Change fields of the session record: `title`, `model`, `archived`."""
        await self.write({"type": "session", "id": self.id, **fields})

    async def fork_to_new(self, node: str | None, *, title: str | None = None) -> Session:
        """Make a new session that begins with the path to `node`, under the same node ids.

        Raises:
            NodeNotFound: there is no such node.
            PersistenceFault: the disk refused.
        """
        nodes = await asyncio.to_thread(self.graph.nodes_to, node)
        return await self._store.fork(self, nodes, title=title, own=self._own_path(node))

    def begin(self, record: dict[str, Any]) -> None:
        """Queue the first record of a new session."""
        self._enqueue(record)

    def take_path(self, nodes: Sequence[Node], *, own: bool) -> None:
        """Queue the nodes of another session, under the ids that they have, and a head on the last of them."""
        self._own = own
        for node in nodes:
            text = node_text(node.parent, node.turn, node.created_at)
            self.graph.put(node, len(text))
            self._queue.append(_Line(node_line(node.id, text, node.turn, node.parent, node.created_at), node.id))
        self._enqueue_head("fork")

    # --- lasting ----------------------------------------------------------------------------------

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
            async with self._io:
                self._log.close()
            self._store.forget(self)

    # --- inside -----------------------------------------------------------------------------------

    def _enqueue_turns(self, turns: Iterable[TurnLike], why: str) -> list[Node]:
        now, redact = self._store.clock.now_ms, self._store.redact
        timed: list[tuple[Turn, int]] = []
        for turn in turns:
            content = as_turn(turn) if redact is None else redact(as_turn(turn))
            if not content.blocks and content.role == ASSISTANT:
                raise InvalidInput("An assistant's turn without blocks is never stored.")
            timed.append((content, now()))
        if not timed:
            return []

        answers = self._answers() if timed[0][0].role != TOOL else []
        timed[:0] = [(turn, now()) for turn in answers]
        nodes = self._add_all(timed)
        self._own_leaf = nodes[-1].id
        self._enqueue_head(why)
        return nodes[len(answers) :]

    def _add(self, turn: Turn, created_at: int) -> Node:
        return self._add_all([(turn, created_at)])[0]

    def _add_all(self, turns: Sequence[tuple[Turn, int]]) -> list[Node]:
        """Put turns under the live leaf and queue their lines; all of them, or none if one cannot be written."""
        parent = self.graph.leaf
        made: list[tuple[Node, bytes]] = []
        for turn, created_at in turns:
            try:
                text = node_text(parent, turn, created_at)
            except (ValueError, TypeError) as error:
                message = f"A turn cannot be stored: {error}."
                raise InvalidInput(message) from error
            node_id = id_of(text)
            made.append((Node(node_id, parent, turn, created_at), text))
            parent = node_id

        graph, queue = self.graph, self._queue
        for node, text in made:
            if graph.put(node, len(text)):
                line = node_line(node.id, text, node.turn, node.parent, node.created_at)
                queue.append(_Line(line, node.id))
        return [node for node, _ in made]

    def _answers(self) -> list[Turn]:
        """What answers the calls at the end of the live path that have no result; empty if all have one."""
        leaf = self.graph.leaf
        if leaf is None:
            return []
        last = self.graph.turn(leaf)
        if last is not None and last.role != TOOL and not last.tool_calls:
            return []
        tail = self.graph.tail_ids(leaf, TOOL)
        answers = open_answers([self.graph.node(node).turn for node in tail], self._started(tail))
        return [] if answers is None else [answers]

    def _enqueue(self, record: dict[str, Any]) -> None:
        try:
            line = jsontext.dumps(record) + b"\n"
        except (ValueError, TypeError) as error:
            msg = f"A record cannot be stored: {error}."
            raise InvalidInput(msg) from error
        self._state.take_record(record)
        self._queue.append(_Line(line, record=record))

    def _enqueue_head(self, why: str) -> None:
        leaf = self.graph.leaf
        line, mac = self._store.head_line(self.id, leaf, why, sign=self._own)
        self._state.note_head(leaf, mac)
        self._queue.append(_Line(line, head=(leaf, mac)))

    def _own_path(self, leaf: str | None) -> bool:
        """Whether a head on `leaf` may be signed: on our own path, or under another head of this user."""
        if self._own and self.graph.is_ancestor(leaf, self._state.head):
            return True
        return self._state.vouched(leaf)

    def _true_ids(self, leaf: str) -> None:
        """Under the live leaf's path, put every turn from the first false id on in anew."""
        nodes = self.graph.nodes_to(leaf)
        first = next((at for at, node in enumerate(nodes) if not node.verified), None)
        if first is None:
            return
        self.graph.branch_from(nodes[first].parent if first else None)
        for node in nodes[first:]:
            self._add(node.turn, node.created_at)

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

    def _note_written(self, lines: list[_Line], written: Written) -> None:
        ours, own_head = self.graph.leaf, self._state.head
        offset = written.offset
        for line in lines:
            if line.node is not None:
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
        """The file is not ours any more: read it anew, and queue again what of our live path it lacks."""
        state, log_status = self._store.fresh_state(self.id), None
        mine = await asyncio.to_thread(self._rescue)
        try:
            log_status = await asyncio.to_thread(load, state, self.path, self._store.migrators)
        except OSError as error:
            msg = f"Session {self.id} cannot be read: {error.strerror or error}."
            raise PersistenceFault(msg) from error

        fields = dict(self._state.fields)
        queued = {line.node for line in self._queue if line.node is not None}
        lines: list[_Line] = []
        if log_status is None and fields:
            state.take_record({"type": "session", **fields})
            lines.append(_Line(jsontext.dumps({"type": "session", **fields}) + b"\n"))
        for node in mine:
            if node.id in state.graph:
                continue
            text = node_text(node.parent, node.turn, node.created_at)
            state.graph.put(node, len(text))
            if node.id not in queued:
                lines.append(_Line(node_line(node.id, text, node.turn, node.parent, node.created_at), node.id))
        for line in self._queue:
            if line.record is not None:
                state.take_record(line.record)
        leaf, own = self.graph.leaf, self._own
        theirs = state.head
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
        self._tell(Change((), theirs, (leaf, theirs) if apart and leaf and theirs else (), reloaded=True))

    def _rescue(self) -> list[Node]:
        """The nodes of our live path that can still be read and are what their ids say."""
        nodes = self.graph.nodes_to(self.graph.leaf)
        return [node for node in nodes if hash_node(node.parent, node.turn, node.created_at) == node.id]

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

    def _sync_in_background(self) -> None:
        if self._syncing is not None and not self._syncing.done():
            return
        task = self._syncing = asyncio.get_running_loop().create_task(self._sync())
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

"""A session that is open: what was said, and every way to say more and to move about in it.

Turns enter the graph at once and the journal with them; each method returns when its records are on the disk. When the
disk refuses, it raises a `PersistenceFault`, and the records go out with the next write.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Container, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from indusagi_lsp.contract.approvals import ApprovalRequest, Verdict
from indusagi_lsp.contract.errors import InvalidInput, InvalidState
from indusagi_lsp.contract.events import CondenseTrigger
from indusagi_lsp.contract.models import Usage
from indusagi_lsp.contract.turns import ASSISTANT, TOOL, Turn
from indusagi_lsp.sessions.journal import Journal
from indusagi_lsp.sessions.liveview import LiveView
from indusagi_lsp.sessions.log import SessionLog
from indusagi_lsp.sessions.nodes import Node, TurnLike, as_turn, node_line, node_text
from indusagi_lsp.sessions.outline import Look, look_at
from indusagi_lsp.sessions.queued import Line
from indusagi_lsp.sessions.state import LoadReport, SessionMeta, SessionState, usage_record
from indusagi_lsp.sessions.summaries import SessionSummary, summarize_state
from indusagi_lsp.sessions.view import open_answers

if TYPE_CHECKING:
    from indusagi_lsp.sessions.store import SessionStore

_BACKGROUND_SYNC = 8 << 20


class Session(Journal):
    """One conversation, open for reading and writing. Made by a `SessionStore`.

    Attributes:
        id: the session's id.
        graph: every turn, of all branches; its live leaf is where `append` goes on. Always the same object; change it
            through the session, so that the change reaches the disk.
        busy: set it while a run is under way, so that turns of another window do not move the live leaf meanwhile.
    """

    def __init__(self, store: SessionStore, state: SessionState, log: SessionLog) -> None:
        super().__init__(store, state, log)
        self._view = LiveView()

    # --- looking ----------------------------------------------------------------------------------

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

    async def look(self, limit: int, before: str | None = None) -> Look:
        """A page of the live path, and what surrounds it, as they are now.

        Args:
            limit: how many turns, the newest.
            before: only turns that stand before this one.

        Raises:
            NodeNotFound: `before` is not on the live path.
        """
        while True:
            leaf, state = self.graph.leaf, self._state
            async with self._io:
                look = await asyncio.to_thread(look_at, state, limit, before)
            if (leaf, state) == (self.graph.leaf, self._state):
                return look

    async def summary(self) -> SessionSummary:
        """What a list shows of the session, as it is now."""
        return summarize_state(self._state)

    def known_summary(self, status: os.stat_result) -> SessionSummary | None:
        """The summary, where what is in memory is what a file of that status says; called in a thread."""
        known = self._log.known()
        if known is None or self._queue or not known.end == known.status.st_size == status.st_size:
            return None
        if known.status.st_ino != status.st_ino or self._state.head != self.graph.leaf:
            return None
        return summarize_state(self._state, written_at=status.st_mtime_ns // 1_000_000)

    def preload(self) -> bool:
        """Look at the live path for the first time, which costs most, where it fits in memory. Blocks.

        Returns:
            Whether it does; a view of one that does not is made when it is asked for.
        """
        if not self.graph.preload(self.graph.leaf):
            return False
        self.model_view()
        return True

    def model_view(self) -> tuple[Turn, ...]:
        """The live path as a model may be sent it: every call has its result (session format, "Reading")."""
        return self._view.of(self.graph, self.graph.leaf, self._state.receipts)

    def _started(self, ids: Sequence[str]) -> Callable[[int, str], bool]:
        receipts = self._state.receipts
        return lambda at, call: (ids[at], call) in receipts

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
        path = self.graph.ids_to(old)
        if not 0 <= start < cut <= len(path):
            msg = f"A cut of {cut} does not fit a history of {len(path)} turns."
            raise InvalidInput(msg)

        if kept is None:
            kept = [(node.turn, node.created_at, node.id) for node in map(self.graph.node, path[cut:])]
        self.graph.branch_from(path[start - 1] if start else None)
        root = self._add(summary, self.graph.node(path[cut - 1]).created_at)
        copies: dict[str, str] = {}
        for turn, created_at, original in kept:
            copy = self._add(turn, int(created_at))
            if original is not None:
                copies[copy.id] = original
        record: dict[str, Any] = {
            "type": "condense",
            "summary": root.id,
            "from": old,
            "cut": path[cut] if cut < len(path) else None,
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
        await self.write(usage_record(node, usage, model, provider))

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

    def records_about(self, nodes: Container[str]) -> list[dict[str, Any]]:
        """The records that these turns need to keep their meaning in another session."""
        return self._state.about(nodes, self._store.clock.now_ms())

    def take_path(self, nodes: Sequence[Node], records: Iterable[dict[str, Any]], *, own: bool) -> None:
        """Queue the nodes of another session, under the ids that they have, a head on the last, and their records."""
        self._own = own
        for node in nodes:
            text = node_text(node.parent, node.turn, node.created_at)
            self.graph.put(node, len(text))
            self._queue.append(Line(node_line(node.id, text, node.turn, node.parent, node.created_at), node.id))
        self._enqueue_head("fork")
        for record in records:
            self._enqueue(record)

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

    def _true_ids(self, leaf: str) -> None:
        """Under the live leaf's path, put every turn from the first false id on in anew."""
        nodes = self.graph.nodes_to(leaf)
        first = next((at for at, node in enumerate(nodes) if not node.verified), None)
        if first is None:
            return
        self.graph.branch_from(nodes[first].parent if first else None)
        for node in nodes[first:]:
            self._add(node.turn, node.created_at)

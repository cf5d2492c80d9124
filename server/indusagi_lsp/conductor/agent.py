"""`Agent`: the engine's one door (seed: `createAgent`). It holds one session at a time and runs one prompt at a time.

Prompts that come while a run goes on wait in the order in which they came, or enter the run when they are to steer it.
Nothing that waits is lost by an abort, a fault or a condensation: it gets a run of its own afterwards.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from typing import Any, Literal, TypeAlias, TypeVar

import msgspec

from indusagi_lsp.conductor.condense import CondenseOutcome, Condenser, CondenseRequest
from indusagi_lsp.conductor.config import AgentConfig, AgentDeps
from indusagi_lsp.conductor.cost import CostTracker
from indusagi_lsp.conductor.history import History, MemoryHistory, StoredHistory
from indusagi_lsp.conductor.prompts import Prompt, Prompts, Waiting, turns_of
from indusagi_lsp.conductor.run import Run, RunParts
from indusagi_lsp.conductor.tracing import traced
from indusagi_lsp.conductor.uninterrupted import uninterrupted
from indusagi_lsp.contract.errors import InvalidState, NodeNotFound, SessionForeign, SessionNotFound
from indusagi_lsp.contract.events import Phase, QueueChanged, RunSnapshot
from indusagi_lsp.contract.models import ModelCard, ModelCatalogue, ModelInvoker
from indusagi_lsp.contract.turns import USER, Turn
from indusagi_lsp.ledger import Dispose, Handler, RunLedger
from indusagi_lsp.sessions import Node, Session, SessionStore

T = TypeVar("T")
Mode: TypeAlias = Literal["queue", "steer"]


class ForkPoint(msgspec.Struct, frozen=True):
    """Where a fork stands. `prefill` is the prompt to edit, when the fork was before a user's turn."""

    leaf: str | None
    prefill: str | None = None


class Agent:
    """A conversation with a model that can use tools.

    Made by `create_agent`. Methods are called on one event loop; none of them blocks it.
    """

    def __init__(
        self,
        config: AgentConfig,
        deps: AgentDeps,
        *,
        invoke: ModelInvoker,
        catalogue: ModelCatalogue,
    ) -> None:
        self.config = config
        self.deps = deps
        self.costs = CostTracker()
        self.ledger = deps.ledger if isinstance(deps.ledger, RunLedger) else RunLedger()
        self._store = deps.store if isinstance(deps.store, SessionStore) else None
        self._invoke = traced(invoke, deps.tracer)
        self._catalogue = catalogue
        self._history: History | None = None
        self._condenser: Condenser | None = None
        self._prompts = Prompts(lambda count: self.ledger.publish(QueueChanged(count)))
        self._allowed: set[tuple[str, str]] = set()
        self._run: Run | None = None
        self._last: RunSnapshot | None = None
        self._pump: asyncio.Task[None] | None = None
        self._alone = asyncio.Lock()
        self._condensing: asyncio.Task[CondenseOutcome] | None = None

    # --- reading ------------------------------------------------------------------------------------------------------

    @property
    def session(self) -> Session | None:
        """The session in the store, or None where the conversation lives in memory or has not begun."""
        return self._history.session if isinstance(self._history, StoredHistory) else None

    @property
    def session_id(self) -> str | None:
        """The session's id, None before the first prompt."""
        return self._history.session_id if self._history else None

    @property
    def running(self) -> bool:
        """Whether a run goes on or waits, or history is being condensed."""
        return self._run is not None or self._prompts.waiting or self._condensing is not None

    @property
    def run_id(self) -> str:
        """The id of the run that goes on, else of the last one; empty before the first."""
        if self._run is not None:
            return self._run.run_id
        return self._last.run_id if self._last else ""

    @property
    def queued(self) -> int:
        """How many prompts wait."""
        return self._prompts.count

    @property
    def phase(self) -> Phase:
        """What the agent is doing."""
        if self._run is not None:
            return self._run.phase
        if self._condensing is not None:
            return "condensing"
        return self._last.phase if self._last else "idle"

    def subscribe(self, handler: Handler) -> Dispose:
        """Tap the ledger: `handler` is called with every event of this agent until the result is called."""
        return self.ledger.subscribe(handler)

    def snapshot(self) -> RunSnapshot:
        """Where the agent is; costs nothing but the making of the snapshot."""
        if self._run is not None:
            return self._run.snapshot()
        history = self._history
        last = self._last
        return RunSnapshot(
            run_id=last.run_id if last else "",
            session_id=history.session_id if history else "",
            phase=self.phase,
            messages=history.view() if history else (),
            usage=self.costs.total,
            model=self.config.model,
            leaf=history.leaf if history else None,
            error=last.error if last else None,
        )

    # --- running ------------------------------------------------------------------------------------------------------

    async def submit(self, prompt: Prompt, mode: Mode = "queue", *, run_id: str | None = None) -> RunSnapshot:
        """Say something, and wait until the run that answers it has settled or faulted.

        Args:
            prompt: text, a turn, or turns (as values or as the session format's JSON).
            mode: `queue` waits for the end of a run that goes on; `steer` enters it after its current tools.
            run_id: the id that the run's events carry; made up where it is left out.

        Returns:
            The run's last snapshot; its phase is `settled` or `faulted`.

        Raises:
            InvalidInput: there is nothing in the prompt.
            SessionForeign: the session was written by somebody else and is not adopted.
        """
        turns = turns_of(prompt)
        if self._history is None:
            # Two prompts must not begin two sessions, nor may one be begun while the agent goes to another.
            async with self._alone:
                await self._ensure_history()
        await self._trusted_history()
        self._card()
        waiting = Waiting(turns, run_id or self.deps.new_id())
        self._prompts.add(waiting, steer=mode == "steer" and self._run is not None)
        if self._alone.locked():
            self._prompts.publish()
        if self._pump is None or self._pump.done():
            self._pump = asyncio.create_task(self._drain_queue(), name="agent queue")
        try:
            return await asyncio.shield(waiting.ended)
        except asyncio.CancelledError:
            await self._withdraw(waiting)
            raise

    async def abort(self) -> Phase:
        """End what is going on, keeping what was said; does nothing when idle.

        Returns:
            The phase that the agent was in.
        """
        phase = self.phase
        if self._condensing is not None:
            self._condensing.cancel()
        if self._run is not None:
            self._run.abort()
        return phase

    async def close(self) -> None:
        """End everything; the prompts that wait are cancelled, and none is started."""
        self._prompts.cancel()
        await self.abort()
        if self._pump is not None:
            await asyncio.wait({self._pump})

    def use_model(self, model: str) -> ModelCard:
        """Use another model from the next run on.

        Raises:
            ModelError: there is no such model.
        """
        card = self._catalogue.card(model)
        self.config = msgspec.structs.replace(self.config, model=model)
        return card

    def configure(self, config: AgentConfig) -> None:
        """Take another configuration from the next run on."""
        self.config = config

    # --- the graph ----------------------------------------------------------------------------------------------------

    @asynccontextmanager
    async def at_rest(self, action: str) -> AsyncIterator[None]:
        """Hold the agent still: no run goes on meanwhile, and prompts that come wait until the end of it.

        Args:
            action: what is to be done meanwhile, for the message: "It is not the moment to …".

        Raises:
            InvalidState: a run goes on.
        """
        self._idle(action)
        async with self._alone:
            # A prompt that came while this waited for its turn is not to be answered anywhere else.
            self._idle(action)
            yield

    async def start(self, session: Session) -> None:
        """Go on in a session that the caller has opened or made.

        Raises:
            InvalidState: a run goes on.
        """
        async with self.at_rest("go to another session"):
            self._use(StoredHistory(session))

    async def resume(self, session_id: str, node: str | None = None) -> RunSnapshot:
        """Take up a session from the store, at its head or at `node`. History is fetched, not replayed: no events.

        Raises:
            SessionNotFound: the store has no such session, or there is no store.
            NodeNotFound: the session has no such node.
            InvalidState: a run goes on.
        """
        async with self.at_rest("go to another session"):
            if self._store is None:
                raise SessionNotFound(session_id)
            if self.session is None or self.session.id != session_id:
                self._use(StoredHistory(await self._store.open(session_id)))
            history = await self._ensure_history()
            if node is not None and node != history.leaf:
                self._require(node)
                await self._go(history.move_head(node, "resume"))
            self._last = None
            # The first view of a long path takes a while; later ones build on it.
            await asyncio.to_thread(history.view)
            return self.snapshot()

    async def fork(self, node: str, *, before: bool = False) -> ForkPoint:
        """Go on from an earlier node, leaving what came after it as a branch of its own.

        Args:
            node: the node to go on from.
            before: go on from its parent, and hand the prompt back for editing.

        Raises:
            NodeNotFound: the session has no such node.
            InvalidState: a run goes on.
        """
        async with self.at_rest("fork"):
            point = self.fork_point(node, before=before)
            await self._go((await self._ensure_history()).move_head(point.leaf, "fork"))
            return point

    def fork_point(self, node: str, *, before: bool = False) -> ForkPoint:
        """Where a fork at `node` would stand; changes nothing.

        Raises:
            NodeNotFound: the session has no such node.
        """
        found = self._require(node)
        if not before:
            return ForkPoint(found.id)
        return ForkPoint(found.parent, found.turn.text if found.turn.role == USER else None)

    async def condense(self, request: CondenseRequest | None = None) -> CondenseOutcome:
        """Condense the live path now, or show what that would do.

        Prompts that come meanwhile wait. Cancelling leaves the history untouched, until the summary is being written:
        then it is written to its end, and told, before the cancellation is raised.

        Raises:
            CompactionFailed: no acceptable summary could be made; the history is untouched.
            InvalidInput: a node that is not on the live path, or a preview that is out of date.
            InvalidState: a run goes on.
            SessionForeign: the session was written by somebody else and is not adopted.
        """
        async with self.at_rest("condense"):
            condenser = self._current_condenser(await self._trusted_history())
            self._condensing = asyncio.create_task(condenser.on_request(request or CondenseRequest()))
            try:
                return await self._condensing
            finally:
                self._condensing.cancel()
                self._condensing = None

    async def undo_condense(self) -> str | None:
        """Go back to the line that the last condensation was made from; its leaf.

        Raises:
            InvalidState: there is none on this branch, or a run goes on.
        """
        async with self.at_rest("undo a condensation"):
            return await self._go((await self._ensure_history()).undo_condense())

    async def add_note(self, turn: Turn) -> None:
        """Put a turn under the live leaf without asking the model, for what a run did not say (a branch's result).

        Raises:
            InvalidState: a run goes on.
            SessionForeign: the session was written by somebody else and is not adopted.
        """
        async with self.at_rest("add a note"):
            await uninterrupted((await self._trusted_history()).append([turn]))

    def path_changed(self) -> None:
        """Somebody else has changed the session's path: what was measured of it is void."""
        if self._run is None:
            self._condenser = None

    # --- inside -------------------------------------------------------------------------------------------------------

    async def _drain_queue(self) -> None:
        while self._prompts.waiting:
            async with self._alone:
                waiting = self._prompts.begin()
                if waiting is None:
                    continue
                try:
                    snapshot = await self._one_run(waiting)
                except Exception as error:  # noqa: BLE001 - told to whoever waits; the others' turn comes all the same
                    for ended in self._prompts.run_ended():
                        ended.set_exception(error)
                else:
                    for ended in self._prompts.run_ended():
                        ended.set_result(snapshot)

    async def _one_run(self, waiting: Waiting) -> RunSnapshot:
        # Asked again: while the prompt waited, the agent may have gone to another session.
        history = await self._trusted_history()
        condenser = self._current_condenser(history)
        parts = RunParts(
            config=self.config,
            deps=self.deps,
            history=history,
            invoke=self._invoke,
            card=condenser.card,
            condenser=condenser,
            costs=self.costs,
            publish=self.ledger.publish,
            tools={tool.spec.name: tool for tool in self.config.tools},
            allowed=self._allowed,
        )
        self._run = Run(parts, waiting.run_id, waiting.turns, self._prompts.steer)
        history.hold(busy=True)
        try:
            self._last = await self._run.execute()
            return self._last
        finally:
            history.hold(busy=False)
            self._run = None

    async def _withdraw(self, waiting: Waiting) -> None:
        """The caller has cancelled: take its prompt back, or end its run and wait for the end."""
        if not self._prompts.withdraw(waiting) and self._prompts.answers(waiting) and self._run is not None:
            self._run.abort()
            await asyncio.wait({waiting.ended})

    def _idle(self, action: str) -> None:
        if self.running:
            message = f"A run goes on in this session, so it is not the moment to {action}."
            raise InvalidState(message, hint="Wait for its end, or stop it first.")

    async def _trusted_history(self) -> History:
        history = await self._ensure_history()
        if not history.trusted:
            raise SessionForeign(history.session_id)
        return history

    async def _ensure_history(self) -> History:
        """The conversation, begun now if there is none; only called by who holds the agent still."""
        if self._history is not None:
            return self._history
        if self._store is None:
            return self._use(MemoryHistory(self.deps.new_id(), self.deps.clock))
        session = await self._store.create(cwd=self.deps.workspace, model=self.config.model)
        return self._use(StoredHistory(session))

    async def _go(self, move: Coroutine[Any, Any, T]) -> T:
        """Move the head, to the end of it; what was measured of the old path is void then, however it ended."""
        try:
            return await uninterrupted(move)
        finally:
            self._forget_path()

    def _use(self, history: History) -> History:
        self._history = history
        self._forget_path()
        self._allowed = set()
        return history

    def _forget_path(self) -> None:
        """The agent stands elsewhere: what was measured, and how the last run ended, was of another path."""
        self._condenser = None
        self._last = None

    def _card(self) -> ModelCard:
        return self._catalogue.card(self.config.model)

    def _current_condenser(self, history: History) -> Condenser:
        card = self._card()
        if self._condenser is None or not self._condenser.fits(history, card):
            self._condenser = Condenser(
                history=history,
                card=card,
                config=self.config,
                invoke=self._invoke,
                costs=self.costs,
                publish=self.ledger.publish,
            )
        self._condenser.configure(self.config)
        return self._condenser

    def _require(self, node: str) -> Node:
        found = self._history.find(node) if self._history is not None else None
        if found is None:
            raise NodeNotFound(self.session_id or "", node)
        return found

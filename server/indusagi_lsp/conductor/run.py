"""One run: from a prompt that is written to disk to exactly one `settled` or `faulted`.

The loop is: condense if due, call the model, keep its answer, run its tool calls, let steering prompts in; until the
model calls no tool. The work is a task of its own, so that an abort can end it at any point while what was said until
then is still kept and told.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from contextlib import aclosing
from typing import Any, TypeAlias, cast

from indusagi_lsp.conductor.answer import Answer
from indusagi_lsp.conductor.condense import Condenser
from indusagi_lsp.conductor.config import AgentConfig, AgentDeps
from indusagi_lsp.conductor.cost import CostTracker
from indusagi_lsp.conductor.dispatch import NEVER_STARTED, Dispatcher
from indusagi_lsp.conductor.history import History
from indusagi_lsp.conductor.prompt import with_excerpts
from indusagi_lsp.conductor.tracing import run_facts, usage_facts
from indusagi_lsp.conductor.uninterrupted import uninterrupted
from indusagi_lsp.contract.errors import Aborted, ContextOverflow, IndusagiError, ModelError, TurnBudgetSpent
from indusagi_lsp.contract.events import (
    CallStage,
    Fault,
    Faulted,
    Notice,
    PendingCall,
    Persisted,
    Phase,
    Retry,
    RunEvent,
    RunSnapshot,
    RunStarted,
    Settled,
    Snapshot,
    TextDelta,
    ThinkingDelta,
    ToolFinished,
    ToolResult,
    ToolStarted,
    UsageReported,
)
from indusagi_lsp.contract.models import (
    ModelCard,
    ModelDone,
    ModelInvoker,
    ModelNote,
    ModelPart,
    ModelRequest,
    ModelRetry,
    Usage,
)
from indusagi_lsp.contract.models import TextDelta as ModelText
from indusagi_lsp.contract.models import ThinkingDelta as ModelThinking
from indusagi_lsp.contract.models import ToolCallDelta as ModelToolCall
from indusagi_lsp.contract.tools import Tool
from indusagi_lsp.contract.turns import TOOL, USER, ToolCallBlock, ToolResultBlock, Turn
from indusagi_lsp.sessions import Node

logger = logging.getLogger(__name__)

NextSteering: TypeAlias = Callable[[], Sequence[Turn] | None]


class RunParts:
    """What a run works with, all of it the agent's."""

    def __init__(
        self,
        *,
        config: AgentConfig,
        deps: AgentDeps,
        history: History,
        invoke: ModelInvoker,
        card: ModelCard,
        condenser: Condenser,
        costs: CostTracker,
        publish: Callable[[RunEvent], None],
        tools: dict[str, Tool],
        allowed: set[tuple[str, str]],
    ) -> None:
        self.config = config
        self.deps = deps
        self.history = history
        self.invoke = invoke
        self.card = card
        self.condenser = condenser
        self.costs = costs
        self.publish = publish
        self.tools = tools
        self.allowed = allowed


class Run:
    """One run of one session.

    Args:
        parts: what it works with.
        run_id: its id.
        turns: the prompt: user's turns that are not on disk yet.
        next_steering: gives the next prompt that is to enter this run, or None.
    """

    def __init__(self, parts: RunParts, run_id: str, turns: Sequence[Turn], next_steering: NextSteering) -> None:
        self.run_id = run_id
        self.phase: Phase = "invoking"
        self._parts = parts
        self._turns = turns
        self._next_steering = next_steering
        self._usage = Usage()
        self._pending: dict[str, PendingCall] = {}
        self._answer = Answer(self._publish, parts.deps.new_id)
        self._started_calls: dict[str, str] = {}
        self._assistant_node: str | None = None
        self._work: asyncio.Task[None] | None = None
        self._stopped = False
        self._confirming: set[asyncio.Task[None]] = set()
        self._error: Fault | None = None
        self._dispatcher = Dispatcher(
            parts.tools,
            approver=parts.deps.approver,
            publish=self._publish,
            stage=self._on_stage,
            record=self._on_result,
            editor=parts.deps.editor,
            spill=parts.deps.spill,
            audit=parts.history.approval,
            allowed=parts.allowed,
            new_id=parts.deps.new_id,
            seconds=parts.config.tool_seconds,
            tracer=parts.deps.tracer,
        )

    async def execute(self) -> RunSnapshot:
        """Run to the end; never raises for what the run does.

        Returns:
            The snapshot that the terminal event carries.
        """
        parts = self._parts
        facts = run_facts(parts.history.session_id, self.run_id, parts.card.id)
        with parts.deps.tracer.span("invoke_agent indusagi", facts) as span:
            fault = await self._go()
            span.note(usage_facts(self._usage))
            if fault is not None:
                span.fail(fault.kind)

        self._error = fault
        self.phase = "faulted" if fault else "settled"
        self._pending.clear()
        snapshot = self.snapshot()
        parts.publish(Faulted(fault, snapshot) if fault else Settled(snapshot))
        return snapshot

    async def _go(self) -> Fault | None:
        # The prompt is written whatever happens: a stop that comes at this moment ends what follows, and loses nothing.
        fault = await self._told(self._take_in(self._turns, first=True))
        if fault is None:
            self._work = asyncio.create_task(self._work_through(), name=f"run {self.run_id}")
            if self._stopped:
                self._work.cancel()
            await asyncio.wait({self._work})
            fault = await self._conclude(self._work)
        self._finish_calls()
        if self._confirming:
            await asyncio.wait(self._confirming)
        return fault

    def abort(self) -> None:
        """End the run as soon as possible; calling it again does nothing."""
        self._stopped = True
        if self._work is not None:
            self._work.cancel()

    def snapshot(self) -> RunSnapshot:
        """Where the run is."""
        history = self._parts.history
        return RunSnapshot(
            run_id=self.run_id,
            session_id=history.session_id,
            phase=self.phase,
            messages=history.view(),
            pending=tuple(self._pending.values()),
            usage=self._usage,
            model=self._parts.card.id,
            leaf=history.leaf,
            error=self._error,
            partial=self._answer.text,
        )

    async def _conclude(self, work: asyncio.Task[None]) -> Fault | None:
        """Keep what was half said, and say why the run ended badly, if it did."""
        fault = await self._told(work)
        kept = await self._told(self._keep_partial())
        return fault or kept

    async def _told(self, work: Awaitable[None]) -> Fault | None:
        """Why `work` ended badly, if it did; a fault of our own goes to the log."""
        try:
            await work
        except asyncio.CancelledError:
            return _fault(Aborted("The run was stopped.", hint="What was said until then is kept; submit to go on."))
        except IndusagiError as error:
            return _fault(error)
        except Exception:
            logger.exception("run %s failed", self.run_id)
            return Fault("internal", "The run failed by a fault of the server.", "The log has the details.")
        return None

    async def _work_through(self) -> None:
        for _ in range(self._parts.config.max_turns):
            await self._parts.condenser.if_due(self._set_phase)
            done = await self._ask_model()
            calls = await self._keep_answer(done)
            if calls:
                self._set_phase("dispatching")
                await self._dispatcher.run(calls, session_id=self._parts.history.session_id, run_id=self.run_id)
                self._parts.publish(Snapshot(self.snapshot()))
            steered = False
            while (prompt := self._next_steering()) is not None:
                await uninterrupted(self._take_in(prompt))
                steered = True
            if not calls and not steered:
                return
        message = f"The run called the model {self._parts.config.max_turns} times without coming to an end."
        raise TurnBudgetSpent(message, hint="Submit again to let it go on, or raise the setting maxTurns.")

    async def _take_in(self, turns: Sequence[Turn], *, first: bool = False) -> None:
        """Write a prompt to disk, before anything else happens with it; the first one begins the run."""
        nodes: list[Node] = []
        try:
            nodes = await self._parts.history.append(turns)
        finally:
            if first:
                self._parts.publish(RunStarted(nodes[-1].id if nodes else None))
        for node in nodes:
            self._confirm(node.id)
        self._parts.publish(Snapshot(self.snapshot()))

    async def _ask_model(self) -> ModelDone:
        """Call the model; again after condensing, as often as it says that the prompt is too long and that helps."""
        while True:
            try:
                return await self._stream()
            except ContextOverflow:
                if self._answer.begun or not await self._parts.condenser.after_overflow(self._set_phase):
                    raise

    async def _stream(self) -> ModelDone:
        self._set_phase("invoking")
        self._answer.clear()
        request = await self._request()
        parts = cast("Any", self._parts.invoke(request))
        async with aclosing(parts):
            async for part in parts:
                done = self._on_part(part)
                if done is not None:
                    return done
        raise ModelError("The model's answer ended without an end.", hint="Submit again to retry.", retryable=True)

    async def _request(self) -> ModelRequest:
        config, card, history = self._parts.config, self._parts.card, self._parts.history
        turns = history.view()
        excerpts = self._parts.deps.excerpts
        if not card.tools and excerpts is not None:
            prompts = [turn.text for turn in turns if turn.role == USER]
            turns = with_excerpts(turns, await excerpts(prompts[-1] if prompts else ""))
        return ModelRequest(
            model=card.id,
            turns=turns,
            system=config.system,
            tools=tuple(tool.spec for tool in self._parts.tools.values()) if card.tools else (),
            max_output_tokens=config.max_output_tokens,
            thinking=config.thinking,
        )

    def _on_part(self, part: ModelPart) -> ModelDone | None:
        match part:
            case ModelText(text):
                self._set_phase("streaming")
                self._answer.add_text(text)
                self._parts.publish(TextDelta(text))
            case ModelThinking(text):
                self._set_phase("streaming")
                self._answer.begun = True
                self._parts.publish(ThinkingDelta(text))
            case ModelToolCall(index, call_id, name, _):
                self._set_phase("streaming")
                self._answer.announce(index, call_id, name)
            case ModelRetry(attempt, delay, error):
                self._parts.publish(Retry(attempt, delay, error))
            case ModelNote(code, text):
                self._parts.publish(Notice("warning", code, text))
            case ModelDone():
                return part
        return None

    async def _keep_answer(self, done: ModelDone) -> tuple[ToolCallBlock, ...]:
        """Write the assistant's turn and account for it; the calls that are to be run."""
        turn = self._answer.settle(done.turn)
        self._parts.condenser.model_answered(done.usage)
        if not turn.blocks:
            await self._on_silence()
            self._account(done.usage)
            return ()
        if done.stop == "interrupted":
            turn = Turn(turn.role, turn.blocks, {**turn.extra, "interrupted": True})
        self._answer.clear()
        await uninterrupted(self._write_answer(turn, done.usage))
        self._pending = {call.id: PendingCall(call.id, call.name, "called") for call in turn.tool_calls}
        if done.stop == "length":
            self._parts.publish(Notice("warning", "answer_cut", "The answer was cut at the model's output limit."))
        self._parts.publish(Snapshot(self.snapshot()))
        return turn.tool_calls

    async def _write_answer(self, turn: Turn, usage: Usage | None) -> None:
        (node,) = await self._parts.history.append([turn])
        self._assistant_node = node.id
        self._account(usage)
        self._confirm(node.id)
        if usage is not None:
            await self._parts.history.usage(node.id, usage, self._parts.card.id, self._parts.card.provider)

    async def _on_silence(self) -> None:
        """A model may end its turn without a word after a tool's result; after a prompt that is a fault."""
        view = self._parts.history.view()
        if not view or view[-1].role != TOOL:
            raise ModelError("The model answered with nothing.", hint="Submit again, or choose another model.")

    def _account(self, usage: Usage | None) -> None:
        card = self._parts.card
        spent = usage or Usage()
        self._usage = self._usage + spent
        self._parts.costs.add(card.provider, "main", spent)
        estimate = self._parts.condenser.estimate()
        self._parts.publish(UsageReported(spent.input, spent.output, card.window, estimate, spent.cost))

    async def _keep_partial(self) -> None:
        """A stream that died leaves its text as a marked turn; half a tool call is dropped, since it never ran."""
        turn = self._answer.partial()
        if turn is not None:
            (node,) = await uninterrupted(self._parts.history.append([turn]))
            self._confirm(node.id)

    async def _on_stage(self, call: ToolCallBlock, stage: CallStage, effectful: bool) -> None:
        self._set_phase("awaiting_approval" if stage == "awaiting_approval" else "dispatching")
        if stage == "finished":
            self._pending.pop(call.id, None)
        else:
            self._pending[call.id] = PendingCall(call.id, call.name, stage)
        if effectful and self._assistant_node is not None and stage in ("started", "finished"):
            # After a crash the receipts tell what is known of a tool's effects, so they must be there before it acts.
            await uninterrupted(self._parts.history.receipt(self._assistant_node, call.id, stage))
            await self._parts.history.sync()

    async def _on_result(self, result: ToolResultBlock) -> None:
        (node,) = await self._parts.history.append([Turn(TOOL, (result,))])
        self._confirm(node.id)

    def _confirm(self, node: str) -> None:
        """Tell `persisted` as soon as the disk has confirmed, without making the run wait for it."""

        async def confirm() -> None:
            try:
                await self._parts.history.sync()
            except IndusagiError as error:
                self._parts.publish(Notice("error", error.kind, f"{error.message} {error.hint}".rstrip()))
            except Exception:
                logger.exception("the disk's word for node %s did not come", node)
                text = "It is not known whether the last turn is safe on disk. The log has the details."
                self._parts.publish(Notice("error", "internal", text))
            else:
                self._parts.publish(Persisted(node, self._parts.history.leaf or node))

        task = asyncio.create_task(confirm())
        self._confirming.add(task)
        task.add_done_callback(self._confirming.discard)

    def _publish(self, event: RunEvent) -> None:
        """Tell of the tools, and keep the account of which have started and not finished."""
        if isinstance(event, ToolStarted):
            self._started_calls[event.id] = event.name
        elif isinstance(event, ToolFinished):
            self._started_calls.pop(event.id, None)
        self._parts.publish(event)

    def _finish_calls(self) -> None:
        """An end between the model's answer and the tools leaves calls that nobody else will tell the end of."""
        for call_id, name in tuple(self._started_calls.items()):
            self._publish(ToolFinished(call_id, name, ToolResult(NEVER_STARTED, is_error=True)))

    def _set_phase(self, phase: Phase) -> None:
        self.phase = phase


def _fault(error: IndusagiError) -> Fault:
    return Fault(error.kind, error.message, error.hint)

"""Runs the tool calls of one assistant turn: checks, asks, executes within limits, and always gives each a result.

Calls whose tools only read run together; any other call runs alone, in order. A mistake of the model (an unknown tool,
arguments that do not fit) is a result that helps it, never an exception. Whatever happens, a call that was announced as
started is announced as finished, exactly once.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping, Sequence
from typing import Any, Protocol, TypeAlias

from indusagi_lsp.conductor.config import Spill
from indusagi_lsp.conductor.tracing import tool_facts
from indusagi_lsp.conductor.uninterrupted import uninterrupted
from indusagi_lsp.contract import jsontext
from indusagi_lsp.contract.approvals import ApprovalRequest, Approver, Decision, Verdict
from indusagi_lsp.contract.clock import NewId
from indusagi_lsp.contract.errors import IndusagiError
from indusagi_lsp.contract.events import (
    ApprovalRequested,
    ApprovalResolved,
    CallStage,
    MemoryRecalled,
    RunEvent,
    ToolCalled,
    ToolFinished,
    ToolResult,
    ToolUpdate,
)
from indusagi_lsp.contract.tools import Editor, Effect, PlannedCall, PlanningTool, Tool, ToolContext, ToolOutcome
from indusagi_lsp.contract.tracing import Tracer, Untraced
from indusagi_lsp.contract.turns import ToolCallBlock, ToolResultBlock

logger = logging.getLogger(__name__)

READ_ONLY = frozenset({Effect.READ})
INTERRUPTED = "interrupted; its effects are unknown"
NEVER_STARTED = "interrupted; it was never started"


Audit: TypeAlias = Callable[[ApprovalRequest, Verdict], Coroutine[Any, Any, None]]
"""Writes down what was decided; it is never read again."""


class Stage(Protocol):
    """Is told of each call's stage, for snapshots and receipts; awaited, so that a receipt is on disk first."""

    async def __call__(self, call: ToolCallBlock, stage: CallStage, *, effectful: bool) -> None:
        """`call` is now in `stage`; `effectful` where it may do more than read."""
        ...


class Dispatcher:
    """Executes calls for one agent.

    Args:
        tools: by name.
        approver: asked before anything that does more than read.
        publish: where events go.
        stage: told of each call's stage.
        record: told of each result as soon as it is there; awaited.
        editor: what the tools may ask of it.
        spill: makes an output fit a block.
        audit: writes down what was decided; awaited.
        allowed: what the user has allowed for the session, each a tool with the hash of its action; it grows.
        new_id: makes approval ids.
        seconds: the time that one call may take.
        tracer: is told how long each took, the user's answer included.
    """

    def __init__(
        self,
        tools: Mapping[str, Tool],
        *,
        approver: Approver,
        publish: Callable[[RunEvent], None],
        stage: Stage,
        record: Callable[[ToolResultBlock], Awaitable[None]],
        editor: Editor,
        spill: Spill,
        audit: Audit,
        allowed: set[tuple[str, str]],
        new_id: NewId,
        seconds: float,
        tracer: Tracer | None = None,
    ) -> None:
        self._tools = tools
        self._approver = approver
        self._publish = publish
        self._stage = stage
        self._record = record
        self._editor = editor
        self._spill = spill
        self._audit = audit
        self._new_id = new_id
        self._seconds = seconds
        self._allowed = allowed
        self._tracer = tracer or Untraced()

    async def run(self, calls: Sequence[ToolCallBlock], *, session_id: str, run_id: str) -> None:
        """Run `calls` and record a result for each, also when this is cancelled.

        Args:
            calls: the turn's calls, with ids of their own.
            session_id: for the tools and the questions.
            run_id: for the questions.
        """
        open_calls = {call.id: call for call in calls}
        started: set[str] = set()

        async def one(call: ToolCallBlock) -> None:
            # A model may invent any name, so only those of real tools are told.
            name = call.name if call.name in self._tools else "unknown"
            with self._tracer.span(f"execute_tool {name}", tool_facts(name, call.id)) as span:
                outcome = await self._execute(call, session_id, run_id, started)
                if outcome.is_error:
                    span.fail("tool_error")
            del open_calls[call.id]
            await uninterrupted(self._finish(call, outcome))

        try:
            for batch in self._batches(calls):
                if len(batch) == 1:
                    await one(batch[0])
                    continue
                try:
                    async with asyncio.TaskGroup() as group:
                        for call in batch:
                            group.create_task(one(call))
                except ExceptionGroup as failed:
                    # A disk that refuses several results is one fault, and is to be told as what it is.
                    raise failed.exceptions[0] from failed
        finally:
            for call in tuple(open_calls.values()):
                text = INTERRUPTED if call.id in started else NEVER_STARTED
                await uninterrupted(self._finish(call, ToolOutcome(text, is_error=True)))

    def _batches(self, calls: Sequence[ToolCallBlock]) -> Iterator[list[ToolCallBlock]]:
        """Neighbouring calls that only read, together; every other call alone."""
        batch: list[ToolCallBlock] = []
        for call in calls:
            tool = self._tools.get(call.name)
            if tool is None or tool.effects <= READ_ONLY:
                batch.append(call)
                continue
            if batch:
                yield batch
                batch = []
            yield [call]
        if batch:
            yield batch

    async def _execute(self, call: ToolCallBlock, session_id: str, run_id: str, started: set[str]) -> ToolOutcome:
        tool = self._tools.get(call.name)
        if tool is None:
            names = ", ".join(sorted(self._tools)) or "none"
            return ToolOutcome(f"There is no tool {call.name!r}. The tools are: {names}.", is_error=True)
        if not isinstance(call.input, Mapping):
            return ToolOutcome(
                f"The arguments of {call.name} were not a JSON object, so it was not run. Send the call again.",
                is_error=True,
            )
        context = ToolContext(
            session_id,
            call.id,
            lambda text: self._publish(ToolUpdate(call.id, text)),
            self._editor.document,
            self._editor.open_paths,
            self._editor.edit_document,
            lambda entries: self._publish(MemoryRecalled(tuple(entries))),
        )
        try:
            async with asyncio.timeout(self._seconds) as limit:
                planned = await _plan(tool, call, context)
        except Exception as error:  # noqa: BLE001 - told to the model; a tool's own faults are logged there
            return _failure(tool, error, self._seconds if limit.expired() else None)

        if planned.asks and not await self._permitted(call, planned, session_id, run_id):
            return ToolOutcome(
                "The user did not allow this. Do not try it in another way; ask what to do.", is_error=True
            )
        await self._stage(call, "started", effectful=not tool.effects <= READ_ONLY)
        started.add(call.id)
        self._publish(ToolCalled(call.id, call.name, call.input))
        try:
            async with asyncio.timeout(None if planned.waits else self._seconds) as limit:
                outcome = await planned.carry_out()
        except Exception as error:  # noqa: BLE001 - as above
            outcome = _failure(tool, error, self._seconds if limit.expired() else None)
        return ToolOutcome(await self._spill(outcome.output), outcome.is_error)

    async def _permitted(self, call: ToolCallBlock, planned: PlannedCall, session_id: str, run_id: str) -> bool:
        """Ask the user, bound to the exact bytes of the action. Any failure to get an answer is a denial."""
        sha256 = hashlib.sha256(planned.action.encode("utf-8", "surrogatepass")).hexdigest()
        if (call.name, sha256) in self._allowed and not planned.afresh:
            return True

        options: tuple[Decision, ...] = ("once", "deny") if planned.afresh else ("once", "session", "always", "deny")
        request = ApprovalRequest(
            self._new_id(),
            session_id,
            run_id,
            call.id,
            call.name,
            planned.action,
            sha256,
            options,
            tuple(sorted(effect.value for effect in self._tools[call.name].effects)),
            planned.afresh,
        )
        await self._stage(call, "awaiting_approval", effectful=False)
        self._publish(ApprovalRequested(request.id, call.id, request.action, request.options))
        verdict = Verdict("deny", "nobody")
        try:
            answer = await self._approver(request)
            verdict = answer if isinstance(answer, Verdict) else Verdict(answer)
        except Exception:
            logger.exception("the approver failed; that is a denial")
        finally:
            allowed = verdict.decision in options and verdict.decision != "deny"
            if not allowed:
                verdict = Verdict("deny", verdict.by)
            self._publish(ApprovalResolved(request.id, verdict.decision, verdict.by))
            await uninterrupted(self._audit(request, verdict))
        if verdict.decision in ("session", "always"):
            self._allowed.add((call.name, sha256))
        return allowed

    async def _finish(self, call: ToolCallBlock, outcome: ToolOutcome) -> None:
        tool = self._tools.get(call.name)
        try:
            await self._record(ToolResultBlock(call.id, outcome.output, outcome.is_error))
            await self._stage(call, "finished", effectful=tool is not None and not tool.effects <= READ_ONLY)
        finally:
            self._publish(ToolFinished(call.id, call.name, ToolResult(outcome.output, outcome.is_error)))


async def _plan(tool: Tool, call: ToolCallBlock, context: ToolContext) -> PlannedCall:
    """What the call would do: as the tool plans it, else the call itself."""
    if isinstance(tool, PlanningTool):
        return await tool.plan(call.input, context)
    action = jsontext.dumps({"tool": call.name, "input": call.input}).decode("utf-8")
    return PlannedCall(action, lambda: tool.run(call.input, context), asks=not tool.effects <= READ_ONLY)


def _failure(tool: Tool, error: Exception, seconds: float | None) -> ToolOutcome:
    """What the model is told when a call failed; what is our own fault goes to the log, not to the model.

    `seconds` is the limit that ended the call, None where none did: a tool may have time-outs of its own.
    """
    if isinstance(error, IndusagiError):
        return ToolOutcome(f"{error.message} {error.hint}".rstrip(), is_error=True)
    if seconds is not None and isinstance(error, TimeoutError):
        return ToolOutcome(f"{tool.spec.name} was ended after {seconds:g} s.", is_error=True)
    logger.error("tool %s raised", tool.spec.name, exc_info=error)
    return ToolOutcome(f"{tool.spec.name} failed by a fault of its own; it can be tried again.", is_error=True)

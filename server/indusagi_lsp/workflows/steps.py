"""How each kind of step is done: a prompt by an agent, a tool past the approver, a function in a thread, a question."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import threading
import types
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeAlias

import msgspec

from indusagi_lsp.conductor import Agent
from indusagi_lsp.conductor.config import Spill, cut
from indusagi_lsp.conductor.dispatch import READ_ONLY, Dispatcher
from indusagi_lsp.contract import jsontext
from indusagi_lsp.contract.approvals import ApprovalRequest, Approver, Verdict, deny
from indusagi_lsp.contract.clock import Clock, NewId
from indusagi_lsp.contract.errors import IndusagiError
from indusagi_lsp.contract.events import CallStage, RunEvent, ToolUpdate
from indusagi_lsp.contract.limits import MAX_OUTPUT_BYTES, cap_output
from indusagi_lsp.contract.tools import Editor, Tool
from indusagi_lsp.contract.turns import ASSISTANT, ToolCallBlock, ToolResultBlock
from indusagi_lsp.workflows.attempts import StepFailed
from indusagi_lsp.workflows.conditions import ConditionError, Names
from indusagi_lsp.workflows.definition import Step, Workflow
from indusagi_lsp.workflows.files import run_file
from indusagi_lsp.workflows.templates import as_text, fill, fill_text
from indusagi_lsp.workflows.threads import in_own_thread

logger = logging.getLogger(__name__)

GATE = "workflow"
"""The name under which a workflow asks."""

OpenAgent: TypeAlias = Callable[[str | None, str | None, str], Awaitable[Agent]]
"""Gives an agent for a prompt: in the session of that id or a new one, with that model or the usual one, by a title."""


class ExecutorParts(msgspec.Struct, frozen=True, kw_only=True):
    """What steps work with.

    Attributes:
        open_agent: gives the agent of a prompt.
        tools: the tools that there are now.
        approver: asked before a tool does more than read.
        ask: asked at gates, and before a step of unknown outcome is repeated.
        editor: what tools may ask of it.
        spill: makes a tool's output fit.
    """

    open_agent: OpenAgent
    tools: Callable[[], Mapping[str, Tool]] = dict
    approver: Approver = deny
    ask: Approver = deny
    editor: Editor = Editor()
    spill: Spill = cut


class StepContext:
    """What a workflow's function is given. All of it may be used from its thread.

    Attributes:
        inputs: the execution's inputs.
        results: by step, the results of the steps that have ended before: `status`, `output`, `error`, `session`.
    """

    def __init__(self, inputs: Mapping[str, Any], results: Mapping[str, Any], progress: Callable[[str], None]) -> None:
        self.inputs = inputs
        self.results = results
        self._progress = progress
        self._cancelled = threading.Event()

    @property
    def cancelled(self) -> bool:
        """Whether the result is not wanted any more; a long function looks at it now and then, and returns."""
        return self._cancelled.is_set()

    def progress(self, text: str) -> None:
        """Show people what is going on; nothing is shown any more once the result is not wanted."""
        if not self.cancelled:
            self._progress(text)

    def cancel(self) -> None:
        """Say that the result is not wanted any more."""
        self._cancelled.set()


class Output(msgspec.Struct, frozen=True):
    """What a step gave."""

    value: Any = None
    session: str | None = None


class StepRunner:
    """Does the steps of one execution.

    Args:
        parts: what they work with.
        workflow: whose steps they are.
        execution_id: the execution.
        clock: tells how long a tool took.
        new_id: makes ids of runs, calls and questions.
    """

    def __init__(
        self, parts: ExecutorParts, workflow: Workflow, execution_id: str, *, clock: Clock, new_id: NewId
    ) -> None:
        self._parts = parts
        self._workflow = workflow
        self._execution_id = execution_id
        self._clock = clock
        self._new_id = new_id
        self._module: types.ModuleType | None = None
        self._loading = asyncio.Lock()

    def idempotent(self, step: Step) -> bool:
        """Whether doing the step twice does no harm: it says so, only reads, or only asks."""
        if step.idempotent or step.approve is not None:
            return True
        tool = self._parts.tools().get(step.tool or "")
        return tool is not None and tool.effects <= READ_ONLY

    async def run(
        self,
        step_id: str,
        step: Step,
        names: Names,
        results: Mapping[str, Any],
        inputs: Mapping[str, Any],
        progress: Callable[[str], None],
    ) -> Output:
        """One attempt at a step.

        Args:
            step_id: the step.
            step: what it does.
            names: what its expressions see.
            results: what its function sees.
            inputs: the execution's inputs.
            progress: shows people what is going on.

        Raises:
            StepFailed: it did not go well.
        """
        try:
            match step.kind:
                case "prompt":
                    return await self._prompt(step_id, step, names)
                case "tool":
                    return await self._tool(step_id, step, names, progress)
                case "callable":
                    context = StepContext(inputs, results, progress)
                    return await self._callable(step, context)
                case "approve":
                    return await self._approve(step_id, fill_text(step.approve or "", names))
        except ConditionError as error:
            raise StepFailed(f"{error}.", final=True) from error

    async def may_repeat(self, step_id: str, step: Step) -> bool:
        """Ask whether a step that was begun and has no known end shall be begun again."""
        what = step.title or step.prompt or step.tool or step.callable or ""
        action = (
            f"Workflow {self._workflow.name}: the step {step_id} was begun before, and it is not known whether it "
            f"did its work. Do it again?\n\n{step.kind}: {what}"
        )
        return await self._asked(step_id, action)

    # --- prompt -------------------------------------------------------------------------------------------------------

    async def _prompt(self, step_id: str, step: Step, names: Names) -> Output:
        text = fill_text(step.prompt or "", names)
        session = as_text(fill(step.session, names)) if step.session is not None else None
        title = step.title or f"{self._workflow.name}: {step_id}"
        opened: str | None = session
        try:
            async with asyncio.timeout(step.seconds):
                agent = await self._parts.open_agent(session or None, step.model, title)
                opened = agent.session_id
                snapshot = await agent.submit(text, run_id=self._new_id())
        except TimeoutError:
            # What the agent has done until then is in its session; whether that was the whole is not known.
            raise StepFailed(_too_long(step), unknown=True, session=opened) from None
        except IndusagiError as error:
            raise StepFailed(_words(error), session=opened) from error
        if snapshot.phase != "settled":
            fault = snapshot.error
            raise StepFailed(fault.message if fault else "The run did not settle.", session=snapshot.session_id)
        said = next((turn.text for turn in reversed(snapshot.messages) if turn.role == ASSISTANT), "")
        return Output(cap_output(said), snapshot.session_id)

    # --- tool ---------------------------------------------------------------------------------------------------------

    async def _tool(self, step_id: str, step: Step, names: Names, progress: Callable[[str], None]) -> Output:
        name = step.tool or ""
        tools = self._parts.tools()
        if name not in tools:
            known = ", ".join(sorted(tools)) or "none"
            raise StepFailed(f"There is no tool {name!r} here. There are: {known}.", final=True)

        results: list[ToolResultBlock] = []
        began: list[float] = []

        async def record(result: ToolResultBlock) -> None:
            results.append(result)

        async def stage(call: ToolCallBlock, stage: CallStage, *, effectful: bool) -> None:
            del call
            if stage == "started" and effectful:
                began.append(self._clock.monotonic())

        async def audit(request: ApprovalRequest, verdict: Verdict) -> None:
            logger.info("%s of %s: %s by %s", request.tool, self._execution_id, verdict.decision, verdict.by)

        def publish(event: RunEvent) -> None:
            if isinstance(event, ToolUpdate):
                progress(event.text)

        dispatcher = Dispatcher(
            tools,
            approver=self._parts.approver,
            publish=publish,
            stage=stage,
            record=record,
            editor=self._parts.editor,
            spill=self._parts.spill,
            audit=audit,
            allowed=set(),
            new_id=self._new_id,
            seconds=step.seconds,
        )
        call = ToolCallBlock(f"{step_id}-{self._new_id()}", name, fill(step.input, names))
        await dispatcher.run([call], session_id=self._execution_id, run_id=self._execution_id)
        result = results[-1]
        if result.is_error:
            # The dispatcher ends a call that takes too long and tells it as any other failure.
            cut_short = bool(began) and self._clock.monotonic() - began[-1] >= step.seconds
            raise StepFailed(result.output, unknown=cut_short)
        return Output(result.output)

    # --- callable -----------------------------------------------------------------------------------------------------

    async def _callable(self, step: Step, context: StepContext) -> Output:
        limit = asyncio.timeout(step.seconds)
        try:
            async with limit:
                function = await self._function(step.callable or "")
                value = await in_own_thread(lambda: function(context), f"workflow {self._workflow.name}")
        except StepFailed:
            raise
        except IndusagiError as error:
            raise StepFailed(_words(error)) from error
        except Exception as error:
            if limit.expired():
                # A thread cannot be ended from outside, so the function may still be at it.
                raise StepFailed(_too_long(step), unknown=True) from None
            logger.info("the function %s raised", step.callable, exc_info=error)
            raise StepFailed(f"{type(error).__name__}: {error}") from error
        finally:
            context.cancel()
        return Output(_plain(value))

    async def _function(self, name: str) -> Callable[[StepContext], Any]:
        async with self._loading:
            if self._module is None:
                self._module = await in_own_thread(lambda: run_file(self._workflow), "workflow file")
        function = getattr(self._module, name, None)
        if not callable(function):
            raise StepFailed(f"{name} is no function once the file has run.", final=True)
        return function  # type: ignore[no-any-return]  # whatever the file has put there; its result is checked

    # --- approve ------------------------------------------------------------------------------------------------------

    async def _approve(self, step_id: str, question: str) -> Output:
        if not await self._asked(step_id, question):
            raise StepFailed("It was not allowed.", final=True)
        return Output("allowed")

    async def _asked(self, step_id: str, action: str) -> bool:
        request = ApprovalRequest(
            self._new_id(),
            self._execution_id,
            self._execution_id,
            step_id,
            GATE,
            action,
            hashlib.sha256(action.encode("utf-8", "surrogatepass")).hexdigest(),
            ("once", "deny"),
            (),
            afresh=True,
        )
        try:
            answer = await self._parts.ask(request)
        except Exception:
            logger.exception("nobody could be asked; that is a denial")
            return False
        return (answer.decision if isinstance(answer, Verdict) else answer) == "once"


def _plain(value: Any) -> Any:
    """A function's result, if it is JSON data of a reasonable size."""
    try:
        text = jsontext.dumps(value)
    except (TypeError, ValueError) as error:
        raise StepFailed(f"The function returned what is no JSON data: {error}.", final=True) from None
    if len(text) > MAX_OUTPUT_BYTES * 4:
        raise StepFailed(f"The function returned {len(text):,} bytes; keep large things in files.", final=True)
    return jsontext.loads(text)


def _too_long(step: Step) -> str:
    return f"It took more than {step.seconds:g} s."


def _words(error: IndusagiError) -> str:
    return f"{error.message} {error.hint}".rstrip()

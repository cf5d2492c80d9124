"""`WorkflowExecutor`: runs the steps of a workflow in the order of their needs, and survives being killed.

A checkpoint is on disk before a step begins and again once it has ended. So after a crash a step is in one of three
states: completed, and never repeated; not begun; or begun without a known end, and then it is repeated only if it is
idempotent or a person says so.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Collection, Mapping
from contextlib import AbstractAsyncContextManager, nullcontext
from datetime import timedelta
from typing import Any, TypeAlias

from indusagi_lsp.checkpoints import CheckpointManager, WorkflowCheckpoint, WorkflowContext
from indusagi_lsp.conductor.uninterrupted import uninterrupted
from indusagi_lsp.contract.clock import Clock, NewId
from indusagi_lsp.contract.errors import IndusagiError, InvalidInput, InvalidState
from indusagi_lsp.memory import ExpirationPolicy, now_from
from indusagi_lsp.workflows.attempts import Attempts, Sleep, StepFailed
from indusagi_lsp.workflows.conditions import ConditionError, parse
from indusagi_lsp.workflows.definition import Step, Workflow, ancestors
from indusagi_lsp.workflows.execution import (
    Execution,
    ExecutionView,
    ProgressKind,
    State,
    StepResult,
    WorkflowProgress,
    view_of,
)
from indusagi_lsp.workflows.steps import ExecutorParts, StepRunner

KEEP = timedelta(days=30)
"""How long a finished execution can be looked at."""

WATCH_SECONDS = 1.0

Publish: TypeAlias = Callable[[WorkflowProgress], None]
Claim: TypeAlias = Callable[[str], AbstractAsyncContextManager[object]]
"""Makes an execution this process's own while it runs; raises `InvalidState` where another process has it."""

_NAMES_LIMIT = 20


class WorkflowExecutor:
    """Runs workflows, several at a time if need be, all on one event loop.

    Args:
        manager: keeps the checkpoints.
        parts: what steps work with.
        publish: told what happens, on the event loop; must not block.
        clock: the time.
        new_id: makes ids.
        claim: holds off other processes.
        cancel_wanted: whether another process wants an execution cancelled; called in a thread, once a second.
        sleep: waits so many seconds between attempts.
        luck: a number in [0, 1) that spreads attempts.
    """

    def __init__(
        self,
        manager: CheckpointManager,
        parts: ExecutorParts,
        *,
        publish: Publish = lambda _: None,
        clock: Clock,
        new_id: NewId,
        claim: Claim = lambda _: nullcontext(),
        cancel_wanted: Callable[[str], bool] | None = None,
        sleep: Sleep = asyncio.sleep,
        luck: Callable[[], float] = random.random,
    ) -> None:
        self._manager = manager
        self._parts = parts
        self._publish = publish
        self._clock = clock
        self._new_id = new_id
        self._claim = claim
        self._cancel_wanted = cancel_wanted
        self._attempts = Attempts(clock, sleep=sleep, luck=luck)
        self._running: dict[str, tuple[Execution, asyncio.Task[Any]]] = {}

    # --- what can be asked --------------------------------------------------------------------------------------------

    @property
    def running(self) -> dict[str, ExecutionView]:
        """The executions that go on here, by id."""
        return {execution_id: execution.view() for execution_id, (execution, _) in self._running.items()}

    async def run(
        self, workflow: Workflow, inputs: Mapping[str, Any] | None = None, *, execution_id: str | None = None
    ) -> ExecutionView:
        """Run a workflow from its beginning, and wait for its end.

        Cancelling this ends what goes on and leaves the execution `interrupted`; it can be resumed.

        Args:
            workflow: the workflow.
            inputs: in place of its defaults.
            execution_id: the execution's id; made up where it is left out.

        Raises:
            InvalidInput: the workflow has no such input, or the id is in use.
            PersistenceFault: a checkpoint could not be kept.
        """
        given = workflow.inputs_with(inputs or {})
        execution_id = execution_id or self._new_id()
        if await asyncio.to_thread(self._manager.load_checkpoint, execution_id) is not None:
            message = f"There is an execution {execution_id} already."
            raise InvalidInput(message, hint="Resume it, or choose another id.")
        return await self._drive(Execution.begin(workflow, execution_id, given, self._clock.now_ms()), repeat=())

    async def resume(
        self, workflow: Workflow, checkpoint: WorkflowCheckpoint, *, done: Collection[str] = ()
    ) -> ExecutionView:
        """Go on where an execution stopped: completed steps are not repeated, failed ones are tried anew.

        Args:
            workflow: the workflow as it is now; the completed steps must be as they were.
            checkpoint: where the execution stopped.
            done: steps of unknown outcome that have done their work, as a person knows.

        Raises:
            InvalidInput: the workflow has changed where it was completed already, or a step is not of unknown outcome.
            InvalidState: it has ended well, or goes on.
            PersistenceFault: a checkpoint could not be kept.
        """
        execution = Execution.again(workflow, checkpoint)
        self._refuse_running(execution.id)
        if execution.state == "done":
            raise InvalidState("This execution is done, so there is nothing to resume.", hint="Run the workflow anew.")
        _check_same(execution)
        begun = execution.begun
        for step_id in done:
            if step_id not in begun:
                known = ", ".join(begun) or "none"
                message = f"It is known how the step {step_id!r} ended, or it was never begun."
                raise InvalidInput(message, hint=f"The steps of unknown outcome are: {known}.")
            execution.end_step(step_id, StepResult(status="ok", error="said to be done"), complete=True)
        return await self._drive(execution, repeat=tuple(execution.begun))

    def cancel(self, execution_id: str) -> bool:
        """End an execution that goes on here; whether there is one. What its steps did stays done."""
        found = self._running.get(execution_id)
        if found is None:
            return False
        execution, task = found
        execution.cancelled = True
        task.cancel()
        return True

    async def close(self) -> None:
        """End everything that goes on; it can be resumed."""
        tasks = [task for _, task in self._running.values()]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    # --- inside -------------------------------------------------------------------------------------------------------

    async def _drive(self, execution: Execution, repeat: Collection[str]) -> ExecutionView:
        """Run an execution in a task of its own, so that it can be ended by others than its caller."""
        self._refuse_running(execution.id)
        async with self._claim(execution.id):
            self._refuse_running(execution.id)
            task = asyncio.create_task(_Drive(self, execution, repeat).run(), name=f"workflow {execution.id}")
            self._running[execution.id] = (execution, task)
            watch = asyncio.create_task(self._watch(execution.id), name=f"wishes for {execution.id}")
            try:
                await asyncio.wait({task})
            except asyncio.CancelledError:
                task.cancel()
                await uninterrupted(_all_settled([task]))
                raise
            finally:
                watch.cancel()
                del self._running[execution.id]
        if task.cancelled():
            if execution.state == "running":
                # It was ended before its first step, so nothing was kept either.
                execution.end("cancelled" if execution.cancelled else "interrupted")
            return execution.view()
        return task.result()

    def _refuse_running(self, execution_id: str) -> None:
        if execution_id in self._running:
            raise InvalidState("This execution goes on.", hint="Wait for its end, or cancel it first.")

    async def _watch(self, execution_id: str) -> None:
        """Cancel an execution once another process wants that."""
        wanted = self._cancel_wanted
        while wanted is not None:
            await asyncio.sleep(WATCH_SECONDS)
            if await asyncio.to_thread(wanted, execution_id):
                self.cancel(execution_id)
                return


class _Drive:
    """One execution on its way."""

    def __init__(self, executor: WorkflowExecutor, execution: Execution, repeat: Collection[str]) -> None:
        self._manager = executor._manager
        self._publish = executor._publish
        self._clock = executor._clock
        self._attempts = executor._attempts
        self._execution = execution
        self._repeat = set(repeat)
        self._saving = asyncio.Lock()
        self._denied: list[str] = []
        self._runner = StepRunner(
            executor._parts,
            execution.workflow,
            execution.id,
            clock=executor._clock,
            new_id=executor._new_id,
        )

    async def run(self) -> ExecutionView:
        execution = self._execution
        execution.end("running")
        try:
            await self._save()
            self._tell("started")
            await self._run_steps()
        except asyncio.CancelledError:
            state: State = "cancelled" if execution.cancelled else "interrupted"
            await self._end(state, "It was cancelled." if execution.cancelled else "It was interrupted.")
            if not execution.cancelled:
                raise
        except IndusagiError as error:
            self._tell("finished", status="failed", text=error.message)
            raise
        else:
            await self._end(*self._outcome())
        return execution.view()

    async def _run_steps(self) -> None:
        steps = self._execution.workflow.steps
        waiting = [step_id for step_id in steps if step_id not in self._execution.completed]
        tasks: dict[asyncio.Task[None], str] = {}
        ended = set(self._execution.completed)
        try:
            while True:
                for step_id in tuple(waiting):
                    if self._execution.stopping or len(tasks) >= self._execution.workflow.max_parallel:
                        break
                    if ended.issuperset(steps[step_id].needs):
                        waiting.remove(step_id)
                        tasks[asyncio.create_task(self._step(step_id), name=f"step {step_id}")] = step_id
                if not tasks:
                    return
                done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
                for task in done:
                    ended.add(tasks.pop(task))
                    # What a step does wrong is its result; what is raised here is that nothing can be kept any more.
                    task.result()
        finally:
            for task in tasks:
                task.cancel()
            if tasks:
                await uninterrupted(_all_settled(list(tasks)))

    async def _step(self, step_id: str) -> None:
        execution = self._execution
        step = execution.workflow.steps[step_id]
        reason = self._reason_to_skip(step_id, step)
        if isinstance(reason, StepFailed):
            await self._ended(step_id, step, StepResult(status="failed", error=reason.message))
            return
        if reason is not None:
            await self._ended(step_id, step, StepResult(status="skipped", error=reason))
            return

        idempotent = self._runner.idempotent(step)
        if step_id in self._repeat and not idempotent and not await self._runner.may_repeat(step_id, step):
            self._denied.append(step_id)
            execution.stopping = True
            return
        if execution.stopping:
            return
        execution.begin_step(step_id, self._clock.now_ms())
        await self._save()
        self._tell("step_started", step_id, text=step.title)
        await self._ended(step_id, step, await self._tried(step_id, step, idempotent=idempotent))

    async def _tried(self, step_id: str, step: Step, *, idempotent: bool) -> StepResult:
        execution = self._execution
        before = ancestors(step_id, execution.workflow.steps)
        names = execution.names(before)
        results = {name: execution.results[name] for name in before if name in execution.results}
        loop = asyncio.get_running_loop()

        def progress(text: str) -> None:
            # A function calls this from its thread.
            loop.call_soon_threadsafe(lambda: self._tell("step_progress", step_id, text=text))

        def waiting(attempt: int, delay: float, reason: str) -> None:
            self._tell("step_retry", step_id, text=f"Attempt {attempt} failed; again in {delay:.1f} s: {reason}")

        try:
            output, attempts = await self._attempts.run(
                step,
                f"{execution.workflow.name}/{step_id}",
                lambda: self._runner.run(step_id, step, names, results, execution.inputs, progress),
                idempotent=idempotent,
                waiting=waiting,
            )
        except StepFailed as failed:
            return StepResult(
                status="failed",
                error=failed.message,
                session=failed.session,
                attempts=failed.attempts,
                unknown=failed.unknown and not idempotent,
            )
        return StepResult(status="ok", output=output.value, session=output.session, attempts=attempts)

    def _reason_to_skip(self, step_id: str, step: Step) -> str | StepFailed | None:
        """Why the step does not run; None where it does."""
        execution = self._execution
        if step.when is not None:
            try:
                holds = parse(step.when).holds(execution.names(ancestors(step_id, execution.workflow.steps)))
            except ConditionError as error:
                return StepFailed(f"{error}.")
            return None if holds else f"`{step.when}` does not hold."
        for needed in step.needs:
            result = execution.result(needed)
            if result is None or result.status != "ok":
                return f"{needed} {'was skipped' if result and result.status == 'skipped' else 'did not go well'}."
        return None

    async def _ended(self, step_id: str, step: Step, result: StepResult) -> None:
        """Keep how a step has ended; from here on it is not cut short, or a step that is done would look undone."""
        goes_on = result.status != "failed" or step.on_error == "continue"
        self._execution.end_step(step_id, result, complete=goes_on)
        if not goes_on:
            self._execution.stopping = True
        await uninterrupted(self._save())
        self._tell("step_finished", step_id, status=result.status, text=result.error or "")

    def _outcome(self) -> tuple[State, str]:
        execution = self._execution
        failed = [
            f"{step_id}: {result.error}"
            for step_id in execution.workflow.steps
            if (result := execution.result(step_id))
            and result.status == "failed"
            and step_id not in execution.completed
        ]
        if failed:
            return "failed", "\n".join(failed[:_NAMES_LIMIT])
        if self._denied:
            return "waiting", f"It is not known how these steps ended: {', '.join(sorted(self._denied))}."
        return "done", ""

    async def _end(self, state: State, error: str) -> None:
        self._execution.end(state, error)
        await uninterrupted(self._save(finished=True))
        self._tell("finished", status=state, text=error)

    async def _save(self, *, finished: bool = False) -> None:
        """Write where the execution stands; returns once it is on disk."""
        execution = self._execution
        expiration = None
        if finished and execution.state == "done":
            expiration = ExpirationPolicy(expires_at=now_from(self._clock)() + KEEP)
        async with self._saving:
            # Taken under the lock, or an older state could be written over a newer one. It is a copy, since steps go on
            # while the thread writes; the values in it are never changed, only replaced.
            state = WorkflowContext.from_dict(execution.context.as_dict())
            await asyncio.to_thread(
                self._manager.save_checkpoint,
                execution.id,
                state,
                frozenset(execution.completed),
                execution.current or None,
                expiration=expiration,
            )

    def _tell(self, kind: ProgressKind, step: str | None = None, *, status: str = "", text: str = "") -> None:
        execution = self._execution
        self._publish(
            WorkflowProgress(
                kind=kind,
                execution_id=execution.id,
                workflow=execution.workflow.name,
                completed=len(execution.completed),
                total=len(execution.workflow.steps),
                step=step,
                status=status,
                text=text,
            )
        )


def checkpoint_view(checkpoint: WorkflowCheckpoint, *, alive: bool = False) -> ExecutionView:
    """An execution at a glance, as its checkpoint left it.

    Args:
        checkpoint: of the execution.
        alive: whether some process runs it now; else one that seems to run was interrupted.
    """
    context = WorkflowContext.from_dict(checkpoint.context_state)
    if context.get_metadata("state") == "running" and not alive:
        context.set_metadata("state", "interrupted")
    return view_of(checkpoint.execution_id, context, checkpoint.completed_step_ids, checkpoint.current_step_id or "")


def _check_same(execution: Execution) -> None:
    """A result is only good for the step that gave it."""
    steps = execution.workflow.steps
    for step_id, digest in execution.context.get_metadata("digests", {}).items():
        if step_id not in steps or steps[step_id].digest != digest:
            what = "is not there any more" if step_id not in steps else "has changed"
            message = f'{execution.workflow.place}, step "{step_id}": it was completed, and {what} since.'
            raise InvalidInput(message, hint="Run the workflow anew, or put the step back as it was.")
    for step_id in execution.begun.keys() - steps.keys():
        message = f'{execution.workflow.place}, step "{step_id}": it was begun, and is not there any more.'
        raise InvalidInput(message, hint="Run the workflow anew, or put the step back as it was.")
    execution.context.set_metadata("total", len(steps))


async def _all_settled(tasks: list[asyncio.Task[Any]]) -> None:
    await asyncio.wait(tasks)

"""One execution of a workflow: what is known of each step, and what is told about it to people."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, ClassVar, Literal, TypeAlias

import msgspec

from indusagi_lsp.checkpoints import WorkflowCheckpoint, WorkflowContext
from indusagi_lsp.workflows.conditions import Names
from indusagi_lsp.workflows.definition import INPUTS, Workflow

State: TypeAlias = Literal["running", "done", "failed", "waiting", "cancelled", "interrupted"]
"""`waiting`: a step of unknown outcome was not allowed to be repeated. All but `running` and `done` can be resumed."""

Status: TypeAlias = Literal["ok", "failed", "skipped"]
ProgressKind: TypeAlias = Literal["started", "step_started", "step_progress", "step_retry", "step_finished", "finished"]


class StepResult(msgspec.Struct, frozen=True, kw_only=True):
    """How a step ended.

    Attributes:
        status: `ok`, `failed`, or `skipped`.
        output: text, or JSON data of a function.
        error: what went wrong, or why it was skipped.
        session: the session of a prompt.
        attempts: how often it was tried.
        unknown: whether it may have done its work all the same, or may still be doing it.
    """

    status: Status
    output: Any = None
    error: str | None = None
    session: str | None = None
    attempts: int = 0
    unknown: bool = False


class ExecutionView(msgspec.Struct, frozen=True, kw_only=True):
    """An execution at a glance; times are milliseconds since the epoch."""

    execution_id: str
    workflow: str
    state: State
    started_at: int
    completed: tuple[str, ...] = ()
    total: int = 0
    current: str = ""
    unknown: tuple[str, ...] = ()
    error: str = ""
    results: Mapping[str, StepResult] = {}


class WorkflowProgress(msgspec.Struct, frozen=True, kw_only=True):
    """Something has happened in an execution; `status` is that of the step or, at its end, the execution's state."""

    kind: ProgressKind
    execution_id: str
    workflow: str
    completed: int
    total: int
    step: str | None = None
    status: str = ""
    text: str = ""


class StepNames(dict[str, Any]):
    """A step's result as expressions see it: the step itself is true when it went well."""

    nothing: ClassVar[Mapping[str, Any]] = {"ok": False, "failed": False, "skipped": False, "status": None}

    def __bool__(self) -> bool:
        return bool(self.get("ok"))


class Execution:
    """The state of one execution, kept in a `WorkflowContext` so that a checkpoint holds all of it."""

    def __init__(
        self, workflow: Workflow, execution_id: str, context: WorkflowContext, completed: frozenset[str] = frozenset()
    ) -> None:
        self.workflow = workflow
        self.id = execution_id
        self.context = context
        self.completed = set(completed)
        self.current = ""
        self.stopping = False
        self.cancelled = False

    @classmethod
    def begin(cls, workflow: Workflow, execution_id: str, inputs: Mapping[str, Any], now_ms: int) -> Execution:
        """A new execution."""
        context = WorkflowContext(
            {"inputs": dict(inputs), "results": {}},
            {
                "workflow_name": workflow.name,
                "state": "running",
                "started_at": now_ms,
                "total": len(workflow.steps),
                "begun": {},
                "digests": {},
            },
        )
        return cls(workflow, execution_id, context)

    @classmethod
    def again(cls, workflow: Workflow, checkpoint: WorkflowCheckpoint) -> Execution:
        """An execution as its checkpoint left it; failures are forgotten, since those steps begin anew."""
        context = WorkflowContext.from_dict(checkpoint.context_state)
        results = context.get("results", {})
        context.set("results", {name: one for name, one in results.items() if name in checkpoint.completed_step_ids})
        return cls(workflow, checkpoint.execution_id, context, checkpoint.completed_step_ids)

    @property
    def inputs(self) -> Mapping[str, Any]:
        """What it was started with."""
        inputs: Mapping[str, Any] = self.context.get("inputs", {})
        return inputs

    @property
    def results(self) -> Mapping[str, Any]:
        """The result of each step that has one, as JSON data."""
        results: Mapping[str, Any] = self.context.get("results", {})
        return results

    # --- steps --------------------------------------------------------------------------------------------------------

    @property
    def begun(self) -> dict[str, int]:
        """The steps that were begun and have no end that is known, with the time."""
        return dict(self.context.get_metadata("begun", {}))

    def begin_step(self, step_id: str, now_ms: int) -> None:
        """Note that a step begins; saved before it does anything."""
        self.context.set_metadata("begun", {**self.begun, step_id: now_ms})
        self.current = step_id

    def end_step(self, step_id: str, result: StepResult, *, complete: bool) -> None:
        """Note how a step has ended.

        Args:
            step_id: the step.
            result: how.
            complete: whether it need not run again.
        """
        self.context.set("results", {**self.results, step_id: msgspec.to_builtins(result)})
        begun = self.begun
        if complete or not result.unknown:
            begun.pop(step_id, None)
        self.context.set_metadata("begun", begun)
        if complete:
            self.completed.add(step_id)
            digests = dict(self.context.get_metadata("digests", {}))
            self.context.set_metadata("digests", {**digests, step_id: self.workflow.steps[step_id].digest})
        if self.current == step_id:
            self.current = next(reversed(begun), "")

    def result(self, step_id: str) -> StepResult | None:
        """How a step has ended, or None."""
        raw = self.results.get(step_id)
        return None if raw is None else msgspec.convert(raw, StepResult)

    def names(self, steps: set[str]) -> Names:
        """What expressions see: the inputs, and the results of these steps in front of inputs of the same name."""
        names: dict[str, Any] = {**self.inputs, INPUTS: self.inputs}
        for step_id in steps:
            result = self.result(step_id)
            if result is None:
                names[step_id] = StepNames(StepNames.nothing)
                continue
            names[step_id] = StepNames(
                ok=result.status == "ok",
                failed=result.status == "failed",
                skipped=result.status == "skipped",
                status=result.status,
                output=result.output,
                error=result.error,
                session=result.session,
                attempts=result.attempts,
            )
        return names

    # --- the whole ----------------------------------------------------------------------------------------------------

    @property
    def state(self) -> State:
        """Where it stands."""
        state: State = self.context.get_metadata("state", "interrupted")
        return state

    def end(self, state: State, error: str = "") -> None:
        """Note how the execution has ended."""
        self.context.set_metadata("state", state)
        self.context.set_metadata("error", error)

    def view(self) -> ExecutionView:
        """The execution at a glance."""
        return view_of(self.id, self.context, self.completed, self.current)


def view_of(
    execution_id: str, context: WorkflowContext, completed: Collection[str], current: str = ""
) -> ExecutionView:
    """The execution at a glance, from what a checkpoint holds."""
    begun = context.get_metadata("begun", {})
    running = context.get_metadata("state", "interrupted")
    results = context.get("results", {})
    return ExecutionView(
        execution_id=execution_id,
        workflow=context.get_metadata("workflow_name", "unknown"),
        state=running,
        started_at=context.get_metadata("started_at", 0),
        completed=tuple(step_id for step_id in results if step_id in completed),
        total=context.get_metadata("total", 0),
        current=current,
        unknown=tuple(begun) if running != "running" else (),
        error=context.get_metadata("error", ""),
        results={step_id: msgspec.convert(raw, StepResult) for step_id, raw in results.items()},
    )

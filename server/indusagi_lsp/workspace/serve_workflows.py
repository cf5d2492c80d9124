"""The operations on workflows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from indusagi_lsp.protocol import messages as m
from indusagi_lsp.workspace.host import Host

if TYPE_CHECKING:
    from indusagi_lsp.workflows import ExecutionView, Found

DEFAULT_LIMIT = 20


async def listing(host: Host, params: m.WorkflowListParams) -> m.WorkflowListResult:
    """`workflow/list`: runs nothing of what it lists."""
    found = await host.workflows.found()
    executions = await host.workflows.executions(params.limit or DEFAULT_LIMIT)
    return m.WorkflowListResult(
        workflows=[_workflow(one) for one in found], executions=[_execution(host, one) for one in executions]
    )


async def run(host: Host, params: m.WorkflowRunParams) -> m.WorkflowExecution:
    """`workflow/run`: answered when the execution has ended."""
    return _execution(host, await host.workflows.run(params.name, params.inputs, params.execution_id))


async def resume(host: Host, params: m.WorkflowResumeParams) -> m.WorkflowExecution:
    """`workflow/resume`: answered when the execution has ended."""
    return _execution(host, await host.workflows.resume(params.execution_id, params.done))


async def cancel(host: Host, params: m.WorkflowCancelParams) -> m.WorkflowCancelResult:
    """`workflow/cancel`."""
    return m.WorkflowCancelResult(cancelled=await host.workflows.cancel(params.execution_id))


def _workflow(found: Found) -> m.WorkflowInfo:
    workflow = found.workflow
    return m.WorkflowInfo(
        name=found.name,
        title=workflow.title if workflow else "",
        description=workflow.description if workflow else "",
        file=found.place,
        origin=found.origin,
        inputs=dict(workflow.inputs) if workflow else {},
        steps=[
            m.WorkflowStepInfo(id=step_id, kind=step.kind, title=step.title, needs=list(step.needs), when=step.when)
            for step_id, step in (workflow.steps if workflow else {}).items()
        ],
        problem=found.problem,
    )


def _execution(host: Host, view: ExecutionView) -> m.WorkflowExecution:
    return m.WorkflowExecution(
        execution_id=view.execution_id,
        workspace=host.uri,
        workflow=view.workflow,
        state=view.state,
        started_at=view.started_at,
        completed=list(view.completed),
        total=view.total,
        current=view.current,
        unknown=list(view.unknown),
        error=view.error,
        steps=[
            m.WorkflowStepResult(
                id=step_id,
                status=result.status,
                output=result.output,
                error=result.error,
                session=result.session,
                attempts=result.attempts,
                unknown=result.unknown,
            )
            for step_id, result in view.results.items()
        ],
    )

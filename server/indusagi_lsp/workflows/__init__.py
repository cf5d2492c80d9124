"""Workflows: a graph of steps that prompt agents, call tools and functions, and ask people, and that survives a kill.

`find_workflows` and `load_workflow` read them, `WorkflowExecutor` runs them, checkpoints keep them.
"""

from __future__ import annotations

from indusagi_lsp.workflows.attempts import StepFailed
from indusagi_lsp.workflows.claims import Claims
from indusagi_lsp.workflows.conditions import ConditionError, Expression, parse
from indusagi_lsp.workflows.definition import DefinitionError, Step, Workflow, read_definition
from indusagi_lsp.workflows.execution import ExecutionView, StepResult, WorkflowProgress
from indusagi_lsp.workflows.executor import WorkflowExecutor, checkpoint_view
from indusagi_lsp.workflows.files import Folder, Found, find_workflows, load_workflow
from indusagi_lsp.workflows.steps import ExecutorParts, StepContext

__all__ = [
    "Claims",
    "ConditionError",
    "DefinitionError",
    "ExecutionView",
    "ExecutorParts",
    "Expression",
    "Folder",
    "Found",
    "Step",
    "StepContext",
    "StepFailed",
    "StepResult",
    "Workflow",
    "WorkflowExecutor",
    "WorkflowProgress",
    "checkpoint_view",
    "find_workflows",
    "load_workflow",
    "parse",
    "read_definition",
]

"""The workflows of one workspace folder: where their files are, where their checkpoints are, and who is told.

Checkpoints and locks lie in the user's own state folder: a workspace that could plant one would say what was done and
what comes next.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping
from hashlib import sha256
from typing import TYPE_CHECKING, Any

import msgspec

from indusagi_lsp.checkpoints import CheckpointManager, WorkflowCheckpoint, WorkflowContext
from indusagi_lsp.contract.clock import NewId
from indusagi_lsp.contract.errors import InvalidInput, InvalidState
from indusagi_lsp.memory import FileMemoryStore, now_from
from indusagi_lsp.protocol import messages as m
from indusagi_lsp.workflows import (
    Claims,
    ExecutionView,
    ExecutorParts,
    Folder,
    Found,
    WorkflowExecutor,
    WorkflowProgress,
    checkpoint_view,
    find_workflows,
    load_workflow,
)
from indusagi_lsp.workspace.outlet import Outlet

if TYPE_CHECKING:
    from indusagi_lsp.workspace.host import Host

FOLDER = "workflows"
WORKSPACE_FOLDER = ".indusagi/workflows"
AGENT = "workflows"


class HostWorkflows:
    """Finds, runs, resumes and cancels.

    Args:
        host: of the folder.
        parts: what steps work with.
        outlet: is told how executions go on.
        new_id: makes ids.
    """

    def __init__(self, host: Host, parts: ExecutorParts, outlet: Outlet, new_id: NewId) -> None:
        self._host = host
        self._outlet = outlet
        folder = host.places.state / FOLDER / sha256(host.uri.encode()).hexdigest()[:32]
        now = now_from(host.clock)
        signer = host.signer
        self._store = FileMemoryStore(
            folder / "checkpoints",
            workspace=host.uri,
            agent=AGENT,
            now=now,
            mac=lambda data: signer.seal(data).decode("ascii"),
        )
        self._claims = Claims(folder / "locks")
        self._manager = CheckpointManager(self._store, require_trust=True, now=now)
        self._executor = WorkflowExecutor(
            self._manager,
            parts,
            publish=self._told,
            clock=host.clock,
            new_id=new_id,
            claim=self._claims.hold,
            cancel_wanted=self._claims.cancel_wanted,
        )

    async def found(self) -> list[Found]:
        """The workflows' files; nothing in them is run."""
        return await asyncio.to_thread(find_workflows, self._folders())

    async def executions(self, limit: int) -> list[ExecutionView]:
        """The executions, the newest first."""
        return await asyncio.to_thread(self._executions, limit)

    async def knows(self, execution_id: str) -> bool:
        """Whether an execution is one of this folder."""
        return await asyncio.to_thread(self._manager.load_checkpoint, execution_id) is not None

    async def run(self, name: str, inputs: Mapping[str, Any], execution_id: str | None) -> ExecutionView:
        """Run a workflow, and wait for its end.

        Raises:
            InvalidInput: there is none of that name, it is not right, or the inputs do not fit.
        """
        workflow = await asyncio.to_thread(load_workflow, self._folders(), name)
        return await self._executor.run(workflow, inputs, execution_id=execution_id)

    async def resume(self, execution_id: str, done: Collection[str]) -> ExecutionView:
        """Go on with an execution, and wait for its end.

        Raises:
            InvalidInput: there is none, or its workflow is not what it was.
            InvalidState: it goes on, or is done.
        """
        checkpoint = await self._checkpoint(execution_id)
        if await asyncio.to_thread(self._claims.held, execution_id):
            raise InvalidState("This execution goes on.", hint="Wait for its end, or cancel it first.")
        workflow = await asyncio.to_thread(load_workflow, self._folders(), checkpoint.workflow_name)
        return await self._executor.resume(workflow, checkpoint, done=done)

    async def cancel(self, execution_id: str) -> bool:
        """Cancel an execution that goes on, here or in another process, or that was interrupted.

        Returns:
            Whether there was something to cancel.

        Raises:
            InvalidInput: there is no such execution.
        """
        if self._executor.cancel(execution_id):
            return True
        checkpoint = await self._checkpoint(execution_id)
        if await asyncio.to_thread(self._claims.ask_to_cancel, execution_id):
            return True
        if checkpoint_view(checkpoint).state not in ("interrupted", "waiting"):
            return False
        await asyncio.to_thread(self._give_up, checkpoint)
        return True

    async def close(self) -> None:
        """End what goes on; it can be resumed."""
        await self._executor.close()
        await asyncio.to_thread(self._store.close)

    # --- inside -------------------------------------------------------------------------------------------------------

    def _folders(self) -> tuple[Folder, ...]:
        host = self._host
        return (
            Folder(host.places.config / FOLDER, "user", trusted=True),
            Folder(host.root / WORKSPACE_FOLDER, "workspace", trusted=host.trusted, root=host.root),
        )

    async def _checkpoint(self, execution_id: str) -> WorkflowCheckpoint:
        found = await asyncio.to_thread(self._manager.load_checkpoint, execution_id)
        if found is None:
            message = f"There is no execution {execution_id!r}."
            raise InvalidInput(message, hint="List the workflows to see their executions.")
        return found

    def _executions(self, limit: int) -> list[ExecutionView]:
        checkpoints = self._manager.list_checkpoints()
        views = [
            checkpoint_view(one, alive=self._claims.held(one.execution_id)) for one in checkpoints[: max(limit, 0)]
        ]
        return [msgspec.structs.replace(view, results={}) for view in views]

    def _give_up(self, checkpoint: WorkflowCheckpoint) -> None:
        context = WorkflowContext.from_dict(checkpoint.context_state)
        context.set_metadata("state", "cancelled")
        context.set_metadata("error", "It was cancelled.")
        self._manager.save_checkpoint(
            checkpoint.execution_id, context, checkpoint.completed_step_ids, checkpoint.current_step_id
        )

    def _told(self, progress: WorkflowProgress) -> None:
        self._outlet.workflow(
            m.WorkflowParams(
                workspace=self._host.uri,
                execution_id=progress.execution_id,
                workflow=progress.workflow,
                kind=progress.kind,
                step=progress.step,
                status=progress.status,
                text=progress.text,
                completed=progress.completed,
                total=progress.total,
                at=self._host.clock.now_ms(),
            )
        )

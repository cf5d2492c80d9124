"""The seed's checkpoints: the state of a workflow as an entry of a memory store, tagged with the workflow's name."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from indusagi_lsp.contract.errors import InvalidInput
from indusagi_lsp.contract.secrets import redact
from indusagi_lsp.memory import MemoryEntry, MemoryQuery, MemoryScope, MemorySource, utc_now

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

    from indusagi_lsp.memory import ExpirationPolicy, MemoryStore
    from indusagi_lsp.memory.entry import Now

TAG = "checkpoint"
"""Every checkpoint has this tag beside the workflow's name, since a memory may have any tag."""

_PREFIX = "checkpoint:"
_STATE = "state"


class WorkflowContext:
    """What the steps of a running workflow share: named values, and metadata about the run.

    Args:
        values: JSON data by name.
        metadata: about the run; `workflow_name` names the workflow.
    """

    def __init__(self, values: Mapping[str, Any] | None = None, metadata: Mapping[str, Any] | None = None) -> None:
        self._values = dict(values or {})
        self._metadata = dict(metadata or {})

    def get(self, name: str, default: Any = None) -> Any:
        """The value of that name, or `default`."""
        return self._values.get(name, default)

    def set(self, name: str, value: Any) -> None:
        """Give a name its value."""
        self._values[name] = value

    def get_metadata(self, name: str, default: Any = None) -> Any:
        """What is said of the run under that name, or `default`."""
        return self._metadata.get(name, default)

    def set_metadata(self, name: str, value: Any) -> None:
        """Say something of the run."""
        self._metadata[name] = value

    def as_dict(self) -> dict[str, Any]:
        """Everything, so that `from_dict` makes an equal context."""
        return {"values": dict(self._values), "metadata": dict(self._metadata)}

    @classmethod
    def from_dict(cls, state: Mapping[str, Any]) -> WorkflowContext:
        """The context that `as_dict` was taken from."""
        return cls(state.get("values") or {}, state.get("metadata") or {})


class WorkflowCheckpoint(msgspec.Struct, frozen=True, kw_only=True):
    """How far one execution of a workflow has come.

    Attributes:
        workflow_name: the workflow.
        execution_id: the execution.
        completed_step_ids: the steps that are done and must not be done again.
        context_state: what the steps share, as `WorkflowContext.as_dict` gives it.
        current_step_id: the step to go on from; None when all is done.
        saved_at: when it was saved, aware UTC.
    """

    workflow_name: str
    execution_id: str
    completed_step_ids: frozenset[str] = frozenset()
    context_state: Mapping[str, Any] = {}
    current_step_id: str | None = None
    saved_at: datetime | None = None


class CheckpointManager:
    """Saves and restores the state of workflows through a `MemoryStore`, whose durability it inherits.

    There is one checkpoint for each execution: the last. The methods may block; call them from a worker thread.

    Args:
        store: where checkpoints are kept.
        scope: who sees them.
        require_trust: whether only checkpoints that this user wrote are restored; a workflow acts, so in a store that
            others can write to it must be set.
        now: tells the time; the same as the store's.
    """

    def __init__(
        self,
        store: MemoryStore,
        *,
        scope: MemoryScope = MemoryScope.AGENT,
        require_trust: bool = False,
        now: Now = utc_now,
    ) -> None:
        self._store = store
        self._scope = scope
        self._require_trust = require_trust
        self._now = now

    def save_checkpoint(
        self,
        execution_id: str,
        context: WorkflowContext,
        completed_step_ids: Iterable[str],
        current_step_id: str | None,
        *,
        expiration: ExpirationPolicy | None = None,
    ) -> WorkflowCheckpoint:
        """Save how far an execution has come, in place of its former checkpoint. Shapes of secrets are left out.

        Args:
            execution_id: the execution.
            context: what its steps share; `workflow_name` in its metadata names the workflow, else it is "unknown".
            completed_step_ids: the steps that are done.
            current_step_id: the step to go on from; None when all is done.
            expiration: when the checkpoint may be forgotten; None keeps it.

        Returns:
            The checkpoint as it can be loaded again.

        Raises:
            InvalidInput: the context is not JSON data.
            PersistenceFault: it could not be stored.
        """
        workflow = str(context.get_metadata("workflow_name", "unknown"))
        record = {
            "workflowName": workflow,
            "executionId": execution_id,
            "completedStepIds": sorted(set(completed_step_ids)),
            "currentStepId": current_step_id,
            "contextState": _without_secrets(context.as_dict()),
        }
        try:
            # With spaces, so that the store's look for secrets does not see one value run into the next.
            text = json.dumps(record, allow_nan=False)
        except (TypeError, ValueError, RecursionError) as error:
            message = f"The state of workflow {workflow!r} cannot be saved: {error}."
            raise InvalidInput(message, hint="Keep only JSON data in the context.") from error
        stored = self._store.store(
            MemoryEntry(
                identifier=_PREFIX + execution_id,
                content=f"Workflow {workflow}, execution {execution_id}: {len(record['completedStepIds'])} steps done.",
                tags=(workflow, TAG),
                # Not in the content, whose words are indexed: a state may be long, and is written at every step.
                metadata={"kind": TAG, "executionId": execution_id, _STATE: text},
                scope=self._scope,
                created_at=self._now(),
                expiration=expiration,
                source=MemorySource(execution_id),
            )
        )
        return self._restored(stored) or WorkflowCheckpoint(workflow_name=workflow, execution_id=execution_id)

    def load_checkpoint(self, execution_id: str) -> WorkflowCheckpoint | None:
        """The last checkpoint of an execution; None where there is none that can be restored."""
        entry = self._store.retrieve(_PREFIX + execution_id)
        return None if entry is None else self._restored(entry)

    def list_checkpoints(self, workflow_name: str | None = None) -> list[WorkflowCheckpoint]:
        """The checkpoints of a workflow, or of all, the one saved last first."""
        tags = (TAG,) if workflow_name is None else (workflow_name, TAG)
        entries = self._store.list(MemoryQuery(tags=tags, scope=self._scope))
        entries.sort(key=lambda entry: entry.changed_at, reverse=True)
        restored = (self._restored(entry) for entry in entries)
        # By the name itself too: a workflow may be called as the tag of all.
        return [one for one in restored if one is not None and workflow_name in (None, one.workflow_name)]

    def delete_checkpoint(self, execution_id: str) -> bool:
        """Forget how far an execution has come; whether there was a checkpoint."""
        return self._store.delete(_PREFIX + execution_id)

    def _restored(self, entry: MemoryEntry) -> WorkflowCheckpoint | None:
        """The checkpoint in an entry; None where it is none, or nobody vouches for it."""
        if TAG not in entry.tags or (self._require_trust and not entry.trusted):
            return None
        try:
            record = msgspec.convert(json.loads(entry.metadata[_STATE]), _Record)
        except (KeyError, TypeError, ValueError, RecursionError, msgspec.ValidationError):
            return None
        return WorkflowCheckpoint(
            workflow_name=record.workflow_name,
            execution_id=record.execution_id,
            completed_step_ids=frozenset(record.completed_step_ids),
            context_state=record.context_state,
            current_step_id=record.current_step_id,
            saved_at=entry.changed_at,
        )


class _Record(msgspec.Struct, frozen=True, rename="camel"):
    workflow_name: str
    execution_id: str
    completed_step_ids: list[str]
    current_step_id: str | None
    context_state: dict[str, Any]


def _without_secrets(value: Any) -> Any:
    if isinstance(value, str):
        return redact(value, loose=True)
    if isinstance(value, Mapping):
        return {
            redact(name, loose=True) if isinstance(name, str) else name: _without_secrets(each)
            for name, each in value.items()
        }
    if isinstance(value, list | tuple):
        return [_without_secrets(each) for each in value]
    return value

"""What happens in a run, as values: the events of the ledger and the snapshot that some of them carry.

The first seven kinds are the seed's and keep its names and payloads; the others are ours (conductor, "Events").
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Literal, TypeAlias

import msgspec

from indusagi_lsp.contract.approvals import Decision
from indusagi_lsp.contract.models import Usage
from indusagi_lsp.contract.turns import Turn

Phase: TypeAlias = Literal[
    "idle", "invoking", "streaming", "dispatching", "awaiting_approval", "condensing", "settled", "faulted"
]
CallStage: TypeAlias = Literal["called", "awaiting_approval", "started", "finished"]
CondenseTrigger: TypeAlias = Literal["auto", "manual", "overflow"]


class Fault(msgspec.Struct, frozen=True):
    """Why a run ended badly: a kind, what happened, and what to do."""

    kind: str
    message: str
    hint: str = ""


class PendingCall(msgspec.Struct, frozen=True):
    """A tool call that has no result yet."""

    id: str
    name: str
    stage: CallStage


class RunSnapshot(msgspec.Struct, frozen=True):
    """Where a run is right now. `messages` is exactly what the model would be sent."""

    run_id: str
    session_id: str
    phase: Phase
    messages: tuple[Turn, ...] = ()
    pending: tuple[PendingCall, ...] = ()
    usage: Usage = Usage()
    model: str = ""
    leaf: str | None = None
    error: Fault | None = None
    partial: str = ""


class Snapshot(msgspec.Struct, frozen=True):
    """The state of the run, whole."""

    kind: ClassVar[str] = "snapshot"
    snapshot: RunSnapshot


class TextDelta(msgspec.Struct, frozen=True):
    """More of the answer's text."""

    kind: ClassVar[str] = "text_delta"
    delta: str


class ThinkingDelta(msgspec.Struct, frozen=True):
    """More of the reasoning."""

    kind: ClassVar[str] = "thinking_delta"
    delta: str


class ToolStarted(msgspec.Struct, frozen=True):
    """The model has begun to ask for a tool."""

    kind: ClassVar[str] = "tool_started"
    id: str
    name: str


class ToolFinished(msgspec.Struct, frozen=True):
    """A tool call has ended, with the authoritative result as the model sees it."""

    kind: ClassVar[str] = "tool_finished"
    id: str
    name: str
    outcome: ToolResult


class ToolResult(msgspec.Struct, frozen=True):
    """What the model is told of a call."""

    output: str
    is_error: bool = False


class Settled(msgspec.Struct, frozen=True):
    """The run has ended well."""

    kind: ClassVar[str] = "settled"
    snapshot: RunSnapshot


class Faulted(msgspec.Struct, frozen=True):
    """The run has ended badly; what was said until then is kept."""

    kind: ClassVar[str] = "faulted"
    error: Fault
    snapshot: RunSnapshot


class RunStarted(msgspec.Struct, frozen=True):
    """A run has begun; `node` is the user's turn, on disk already, or null where the disk refused it."""

    kind: ClassVar[str] = "run_started"
    node: str | None


class ToolCalled(msgspec.Struct, frozen=True):
    """A tool is now being executed."""

    kind: ClassVar[str] = "tool_called"
    id: str
    name: str
    input: Any


class ToolUpdate(msgspec.Struct, frozen=True):
    """Progress text of a running tool."""

    kind: ClassVar[str] = "tool_update"
    id: str
    text: str


class ApprovalRequested(msgspec.Struct, frozen=True):
    """A tool waits for the user's word."""

    kind: ClassVar[str] = "approval_requested"
    id: str
    call_id: str
    action: str
    options: tuple[Decision, ...]


class ApprovalResolved(msgspec.Struct, frozen=True):
    """The user's word, or what stands for it; `by` names who decided."""

    kind: ClassVar[str] = "approval_resolved"
    id: str
    decision: Decision
    by: str


class UsageReported(msgspec.Struct, frozen=True):
    """What a model call took. `window` and `estimate` are tokens: the model's size, and our idea of the next prompt."""

    kind: ClassVar[str] = "usage"
    input: int
    output: int
    window: int | None
    estimate: int
    cost: float | None


class CondenseStarted(msgspec.Struct, frozen=True):
    """History is being condensed."""

    kind: ClassVar[str] = "condense_started"
    trigger: CondenseTrigger


class CondenseFinished(msgspec.Struct, frozen=True):
    """Condensing has ended: sizes in tokens; `cut` turns were dropped. Without a summary, `reason` says why not."""

    kind: ClassVar[str] = "condense_finished"
    before: int
    after: int
    cut: int
    summary: str | None = None
    reason: str | None = None


class Persisted(msgspec.Struct, frozen=True):
    """A turn is safely on disk."""

    kind: ClassVar[str] = "persisted"
    node: str
    leaf: str


class QueueChanged(msgspec.Struct, frozen=True):
    """How many prompts wait."""

    kind: ClassVar[str] = "queue"
    count: int


class Retry(msgspec.Struct, frozen=True):
    """The model is asked again after `delay` seconds."""

    kind: ClassVar[str] = "retry"
    attempt: int
    delay: float
    error: str


class SessionChanged(msgspec.Struct, frozen=True):
    """The session's file changed: `added` nodes by another process, or a move of the head."""

    kind: ClassVar[str] = "session_changed"
    added: tuple[str, ...] = ()
    head: str | None = None
    diverged: tuple[str, ...] = ()


class MemoryRecalled(msgspec.Struct, frozen=True):
    """Remembered entries that entered the prompt, each with its `id` and `content`."""

    kind: ClassVar[str] = "memory_recalled"
    entries: tuple[Mapping[str, Any], ...]


class Notice(msgspec.Struct, frozen=True):
    """Something that the user should know; `code` is stable, `text` is for people."""

    kind: ClassVar[str] = "notice"
    level: Literal["info", "warning", "error"]
    code: str
    text: str


RunEvent: TypeAlias = (
    Snapshot
    | TextDelta
    | ThinkingDelta
    | ToolStarted
    | ToolFinished
    | Settled
    | Faulted
    | RunStarted
    | ToolCalled
    | ToolUpdate
    | ApprovalRequested
    | ApprovalResolved
    | UsageReported
    | CondenseStarted
    | CondenseFinished
    | Persisted
    | QueueChanged
    | Retry
    | SessionChanged
    | MemoryRecalled
    | Notice
)

TERMINAL: tuple[type[Any], ...] = (Settled, Faulted)
"""A run ends in exactly one of these."""

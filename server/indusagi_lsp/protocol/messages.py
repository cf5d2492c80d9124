"""The wire types: params and results of every operation, and the payloads of our notifications.

camelCase on the wire; unknown fields are ignored; null and a missing field mean the same. Times are milliseconds since
the epoch; what counts text counts tokens, but an approval's `size` and a collection's `bytes` are bytes; costs are US
dollars (null: unknown). Blocks and turns are the session format's JSON.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from indusagi_lsp.contract.approvals import Decision

PROTOCOL_VERSION = 1

Limit = Annotated[int, Meta(ge=1, le=1000)]
SessionId = Annotated[str, Meta(min_length=1, max_length=128)]
NodeId = Annotated[str, Meta(min_length=1, max_length=64)]
MemoryId = Annotated[str, Meta(min_length=1, max_length=1024)]
SessionState = Literal["idle", "running", "interrupted", "foreign"]
MemoryScopeName = Literal["agent", "shared", "global"]


class Wire(msgspec.Struct, frozen=True, rename="camel", kw_only=True, omit_defaults=True):
    """A type that crosses the wire."""


class Full(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """A result that always carries all its fields, so that a client need not guess."""


# --- sessions ---------------------------------------------------------------------------------------------------------


class UsageView(Full, frozen=True):
    """Tokens and money spent."""

    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0
    cost: float | None = None


class NoticeView(Full, frozen=True):
    """Something that the user should know; `code` is stable."""

    level: Literal["info", "warning", "error"]
    code: str
    text: str


class SessionInfo(Full, frozen=True):
    """A session in a list."""

    id: str
    workspace: str
    title: str
    created_at: int
    updated_at: int
    turns: int
    head: str | None
    tokens: int
    cost: float | None
    state: SessionState
    model: str | None = None
    parent_session: str | None = None


class SessionNewParams(Wire, frozen=True):
    """Make an empty session."""

    workspace: str | None = None
    title: Annotated[str, Meta(max_length=500)] | None = None
    model: str | None = None


class SessionListParams(Wire, frozen=True):
    """List sessions, the newest first; `query` filters by title."""

    workspace: str | None = None
    query: str | None = None
    cursor: str | None = None
    limit: Limit | None = None
    archived: bool = False


class SessionListResult(Full, frozen=True):
    """A page of sessions; ask again with `nextCursor` for more."""

    sessions: list[SessionInfo]
    next_cursor: str | None = None


class ResumeParams(Wire, frozen=True):
    """Show a session and make it ready to go on: at its head, or at `node`.

    `limit` turns, the newest; `before` asks for the page that ends before that node.
    """

    session_id: SessionId
    workspace: str | None = None
    node: NodeId | None = None
    limit: Limit | None = None
    before: NodeId | None = None


class TurnView(Full, frozen=True):
    """One turn of the live path. A `gap` is history that the file has lost above this turn."""

    id: str
    role: str
    blocks: list[dict[str, Any]]
    created_at: int
    gap: bool = False
    verified: bool = True


class BranchView(Full, frozen=True):
    """A leaf of the session's graph."""

    leaf: str
    preview: str
    turns: int
    updated_at: int
    live: bool


class SessionView(Full, frozen=True):
    """A page of a session's live path, root to leaf, and what surrounds it."""

    session: SessionInfo
    turns: list[TurnView]
    head: str | None
    branches: list[BranchView]
    usage: UsageView
    labels: dict[str, str]
    trusted: bool
    notices: list[NoticeView]
    before: str | None = None
    seq: int = 0


class SessionParams(Wire, frozen=True):
    """Names a session."""

    session_id: SessionId
    workspace: str | None = None


class TreeNode(Full, frozen=True):
    """A node of the graph; `tokens` is the estimate of this turn alone."""

    id: str
    parent: str | None
    role: str
    preview: str
    label: str | None
    tokens: int
    created_at: int


class CondenseLink(Full, frozen=True):
    """Ties the condensed line to the one it was made from."""

    summary: str
    source: str
    cut: str | None
    trigger: str
    before: int
    after: int


class TreeResult(Full, frozen=True):
    """The whole graph of a session, parents before children."""

    nodes: list[TreeNode]
    condensations: list[CondenseLink]
    leaves: list[str]
    head: str | None


class ForkParams(Wire, frozen=True):
    """Go on from an earlier node: after it, or `before` it with its prompt handed back."""

    session_id: SessionId
    node: NodeId
    workspace: str | None = None
    before: bool = False
    new_session: bool = False


class ForkResult(Full, frozen=True):
    """Where the fork stands; `prefill` is the prompt to edit, when the fork was `before` a user's turn."""

    leaf: str | None
    session_id: str
    prefill: str | None = None


class AdoptResult(Full, frozen=True):
    """The session is now the user's own."""

    session_id: str
    head: str | None


class LabelParams(Wire, frozen=True):
    """Name a node; without `name` the label is taken away. The label `pin` keeps the turn through condensing."""

    session_id: SessionId
    node: NodeId
    workspace: str | None = None
    name: Annotated[str, Meta(min_length=1, max_length=200)] | None = None


class LabelsResult(Full, frozen=True):
    """The session's labels, by node."""

    labels: dict[str, str]


class RenameParams(Wire, frozen=True):
    """Give a session a title."""

    session_id: SessionId
    title: Annotated[str, Meta(min_length=1, max_length=500)]
    workspace: str | None = None


class ArchiveParams(Wire, frozen=True):
    """Put a session away, or take it out again."""

    session_id: SessionId
    workspace: str | None = None
    archived: bool = True


class DeletedResult(Full, frozen=True):
    """The session is gone for good."""

    deleted: bool


class ExportParams(Wire, frozen=True):
    """Export the branch that ends at `leaf`, by default the live one.

    `compared` is for two branches side by side in Markdown: it leaves out the times, the number of turns and what was
    spent, which always differ.
    """

    session_id: SessionId
    workspace: str | None = None
    leaf: NodeId | None = None
    format: Literal["markdown", "html", "jsonl"] = "markdown"
    compared: bool = False


class ExportResult(Full, frozen=True):
    """A file's content, and a name for it."""

    text: str
    file_name: str
    media_type: str


class ImportParams(Wire, frozen=True):
    """Import sessions of other tools: from a file or folder, else from where the tools keep those of this workspace."""

    workspace: str | None = None
    path: str | None = None
    tool: str | None = None
    everywhere: bool = False
    work_done_token: int | str | None = None


class ImportedFile(Full, frozen=True):
    """What came of one file. `added` counts new turns; `problem` says why nothing could be imported."""

    path: str
    tool: str | None
    session_id: str | None
    title: str | None
    turns: int
    added: int
    unanswered: int
    skipped: list[str]
    cost: float | None
    problem: str | None


class ImportResult(Full, frozen=True):
    """A report per file."""

    files: list[ImportedFile]


class CompareParams(Wire, frozen=True):
    """Compare two branches, each named by its leaf."""

    session_id: SessionId
    left: NodeId
    right: NodeId
    workspace: str | None = None


class CompareSide(Full, frozen=True):
    """What one branch has of its own."""

    leaf: str
    nodes: list[str]
    turns: dict[str, int]
    files_read: list[str]
    files_modified: list[str]
    usage: UsageView
    calls: int
    failed: int
    result: str


class CompareResult(Full, frozen=True):
    """Two branches: `common` is the last node that both have."""

    common: str | None
    shared: int
    left: CompareSide
    right: CompareSide
    files_of_both: list[str]


class NoteParams(Wire, frozen=True):
    """Bring the result of the branch that ends at `leaf` to the live one, as a note; `text` says it in other words."""

    session_id: SessionId
    leaf: NodeId
    workspace: str | None = None
    text: Annotated[str, Meta(min_length=1, max_length=100_000)] | None = None


class SearchParams(Wire, frozen=True):
    """Search what was said, in all sessions and on all their branches."""

    query: Annotated[str, Meta(max_length=10_000)]
    workspace: str | None = None
    session_id: SessionId | None = None
    limit: Limit | None = None


class SearchHit(Full, frozen=True):
    """A node that holds all the words; `spans` are [start, end] of them in `snippet`, in characters."""

    session_id: str
    node: str
    role: str
    created_at: int
    snippet: str
    spans: list[tuple[int, int]]


class SearchResult(Full, frozen=True):
    """The hits, the best first; `more` says that there are others."""

    hits: list[SearchHit]
    more: bool
    notices: list[NoticeView]


class DoctorParams(Wire, frozen=True):
    """Look at every byte of a session, or of all; `repair` heals without deleting."""

    workspace: str | None = None
    session_id: SessionId | None = None
    repair: bool = False


class DoctorFinding(Full, frozen=True):
    """Something about a session; `code` is stable."""

    level: Literal["info", "warning", "error"]
    code: str
    text: str
    node: str | None
    healed: bool


class DoctorSession(Full, frozen=True):
    """One session's health."""

    session_id: str
    healthy: bool
    nodes: int
    branches: int
    head: str | None
    findings: list[DoctorFinding]


class DoctorResult(Full, frozen=True):
    """The diagnosis as data and in words."""

    healthy: bool
    repaired: bool
    sessions: list[DoctorSession]
    text: str


class BlobParams(Wire, frozen=True):
    """Show the whole of an output that a block names by its blob."""

    blob: Annotated[str, Meta(pattern="^[0-9a-f]{64}$")]
    workspace: str | None = None


class BlobResult(Full, frozen=True):
    """The whole output."""

    text: str


class CollectParams(Wire, frozen=True):
    """Remove the blobs that no session names, and old contents of files that none can need; `dryRun` only tells."""

    workspace: str | None = None
    dry_run: bool = False


class CollectResult(Full, frozen=True):
    """What was removed, its bytes, and how many blobs stay; of old contents of files their number and bytes."""

    removed: list[str]
    bytes: int
    kept: int
    contents: int
    content_bytes: int


# --- files ------------------------------------------------------------------------------------------------------------

FileChanger = Literal["edit", "command", "restore"]
FileConflict = Literal["changed", "between", "command", "unfinished", "removal", "protected"]


class FilesChangesParams(Wire, frozen=True):
    """What the agent changed on the way to `node`, by default the live leaf."""

    session_id: SessionId
    workspace: str | None = None
    node: NodeId | None = None


class FileCallView(Full, frozen=True):
    """A tool call that changed a file, and the turn in which it stands."""

    call_id: str
    node: str


class FileChangeView(Full, frozen=True):
    """What the agent did to a file, all in all; `kept` says whether its first content can be brought back."""

    path: str
    kind: Literal["made", "changed", "removed", "same"]
    by: FileChanger
    calls: list[FileCallView]
    kept: bool


class FilesChangesResult(Full, frozen=True):
    """The files by path."""

    node: str | None
    files: list[FileChangeView]


class FilesContentParams(Wire, frozen=True):
    """What a file of a plan would hold; which plan is said as in `files/restore`."""

    session_id: SessionId
    path: Annotated[str, Meta(min_length=1, max_length=4096)]
    workspace: str | None = None
    node: NodeId | None = None
    before: bool = False
    undo: Annotated[str, Meta(min_length=1, max_length=128)] | None = None


class FilesContentResult(Full, frozen=True):
    """The text; null where the file would not be there, is no text, is too large, or was not kept."""

    path: str
    text: str | None


class FilesRestoreParams(Wire, frozen=True):
    """Bring the files back to where they were at `node` (with `before`: at its parent), or undo a restore.

    `preview` only gives the plan. Files with conflicts are left alone unless `choices` says `restore` for their path,
    together with the plan's `token`; `keep` leaves any file alone.
    """

    session_id: SessionId
    workspace: str | None = None
    node: NodeId | None = None
    before: bool = False
    undo: Annotated[str, Meta(min_length=1, max_length=128)] | None = None
    preview: bool = False
    token: str | None = None
    choices: dict[str, Literal["restore", "keep"]] = {}


class FileRestoreView(Full, frozen=True):
    """One file of a plan.

    `action`: give it its old content, remove what the agent made, or make again what it removed. `conflicts` say why it
    is only done by choice, `reason` says so in words; `problem` says why it cannot be done at all. `by` made the last
    change in effect.
    """

    path: str
    action: Literal["restore", "remove", "recreate"]
    by: FileChanger
    conflicts: list[FileConflict]
    reason: str
    problem: str
    diff: str


class FilesRestoreResult(Full, frozen=True):
    """The plan; once `applied`, also what was done. `restore` names it, so that it can be undone."""

    applied: bool
    token: str
    files: list[FileRestoreView]
    restore: str | None
    restored: list[str]
    kept: list[str]


# --- runs -------------------------------------------------------------------------------------------------------------


class Position(Wire, frozen=True):
    """An LSP position."""

    line: Annotated[int, Meta(ge=0)]
    character: Annotated[int, Meta(ge=0)]


class Range(Wire, frozen=True):
    """An LSP range."""

    start: Position
    end: Position


class ContextItem(Wire, frozen=True):
    """Something of the editor that goes with a prompt: a file, a selection (with its text), a diagnostic."""

    kind: Literal["file", "selection", "diagnostic"]
    uri: str
    range: Range | None = None
    text: Annotated[str, Meta(max_length=1_000_000)] | None = None


class SubmitParams(Wire, frozen=True):
    """Say something to the agent: `text`, or `blocks` in the session format. Answered when the run ends.

    `mode` says what happens while another run goes on: `queue` waits for its end, `steer` enters it after the current
    tools. `model` is used from this run on. The client may choose `runId` to tell its events apart.
    """

    session_id: SessionId
    workspace: str | None = None
    text: str | None = None
    blocks: list[dict[str, Any]] | None = None
    mode: Literal["queue", "steer"] = "queue"
    context: list[ContextItem] = []
    run_id: Annotated[str, Meta(min_length=1, max_length=128)] | None = None
    model: str | None = None
    work_done_token: int | str | None = None


class PendingCallView(Full, frozen=True):
    """A tool call without a result yet."""

    id: str
    name: str
    stage: str


class FaultView(Full, frozen=True):
    """What went wrong, and what to do."""

    kind: str
    message: str
    hint: str = ""


class SnapshotView(Full, frozen=True):
    """Where a run is. `messages` is what the model would be sent; `partial` is the answer that is being streamed."""

    run_id: str
    session_id: str
    phase: str
    messages: list[dict[str, Any]]
    pending: list[PendingCallView]
    usage: UsageView
    model: str
    leaf: str | None
    error: FaultView | None
    partial: str


class AskParams(Wire, frozen=True):
    """Ask the agent about a place in a document: `fix` a problem, `explain` it, or `ask` a question of one's own.

    `message` is the diagnostic's, where there is one. Without a `question`, `ask` opens a chat document to write it in.
    """

    kind: Literal["fix", "explain", "ask"]
    uri: str
    range: Range
    workspace: str | None = None
    message: Annotated[str, Meta(max_length=10_000)] | None = None
    question: Annotated[str, Meta(max_length=100_000)] | None = None
    session_id: SessionId | None = None
    run_id: Annotated[str, Meta(min_length=1, max_length=128)] | None = None
    work_done_token: int | str | None = None


class AskResult(Full, frozen=True):
    """What was answered, and where the user sees it: in the client's own view, a chat document, or a message."""

    session_id: str | None
    phase: str
    answer: str
    shown: Literal["client", "chat", "message"]
    uri: str | None = None


class ChatSendParams(Wire, frozen=True):
    """Send the last section of an open chat document (`*.chat.md`); the answer comes into the document as edits."""

    uri: str
    workspace: str | None = None
    run_id: Annotated[str, Meta(min_length=1, max_length=128)] | None = None
    work_done_token: int | str | None = None


class ChatSendResult(Full, frozen=True):
    """The session, how the run ended, and whether the whole answer is in the document."""

    session_id: str | None
    phase: str
    written: bool


class AbortResult(Full, frozen=True):
    """The phase that the session was in."""

    phase: str


class SnapshotParams(Wire, frozen=True):
    """Ask where a session is; with `sinceSeq`, for the events after that one too."""

    session_id: SessionId
    workspace: str | None = None
    since_seq: Annotated[int, Meta(ge=0)] | None = None


class SnapshotResult(Full, frozen=True):
    """`events` holds the event notifications after `sinceSeq`; `gap` says that they are not kept any more.

    `questions` are the approvals that wait for an answer, `asked` the agent's questions to the user that do, under the
    ids under which they were asked.
    """

    snapshot: SnapshotView
    seq: int
    events: list[dict[str, Any]]
    gap: bool
    questions: list[ApproveParams] = []
    asked: list[QuestionParams] = []


# --- condensation -----------------------------------------------------------------------------------------------------


class CondenseParams(Wire, frozen=True):
    """Condense the live path.

    `preview` only shows what would happen, and gives a `token`; `token` with `text` applies that preview with the
    edited text. `upTo` and `from` bound what is dropped: turns up to, or from, that node.
    """

    session_id: SessionId
    workspace: str | None = None
    instruction: Annotated[str, Meta(max_length=10_000)] | None = None
    up_to: NodeId | None = None
    from_: NodeId | None = msgspec.field(default=None, name="from")
    preview: bool = False
    token: str | None = None
    text: str | None = None


class CondensePreview(Full, frozen=True):
    """What condensing would do: `dropped` and `kept` are node ids, `cut` the number of turns dropped."""

    cut: int
    dropped: list[str]
    kept: list[str]
    before: int
    after: int
    draft: str
    token: str


class CondenseResult(Full, frozen=True):
    """The outcome; `preview` where one was asked for. When nothing was condensed, `reason` says why."""

    condensed: bool
    leaf: str | None
    before: int
    after: int
    cut: int
    summary: str | None = None
    reason: str | None = None
    preview: CondensePreview | None = None


class LeafResult(Full, frozen=True):
    """The live leaf now."""

    leaf: str | None


# --- memory -----------------------------------------------------------------------------------------------------------


class MemorySource(Wire, frozen=True):
    """The turn that said it."""

    session: str
    node: str | None = None


class MemoryEntryView(Full, frozen=True):
    """Something remembered."""

    id: str
    content: str
    tags: list[str]
    metadata: dict[str, Any]
    scope: MemoryScopeName
    created_at: int
    updated_at: int
    trusted: bool
    """Whether this user wrote or adopted it; what is not never reaches a model."""

    expires_at: int | None = None
    source: MemorySource | None = None
    tainted: bool = False
    """Whether its text came from where an attacker may write."""

    supersedes: str | None = None
    superseded_by: str | None = None


class RememberParams(Wire, frozen=True):
    """Remember a text. An equal text in the same scope is not stored twice."""

    text: Annotated[str, Meta(min_length=1, max_length=100_000)]
    workspace: str | None = None
    tags: list[str] = []
    metadata: dict[str, Any] = {}
    scope: MemoryScopeName = "shared"
    source: MemorySource | None = None
    ttl_seconds: Annotated[float, Meta(gt=0)] | None = None
    supersedes: MemoryId | None = None
    """The entry that this one replaces; the old one is kept, and linked."""


class ScoredEntryView(Full, frozen=True):
    """A hit: `score` is 1 for identical, 0 for unrelated."""

    entry: MemoryEntryView
    score: float


class RememberResult(Full, frozen=True):
    """The entry, whether it is new, and what was remembered before that may say the same or the contrary."""

    entry: MemoryEntryView
    created: bool
    similar: list[ScoredEntryView] = []


class RecallParams(Wire, frozen=True):
    """Find what was remembered about a text."""

    text: str
    workspace: str | None = None
    scope: MemoryScopeName | None = None
    tags: list[str] = []
    limit: Limit | None = None


class RecallResult(Full, frozen=True):
    """The hits, the best first."""

    hits: list[ScoredEntryView]


class MemoryListParams(Wire, frozen=True):
    """List what is remembered, the newest first."""

    workspace: str | None = None
    scope: MemoryScopeName | None = None
    tags: list[str] = []
    limit: Limit | None = None


class MemoryListResult(Full, frozen=True):
    """The entries."""

    entries: list[MemoryEntryView]


class ForgetParams(Wire, frozen=True):
    """Forget one entry."""

    id: MemoryId
    workspace: str | None = None


class ForgetResult(Full, frozen=True):
    """Whether there was such an entry."""

    forgotten: bool


class MemoryParams(Wire, frozen=True):
    """Name one entry."""

    id: MemoryId
    workspace: str | None = None


class MemoryGetResult(Full, frozen=True):
    """The entry, and the chain of entries that replaced each other of which it is one, the oldest first."""

    entry: MemoryEntryView
    history: list[MemoryEntryView]


class MemoryUpdateParams(Wire, frozen=True):
    """Change some fields of an entry; what is not named stays. With `expectedUpdatedAt` only if it is still that."""

    id: MemoryId
    workspace: str | None = None
    text: Annotated[str, Meta(min_length=1, max_length=100_000)] | None = None
    tags: list[str] | None = None
    metadata: dict[str, Any] | None = None
    expected_updated_at: int | None = None


class MemoryEntryResult(Full, frozen=True):
    """The entry as it is now."""

    entry: MemoryEntryView


class MemoryExplainParams(Wire, frozen=True):
    """Why is this entry where it is among the hits for a text?"""

    id: MemoryId
    text: str
    workspace: str | None = None


class MemoryExplainResult(Full, frozen=True):
    """The parts of a score by name, and each word of the question with where the entry has it.

    `rank` counts from 1 and is null where the entry is no hit. A word is in the entry's `own` text, `near` it (in the
    turns around it), or in a `split` compound name.
    """

    entry: MemoryEntryView
    score: float
    rank: int | None
    parts: dict[str, float]
    words: dict[str, list[Literal["own", "near", "split"]]]


class MemoryExportParams(Wire, frozen=True):
    """All that is remembered, as a Markdown document."""

    workspace: str | None = None
    scope: MemoryScopeName | None = None
    tags: list[str] = []


class MemoryExportResult(Full, frozen=True):
    """The document, and how many entries it holds."""

    text: str
    entries: int


class MemoryImportParams(Wire, frozen=True):
    """Bring in a document of `memory/export`, as it was or edited.

    What this user's key does not vouch for comes marked as foreign and replaces nothing, unless `adopt` vouches for it.
    """

    text: Annotated[str, Meta(max_length=50_000_000)]
    workspace: str | None = None
    adopt: bool = False


class MemoryImportResult(Full, frozen=True):
    """How many were new, took the place of an earlier form, were there already, or were left out for what is here."""

    added: int
    changed: int
    present: int
    kept: int
    problems: list[str]


# --- workflows --------------------------------------------------------------------------------------------------------

ExecutionId = Annotated[str, Meta(pattern="^[A-Za-z0-9-]{1,64}$")]
ExecutionState = Literal["running", "done", "failed", "waiting", "cancelled", "interrupted"]


class WorkflowListParams(Wire, frozen=True):
    """List the workflows that can be run here, and the newest `limit` executions."""

    workspace: str | None = None
    limit: Limit | None = None


class WorkflowStepInfo(Full, frozen=True):
    """A step of a workflow, as its definition has it."""

    id: str
    kind: Literal["prompt", "tool", "callable", "approve"]
    title: str
    needs: list[str]
    when: str | None


class WorkflowInfo(Full, frozen=True):
    """A workflow. Where it cannot be run, `problem` says why, and there are no steps."""

    name: str
    title: str
    description: str
    file: str
    origin: Literal["user", "workspace"]
    inputs: dict[str, Any]
    steps: list[WorkflowStepInfo]
    problem: str


class WorkflowStepResult(Full, frozen=True):
    """How a step ended. `unknown`: it may have done its work all the same, and is asked about before it is repeated."""

    id: str
    status: Literal["ok", "failed", "skipped"]
    output: Any
    error: str | None
    session: str | None
    attempts: int
    unknown: bool


class WorkflowExecution(Full, frozen=True):
    """One execution of a workflow; `unknown` are the steps that were begun and have no known end.

    `waiting`: such a step was not allowed to be repeated. Every state but `running` and `done` can be resumed.
    """

    execution_id: str
    workspace: str
    workflow: str
    state: ExecutionState
    started_at: int
    completed: list[str]
    total: int
    current: str
    unknown: list[str]
    error: str
    steps: list[WorkflowStepResult]


class WorkflowListResult(Full, frozen=True):
    """The workflows, and the executions, the newest first and without the results of their steps."""

    workflows: list[WorkflowInfo]
    executions: list[WorkflowExecution]


class WorkflowRunParams(Wire, frozen=True):
    """Run a workflow. Answered when it has ended; the client may choose `executionId` to tell its progress apart."""

    name: Annotated[str, Meta(min_length=1, max_length=200)]
    workspace: str | None = None
    inputs: dict[str, Any] = {}
    execution_id: ExecutionId | None = None
    work_done_token: int | str | None = None


class WorkflowResumeParams(Wire, frozen=True):
    """Go on with an execution; `done` names steps of unknown outcome that have done their work. Answered at its end."""

    execution_id: ExecutionId
    workspace: str | None = None
    done: list[str] = []
    work_done_token: int | str | None = None


class WorkflowCancelParams(Wire, frozen=True):
    """Cancel an execution, also one that another window runs; what its steps have done stays done."""

    execution_id: ExecutionId
    workspace: str | None = None


class WorkflowCancelResult(Full, frozen=True):
    """Whether there was something to cancel."""

    cancelled: bool


# --- models and status ------------------------------------------------------------------------------------------------


class WorkspaceParams(Wire, frozen=True):
    """Names a workspace folder by its URI; without it, the first one."""

    workspace: str | None = None


class TrustParams(Wire, frozen=True):
    """Grant or withdraw trust in a folder; without `workspace`, in all that are open and in those that come.

    Where it is withdrawn, what goes on is ended: runs, commands, workflows. Sessions stay open.
    """

    trusted: bool
    workspace: str | None = None


class ModelInfo(Full, frozen=True):
    """A model that can be named; `available` says whether it could be called now, `note` why (not)."""

    id: str
    provider: str
    name: str
    window: int | None
    tools: bool
    local: bool
    available: bool
    note: str


class ModelsListResult(Full, frozen=True):
    """The models, the one in use, and how to set a better one."""

    models: list[ModelInfo]
    current: str
    hint: str


class WorkspaceStatus(Full, frozen=True):
    """One workspace folder's host."""

    uri: str
    name: str
    trusted: bool
    model: str
    sessions: int
    running: list[str]
    notices: list[NoticeView]


class StatusResult(Full, frozen=True):
    """The server at a glance."""

    version: str
    protocol_version: int
    busy: bool
    message: str
    kind: Literal["Normal", "Error", "Warning", "Inactive"]
    workspaces: list[WorkspaceStatus]


# --- server to client -------------------------------------------------------------------------------------------------


class EventParams(Full, frozen=True):
    """`indusagi/event`. `seq` is gapless per session and server life; `event` is a RunEvent with its `kind`."""

    workspace: str
    session_id: str
    run_id: str
    seq: int
    at: int
    event: dict[str, Any]


class StatusParams(Full, frozen=True):
    """`indusagi/status`: what the status item shows."""

    busy: bool
    message: str
    kind: Literal["Normal", "Error", "Warning", "Inactive"] = "Normal"
    command: str | None = None


class SessionsChangedParams(Full, frozen=True):
    """`indusagi/sessionsChanged`: list again."""

    workspace: str


class MemoryChangedParams(Full, frozen=True):
    """`indusagi/memoryChanged`: list again."""

    workspace: str


class WorkflowParams(Full, frozen=True):
    """`indusagi/workflow`: how an execution goes on. `status` is that of the step, at its end that of the execution."""

    workspace: str
    execution_id: str
    workflow: str
    kind: Literal["started", "step_started", "step_progress", "step_retry", "step_finished", "finished"]
    step: str | None
    status: str
    text: str
    completed: int
    total: int
    at: int


class ApproveParams(Full, frozen=True):
    """`indusagi/approve`: may this run? `action` is shown to the user.

    `size` (bytes) and `sha256` are those of the whole action in UTF-8.
    """

    approval_id: str
    workspace: str
    session_id: str
    run_id: str
    call_id: str
    tool: str
    action: str
    size: int
    sha256: str
    options: list[Decision]


class ApproveResult(Wire, frozen=True):
    """The user's word."""

    decision: Decision


class QuestionParams(Full, frozen=True):
    """`indusagi/question`: the agent asks the user. `options` are offered; any other text is an answer too."""

    question_id: str
    workspace: str
    session_id: str
    call_id: str
    question: str
    options: list[str]


class QuestionResult(Wire, frozen=True):
    """The user's words; null where they gave no answer."""

    answer: str | None = None


class DiagnosticsParams(Full, frozen=True):
    """`indusagi/diagnostics`: what problems does the editor show, in the file `uri`, or in all below `workspace`?"""

    workspace: str
    uri: str | None


class DiagnosticView(Wire, frozen=True):
    """A problem in the shape of LSP's `Diagnostic`, as far as it is used. `severity` goes from 1, error, to 4, hint."""

    range: Range
    message: str
    severity: int | None = None
    source: str | None = None
    code: str | int | None = None


class FileDiagnostics(Wire, frozen=True):
    """The problems of one file."""

    uri: str
    diagnostics: list[DiagnosticView] = []


class DiagnosticsResult(Wire, frozen=True):
    """The files with problems; others may be left out."""

    files: list[FileDiagnostics] = []


class ErrorData(Full, frozen=True):
    """`error.data` of our own errors."""

    kind: str
    hint: str = ""

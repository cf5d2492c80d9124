"""The table of operations: each is defined once here, and has two faces, a request and a command.

`indusagi/<name>` is the request, `indusagi.server.<name>` the command with one object argument. A contract test fails
when an operation has no handler, no row in the protocol document or no mirror in the TypeScript client.
"""

from __future__ import annotations

from typing import Any

import msgspec

from indusagi_lsp.protocol import messages as m

REQUEST_PREFIX = "indusagi/"
COMMAND_PREFIX = "indusagi.server."


class Operation(msgspec.Struct, frozen=True):
    """One thing that a client can ask for."""

    name: str
    params: type[Any]
    result: type[Any]
    title: str

    @property
    def method(self) -> str:
        """The request's method."""
        return REQUEST_PREFIX + self.name

    @property
    def command(self) -> str:
        """The command's id."""
        return COMMAND_PREFIX + self.name


SESSION_NEW = Operation("session/new", m.SessionNewParams, m.SessionInfo, "Make an empty session")
SESSION_LIST = Operation("session/list", m.SessionListParams, m.SessionListResult, "List sessions, the newest first")
SESSION_TREE = Operation("session/tree", m.SessionParams, m.TreeResult, "The whole graph of a session")
SESSION_ADOPT = Operation("session/adopt", m.SessionParams, m.AdoptResult, "Trust a session that somebody else wrote")
SESSION_LABEL = Operation("session/label", m.LabelParams, m.LabelsResult, "Name or pin a node")
SESSION_RENAME = Operation("session/rename", m.RenameParams, m.SessionInfo, "Give a session a title")
SESSION_ARCHIVE = Operation("session/archive", m.ArchiveParams, m.SessionInfo, "Put a session away, or take it out")
SESSION_DELETE = Operation("session/delete", m.SessionParams, m.DeletedResult, "Delete a session for good")
SESSION_EXPORT = Operation("session/export", m.ExportParams, m.ExportResult, "Export a branch")
SESSION_IMPORT = Operation("session/import", m.ImportParams, m.ImportResult, "Import sessions of other tools")
SESSION_COMPARE = Operation("session/compare", m.CompareParams, m.CompareResult, "Compare two branches")
SESSION_NOTE = Operation("session/note", m.NoteParams, m.LeafResult, "Bring a branch's result to the live one")
SESSION_SEARCH = Operation("session/search", m.SearchParams, m.SearchResult, "Search all sessions and branches")
SESSION_DOCTOR = Operation("session/doctor", m.DoctorParams, m.DoctorResult, "Examine sessions, and heal them")
BLOB_GET = Operation("blob/get", m.BlobParams, m.BlobResult, "Show the whole of a long output")
BLOB_COLLECT = Operation(
    "blob/collect", m.CollectParams, m.CollectResult, "Remove outputs and old contents of files that nothing needs"
)
FILES_CHANGES = Operation(
    "files/changes", m.FilesChangesParams, m.FilesChangesResult, "What the agent changed in the user's files"
)
FILES_RESTORE = Operation(
    "files/restore", m.FilesRestoreParams, m.FilesRestoreResult, "Bring files back to where they were at a node"
)
FILES_CONTENT = Operation(
    "files/content", m.FilesContentParams, m.FilesContentResult, "What a restored file would hold, for a diff"
)
RESUME = Operation("resume", m.ResumeParams, m.SessionView, "Show a session and go on from its head or a node")
SUBMIT = Operation("submit", m.SubmitParams, m.SnapshotView, "Say something to the agent")
ASK = Operation("ask", m.AskParams, m.AskResult, "Ask about a place in a document")
CHAT_SEND = Operation("chat/send", m.ChatSendParams, m.ChatSendResult, "Send the last section of a chat document")
ABORT = Operation("abort", m.SessionParams, m.AbortResult, "End the session's run, keeping what was said")
SNAPSHOT = Operation("snapshot", m.SnapshotParams, m.SnapshotResult, "Where the session's run is")
FORK = Operation("fork", m.ForkParams, m.ForkResult, "Go on from an earlier node")
CONDENSE = Operation("condense", m.CondenseParams, m.CondenseResult, "Condense the live path, reversibly")
CONDENSE_UNDO = Operation("condense/undo", m.SessionParams, m.LeafResult, "Take the last condensation back")
REMEMBER = Operation("memory/remember", m.RememberParams, m.RememberResult, "Remember a text")
RECALL = Operation("memory/recall", m.RecallParams, m.RecallResult, "Find what was remembered")
MEMORY_LIST = Operation("memory/list", m.MemoryListParams, m.MemoryListResult, "List what is remembered")
FORGET = Operation("memory/forget", m.ForgetParams, m.ForgetResult, "Forget one entry")
MEMORY_GET = Operation("memory/get", m.MemoryParams, m.MemoryGetResult, "Show one entry, with what it replaced")
MEMORY_UPDATE = Operation("memory/update", m.MemoryUpdateParams, m.MemoryEntryResult, "Change one entry")
MEMORY_ADOPT = Operation("memory/adopt", m.MemoryParams, m.MemoryEntryResult, "Vouch for an entry of somebody else")
MEMORY_EXPLAIN = Operation(
    "memory/explain", m.MemoryExplainParams, m.MemoryExplainResult, "Why an entry is found, or is not"
)
MEMORY_EXPORT = Operation("memory/export", m.MemoryExportParams, m.MemoryExportResult, "Export memories as Markdown")
MEMORY_IMPORT = Operation("memory/import", m.MemoryImportParams, m.MemoryImportResult, "Import memories from Markdown")
WORKFLOW_LIST = Operation(
    "workflow/list", m.WorkflowListParams, m.WorkflowListResult, "List workflows and their executions"
)
WORKFLOW_RUN = Operation("workflow/run", m.WorkflowRunParams, m.WorkflowExecution, "Run a workflow")
WORKFLOW_RESUME = Operation(
    "workflow/resume", m.WorkflowResumeParams, m.WorkflowExecution, "Go on with an execution that stopped"
)
WORKFLOW_CANCEL = Operation("workflow/cancel", m.WorkflowCancelParams, m.WorkflowCancelResult, "Cancel an execution")
MODELS_LIST = Operation("models/list", m.WorkspaceParams, m.ModelsListResult, "The models that can be used")
TRUST = Operation("trust", m.TrustParams, m.StatusResult, "Grant or withdraw trust in folders")
STATUS = Operation("status", m.WorkspaceParams, m.StatusResult, "The server at a glance")

OPERATIONS: tuple[Operation, ...] = (
    SESSION_NEW,
    SESSION_LIST,
    RESUME,
    SESSION_TREE,
    SESSION_ADOPT,
    SESSION_LABEL,
    SESSION_RENAME,
    SESSION_ARCHIVE,
    SESSION_DELETE,
    SESSION_EXPORT,
    SESSION_IMPORT,
    SESSION_COMPARE,
    SESSION_NOTE,
    SESSION_SEARCH,
    SESSION_DOCTOR,
    BLOB_GET,
    BLOB_COLLECT,
    FILES_CHANGES,
    FILES_RESTORE,
    FILES_CONTENT,
    SUBMIT,
    ASK,
    CHAT_SEND,
    ABORT,
    SNAPSHOT,
    FORK,
    CONDENSE,
    CONDENSE_UNDO,
    REMEMBER,
    RECALL,
    MEMORY_LIST,
    FORGET,
    MEMORY_GET,
    MEMORY_UPDATE,
    MEMORY_ADOPT,
    MEMORY_EXPLAIN,
    MEMORY_EXPORT,
    MEMORY_IMPORT,
    WORKFLOW_LIST,
    WORKFLOW_RUN,
    WORKFLOW_RESUME,
    WORKFLOW_CANCEL,
    MODELS_LIST,
    TRUST,
    STATUS,
)

EDITOR_OPERATIONS = frozenset({ASK.name, CHAT_SEND.name})
"""Those that are about open documents: the language server does them itself, by way of the others."""

EVENT = "indusagi/event"
STATUS_CHANGED = "indusagi/status"
SESSIONS_CHANGED = "indusagi/sessionsChanged"
MEMORY_CHANGED = "indusagi/memoryChanged"
WORKFLOW_PROGRESS = "indusagi/workflow"
APPROVE = "indusagi/approve"
QUESTION = "indusagi/question"
DIAGNOSTICS = "indusagi/diagnostics"

NOTIFICATIONS: dict[str, type[Any]] = {
    EVENT: m.EventParams,
    STATUS_CHANGED: m.StatusParams,
    SESSIONS_CHANGED: m.SessionsChangedParams,
    MEMORY_CHANGED: m.MemoryChangedParams,
    WORKFLOW_PROGRESS: m.WorkflowParams,
}

CLIENT_REQUESTS: dict[str, tuple[type[Any], type[Any]]] = {
    APPROVE: (m.ApproveParams, m.ApproveResult),
    QUESTION: (m.QuestionParams, m.QuestionResult),
    DIAGNOSTICS: (m.DiagnosticsParams, m.DiagnosticsResult),
}
"""What the server asks of a client that knows our own messages: parameters and result."""

"""What the hosts may say to the client, in whatever way this client understands."""

from __future__ import annotations

from collections.abc import Callable

from indusagi_lsp.contract.approvals import Decision
from indusagi_lsp.contract.events import Notice, RunEvent
from indusagi_lsp.lsp import approvals, questions
from indusagi_lsp.lsp.client import ClientFeatures
from indusagi_lsp.lsp.edits import DocumentEditor
from indusagi_lsp.lsp.peer import Peer
from indusagi_lsp.lsp.progress import ProgressBoard
from indusagi_lsp.protocol import messages as m
from indusagi_lsp.protocol.events import EventEncoder
from indusagi_lsp.protocol.operations import MEMORY_CHANGED, SESSIONS_CHANGED, STATUS_CHANGED, WORKFLOW_PROGRESS

GAP = "gap"


class ClientOutlet:
    """The server's `workspace.outlet.Outlet`.

    Args:
        peer: the client.
        board: where runs are shown to clients that do not take events.
        document: gives the unsaved text of an open file.
        approval_limit: seconds until an unanswered question is a denial.
    """

    def __init__(
        self, peer: Peer, board: ProgressBoard, document: Callable[[str], str | None], approval_limit: float
    ) -> None:
        self._peer = peer
        self._board = board
        self._document = document
        self._approval_limit = approval_limit
        self._encoder = EventEncoder()
        self.features = ClientFeatures()
        self.editor: DocumentEditor | None = None
        self.on_event: Callable[[str, RunEvent], None] | None = None
        self.on_sessions_changed: Callable[[str], None] = lambda _: None

    def event(self, workspace: str, session_id: str, run_id: str, seq: int, at: int, event: RunEvent) -> None:
        """Send one event, or show it as progress.

        A client that is so slow that the queue is full loses events: it sees the gap in `seq`, at the latest
        by a notice with the code `gap` that takes the place of the last lost event, and asks for a snapshot.
        """
        if self.on_event is not None:
            self.on_event(run_id, event)
        if self._board.shown:
            self._board.event(workspace, session_id, run_id, event)
        if not self.features.events:
            return
        encode, outbox = self._encoder.notification, self._peer.outbox
        if not outbox.offer(session_id, encode(workspace, session_id, run_id, seq, at, event)):
            gap = Notice(
                "warning",
                GAP,
                "Events were left out because the client was slow to read; ask for a snapshot.",
            )
            outbox.miss(session_id, encode(workspace, session_id, run_id, seq, at, gap))

    def congested(self) -> bool:
        """Whether the client is slow to read: deltas are then held back and joined."""
        return self._peer.outbox.congested()

    def status(self, status: m.StatusParams) -> None:
        """Show what the server is doing."""
        self._tell(STATUS_CHANGED, status)

    def sessions_changed(self, workspace: str) -> None:
        """Tell that a list of sessions is out of date."""
        self._tell(SESSIONS_CHANGED, m.SessionsChangedParams(workspace=workspace))
        self.on_sessions_changed(workspace)

    def memory_changed(self, workspace: str) -> None:
        """Tell that a list of memories is out of date."""
        self._tell(MEMORY_CHANGED, m.MemoryChangedParams(workspace=workspace))

    def workflow(self, progress: m.WorkflowParams) -> None:
        """Show how an execution of a workflow goes on."""
        self._tell(WORKFLOW_PROGRESS, progress)

    async def approve(self, question: m.ApproveParams) -> Decision:
        """Ask the user. No client, no answer in time, or an answer that makes no sense: deny."""
        return await approvals.ask(self._peer, self.features, question, self._approval_limit)

    async def question(self, question: m.QuestionParams) -> str | None:
        """Have the agent ask the user something; None where they gave no answer in time."""
        return await questions.put(self._peer, self.features, question, self._approval_limit)

    @property
    def shows_diagnostics(self) -> bool:
        """Whether the client can be asked what problems it shows."""
        return self.features.shows_diagnostics

    async def diagnostics(self, wanted: m.DiagnosticsParams) -> list[m.FileDiagnostics]:
        """The problems that the editor shows."""
        return await questions.diagnostics(self._peer, wanted)

    def open_documents(self) -> list[str]:
        """The URIs of the files that are open in the editor."""
        return [] if self.editor is None else self.editor.open_uris()

    def document(self, uri: str) -> str | None:
        """The unsaved text of a file that is open in the editor, else None."""
        return self._document(uri)

    async def apply_edit(self, uri: str, text: str, label: str) -> bool:
        """Give an open document another text through the editor; says whether that was done."""
        return self.editor is not None and await self.editor.replace(uri, text, label)

    def _tell(self, method: str, params: object) -> None:
        # Editors that have never heard of us log every message that they do not know.
        if self.features.events:
            self._peer.notify(method, params)

"""The seam between the hosts and whatever carries their words to a client."""

from __future__ import annotations

from typing import Protocol

from indusagi_lsp.contract.approvals import Decision
from indusagi_lsp.contract.events import RunEvent
from indusagi_lsp.protocol import messages as m


class Outlet(Protocol):
    """What a host needs of the language server. What is no coroutine returns at once and never blocks."""

    def event(self, workspace: str, session_id: str, run_id: str, seq: int, at: int, event: RunEvent) -> None:
        """Send one event; `seq` is gapless per session, `at` is milliseconds since the epoch."""
        ...

    def congested(self) -> bool:
        """Whether the client is slow to read: deltas are then held back and joined."""
        ...

    def status(self, status: m.StatusParams) -> None:
        """Show what the server is doing."""
        ...

    def sessions_changed(self, workspace: str) -> None:
        """Tell that a list of sessions is out of date."""
        ...

    def memory_changed(self, workspace: str) -> None:
        """Tell that a list of memories is out of date."""
        ...

    def workflow(self, progress: m.WorkflowParams) -> None:
        """Show how an execution of a workflow goes on."""
        ...

    async def approve(self, question: m.ApproveParams) -> Decision:
        """Ask the user. No client, no answer in time, or an answer that makes no sense: deny."""
        ...

    async def question(self, question: m.QuestionParams) -> str | None:
        """Have the agent ask the user something.

        Returns:
            Their words; None where they gave no answer in time.

        Raises:
            InvalidState: this client cannot ask such a question.
        """
        ...

    @property
    def shows_diagnostics(self) -> bool:
        """Whether the client can be asked what problems it shows."""
        ...

    async def diagnostics(self, wanted: m.DiagnosticsParams) -> list[m.FileDiagnostics]:
        """The problems that the editor shows.

        Raises:
            InvalidState: it did not tell.
        """
        ...

    async def apply_edit(self, uri: str, text: str, label: str) -> bool:
        """Give a document that is open in the editor another text, so that the user can undo it.

        Args:
            uri: the document.
            text: its whole new text.
            label: what the user sees in the undo menu.

        Returns:
            Whether the document has that text now. False: it is not open, or the editor cannot, refused, or was silent.
        """
        ...

    def open_documents(self) -> list[str]:
        """The URIs of the files that are open in the editor."""
        ...

    def document(self, uri: str) -> str | None:
        """The unsaved text of a file that is open in the editor, else None."""
        ...

"""The seam between the hosts and whatever carries their words to a client."""

from __future__ import annotations

from typing import Protocol

from indusagi_lsp.contract.approvals import Decision
from indusagi_lsp.contract.events import RunEvent
from indusagi_lsp.protocol import messages as m


class Outlet(Protocol):
    """What a host needs of the language server. All but `approve` return at once and never block."""

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

    def document(self, uri: str) -> str | None:
        """The unsaved text of a file that is open in the editor, else None."""
        ...

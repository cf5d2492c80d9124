"""What the hosts may say to an ACP client: a session's events as updates, approvals as requests for permission."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from acp import helpers, schema
from acp.exceptions import RequestError
from acp.meta import CLIENT_METHODS

from indusagi_lsp.acp.updates import SessionUpdate, tool_kind, updates_of
from indusagi_lsp.contract.approvals import TITLES, Decision
from indusagi_lsp.contract.errors import InvalidState
from indusagi_lsp.contract.events import RunEvent
from indusagi_lsp.contract.jsontext import dumps
from indusagi_lsp.protocol import messages as m
from indusagi_lsp.transport.outbox import Outbox

if TYPE_CHECKING:
    from acp import AgentSideConnection

logger = logging.getLogger(__name__)

APPROVAL_SECONDS = 600.0
_KINDS: dict[Decision, schema.PermissionOptionKind] = {
    "once": "allow_once",
    "session": "allow_always",
    "always": "allow_always",
    "deny": "reject_once",
}


class AcpOutlet:
    """The `workspace.outlet.Outlet` of an ACP client.

    Args:
        outbox: where messages go.
        approval_seconds: until an unanswered question is a denial.
    """

    def __init__(self, outbox: Outbox, approval_seconds: float = APPROVAL_SECONDS) -> None:
        self._outbox = outbox
        self._approval_seconds = approval_seconds
        self.client: AgentSideConnection | None = None

    def update(self, session_id: str, update: SessionUpdate) -> None:
        """Send one update, behind all that were sent before; returns at once.

        None is ever dropped, since this protocol has no way to ask for what was missed: a client that is slow to read
        gets fewer and longer ones.
        """
        params = schema.SessionNotification(session_id=session_id, update=update)
        data = params.model_dump(mode="json", by_alias=True, exclude_none=True, exclude_unset=True)
        self._outbox.send(dumps({"jsonrpc": "2.0", "method": CLIENT_METHODS["session_update"], "params": data}))

    def event(self, workspace: str, session_id: str, run_id: str, seq: int, at: int, event: RunEvent) -> None:
        """Show one event, if the client has something to show it in."""
        for update in updates_of(event):
            self.update(session_id, update)

    def congested(self) -> bool:
        """Whether the client is slow to read: deltas are then held back and joined."""
        return self._outbox.congested()

    async def approve(self, question: m.ApproveParams) -> Decision:
        """Ask the user. No client, no answer in time, or an answer that makes no sense: deny."""
        if self.client is None:
            return "deny"
        call = schema.ToolCallUpdate(
            tool_call_id=question.call_id,
            title=question.tool,
            kind=tool_kind(question.tool),
            status="pending",
            content=[helpers.tool_content(helpers.text_block(question.action))],
        )
        options = [
            schema.PermissionOption(option_id=option, name=TITLES[option], kind=_KINDS[option])
            for option in question.options
        ]
        try:
            async with asyncio.timeout(self._approval_seconds):
                answer = await self.client.request_permission(question.session_id, call, options)
        except TimeoutError:
            logger.info("nobody answered whether %s may run", question.tool)
            return "deny"
        except (RequestError, ConnectionError, ValueError) as error:
            logger.info("the client could not ask whether %s may run: %s", question.tool, error)
            return "deny"
        if not isinstance(answer.outcome, schema.AllowedOutcome):
            return "deny"
        chosen = answer.outcome.option_id
        return next((option for option in question.options if option == chosen), "deny")

    def status(self, status: m.StatusParams) -> None:
        """The protocol has no place for it: a client knows what runs by its own prompts."""

    def sessions_changed(self, workspace: str) -> None:
        """The protocol has no place for it: a client asks for the list when it shows it."""

    def memory_changed(self, workspace: str) -> None:
        """The protocol has no place for it."""

    def workflow(self, progress: m.WorkflowParams) -> None:
        """The protocol has no place for it: no workflow is started from here."""

    async def question(self, question: m.QuestionParams) -> str | None:
        """Refused: the protocol has no question but that for permission; the agent asks in its answer instead.

        Raises:
            InvalidState: always.
        """
        message = f"This editor cannot put the question {question.question_id} to the user."
        raise InvalidState(message, hint="Ask in the answer.")

    @property
    def shows_diagnostics(self) -> bool:
        """False: the client does not tell."""
        return False

    async def diagnostics(self, wanted: m.DiagnosticsParams) -> list[m.FileDiagnostics]:
        """None: the client does not tell."""
        return []

    async def apply_edit(self, uri: str, text: str, label: str) -> bool:
        """False: files are changed on the disk, where the client sees it."""
        return False

    def open_documents(self) -> list[str]:
        """None: the client does not tell."""
        return []

    def document(self, uri: str) -> str | None:
        """None: unsaved text comes with a prompt, where the client attaches it."""
        return None

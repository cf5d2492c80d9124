"""The gate: who decides what an agent may do in one folder. Trust, the mode, what was allowed before, then the user."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from indusagi_lsp.contract.approvals import ApprovalRequest, Decision, Verdict
from indusagi_lsp.contract.clock import Clock
from indusagi_lsp.protocol import messages as m
from indusagi_lsp.workspace.outlet import Outlet
from indusagi_lsp.workspace.permissions import Permissions
from indusagi_lsp.workspace.settings import ApprovalMode

EDITS = frozenset({"read", "write"})


class Gate:
    """Answers the questions of one folder's agents.

    Args:
        workspace: the folder's URI.
        trusted: whether the user trusts what is in the folder.
        mode: gives the mode that holds now.
        permissions: what the user has allowed for good.
        outlet: asks the user.
        clock: for the time of a permission.
    """

    def __init__(
        self,
        *,
        workspace: str,
        trusted: bool,
        mode: Callable[[], ApprovalMode],
        permissions: Permissions,
        outlet: Outlet,
        clock: Clock,
    ) -> None:
        self.permissions = permissions
        self.questions: dict[str, m.ApproveParams] = {}
        self.asked: dict[str, m.QuestionParams] = {}
        self._workspace = workspace
        self.trusted = trusted
        self._mode = mode
        self._outlet = outlet
        self._clock = clock

    @property
    def lets_act(self) -> bool:
        """Whether an agent may have tools at all that do more than read."""
        return self.trusted and self._mode() != "readOnly"

    async def decide(self, request: ApprovalRequest) -> Verdict:
        """Decide about one action; `Approver` of every agent here."""
        if (refusal := self._refusal()) is not None:
            return refusal
        if not request.afresh:
            if self._mode() == "acceptEdits" and set(request.effects) <= EDITS:
                return Verdict("once", "mode")
            if await asyncio.to_thread(self.permissions.allows, request.tool, request.action):
                return Verdict("once", "permission")
        decision = await self.ask(request)
        # Trust may have been withdrawn while the user thought about it.
        if (refusal := self._refusal()) is not None:
            return refusal
        if decision == "always" and not request.afresh:
            await asyncio.to_thread(self.permissions.grant, request.tool, request.action, self._clock.now_ms())
        return Verdict(decision)

    def _refusal(self) -> Verdict | None:
        """The denial of everything, where an agent may not act at all."""
        return None if self.lets_act else Verdict("deny", "mode" if self.trusted else "untrusted")

    async def ask(self, request: ApprovalRequest) -> Decision:
        """Ask the user, whatever was allowed before; while the question waits, a client can ask for it again."""
        question = m.ApproveParams(
            approval_id=request.id,
            workspace=self._workspace,
            session_id=request.session_id,
            run_id=request.run_id,
            call_id=request.call_id,
            tool=request.tool,
            action=request.action,
            size=len(request.action.encode("utf-8", "surrogatepass")),
            sha256=request.sha256,
            options=list(request.options),
        )
        self.questions[request.id] = question
        try:
            return await self._outlet.approve(question)
        finally:
            del self.questions[request.id]

    async def put(self, question: m.QuestionParams) -> str | None:
        """Have an agent ask the user something that is no permission; gives their words, None where they said nothing.

        Raises:
            InvalidState: the client cannot ask such a question.
        """
        self.asked[question.question_id] = question
        try:
            return await self._outlet.question(question)
        finally:
            del self.asked[question.question_id]

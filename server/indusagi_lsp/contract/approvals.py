"""The seam to whoever may say yes: a question bound to the exact bytes of one action."""

from __future__ import annotations

from typing import Literal, Protocol, TypeAlias

import msgspec

Decision: TypeAlias = Literal["once", "session", "deny"]


class ApprovalRequest(msgspec.Struct, frozen=True):
    """A question to the user. `sha256` is the hash of `action` in full; what was announced is what is executed."""

    id: str
    session_id: str
    run_id: str
    call_id: str
    tool: str
    action: str
    sha256: str
    options: tuple[Decision, ...] = ("once", "session", "deny")


class Approver(Protocol):
    """Asks the user. Every failure to get an answer is a denial."""

    async def __call__(self, request: ApprovalRequest, /) -> Decision:
        """Ask, and wait for the answer."""
        ...


async def deny(_request: ApprovalRequest) -> Decision:
    """The approver of a host that has nobody to ask."""
    return "deny"

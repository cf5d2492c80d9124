"""The seam to whoever may say yes: a question bound to the exact bytes of one action."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, Protocol, TypeAlias

import msgspec

Decision: TypeAlias = Literal["once", "session", "always", "deny"]
"""`session` holds for the same bytes while the session is open, `always` in this workspace until it is taken back."""

TITLES: Mapping[Decision, str] = {
    "once": "Allow once",
    "session": "Allow for this session",
    "always": "Always allow in this folder",
    "deny": "Deny",
}
"""What a client without words of its own shows for each decision."""


class ApprovalRequest(msgspec.Struct, frozen=True):
    """A question to the user. `sha256` is the hash of `action` in full; what was announced is what is executed.

    `effects` are the names of what the tool can do at worst; `afresh` says that no earlier word counts.
    """

    id: str
    session_id: str
    run_id: str
    call_id: str
    tool: str
    action: str
    sha256: str
    options: tuple[Decision, ...] = ("once", "session", "always", "deny")
    effects: tuple[str, ...] = ()
    afresh: bool = False


class Verdict(msgspec.Struct, frozen=True):
    """What was decided, and by whom: `user`, or the name of what stands for them."""

    decision: Decision
    by: str = "user"


class Approver(Protocol):
    """Asks the user. Every failure to get an answer is a denial."""

    async def __call__(self, request: ApprovalRequest, /) -> Decision | Verdict:
        """Ask, and wait for the answer."""
        ...


async def deny(_request: ApprovalRequest) -> Verdict:
    """The approver of a host that has nobody to ask."""
    return Verdict("deny", "nobody")

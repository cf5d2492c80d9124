"""What can go wrong, as one tree of exceptions.

    IndusagiError                  a fault kind, a message for people, a hint what to do
      InvalidInput                 bad_request: the caller's data is not what we take
        SemanticError              (seed) an operation that makes no sense on its input
      InvalidState                 invalid_state: not now
      SessionNotFound              session_not_found
      SessionForeign               session_foreign: written by somebody else, not adopted yet
      NodeNotFound                 node_not_found
      PersistenceFault             persistence: the disk refused; nothing in memory is lost
      Aborted                      aborted
      TurnBudgetSpent              turn_budget
      CompactionFailed             compaction_failed: history untouched
      ModelError                   model_failed
        ContextOverflow            overflow: the prompt is longer than the model takes
      ToolFailed                   tool_failed
        PathOutside                path_denied: a path that leaves the workspace

The kinds are those of the conductor's `faulted` event; the protocol maps each to a JSON-RPC code. Messages say what
happened, hints say what to do; neither ever holds a traceback or a secret.
"""

from __future__ import annotations

from typing import ClassVar


class IndusagiError(Exception):
    """The base of every error that is meant to reach a person."""

    kind: ClassVar[str] = "internal"

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class InvalidInput(IndusagiError):
    """The caller's data is not what the operation takes."""

    kind = "bad_request"


class SemanticError(InvalidInput, ValueError):
    """An operation that makes no sense on its input (seed: an empty list to summarise)."""


class InvalidState(IndusagiError):
    """The operation is right, but not at this moment."""

    kind = "invalid_state"


class SessionNotFound(IndusagiError):
    """No session of that id is on disk."""

    kind = "session_not_found"

    def __init__(self, session_id: str) -> None:
        super().__init__(f"There is no session {session_id!r}.", hint="List the sessions to see which exist.")


class SessionForeign(IndusagiError):
    """The session was not written by this user, and was not adopted; it is not sent to a model."""

    kind = "session_foreign"

    def __init__(self, session_id: str) -> None:
        super().__init__(
            f"Session {session_id!r} was written by somebody else, so it is not sent to a model.",
            hint="Read it first; then adopt it if you trust it.",
        )


class NodeNotFound(IndusagiError):
    """No node of that id is in the session."""

    kind = "node_not_found"

    def __init__(self, session_id: str, node: str) -> None:
        super().__init__(
            f"Session {session_id!r} has no node {node!r}.", hint="Ask for the session's tree to see its nodes."
        )


class PersistenceFault(IndusagiError):
    """The disk refused a write. What was said is kept in memory."""

    kind = "persistence"


class Aborted(IndusagiError):
    """The run was ended by the user or the host."""

    kind = "aborted"


class TurnBudgetSpent(IndusagiError):
    """The run called the model `max_turns` times without settling."""

    kind = "turn_budget"


class CompactionFailed(IndusagiError):
    """No acceptable summary could be made; the history is untouched."""

    kind = "compaction_failed"


class ModelError(IndusagiError):
    """The model, or the way to it, failed.

    Attributes:
        status: the provider's HTTP status, None where there was none.
        retryable: whether the same request may succeed later.
        retry_after: seconds that the provider asked to wait, None where it did not say.
        outage: whether the provider itself failed, was not there or gave no sense, as opposed to refusing this request.
            What may succeed later is an outage, if nothing else is said.
    """

    kind = "model_failed"

    def __init__(
        self,
        message: str,
        *,
        hint: str = "",
        status: int | None = None,
        retryable: bool = False,
        retry_after: float | None = None,
        outage: bool | None = None,
    ) -> None:
        super().__init__(message, hint=hint)
        self.status = status
        self.retryable = retryable
        self.retry_after = retry_after
        self.outage = retryable if outage is None else outage


class ContextOverflow(ModelError):
    """The provider refused the prompt because it is longer than the model's window."""

    kind = "overflow"


class ToolFailed(IndusagiError):
    """A tool could not do what was asked; its message is what the model is told."""

    kind = "tool_failed"


class PathOutside(ToolFailed):
    """A path that does not lie inside the workspace once everything is resolved."""

    kind = "path_denied"

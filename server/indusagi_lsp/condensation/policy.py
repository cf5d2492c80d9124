"""When to condense, what to keep, and how large the pieces may be."""

from __future__ import annotations

import msgspec

from indusagi_lsp.contract.errors import SemanticError
from indusagi_lsp.contract.models import ModelCard

FALLBACK_WINDOWS = {"anthropic": 200_000, "google": 1_000_000, "openai": 128_000}
"""Tokens, by provider: for a model whose window is unknown. The smallest of the provider's models that are in use."""

FALLBACK_WINDOW = 32_000
"""Tokens: for a model of an unknown provider."""


class CompactionPolicy(msgspec.Struct, frozen=True):
    """When history is condensed, and what stays of it. The first two fields and their defaults are the seed's.

    Attributes:
        trigger_ratio: condense once the prompt has reached this part of the window; above 0, at most 1.
        keep_recent: how many of the last turns stay word for word, unless `tail_ratio` says otherwise; at least 1.
        tail_ratio: the kept turns may fill this part of the window; of eight real turns the worst took 47,000 tokens.
        summary_tokens: budget of the ledger, the part of the summary that code keeps.
        tool_result_chars: how much of a tool's result the summarising model sees; also what masking leaves of one.
        max_bytes: condense too once the blocks hold this many bytes; providers refuse requests by size (images).
    """

    trigger_ratio: float = 0.8
    keep_recent: int = 8
    tail_ratio: float = 0.25
    summary_tokens: int = 1_500
    tool_result_chars: int = 2_000
    max_bytes: int = 20_000_000

    def __post_init__(self) -> None:
        """Refuse what makes no sense.

        Raises:
            SemanticError: a field is out of its range; the message names it.
        """
        for name in ("trigger_ratio", "tail_ratio"):
            if not 0 < getattr(self, name) <= 1:
                raise SemanticError(f"{name} must be above 0 and at most 1.")
        for name, least in (
            ("keep_recent", 1),
            ("summary_tokens", 200),
            ("tool_result_chars", 100),
            ("max_bytes", 1),
        ):
            if getattr(self, name) < least:
                raise SemanticError(f"{name} must be at least {least}.")


DEFAULT_POLICY = CompactionPolicy()


def window_of(card: ModelCard) -> int:
    """The model's window in tokens; where the card does not know it, a careful guess by provider."""
    return card.window or FALLBACK_WINDOWS.get(card.provider, FALLBACK_WINDOW)

"""When condensing cannot help: a clear error instead of one condensation after the other."""

from __future__ import annotations

from indusagi_lsp.condensation.policy import CompactionPolicy, window_of
from indusagi_lsp.contract.errors import CompactionFailed
from indusagi_lsp.contract.models import ModelCard


class ProgressGuard:
    """Stops a storm of condensations: at most two without a model call that came to its end in between."""

    LIMIT = 2

    def __init__(self) -> None:
        self._tries = 0

    def attempt(self) -> None:
        """Count one condensation.

        Raises:
            CompactionFailed: it would be the third without progress.
        """
        if self._tries >= self.LIMIT:
            raise CompactionFailed(
                "History was condensed twice and is still too long for the model.",
                hint="Choose a model with a larger window, or go on from an earlier turn.",
            )
        self._tries += 1

    def progressed(self) -> None:
        """A model call came to its end."""
        self._tries = 0


def check_fixed(fixed: int, card: ModelCard, policy: CompactionPolicy) -> None:
    """Refuse a run whose system prompt and tools alone leave no room, since no condensation could help it.

    Args:
        fixed: tokens of the system prompt and the tools.
        card: the model.
        policy: the trigger.

    Raises:
        CompactionFailed: they reach the trigger by themselves.
    """
    if fixed >= policy.trigger_ratio * window_of(card):
        raise CompactionFailed(
            f"The system prompt and the tools take {fixed:,} of the model's {window_of(card):,} tokens.",
            hint="Choose a model with a larger window, or fewer tools.",
        )

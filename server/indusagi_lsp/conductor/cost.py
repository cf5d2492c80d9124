"""What was spent: calls, tokens and money, by provider and by purpose."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from indusagi_lsp.contract.models import Purpose, Usage


class Spending(msgspec.Struct, frozen=True):
    """A number of calls, and what they took."""

    calls: int = 0
    usage: Usage = Usage()


class CostTracker:
    """Adds up usage. A model call, a summary and an embedding are all counted (seed)."""

    def __init__(self) -> None:
        self._spent: dict[tuple[str, Purpose], Spending] = {}

    def add(self, provider: str, purpose: Purpose, usage: Usage) -> None:
        """Count one call."""
        before = self._spent.get((provider, purpose), Spending())
        self._spent[provider, purpose] = Spending(before.calls + 1, before.usage + usage)

    @property
    def total(self) -> Usage:
        """All of it."""
        total = Usage()
        for spending in self._spent.values():
            total = total + spending.usage
        return total

    @property
    def by_provider_and_purpose(self) -> Mapping[tuple[str, Purpose], Spending]:
        """The parts, by (provider, purpose)."""
        return dict(self._spent)

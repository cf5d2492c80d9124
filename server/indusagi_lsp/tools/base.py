"""What our tools share: those that plan their calls are run by carrying out what was planned."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from indusagi_lsp.contract.tools import PlannedCall, ToolContext, ToolOutcome


class Planning(ABC):
    """The base of a tool whose calls are planned, then asked about, then carried out.

    Such a tool sets `spec` and `effects`, and says in `plan` what a call would do.
    """

    @abstractmethod
    async def plan(self, arguments: Mapping[str, Any], context: ToolContext) -> PlannedCall:
        """Find out what the call would do, without doing it.

        Args:
            arguments: JSON data as the model sent it.
            context: the call's surroundings.

        Raises:
            ToolFailed: with a message that helps the model to ask better.
        """

    async def run(self, arguments: Mapping[str, Any], context: ToolContext) -> ToolOutcome:
        """Plan and carry out without asking; whoever asks plans first."""
        return await (await self.plan(arguments, context)).carry_out()

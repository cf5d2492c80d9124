"""A server's tool as one of ours: planned, shown to the user whole, then called exactly so."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

from indusagi_lsp.contract import jsontext
from indusagi_lsp.contract.errors import ToolFailed
from indusagi_lsp.contract.models import ToolSpec
from indusagi_lsp.contract.text import quoted
from indusagi_lsp.contract.tools import Effect, PlannedCall, ToolContext, ToolOutcome
from indusagi_lsp.tools.base import Planning
from indusagi_lsp.tools.mcp.offers import Offer, check_arguments
from indusagi_lsp.tools.mcp.server import Server

_ANYTHING = frozenset({Effect.READ, Effect.WRITE, Effect.EXECUTE, Effect.NETWORK})
_READS = frozenset({Effect.READ})


class McpTool(Planning):
    """One tool of one server.

    Args:
        server: its server.
        offer: the tool as the server offers it.
    """

    def __init__(self, server: Server, offer: Offer) -> None:
        self._server = server
        self._offer = offer
        self._definition = server.definition
        # A server says of itself that a tool only reads; that counts where the user has said that it may.
        self._only_reads = offer.read_only and server.config.trust_read_only

    @property
    def spec(self) -> ToolSpec:
        """The tool as the model sees it."""
        return self._offer.spec

    @property
    def effects(self) -> frozenset[Effect]:
        """Anything, since nobody knows what a server does; reading only where the user trusts its word."""
        return _READS if self._only_reads else _ANYTHING

    def stands_for(self, server: Server, offer: Offer) -> bool:
        """Whether this is that tool, in that form, of a server with that definition."""
        return self._offer == offer and self._definition == server.definition

    async def plan(self, arguments: Mapping[str, Any], context: ToolContext) -> PlannedCall:
        """Show server, tool and arguments.

        Raises:
            ToolFailed: the arguments do not fit.
        """
        wrong = check_arguments(self.spec.input_schema, arguments)
        if wrong:
            message = f"{self.spec.name}: {wrong}"
            raise ToolFailed(message)

        sent = jsontext.dumps(dict(arguments))

        async def carry_out() -> ToolOutcome:
            if self._definition != self._server.definition:
                message = f"The MCP server {self._server.name} is not the one any more that the user was asked about."
                raise ToolFailed(message)
            return await self._server.call(self._offer, jsontext.loads(sent), context)

        return PlannedCall(self._action(sent.decode("utf-8")), carry_out, asks=not self._only_reads)

    def _action(self, arguments: str) -> str:
        """The form of server and tool is part of it, so that a permission for this call does not outlive a change."""
        form = hashlib.sha256(f"{self._definition} {self._offer.digest}".encode()).hexdigest()[:16]
        return (
            f"MCP server: {self._server.name}\ntool: {quoted(self._offer.name)} (form {form})\narguments: {arguments}"
        )

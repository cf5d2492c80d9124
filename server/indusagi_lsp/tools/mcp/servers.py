"""All of the user's MCP servers: started when tools are first asked for, looked after, and ended together."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import Literal

import msgspec

from indusagi_lsp.contract.approvals import Approver
from indusagi_lsp.contract.clock import Clock, NewId, SystemClock, new_uuid
from indusagi_lsp.contract.events import Notice
from indusagi_lsp.contract.tools import PlanningTool
from indusagi_lsp.tools.mcp.config import McpConfig
from indusagi_lsp.tools.mcp.grants import Grants, Permission
from indusagi_lsp.tools.mcp.keeper import Keeper
from indusagi_lsp.tools.mcp.server import Pace, Server, State
from indusagi_lsp.tools.mcp.tool import McpTool

logger = logging.getLogger(__name__)

FIRST_WAIT = 1.5
"""Seconds that the first run waits for servers at most; what starts in that time takes part in it."""


class McpStatus(msgspec.Struct, frozen=True):
    """How a server is.

    Attributes:
        name: as configured.
        transport: how it is spoken to.
        state: `off` (switched off), `idle` (nobody asked for tools yet), `asking` (the user is asked), `starting`,
            `ready`, `waiting` (it failed, and is started again after a while), `denied`, `failed` (for good).
        detail: why it is so, for people; may be empty.
        tools: the names of its tools, as the model sees them.
    """

    name: str
    transport: Literal["stdio", "http"]
    state: State
    detail: str
    tools: tuple[str, ...]


class McpServers:
    """The user's MCP servers. Making it starts nothing.

    Args:
        config: the servers by name, from the user's own configuration.
        approver: asked before a server is started whose definition is new or changed, and before tools are used that
            are new or changed. `always` is kept in `grants`; `once` and `session` last as long as this object. Such a
            question belongs to no run: its session, run and call ids are empty, its tool is `mcp__NAME`.
        grants: where standing permissions are kept.
        clock: the time.
        log: where causes are looked for; stderr of the servers goes there, bounded.
        environ: the user's environment; a server gets the harmless part of it.
        new_id: makes ids of questions.
        on_change: called when `tools()` would give other tools than before.
        on_report: called with what the user should know.
        pace: how patient to be.
    """

    def __init__(
        self,
        config: Mapping[str, McpConfig],
        *,
        approver: Approver,
        grants: Grants,
        environ: Mapping[str, str],
        clock: Clock | None = None,
        log: logging.Logger = logger,
        new_id: NewId = new_uuid,
        on_change: Callable[[], None] = lambda: None,
        on_report: Callable[[Notice], None] = lambda _: None,
        pace: Pace | None = None,
    ) -> None:
        self._log = log
        self._on_change = on_change
        self._on_report = on_report
        self._tools: dict[str, McpTool] = {}
        self._closed = False
        self._keeper = Keeper()
        self._servers = [
            Server(
                name,
                one,
                Permission(name, approver, grants, new_id, log),
                keeper=self._keeper,
                environ=environ,
                clock=clock or SystemClock(),
                pace=pace or Pace(),
                log=log,
                changed=self._changed,
                report=self._reported,
            )
            for name, one in config.items()
        ]

    async def tools(self, wait: float = FIRST_WAIT) -> tuple[PlanningTool, ...]:
        """The tools that can be used now. Starts the servers; a slow one joins later, which `on_change` tells.

        Call it for a trusted workspace only, and not before a run needs tools.

        Args:
            wait: seconds to wait for servers that are starting, at most.

        Returns:
            The tools, in the order of the configuration. A tool stays the same object as long as nothing about it
            changes.
        """
        if self._closed:
            return ()
        for server in self._servers:
            server.start()
        waiting = [asyncio.create_task(one.settled.wait()) for one in self._servers if one.config.enabled]
        if waiting:
            try:
                await asyncio.wait(waiting, timeout=wait)
            finally:
                for task in waiting:
                    task.cancel()
        return self._present()

    def status(self) -> list[McpStatus]:
        """How each server is, in the order of the configuration."""
        return [
            McpStatus(
                one.name,
                "http" if one.config.url else "stdio",
                one.state,
                one.detail,
                tuple(offer.spec.name for offer in one.offers.tools),
            )
            for one in self._servers
        ]

    async def close(self) -> None:
        """End every server, with all processes that it started, within 2 s."""
        self._closed = True
        await asyncio.gather(*(server.close() for server in self._servers))
        await self._keeper.close()

    def _present(self) -> tuple[McpTool, ...]:
        present: dict[str, McpTool] = {}
        for server in self._servers:
            for offer in server.offers.tools:
                known = self._tools.get(offer.spec.name)
                tool = known if known is not None and known.stands_for(server, offer) else McpTool(server, offer)
                present[offer.spec.name] = tool
        self._tools = present
        return tuple(present.values())

    def _changed(self) -> None:
        if self._closed:
            return
        try:
            self._on_change()
        except Exception:  # noqa: BLE001 - logged; a listener's fault is not the server's
            self._log.exception("MCP: whoever is told of changed tools failed")

    def _reported(self, notice: Notice) -> None:
        try:
            self._on_report(notice)
        except Exception:  # noqa: BLE001 - as above
            self._log.exception("MCP: whoever is told of notices failed")

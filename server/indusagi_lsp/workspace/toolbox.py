"""The toolbox: what the agents of one folder can ask for. Our own tools, and those of the user's MCP servers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from indusagi_lsp.contract.approvals import Approver
from indusagi_lsp.contract.clock import Clock, NewId
from indusagi_lsp.contract.events import Notice
from indusagi_lsp.contract.tools import Effect, Tool
from indusagi_lsp.filehistory import FileHistory, recorded
from indusagi_lsp.tools import Jobs, PathGuard, command_tools, in_background, read_only_tools, writing_tools
from indusagi_lsp.tools.policy import rules_of
from indusagi_lsp.workspace.permissions import McpGrants

if TYPE_CHECKING:
    from indusagi_lsp.tools.mcp import McpConfig, McpServers

READS = frozenset({Effect.READ})


class Toolbox:
    """The tools of one folder. A tool stays the same object, since agents compare their tools.

    Args:
        guard: stands between the tools and the user's files.
        files: records what they change.
        own: gives the tools that look into what is kept here; called once, at the first need.
        commands: those that the user lets pass without a question.
        mcp: the user's MCP servers; none of them is started before a run needs tools.
        approver: asked before an MCP server is started that is new or has changed.
        grants: where permissions for MCP servers are kept.
        report: told what the user should know.
    """

    def __init__(
        self,
        guard: PathGuard,
        files: FileHistory,
        *,
        own: Callable[[], tuple[Tool, ...]],
        mcp: Mapping[str, McpConfig],
        commands: tuple[str, ...],
        approver: Approver,
        grants: McpGrants,
        environ: Mapping[str, str],
        clock: Clock,
        new_id: NewId,
        report: Callable[[Notice], None],
    ) -> None:
        self.jobs = Jobs()
        self._guard = guard
        self._files = files
        self._make_own = own
        self._own: tuple[Tool, ...] = ()
        self._mcp = mcp
        self._rules = rules_of(commands)
        self._approver = approver
        self._grants = grants
        self._environ = environ
        self._clock = clock
        self._new_id = new_id
        self._report = report
        self._servers: McpServers | None = None
        self._foreign: dict[Tool, Tool] = {}

    def tools(self, *, act: bool) -> tuple[Tool, ...]:
        """What there is now; only what reads, unless the agent may act."""
        if not self._own:
            self._own = (
                *read_only_tools(self._guard),
                *recorded(writing_tools(self._guard), self._files),
                *recorded(
                    command_tools(self._guard, self.jobs, self._rules), self._files, self.commands_run, in_background
                ),
                *self._make_own(),
            )
        if not act:
            return tuple(tool for tool in self._own if tool.effects <= READS)
        return (*self._own, *self._foreign.values())

    def commands_run(self) -> bool:
        """Whether a command goes on in the background."""
        return self.jobs.running > 0

    async def prepare(self, *, act: bool) -> None:
        """Before a run: start the user's MCP servers, and take the tools that they offer by now."""
        if not act or not self._mcp:
            return
        if self._servers is None:
            from indusagi_lsp.tools.mcp import McpServers

            self._servers = McpServers(
                self._mcp,
                approver=self._approver,
                grants=self._grants,
                environ=self._environ,
                clock=self._clock,
                new_id=self._new_id,
                on_report=self._report,
            )
        # What a server does to files is found by looking before and after each call, as with commands.
        self._foreign = {
            tool: self._foreign.get(tool) or recorded((tool,), self._files, self.commands_run)[0]
            for tool in await self._servers.tools()
        }

    async def close(self) -> None:
        """End every command and every MCP server; a run that is prepared later starts them anew."""
        servers, self._servers, self._foreign = self._servers, None, {}
        await self.jobs.close()
        if servers is not None:
            await servers.close()

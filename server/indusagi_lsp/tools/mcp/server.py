"""One server for its whole life: a single task starts it, listens to it, starts it again, and ends it.

The SDK's connections live in cancel scopes, which only the task that entered them may leave; a connection that is
closed from elsewhere takes unrelated tasks along. So the owner task alone enters and leaves, and calls run in tasks of
their own.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import logging
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import msgspec

from indusagi_lsp import __version__
from indusagi_lsp.contract.clock import Clock
from indusagi_lsp.contract.errors import IndusagiError, ToolFailed
from indusagi_lsp.contract.events import Notice
from indusagi_lsp.contract.tools import ToolContext, ToolOutcome
from indusagi_lsp.tools.mcp.calls import Calls, end_tasks, words
from indusagi_lsp.tools.mcp.config import McpConfig
from indusagi_lsp.tools.mcp.grants import Permission
from indusagi_lsp.tools.mcp.keeper import Keeper
from indusagi_lsp.tools.mcp.launch import prepare
from indusagi_lsp.tools.mcp.offers import MAX_TOOLS, Offer, Offers, read_offers
from indusagi_lsp.tools.mcp.pipes import Pipes
from indusagi_lsp.tools.mcp.web import Web

if TYPE_CHECKING:
    import mcp_types
    from mcp.client.client import Client

State: TypeAlias = Literal["off", "idle", "asking", "starting", "ready", "waiting", "denied", "failed"]

MAX_PAGES = 20
LAST_ANSWERS = 0.2
"""Seconds in which calls may still learn by themselves that the connection has ended."""

_SDK = ("mcp.client.client", "mcp.client.streamable_http", "mcp.client.subscriptions", "mcp_types")


class Pace(msgspec.Struct, frozen=True):
    """How patient we are, in seconds.

    Attributes:
        back_off: before each new start after a failure in a row; the last one is repeated.
        healthy: a server that lived as long as this starts with a clean record.
        keep_tools: failures in a row after which its tools are withdrawn.
        relist: before a changed list is fetched; doubled while it goes on changing, up to `relist_max`.
        progress: between two lines of progress of one call.
        relisten: before a lost subscription is taken up again.
    """

    back_off: tuple[float, ...] = (1, 2, 4, 8, 15, 30, 60, 120, 300)
    healthy: float = 60
    keep_tools: int = 3
    relist: float = 0.5
    relist_max: float = 60
    progress: float = 0.1
    relisten: float = 30


class Server:
    """One configured server.

    Args:
        name: its name.
        config: its definition.
        permission: the user's.
        keeper: ends its processes should we be gone.
        environ: the user's environment.
        clock: the time.
        pace: how patient to be.
        log: for those who look for the cause of something.
        changed: called when its tools are others than before.
        report: called with what the user should know, once for each thing.
    """

    def __init__(
        self,
        name: str,
        config: McpConfig,
        permission: Permission,
        *,
        keeper: Keeper,
        environ: Mapping[str, str],
        clock: Clock,
        pace: Pace,
        log: logging.Logger,
        changed: Callable[[], None],
        report: Callable[[Notice], None],
    ) -> None:
        self.name = name
        self.config = config
        self.state: State = "idle" if config.enabled else "off"
        self.detail = ""
        self.offers = Offers()
        self.definition = ""
        self.settled = asyncio.Event()
        self._permission = permission
        self._keeper = keeper
        self._environ = environ
        self._clock = clock
        self._pace = pace
        self._log = log
        self._tell_changed = changed
        self._report = report
        self._owner: asyncio.Task[None] | None = None
        self._client: Client | None = None
        self._calls = Calls(name, config, clock, pace.progress, log)
        self._listed_anew = asyncio.Event()
        self._told_left_out: tuple[str, ...] = ()
        self._told_failure = False
        self._refused = False
        self._closing = False

    def start(self) -> None:
        """Begin with its life, if that has not happened yet."""
        if self._owner is None and self.config.enabled and not self._closing:
            self._owner = asyncio.create_task(self._own(), name=f"mcp {self.name}")

    async def call(self, offer: Offer, arguments: Mapping[str, Any], context: ToolContext) -> ToolOutcome:
        """Call a tool. It is sent once; if the server ends meanwhile, that is told and nothing is sent again.

        Args:
            offer: the tool as it was when the call was planned.
            arguments: JSON data.
            context: gets what the server says of its progress.

        Raises:
            ToolFailed: the server is not there, refused, or ended; or the tool has changed.
        """
        client = self._client
        if client is None:
            message = f"The MCP server {self.name} is not running. {self.detail}".rstrip()
            raise ToolFailed(message, hint="Do without it, or try again later.")
        if self.offers.digests.get(offer.name) != offer.digest:
            message = f"The MCP server {self.name} does not offer {offer.spec.name} in that form any more."
            raise ToolFailed(message, hint="Look at its present description.")

        return await self._calls.call(client, offer, dict(arguments), context)

    async def close(self) -> None:
        """End it: the connection, its process, and every process of that one's group."""
        self._closing = True
        owner, self._owner = self._owner, None
        # A connection in the middle of its own farewell may need to be told again.
        while owner is not None and not owner.done():
            owner.cancel()
            await asyncio.wait([owner], timeout=0.7)
        self._set("off" if not self.config.enabled else "idle", "")
        self.offers = Offers()

    # --- its life -----------------------------------------------------------------------------------------------------

    async def _own(self) -> None:
        try:
            await asyncio.to_thread(_load_sdk)
        except ImportError as error:
            self._log.info("MCP: %s", error)
            self._fail("The MCP client is not installed; install the extra `mcp`.")
            self._set("failed", self.detail)
            return

        failures = 0
        while not self._closing:
            began = self._clock.monotonic()
            reason = await self._one_life()
            if self.state == "denied" or self._closing:
                return

            if self._clock.monotonic() - began >= self._pace.healthy:
                failures, self._told_failure = 0, False
            failures += 1
            if failures >= self._pace.keep_tools:
                self._publish(Offers())
            self._fail(reason)
            await asyncio.sleep(self._pace.back_off[min(failures, len(self._pace.back_off)) - 1])

    async def _one_life(self) -> str:
        """Start it if the user allows that, and be with it until it ends; why it did, in words."""
        try:
            launch = await asyncio.to_thread(prepare, self.name, self.config, self._environ)
        except IndusagiError as error:
            return f"{error.message} {error.hint}".rstrip()

        if not await self._permission.covers(launch):
            self._publish(Offers())
            self._set("asking", "The user is asked.")
            if not await self._permission.ask(launch):
                self._set("denied", "The user did not allow it.")
                return self.detail

        self.definition = launch.digest
        self._set("starting", "")
        gone = asyncio.Event()
        if self.config.url:
            transport: Web | Pipes = Web(self.config, gone)
        else:
            transport = Pipes(
                self.name, launch, gone=gone, changed=self._listed_anew, keeper=self._keeper, log=self._log
            )
        tasks: list[asyncio.Task[None]] = []
        try:
            await self._connected(transport, gone, tasks)
            reason = "It ended."
        except TimeoutError:
            reason = f"It did not start within {self.config.timeout:g} s."
        except Exception as error:  # noqa: BLE001 - whatever a foreign server makes of its connection ends here
            self._log.debug("MCP server %s", self.name, exc_info=error)
            reason = f"It failed: {words(error, self.config)}."
        finally:
            self._client = None
            await end_tasks(tasks)
            await self._calls.end(0 if self._closing else LAST_ANSWERS)
        last = transport.last_words
        return f"{reason} ({last})" if last else reason

    async def _connected(self, transport: Any, gone: asyncio.Event, tasks: list[asyncio.Task[None]]) -> None:
        from mcp.client.client import Client
        from mcp_types import Implementation
        from mcp_types.version import MODERN_PROTOCOL_VERSIONS

        async with contextlib.AsyncExitStack() as stack:
            async with asyncio.timeout(self.config.timeout):
                client = await stack.enter_async_context(
                    Client(
                        transport,
                        message_handler=self._hear,
                        client_info=Implementation(name="indusagi-lsp", version=__version__),
                        cache=None,
                    )
                )
                listed = await self._list(client)
            self._client = client
            tasks.append(asyncio.create_task(self._follow(client, listed)))
            if client.protocol_version in MODERN_PROTOCOL_VERSIONS:
                tasks.append(asyncio.create_task(self._listen(client)))
            await gone.wait()

    # --- its tools ----------------------------------------------------------------------------------------------------

    async def _hear(self, message: mcp_types.ServerNotification | Exception) -> None:
        from mcp_types import ToolListChangedNotification

        if isinstance(message, ToolListChangedNotification):
            self._listed_anew.set()

    async def _listen(self, client: Client) -> None:
        """Since the protocol of 2026 a server tells of changes only to those who subscribed."""
        from mcp.client.subscriptions import ListenNotSupportedError, SubscriptionLost
        from mcp.shared.exceptions import MCPError

        tools = client.server_capabilities.tools
        while tools is not None and tools.list_changed:
            with contextlib.suppress(MCPError, SubscriptionLost, ListenNotSupportedError, TimeoutError):
                async with client.listen(tools_list_changed=True) as subscription:
                    async for _ in subscription:
                        self._listed_anew.set()
            await asyncio.sleep(self._pace.relisten)
            self._listed_anew.set()

    async def _list(self, client: Client) -> list[mcp_types.Tool]:
        """Every tool that the server has, as far as we take any."""
        from mcp_types import PaginatedRequestParams

        tools: list[mcp_types.Tool] = []
        if client.server_capabilities.tools is None:
            return tools
        cursor: str | None = None
        for _ in range(MAX_PAGES):
            page = await client.session.list_tools(params=PaginatedRequestParams(cursor=cursor))
            tools += page.tools
            cursor = page.next_cursor
            if cursor is None or len(tools) > MAX_TOOLS:
                break
        return tools

    async def _follow(self, client: Client, listed: list[mcp_types.Tool]) -> None:
        """Take the tools as they are, and as they become. A storm of changes costs a fetch now and then."""
        try:
            await self._take(read_offers(self.name, listed), first=True)
            pause, quiet_since = self._pace.relist, self._clock.monotonic()
            while True:
                await self._listed_anew.wait()
                if self._clock.monotonic() - quiet_since > self._pace.relist_max:
                    pause = self._pace.relist
                await asyncio.sleep(pause)
                self._listed_anew.clear()
                pause = min(2 * pause, self._pace.relist_max)
                async with asyncio.timeout(self.config.timeout):
                    listed = await self._list(client)
                await self._take(read_offers(self.name, listed), first=False)
                quiet_since = self._clock.monotonic()
        except Exception as error:  # noqa: BLE001 - its list cannot be read; what it has stays as it was
            if self._client is client:
                self._tell(
                    "warning", f"MCP server {self.name}: its tools cannot be read ({words(error, self.config)})."
                )

    async def _take(self, offers: Offers, *, first: bool) -> None:
        """Use what is allowed of a list, and ask about the rest; after a no, what is new is left alone."""
        if offers.left_out and offers.left_out != self._told_left_out:
            self._told_left_out = offers.left_out
            what = "; ".join(offers.left_out[:10])
            self._tell("warning", f"MCP server {self.name}: tools that cannot be used are left out: {what}.")
        self._publish(self._permission.allows(offers))
        if first:
            self._set("ready", "")
        if self._refused:
            return

        if await self._permission.accept(offers):
            self._publish(offers)
        else:
            self._refused = True
            self._tell("info", f"MCP server {self.name}: its changed tools are not used, as you said.")

    def _publish(self, offers: Offers) -> None:
        before, self.offers = self.offers, offers
        if before.tools != offers.tools:
            self._tell_changed()

    # --- what others see ----------------------------------------------------------------------------------------------

    def _set(self, state: State, detail: str) -> None:
        self.state, self.detail = state, detail
        if state == "starting":
            self.settled.clear()
        elif state != "idle":
            self.settled.set()

    def _fail(self, reason: str) -> None:
        """It is down; people are told of that once, until it was well for a while."""
        self._set("waiting", reason)
        if not self._told_failure:
            self._told_failure = True
            self._tell("warning", f"MCP server {self.name} is not running. {reason}")

    def _tell(self, level: Literal["info", "warning"], text: str) -> None:
        self._log.log(logging.WARNING if level == "warning" else logging.INFO, "%s", text)
        self._report(Notice(level, "mcp", text))


def _load_sdk() -> None:
    for module in _SDK:
        importlib.import_module(module)

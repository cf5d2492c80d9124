"""The calls that run on a server's connection: each in a task of its own, each answered or explained."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from indusagi_lsp.contract.clock import Clock
from indusagi_lsp.contract.errors import ToolFailed
from indusagi_lsp.contract.text import visible, visible_line
from indusagi_lsp.contract.tools import ToolContext, ToolOutcome
from indusagi_lsp.tools.mcp.config import McpConfig, safe_url
from indusagi_lsp.tools.mcp.content import result_text
from indusagi_lsp.tools.mcp.offers import Offer

if TYPE_CHECKING:
    from mcp.client.client import Client

MAX_ERROR = 4_000


class Calls:
    """The calls of one server.

    Args:
        name: the server's name.
        config: its definition.
        clock: the time.
        pace: seconds between two lines of progress of one call.
        log: where causes are looked for.
    """

    def __init__(self, name: str, config: McpConfig, clock: Clock, pace: float, log: logging.Logger) -> None:
        self._name = name
        self._config = config
        self._clock = clock
        self._pace = pace
        self._log = log
        self._running: set[asyncio.Task[Any]] = set()

    async def call(self, client: Client, offer: Offer, arguments: dict[str, Any], context: ToolContext) -> ToolOutcome:
        """Call a tool once, and wait for its answer.

        Args:
            client: the connection.
            offer: the tool.
            arguments: JSON data.
            context: gets what the server says of its progress.

        Raises:
            ToolFailed: the server refused, ended, took too long, or answered with nonsense.
        """
        # In a task of its own: a server that does not even take the word that a call is cancelled must not hold us up.
        task = asyncio.create_task(self._send(client, offer, arguments, context))
        self._running.add(task)
        task.add_done_callback(self._forget)
        try:
            await asyncio.wait([task])
        except asyncio.CancelledError:
            task.cancel()
            raise
        if task.cancelled():
            raise self._ended_meanwhile()
        error = task.exception()
        if error is not None:
            raise self._failure_of(error)
        return task.result()

    async def end(self, seconds: float) -> None:
        """Wait for the calls to learn that the connection has ended, then end them.

        Args:
            seconds: how long to wait.
        """
        if self._running and seconds:
            await asyncio.wait(self._running, timeout=seconds)
        await end_tasks(self._running)

    async def _send(self, client: Client, offer: Offer, arguments: dict[str, Any], context: ToolContext) -> ToolOutcome:
        """Not by the session's own `call_tool`: that checks a result against a schema that can take for ever."""
        from mcp_types import CallToolRequest, CallToolRequestParams, CallToolResult, InputRequiredResult
        from pydantic import TypeAdapter

        last = -self._pace

        async def show(progress: float, total: float | None, message: str | None) -> None:
            nonlocal last
            now = self._clock.monotonic()
            if now - last >= self._pace:
                last = now
                context.update(_progress_text(progress, total, message))

        result: CallToolResult | InputRequiredResult = await client.session.send_request(
            CallToolRequest(params=CallToolRequestParams(name=offer.name, arguments=arguments)),
            TypeAdapter(CallToolResult | InputRequiredResult),
            request_read_timeout_seconds=self._config.timeout,
            progress_callback=show,
        )
        if isinstance(result, InputRequiredResult):
            message = f"The MCP server {self._name} wants to ask the user something, which it cannot do here."
            raise ToolFailed(message)
        return ToolOutcome(await asyncio.to_thread(result_text, result), is_error=bool(result.is_error))

    def _forget(self, task: asyncio.Task[Any]) -> None:
        self._running.discard(task)
        if not task.cancelled():
            task.exception()  # looked at here, since whoever made the call may have left

    def _failure_of(self, error: BaseException) -> ToolFailed:
        from mcp.shared.exceptions import MCPError
        from mcp_types import CONNECTION_CLOSED, REQUEST_TIMEOUT

        if isinstance(error, ToolFailed):
            return error
        if not isinstance(error, MCPError):
            self._log.warning("MCP server %s: its answer cannot be used", self._name, exc_info=error)
            return ToolFailed(f"The MCP server {self._name} answered with something that is no result.")
        if error.code == CONNECTION_CLOSED:
            return self._ended_meanwhile(error.message)
        if error.code == REQUEST_TIMEOUT:
            return ToolFailed(f"The MCP server {self._name} did not answer within {self._config.timeout:g} s.")
        return ToolFailed(f"The MCP server {self._name} refused: {visible(error.message)[:MAX_ERROR]}")

    def _ended_meanwhile(self, why: str = "") -> ToolFailed:
        reason = f" ({visible_line(why)})" if why else ""
        message = f"The MCP server {self._name} ended during the call{reason}; whether that took effect is not known."
        return ToolFailed(message, hint="Find out before you try again.")


async def end_tasks(tasks: Iterable[asyncio.Task[Any]]) -> None:
    """Cancel tasks, as often as it takes, and wait for their ends.

    Args:
        tasks: any tasks; those that have ended do no harm.
    """
    waiting = set(tasks)
    while waiting:
        for task in waiting:
            task.cancel()
        _, waiting = await asyncio.wait(waiting, timeout=0.2)


def words(error: BaseException, config: McpConfig) -> str:
    """What went wrong, without wrappings, and without the secrets that an address may hold.

    Args:
        error: any exception.
        config: the server's definition.
    """
    while isinstance(error, BaseExceptionGroup) and error.exceptions:
        error = error.exceptions[0]
    text = str(error) or type(error).__name__
    if config.url:
        text = text.replace(config.url, safe_url(config.url))
    return visible_line(text).rstrip(".")


def _progress_text(done: float, total: float | None, message: str | None) -> str:
    part = f"{done:g} of {total:g}" if total else f"{done:g}"
    return f"{part}: {visible_line(message)}" if message else part

"""Tools whose changes go into the file history; they look like the tools that they wrap.

A planned call that says which files it writes has their old contents kept first. One that runs a program has the
workspace looked at before and after.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any

import msgspec

from indusagi_lsp.contract.errors import IndusagiError
from indusagi_lsp.contract.models import ToolSpec
from indusagi_lsp.contract.tools import Effect, PlannedCall, PlanningTool, Tool, ToolContext, ToolOutcome
from indusagi_lsp.filehistory.history import FileHistory
from indusagi_lsp.tools import Planning

logger = logging.getLogger(__name__)

CarryOut = Callable[[], Awaitable[ToolOutcome]]
GoesOn = Callable[[Mapping[str, Any]], bool]


def _ends(_: Mapping[str, Any]) -> bool:
    return False


class RecordedTool:
    """A tool that runs programs, and does not plan its calls.

    Args:
        tool: the tool.
        history: of the workspace.
        busy: whether commands of this workspace go on in the background.
        goes_on: whether a call with these arguments leaves a command in the background.
    """

    def __init__(self, tool: Tool, history: FileHistory, busy: Callable[[], bool], goes_on: GoesOn) -> None:
        self._tool = tool
        self._history = history
        self._busy = busy
        self._goes_on = goes_on

    @property
    def spec(self) -> ToolSpec:
        """The tool as the model sees it."""
        return self._tool.spec

    @property
    def effects(self) -> frozenset[Effect]:
        """What running it can do, at worst."""
        return self._tool.effects

    async def run(self, arguments: Mapping[str, Any], context: ToolContext) -> ToolOutcome:
        """Do it, and write down what files it changed."""
        return await self._watched(lambda: self._tool.run(arguments, context), arguments, context)

    async def _watched(self, run: CarryOut, arguments: Mapping[str, Any], context: ToolContext) -> ToolOutcome:
        if Effect.EXECUTE not in self.effects:
            return await run()
        await self._history.settle(still_running=self._busy())
        try:
            name = await self._history.command_starts(context.session_id, context.call_id)
        except IndusagiError as error:
            # A command may be what frees the disk again, so it is run all the same, and that is said.
            logger.warning("the files before %s could not be kept: %s", self.spec.name, error)
            context.update("[What this changes cannot be undone: the old contents could not be kept.]\n")
            return await run()
        try:
            return await run()
        finally:
            await self._ended(name, arguments, context)

    async def _ended(self, name: str, arguments: Mapping[str, Any], context: ToolContext) -> None:
        try:
            changed = await self._history.command_ended(name, background=self._goes_on(arguments))
        except IndusagiError as error:
            logger.warning("what %s changed could not be written: %s", self.spec.name, error)
            return
        if changed.unkept:
            context.update(f"[{changed.unkept} changed files cannot be undone: too large, or too many.]\n")


class RecordedPlanner(Planning, RecordedTool):
    """A tool that plans its calls."""

    def __init__(self, tool: PlanningTool, history: FileHistory, busy: Callable[[], bool], goes_on: GoesOn) -> None:
        super().__init__(tool, history, busy, goes_on)
        self._planner = tool

    async def plan(self, arguments: Mapping[str, Any], context: ToolContext) -> PlannedCall:
        """Find out what the call would do; when it is carried out, what it changes is written down."""
        planned = await self._planner.plan(arguments, context)

        async def carry_out() -> ToolOutcome:
            if planned.writes:
                return await self._kept(planned, context)
            return await self._watched(planned.carry_out, arguments, context)

        return msgspec.structs.replace(planned, carry_out=carry_out)

    async def _kept(self, planned: PlannedCall, context: ToolContext) -> ToolOutcome:
        change = await self._history.before(planned.writes, context.session_id, context.call_id)
        # A cancelled call may still be writing in its thread, so its end stays open; the files will tell.
        try:
            outcome = await planned.carry_out()
        except Exception:
            await self._after(change, done=False)
            raise
        await self._after(change, done=not outcome.is_error)
        return outcome

    async def _after(self, change: str, *, done: bool) -> None:
        try:
            await self._history.after(change, done=done)
        except IndusagiError as error:
            logger.warning("the end of a change by %s could not be written: %s", self.spec.name, error)


def recorded(
    tools: Iterable[Tool],
    history: FileHistory,
    busy: Callable[[], bool] = lambda: False,
    goes_on: GoesOn = _ends,
) -> tuple[Tool, ...]:
    """The tools, those that change files with their changes written down.

    Args:
        tools: of one workspace.
        history: of the workspace.
        busy: whether commands of this workspace go on in the background.
        goes_on: whether a call with these arguments leaves a command in the background.
    """
    return tuple(_recorded(tool, history, busy, goes_on) for tool in tools)


def _recorded(tool: Tool, history: FileHistory, busy: Callable[[], bool], goes_on: GoesOn) -> Tool:
    if tool.effects <= {Effect.READ}:
        return tool
    if isinstance(tool, PlanningTool):
        return RecordedPlanner(tool, history, busy, goes_on)
    return RecordedTool(tool, history, busy, goes_on)

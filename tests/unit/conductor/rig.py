"""An agent under test: a scripted model, recorded events, a clock that only moves when it is told to."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any

from indusagi_lsp.conductor import Agent, AgentConfig, AgentDeps, create_agent
from indusagi_lsp.contract.events import RunEvent
from indusagi_lsp.contract.models import ToolSpec
from indusagi_lsp.contract.tools import Effect, ToolContext, ToolOutcome


class FixedClock:
    """Time that moves by one millisecond at each look."""

    def __init__(self, start: int = 1_700_000_000_000) -> None:
        self._ticks = itertools.count(start)

    def now_ms(self) -> int:
        return next(self._ticks)

    def monotonic(self) -> float:
        return next(self._ticks) / 1000


class EchoTool:
    """A tool that hands back its `text`; what else it does is the test's."""

    def __init__(
        self, name: str = "echo", effects: frozenset[Effect] = frozenset({Effect.READ}), body: Any = None
    ) -> None:
        self.spec = ToolSpec(name, "Says it again.", {"type": "object", "properties": {"text": {"type": "string"}}})
        self.effects = effects
        self.runs: list[Mapping[str, Any]] = []
        self._body = body

    async def run(self, arguments: Mapping[str, Any], context: ToolContext) -> ToolOutcome:
        self.runs.append(arguments)
        if self._body is not None:
            return await self._body(arguments, context)
        return ToolOutcome(str(arguments.get("text", "")))


class Rig:
    """An agent and everything it does."""

    def __init__(
        self, model: Any, *, store: object = None, approver: Any = None, tracer: Any = None, **config: Any
    ) -> None:
        counter = itertools.count(1)
        deps: dict[str, Any] = {
            "invoke_model": model.invoke,
            "catalogue": model,
            "store": store,
            "clock": FixedClock(),
            "new_id": lambda: f"id{next(counter)}",
        }
        if approver is not None:
            deps["approver"] = approver
        if tracer is not None:
            deps["tracer"] = tracer
        self.model = model
        self.agent: Agent = create_agent(AgentConfig(model="scripted:test", **config), AgentDeps(**deps))
        self.events: list[RunEvent] = []
        self.agent.subscribe(self.events.append)

    @property
    def kinds(self) -> list[str]:
        return [event.kind for event in self.events]

    def of(self, kind: str) -> list[Any]:
        return [event for event in self.events if event.kind == kind]

"""Workflows under test: real stores, real agents over a scripted model, a clock that a test moves."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from indusagi_lsp.checkpoints import CheckpointManager
from indusagi_lsp.conductor import Agent
from indusagi_lsp.contract.approvals import ApprovalRequest, Decision
from indusagi_lsp.contract.models import ToolSpec
from indusagi_lsp.contract.tools import Effect, ToolContext, ToolOutcome
from indusagi_lsp.memory import FileMemoryStore, MemoryStore
from indusagi_lsp.workflows import (
    ExecutionView,
    ExecutorParts,
    Workflow,
    WorkflowExecutor,
    WorkflowProgress,
    read_definition,
)


class MovedClock:
    """Time that passes only when a test says so."""

    def __init__(self) -> None:
        # About now, since the stores under test go by the real time.
        self.seconds = time.time()

    def now_ms(self) -> int:
        return int(self.seconds * 1000)

    def monotonic(self) -> float:
        return self.seconds


class Say:
    """A tool that notes what it is told; it fails as often as a test wants."""

    def __init__(self, *, effects: frozenset[Effect] = frozenset({Effect.EXECUTE})) -> None:
        self.spec = ToolSpec("say", "Say something.", {"type": "object"})
        self.effects = effects
        self.said: list[Any] = []
        self.failures = 0
        self.seconds = 0.0

    async def run(self, arguments: Mapping[str, Any], context: ToolContext) -> ToolOutcome:
        context.update("saying")
        await asyncio.sleep(self.seconds)
        self.said.append(dict(arguments))
        if self.failures:
            self.failures -= 1
            return ToolOutcome("it failed", is_error=True)
        return ToolOutcome(f"said {arguments.get('text')}")


class Rig:
    """One user's executor; `again` is the same user after a restart."""

    def __init__(self, store: MemoryStore, agents: Any = None) -> None:
        self.store = store
        self.clock = MovedClock()
        self.slept: list[float] = []
        self.progress: list[WorkflowProgress] = []
        self.questions: list[ApprovalRequest] = []
        self.decision: Decision = "once"
        self.say = Say()
        self.tools: dict[str, Any] = {"say": self.say}
        self.agents = agents
        self.ids = 0
        self.manager = CheckpointManager(store)
        self.executor = self.again()

    def again(self) -> WorkflowExecutor:
        self.executor = WorkflowExecutor(
            self.manager,
            ExecutorParts(open_agent=self.open_agent, tools=lambda: self.tools, approver=self.ask, ask=self.ask),
            publish=self.progress.append,
            clock=self.clock,
            new_id=self.new_id,
            sleep=self.sleep,
            luck=lambda: 1.0,
        )
        return self.executor

    def new_id(self) -> str:
        self.ids += 1
        return f"id-{self.ids}"

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.clock.seconds += seconds
        await asyncio.sleep(0)

    async def ask(self, request: ApprovalRequest) -> Decision:
        self.questions.append(request)
        return self.decision

    async def open_agent(self, session: str | None, model: str | None, title: str) -> Agent:
        return await self.agents(session, model, title)

    async def resume(self, workflow: Workflow, execution_id: str, **more: Any) -> ExecutionView:
        checkpoint = self.manager.load_checkpoint(execution_id)
        assert checkpoint is not None
        return await self.executor.resume(workflow, checkpoint, **more)

    async def until(self, kind: str) -> None:
        """Wait until something of that kind was told."""
        for _ in range(500):
            if any(one.kind == kind for one in self.progress):
                return
            await asyncio.sleep(0.01)
        raise AssertionError(f"nothing of the kind {kind} was told")

    def kinds(self) -> list[tuple[str, str | None]]:
        return [(one.kind, one.step) for one in self.progress]


def file_rig(tmp_path: Path, agents: Any = None) -> Rig:
    return Rig(FileMemoryStore(tmp_path / "store"), agents)


def workflow(steps: dict[str, Any], *, functions: str | None = None, **top: Any) -> Workflow:
    """A workflow from plain data; `functions` is the text of its Python file."""
    import ast

    names = [node.name for node in ast.parse(functions or "").body if isinstance(node, ast.FunctionDef)]
    return read_definition(
        {"steps": steps, **top},
        name="flow",
        place="flow.py" if functions else "flow.toml",
        origin="user",
        source=functions.encode() if functions else None,
        functions=names,
    )


def tool(text: str = "hello", **more: Any) -> dict[str, Any]:
    return {"tool": "say", "input": {"text": text}, **more}

"""A server's tool in a run: asked about with its server, its name and its arguments, and done only after a yes."""

from __future__ import annotations

import json

from indusagi_lsp.conductor import AgentConfig, AgentDeps, create_agent
from indusagi_lsp.contract.approvals import ApprovalRequest, Verdict
from indusagi_lsp.contract.models import ModelCard
from support.scripted import Reply, ScriptedModel, call

from .conftest import Desk, plain, ready


async def test_a_call_in_a_run(desk: Desk) -> None:
    tools = await ready(desk.servers(plain=plain()))
    asked: list[ApprovalRequest] = []

    async def approve(request: ApprovalRequest) -> Verdict:
        asked.append(request)
        return Verdict("deny" if len(asked) == 1 else "once")

    echo = Reply(calls=(call("mcp__plain__echo", text="hello"),))
    model = ScriptedModel([echo, echo, "done"], card=ModelCard("scripted:test", "scripted", "test", window=200_000))
    agent = create_agent(
        AgentConfig(model="scripted:test", tools=tuple(tools.values())),
        AgentDeps(invoke_model=model, catalogue=model, approver=approve),
    )
    final = await agent.submit("say hello")

    assert final.phase == "settled"
    refused, done = (turn.tool_results[0] for turn in model.last.turns if turn.tool_results)
    assert refused.is_error
    assert "did not allow" in refused.output
    assert done.output == "hello"
    server, tool, arguments = asked[0].action.splitlines()
    assert server == "MCP server: plain"
    assert tool.startswith("tool: echo (form ")
    assert json.loads(arguments.removeprefix("arguments: ")) == {"text": "hello"}
    assert {"execute", "network"} <= set(asked[0].effects)

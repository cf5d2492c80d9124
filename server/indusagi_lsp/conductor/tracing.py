"""What the conductor tells a tracer, in the words of OpenTelemetry's conventions for generative AI."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from typing import Any, cast

from indusagi_lsp.contract.models import ModelDone, ModelInvoker, ModelPart, ModelRequest, ModelRetry, Usage
from indusagi_lsp.contract.tracing import Fact, Tracer, Untraced


def traced(invoke: ModelInvoker, tracer: Tracer) -> ModelInvoker:
    """An invoker with a span for each call; `invoke` itself where nothing is traced."""
    if isinstance(tracer, Untraced):
        return invoke

    def invoke_traced(request: ModelRequest, /) -> AsyncIterator[ModelPart]:
        return _invoke(invoke, tracer, request)

    return invoke_traced


async def _invoke(invoke: ModelInvoker, tracer: Tracer, request: ModelRequest) -> AsyncGenerator[ModelPart, None]:
    provider, _, name = request.model.partition(":")
    facts: dict[str, Fact] = {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": provider,
        "gen_ai.request.model": name,
        "indusagi.purpose": request.purpose,
        "indusagi.turns": len(request.turns),
    }
    retries = 0
    with tracer.leaf(f"chat {name}", facts) as span:
        async with aclosing(cast("Any", invoke(request))) as parts:
            async for part in parts:
                if isinstance(part, ModelRetry):
                    retries += 1
                elif isinstance(part, ModelDone):
                    # Noted before it is handed on: who has the end of an answer asks for nothing more.
                    span.note({"gen_ai.response.finish_reasons": part.stop, "indusagi.retries": retries})
                    span.note(usage_facts(part.usage))
                yield part


def run_facts(session_id: str, run_id: str, model: str) -> dict[str, Fact]:
    """What is known of a run when it begins."""
    return {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.agent.name": "indusagi",
        "gen_ai.conversation.id": session_id,
        "gen_ai.request.model": model,
        "indusagi.run.id": run_id,
    }


def tool_facts(name: str, call_id: str) -> dict[str, Fact]:
    """What is known of a tool call when it begins."""
    return {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": name,
        "gen_ai.tool.call.id": call_id,
    }


def usage_facts(usage: Usage | None) -> dict[str, Fact]:
    """Tokens, where they are known."""
    if usage is None:
        return {}
    return {"gen_ai.usage.input_tokens": usage.input, "gen_ai.usage.output_tokens": usage.output}

"""Spans say what took how long and how it ended, and never what anybody said."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from indusagi_lsp.contract.errors import ModelError, ToolFailed
from indusagi_lsp.contract.models import Usage
from indusagi_lsp.contract.tools import ToolContext, ToolOutcome
from indusagi_lsp.workspace.tracing import OtelTracer
from support.scripted import Reply, ScriptedModel, call, failure
from unit.conductor.rig import EchoTool, Rig

SAID = "marmalade"


class Tape:
    """A tracer whose spans are kept."""

    def __init__(self) -> None:
        self._exporter = InMemorySpanExporter()
        provider = TracerProvider(shutdown_on_exit=False)
        provider.add_span_processor(SimpleSpanProcessor(self._exporter))
        self.tracer = OtelTracer(provider)

    @property
    def spans(self) -> tuple[ReadableSpan, ...]:
        return self._exporter.get_finished_spans()

    def named(self, start: str) -> list[ReadableSpan]:
        return [span for span in self.spans if span.name.startswith(start)]


def facts(span: ReadableSpan) -> Mapping[str, Any]:
    return span.attributes or {}


async def refuse(arguments: Mapping[str, Any], context: ToolContext) -> ToolOutcome:
    raise ToolFailed(f"There is no {SAID}.")


async def test_a_run_has_its_model_calls_and_tool_calls_under_it() -> None:
    tape = Tape()
    model = ScriptedModel(
        [
            Reply(
                f"I look for {SAID}.",
                calls=[call("echo", text=SAID), call("spoon", text=SAID)],
                usage=Usage(10, 3),
            ),
            Reply(f"Here is {SAID}.", usage=Usage(20, 5)),
        ]
    )
    rig = Rig(model, tracer=tape.tracer, tools=(EchoTool(), EchoTool("spoon", body=refuse)))
    final = await rig.agent.submit(f"Where is {SAID}?", run_id="r1")
    assert final.phase == "settled"

    (run,) = tape.named("invoke_agent")
    assert facts(run)["indusagi.run.id"] == "r1"
    assert facts(run)["gen_ai.conversation.id"] == final.session_id
    assert (facts(run)["gen_ai.usage.input_tokens"], facts(run)["gen_ai.usage.output_tokens"]) == (30, 8)
    assert run.status.is_ok or run.status.is_unset

    children = [span for span in tape.spans if span is not run]
    assert sorted(span.name for span in children) == [
        "chat test",
        "chat test",
        "execute_tool echo",
        "execute_tool spoon",
    ]
    assert {span.parent.span_id for span in children if span.parent} == {run.context.span_id}
    assert all(span.parent for span in children)
    assert [facts(span)["gen_ai.response.finish_reasons"] for span in tape.named("chat")] == ["tool_calls", "stop"]
    (spoon,) = tape.named("execute_tool spoon")
    assert facts(spoon)["error.type"] == "tool_error"
    assert not spoon.status.is_ok
    assert SAID not in "".join(span.to_json() for span in tape.spans)


async def test_a_fault_is_told_by_its_kind_alone() -> None:
    tape = Tape()
    rig = Rig(ScriptedModel([Reply(error=failure(ModelError(f"The {SAID} is gone.")))]), tracer=tape.tracer)
    final = await rig.agent.submit(SAID)
    assert final.phase == "faulted"

    (run,), (chat,) = tape.named("invoke_agent"), tape.named("chat")
    assert facts(run)["error.type"] == facts(chat)["error.type"] == "model_failed"
    assert SAID not in run.to_json() + chat.to_json()


async def test_a_stopped_run_ends_its_spans() -> None:
    tape = Tape()
    model = ScriptedModel([Reply(SAID * 10, stall_after=1)])
    rig = Rig(model, tracer=tape.tracer)
    waiting = rig.agent.submit("hi")
    task = asyncio.ensure_future(waiting)
    await model.stalled.wait()
    await rig.agent.abort()
    await task
    assert facts(tape.named("invoke_agent")[0])["error.type"] == "aborted"
    assert facts(tape.named("chat")[0])["error.type"] == "CancelledError"


async def test_a_tool_that_a_model_invents_lends_no_name() -> None:
    tape = Tape()
    model = ScriptedModel([Reply(calls=[call(SAID, text="x")]), Reply("Sorry.")])
    await Rig(model, tracer=tape.tracer, tools=(EchoTool(),)).agent.submit("hi")
    assert [span.name for span in tape.named("execute_tool")] == ["execute_tool unknown"]
    assert SAID not in "".join(span.to_json() for span in tape.spans)


async def test_without_a_tracer_the_invoker_is_the_one_that_was_given() -> None:
    model = ScriptedModel(["ok"])
    rig = Rig(model)
    assert rig.agent._invoke == model.invoke

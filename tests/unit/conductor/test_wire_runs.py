"""Runs against a provider on this machine that misbehaves: nothing is done or sent twice, and what was said is kept."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from indusagi_lsp.conductor import Agent, AgentConfig, AgentDeps, create_agent
from indusagi_lsp.contract.approvals import ApprovalRequest, Decision
from indusagi_lsp.contract.events import RunEvent
from indusagi_lsp.contract.tools import Effect
from indusagi_lsp.contract.turns import unanswered_calls
from indusagi_lsp.sessions import SessionStore
from support.fake_providers import Answer, FakeProvider
from support.model_bench import Bench
from unit.conductor.rig import EchoTool

CALL = Answer(text=("I do it. ",), calls=(("c1", "act", ('{"text": ', '"now"}')),))
DONE = Answer(text=("It is ", "done."), usage=(200, 50, 7))
BUSY = Answer(status=529, body={"error": {"message": "Overloaded"}})


class WireRig:
    """An agent with a store, one tool that acts, and a provider over HTTP."""

    def __init__(self, tmp_path: Path, server: FakeProvider) -> None:
        async def allow(_: ApprovalRequest) -> Decision:
            return "once"

        self.bench = Bench(tmp_path / "cache")
        self.server = server
        self.models = self.bench.models(server, idle=2.0)
        self.store = SessionStore(tmp_path / "sessions")
        self.tool = EchoTool("act", frozenset({Effect.WRITE}))
        self.agent: Agent = create_agent(
            AgentConfig(model="fake:m", tools=(self.tool,)),
            AgentDeps(invoke_model=self.models.invoke, catalogue=self.models, store=self.store, approver=allow),
        )
        self.events: list[RunEvent] = []
        self.agent.subscribe(self.events.append)

    def of(self, kind: str) -> list[Any]:
        return [event for event in self.events if event.kind == kind]

    def sent(self, at: int) -> list[Mapping[str, Any]]:
        return [message for message in self.server.requests[at].json["messages"] if message["role"] != "system"]


@pytest.fixture
async def server() -> AsyncIterator[FakeProvider]:
    async with FakeProvider("openai") as server:
        yield server


@pytest.fixture
async def rig(tmp_path: Path, server: FakeProvider) -> AsyncIterator[WireRig]:
    rig = WireRig(tmp_path, server)
    yield rig
    await rig.agent.close()
    await rig.store.close()
    await rig.models.close()


@pytest.mark.parametrize(
    "broken",
    [
        Answer(text=("half ", "an answer ") * 9, cut_after=1_200),
        Answer(text=("half ", "an answer ") * 9, stall_after=1_200),
        Answer(text=("half ",), error=("server_error", "broken")),
        Answer(text=("half ",), stop=None, framing="close"),
    ],
    ids=["cut", "silence", "error after 200", "no end"],
)
async def test_what_was_shown_is_kept_and_nothing_is_sent_or_done_again(rig: WireRig, broken: Answer) -> None:
    rig.server.answers = [CALL, broken, DONE]
    final = await rig.agent.submit("go")

    assert final.error is not None
    assert final.error.kind == "model_failed"
    assert len(rig.server.requests) == 2
    assert len(rig.tool.runs) == 1
    assert [turn.role for turn in final.messages] == ["user", "assistant", "tool", "assistant"]
    assert final.messages[-1].text.startswith("half")
    assert final.messages[-1].extra == {"interrupted": True}
    assert [event.kind for event in rig.events if event.kind in ("settled", "faulted")] == ["faulted"]
    assert not unanswered_calls(final.messages)

    again = await rig.agent.submit("go on")
    assert again.phase == "settled"
    assert len(rig.server.requests) == 3
    assert len(rig.tool.runs) == 1
    assert [message["role"] for message in rig.sent(2)] == ["user", "assistant", "tool", "assistant", "user"]


@pytest.mark.parametrize("cut", range(0, 1_000, 90))
async def test_a_call_that_is_cut_anywhere_is_done_once_or_not_at_all(rig: WireRig, cut: int) -> None:
    rig.server.answers = [Answer(**{**vars(CALL), "cut_after": cut})]
    final = await rig.agent.submit("go")
    shown = any(event.kind in ("text_delta", "tool_started") for event in rig.events)

    assert final.phase == "faulted"
    assert rig.tool.runs == []
    assert (len(rig.server.requests) == 1) == shown, "what was shown is not asked for again; else it is"
    started, finished = ([event.id for event in rig.of(kind)] for kind in ("tool_started", "tool_finished"))
    assert sorted(started) == sorted(finished)
    assert not unanswered_calls(final.messages)


async def test_a_busy_provider_is_asked_again_in_the_middle_of_a_run_and_its_tools_run_once(rig: WireRig) -> None:
    rig.server.answers = [CALL, BUSY, BUSY, DONE]
    final = await rig.agent.submit("go")

    assert final.phase == "settled"
    assert final.messages[-1].text == "It is done."
    assert [event.attempt for event in rig.of("retry")] == [1, 2]
    assert len(rig.bench.slept) == 2
    assert len(rig.tool.runs) == 1
    assert rig.sent(1) == rig.sent(2) == rig.sent(3)


async def test_usage_is_counted_once_per_call_for_the_run_the_session_the_provider_and_the_purpose(
    rig: WireRig,
) -> None:
    rig.server.answers = [CALL, BUSY, DONE, DONE]
    first = await rig.agent.submit("go")
    second = await rig.agent.submit("more")

    assert (first.usage.input, first.usage.output) == (320, 37)
    assert (second.usage.input, second.usage.output) == (200, 7)
    ((key, spent),) = rig.agent.costs.by_provider_and_purpose.items()
    assert (key, spent.calls) == (("fake", "main"), 3)
    assert spent.usage == first.usage + second.usage
    assert rig.agent.session is not None
    kept = rig.agent.session.usages
    assert sum(usage.input for usage in kept.values()) == 520
    assert len(kept) == 3


async def test_a_stop_in_the_middle_of_the_stream_ends_the_call_at_the_provider(rig: WireRig) -> None:
    rig.server.answers = [Answer(text=("some ",) * 50, pace=0.01), DONE]
    begun = asyncio.Event()
    rig.agent.subscribe(lambda event: begun.set() if event.kind == "text_delta" else None)
    submitted = asyncio.create_task(rig.agent.submit("go"))
    await begun.wait()
    await rig.agent.abort()
    final = await submitted

    assert final.error is not None
    assert final.error.kind == "aborted"
    assert final.messages[-1].text.startswith("some")
    for _ in range(1_000):
        if rig.server.closed_by_client:
            break
        await asyncio.sleep(0.01)
    assert rig.server.closed_by_client == 1
    assert (await rig.agent.submit("go on")).phase == "settled"

"""The three wire formats, against loopback servers."""

from __future__ import annotations

import asyncio
import base64
import os
import time

import pytest

from indusagi_lsp.contract.errors import ModelError
from indusagi_lsp.contract.models import (
    ModelDone,
    TextDelta,
    ThinkingDelta,
    ToolCallDelta,
    ToolSpec,
    Usage,
)
from indusagi_lsp.contract.turns import (
    ImageBlock,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
    ToolResultBlock,
    Turn,
    assistant,
    user,
)
from indusagi_lsp.models import RetryPolicy
from support.fake_providers import Answer, FakeProvider
from support.model_bench import KEY, ask, collect

MODELS = {"openai": "fake:m", "anthropic": "anthropic:claude-sonnet-5-5", "google": "google:gemini-2.5-flash"}
PROVIDERS = {"openai": "fake", "anthropic": "anthropic", "google": "google"}
WIRES = list(MODELS)
FULL = Answer(
    text=("Grüß ", "dich, 🌍", "!"),
    thinking=("Let me ", "think…"),
    calls=(("c1", "read_file", ('{"pa', 'th":"ä.py"}')), ("c2", "list_files", ("{}",))),
)
READ = ToolSpec("read_file", "Reads a file.", {"type": "object", "properties": {"path": {"type": "string"}}})
ONCE = RetryPolicy(attempts=1)
PNG = base64.b64encode(b"\x89PNG\r\n\x1a\n0000").decode()


@pytest.mark.parametrize("wire", WIRES)
async def test_text_thinking_calls_and_usage_are_streamed(bench, wire):
    async with FakeProvider(wire, FULL) as server:
        parts = await collect(bench.models(server).invoke(ask(MODELS[wire], tools=(READ,))))

    assert "".join(part.text for part in parts if isinstance(part, TextDelta)) == "Grüß dich, 🌍!"
    assert "".join(part.text for part in parts if isinstance(part, ThinkingDelta)) == "Let me think…"
    fragments = [part for part in parts if isinstance(part, ToolCallDelta)]
    assert {(part.index, part.id, part.name) for part in fragments} == {(0, "c1", "read_file"), (1, "c2", "list_files")}
    done = parts[-1]
    assert isinstance(done, ModelDone)
    assert done.stop == "tool_calls"
    assert done.turn.text == "Grüß dich, 🌍!"
    assert [block.text for block in done.turn.blocks if isinstance(block, ThinkingBlock)] == ["Let me think…"]
    assert done.turn.tool_calls == (
        ToolCallBlock("c1", "read_file", {"path": "ä.py"}),
        ToolCallBlock("c2", "list_files", {}),
    )
    assert (done.usage.input, done.usage.output, done.usage.cache_read) == (120, 30, 20)


@pytest.mark.parametrize(
    ("wire", "cost"),
    [
        # 100 fresh, 20 cached and 30 answered tokens at 2, 0.10 and 10 dollars a million; and at 0.30, 0.03, 2.50.
        ("anthropic", (100 * 2 + 20 * 0.1 + 30 * 10) / 1e6),
        ("google", (100 * 0.3 + 20 * 0.03 + 30 * 2.5) / 1e6),
        ("openai", None),  # a provider of the user's own: the price is unknown, not 0
    ],
)
async def test_the_cost_is_known_or_unknown_but_never_zero(bench, wire, cost):
    async with FakeProvider(wire, Answer(text=("hi",))) as server:
        parts = await collect(bench.models(server).invoke(ask(MODELS[wire])))

    assert parts[-1].usage.cost == (None if cost is None else pytest.approx(cost))


async def test_a_server_that_reports_no_usage_has_none(bench):
    async with FakeProvider("openai", Answer(text=("hi",), usage=None)) as server:
        parts = await collect(bench.models(server).invoke(ask()))

    assert parts[-1] == ModelDone(Turn("assistant", (TextBlock("hi"),)), "stop", None)


@pytest.mark.parametrize("wire", WIRES)
async def test_the_history_is_sent_with_calls_results_errors_and_images(bench, wire):
    turns = (
        user("read it"),
        Turn("assistant", (TextBlock("Sure."), ToolCallBlock("c1", "read_file", {"path": "a"}))),
        Turn("tool", (ToolResultBlock("c1", "no such file", is_error=True),)),
        Turn("assistant", ()),
        Turn("user", (TextBlock("and this?"), ImageBlock("image/png", PNG))),
        user("lone \ud83c surrogate"),
    )
    async with FakeProvider(wire) as server:
        models = bench.models(server, images=True)
        await collect(models.invoke(ask(MODELS[wire], turns=turns, system="Be good.", tools=(READ,))))
    sent = server.requests[0].json
    text = repr(sent)

    for expected in ("Be good.", "Sure.", "read_file", "no such file", "and this?", "lone \ufffd surrogate", PNG):
        assert expected in text
    roles = [message["role"] for message in sent["contents" if wire == "google" else "messages"]]
    assert (
        roles
        == {
            "openai": ["system", "user", "assistant", "tool", "user"],
            "anthropic": ["user", "assistant", "user"],
            "google": ["user", "model", "user", "user"],
        }[wire]
    )
    if wire == "anthropic":
        result = sent["messages"][2]["content"][0]
        assert (result["type"], result["tool_use_id"], result["is_error"]) == ("tool_result", "c1", True)
        assert sent["max_tokens"] == 16_384


async def test_thinking_is_sent_back_with_its_signature_and_only_to_its_maker(bench):
    async with FakeProvider("anthropic", FULL, Answer(text=("done",))) as server:
        models = bench.models(server)
        first = (await collect(models.invoke(ask(MODELS["anthropic"], tools=(READ,)))))[-1].turn
        results = Turn("tool", (ToolResultBlock("c1", "x"), ToolResultBlock("c2", "y")))
        turns = (user("hi"), first, results)
        await collect(models.invoke(ask(MODELS["anthropic"], turns=turns, tools=(READ,), thinking=True)))
        blocks = server.requests[1].json["messages"][1]["content"]
        assert blocks[0] == {"type": "thinking", "thinking": "Let me think…", "signature": "c2lnbmVk"}
        assert [block["type"] for block in blocks] == ["thinking", "text", "tool_use", "tool_use"]
        assert "thinking" in server.requests[1].json

    async with FakeProvider("openai") as other:
        await collect(bench.models(other).invoke(ask(turns=turns, tools=(READ,))))
    assert "Let me think" not in repr(other.requests[0].json)


async def test_reasoning_of_a_compatible_server_goes_back_to_it(bench):
    async with FakeProvider("openai", Answer(text=("a",), thinking=("why",))) as server:
        models = bench.models(server)
        turn = (await collect(models.invoke(ask())))[-1].turn
        await collect(models.invoke(ask(turns=(user("hi"), turn, user("more")))))

    assert server.requests[1].json["messages"][1]["reasoning_content"] == "why"


async def test_arguments_that_are_no_object_come_as_they_are(bench):
    calls = (("c1", "f", ('{"a": ',)), ("c2", "f", ("[1]",)), ("c3", "f", ()))
    async with FakeProvider("openai", Answer(calls=calls)) as server:
        models = bench.models(server)
        done = (await collect(models.invoke(ask())))[-1]
        assert [call.input for call in done.turn.tool_calls] == ['{"a": ', "[1]", {}]

        results = tuple(ToolResultBlock(call.id, "no", is_error=True) for call in done.turn.tool_calls)
        await collect(models.invoke(ask(turns=(user("hi"), done.turn, Turn("tool", results)))))
    assert server.requests[1].json["messages"][1]["role"] == "assistant"


async def test_a_model_without_tools_is_told_of_them_in_text(bench):
    turns = (
        user("read"),
        Turn("assistant", (ToolCallBlock("c1", "read_file", {"path": "a"}),)),
        Turn("tool", (ToolResultBlock("c1", "the text"),)),
    )
    async with FakeProvider("openai") as server:
        models = bench.models(server, tools=False)
        await collect(models.invoke(ask(turns=turns, tools=(READ,))))
    sent = server.requests[0].json

    assert "tools" not in sent
    assert [message["role"] for message in sent["messages"]] == ["user", "assistant", "user"]
    assert "the text" in sent["messages"][2]["content"]


async def test_a_system_turn_joins_the_system_text_and_an_unseen_image_is_told(bench):
    turns = (Turn("system", (TextBlock("Summary."),)), Turn("user", (TextBlock("look"), ImageBlock("image/png", PNG))))
    async with FakeProvider("openai") as server:
        await collect(bench.models(server).invoke(ask(turns=turns, system="Be good.")))

    system, asked = server.requests[0].json["messages"]
    assert system == {"role": "system", "content": "Be good.\n\nSummary."}
    assert asked["content"] == "look\n\n[an image of type image/png, which this model does not see]"


@pytest.mark.parametrize(("stop", "expected"), [("length", "length"), ("stop", "stop"), ("content_filter", "filtered")])
async def test_the_stop_reason_is_told(bench, stop, expected):
    async with FakeProvider("openai", Answer(text=("a",), stop=stop)) as server:
        assert (await collect(bench.models(server).invoke(ask())))[-1].stop == expected


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize("size", [1, 7, 100])
async def test_the_answer_is_the_same_however_it_is_split(bench, wire, size):
    async with FakeProvider(wire, FULL, Answer(**{**vars(FULL), "split": size})) as server:
        models = bench.models(server)
        whole = await collect(models.invoke(ask(MODELS[wire], tools=(READ,))))
        split = await collect(models.invoke(ask(MODELS[wire], tools=(READ,))))

    assert split == whole


@pytest.mark.parametrize("framing", ["chunked", "close"])
@pytest.mark.parametrize("wire", WIRES)
async def test_a_stream_cut_anywhere_ends_in_words_or_is_whole(bench, wire, framing):
    async with FakeProvider(wire, FULL) as server:
        body = b"".join(server.encode(FULL))
        step = 1 if os.environ.get("INDUSAGI_LONG") else 61
        models = bench.models(server, retry=ONCE)
        whole = await collect(models.invoke(ask(MODELS[wire], tools=(READ,))))
        text = "".join(part.text for part in whole if isinstance(part, TextDelta))
        outcomes = set()
        for cut in range(0, len(body), step):
            server.answers = [Answer(**{**vars(FULL), "cut_after": cut, "framing": framing})]
            bench.clock.seconds += 1_000  # each cut meets a closed circuit
            parts = []
            try:
                await collect(models.invoke(ask(MODELS[wire], tools=(READ,))), parts)
                assert parts[-1].turn == whole[-1].turn
                outcomes.add("whole")
            except ModelError as error:
                outcomes.add("error" if error.hint and "Traceback" not in error.message else "bad error")
                assert not any(isinstance(part, ModelDone) for part in parts)
            assert text.startswith("".join(part.text for part in parts if isinstance(part, TextDelta)))
    assert "error" in outcomes
    assert "bad error" not in outcomes


async def test_closing_the_iterator_ends_the_call_at_once(bench):
    answer = Answer(text=[f"word {number} " for number in range(500)], pace=0.005)
    async with FakeProvider("openai", answer) as server:
        stream = bench.models(server).invoke(ask())
        async for part in stream:
            if isinstance(part, TextDelta):
                break
        started = time.perf_counter()
        await stream.aclose()
        assert time.perf_counter() - started < 0.1

        for _ in range(100):
            if server.closed_by_client:
                break
            await asyncio.sleep(0.01)
        assert server.closed_by_client == 1


async def test_cancelling_the_task_ends_the_call(bench):
    async with FakeProvider("anthropic", Answer(text=("a", "b"), stall_after=900)) as server:
        parts = []
        task = asyncio.create_task(collect(bench.models(server).invoke(ask(MODELS["anthropic"])), parts))
        await asyncio.sleep(0.3)
        assert parts
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        for _ in range(100):
            if server.closed_by_client:
                break
            await asyncio.sleep(0.01)
        assert server.closed_by_client == 1


async def test_the_key_goes_into_the_header_and_nowhere_else(bench):
    async with FakeProvider("openai") as server:
        await collect(bench.models(server).invoke(ask()))

    seen = server.requests[0]
    assert seen.headers["authorization"] == f"Bearer {KEY}"
    assert KEY not in seen.path + repr(seen.json)
    assert seen.headers["user-agent"].startswith("indusagi-lsp/")


async def test_assistant_text_alone_and_limits_are_sent(bench):
    async with FakeProvider("openai") as server:
        turns = (user("a"), assistant("b"), user("c"))
        await collect(bench.models(server).invoke(ask(turns=turns, max_output_tokens=77)))

    sent = server.requests[0].json
    assert [message["content"] for message in sent["messages"]] == ["a", "b", "c"]
    assert 77 in (sent.get("max_tokens"), sent.get("max_completion_tokens"))


def test_usage_adds_up_and_keeps_unknown_costs_unknown():
    assert (Usage(1, 2) + Usage(3, 4)).cost is None

from __future__ import annotations

import asyncio

import pytest

from indusagi_lsp.contract.errors import ContextOverflow, ModelError
from indusagi_lsp.contract.models import ModelDone, ModelRequest, ModelRetry, TextDelta, ToolCallDelta
from indusagi_lsp.contract.turns import TextBlock, ThinkingBlock, ToolCallBlock, user
from indusagi_lsp.models.scripted import Player, play, read_script
from support.scripted import Reply, ScriptedModel, call, failure


def ask(text: str = "hi", **fields) -> ModelRequest:
    return ModelRequest("scripted:test", (user(text),), **fields)


async def everything(stream):
    return [part async for part in stream]


async def test_replies_come_in_order_and_requests_are_kept():
    model = ScriptedModel(["one", [call("read_file", path="a")], lambda request: f"you said {request.turns[-1].text}"])

    first = await everything(model(ask()))
    second = await everything(model(ask()))
    third = await everything(model(ask("ping")))

    assert first[-1].turn.text == "one"
    assert first[-1].stop == "stop"
    assert second[-1].turn.blocks == (ToolCallBlock("call-2-0", "read_file", {"path": "a"}),)
    assert second[-1].stop == "tool_calls"
    assert third[-1].turn.text == "you said ping"
    assert [request.turns[-1].text for request in model.requests] == ["hi", "hi", "ping"]
    assert (model.finished, model.cancelled, model.streaming, model.left) == (3, 0, 0, 0)
    with pytest.raises(ModelError, match="no reply left"):
        await everything(model(ask()))


async def test_a_reply_streams_thinking_text_and_call_fragments():
    model = ScriptedModel([Reply("abcdef", thinking="hm", signature="s", calls=(call("f", x="1234"),), chunk=4)])

    parts = await everything(model(ask()))

    assert "".join(part.text for part in parts if isinstance(part, TextDelta)) == "abcdef"
    assert "".join(part.arguments for part in parts if isinstance(part, ToolCallDelta)) == '{"x":"1234"}'
    assert parts[-1].turn.blocks == (
        ThinkingBlock("hm", "s"),
        TextBlock("abcdef"),
        ToolCallBlock("call-1-0", "f", {"x": "1234"}),
    )


async def test_a_reply_can_fail_after_some_deltas_and_announce_retries():
    model = ScriptedModel(
        [
            Reply("abcdef", chunk=2, error=failure(ContextOverflow("too long", status=400)), fail_after=2),
            Reply("ok", retries=((0.5, "overloaded"),)),
            ModelError("plain"),
        ]
    )
    seen = []

    with pytest.raises(ContextOverflow) as caught:
        async for part in model(ask()):
            seen.append(part)  # noqa: PERF401 (what came before the error must be kept)

    assert (seen, caught.value.status) == ([TextDelta("ab"), TextDelta("cd")], 400)
    assert (await everything(model(ask())))[0] == ModelRetry(1, 0.5, "overloaded")
    with pytest.raises(ModelError, match="plain"):
        await everything(model(ask()))


async def test_a_stalled_reply_goes_on_when_released_and_counts_as_cancelled_when_closed():
    model = ScriptedModel([Reply("abcd", chunk=2, stall_after=1), Reply("abcd", chunk=2, stall_after=1)])

    task = asyncio.create_task(everything(model(ask())))
    await model.stalled.wait()
    model.release.set()
    assert isinstance((await task)[-1], ModelDone)

    model.release.clear()
    task = asyncio.create_task(everything(model(ask())))
    await model.stalled.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert (model.cancelled, model.streaming) == (1, 0)


async def test_replies_are_matched_by_text_and_purpose():
    model = ScriptedModel([Reply("sums", purpose="summarizer", repeat=True), "plain", Reply("files", match="(?i)LIST")])

    assert (await everything(model(ask("please list"))))[-1].turn.text == "files"
    assert (await everything(model(ask(purpose="summarizer"))))[-1].turn.text == "sums"
    assert (await everything(model(ask("please list"))))[-1].turn.text == "plain"
    assert (await everything(model(ask(purpose="summarizer"))))[-1].turn.text == "sums"


async def test_a_script_file_is_read_and_played(tmp_path):
    path = tmp_path / "script.json"
    path.write_text(
        '{"replies": [{"text": "Hi.", "failAfter": 3}, '
        '{"match": "x", "calls": [{"name": "f", "input": {"a": 1}}]}], "loop": true}'
    )

    script = read_script(path)
    player = Player(script.replies, loop=script.loop)

    assert (await everything(play(player.next(ask("x")), ask("x"))))[-1].turn.tool_calls[0].input == {"a": 1}
    assert (await everything(play(player.next(ask()), ask())))[-1].turn.text == "Hi."
    assert (await everything(play(player.next(ask()), ask())))[-1].turn.text == "Hi."


@pytest.mark.parametrize("text", ["", "[]", '{"replies": [{"txt": 1}]}', '{"replies": [{"match": "("}]}', "\xff"])
def test_a_bad_script_says_what_is_wrong(tmp_path, text):
    path = tmp_path / "script.json"
    path.write_text(text, encoding="latin-1")

    with pytest.raises(ModelError, match=r"script|pattern"):
        read_script(path)


def test_a_missing_script_says_which(tmp_path):
    with pytest.raises(ModelError, match="cannot be read"):
        read_script(tmp_path / "none.json")

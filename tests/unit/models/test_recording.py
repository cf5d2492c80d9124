"""Recordings: what the models said can be had again, whatever it was, and a run that differs is told so."""

from __future__ import annotations

import asyncio
import json
import os
import stat
from contextlib import aclosing
from pathlib import Path

import pytest

from indusagi_lsp.contract.errors import ContextOverflow, ModelError
from indusagi_lsp.contract.models import ModelDone, ModelNote, ModelRequest, TextDelta, Usage
from indusagi_lsp.contract.turns import ImageBlock, TextBlock, ToolCallBlock, ToolResultBlock, Turn, assistant, user
from indusagi_lsp.models.recording import Recorder, read_recording
from indusagi_lsp.models.replay import Replay
from support.model_bench import collect
from support.scripted import Reply, ScriptedModel, call, failure
from unit.conductor.rig import EchoTool, Rig


def ask(*texts: str, purpose: str = "main") -> ModelRequest:
    turns = tuple((assistant if at % 2 else user)(text) for at, text in enumerate(texts))
    return ModelRequest("scripted:test", turns, purpose=purpose)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "run.jsonl"


def recorder(path: Path, *replies) -> Recorder:
    return Recorder(path).follow(ScriptedModel(replies))


def replay(path: Path) -> Replay:
    return Replay(read_recording(path), path)


async def test_every_kind_of_part_and_of_end_comes_back_as_it_was(path: Path) -> None:
    replies = [
        Reply("Hello there.", thinking="hm", signature="s", calls=(call("echo", text="x", deep=[1, {"a": None}]),)),
        Reply("half", error=failure("Overloaded", status=529, retryable=True, retry_after=2.5), retries=((1.5, "no"),)),
        Reply(error=failure(ContextOverflow("too long", hint="condense", status=400))),
        Reply("with usage", usage=Usage(10, 3, 2, 1, 0.25), stop="length"),
        Reply("lone \ud800 surrogate"),
    ]
    model = recorder(path, *replies)
    seen = []
    for number in range(len(replies)):
        parts, error = [], None
        try:
            await collect(model.invoke(ask(str(number))), parts)
        except ModelError as caught:
            error = caught
        seen.append((parts, error))
    await model.close()

    again = replay(path)
    for number, (parts, error) in enumerate(seen):
        replayed: list = []
        if error is None:
            await collect(again.invoke(ask(str(number))), replayed)
        else:
            with pytest.raises(type(error)) as caught:
                await collect(again.invoke(ask(str(number))), replayed)
            assert vars(caught.value) == vars(error)
        assert replayed == parts
    assert again.card(again.default()) == model.card("any")
    assert [listed.card for listed in await again.list()] == [model.card("any")]


async def test_what_the_reader_left_and_what_a_kill_tore_ends_there_in_words(path: Path) -> None:
    model = recorder(path, Reply("a long answer that nobody reads to its end", chunk=2), "never written whole")
    stream = model.invoke(ask("one"))
    async with aclosing(stream):
        await anext(stream)
    await collect(model.invoke(ask("two")))
    await model.close()
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:-1]) + lines[-1][:20])

    again = replay(path)
    for prompt, begins in (("one", "a "), ("two", "never written ")):
        parts: list = []
        with pytest.raises(ModelError, match="was stopped at this point"):
            await collect(again.invoke(ask(prompt)), parts)
        assert "".join(part.text for part in parts if isinstance(part, TextDelta)).startswith(begins)


async def test_conversations_that_went_on_together_find_their_own_answers(path: Path) -> None:
    model = recorder(path, "a1", "b1", "b2", "a2", Reply("sum", purpose="summarizer"))
    asked = [ask("a"), ask("b"), ask("b", "b1", "more"), ask("a", "a1", "more"), ask("a", purpose="summarizer")]
    answers = [(await collect(model.invoke(request)))[-1].turn.text for request in asked]
    await model.close()

    again = replay(path)
    for at in (4, 3, 1, 0, 2):
        parts = await collect(again.invoke(asked[at]))
        assert parts[-1].turn.text == answers[at]
        assert not any(isinstance(part, ModelNote) for part in parts)
    with pytest.raises(ModelError, match="no answer left"):
        await collect(again.invoke(asked[0]))


async def test_a_run_that_differs_is_answered_in_order_and_told_where(path: Path) -> None:
    model = recorder(path, "one", "two", "other")
    await collect(model.invoke(ask("a")))
    await collect(model.invoke(ask("a", "one", "as it was")))
    await collect(model.invoke(ask("b")))
    await model.close()

    again = replay(path)
    assert [part.turn.text for part in await collect(again.invoke(ask("a"))) if isinstance(part, ModelDone)] == ["one"]
    note, *parts = await collect(again.invoke(ask("a", "one", "not as it was")))
    assert note.code == "replay_diverged"
    assert "message 3 of 3" in note.text
    assert parts[-1].turn.text == "two"


async def test_ids_and_thoughts_that_differ_are_no_difference(path: Path) -> None:
    def request(call_id: str, signature: str) -> ModelRequest:
        turns = (
            Turn("user", (TextBlock("look"), ImageBlock("image/png", "AAAA"))),
            Turn("assistant", (ToolCallBlock(call_id, "echo", {"a": 1}),), {"made": signature}),
            Turn("tool", (ToolResultBlock(call_id, "seen"),)),
        )
        return ModelRequest("scripted:test", turns)

    model = recorder(path, "fine")
    await collect(model.invoke(request("c1", "x")))
    await model.close()
    parts = await collect(replay(path).invoke(request("c2", "y")))
    assert [part for part in parts if isinstance(part, ModelNote)] == []


async def test_a_run_with_tools_is_the_same_again(path: Path) -> None:
    def rig(model) -> Rig:
        return Rig(model, tools=(EchoTool(),))

    replies = [Reply("Looking.", calls=(call("echo", text="x"),)), Reply(calls=(call("nope"),)), "Found x.", "Bye."]
    recorded = Recorder(path)
    first = rig(recorded.follow(ScriptedModel(replies)))
    finals = [await first.agent.submit("look"), await first.agent.submit("thanks")]
    await recorded.close()
    second = rig(replay(path))
    again = [await second.agent.submit("look"), await second.agent.submit("thanks")]

    assert again == finals
    assert second.events == first.events
    with pytest.raises(FileExistsError):
        Recorder(path)


async def test_the_file_is_the_users_alone_and_holds_no_more_than_it_says(path: Path) -> None:
    model = recorder(path, "fine")
    secret = ModelRequest("scripted:test", (user("hi"),), system="the rules of this repository")
    await collect(model.invoke(secret))
    await model.close()

    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    text = path.read_text("utf-8")
    assert "the rules" not in text
    head, begun, *parts = map(json.loads, text.splitlines())
    assert head["recording"] == 1
    assert (begun["prompt"], begun["purpose"], len(begun["asked"])) == ("hi", "main", 1)
    assert all(part["call"] == 1 and part["at"] >= 0 for part in parts)


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs a disk that is always full")
async def test_a_disk_that_refuses_ends_the_recording_and_not_the_run(
    path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    model = recorder(path, "the disk is full", "goes on")
    full = os.open("/dev/full", os.O_WRONLY)
    os.dup2(full, model._lines._file)
    os.close(full)
    await collect(model.invoke(ask("a")))
    assert (await collect(model.invoke(ask("b"))))[-1].turn.text == "goes on"
    await model.close()
    assert "the recording ends here" in caplog.text


@pytest.mark.parametrize(
    ("content", "what"),
    [
        (None, "cannot be read"),
        (b"", "is no recording"),
        (b"not json\n", "is no recording"),
        (b'{"recording": 99}\n', "is no recording"),
        (b'["recording"]\n', "is no recording"),
        (b'{"recording": 1}\n', "holds no call"),
        (b'{"recording": 1}\n{"call": 1, "text": "x"}\n', "is no recording"),
        (b'{"recording": 1}\n{"call": 1, "model": 7, "purpose": "main", "asked": []}\n', "is no recording"),
    ],
)
def test_what_is_no_recording_is_told_in_words(path: Path, content: bytes | None, what: str) -> None:
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ModelError, match=what) as caught:
        read_recording(path)
    assert "--record" in caught.value.hint or "Record" in caught.value.hint


async def test_a_stopped_replay_stops_at_once(path: Path) -> None:
    model = recorder(path, Reply("one two three four", chunk=1))
    await collect(model.invoke(ask("a")))
    await model.close()
    rig = Rig(replay(path))
    began = asyncio.Event()
    rig.agent.subscribe(lambda event: began.set() if event.kind == "text_delta" else None)
    submitted = asyncio.create_task(rig.agent.submit("a"))
    await began.wait()
    await rig.agent.abort()
    final = await submitted
    assert final.error is not None
    assert final.error.kind == "aborted"

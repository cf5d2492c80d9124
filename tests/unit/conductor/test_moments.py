"""What comes at an awkward moment: while a session begins, while something is written, while the head is moved."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from indusagi_lsp.contract.errors import InvalidState, PersistenceFault
from indusagi_lsp.contract.models import Usage
from indusagi_lsp.sessions import SessionStore
from support.scripted import Reply, ScriptedModel
from unit.conductor.rig import Rig


class Held:
    """A method that stops at its door until it is let in.

    Attributes:
        entered: set when somebody stands there.
        let: set it to let them in.
    """

    def __init__(self, owner: Any, name: str) -> None:
        self.entered = asyncio.Event()
        self.let = asyncio.Event()
        self._real: Callable[..., Awaitable[Any]] = getattr(owner, name)
        setattr(owner, name, self)

    async def __call__(self, *args: Any, **kwargs: Any) -> Any:
        self.entered.set()
        await self.let.wait()
        return await self._real(*args, **kwargs)


async def until(true: Callable[[], bool]) -> None:
    """Let the others go on until something is so; it is a matter of steps, not of time."""
    for _ in range(1_000):
        if true():
            return
        await asyncio.sleep(0)
    pytest.fail("it never came to that")


@pytest.fixture
async def store(tmp_path: Path):
    store = SessionStore(tmp_path)
    yield store
    await store.close()


@pytest.mark.parametrize("how", ["start", "resume"])
async def test_no_other_session_is_taken_up_while_the_first_prompt_begins_one(store: SessionStore, how: str) -> None:
    rig = Rig(ScriptedModel(["hello"]), store=store)
    other = await store.create(cwd="file:///w")
    making = Held(store, "create")
    submitted = asyncio.create_task(rig.agent.submit("hi"))
    await making.entered.wait()
    moved = asyncio.create_task(rig.agent.start(other) if how == "start" else rig.agent.resume(other.id))
    await asyncio.sleep(0)
    making.let.set()

    with pytest.raises(InvalidState):
        await moved
    final = await submitted
    assert (final.phase, final.session_id) == ("settled", rig.agent.session_id)
    assert final.session_id != other.id
    assert [turn.text for turn in final.messages] == ["hi", "hello"]


async def test_a_first_prompt_waits_while_a_session_is_taken_up_and_goes_there(store: SessionStore) -> None:
    rig = Rig(ScriptedModel(["hello"]), store=store)
    other = await store.create(cwd="file:///w")
    opening = Held(store, "open")
    resumed = asyncio.create_task(rig.agent.resume(other.id))
    await opening.entered.wait()
    submitted = asyncio.create_task(rig.agent.submit("hi"))
    await asyncio.sleep(0)
    opening.let.set()
    await resumed

    assert (await submitted).session_id == other.id
    assert await store.list_sessions() == [other.id]


async def test_a_prompt_waits_while_the_head_is_moved_and_stands_under_it() -> None:
    rig = Rig(ScriptedModel(["one", "two", "three"]))
    await rig.agent.submit("a")
    first = rig.agent.snapshot().leaf
    await rig.agent.submit("b")
    moving = Held(rig.agent._history, "move_head")
    forked = asyncio.create_task(rig.agent.fork(first))
    await moving.entered.wait()
    submitted = asyncio.create_task(rig.agent.submit("c"))
    await asyncio.sleep(0)
    assert len(rig.model.requests) == 2
    moving.let.set()
    await forked

    assert [turn.text for turn in (await submitted).messages] == ["a", "one", "c", "three"]


async def test_a_prompt_waits_while_the_agent_is_held_still() -> None:
    rig = Rig(ScriptedModel(["one"]))
    async with rig.agent.at_rest("restore files"):
        submitted = asyncio.create_task(rig.agent.submit("a"))
        await asyncio.sleep(0)
        assert rig.model.requests == []
    assert (await submitted).phase == "settled"


async def test_a_move_that_is_cancelled_while_it_is_written_is_done_and_what_was_measured_is_void() -> None:
    rig = Rig(ScriptedModel(["one", "two", "three"]))
    await rig.agent.submit("a")
    first = rig.agent.snapshot().leaf
    await rig.agent.submit("b")
    moving = Held(rig.agent._history, "move_head")
    forked = asyncio.create_task(rig.agent.fork(first))
    await moving.entered.wait()
    forked.cancel()
    await asyncio.sleep(0)
    moving.let.set()
    with pytest.raises(asyncio.CancelledError):
        await forked

    assert rig.agent.snapshot().leaf == first
    assert rig.agent.phase == "idle"
    assert [turn.text for turn in (await rig.agent.submit("c")).messages] == ["a", "one", "c", "three"]


async def test_a_prompt_that_is_taken_back_while_it_waits_for_a_move_leaves_no_trace() -> None:
    rig = Rig(ScriptedModel(["one", "two"]))
    await rig.agent.submit("hi")
    async with rig.agent.at_rest("restore files"):
        submitted = asyncio.create_task(rig.agent.submit("a"))
        await until(lambda: rig.agent.queued == 1)
        submitted.cancel()
        with pytest.raises(asyncio.CancelledError):
            await submitted
        pump = rig.agent._pump
    await rig.agent.close()

    assert pump is not None
    assert pump.exception() is None
    assert len(rig.model.requests) == 1


async def test_a_stop_while_the_prompt_is_written_ends_a_run_that_has_begun() -> None:
    rig = Rig(ScriptedModel(["hello", "never"]))
    await rig.agent.submit("hi")
    rig.events.clear()
    writing = Held(rig.agent._history, "append")
    submitted = asyncio.create_task(rig.agent.submit("go"))
    await writing.entered.wait()
    await rig.agent.abort()
    writing.let.set()
    final = await submitted

    assert final.error is not None
    assert final.error.kind == "aborted"
    assert [turn.text for turn in final.messages] == ["hi", "hello", "go"]
    assert rig.of("run_started")[0].node == final.leaf
    assert (rig.kinds[0], rig.kinds[-1]) == ("run_started", "faulted")
    assert "persisted" in rig.kinds
    assert len(rig.model.requests) == 1


async def test_a_stop_before_the_run_has_taken_a_step_loses_no_prompt() -> None:
    rig = Rig(ScriptedModel(["never"]))
    submitted = asyncio.create_task(rig.agent.submit("go"))
    await until(lambda: rig.agent._run is not None)
    await rig.agent.abort()
    final = await submitted

    assert [turn.text for turn in final.messages] == ["go"]
    assert (rig.kinds[0], rig.kinds[-1]) == ("run_started", "faulted")


async def test_a_prompt_that_the_disk_refuses_is_a_run_with_a_beginning_and_an_end() -> None:
    rig = Rig(ScriptedModel(["hello", "never"]))
    await rig.agent.submit("hi")
    rig.events.clear()

    async def refused(_: Any) -> Any:
        raise PersistenceFault("The disk is full.", hint="Make room.")

    rig.agent._history.append = refused
    final = await rig.agent.submit("go")

    assert final.error is not None
    assert final.error.kind == "persistence"
    assert rig.kinds == ["run_started", "faulted"]
    assert len(rig.model.requests) == 1


async def test_a_stop_while_the_usage_is_written_keeps_the_answer_whole_and_counts_it() -> None:
    rig = Rig(ScriptedModel(["hello", Reply("Yes.", usage=Usage(10, 3))]))
    await rig.agent.submit("hi")
    history = rig.agent._history
    spent: list[Usage] = []

    async def usage(_node: str, usage: Usage, _model: str, _provider: str) -> None:
        spent.append(usage)

    history.usage = usage
    writing = Held(history, "usage")
    submitted = asyncio.create_task(rig.agent.submit("go"))
    await writing.entered.wait()
    await rig.agent.abort()
    await asyncio.sleep(0)
    writing.let.set()
    final = await submitted

    assert final.error is not None
    assert final.error.kind == "aborted"
    assert (final.messages[-1].text, final.messages[-1].extra) == ("Yes.", {})
    assert spent == [Usage(10, 3)]
    assert final.usage == Usage(10, 3)
    assert rig.of("usage")[-1].input == 10
    assert [event.node for event in rig.of("persisted")][-1] == final.leaf


@pytest.mark.parametrize("error", [OSError(5, "input/output error"), RuntimeError("no loop")])
async def test_a_disk_whose_word_does_not_come_is_told(error: Exception, caplog: pytest.LogCaptureFixture) -> None:
    rig = Rig(ScriptedModel(["hello", "fine"]))
    await rig.agent.submit("hi")
    rig.events.clear()

    async def sync() -> None:
        raise error

    rig.agent._history.sync = sync
    final = await rig.agent.submit("go")

    assert final.phase == "settled"
    assert {(event.level, event.code) for event in rig.of("notice")} == {("error", "internal")}
    assert rig.of("persisted") == []
    assert str(error) in caplog.text

"""A large session is shown without being opened, and opened as soon as something needs more of it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from indusagi_lsp.contract.errors import SessionNotFound
from indusagi_lsp.contract.events import SessionChanged
from indusagi_lsp.protocol import messages as m
from indusagi_lsp.protocol import operations as o
from indusagi_lsp.sessions import outline
from unit.workspace.rig import HostsRig, RecordingOutlet


@pytest.fixture
async def rig(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[HostsRig]:
    monkeypatch.setattr(outline, "LARGE", 1)
    rig = HostsRig(tmp_path, ["one", "two", "three"], loop=True)
    yield rig
    await rig.hosts.shutdown()


async def live(rig: HostsRig) -> int:
    return (await rig.call(o.STATUS)).workspaces[0].sessions


async def again(rig: HostsRig) -> str:
    await rig.hosts.shutdown()
    rig.hosts = rig.again()
    return await rig.folder()


async def test_it_is_shown_as_it_would_be_in_use_and_opened_for_the_next_prompt(rig: HostsRig) -> None:
    await rig.folder()
    session = await rig.new(title="named")
    for number in range(5):
        await rig.say(session, str(number))
    await rig.call(
        o.SESSION_LABEL, sessionId=session, node=(await rig.call(o.RESUME, sessionId=session)).head, name="x"
    )
    used = await rig.call(o.RESUME, sessionId=session, limit=4)
    await again(rig)

    shown = await rig.call(o.RESUME, sessionId=session, limit=4)
    assert await live(rig) == 0
    assert (shown.turns, shown.head, shown.before) == (used.turns, used.head, used.before)
    assert (shown.branches, shown.labels, shown.usage) == (used.branches, used.labels, used.usage)
    assert (shown.session.title, shown.session.turns, shown.session.state) == ("named", 10, "idle")
    assert shown.trusted
    assert shown.seq == 0

    older = await rig.call(o.RESUME, sessionId=session, limit=100, before=shown.before)
    assert [turn.blocks[0]["text"] for turn in older.turns[-2:]] == ["2", "three"]
    assert await live(rig) == 1
    final = await rig.say(session, "more")
    assert len(final.messages) == 12
    assert (await rig.call(o.RESUME, sessionId=session)).turns[-1].blocks[0]["text"] == final.messages[-1]["blocks"][0][
        "text"
    ]


async def test_a_run_that_ends_keeps_the_outline_so_a_killed_server_loses_no_speed(rig: HostsRig) -> None:
    await rig.folder()
    session = await rig.new()
    await rig.say(session, "hello")
    for _ in range(1_000):
        if list(rig.tmp_path.rglob(f"{session}.outline")):
            break
        await asyncio.sleep(0.01)
    other = HostsRig.__new__(HostsRig)
    other.tmp_path, other.script, other.outlet = rig.tmp_path, rig.script, RecordingOutlet()
    other.hosts = other.again()
    await other.folder()
    view = await other.call(o.RESUME, sessionId=session)
    assert await live(other) == 0
    assert [turn.blocks[0]["text"] for turn in view.turns] == ["hello", "one"]
    await other.hosts.shutdown()


async def test_what_another_window_says_reaches_one_that_only_looks(rig: HostsRig) -> None:
    await rig.folder()
    session = await rig.new()
    await rig.say(session, "hello")
    await again(rig)
    shown: m.SessionView = await rig.call(o.RESUME, sessionId=session)
    assert await live(rig) == 0

    other = HostsRig.__new__(HostsRig)
    other.tmp_path, other.script, other.outlet = rig.tmp_path, rig.script, RecordingOutlet()
    other.hosts = other.again()
    await other.folder()
    await other.say(session, "from elsewhere")

    def heard() -> list[SessionChanged]:
        return [event for event in rig.outlet.of(session) if isinstance(event, SessionChanged)]

    for _ in range(1_000):
        view = await rig.call(o.RESUME, sessionId=session) if heard() else shown
        if len(view.turns) == 4:
            break
        await asyncio.sleep(0.02)  # the watcher's own time is measured in its benchmark
    assert [turn.blocks[0]["text"] for turn in view.turns] == ["hello", "one", "from elsewhere", "one"]
    assert {node for event in heard() for node in event.added} == {turn.id for turn in view.turns[2:]}
    await other.hosts.shutdown()


async def test_one_that_is_deleted_while_it_is_shown_comes_to_an_end(rig: HostsRig) -> None:
    uri = await rig.folder()
    session = await rig.new()
    await rig.say(session, "hello")
    await again(rig)
    await rig.call(o.RESUME, sessionId=session)
    told = len(rig.outlet.sessions)
    next(Path(rig.tmp_path, "ws").rglob(f"{session}.jsonl")).unlink()
    for _ in range(1_000):
        if len(rig.outlet.sessions) > told and (await rig.call(o.STATUS)).workspaces[0].notices:
            break
        await asyncio.sleep(0.02)
    with pytest.raises(SessionNotFound):
        await rig.call(o.RESUME, sessionId=session)
    assert rig.outlet.sessions[-1] == uri

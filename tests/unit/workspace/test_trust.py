"""Trust that is granted and withdrawn while everything goes on: in place, at once, and with one count of the events."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from indusagi_lsp.contract.approvals import Decision
from indusagi_lsp.contract.events import Faulted, Notice, Settled, TextDelta
from indusagi_lsp.protocol import messages as m
from indusagi_lsp.protocol import operations as o
from unit.workspace.rig import HostsRig

WRITE = {"name": "write_file", "input": {"path": "new.txt", "content": "x"}}
SLEEP = {"name": "run_command", "input": {"command": "echo begun > begun; sleep 300"}}


@pytest.fixture
async def make(tmp_path: Path) -> AsyncIterator[Any]:
    rigs: list[HostsRig] = []

    def make(*replies: Any) -> HostsRig:
        rigs.append(HostsRig(tmp_path, list(replies)))
        return rigs[-1]

    yield make
    for rig in rigs:
        await rig.hosts.shutdown()


async def until(seen) -> None:
    async with asyncio.timeout(30):
        while not seen():  # noqa: ASYNC110 - a file of another process tells no event
            await asyncio.sleep(0.01)


async def test_granted_it_holds_from_the_next_run_on_and_withdrawn_at_once(make, tmp_path: Path) -> None:
    rig = make({"calls": [WRITE]}, "No.", {"calls": [WRITE]}, "Done.", {"calls": [WRITE]}, "No more.")
    workspace = await rig.folder(trusted=False)
    session = await rig.new()
    made = tmp_path / "ws" / "new.txt"

    await rig.say(session, "Write.")
    assert not made.exists()
    assert not rig.outlet.questions

    status = await rig.call(o.TRUST, trusted=True, workspace=workspace)
    assert [one.trusted for one in status.workspaces] == [True]
    await rig.say(session, "Write.")
    assert made.read_text() == "x"
    assert len(rig.outlet.questions) == 1

    made.unlink()
    assert [one.trusted for one in (await rig.call(o.TRUST, trusted=False)).workspaces] == [False]
    await rig.say(session, "Write.")
    assert not made.exists()
    assert len(rig.outlet.questions) == 1

    seqs = [seq for _, where, _, seq, _ in rig.outlet.events if where == session]
    assert seqs == list(range(1, len(seqs) + 1)), "one count, whatever the trust"
    notices = [one.text for one in rig.outlet.of(session) if isinstance(one, Notice) and one.code == "trust"]
    assert notices == ["This folder is trusted from now on.", "This folder is not trusted any more."]


async def test_withdrawn_it_ends_a_run_and_its_command(make, tmp_path: Path) -> None:
    rig = make({"calls": [SLEEP]}, "It slept.", "Still here.")
    await rig.folder()
    session = await rig.new()
    running = asyncio.create_task(rig.say(session, "Sleep."))
    await until((tmp_path / "ws" / "begun").exists)
    await rig.call(o.TRUST, trusted=False)
    async with asyncio.timeout(30):
        snapshot = await running
    assert snapshot.error is not None
    assert snapshot.error.kind == "aborted"
    terminal = [one for one in rig.outlet.of(session) if isinstance(one, (Settled, Faulted))]
    assert len(terminal) == 1
    # The session goes on, and reads.
    assert (await rig.say(session, "And now?")).error is None
    assert any(isinstance(one, TextDelta) for one in rig.outlet.of(session))


async def test_an_answer_that_comes_after_trust_was_withdrawn_allows_nothing(make, tmp_path: Path) -> None:
    rig = make({"calls": [WRITE]}, "No.")
    await rig.folder()
    session = await rig.new()
    withdrawn: list[m.StatusResult] = []

    async def withdraw_and_allow(question: m.ApproveParams) -> Decision:
        host = rig.hosts._hosts[question.workspace]
        host.gate.trusted = False
        withdrawn.append(await rig.call(o.STATUS))
        return "always"

    rig.outlet.approve = withdraw_and_allow  # type: ignore[method-assign]
    await rig.say(session, "Write.")
    assert [one.trusted for one in withdrawn[0].workspaces] == [False]
    assert not (tmp_path / "ws" / "new.txt").exists()
    assert not list((tmp_path / "home").rglob("permissions/*.json")), "and nothing is kept for later"


async def test_a_folder_that_is_not_open_cannot_be_trusted(make, tmp_path: Path) -> None:
    from indusagi_lsp.contract.errors import InvalidInput

    rig = make()
    await rig.folder(trusted=False)
    with pytest.raises(InvalidInput, match="not open"):
        await rig.call(o.TRUST, trusted=True, workspace=tmp_path.as_uri())
    assert [one.trusted for one in (await rig.call(o.STATUS)).workspaces] == [False]

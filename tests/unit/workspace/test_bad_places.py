"""Folders that cannot be written, that vanish, or that try to lead elsewhere."""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from indusagi_lsp.contract.errors import InvalidInput, PersistenceFault
from indusagi_lsp.protocol import operations as o
from unit.workspace.rig import HostsRig

NOBODY = 65534


async def warm_up(rig: HostsRig) -> None:
    """Import and open all that a conversation needs while we still are who we are: the interpreter may be ours."""
    other = HostsRig(rig.tmp_path / "warm", ["answer"])
    await other.folder()
    session = await other.new()
    await other.say(session, "warm")
    await other.call(o.RESUME, sessionId=session)
    await other.hosts.shutdown()


@contextmanager
def as_nobody(home: Path) -> Iterator[None]:
    """Run as a user whom permissions bind; root is not bound by them."""
    if os.geteuid() != 0:
        yield
        return
    for folder in (home, *home.rglob("*")):
        os.chown(folder, NOBODY, NOBODY)
    os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(0)


def _open_to_all(tmp_path: Path) -> None:
    for folder in (tmp_path, *tmp_path.parents[:2]):
        folder.chmod(0o755)


@pytest.fixture
async def rig(tmp_path: Path) -> AsyncIterator[HostsRig]:
    await asyncio.to_thread(_open_to_all, tmp_path)
    rig = HostsRig(tmp_path, ["answer"], loop=True)
    yield rig
    await rig.hosts.shutdown()


@pytest.mark.skipif(sys.platform == "win32", reason="permission bits are POSIX's")
async def test_a_read_only_folder_is_told_with_what_to_do_and_nothing_is_lost(rig: HostsRig) -> None:
    folder = rig.tmp_path / "ws"
    folder.mkdir(mode=0o555)
    (rig.tmp_path / "home").mkdir()
    (rig.tmp_path / "warm").mkdir()
    await warm_up(rig)
    with as_nobody(rig.tmp_path / "home"):
        await rig.hosts.open_folder(folder.as_uri(), "ws", True)  # noqa: FBT003 - the seam's shape
        with pytest.raises(PersistenceFault) as caught:
            await rig.new()
    assert caught.value.hint
    assert "Traceback" not in caught.value.message
    assert not (folder / ".indusagi").exists()


@pytest.mark.skipif(sys.platform == "win32", reason="permission bits are POSIX's")
async def test_a_folder_that_becomes_read_only_costs_no_turn(rig: HostsRig) -> None:
    folder = rig.tmp_path / "ws"
    folder.mkdir()
    (rig.tmp_path / "home").mkdir()
    (rig.tmp_path / "warm").mkdir()
    await warm_up(rig)
    if os.geteuid() == 0:
        os.chown(folder, NOBODY, NOBODY)
    with as_nobody(rig.tmp_path / "home"):
        await rig.hosts.open_folder(folder.as_uri(), "ws", True)  # noqa: FBT003 - the seam's shape
        session = await rig.new()
        await rig.say(session, "first")
        await rig.hosts.shutdown()  # a file that is open already could still be written
        path = folder / ".indusagi" / "sessions" / f"{session}.jsonl"
        path.chmod(0o400)
        (folder / ".indusagi" / "sessions").chmod(0o500)
        rig.hosts = rig.again()
        await rig.hosts.open_folder(folder.as_uri(), "ws", True)  # noqa: FBT003 - the seam's shape
        failed = await rig.say(session, "second")
        assert failed.error is not None
        assert (failed.phase, failed.error.kind) == ("faulted", "persistence")
        assert failed.error.hint
        assert failed.messages[-1]["blocks"][0]["text"] == "second"

        (folder / ".indusagi" / "sessions").chmod(0o700)
        path.chmod(0o600)
        await rig.say(session, "third")
        await rig.hosts.shutdown()
        rig.hosts = rig.again()
        await rig.hosts.open_folder(folder.as_uri(), "ws", True)  # noqa: FBT003 - the seam's shape
        view = await rig.call(o.RESUME, sessionId=session)
    said = [turn.blocks[0]["text"] for turn in view.turns if turn.role == "user"]
    assert said == ["first", "second", "third"]


async def test_a_folder_that_vanishes_costs_no_turn(rig: HostsRig) -> None:
    await rig.folder()
    session = await rig.new()
    await rig.say(session, "first")
    shutil.rmtree(rig.tmp_path / "ws")

    final = await rig.say(session, "second")
    if final.error is not None:
        assert (final.error.kind, bool(final.error.hint)) == ("persistence", True)
    assert [m["blocks"][0]["text"] for m in final.messages if m["role"] == "user"] == ["first", "second"]
    (rig.tmp_path / "ws").mkdir(exist_ok=True)
    await rig.say(session, "third")
    view = await rig.call(o.RESUME, sessionId=session)
    assert [turn.blocks[0]["text"] for turn in view.turns if turn.role == "user"] == ["first", "second", "third"]


@pytest.mark.parametrize(
    "uri", ["file:///no/such/folder", "untitled:Untitled-1", "vscode-remote://host/x", "file://server/share"]
)
async def test_what_is_no_folder_here_is_refused(rig: HostsRig, uri: str) -> None:
    with pytest.raises(InvalidInput):
        await rig.hosts.open_folder(uri, "x", True)  # noqa: FBT003 - the seam's shape


async def test_a_folder_that_could_not_be_opened_says_why_again(rig: HostsRig) -> None:
    uri = (rig.tmp_path / "later").as_uri()
    with pytest.raises(InvalidInput, match="not a folder"):
        await rig.hosts.open_folder(uri, "later", True)  # noqa: FBT003 - the seam's shape
    for params in ({}, {"workspace": uri}):
        with pytest.raises(InvalidInput, match="not a folder"):
            await rig.call(o.SESSION_LIST, **params)
    (rig.tmp_path / "later").mkdir()
    await rig.hosts.open_folder(uri, "later", True)  # noqa: FBT003 - the seam's shape
    assert (await rig.call(o.SESSION_LIST)).sessions == []


async def test_a_planted_link_does_not_lead_out_of_the_folder(rig: HostsRig) -> None:
    outside = rig.tmp_path / "outside"
    outside.mkdir()
    folder = rig.tmp_path / "ws"
    folder.mkdir()
    (folder / ".indusagi").symlink_to(outside)
    await rig.folder()
    with pytest.raises(PersistenceFault):
        await rig.new()
    assert list(outside.iterdir()) == []


@pytest.mark.parametrize("path", ["../secret.txt", "link.txt"])
async def test_a_file_outside_is_not_attached(rig: HostsRig, path: str) -> None:
    uri = await rig.folder()
    (rig.tmp_path / "secret.txt").write_text("canary", "utf-8")
    (rig.tmp_path / "ws" / "link.txt").symlink_to(rig.tmp_path / "secret.txt")
    session = await rig.new()
    from indusagi_lsp.contract.errors import ToolFailed

    with pytest.raises(ToolFailed):
        await rig.say(session, "look", context=[{"kind": "file", "uri": f"{uri}/{path}"}])
    sessions = rig.tmp_path / "ws" / ".indusagi" / "sessions"
    assert b"canary" not in b"".join(file.read_bytes() for file in sessions.glob("*.jsonl"))

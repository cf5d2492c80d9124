"""The operations on a folder's sessions as a collection."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from indusagi_lsp.contract.errors import InvalidInput, InvalidState, NodeNotFound, SessionNotFound
from indusagi_lsp.protocol import operations as o
from unit.workspace.rig import HostsRig


@pytest.fixture
async def rig(tmp_path: Path) -> AsyncIterator[HostsRig]:
    rig = HostsRig(tmp_path, ["the walrus answers", "a second answer", "third"], loop=True)
    await rig.folder()
    yield rig
    await rig.hosts.shutdown()


async def test_labels_titles_and_the_archive(rig: HostsRig) -> None:
    session = await rig.new()
    final = await rig.say(session, "hi")
    labels = await rig.call(o.SESSION_LABEL, sessionId=session, node=final.leaf, name="good")
    assert labels.labels == {final.leaf: "good"}
    assert (await rig.call(o.SESSION_LABEL, sessionId=session, node=final.leaf)).labels == {}
    with pytest.raises(NodeNotFound):
        await rig.call(o.SESSION_LABEL, sessionId=session, node="0" * 32, name="x")

    assert (await rig.call(o.SESSION_RENAME, sessionId=session, title="My talk")).title == "My talk"
    await rig.call(o.SESSION_ARCHIVE, sessionId=session)
    assert (await rig.call(o.SESSION_LIST)).sessions == []
    assert [one.title for one in (await rig.call(o.SESSION_LIST, archived=True)).sessions] == ["My talk"]
    await rig.call(o.SESSION_ARCHIVE, sessionId=session, archived=False)
    assert len((await rig.call(o.SESSION_LIST)).sessions) == 1


async def test_a_running_session_is_stopped_before_it_is_deleted_and_does_not_come_back(tmp_path: Path) -> None:
    rig = HostsRig(tmp_path, [{"text": "very slow", "pace": 30, "chunk": 2}])
    await rig.folder()
    session = await rig.new()
    running = asyncio.create_task(rig.say(session, "go"))
    await asyncio.sleep(0.05)
    assert (await rig.call(o.SESSION_DELETE, sessionId=session)).deleted
    assert (await running).phase == "faulted"

    assert (await rig.call(o.SESSION_LIST)).sessions == []
    with pytest.raises(SessionNotFound):
        await rig.call(o.RESUME, sessionId=session)
    with pytest.raises(SessionNotFound):
        await rig.call(o.SESSION_DELETE, sessionId=session)
    await rig.hosts.shutdown()
    assert not list((tmp_path / "ws" / ".indusagi" / "sessions").glob("*.jsonl"))


@pytest.mark.parametrize(("form", "sign"), [("markdown", "# "), ("html", "<!doctype html>"), ("jsonl", '{"type":')])
async def test_export(rig: HostsRig, form: str, sign: str) -> None:
    session = await rig.new()
    await rig.say(session, "<b>hi</b>")
    exported = await rig.call(o.SESSION_EXPORT, sessionId=session, format=form)
    assert exported.text.lower().startswith(sign)
    assert exported.file_name.startswith(session)
    assert "walrus" in exported.text
    assert form != "html" or "<b>hi</b>" not in exported.text


async def test_an_empty_session_has_nothing_to_export(rig: HostsRig) -> None:
    with pytest.raises(InvalidState, match="empty"):
        await rig.call(o.SESSION_EXPORT, sessionId=await rig.new())


async def test_what_was_exported_can_be_imported_into_another_folder(rig: HostsRig) -> None:
    session = await rig.new()
    final = await rig.say(session, "hi")
    exported = await rig.call(o.SESSION_EXPORT, sessionId=session, format="jsonl")
    other = await rig.folder("other")
    path = rig.tmp_path / "other" / ".indusagi" / "sessions" / f"{session}.jsonl"
    path.parent.mkdir(parents=True)
    path.write_text(exported.text, "utf-8")
    view = await rig.call(o.RESUME, sessionId=session, workspace=other)
    assert view.turns[-1].id == final.leaf
    assert not view.trusted


async def test_a_transcript_of_another_tool_is_imported_once(rig: HostsRig) -> None:
    path = rig.tmp_path / "claude.jsonl"
    lines = [
        {
            "type": "user",
            "uuid": "u1",
            "parentUuid": None,
            "sessionId": "s1",
            "timestamp": "2026-01-01T00:00:00.000Z",
            "message": {"role": "user", "content": "please count"},
        },
        {
            "type": "assistant",
            "uuid": "a1",
            "parentUuid": "u1",
            "sessionId": "s1",
            "timestamp": "2026-01-01T00:00:01.000Z",
            "message": {"id": "m1", "role": "assistant", "content": [{"type": "text", "text": "one two"}]},
        },
    ]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), "utf-8")
    first = await rig.call(o.SESSION_IMPORT, path=str(path))
    again = await rig.call(o.SESSION_IMPORT, path=str(path))
    assert [(file.turns, file.added, file.problem) for file in first.files] == [(2, 2, None)]
    assert [file.added for file in again.files] == [0]
    listed = (await rig.call(o.SESSION_LIST)).sessions
    assert [one.state for one in listed] == ["foreign"]
    with pytest.raises(InvalidInput, match="no"):
        await rig.call(o.SESSION_IMPORT, path=str(rig.tmp_path / "nowhere"))


async def test_search_finds_turns_on_every_branch(rig: HostsRig) -> None:
    session = await rig.new()
    await rig.say(session, "tell me of the narwhal")
    turns = (await rig.call(o.RESUME, sessionId=session)).turns
    await rig.call(o.FORK, sessionId=session, node=turns[0].id, before=True)
    await rig.say(session, "something else")

    found = await rig.call(o.SESSION_SEARCH, query="narwhal")
    assert [(hit.session_id, hit.node, hit.role) for hit in found.hits] == [(session, turns[0].id, "user")]
    start, end = found.hits[0].spans[0]
    assert found.hits[0].snippet[start:end] == "narwhal"
    assert (await rig.call(o.SESSION_SEARCH, query='"unbalanced NEAR( *')).hits == []


async def test_branches_are_compared_and_a_result_is_brought_over(rig: HostsRig) -> None:
    session = await rig.new()
    first = await rig.say(session, "one way")
    turns = (await rig.call(o.RESUME, sessionId=session)).turns
    await rig.call(o.FORK, sessionId=session, node=turns[0].id, before=True)
    second = await rig.say(session, "another way")

    found = await rig.call(o.SESSION_COMPARE, sessionId=session, left=first.leaf, right=second.leaf)
    assert (found.common, found.left.turns, found.right.result) == (
        None,
        {"user": 1, "assistant": 1},
        "a second answer",
    )
    await rig.call(o.SESSION_NOTE, sessionId=session, leaf=first.leaf)
    view = await rig.call(o.RESUME, sessionId=session)
    assert "the walrus answers" in view.turns[-1].blocks[0]["text"]
    assert len(view.turns) == 3


async def test_the_doctor_finds_and_heals(rig: HostsRig) -> None:
    session = await rig.new()
    await rig.say(session, "hi")
    await rig.hosts.shutdown()
    path = rig.tmp_path / "ws" / ".indusagi" / "sessions" / f"{session}.jsonl"
    path.write_bytes(path.read_bytes() + b'{"type":"node","node":{"id":"torn')

    rig.hosts = rig.again()
    await rig.folder()
    sick = await rig.call(o.SESSION_DOCTOR)
    assert not sick.healthy
    assert "torn" in [finding.code for finding in sick.sessions[0].findings]
    await rig.call(o.SESSION_DOCTOR, repair=True)
    assert (await rig.call(o.SESSION_DOCTOR)).healthy
    assert list(path.parent.glob("*.broken-*"))


async def test_blobs_are_shown_and_collected(rig: HostsRig) -> None:
    assert (await rig.call(o.BLOB_COLLECT)).removed == []
    with pytest.raises(InvalidInput, match="no blob"):
        await rig.call(o.BLOB_GET, blob="0" * 64)

"""The operations as a client meets them, over real stores."""

from __future__ import annotations

import asyncio
import http.server
import json
import os
import sys
import threading
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from indusagi_lsp.contract.errors import (
    IndusagiError,
    InvalidInput,
    InvalidState,
    ModelError,
    NodeNotFound,
    PersistenceFault,
    SessionForeign,
    SessionNotFound,
)
from indusagi_lsp.contract.events import Notice, QueueChanged, SessionChanged, TextDelta
from indusagi_lsp.protocol import operations as o
from indusagi_lsp.protocol.uris import path_to_uri
from indusagi_lsp.workspace.memories import MOST_NOTICES
from indusagi_lsp.workspace.settings import MemorySettings
from unit.workspace.rig import HostsRig, RecordingOutlet

LONG = "word " * 400


@pytest.fixture
async def rig(tmp_path: Path) -> AsyncIterator[HostsRig]:
    rig = HostsRig(tmp_path, ["one", "two", "three"], loop=True)
    yield rig
    await rig.hosts.shutdown()


async def test_a_conversation_is_found_again_after_a_restart(rig: HostsRig) -> None:
    uri = await rig.folder()
    session = await rig.new()
    final = await rig.say(session, "hello", runId="r1")
    assert (final.phase, final.run_id, final.messages[-1]["blocks"][0]["text"]) == ("settled", "r1", "one")
    await rig.hosts.shutdown()

    rig.hosts = rig.again()
    await rig.folder()
    listed = await rig.call(o.SESSION_LIST)
    assert [(one.id, one.title, one.turns, one.state, one.workspace) for one in listed.sessions] == [
        (session, "hello", 2, "idle", uri)
    ]
    view = await rig.call(o.RESUME, sessionId=session)
    assert [turn.blocks[0]["text"] for turn in view.turns] == ["hello", "one"]
    assert view.head == view.turns[-1].id
    assert view.trusted
    again = await rig.say(session, "more")
    assert [message["role"] for message in again.messages] == ["user", "assistant", "user", "assistant"]


async def test_events_are_numbered_without_a_gap_and_end_once(rig: HostsRig) -> None:
    await rig.folder()
    session = await rig.new()
    await rig.say(session, "a")
    await rig.say(session, "b")

    assert [seq for *_, seq, _ in rig.outlet.events] == list(range(1, len(rig.outlet.events) + 1))
    kinds = [event.kind for event in rig.outlet.of(session)]
    assert kinds.count("settled") == 2
    assert kinds[-1] == "settled"
    text = "".join(event.delta for event in rig.outlet.of(session) if isinstance(event, TextDelta))
    assert text == "onetwo"


async def test_the_status_is_busy_while_a_run_goes_on_and_ready_afterwards(rig: HostsRig) -> None:
    await rig.folder()
    session = await rig.new()
    await rig.say(session, "a")
    await asyncio.sleep(0)
    assert [status.busy for status in rig.outlet.statuses] == [False, True, False]


async def test_a_client_that_missed_events_gets_them_or_is_told(rig: HostsRig) -> None:
    await rig.folder()
    session = await rig.new()
    await rig.say(session, "a")
    seq = rig.outlet.events[-1][3]

    missed = await rig.call(o.SNAPSHOT, sessionId=session, sinceSeq=seq - 2)
    assert [one["seq"] for one in missed.events] == [seq - 1, seq]
    assert (missed.seq, missed.gap, missed.snapshot.phase) == (seq, False, "settled")
    assert (await rig.call(o.SNAPSHOT, sessionId=session)).events == []


async def test_fork_in_place_and_before_a_prompt(rig: HostsRig) -> None:
    await rig.folder()
    session = await rig.new()
    await rig.say(session, "first")
    await rig.say(session, "second")
    turns = (await rig.call(o.RESUME, sessionId=session)).turns

    forked = await rig.call(o.FORK, sessionId=session, node=turns[2].id, before=True)
    assert (forked.leaf, forked.prefill, forked.session_id) == (turns[1].id, "second", session)
    final = await rig.say(session, "other")
    assert [message["blocks"][0]["text"] for message in final.messages] == ["first", "one", "other", "three"]

    tree = await rig.call(o.SESSION_TREE, sessionId=session)
    assert len(tree.nodes) == 6
    assert len(tree.leaves) == 2
    view = await rig.call(o.RESUME, sessionId=session, node=turns[3].id)
    assert [turn.id for turn in view.turns] == [turn.id for turn in turns]
    assert sum(branch.live for branch in view.branches) == 1


async def test_fork_before_the_first_prompt_begins_anew(rig: HostsRig) -> None:
    await rig.folder()
    session = await rig.new()
    await rig.say(session, "first")
    turns = (await rig.call(o.RESUME, sessionId=session)).turns
    forked = await rig.call(o.FORK, sessionId=session, node=turns[0].id, before=True)
    assert (forked.leaf, forked.prefill) == (None, "first")
    final = await rig.say(session, "instead")
    assert [message["blocks"][0]["text"] for message in final.messages] == ["instead", "two"]


async def test_fork_to_a_new_session_leaves_the_old_one_alone(rig: HostsRig) -> None:
    await rig.folder()
    session = await rig.new()
    await rig.say(session, "first")
    turns = (await rig.call(o.RESUME, sessionId=session)).turns
    forked = await rig.call(o.FORK, sessionId=session, node=turns[1].id, newSession=True)

    assert forked.session_id != session
    await rig.say(forked.session_id, "there")
    assert len((await rig.call(o.RESUME, sessionId=session)).turns) == 2
    assert len((await rig.call(o.RESUME, sessionId=forked.session_id)).turns) == 4
    listed = {one.id: one.parent_session for one in (await rig.call(o.SESSION_LIST)).sessions}
    assert listed[forked.session_id] == session


async def test_condense_preview_apply_undo(tmp_path: Path) -> None:
    rig = HostsRig(tmp_path, [LONG], loop=True, tools=False)
    await rig.folder()
    session = await rig.new()
    for number in range(8):
        await rig.say(session, f"{number} {LONG}")
    before = (await rig.call(o.RESUME, sessionId=session)).turns

    shown = await rig.call(o.CONDENSE, sessionId=session, preview=True)
    assert not shown.condensed
    assert shown.preview.dropped == [turn.id for turn in before[: shown.preview.cut]]
    done = await rig.call(o.CONDENSE, sessionId=session, token=shown.preview.token, text="In my words.")
    after = (await rig.call(o.RESUME, sessionId=session)).turns
    assert done.condensed
    assert done.after < done.before
    assert "In my words." in after[0].blocks[0]["text"]
    assert [turn.blocks for turn in after[1:]] == [turn.blocks for turn in before[shown.preview.cut :]]
    tree = await rig.call(o.SESSION_TREE, sessionId=session)
    assert [link.source for link in tree.condensations] == [before[-1].id]

    undone = await rig.call(o.CONDENSE_UNDO, sessionId=session)
    assert undone.leaf == before[-1].id
    assert (await rig.call(o.RESUME, sessionId=session)).turns == before
    await rig.hosts.shutdown()


async def test_long_sessions_are_paged(rig: HostsRig) -> None:
    await rig.folder()
    session = await rig.new()
    for number in range(5):
        await rig.say(session, str(number))

    newest = await rig.call(o.RESUME, sessionId=session, limit=4)
    assert [turn.blocks[0]["text"] for turn in newest.turns] == ["3", "one", "4", "two"]
    older = await rig.call(o.RESUME, sessionId=session, limit=100, before=newest.before)
    assert len(older.turns) == 6
    assert older.before is None


async def test_lists_are_paged_and_filtered(rig: HostsRig) -> None:
    await rig.folder()
    for title in ("apples", "pears", "more apples"):
        await rig.new(title=title)
    first = await rig.call(o.SESSION_LIST, limit=2)
    rest = await rig.call(o.SESSION_LIST, limit=2, cursor=first.next_cursor)
    assert len(first.sessions) == 2
    assert len(rest.sessions) == 1
    assert len({one.id for one in (*first.sessions, *rest.sessions)}) == 3
    assert len((await rig.call(o.SESSION_LIST, query="APPLES")).sessions) == 2


async def test_a_running_session_says_so_and_is_stopped_by_abort(tmp_path: Path) -> None:
    rig = HostsRig(tmp_path, [{"text": "half and more", "pace": 30, "chunk": 4}])
    await rig.folder()
    session = await rig.new()
    running = asyncio.create_task(rig.say(session, "go"))
    await asyncio.sleep(0.1)
    assert (await rig.call(o.SESSION_LIST)).sessions[0].state == "running"
    assert (await rig.call(o.STATUS)).busy
    with pytest.raises(InvalidState, match="run goes on"):
        await rig.call(o.CONDENSE, sessionId=session)

    await rig.call(o.ABORT, sessionId=session)
    final = await running
    assert final.phase == "faulted"
    assert final.error is not None
    assert final.error.kind == "aborted"
    assert not (await rig.call(o.STATUS)).busy
    await rig.hosts.shutdown()


async def test_a_run_that_failed_is_not_shown_as_interrupted(tmp_path: Path) -> None:
    rig = HostsRig(tmp_path, [{"error": {"message": "no", "status": 400}}])
    await rig.folder()
    session = await rig.new()
    assert (await rig.say(session, "go")).phase == "faulted"
    assert (await rig.call(o.SESSION_LIST)).sessions[0].state == "idle"
    assert (await rig.call(o.RESUME, sessionId=session)).session.state == "idle"
    await rig.hosts.shutdown()


async def test_a_file_that_goes_along_is_marked_and_unsaved_text_wins(rig: HostsRig) -> None:
    uri = await rig.folder()
    path = rig.tmp_path / "ws" / "a.py"
    path.write_text("on disk", "utf-8")
    session = await rig.new()
    await rig.say(session, "look", context=[{"kind": "file", "uri": path.as_uri()}])
    rig.outlet.documents[path.as_uri()] = "in the editor"
    final = await rig.say(session, "again", context=[{"kind": "file", "uri": path.as_uri()}])

    texts = [block["text"] for message in final.messages for block in message["blocks"]]
    assert any("on disk" in text for text in texts)
    assert any("in the editor" in text and "<context" in text for text in texts)
    assert uri


@pytest.mark.parametrize("name", ["plain", "c++ (old), @home", "été"])
async def test_the_open_documents_of_a_folder_are_known_whatever_it_is_called(rig: HostsRig, name: str) -> None:
    await rig.folder(name)
    path = rig.tmp_path / name / "a & b.py"
    # As documents are called here: in the one spelling, which encodes less than pathlib does.
    rig.outlet.documents[path_to_uri(str(path))] = "unsaved"
    host = next(iter(rig.hosts._hosts.values()))
    assert list(host._editor().open_paths()) == ["a & b.py"]


@pytest.mark.skipif(sys.platform != "linux", reason="such names are a matter of Linux")
async def test_a_folder_whose_name_is_no_text_is_opened(rig: HostsRig) -> None:
    root = os.fsencode(rig.tmp_path) + b"/\xff"
    await asyncio.to_thread(os.mkdir, root)
    await rig.hosts.open_folder(path_to_uri(os.fsdecode(root)), "odd", True)  # noqa: FBT003 - the seam's shape
    session = await rig.new()
    assert (await rig.say(session, "hello")).phase == "settled"


@pytest.mark.parametrize("uri", ["file://[bad", "untitled:x", "file://elsewhere/x", "file:///a%00b"])
async def test_what_is_no_folder_here_is_refused_with_words(rig: HostsRig, uri: str) -> None:
    with pytest.raises(InvalidInput, match="not a file on this machine"):
        await rig.hosts.open_folder(uri, "x", True)  # noqa: FBT003 - the seam's shape


@pytest.mark.parametrize(
    ("operation", "params", "error", "words"),
    [
        (o.RESUME, {"sessionId": "nope"}, SessionNotFound, "no session"),
        (o.RESUME, {"sessionId": "../../etc/passwd"}, InvalidInput, "session id"),
        (o.SUBMIT, {"sessionId": "nope", "text": "a"}, SessionNotFound, "no session"),
        (o.SESSION_NEW, {"model": "nope:nothing"}, ModelError, "provider"),
        (o.SESSION_NEW, {"workspace": "file:///elsewhere"}, InvalidInput, "not open"),
        (o.FORGET, {"id": "nope"}, None, ""),
    ],
)
async def test_bad_input_gets_words(
    rig: HostsRig, operation: o.Operation, params: dict, error: type | None, words: str
) -> None:
    await rig.folder()
    if error is None:
        assert (await rig.call(operation, **params)).forgotten is False
        return
    with pytest.raises(error, match=words) as caught:
        await rig.call(operation, **params)
    assert isinstance(caught.value, IndusagiError)


async def test_bad_nodes_and_prompts_are_refused(rig: HostsRig) -> None:
    await rig.folder()
    session = await rig.new()
    await rig.say(session, "a")
    with pytest.raises(NodeNotFound):
        await rig.call(o.FORK, sessionId=session, node="0" * 32)
    with pytest.raises(NodeNotFound):
        await rig.call(o.RESUME, sessionId=session, node="0" * 32)
    with pytest.raises(NodeNotFound):
        await rig.call(o.RESUME, sessionId=session, before="0" * 32)
    with pytest.raises(InvalidInput, match="empty"):
        await rig.say(session, "   ")
    with pytest.raises(InvalidInput, match="both"):
        await rig.call(o.SUBMIT, sessionId=session, text="a", blocks=[{"kind": "text", "text": "b"}])


async def test_without_a_folder_nothing_works_but_status(rig: HostsRig) -> None:
    with pytest.raises(InvalidState, match="No folder"):
        await rig.call(o.SESSION_LIST)
    assert (await rig.call(o.STATUS)).kind == "Inactive"


async def test_a_session_of_somebody_else_is_read_only_until_it_is_adopted(rig: HostsRig) -> None:
    await rig.folder()
    session = await rig.new()
    await rig.say(session, "planted")
    await rig.hosts.shutdown()
    (rig.tmp_path / "home" / "state" / "signing.key").unlink()  # now the user is somebody else

    rig.hosts = rig.again()
    await rig.folder()
    assert (await rig.call(o.SESSION_LIST)).sessions[0].state == "foreign"
    view = await rig.call(o.RESUME, sessionId=session)
    assert not view.trusted
    assert "foreign" in [notice.code for notice in view.notices]
    with pytest.raises(SessionForeign):
        await rig.say(session, "hello")
    with pytest.raises(SessionForeign):
        await rig.call(o.CONDENSE, sessionId=session)

    await rig.call(o.SESSION_ADOPT, sessionId=session)
    assert (await rig.say(session, "hello")).phase == "settled"


async def test_two_folders_keep_apart(rig: HostsRig) -> None:
    one, two = await rig.folder("one"), await rig.folder("two")
    first, second = await rig.new(workspace=one), await rig.new(workspace=two)
    await rig.say(first, "in one")
    await rig.say(second, "in two")
    assert [s.id for s in (await rig.call(o.SESSION_LIST, workspace=two)).sessions] == [second]
    await rig.call(o.REMEMBER, text="secret of one", workspace=one)
    assert (await rig.call(o.RECALL, text="secret", workspace=two)).hits == []

    await rig.hosts.close_folder(one)
    with pytest.raises(SessionNotFound):
        await rig.call(o.RESUME, sessionId=first, workspace=two)


async def test_memory_round_trip(rig: HostsRig) -> None:
    await rig.folder()
    kept = await rig.call(o.REMEMBER, text="The build needs Node 20.", tags=["build"])
    again = await rig.call(o.REMEMBER, text="The build needs Node 20.")
    assert (kept.created, again.created, again.entry.id) == (True, False, kept.entry.id)
    assert [hit.entry.content for hit in (await rig.call(o.RECALL, text="which node for building?")).hits] == [
        "The build needs Node 20."
    ]
    assert len((await rig.call(o.MEMORY_LIST, tags=["build"])).entries) == 1
    assert (await rig.call(o.FORGET, id=kept.entry.id)).forgotten
    assert (await rig.call(o.MEMORY_LIST)).entries == []
    assert len(rig.outlet.memories) == 2


@pytest.mark.parametrize("store", ["file", "sqlite"])
async def test_memory_is_kept_by_either_store_and_stays_with_a_folder_that_moves(rig: HostsRig, store: str) -> None:
    await rig.hosts.configure({"memory": {"store": store}})
    uri = await rig.folder()
    await rig.call(o.REMEMBER, text="The build needs Node 20.")
    await rig.hosts.close_folder(uri)
    (rig.tmp_path / "ws").rename(rig.tmp_path / "moved")
    await rig.folder("moved")
    assert [hit.entry.content for hit in (await rig.call(o.RECALL, text="node")).hits] == ["The build needs Node 20."]


async def test_bad_settings_are_reported_and_the_good_ones_hold(rig: HostsRig) -> None:
    await rig.folder()
    notices = await rig.hosts.configure({"maxTurns": "many", "thinking": True, "compaction": {"keepRecent": 0}})
    assert sorted(notice.text.split(" ")[1] for notice in notices) == [
        "indusagi.compaction.keepRecent",
        "indusagi.maxTurns",
    ]
    host = next(iter(rig.hosts._hosts.values()))
    assert (host.settings.thinking, host.settings.max_turns, host.settings.compaction.keep_recent) == (True, 100, 8)


async def test_a_group_where_a_plain_value_belongs_is_reported_and_what_stood_before_holds(tmp_path: Path) -> None:
    config = tmp_path / "home" / "config" / "config.toml"
    config.parent.mkdir(parents=True)
    config.write_text('model = "local:smollm2"\n', "utf-8")
    rig = HostsRig(tmp_path, ["one"])
    await rig.folder()
    notices = await rig.hosts.configure({"model": {"name": "x"}, "maxTurns": 7})
    assert ["indusagi.model" in notice.text for notice in notices] == [True]
    host = next(iter(rig.hosts._hosts.values()))
    assert (host.settings.model, host.settings.max_turns) == ("local:smollm2", 7)
    await rig.hosts.shutdown()


async def test_other_settings_take_no_notice_away_but_their_own(rig: HostsRig) -> None:
    await rig.folder()
    host = next(iter(rig.hosts._hosts.values()))
    await rig.hosts.configure({"maxTurns": "many"})
    host._notify(Notice("warning", "polling", "looked for"))
    await rig.hosts.configure({"maxTurns": 5})
    assert [notice.code for notice in (await rig.call(o.STATUS)).workspaces[0].notices] == ["polling"]


async def test_a_memory_that_cannot_be_read_is_told_once(rig: HostsRig) -> None:
    await rig.folder()
    host = next(iter(rig.hosts._hosts.values()))
    host.settings = msgspec.structs.replace(host.settings, memory=MemorySettings(store="file"))
    await host.memory.remember("Releases are cut on Tuesdays")
    folder = host.root / ".indusagi" / "memory"
    for number in range(30):
        (folder / f"broken{number}.json").write_text("{", "utf-8")
    for _ in range(2):
        assert len(await host.memory.list()) == 1
    await asyncio.sleep(0)
    codes = [notice.code for notice in (await rig.call(o.STATUS)).workspaces[0].notices]
    assert codes == ["memory_skipped"] * MOST_NOTICES


async def test_a_session_that_is_opened_while_settings_are_taken_does_no_harm(
    rig: HostsRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    await rig.folder()
    await rig.new()
    host = next(iter(rig.hosts._hosts.values()))
    rules = host._rules

    async def meanwhile() -> Any:
        monkeypatch.setattr(host, "_rules", rules)
        await rig.new()
        return await rules()

    monkeypatch.setattr(host, "_rules", meanwhile)
    assert await rig.hosts.configure({"maxTurns": 5}) == []
    assert len(host.live) == 2


async def test_models_are_listed_with_how_to_set_a_better_one(rig: HostsRig) -> None:
    await rig.folder()
    listed = await rig.call(o.MODELS_LIST)
    assert listed.current.startswith("scripted:")
    assert "local:smollm2" in [model.id for model in listed.models]
    assert "ANTHROPIC_API_KEY" in listed.hint


class Ollama(http.server.BaseHTTPRequestHandler):
    """What Ollama answers when it is asked for its models."""

    def do_GET(self) -> None:
        data = json.dumps({"object": "list", "data": [{"id": "qwen3", "object": "model"}]}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: object) -> None:
        """Quiet."""


async def test_an_ollama_that_runs_at_its_default_address_is_offered(rig: HostsRig) -> None:
    await rig.folder()
    assert "run Ollama" in (await rig.call(o.MODELS_LIST)).hint
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 11434), Ollama)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        listed = await rig.call(o.MODELS_LIST)
    finally:
        await asyncio.to_thread(server.shutdown)
        server.server_close()
        thread.join()
    assert listed.hint.startswith("Ollama is running here: choose ollama:qwen3.")
    assert [model.available for model in listed.models if model.id == "ollama:qwen3"] == [True]


async def test_a_queue_is_told(tmp_path: Path) -> None:
    rig = HostsRig(tmp_path, [{"text": "slow", "wait": 0.05}, "quick"])
    await rig.folder()
    session = await rig.new()
    first = asyncio.create_task(rig.say(session, "a"))
    await asyncio.sleep(0.02)
    second = asyncio.create_task(rig.say(session, "b"))
    await asyncio.gather(first, second)
    counts = [event.count for event in rig.outlet.of(session) if isinstance(event, QueueChanged)]
    assert counts == [1, 0]
    await rig.hosts.shutdown()


async def test_two_windows_see_each_other_and_lose_nothing(rig: HostsRig) -> None:
    await rig.folder()
    session = await rig.new()
    await rig.say(session, "from the first window")

    second = HostsRig.__new__(HostsRig)
    second.tmp_path, second.script, second.outlet = rig.tmp_path, rig.script, RecordingOutlet()
    second.hosts = second.again()
    await second.folder()
    await second.call(o.RESUME, sessionId=session)
    await asyncio.gather(rig.say(session, "one"), second.say(session, "two"))

    for _ in range(500):
        trees = [await window.call(o.SESSION_TREE, sessionId=session) for window in (rig, second)]
        if all(len(tree.nodes) == 6 for tree in trees):
            break
        await asyncio.sleep(0.02)  # the watcher's own time is measured in its benchmark
    assert {node.id for node in trees[0].nodes} == {node.id for node in trees[1].nodes}
    assert {node.preview for node in trees[0].nodes} >= {"from the first window", "one", "two"}
    changed = [
        event for event in (*rig.outlet.of(session), *second.outlet.of(session)) if isinstance(event, SessionChanged)
    ]
    assert any(len(event.diverged) == 2 for event in changed)
    await second.hosts.shutdown()


async def test_secrets_of_known_shapes_are_not_kept(rig: HostsRig) -> None:
    await rig.folder()
    session = await rig.new()
    secret = "ghp_" + "a1B2c3D4e5F6" * 3
    await rig.say(session, f"my token is {secret}")
    data = b"".join(path.read_bytes() for path in (rig.tmp_path / "ws" / ".indusagi").rglob("*") if path.is_file())
    assert secret.encode() not in data
    assert b"my token is" in data


async def test_idle_sessions_are_let_go_wholly_and_come_back(rig: HostsRig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("indusagi_lsp.workspace.host.MAX_IDLE_SESSIONS", 3)
    await rig.folder()
    sessions = [await rig.new() for _ in range(6)]
    host = next(iter(rig.hosts._hosts.values()))
    assert len(host.live) <= 3
    assert len(host.store._open) == len(host.live)
    assert (await rig.say(sessions[0], "still here")).phase == "settled"


async def test_a_session_that_cannot_be_closed_keeps_nothing_else_from_its_end(
    rig: HostsRig, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    await rig.folder()
    first, _ = await rig.new(), await rig.new()
    host = next(iter(rig.hosts._hosts.values()))
    closed: list[str] = []

    async def refuse() -> None:
        raise PersistenceFault("The disk is full.")

    async def ended() -> None:
        closed.append("toolbox")

    monkeypatch.setattr(host.live[first].session, "close", refuse)
    monkeypatch.setattr(host.toolbox, "close", ended)
    await rig.hosts.shutdown()
    assert closed == ["toolbox"]
    assert not host.live
    assert host.store.open_ids() == {first}
    assert "The disk is full." in caplog.text


async def test_a_refused_prompt_changes_no_model(rig: HostsRig) -> None:
    await rig.folder()
    session = await rig.new()
    with pytest.raises(InvalidInput):
        await rig.call(o.SUBMIT, sessionId=session, text=" ", model="local:smollm2")
    host = next(iter(rig.hosts._hosts.values()))
    assert host.live[session].agent.config.model.startswith("scripted:")
    with pytest.raises(InvalidInput, match="text"):
        await rig.call(o.SUBMIT, sessionId=session, blocks=[{"kind": "odd"}])


async def test_the_setting_reaches_sessions_that_chose_no_model_and_a_choice_outlives_a_restart(rig: HostsRig) -> None:
    await rig.folder()
    free, chosen = await rig.new(), await rig.new()
    scripted = f"scripted:{rig.script}"
    await rig.say(chosen, "hi", model=scripted)
    await rig.hosts.configure({"model": "local:smollm2"})
    host = next(iter(rig.hosts._hosts.values()))
    assert host.live[free].agent.config.model == "local:smollm2"
    assert host.live[chosen].agent.config.model == scripted
    await rig.say(free, "hi", model=scripted)
    await rig.hosts.shutdown()

    rig.hosts = rig.again()
    await rig.hosts.configure({"model": "local:smollm2"})
    await rig.folder()
    assert (await rig.call(o.RESUME, sessionId=free)).session.model == scripted
    host = next(iter(rig.hosts._hosts.values()))
    assert host.live[free].agent.config.model == scripted


@pytest.mark.parametrize("cursor", ["zzz", "²:x", "5", ":"])
async def test_a_cursor_that_is_none_is_refused(rig: HostsRig, cursor: str) -> None:
    await rig.folder()
    with pytest.raises(InvalidInput, match="cursor"):
        await rig.call(o.SESSION_LIST, cursor=cursor)


async def test_the_status_of_a_folder_that_is_not_open_is_an_error(rig: HostsRig) -> None:
    await rig.folder()
    with pytest.raises(InvalidInput, match="not open"):
        await rig.call(o.STATUS, workspace="file:///elsewhere")


async def test_a_model_that_only_answered_is_not_a_choice(rig: HostsRig) -> None:
    await rig.folder()
    session = await rig.new()
    await rig.say(session, "hi")
    await rig.hosts.shutdown()
    rig.hosts = rig.again()
    await rig.hosts.configure({"model": "local:smollm2"})
    await rig.folder()
    assert (await rig.call(o.RESUME, sessionId=session)).session.model is None
    host = next(iter(rig.hosts._hosts.values()))
    assert host.live[session].agent.config.model == "local:smollm2"

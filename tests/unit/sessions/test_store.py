"""The store and its sessions, in one window: the guide's examples, the layout on disk, every operation of the graph."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from indusagi_lsp.contract.errors import InvalidInput, InvalidState, NodeNotFound, PersistenceFault, SessionNotFound
from indusagi_lsp.contract.models import Usage
from indusagi_lsp.contract.turns import TextBlock, ToolCallBlock, ToolResultBlock, Turn, assistant, user
from indusagi_lsp.sessions import SessionStore, hash_node, summaries
from indusagi_lsp.sessions.oscalls import OsCalls

CWD = "file:///workspace"


def records(path: str) -> list[dict]:
    with open(path, "rb") as file:
        return [json.loads(line) for line in file.read().split(b"\n") if line]


def kinds(path: str) -> list[str]:
    return [record["type"] for record in records(path)]


def words(turns) -> list[str]:
    return [turn.text for turn in turns]


async def test_a_missing_file_is_an_empty_graph(store: SessionStore) -> None:
    graph = await store.load_session("never-written")
    assert graph.leaf is None
    assert len(graph) == 0
    assert await store.list_sessions() == []
    assert not store.root.exists()


async def test_migrators_run_in_order_on_every_raw_record(root: Path) -> None:
    class Rename:
        id = "2026-06-rename-leaf"

        def upgrade(self, raw):
            if raw.get("type") == "head" and "tip" in raw:
                raw = {"type": "head", "leaf": raw["tip"]}
            return raw

    class Role:
        id = "role"

        def upgrade(self, raw):
            if raw.get("type") == "old-node":
                raw = {"type": "node", "node": raw["value"]}
            return raw

    class Broken:
        id = "broken"

        def upgrade(self, raw):
            if raw.get("type") == "boom":
                raise KeyError("no")
            return None if raw.get("type") == "nothing" else raw

    turn = {"role": "user", "blocks": [{"kind": "text", "text": "hi"}]}
    node = {"id": hash_node(None, turn, 7), "parent": None, "turn": turn, "createdAt": 7}
    root.mkdir(parents=True)
    lines = [
        {"type": "old-node", "value": node},
        {"type": "boom"},
        {"type": "nothing"},
        {"type": "head", "tip": node["id"]},
    ]
    (root / "session-42.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))

    store = SessionStore(root, [Rename(), Role(), Broken()])
    graph = await store.load_session("session-42")
    assert words(graph.path_to(graph.leaf)) == ["hi"]
    assert graph.node(node["id"]).verified
    session = await store.open("session-42")
    assert session.report.counts == {"migrator": 2}
    assert session.graph.leaf == node["id"]
    assert await SessionStore(root).load_session("session-42") is not graph
    await store.close()


async def test_records_that_are_no_node_and_no_head_are_passed_over(root: Path) -> None:
    root.mkdir(parents=True)
    turn = {"role": "user", "blocks": []}
    node = {"id": hash_node(None, turn, 7), "parent": None, "turn": turn, "createdAt": 7}
    bad = [
        {"type": "node", "node": {"id": 5}},
        {"type": "node"},
        {"type": "node", "node": {**node, "id": "x", "turn": {"role": 1, "blocks": []}}},
        {"type": "node", "node": {**node, "id": "y", "createdAt": "today"}},
        {"type": "node", "node": {**node, "id": "z", "createdAt": True}},
        {"type": "head", "leaf": 3},
        {"type": "weather", "sunny": True},
        {},
        5,
        [],
    ]
    text = "".join(
        json.dumps(line) + "\n" for line in [*bad, {"type": "node", "node": node}, {"type": "head", "leaf": node["id"]}]
    )
    (root / "s.jsonl").write_text(text)
    graph = await SessionStore(root).load_session("s")
    assert list(graph.ids) == [node["id"]]
    assert graph.leaf == node["id"]
    assert (root / "s.jsonl").read_text() == text


async def test_layout_of_a_new_session(store: SessionStore, root: Path) -> None:
    session = await store.create(cwd=CWD, title="A title", model="m")
    [node] = await session.append([user("hi")])
    assert kinds(session.path) == ["session", "node", "head"]
    header, written, head = records(session.path)
    assert header == {
        "type": "session",
        "schema": 1,
        "id": session.id,
        "cwd": CWD,
        "createdAt": header["createdAt"],
        "title": "A title",
        "model": "m",
    }
    assert written["node"] == {
        "id": node.id,
        "parent": None,
        "turn": {"role": "user", "blocks": [{"kind": "text", "text": "hi"}]},
        "createdAt": node.created_at,
    }
    assert list(head) == ["type", "leaf", "at", "by", "why", "mac"]
    assert (head["leaf"], head["why"]) == (node.id, "append")
    assert session.path == str(root / f"{session.id}.jsonl")
    assert await store.list_sessions() == [session.id]


async def test_everything_is_private_under_any_umask(window: Callable[..., SessionStore], root: Path) -> None:
    for mask in (0o000, 0o022, 0o777):
        before = os.umask(mask)
        try:
            store = window()
            session = await store.create(cwd=CWD)
            await session.append([user("secret")])
            await store.summaries()
        finally:
            os.umask(before)
    for folder, folders, files in os.walk(root.parent):
        for name in folders:
            assert stat.S_IMODE(os.stat(os.path.join(folder, name)).st_mode) == 0o700
        for name in files:
            assert stat.S_IMODE(os.stat(os.path.join(folder, name)).st_mode) == 0o600
    assert stat.S_IMODE(root.parent.stat().st_mode) == 0o700
    assert (root.parent / ".gitignore").read_text() == "*\n"


async def test_a_gitignore_that_the_team_changed_stays(store: SessionStore, root: Path) -> None:
    root.parent.mkdir(parents=True)
    (root.parent / ".gitignore").write_text("cache\n")
    await store.create(cwd=CWD)
    assert (root.parent / ".gitignore").read_text() == "cache\n"


@pytest.mark.parametrize("which", [".indusagi", "sessions"])
async def test_nothing_is_written_or_read_through_a_planted_link(
    store: SessionStore, root: Path, tmp_path: Path, which: str
) -> None:
    outside = tmp_path / "outside"
    (outside / "sessions").mkdir(parents=True)
    workspace = root.parent.parent
    workspace.mkdir()
    if which == ".indusagi":
        root.parent.symlink_to(outside)
    else:
        root.parent.mkdir()
        root.symlink_to(outside / "sessions")
    for attempt in (
        store.create(cwd=CWD),
        store.open("a"),
        store.list_sessions(),
        store.load_session("a"),
        store.summaries(),
    ):
        with pytest.raises(PersistenceFault):
            await attempt
    assert [path.name for path in outside.rglob("*")] == ["sessions"]


async def test_a_session_file_that_is_a_link_or_a_device_is_refused(
    store: SessionStore, root: Path, tmp_path: Path
) -> None:
    await store.create(cwd=CWD, session_id="real")
    target = tmp_path / "target.jsonl"
    target.write_text('{"type":"head","leaf":null}\n')
    (root / "link.jsonl").symlink_to(target)
    os.mkfifo(root / "fifo.jsonl")
    (root / "folder.jsonl").mkdir()
    assert await store.list_sessions() == ["real"]
    for name in ("link", "fifo", "folder"):
        with pytest.raises(PersistenceFault):
            await store.open(name)
    assert [summary.id for summary in await store.summaries()] == ["real"]


BAD_IDS = [
    "",
    ".",
    "..",
    "a..b",
    "../etc/x",
    "a/b",
    "a\\b",
    "-a",
    "a-",
    ".a",
    "a.",
    "con",
    "NUL.txt",
    "lpt1",
    "é",
    "a b",
    "a\n",
    "x" * 129,
]


@pytest.mark.parametrize("name", BAD_IDS)
async def test_bad_ids(store: SessionStore, name: str) -> None:
    for attempt in (
        store.open(name),
        store.load_session(name),
        store.create(cwd=CWD, session_id=name or "."),
        store.delete(name),
    ):
        with pytest.raises(InvalidInput):
            await attempt


@pytest.mark.parametrize("name", ["a", "A1", "a.b", "a_b-c", "x" * 128, "console", "session-42"])
async def test_good_ids(store: SessionStore, name: str) -> None:
    assert (await store.create(cwd=CWD, session_id=name)).id == name


async def test_ids_are_compared_without_case(store: SessionStore) -> None:
    await store.create(cwd=CWD, session_id="Mine")
    with pytest.raises(InvalidInput):
        await store.create(cwd=CWD, session_id="mINE")
    assert (await store.open("MINE")).id == "Mine"


async def test_resuming_what_is_not_there(store: SessionStore) -> None:
    with pytest.raises(SessionNotFound):
        await store.open("nothing")
    with pytest.raises(SessionNotFound):
        await store.delete("nothing")


async def test_three_submits_are_six_nodes(store: SessionStore, window: Callable[..., SessionStore]) -> None:
    session = await store.create(cwd=CWD)
    for prompt in ("one", "two", "three"):
        await session.append([user(prompt)])
        await session.append([assistant("ok")])
    assert kinds(session.path).count("node") == 6
    again = await window().open(session.id)
    assert words(again.graph.path_to(again.graph.leaf)) == ["one", "ok", "two", "ok", "three", "ok"]
    assert words(again.model_view()) == ["one", "ok", "two", "ok", "three", "ok"]
    assert again.trusted
    assert again.report.clean


async def test_one_write_carries_nodes_and_head(store: SessionStore, monkeypatch: pytest.MonkeyPatch) -> None:
    session = await store.create(cwd=CWD)
    written: list[bytes] = []
    real = os.write
    monkeypatch.setattr(os, "write", lambda fd, data: written.append(bytes(data)) or real(fd, data))
    await session.append([user("a"), assistant("b"), user("c")])
    assert len(written) == 1
    assert written[0].count(b"\n") == 4
    assert written[0].endswith(b"}\n")


async def test_an_assistant_turn_without_blocks_is_never_stored(store: SessionStore) -> None:
    session = await store.create(cwd=CWD)
    with pytest.raises(InvalidInput):
        await session.append([Turn("assistant", ())])
    assert kinds(session.path) == ["session"]
    assert session.graph.leaf is None


async def test_what_cannot_be_written_is_refused_before_it_counts(store: SessionStore) -> None:
    session = await store.create(cwd=CWD)
    deep: list = []
    for _ in range(10_000):
        deep = [deep]
    with pytest.raises(InvalidInput):
        await session.append([Turn("assistant", (ToolCallBlock("c", "n", deep),))])
    with pytest.raises(InvalidInput):
        await session.append([user("fine"), Turn("assistant", (ToolCallBlock("c", "n", {1, 2}),))])
    with pytest.raises(InvalidInput):
        await session.write({"type": "x", "value": {1, 2}})
    assert session.unsaved == 0
    assert session.graph.leaf is None
    await session.append([user("next")])
    assert words(session.model_view()) == ["next"]


async def test_odd_texts_come_back_as_they_were(store: SessionStore, window: Callable[..., SessionStore]) -> None:
    odd = [
        "\u2028\u2029\x85\x0b\x0c\x1c\x1d\x1e\r\n",
        "\x00\x7f",
        "\ud800 lone",
        "\U0001f600",
        '{"type":"node"}',
        "a\nb",
    ]
    session = await store.create(cwd=CWD)
    nodes = await session.append([user(text) for text in odd])
    data = {"huge": 2**63 - 1, "big": 2**53 + 1, "f": 1.0, "e": 1e300, "10": 1, "9": [None, True]}
    [call] = await session.append([Turn("assistant", (ToolCallBlock("c", "n", data),))])
    again = await window().open(session.id)
    assert words(again.graph.path_to(nodes[-1].id)) == odd
    assert again.graph.node(call.id).turn.tool_calls[0].input == data
    assert again.report.clean
    assert again.trusted


async def test_unknown_blocks_fields_and_records_are_kept(
    store: SessionStore, window: Callable[..., SessionStore]
) -> None:
    session = await store.create(cwd=CWD)
    turn = {
        "role": "user",
        "blocks": [{"kind": "video", "x": [1.5]}, {"kind": "text", "text": "t", "z": 1}],
        "mood": "good",
    }
    [node] = await session.append([turn])
    with open(session.path, "ab") as file:
        file.write(b'{"type":"weather","sunny":   true}\n')
    before = Path(session.path).read_bytes()
    again = await window().open(session.id)
    await again.append([user("next")])
    assert Path(session.path).read_bytes().startswith(before)
    assert records(session.path)[1]["node"]["turn"] == turn
    assert again.graph.node(node.id).verified


async def test_fork_in_place(store: SessionStore, window: Callable[..., SessionStore]) -> None:
    session = await store.create(cwd=CWD)
    a, _b, c = await session.append([user("a"), assistant("b"), user("c")])
    await session.move_head(a.id, "fork")
    await session.append([assistant("other")])
    again = await window().open(session.id)
    assert words(again.model_view()) == ["a", "other"]
    assert set(again.graph.leaves()) == {c.id, again.graph.leaf}
    assert again.trusted
    await again.move_head(None, "fork")
    assert (await window().open(session.id)).graph.leaf is None
    with pytest.raises(NodeNotFound):
        await again.move_head("nothing", "fork")


async def test_the_title_is_what_the_user_said_not_what_the_editor_sent_along(store: SessionStore) -> None:
    session = await store.create(cwd=CWD)
    file = TextBlock('<context kind="file">print(1)</context>', {"context": {"kind": "file", "at": "file:///a.py"}})
    await session.append([Turn("user", (file, TextBlock("What does it print?")))])
    assert [one.title for one in await store.summaries()] == ["What does it print?"]


async def test_fork_to_a_new_session(store: SessionStore, window: Callable[..., SessionStore]) -> None:
    session = await store.create(cwd=CWD, title="Parent")
    a, b, _ = await session.append([user("a"), assistant("b"), user("c")])
    await session.label(a.id, "pin")
    fork = await session.fork_to_new(b.id, title="Child")
    again = await window().open(fork.id)
    assert words(again.model_view()) == ["a", "b"]
    assert again.graph.ids_to(again.graph.leaf) == [a.id, b.id]
    assert (again.meta.parent_session, again.meta.title, again.meta.cwd) == (session.id, "Child", CWD)
    assert again.labels == {a.id: "pin"}
    assert again.trusted
    empty = await session.fork_to_new(None)
    assert (await window().open(empty.id)).graph.leaf is None


async def test_condensing_and_undoing(store: SessionStore, window: Callable[..., SessionStore]) -> None:
    session = await store.create(cwd=CWD)
    nodes = await session.append([user("a"), assistant("b"), user("c"), assistant("d")])
    await session.label(nodes[2].id, "pin")
    old = session.graph.leaf
    record = await session.condense(user("[condensed earlier context]"), 2, trigger="manual", before=100, after=40)

    again = await window().open(session.id)
    assert words(again.model_view()) == ["[condensed earlier context]", "c", "d"]
    path = again.graph.nodes_to(again.graph.leaf)
    assert path[0].parent is None
    assert [node.created_at for node in path] == [nodes[1].created_at, nodes[2].created_at, nodes[3].created_at]
    assert again.condensations == [record]
    assert (record["from"], record["cut"]) == (old, nodes[2].id)
    assert list(record["copies"].values()) == [nodes[2].id, nodes[3].id]
    assert again.labels[path[1].id] == "pin"

    assert await again.undo_condense() == old
    assert words((await window().open(session.id)).model_view()) == ["a", "b", "c", "d"]
    with pytest.raises(InvalidState):
        await again.undo_condense()

    size = kinds(session.path).count("node")
    repeated = await again.condense(user("[condensed earlier context]"), 2)
    assert repeated["summary"] == record["summary"]
    assert kinds(session.path).count("node") == size
    with pytest.raises(InvalidInput):
        await again.condense(user("x"), 0)
    with pytest.raises(InvalidInput):
        await again.condense(user("x"), 9)


async def test_condensing_twice_and_forking_the_condensed_line(
    store: SessionStore, window: Callable[..., SessionStore]
) -> None:
    session = await store.create(cwd=CWD)
    await session.append([user(str(n)) for n in range(6)])
    await session.condense(user("S1"), 4)
    await session.append([assistant("more"), user("and more")])
    second = await session.condense(user("S2"), 3)
    assert words(session.model_view()) == ["S2", "more", "and more"]
    fork = await session.fork_to_new(session.graph.leaf)
    assert fork.graph.path_to(fork.graph.leaf) == session.graph.path_to(session.graph.leaf)
    assert await session.undo_condense() == second["from"]
    assert words(session.model_view()) == ["S1", "4", "5", "more", "and more"]
    await session.undo_condense()
    assert words(session.model_view()) == ["0", "1", "2", "3", "4", "5"]
    assert words((await window().open(session.id)).model_view()) == ["0", "1", "2", "3", "4", "5"]


async def test_labels_usage_and_receipts_outlive_a_restart(
    store: SessionStore, window: Callable[..., SessionStore]
) -> None:
    session = await store.create(cwd=CWD)
    [a, b] = await session.append([user("a"), assistant("b")])
    await session.label(a.id, "here")
    await session.label(b.id, "there")
    await session.label(a.id, None)
    usage = Usage(10, 5, 2, 1, 0.25)
    await session.usage(b.id, usage, "provider:m", "provider")
    await session.receipt(b.id, "c1", "started")
    await session.receipt(b.id, "c1", "finished")
    await session.update(title="New")
    again = await window().open(session.id)
    assert again.labels == {b.id: "there"}
    assert again.usages == {b.id: usage}
    assert again.receipts == {(b.id, "c1"): "finished"}
    assert (again.meta.title, again.meta.cwd, again.meta.model) == ("New", CWD, None)  # what answered is no choice
    with pytest.raises(NodeNotFound):
        await session.label("nothing", "x")


async def test_an_unanswered_call_is_answered_in_the_view_and_stored_with_the_next_turn(
    store: SessionStore, window: Callable[..., SessionStore]
) -> None:
    session = await store.create(cwd=CWD)
    calls = Turn("assistant", (ToolCallBlock("c1", "read", {}), ToolCallBlock("c2", "write", {})))
    _, caller = await session.append([user("do it"), calls])
    await session.receipt(caller.id, "c2", "started")
    size = os.path.getsize(session.path)

    again = await window().open(session.id)
    answers = again.model_view()[-1].tool_results
    assert [(one.call_id, one.is_error) for one in answers] == [("c1", True), ("c2", True)]
    assert "never started" in answers[0].output
    assert "effects are unknown" in answers[1].output
    assert os.path.getsize(session.path) == size

    view = again.model_view()
    await again.append([user("go on")])
    assert words(again.model_view()[-1:]) == ["go on"]
    assert again.model_view()[:-1] == view
    assert again.graph.path_to(again.graph.leaf)[2].tool_results == answers


async def test_results_that_come_in_time_are_not_answered_twice(store: SessionStore) -> None:
    session = await store.create(cwd=CWD)
    await session.append([user("u"), Turn("assistant", (ToolCallBlock("c1", "a", {}), ToolCallBlock("c2", "b", {})))])
    await session.append([Turn("tool", (ToolResultBlock("c1", "one"),))])
    await session.append([Turn("tool", (ToolResultBlock("c2", "two"),))])
    await session.append([assistant("done")])
    assert [turn.role for turn in session.model_view()] == ["user", "assistant", "tool", "tool", "assistant"]


async def test_deleting_is_for_good(store: SessionStore, window: Callable[..., SessionStore]) -> None:
    session = await store.create(cwd=CWD, session_id="s")
    await session.append([user("a")])
    await window().delete("s")
    with pytest.raises(SessionNotFound):
        await session.append([user("zombie")])
    assert await store.list_sessions() == []
    fresh = await store.create(cwd=CWD, session_id="s")
    await fresh.append([user("new life")])
    assert words((await window().open("s")).model_view()) == ["new life"]


async def test_appends_of_many_tasks_keep_their_order_and_share_writes(
    store: SessionStore, window: Callable[..., SessionStore]
) -> None:
    import asyncio

    session = await store.create(cwd=CWD)
    await asyncio.gather(*(session.append([Turn("user", (TextBlock(str(n)),))]) for n in range(50)))
    again = await window().open(session.id)
    assert words(again.model_view()) == [str(n) for n in range(50)]


async def test_a_cancelled_append_leaves_nothing_half_done(
    store: SessionStore, window: Callable[..., SessionStore]
) -> None:
    import asyncio

    session = await store.create(cwd=CWD)
    for number in range(20):
        task = asyncio.create_task(session.append([user(str(number))]))
        for _ in range(number % 4):
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    await session.append([user("end")])
    assert session.unsaved == 0
    again = await window().open(session.id)
    assert words(again.model_view()) == words(session.model_view())
    assert again.report.clean


async def test_secrets_are_taken_out_before_a_turn_is_hashed(window: Callable[..., SessionStore]) -> None:
    def redact(turn: Turn) -> Turn:
        return user(turn.text.replace("hunter2", "[redacted]"))

    session = await window(redact=redact).create(cwd=CWD)
    [node] = await session.append([user("my password is hunter2")])
    assert node.turn.text == "my password is [redacted]"
    assert b"hunter2" not in Path(session.path).read_bytes()
    again = await window().open(session.id)
    assert again.graph.node(node.id).verified


async def test_a_fork_knows_of_a_call_that_was_started(window) -> None:
    session = await window().create(cwd=CWD)
    await session.append([user("go")])
    [caller] = await session.append([Turn("assistant", (ToolCallBlock("c", "run", {}),))])
    await session.receipt(caller.id, "c", "started")
    forked = await session.fork_to_new(caller.id)
    assert forked.model_view()[-1] == session.model_view()[-1]
    assert "effects are unknown" in forked.model_view()[-1].tool_results[0].output


async def test_a_fork_keeps_labels_costs_and_condensations_in_one_write(
    window: Callable[..., SessionStore], monkeypatch: pytest.MonkeyPatch
) -> None:
    session = await window().create(cwd=CWD)
    [_, b, c] = await session.append([user("a"), assistant("b"), user("c")])
    await session.usage(b.id, Usage(10, 5, 2, 1, 0.25), "provider:m", "provider")
    await session.condense(user("summary"), 2)
    [d] = await session.append([assistant("d")])
    await session.usage(d.id, Usage(7, 3), "provider:n", "provider")
    await session.label(c.id, "here")
    writes: list[bytes] = []
    write = OsCalls.write
    monkeypatch.setattr(OsCalls, "write", lambda calls, fd, data: writes.append(data) or write(calls, fd, data))
    forked = await session.fork_to_new(d.id)
    assert len(writes) == 1
    await forked.close()

    again = await window().open(forked.id)
    assert again.usages == {d.id: Usage(7, 3)}
    kept = [json.loads(line) for line in Path(again.path).read_bytes().splitlines()]
    [usage] = [record for record in kept if record["type"] == "usage"]
    assert (usage["model"], usage["provider"]) == ("provider:n", "provider")
    assert list(again.labels.values()) == ["here"]
    assert again.condensations == session.condensations
    parent = await session.fork_to_new(b.id)
    assert parent.usages == {b.id: Usage(10, 5, 2, 1, 0.25)}


async def test_a_title_that_an_older_program_made_is_made_anew(
    store: SessionStore, window: Callable[..., SessionStore], monkeypatch: pytest.MonkeyPatch
) -> None:
    session = await store.create(cwd=CWD)
    await session.append([user("What does it print?")])
    await session.close()
    # What was written just now would be read again in any case.
    monkeypatch.setattr(summaries, "_GRAIN_NS", -1_000_000_000_000)
    with monkeypatch.context() as older:
        older.setattr(summaries, "_first_words", lambda *_: "<context")
        older.setattr(summaries, "_VERSION", 1)
        assert [one.title for one in await window().summaries()] == ["<context"]
    assert [one.title for one in await window().summaries()] == ["What does it print?"]

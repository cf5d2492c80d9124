"""Going back: what is restored, what is left alone, what is refused."""

from __future__ import annotations

import os
import shutil

import pytest

from indusagi_lsp.contract.errors import InvalidInput, InvalidState, NodeNotFound, PersistenceFault
from indusagi_lsp.contract.turns import Turn, user
from indusagi_lsp.filehistory import Lineage, Member
from indusagi_lsp.filehistory.planning import LOST, UNSAVED
from indusagi_lsp.tools import writing
from unit.filehistory.rig import Played, tree


async def test_edits_are_undone_made_files_removed_and_removed_files_made_again(root):
    played = Played(root)
    played.write("a.txt", "one\n")
    played.write("gone.txt", "was here\n")
    before = tree(root)
    start = played.say()
    await played.edit({"a.txt": b"two\n", "new/deep/b.txt": b"b\n"})
    await played.edit({"gone.txt": None})

    plan = await played.plan(start)
    assert [(item.path, item.action, item.why) for item in plan.items] == [
        ("a.txt", "restore", ()),
        ("gone.txt", "recreate", ()),
        ("new/deep/b.txt", "remove", ()),
    ]
    assert plan.items[0].diff == "--- a/a.txt\n+++ b/a.txt\n@@ -1 +1 @@\n-two\n+one\n"
    done = await played.history.apply(plan)
    assert tree(root) == before
    assert not (root / "new").exists()
    assert done.restored == ("a.txt", "gone.txt", "new/deep/b.txt")
    assert not (await played.plan(start)).items


async def test_a_folder_that_the_user_put_something_into_stays(root):
    played = Played(root)
    start = played.say()
    await played.edit({"new/deep/b.txt": b"b\n"})
    played.write("new/mine.txt", "mine")
    await played.restore(start)
    assert played.read("new/mine.txt") == b"mine"
    assert not (root / "new/deep").exists()


async def test_going_back_halfway_and_forth_again(root):
    played = Played(root)
    played.write("a.txt", "0")
    played.say()
    first = await played.edit({"a.txt": b"1"})
    second = await played.edit({"a.txt": b"2"})
    third = await played.edit({"a.txt": b"3"})
    for node, text in ((first, b"1"), (third, b"3"), (None, b"0"), (second, b"2"), (third, b"3"), (first, b"1")):
        await played.restore(node)
        assert played.read("a.txt") == text


async def test_each_file_goes_by_its_own_last_change_on_the_way(root):
    played = Played(root)
    played.write("a.txt", "0")
    played.write("b.txt", "0")
    await played.edit({"a.txt": b"1"})
    middle = await played.edit({"b.txt": b"1"})
    last = await played.edit({"a.txt": b"2"})
    assert [item.path for item in (await played.plan(middle)).items] == ["a.txt"]
    await played.restore(middle)
    assert (played.read("a.txt"), played.read("b.txt")) == (b"1", b"1")
    await played.restore(last)
    assert (played.read("a.txt"), played.read("b.txt")) == (b"2", b"1")


async def test_what_the_user_changed_since_is_only_touched_when_chosen(root):
    played = Played(root)
    played.write("a.txt", "one\n")
    start = played.say()
    await played.edit({"a.txt": b"two\n", "b.txt": b"made\n"})
    played.write("a.txt", "mine\n")
    played.write("b.txt", "mine too\n")

    plan = await played.plan(start)
    assert [item.why for item in plan.items] == [("changed",), ("changed",)]
    done = await played.history.apply(plan)
    assert done.id is None
    assert (played.read("a.txt"), played.read("b.txt")) == (b"mine\n", b"mine too\n")
    assert done.kept == ("a.txt", "b.txt")

    done = await played.history.apply(plan, {"a.txt": "restore"})
    assert (played.read("a.txt"), played.read("b.txt")) == (b"one\n", b"mine too\n")
    await played.history.apply(await played.history.plan_undo(played.lineage, done.id))
    assert played.read("a.txt") == b"mine\n"


async def test_a_users_edit_between_the_agents_is_not_lost_unasked(root):
    played = Played(root)
    played.write("a.txt", "one")
    start = played.say()
    middle = await played.edit({"a.txt": b"two"})
    played.write("a.txt", "two, and mine")
    await played.edit({"a.txt": b"three, and mine"})

    assert [item.why for item in (await played.plan(start)).items] == [("between",)]
    # Going back to the middle keeps it: nothing is asked, and nothing is lost.
    assert [item.why for item in (await played.plan(middle)).items] == [()]
    await played.restore(middle)
    assert played.read("a.txt") == b"two, and mine"


async def test_a_choice_can_leave_a_file_as_it_is(root):
    played = Played(root)
    played.write("a.txt", "one")
    start = played.say()
    await played.edit({"a.txt": b"two", "b.txt": b"made"})
    done = await played.restore(start, **{"b.txt": "keep"})
    assert (played.read("a.txt"), played.read("b.txt"), done.kept) == (b"one", b"made", ("b.txt",))


async def test_forks_go_to_their_own_state(root):
    played = Played(root)
    played.write("a.txt", "0")
    fork = played.say()
    left = await played.edit({"a.txt": b"left", "left.txt": b"l"})
    await played.restore(fork)
    played.graph.branch_from(fork)
    right = await played.edit({"a.txt": b"right", "right.txt": b"r"})
    await played.restore(left)
    assert (played.read("a.txt"), played.read("left.txt"), played.read("right.txt")) == (b"left", b"l", None)
    await played.restore(right)
    assert (played.read("a.txt"), played.read("left.txt"), played.read("right.txt")) == (b"right", None, b"r")
    await played.restore(None)
    assert tree(root) == {"a.txt": (b"0", tree(root)["a.txt"][1])}


async def test_a_fork_without_restoring_still_offers_what_the_other_branch_did(root):
    played = Played(root)
    played.write("a.txt", "0")
    fork = played.say()
    await played.edit({"a.txt": b"1"})
    played.graph.branch_from(fork)
    here = played.say("something else")
    assert [item.path for item in (await played.plan(here)).items] == ["a.txt"]


async def test_the_way_leads_through_condensations(root):
    played = Played(root)
    played.write("a.txt", "0")
    played.say()
    first = await played.edit({"a.txt": b"1"})
    played.say("and now")
    second = await played.edit({"b.txt": b"b"})
    old = played.graph.nodes_to(second)
    cut = next(at for at, node in enumerate(old) if node.turn.text == "and now")

    played.graph.branch_from(None)
    summary = played.graph.append(user("[condensed]"), created_at=old[cut - 1].created_at)
    copies = {}
    for node in old[cut:]:
        copies[played.graph.append(node.turn, created_at=node.created_at).id] = node.id
    played.condensations.append(
        {"type": "condense", "summary": summary.id, "from": second, "cut": old[cut].id, "copies": copies}
    )
    leaf = played.graph.leaf
    assert not (await played.plan(leaf)).items
    assert [file.path for file in await played.history.changes(played.lineage, leaf)] == ["a.txt", "b.txt"]
    assert [item.path for item in (await played.plan(summary.id)).items] == ["b.txt"]
    third = await played.edit({"a.txt": b"3"})
    await played.restore(first)
    assert (played.read("a.txt"), played.read("b.txt")) == (b"1", None)
    await played.restore(third)
    assert (played.read("a.txt"), played.read("b.txt")) == (b"3", b"b")
    await played.restore(None)
    assert (played.read("a.txt"), played.read("b.txt")) == (b"0", None)


async def test_a_session_that_was_forked_off_knows_its_parents_changes(root):
    played = Played(root)
    played.write("a.txt", "0")
    start = played.say()
    first = await played.edit({"a.txt": b"1"})
    await played.edit({"a.txt": b"2"})
    made = played.clock.now_ms()
    child = Played(root, session="s2", clock=played.clock)
    for node in played.graph.nodes_to(first):
        child.graph.put(node, 10)
    child.graph.branch_from(first)
    lineage = Lineage([Member(child.graph), Member(played.graph, until=made)])
    plan = await child.history.plan_restore(lineage, start)
    await child.history.apply(plan)
    assert played.read("a.txt") == b"0"
    # What the parent does later is somebody else's: never undone unasked.
    await played.edit({"a.txt": b"9"})
    assert all(item.why for item in (await child.history.plan_restore(lineage, first)).items)


async def test_a_call_id_that_stands_twice_belongs_to_the_turn_before_it(root):
    played = Played(root)
    played.write("a.txt", "0")
    fork = played.say()
    left = await played.edit({"a.txt": b"1"})
    played.graph.branch_from(fork)
    played._calls = iter(["1"])
    played.call = lambda: _same_call(played)
    right = await played.edit({"b.txt": b"b"})
    assert [file.path for file in await played.history.changes(played.lineage, left)] == ["a.txt"]
    receipts = {(node, "call-1") for node in played.graph.ids if played.graph.node(node).turn.tool_calls}
    lineage = Lineage([Member(played.graph, receipts=receipts)])
    assert [file.path for file in await played.history.changes(lineage, left)] == ["a.txt"]
    assert [file.path for file in await played.history.changes(lineage, right)] == ["b.txt"]


def _same_call(played: Played) -> str:
    from indusagi_lsp.contract.turns import ToolCallBlock

    played.graph.append(Turn("assistant", (ToolCallBlock("call-1", "edit", {"again": True}),)))
    return "call-1"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b"a\r\nb\r\n", b"a\r\nB\r\n"),
        (b"\xef\xbb\xbfa\n", b"\xef\xbb\xbfb\n"),
        (b"mixed\r\nends\n", b"mixed\nends\r\n"),
        (b"no end", b"an end\n"),
        (b"", b"x"),
        (b"\0\x01\xff" * 100, b"\xfe\0"),
        (b"x" * (writing.MAX_FILE_BYTES - 1), b"small"),
        ("é\u2028\u202e".encode(), b"plain"),
    ],
)
async def test_every_byte_comes_back(root, old, new):
    played = Played(root)
    played.write("f", old)
    start = played.say()
    await played.edit({"f": new})
    plan = await played.plan(start)
    assert len(plan.items[0].diff) < 50_000
    assert not {"\u202e", "\0"} & set(plan.items[0].diff)
    await played.history.apply(plan)
    assert played.read("f") == old


@pytest.mark.parametrize("mode", [0o600, 0o755, 0o640, 0o444])
async def test_modes_come_back(root, mode):
    played = Played(root)
    played.write("f", "old")
    played.write("g", "old")
    for name in "fg":
        (root / name).chmod(mode)
    start = played.say()
    await played.edit({"f": b"new", "g": None})
    assert (root / "f").stat().st_mode & 0o777 == mode
    await played.restore(start)
    assert {one[1] for one in tree(root).values()} == {mode}


async def test_a_mode_that_the_user_changed_is_the_users(root):
    played = Played(root)
    played.write("f", "old")
    start = played.say()
    await played.edit({"f": b"new"})
    (root / "f").chmod(0o700)
    assert (await played.plan(start)).items[0].why == ("changed",)


async def test_a_deleted_folder_is_made_again_when_chosen(root):
    played = Played(root)
    played.write("d/e/f.txt", "old")
    start = played.say()
    await played.edit({"d/e/f.txt": b"new"})
    shutil.rmtree(root / "d")
    plan = await played.plan(start)
    assert (plan.items[0].action, plan.items[0].why) == ("recreate", ("changed",))
    await played.history.apply(plan, {"d/e/f.txt": "restore"})
    assert played.read("d/e/f.txt") == b"old"


async def test_nothing_is_written_through_a_link(root, tmp_path):
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "f.txt").write_bytes(b"theirs")
    played = Played(root)
    played.write("d/f.txt", "old")
    played.write("g.txt", "old")
    start = played.say()
    await played.edit({"d/f.txt": b"new", "g.txt": b"new"})
    shutil.rmtree(root / "d")
    (root / "d").symlink_to(outside)
    (root / "g.txt").unlink()
    (root / "g.txt").symlink_to(outside / "f.txt")
    plan = await played.plan(start)
    assert all(item.problem for item in plan.items)
    with pytest.raises(InvalidInput):
        await played.history.apply(plan, {"g.txt": "restore"})
    await played.history.apply(plan)
    assert (outside / "f.txt").read_bytes() == b"theirs"


async def test_a_link_inside_the_workspace_is_no_file_of_the_agents(root):
    played = Played(root)
    played.write("real.txt", "old")
    played.write("g.txt", "old")
    start = played.say()
    await played.edit({"g.txt": b"new"})
    (root / "g.txt").unlink()
    (root / "g.txt").symlink_to("real.txt")
    assert (await played.plan(start)).items[0].problem
    assert played.read("real.txt") == b"old"


async def test_a_hard_link_outside_keeps_its_content(root, tmp_path):
    played = Played(root)
    played.write("f.txt", "old")
    start = played.say()
    await played.edit({"f.txt": b"new"})
    os.link(root / "f.txt", tmp_path / "other")
    await played.restore(start)
    assert ((tmp_path / "other").read_bytes(), played.read("f.txt")) == (b"new", b"old")


async def test_contents_are_private_and_never_reached_through_a_link(root, tmp_path):
    old = os.umask(0)
    try:
        played = Played(root)
        played.write("f.txt", "secret")
        played.say()
        await played.edit({"f.txt": b"new"})
    finally:
        os.umask(old)
    for path in (root / ".indusagi/files").iterdir():
        assert path.stat().st_mode & 0o777 == 0o600
    assert (root / ".indusagi/files").stat().st_mode & 0o777 == 0o700
    assert (root / ".indusagi/.gitignore").read_text() == "*\n"

    shutil.rmtree(root / ".indusagi/files")
    (tmp_path / "trap").mkdir()
    (root / ".indusagi/files").symlink_to(tmp_path / "trap")
    with pytest.raises(PersistenceFault):
        await played.edit({"f.txt": b"newer"})
    assert played.read("f.txt") == b"new"
    assert not list((tmp_path / "trap").iterdir())


async def test_nothing_is_edited_when_the_old_content_cannot_be_kept(root):
    played = Played(root)
    played.write("f.txt", "old")
    played.say()
    (root / ".indusagi").write_text("in the way")
    with pytest.raises(PersistenceFault):
        await played.edit({"f.txt": b"new"})
    assert played.read("f.txt") == b"old"


async def test_a_protected_file_is_only_restored_when_chosen(root):
    played = Played(root)
    played.write(".vscode/settings.json", "{}")
    start = played.say()
    await played.edit({".vscode/settings.json": b'{"a": 1}'})
    assert (await played.plan(start)).items[0].why == ("protected",)
    await played.restore(start)
    assert played.read(".vscode/settings.json") == b'{"a": 1}'


async def test_unsaved_text_of_the_editor_is_never_overwritten(root):
    played = Played(root)
    played.write("f.txt", "old\n")
    start = played.say()
    await played.edit({"f.txt": b"new\n"})
    played.documents["f.txt"] = "new\n"
    assert not (await played.plan(start)).items[0].problem
    played.documents["f.txt"] = "typing\n"
    plan = await played.plan(start)
    assert (plan.items[0].problem, plan.items[0].why) == (UNSAVED, ("changed",))


async def test_a_plan_that_is_out_of_date_does_nothing(root):
    played = Played(root)
    played.write("a.txt", "old")
    played.write("b.txt", "old")
    start = played.say()
    await played.edit({"a.txt": b"new", "b.txt": b"new"})
    plan = await played.plan(start)
    played.write("b.txt", "mine")
    assert (await played.plan(start)).token != plan.token
    with pytest.raises(InvalidState):
        await played.history.apply(plan)
    assert (played.read("a.txt"), played.read("b.txt")) == (b"new", b"mine")


async def test_all_or_nothing(root, monkeypatch):
    played = Played(root)
    for name in ("a.txt", "b.txt", "c.txt"):
        played.write(name, "old")
    start = played.say()
    await played.edit({"a.txt": b"new", "b.txt": b"new", "c.txt": b"new", "new/d.txt": b"d"})
    await played.restore(start)
    end = played.graph.leaf
    before = tree(root)
    plan = await played.plan(end)
    give = played.history._places.give

    def failing(path, *rest):
        if path == "c.txt":
            from indusagi_lsp.contract.errors import ToolFailed

            raise ToolFailed("The disk is full.")
        give(path, *rest)

    monkeypatch.setattr(played.history._places, "give", failing)
    with pytest.raises(PersistenceFault):
        await played.history.apply(plan)
    assert tree(root) == before
    monkeypatch.undo()
    assert {item.why for item in (await played.plan(end)).items} == {()}
    await played.restore(end)
    assert played.read("new/d.txt") == b"d"
    await played.restore(start)
    assert tree(root) == before
    assert not (root / "new").exists()


async def test_a_lost_content_is_said(root):
    played = Played(root)
    played.write("a.txt", "old")
    start = played.say()
    await played.edit({"a.txt": b"new"})
    for path in (root / ".indusagi/files").iterdir():
        if len(path.name) == 64:
            path.write_bytes(b"bad")
    assert (await played.plan(start)).items[0].problem == LOST
    # The same content, kept again, replaces what was damaged.
    played.write("c.txt", "old")
    await played.edit({"c.txt": b"new"})
    assert not (await played.plan(start)).items[0].problem


async def test_a_journal_of_somebody_else_counts_for_nothing(root):
    played = Played(root)
    played.write("mine.txt", "mine")
    start = played.say()
    other = Played(root)
    other.history._journal._seal = lambda _: b"0" * 64
    other.graph, other._calls = played.graph, played._calls
    await other.edit({"mine.txt": b"evil"})
    assert (await other.plan(start)).items
    assert not (await played.plan(start)).items
    assert played.history._journal.foreign == 2


async def test_unknown_nodes_and_restores(root):
    played = Played(root)
    with pytest.raises(NodeNotFound):
        await played.plan("nope")
    with pytest.raises(InvalidInput):
        await played.history.plan_undo(played.lineage, "nope")
    played.say()
    with pytest.raises(InvalidInput):
        await played.restore(None, **{"a.txt": "restore"})


async def test_long_diffs_are_bounded(root):
    played = Played(root)
    played.write("big.txt", "\n".join(map(str, range(20_000))))
    played.write("mid.txt", "\n".join(map(str, range(2_000))))
    start = played.say()
    await played.edit({"big.txt": b"x", "mid.txt": b"x" * 200_000})
    diffs = [item.diff for item in (await played.plan(start)).items]
    assert all(len(diff) < 45_000 for diff in diffs)
    assert "too long to compare" in diffs[0]
    assert "more lines]" in diffs[1]


async def test_collecting_keeps_what_can_be_needed(root):
    played = Played(root)
    played.write("a.txt", "old")
    start = played.say()
    await played.edit({"a.txt": b"new"})
    files = root / ".indusagi/files"
    (files / ("f" * 64)).write_bytes(b"nobody's")
    for path in files.iterdir():
        os.utime(path, (0, 0))
    assert (await played.history.collect({"s1"}, dry_run=True)).removed == 1
    collected = await played.history.collect({"s1"})
    assert (collected.removed, collected.kept) == (1, 1)
    await played.restore(start)
    assert played.read("a.txt") == b"old"
    for path in files.iterdir():
        os.utime(path, (0, 0))
    assert (await played.history.collect({"another session"})).removed == 2
    assert (files / "journal.jsonl").exists()


async def test_a_removal_is_only_done_again_when_chosen(root):
    played = Played(root)
    played.write("mine.txt", "mine")
    start = played.say()
    end = await played.edit({"mine.txt": None, "made.txt": b"m"})
    await played.edit({"made.txt": None})
    await played.restore(start)
    assert tree(root).keys() == {"mine.txt"}
    await played.restore(end)
    assert tree(root).keys() == {"mine.txt", "made.txt"}
    plan = await played.plan(played.graph.leaf)
    assert {item.path: item.why for item in plan.items} == {"made.txt": (), "mine.txt": ("removal",)}
    await played.history.apply(plan, {"mine.txt": "restore"})
    assert tree(root) == {}

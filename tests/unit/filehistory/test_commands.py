"""What commands change: found, offered, never undone unasked."""

from __future__ import annotations

import os

import pytest

from indusagi_lsp.filehistory import Limits
from unit.filehistory.rig import Played, tree


def write(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


async def test_a_commands_changes_are_offered_and_undone_when_chosen(root):
    played = Played(root)
    played.write("a.txt", "old")
    played.write("gone.txt", "was here")
    played.write("exec.sh", "echo")
    before = tree(root)
    start = played.say()

    def run():
        write(root / "a.txt", "new")
        write(root / "out/made.txt", "made")
        (root / "gone.txt").unlink()
        (root / "exec.sh").chmod(0o755)

    await played.command(run)
    assert played.changed.paths == ("a.txt", "exec.sh", "gone.txt", "out/made.txt")
    plan = await played.plan(start)
    assert {(item.by, item.why) for item in plan.items} == {("command", ("command",))}
    assert "old mode 755\nnew mode 644" in next(item.diff for item in plan.items if item.path == "exec.sh")
    await played.history.apply(plan)
    assert played.read("a.txt") == b"new"
    await played.history.apply(plan, {item.path: "restore" for item in plan.items})
    assert tree(root) == before


async def test_ignored_files_links_and_our_own_folder_are_not_looked_at(root, tmp_path):
    played = Played(root)
    played.write(".gitignore", "build/\n")
    write(tmp_path / "outside.txt", "theirs")
    (root / "link.txt").symlink_to(tmp_path / "outside.txt")
    played.say()

    def run():
        write(root / "build/x", "x")
        write(root / ".git/index", "x")
        write(root / "link.txt", "through")

    await played.command(run)
    assert played.changed.paths == ()
    kept = {path.read_bytes() for path in (root / ".indusagi/files").iterdir() if len(path.name) == 64}
    assert not kept & {b"theirs", b"through", b"x"}


async def test_files_that_only_came_into_sight_were_not_made(root):
    played = Played(root)
    played.write(".gitignore", "data/\n")
    played.write("data/precious.txt", "mine")
    old = 1_600_000_000
    os.utime(root / "data/precious.txt", (old, old))
    import time

    time.sleep(0.05)
    start = played.say()
    await played.command(lambda: write(root / ".gitignore", ""))
    assert played.changed.paths == (".gitignore",)
    await played.command(lambda: write(root / ".gitignore", "data/\n"))
    assert played.changed.paths == (".gitignore",)
    assert [item.path for item in (await played.plan(start)).items] == []
    assert played.read("data/precious.txt") == b"mine"


async def test_same_size_and_same_times_are_seen(root):
    played = Played(root)
    played.write("a.txt", "old")
    played.say()
    await played.command(lambda: None)
    status = (root / "a.txt").stat()

    def run():
        (root / "a.txt").write_bytes(b"new")
        os.utime(root / "a.txt", ns=(status.st_atime_ns, status.st_mtime_ns))

    await played.command(run)
    assert played.changed.paths == ("a.txt",)


async def test_what_is_too_large_is_said(root):
    played = Played(root, limits=Limits(file_bytes=100))
    played.write("big.bin", b"x" * 101)
    played.write("small.bin", b"x" * 100)
    start = played.say()

    def run():
        (root / "big.bin").write_bytes(b"y" * 102)
        (root / "small.bin").write_bytes(b"y" * 102)

    await played.command(run)
    assert (played.changed.paths, played.changed.unkept) == (("big.bin", "small.bin"), 1)
    plan = await played.plan(start)
    assert [bool(item.problem) for item in plan.items] == [True, False]
    assert [file.kept for file in await played.history.changes(played.lineage, played.graph.leaf)] == [False, True]
    await played.history.apply(plan, {"small.bin": "restore"})
    assert played.read("small.bin") == b"x" * 100


async def test_the_scan_is_bounded(root):
    played = Played(root, limits=Limits(files=10, total_bytes=8))
    for number in range(30):
        played.write(f"d{number % 3}/f{number}", "four")
    played.say()
    await played.command(lambda: write(root / "d0/f0", "five!"))
    assert len(played.changed.paths) <= 1
    kept = [path for path in (root / ".indusagi/files").iterdir() if len(path.name) == 64]
    assert len(kept) <= 4


async def test_an_edit_before_a_command_is_not_the_commands(root):
    played = Played(root)
    played.write("a.txt", "old")
    start = played.say()
    await played.command(lambda: None)
    await played.edit({"a.txt": b"edited"})
    await played.command(lambda: write(root / "b.txt", "b"))
    assert played.changed.paths == ("b.txt",)
    whys = {item.path: item.why for item in (await played.plan(start)).items}
    assert whys == {"a.txt": (), "b.txt": ("command",)}


async def test_an_edit_while_a_command_runs_is_the_edits(root):
    played = Played(root)
    played.write("a.txt", "old")
    start = played.say()
    call = played.call()
    name = await played.history.command_starts("s1", call)
    await played.edit({"a.txt": b"edited"})
    changed = await played.history.command_ended(name)
    assert changed.paths == ()
    assert [item.why for item in (await played.plan(start)).items] == [()]


async def test_a_user_who_types_while_a_command_runs_is_asked(root):
    played = Played(root)
    played.write("a.txt", "old")
    start = played.say()
    await played.edit({"a.txt": b"edited"})
    await played.command(lambda: write(root / "a.txt", "edited, and mine"))
    assert (await played.plan(start)).items[0].why == ("command",)
    await played.restore(start)
    assert played.read("a.txt") == b"edited, and mine"


async def test_changes_of_commands_in_the_background_are_found_later(root):
    played = Played(root)
    start = played.say()
    call = played.call()
    name = await played.history.command_starts("s1", call)
    await played.history.command_ended(name, background=True)
    write(root / "late.txt", "late")
    await played.history.settle(still_running=False)
    write(root / "mine.txt", "mine")
    await played.history.settle(still_running=False)
    assert [item.path for item in (await played.plan(start)).items] == ["late.txt"]


async def test_contents_of_the_last_scan_are_not_collected(root):
    played = Played(root)
    played.write("a.txt", "old")
    start = played.say()
    name = await played.history.command_starts("s1", played.call())
    for path in (root / ".indusagi/files").iterdir():
        os.utime(path, (0, 0))
    await played.history.collect({"s1"})
    write(root / "a.txt", "new")
    await played.history.command_ended(name)
    assert not (await played.plan(start)).items[0].problem


@pytest.mark.parametrize("name", ["a b", "é", "\u202ehidden", 'quo"te', "-rf"])
async def test_odd_names(root, name):
    played = Played(root)
    start = played.say()
    await played.command(lambda: write(root / name, "x"))
    plan = await played.plan(start)
    assert [item.path for item in plan.items] == [name]
    assert "\u202e" not in plan.items[0].diff
    await played.history.apply(plan, {name: "restore"})
    assert tree(root) == {}


async def test_names_that_are_no_text(root):
    played = Played(root)
    start = played.say()

    def run():
        with open(os.fsencode(root) + b"/\xff.txt", "wb") as stream:
            stream.write(b"x")

    await played.command(run)
    plan = await played.plan(start)
    await played.history.apply(plan, {plan.items[0].path: "restore"})
    assert os.listdir(os.fsencode(root)) == [b".indusagi"]

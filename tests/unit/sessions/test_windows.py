"""Two windows on one session: nothing is lost, nothing interleaves, a race becomes two branches and both know."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from indusagi_lsp.contract.models import Usage
from indusagi_lsp.contract.turns import ToolCallBlock, ToolResultBlock, Turn, assistant, user
from indusagi_lsp.sessions import Change, Session, SessionStore

CWD = "file:///workspace"


def words(session: Session) -> list[str]:
    return [turn.text for turn in session.model_view()]


@pytest.fixture
async def pair(window: Callable[..., SessionStore]) -> tuple[Session, Session]:
    first = await window().create(cwd=CWD, session_id="s")
    await first.append([user("a"), assistant("b")])
    return first, await window().open("s")


async def test_the_other_window_follows(pair: tuple[Session, Session]) -> None:
    first, second = pair
    heard: list[Change] = []
    second.listen(heard.append)
    nodes = await first.append([user("c"), assistant("d")])
    change = await second.refresh()
    assert change == Change(tuple(node.id for node in nodes), nodes[-1].id)
    assert heard == [change]
    assert words(second) == ["a", "b", "c", "d"]
    assert second.trusted
    await second.append([user("e")])
    await first.refresh()
    assert words(first) == ["a", "b", "c", "d", "e"]
    assert len(first.graph.leaves()) == 1


async def test_own_writes_raise_nothing(pair: tuple[Session, Session]) -> None:
    first, _ = pair
    heard: list[Change] = []
    first.listen(heard.append)
    await first.append([user("c")])
    await first.label(first.graph.leaf, "x")
    assert not await first.refresh()
    assert heard == []


async def test_a_race_becomes_two_branches_and_both_know(
    pair: tuple[Session, Session], window: Callable[..., SessionStore]
) -> None:
    first, second = pair
    heard: list[Change] = []
    second.listen(heard.append)
    [c] = await first.append([user("from first")])
    [d] = await second.append([user("from second")])
    assert heard == [Change((c.id,), c.id, (d.id, c.id))]
    assert words(second) == ["a", "b", "from second"]

    change = await first.refresh()
    assert change.diverged == (c.id, d.id)
    assert words(first) == ["a", "b", "from first"], "a run of ours is under way"
    third = await window().open("s")
    assert set(third.graph.leaves()) == {c.id, d.id}
    assert third.graph.leaf == d.id
    assert third.report.clean


async def test_a_run_is_not_torn_apart_by_the_other_window(pair: tuple[Session, Session]) -> None:
    first, second = pair
    await first.append([user("read x"), Turn("assistant", (ToolCallBlock("c1", "read", {}),))])
    await second.refresh()
    await second.append([user("meanwhile")])
    await first.refresh()
    await first.append([Turn("tool", (ToolResultBlock("c1", "x is 1"),))])
    await first.append([assistant("done")])
    assert [turn.role for turn in first.model_view()] == ["user", "assistant", "user", "assistant", "tool", "assistant"]
    assert first.graph.path_to(first.graph.leaf)[-2].tool_results[0].output == "x is 1"


async def test_a_busy_window_stays_where_it_is(pair: tuple[Session, Session]) -> None:
    first, second = pair
    await first.append([user("c"), assistant("d")])
    second.busy = True
    leaf = second.graph.leaf
    change = await second.refresh()
    assert change.added
    assert second.graph.leaf == leaf
    second.busy = False


async def test_an_idle_window_follows_a_fork(pair: tuple[Session, Session]) -> None:
    first, second = pair
    await second.move_head(second.graph.ids[0], "fork")
    change = await first.refresh()
    assert words(first) == ["a"]
    assert change.head == second.graph.leaf


async def test_a_half_written_line_is_left_for_the_next_time(
    pair: tuple[Session, Session], window: Callable[..., SessionStore]
) -> None:
    first, _ = pair
    size = os.path.getsize(first.path)
    await first.append([user("c"), assistant("d")])
    whole = Path(first.path).read_bytes()
    for cut in (size + 1, size + 60, len(whole) - 1):
        os.truncate(first.path, size)
        second = await window().open("s")
        with open(first.path, "ab") as file:
            file.write(whole[size:cut])
        await second.refresh()
        with open(first.path, "ab") as file:
            file.write(whole[cut:])
        await second.refresh()
        assert words(second)[-2:] == ["c", "d"]
        assert second.report.clean


async def test_a_dead_writers_torn_line_is_mended_by_the_next_append(
    pair: tuple[Session, Session], window: Callable[..., SessionStore]
) -> None:
    first, second = pair
    with open(first.path, "ab") as file:
        file.write(b'{"type":"node","node":{"id":"')
    await second.append([user("c")])
    await first.refresh()
    assert words(first) == ["a", "b", "c"]
    assert (await window().open("s")).report.clean


async def test_a_deleted_file_is_told_once_and_written_anew_with_the_next_turn(
    pair: tuple[Session, Session], window: Callable[..., SessionStore]
) -> None:
    first, _ = pair
    told: list[Change] = []
    first.listen(told.append)
    os.unlink(first.path)
    assert (await first.refresh()).missing
    assert not await first.refresh()
    assert words(first) == ["a", "b"]
    await first.append([user("c")])
    assert [(one.missing, one.reloaded, one.rewritten) for one in told] == [(True, False, False), (False, False, True)]
    again = await window().open("s")
    assert words(again) == ["a", "b", "c"]
    assert again.trusted
    assert again.meta.cwd == CWD


async def test_a_deleted_file_comes_back_byte_for_byte_before_the_next_turn(
    pair: tuple[Session, Session], window: Callable[..., SessionStore]
) -> None:
    first, second = pair
    start = first.graph.leaf
    assert start is not None
    [aside] = await first.append([user("another branch")])
    await first.label(aside.id, "aside")
    await first.move_head(start, "resume")
    with open(first.path, "ab") as file:
        file.write(b'{"type":"of a later version","kept":[1,  2]}\n')
    await first.append([user("c")])
    await second.refresh()
    content = Path(first.path).read_bytes()

    os.unlink(first.path)
    [ours] = await first.append([user("d")])
    [theirs] = await second.append([user("e")])
    assert Path(first.path).read_bytes().startswith(content)
    again = await window().open("s")
    assert again.report.clean
    assert again.labels == {aside.id: "aside"}
    assert set(again.graph.leaves()) == {aside.id, ours.id, theirs.id}
    assert not list(Path(first.path).parent.glob("*.new"))


async def test_a_deleted_file_that_only_the_next_turn_misses_is_told_too(pair: tuple[Session, Session]) -> None:
    first, _ = pair
    told: list[Change] = []
    first.listen(told.append)
    os.unlink(first.path)
    await first.append([user("c")])
    assert [(one.missing, one.reloaded, one.rewritten) for one in told] == [(True, False, True)]


async def test_a_deleted_folder(pair: tuple[Session, Session], window: Callable[..., SessionStore], root: Path) -> None:
    first, _ = pair
    shutil.rmtree(root.parent)
    assert (await first.refresh()).missing
    await first.append([user("c")])
    assert words(await window().open("s")) == ["a", "b", "c"]
    assert (root.parent / ".gitignore").exists()


async def test_a_replaced_file_is_read_anew(pair: tuple[Session, Session], root: Path) -> None:
    first, second = pair
    await first.append([user("c"), assistant("d")])
    content = Path(first.path).read_bytes()
    (root / "copy").write_bytes(content)
    os.replace(root / "copy", first.path)
    change = await second.refresh()
    assert change.reloaded
    assert words(second) == ["a", "b", "c", "d"]
    assert len(change.added) == 2
    assert not await second.refresh()
    await second.append([user("e")])
    await first.refresh()
    assert words(first) == ["a", "b", "c", "d", "e"]


@pytest.mark.parametrize("in_place", [True, False])
async def test_a_file_that_lost_our_turns_gets_them_back_with_the_next_one(
    pair: tuple[Session, Session], window: Callable[..., SessionStore], root: Path, in_place: bool
) -> None:
    first, second = pair
    size = os.path.getsize(first.path)
    await first.append([user("c"), assistant("d")])
    await second.refresh()
    if in_place:
        os.truncate(first.path, size)
    else:
        (root / "copy").write_bytes(Path(first.path).read_bytes()[:size])
        os.replace(root / "copy", first.path)
    await first.append([user("e")])
    assert words(first) == ["a", "b", "c", "d", "e"]
    again = await window().open("s")
    assert words(again) == ["a", "b", "c", "d", "e"]
    assert again.trusted
    assert again.report.clean
    await second.refresh()
    assert words(second) == ["a", "b", "c", "d", "e"]


@pytest.mark.parametrize("left", [0, 1], ids=["nothing is left", "the beginning is left"])
@pytest.mark.parametrize("in_place", [True, False])
async def test_a_file_that_was_cut_gets_all_branches_back_and_what_is_known_of_them(
    pair: tuple[Session, Session], window: Callable[..., SessionStore], root: Path, in_place: bool, left: int
) -> None:
    first, _ = pair
    size = len(Path(first.path).read_bytes().splitlines(keepends=True)[0]) * left
    b = first.graph.leaf
    assert b is not None
    [call] = await first.append([Turn("assistant", (ToolCallBlock("c1", "run", {}),))])
    await first.receipt(call.id, "c1", "started")
    await first.usage(call.id, Usage(3, 4, cost=0.5), "m", "p")
    await first.label(b, "here")
    await first.condense(user("summary"), 2)
    if in_place:
        os.truncate(first.path, size)
    else:
        (root / "copy").write_bytes(Path(first.path).read_bytes()[:size])
        os.replace(root / "copy", first.path)
    await first.append([user("e")])

    again = await window().open("s")
    assert again.report.clean
    assert again.trusted
    assert again.meta.cwd == CWD
    assert words(again) == words(first)
    assert set(again.graph.leaves()) == {call.id, again.graph.leaf}
    assert again.receipts == {(call.id, "c1"): "started"}
    assert again.usages == {call.id: Usage(3, 4, cost=0.5)}
    assert again.labels == first.labels
    assert await again.undo_condense() == call.id
    lines = Path(first.path).read_bytes().splitlines()
    assert len(lines) == len(set(lines)), "nothing is written twice"


async def test_a_truncated_file_without_more_to_say_is_taken_as_it_is(pair: tuple[Session, Session]) -> None:
    first, second = pair
    size = os.path.getsize(first.path)
    await first.append([user("c"), assistant("d")])
    await second.refresh()
    os.truncate(first.path, size)
    assert (await second.refresh()).reloaded
    assert words(second) == ["a", "b"]


async def test_touching_the_file_is_no_change(pair: tuple[Session, Session]) -> None:
    _, second = pair
    os.utime(second.path)
    os.chmod(second.path, 0o640)
    assert not await second.refresh()


async def test_records_of_the_other_window_arrive_too(pair: tuple[Session, Session]) -> None:
    first, second = pair
    await first.label(first.graph.leaf, "here")
    await first.update(title="T")
    await second.refresh()
    assert second.labels == first.labels
    assert second.meta.title == "T"

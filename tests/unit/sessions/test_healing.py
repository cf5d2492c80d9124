"""Whatever has happened to the bytes: what can be read is shown, what was skipped is told, and the file is mended."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from indusagi_lsp.contract.errors import PersistenceFault
from indusagi_lsp.contract.turns import assistant, user
from indusagi_lsp.sessions import Session, SessionStore, hash_node, read_records
from indusagi_lsp.sessions.records import Problem, Record

CWD = "file:///workspace"


def words(session: Session) -> list[str]:
    return [turn.text for turn in session.model_view()]


async def written(store: SessionStore, *prompts: str) -> Path:
    """A closed session of these prompts, called `s`."""
    session = await store.create(cwd=CWD, session_id="s")
    for prompt in prompts:
        await session.append([user(prompt)])
    await session.close()
    return Path(session.path)


def lines(path: Path) -> list[bytes]:
    return path.read_bytes().splitlines(keepends=True)


def node_of(text: str, parent: str | None = None, at: int = 7) -> bytes:
    turn = {"role": "user", "blocks": [{"kind": "text", "text": text}]}
    node = {"id": hash_node(parent, turn, at), "parent": parent, "turn": turn, "createdAt": at}
    return json.dumps({"type": "node", "node": node}).encode() + b"\n"


async def test_a_torn_tail_does_not_swallow_the_next_append(
    store: SessionStore, window: Callable[..., SessionStore]
) -> None:
    path = await written(store, "a", "b")
    good = path.read_bytes()
    path.write_bytes(good + b'{"type":"no')

    session = await window().open("s")
    assert words(session) == ["a", "b"]
    assert session.report.torn
    assert path.read_bytes() == good + b'{"type":"no', "reading changes nothing"
    await session.append([user("x")])
    assert words(await window().open("s")) == ["a", "b", "x"]
    assert (path.parent / "s.broken-1").read_bytes() == b'{"type":"no'
    repair = json.loads(lines(path)[len(good.splitlines())])
    assert (repair["type"], repair["bytes"], repair["reason"]) == ("repair", 11, "torn tail")
    assert (await window().open("s")).report.clean


async def test_a_second_torn_tail_gets_its_own_copy(store: SessionStore, window: Callable[..., SessionStore]) -> None:
    path = await written(store, "a")
    for number, torn in enumerate((b'{"type":"node","x', b"\xe2\x82"), start=1):
        with open(path, "ab") as file:
            file.write(torn)
        session = await window().open("s")
        await session.append([user(str(number))])
        await session.close()
        assert (path.parent / f"s.broken-{number}").read_bytes() == torn
    assert words(await window().open("s")) == ["a", "1", "2"]


@pytest.mark.parametrize("torn", [b'"text":"\xe2\x82', b"\xff\xfe\x00", b'{"type":"node","node":{"id":"\xf0\x9f'])
async def test_torn_inside_a_character(store: SessionStore, window: Callable[..., SessionStore], torn: bytes) -> None:
    path = await written(store, "a")
    with open(path, "ab") as file:
        file.write(torn)
    session = await window().open("s")
    await session.append([user("b")])
    assert words(await window().open("s")) == ["a", "b"]


async def test_a_last_record_that_only_lacks_its_line_end_is_kept(
    store: SessionStore, window: Callable[..., SessionStore]
) -> None:
    path = await written(store, "a", "b")
    path.write_bytes(path.read_bytes()[:-1])
    session = await window().open("s")
    assert words(session) == ["a", "b"]
    assert session.report.clean
    await session.append([user("c")])
    again = await window().open("s")
    assert words(again) == ["a", "b", "c"]
    assert again.report.clean
    assert not list(path.parent.glob("*.broken-*"))


async def test_welded_lines(store: SessionStore, window: Callable[..., SessionStore]) -> None:
    path = await written(store, "a", "b", "c")
    header, a, head_a, b, head_b, c, head_c = lines(path)
    broken = b'{"type":"node","node":{"id":"ab'
    path.write_bytes(header + a.rstrip() + head_a + broken + b.rstrip() + b"," + head_b.rstrip() + broken + c + head_c)
    session = await window().open("s")
    assert words(session) == ["a", "b", "c"]
    assert session.trusted
    assert session.report.skipped == 3
    assert session.report.unverified == 0
    before = path.read_bytes()
    await session.append([user("d")])
    assert path.read_bytes().startswith(before), "what is broken in the middle stays"


async def test_a_broken_node_with_markers_inside_costs_only_itself(
    store: SessionStore, window: Callable[..., SessionStore]
) -> None:
    path = await written(store, "a", "b")
    header, *rest = lines(path)
    schema = b'{"type":"object","properties":{"x":{"type":"string"}}}'
    path.write_bytes(header + b'{"type":"node","node":{"id":"x","turn":{"input":' + schema + b"\n" + b"".join(rest))
    session = await window().open("s")
    assert words(session) == ["a", "b"]
    assert session.report.skipped


@pytest.mark.parametrize(
    "junk",
    [
        b"\0" * 4096 + b"\n",
        b"\r\n",
        b"\n\n\n",
        b"<<<<<<< HEAD\n",
        b"=======\n>>>>>>> theirs\n",
        b"[1,2]\n",
        b"NaN\n",
        b'{"type":"weather","x":NaN}\n',
        b'{"type":"weather","x":' + b"9" * 5_000 + b"}\n",
        b'{"type":"weather","x":' + b"[" * 100_000 + b"]" * 100_000 + b"}\n",
        b'{"type":' * 100_000 + b"\n",
        b'{"type":"node","node":{"id":' * 30_000 + b"\n",
        bytes(range(1, 256)).replace(b"\n", b"") + b"\n",
        '{"type":"weather"}\n'.encode("utf-16"),
    ],
    ids=[
        "nul",
        "crlf",
        "blank",
        "merge",
        "merge2",
        "array",
        "nan",
        "nan2",
        "digits",
        "deep",
        "marks",
        "marks2",
        "bytes",
        "utf16",
    ],
)
async def test_junk_between_lines(store: SessionStore, window: Callable[..., SessionStore], junk: bytes) -> None:
    path = await written(store, "a", "b", "c")
    whole = lines(path)
    for at in (0, 1, 3, len(whole)):
        path.write_bytes(b"".join(whole[:at]) + junk + b"".join(whole[at:]))
        session = await window().open("s")
        assert words(session) == ["a", "b", "c"], at
        assert session.trusted
        await session.append([user("next")])
        again = await window().open("s")
        assert words(again) == ["a", "b", "c", "next"]


async def test_bom_and_crlf_line_ends(store: SessionStore, window: Callable[..., SessionStore]) -> None:
    path = await written(store, "a", "b")
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes().replace(b"\n", b"\r\n"))
    session = await window().open("s")
    assert words(session) == ["a", "b"]
    assert session.report.clean
    assert session.trusted


async def test_a_nul_in_front_of_a_line(store: SessionStore, window: Callable[..., SessionStore]) -> None:
    path = await written(store, "a", "b")
    whole = lines(path)
    path.write_bytes(b"".join(whole[:3]) + b"\0" * 1728 + b"".join(whole[3:]))
    session = await window().open("s")
    assert words(session) == ["a", "b"]
    assert session.report.clean


async def test_an_empty_file_is_an_empty_session(
    store: SessionStore, window: Callable[..., SessionStore], root: Path
) -> None:
    root.mkdir(parents=True)
    (root / "empty.jsonl").touch()
    (root / "zeros.jsonl").write_bytes(b"\0" * 4096)
    for name in ("empty", "zeros"):
        session = await store.open(name)
        assert session.graph.leaf is None
        await session.append([user("a")])
        assert words(await window().open(name)) == ["a"]
    assert [summary.id for summary in await store.summaries()] == ["empty", "zeros"]


async def test_a_file_that_is_not_understood_is_never_written_to(store: SessionStore, root: Path) -> None:
    root.mkdir(parents=True)
    (root / "letter.jsonl").write_bytes(b"Dear Sir or Madam,\nthis is no session.\n")
    session = await store.open("letter")
    assert session.report.skipped == 2
    with pytest.raises(PersistenceFault):
        await session.append([user("a")])
    assert (root / "letter.jsonl").read_bytes() == b"Dear Sir or Madam,\nthis is no session.\n"
    session._queue.clear()


async def test_a_missing_parent_leaves_a_visible_gap(store: SessionStore, window: Callable[..., SessionStore]) -> None:
    path = await written(store, "a", "b", "c")
    whole = lines(path)
    path.write_bytes(b"".join(line for at, line in enumerate(whole) if at != 3))
    session = await window().open("s")
    assert words(session) == ["c"]
    assert session.report.gaps == 1
    [node] = session.graph.nodes_to(session.graph.leaf)
    assert node.gap
    assert node.parent is not None
    assert session.report.notices
    assert session.trusted, "what is left is still this user's own"


async def test_duplicates_and_any_order_of_lines(store: SessionStore, window: Callable[..., SessionStore]) -> None:
    path = await written(store, "a", "b", "c")
    whole = lines(path)
    for content in (whole + whole, whole[::-1], [*whole[3:], *whole[:3]], [line for line in whole for _ in range(2)]):
        path.write_bytes(b"".join(content))
        session = await window().open("s")
        assert words(session) == ["a", "b", "c"]
        assert len(session.graph) == 3
        assert session.trusted


async def test_heads_are_chosen_by_lineage(store: SessionStore, window: Callable[..., SessionStore]) -> None:
    path = await written(store, "a", "b", "c")
    session = await window().open("s")
    a = session.graph.ids[0]
    late = {"type": "head", "leaf": a, "at": 1, "by": "somebody-else", "why": "append"}
    with open(path, "ab") as file:
        file.write(json.dumps(late).encode() + b"\n")
    assert words(await window().open("s")) == ["a", "b", "c"]
    late["why"] = "fork"
    with open(path, "ab") as file:
        file.write(json.dumps(late).encode() + b"\n")
    assert words(await window().open("s")) == ["a"]


async def test_a_plain_head_of_the_seeds_format_counts_as_it_stands(
    store: SessionStore, window: Callable[..., SessionStore]
) -> None:
    path = await written(store, "a", "b")
    session = await window().open("s")
    with open(path, "ab") as file:
        file.write(b'{"type":"head","leaf":"%b"}\n' % session.graph.ids[0].encode())
        file.write(b'{"type":"head","leaf":"gone"}\n')
    assert words(await window().open("s")) == ["a"]


async def test_without_a_usable_head_the_last_childless_node_is_live(
    store: SessionStore, window: Callable[..., SessionStore]
) -> None:
    path = await written(store, "a", "b", "c")
    whole = lines(path)
    path.write_bytes(b"".join(line for line in whole if b'"head"' not in line))
    assert words(await window().open("s")) == ["a", "b", "c"]
    path.write_bytes(b"".join(whole[:-1]))
    assert words(await window().open("s")) == ["a", "b", "c"], "the last head alone was lost"


async def test_a_changed_turn_is_shown_and_marked(store: SessionStore, window: Callable[..., SessionStore]) -> None:
    path = await written(store, "aaaa", "bbbb")
    path.write_bytes(path.read_bytes().replace(b"aaaa", b"AAAA"))
    session = await window().open("s")
    assert words(session) == ["AAAA", "bbbb"]
    assert session.report.unverified == 1
    assert not session.graph.nodes_to(session.graph.leaf)[0].verified
    assert not session.trusted, "a signature vouches for what was signed only"
    await session.adopt()
    again = await window().open("s")
    assert words(again) == ["AAAA", "bbbb"]
    assert again.trusted
    assert all(node.verified for node in again.graph.nodes_to(again.graph.leaf))


async def test_bytes_that_are_no_utf8_keep_their_turn(store: SessionStore, window: Callable[..., SessionStore]) -> None:
    path = await written(store, "aaaa", "bbbb")
    path.write_bytes(path.read_bytes().replace(b"aaaa", b"a\xffaa"))
    session = await window().open("s")
    assert words(session) == ["a\ufffdaa", "bbbb"]
    assert session.report.unverified == 1


async def test_lines_of_another_layout_are_verified_too(store: SessionStore, root: Path) -> None:
    root.mkdir(parents=True)
    first = node_of("ä")
    second = json.loads(node_of("b", json.loads(first)["node"]["id"]))
    spaced = json.dumps(second, indent=None, separators=(" , ", " : "), ensure_ascii=True).encode() + b"\n"
    (root / "s.jsonl").write_bytes(first + spaced)
    session = await store.open("s")
    assert words(session) == ["ä", "b"]
    assert session.report.clean
    assert not session.trusted


async def test_a_line_of_many_megabytes(store: SessionStore, window: Callable[..., SessionStore]) -> None:
    session = await store.create(cwd=CWD, session_id="s")
    await session.append([user("x" * 12_000_000), assistant("short")])
    again = await window().open("s")
    assert [len(word) for word in words(again)] == [12_000_000, 5]
    assert again.trusted


async def test_two_histories_merged_line_by_line(
    store: SessionStore, window: Callable[..., SessionStore], root: Path
) -> None:
    path = await written(store, "a", "b")
    common = path.read_bytes()
    ours = await window().open("s")
    await ours.append([user("ours")])
    await ours.close()
    left = path.read_bytes()[len(common) :]
    path.write_bytes(common)
    theirs = await window().open("s")
    await theirs.append([user("theirs")])
    await theirs.close()
    right = path.read_bytes()[len(common) :]

    path.write_bytes(common + left + right + common)
    session = await window().open("s")
    assert words(session) == ["a", "b", "theirs"]
    assert len(session.graph.leaves()) == 2
    assert session.trusted


async def test_reading_records_with_their_places(store: SessionStore) -> None:
    path = await written(store, "a")
    good = path.read_bytes()
    path.write_bytes(good + b"junk\n" + b'{"type":"x"}{"type":"to')
    items = list(read_records(path))
    content = path.read_bytes()
    for item in items:
        if isinstance(item, Record):
            assert json.loads(content[item.offset : item.offset + item.length]) == item.raw
    assert [type(item).__name__ for item in items] == ["Record"] * 3 + ["Problem", "Record", "Problem"]
    assert isinstance(items[-1], Problem)
    assert [items[3].kind, items[-1].kind] == ["skipped", "torn"]
    assert content[items[-1].offset :] == b'{"type":"to'
    assert next(iter(read_records(path, start=len(good)))).kind == "skipped"


async def test_a_read_only_session_can_be_read(store: SessionStore, window: Callable[..., SessionStore]) -> None:
    path = await written(store, "a")
    os.chmod(path, 0o400)
    assert words(await window().open("s")) == ["a"]

"""Search: every word is data, every branch is found, and the index is only ever derived."""

from __future__ import annotations

import os
import sqlite3
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from indusagi_lsp.contract.turns import ToolCallBlock, ToolResultBlock, Turn, assistant, user
from indusagi_lsp.sessions.nodes import hash_node, node_line, node_text
from indusagi_lsp.sessions.search import DATABASE, SearchIndex
from indusagi_lsp.sessions.words import index_text, match_query, snippet_of

if TYPE_CHECKING:
    from pathlib import Path


def line(parent: str | None, turn: Turn, at: int = 0) -> tuple[str, bytes]:
    node = hash_node(parent, turn, at)
    return node, node_line(node, node_text(parent, turn, at), turn, parent, at)


def write(root: Path, session: str, *turns: Turn) -> list[str]:
    """Append a chain of turns to a session's file."""
    root.mkdir(parents=True, exist_ok=True)
    parent, ids, data = None, [], b""
    for at, turn in enumerate(turns):
        parent, text = line(parent, turn, at)
        ids.append(parent)
        data += text
    with (root / f"{session}.jsonl").open("ab") as file:
        file.write(data)
    return ids


async def found(root: Path, query: str, **options: object) -> list[tuple[str, str]]:
    result = await SearchIndex(root).search(query, **options)  # type: ignore[arg-type]
    return [(hit.session_id, hit.node) for hit in result.hits]


@pytest.mark.parametrize(
    ("text", "query"),
    [
        ("look at gateway/run.py now", "gateway/run.py"),
        ("there is a TODO: fix here", "TODO: fix"),
        ("written in C++ of course", "C++"),
        ("written in C# of course", "c#"),
        ('an "unbalanced quote', '"unbalanced'),
        ("the NEAR( operator", "NEAR("),
        ("AND OR NOT are words", "AND OR NOT"),
        ("a col:umn", "col:umn"),
        ("foo and bar", "foo _ bar"),
        ("résumé of the \uff21\uff22\uff23", "resume abc"),
        ("我們在測試中文搜尋功能", "中文搜尋"),
        ("我們在測試中文搜尋功能", "能"),
        ("日本語テキスト", "テキスト"),
        ("한국어 검색", "검색"),
        ("compaction happens", "compac"),
        ("it's 100% {done} (really) ^ok", "100% {done}"),
    ],
)
async def test_what_was_said_is_found_as_it_was_typed(tmp_path: Path, text: str, query: str) -> None:
    ids = write(tmp_path, "one", user("something else"), assistant(text))

    assert await found(tmp_path, query) == [("one", ids[1])]


async def test_c_is_not_c_plus_plus(tmp_path: Path) -> None:
    write(tmp_path, "one", user("plain C here"))

    assert await found(tmp_path, "C++") == []


@pytest.mark.parametrize("query", ["", "*", '"', "   ", "()", "\x00", "\ud800", "-", "'"])
async def test_a_query_without_words_finds_nothing(tmp_path: Path, query: str) -> None:
    write(tmp_path, "one", user("hello * there"))

    assert await found(tmp_path, query) == []


async def test_calls_and_outputs_are_found(tmp_path: Path) -> None:
    ids = write(
        tmp_path,
        "one",
        Turn("assistant", (ToolCallBlock("c1", "read_file", {"paths": ["src/needle.py"]}),)),
        Turn("tool", (ToolResultBlock("c1", "haystack and thread"),)),
    )

    assert await found(tmp_path, "needle.py") == [("one", ids[0])]
    assert await found(tmp_path, "thread") == [("one", ids[1])]
    assert await found(tmp_path, "thread", roles=["user"]) == []


async def test_every_branch_is_searched(tmp_path: Path) -> None:
    root, first = line(None, user("start"), 0)
    left, second = line(root, user("the left way"), 1)
    right, third = line(root, user("the right way"), 1)
    tmp_path.joinpath("one.jsonl").write_bytes(
        first + second + third + b'{"type":"head","leaf":"%s"}\n' % left.encode()
    )

    assert set(await found(tmp_path, "way")) == {("one", left), ("one", right)}


async def test_only_what_is_new_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from indusagi_lsp.sessions import search as module

    write(tmp_path, "one", user("alpha"))
    write(tmp_path, "two", user("beta"))
    await SearchIndex(tmp_path).update()
    ids = write(tmp_path, "two", user("beta"), user("gamma"))

    read: list[int] = []
    original = module.parse_line
    monkeypatch.setattr(module, "parse_line", lambda text, at: read.append(at) or original(text, at))

    assert await found(tmp_path, "gamma") == [("two", ids[1])]
    assert len(read) == 2, "the two lines that were appended, and no other"


async def test_the_index_may_be_deleted_broken_or_planted(tmp_path: Path) -> None:
    ids = write(tmp_path, "one", user("needle"))
    database = tmp_path / ".cache" / DATABASE
    index = SearchIndex(tmp_path)
    wanted = [("one", ids[0])]
    assert await found(tmp_path, "needle") == wanted

    database.unlink()
    assert [(hit.session_id, hit.node) for hit in (await index.search("needle")).hits] == wanted

    for ending in ("-wal", "-shm"):
        database.with_name(DATABASE + ending).unlink(missing_ok=True)
    database.write_bytes(b"this is no database" * 100)
    assert await found(tmp_path, "needle") == wanted

    for ending in ("", "-wal", "-shm"):
        database.with_name(DATABASE + ending).unlink(missing_ok=True)
    planted = sqlite3.connect(database)
    planted.execute("CREATE TABLE files(x)")
    planted.execute("CREATE TRIGGER t AFTER INSERT ON files BEGIN DELETE FROM files; END")
    planted.execute("PRAGMA user_version = 1")
    planted.commit()
    planted.close()
    assert await found(tmp_path, "needle") == wanted


@pytest.mark.skipif(os.name == "nt", reason="modes of POSIX")
async def test_the_index_is_private(tmp_path: Path) -> None:
    write(tmp_path, "one", user("needle"))
    await SearchIndex(tmp_path).update()

    for path in (tmp_path / ".cache").iterdir():
        assert path.stat().st_mode & 0o077 == 0


async def test_replaced_truncated_and_deleted_files(tmp_path: Path) -> None:
    write(tmp_path, "one", user("old words"), user("more"))
    write(tmp_path, "two", user("gone words"))
    assert len(await found(tmp_path, "words")) == 2

    tmp_path.joinpath("two.jsonl").unlink()
    tmp_path.joinpath("one.jsonl").write_bytes(b"")
    assert await found(tmp_path, "words") == []

    ids = write(tmp_path, "one", user("new words"))
    assert await found(tmp_path, "words") == [("one", ids[0])]
    assert await found(tmp_path, "old") == []


async def test_a_rewritten_file_of_the_same_inode_is_read_anew(tmp_path: Path) -> None:
    write(tmp_path, "one", user("first text"))
    assert len(await found(tmp_path, "first")) == 1

    _, text = line(None, user("other text of another length"), 0)
    _, more = line(None, user("and more"), 0)
    tmp_path.joinpath("one.jsonl").write_bytes(text + more)

    assert await found(tmp_path, "first") == []
    assert len(await found(tmp_path, "other")) == 1


async def test_a_line_without_its_end_is_found_once(tmp_path: Path) -> None:
    _, text = line(None, user("needle"), 0)
    path = tmp_path / "one.jsonl"
    path.write_bytes(text.rstrip(b"\n"))
    assert len(await found(tmp_path, "needle")) == 1

    path.write_bytes(text)
    assert len(await found(tmp_path, "needle")) == 1


async def test_limits_and_sessions(tmp_path: Path) -> None:
    for number in range(5):
        write(tmp_path, f"s{number}", user(f"needle {number}"))

    result = await SearchIndex(tmp_path).search("needle", limit=2)
    assert len(result.hits) == 2
    assert result.more
    assert [session for session, _ in await found(tmp_path, "needle", sessions=["s3"])] == ["s3"]


async def test_a_snippet_shows_where(tmp_path: Path) -> None:
    write(tmp_path, "one", user("x " * 500 + "the needle\nlies here " + "y " * 500))

    hit = (await SearchIndex(tmp_path).search("NEEDLE")).hits[0]
    start, end = hit.spans[0]
    assert hit.snippet[start:end] == "needle"
    assert "\n" not in hit.snippet
    assert len(hit.snippet) < 300


async def test_a_missing_folder_has_nothing(tmp_path: Path) -> None:
    assert await found(tmp_path / "nowhere" / "sessions", "x") == []


def test_pairs_and_folding() -> None:
    assert index_text("中文字 \uff23++").split() == ["中文", "文字", "字", "c", "cplusplus"]
    assert match_query('a"b') == '"a""b"*'
    assert match_query("* ( )") is None


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.text(max_size=40), st.text(max_size=40))
def test_no_query_is_an_error(text: str, query: str) -> None:
    expression = match_query(query)
    if expression is not None:
        database = sqlite3.connect(":memory:")
        database.execute("CREATE VIRTUAL TABLE words USING fts5(text, content='')")
        database.execute("INSERT INTO words(rowid, text) VALUES(1, ?)", (index_text(text),))
        database.execute("SELECT rowid FROM words WHERE words MATCH ?", (expression,)).fetchall()
        database.close()

    snippet, spans = snippet_of(text, query)
    assert all(0 <= start <= end <= len(snippet) for start, end in spans)

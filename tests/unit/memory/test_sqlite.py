"""What only the SQLite store promises: how the file is opened, and that it is not believed."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import stat
import struct

import numpy as np
import pytest

from indusagi_lsp.contract.errors import PersistenceFault
from indusagi_lsp.memory import ExpirationPolicy, MemoryEntry, MemoryQuery
from indusagi_lsp.memory import sqlite as module
from indusagi_lsp.memory.matrix import Matrix
from indusagi_lsp.memory.sqlite import SqliteMemoryStore
from unit.memory.backends import FakeTime, WheelEmbedder


def entry(identifier, content="a fact", **fields):
    return MemoryEntry(identifier=identifier, content=content, **fields)


@pytest.fixture
def path(tmp_path):
    return tmp_path / ".indusagi" / "memory" / "memory.db"


@pytest.fixture
def store(path):
    store = SqliteMemoryStore(path)
    yield store
    store.close()


def test_the_files_are_private_and_made_at_the_first_write(store, path):
    assert store.list() == []
    assert store.count() == 0
    assert store.recall("x") == []
    assert not path.parent.exists()
    old = os.umask(0)
    try:
        store.store(entry("a"))
    finally:
        os.umask(old)
    assert {item.name: stat.S_IMODE(item.stat().st_mode) for item in path.parent.iterdir()} == {
        "memory.db": 0o600, "memory.db-wal": 0o600, "memory.db-shm": 0o600,
    }  # fmt: skip
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


def test_the_settings_that_keep_a_hostile_file_harmless(store):
    store.store(entry("a"))
    asked = store._connection.execute
    assert asked("PRAGMA journal_mode").fetchone()[0] == "wal"
    assert asked("PRAGMA trusted_schema").fetchone()[0] == 0
    assert asked("PRAGMA cell_size_check").fetchone()[0] == 1
    assert asked("PRAGMA busy_timeout").fetchone()[0] >= 10_000


@pytest.mark.parametrize(
    "statement",
    [
        "CREATE TRIGGER t AFTER INSERT ON entries BEGIN DELETE FROM entries; END",
        "CREATE VIEW extra AS SELECT 1",
        "CREATE TABLE extra (x)",
        "DROP INDEX entries_by_text",
        "ALTER TABLE entries ADD COLUMN more",
    ],
)
def test_a_file_with_other_tables_is_refused(store, path, statement):
    store.store(entry("a"))
    store.close()
    other = sqlite3.connect(path)
    other.execute(statement)
    other.close()
    with pytest.raises(PersistenceFault, match="not known here"):
        SqliteMemoryStore(path).list()


@pytest.mark.parametrize("content", [b"not a database at all" * 100, b"SQLite format 3\x00" + b"\xff" * 4096])
def test_a_damaged_file_is_told_and_kept(path, content):
    path.parent.mkdir(parents=True)
    path.write_bytes(content)
    store = SqliteMemoryStore(path)
    for action in (store.list, lambda: store.store(entry("a"))):
        with pytest.raises(PersistenceFault):
            action()
    assert path.read_bytes() == content


@pytest.mark.parametrize("name", ["memory.db", "memory.db-wal", ""])
def test_links_are_refused(store, path, tmp_path, name):
    outside = tmp_path / "outside"
    if name:
        path.parent.mkdir(parents=True)
        path.with_name(name).symlink_to(outside)
    else:
        outside.mkdir()
        path.parent.parent.mkdir()
        path.parent.symlink_to(outside)
    with pytest.raises(PersistenceFault, match="link"):
        store.store(entry("a"))
    assert not outside.is_file()


def test_a_record_that_cannot_be_read_is_skipped(path):
    notices = []
    store = SqliteMemoryStore(path, notify=lambda *notice: notices.append(notice))
    store.store(entry("a"))
    store.store(entry("b"))
    other = sqlite3.connect(path)
    other.execute("UPDATE entries SET record = '{' WHERE identifier = CAST('a' AS BLOB)")
    other.commit()
    other.close()
    assert [found.identifier for found in store.list()] == ["b"]
    assert [hit.entry.identifier for hit in store.search(MemoryQuery(text="fact"))] == ["b"]
    assert notices[0][0] == "memory_skipped"


def test_an_index_of_another_version_is_made_anew(path, monkeypatch):
    store = SqliteMemoryStore(path)
    store.store(entry("a", "running", context="jumping"))
    store.close()
    real = module.index_terms
    monkeypatch.setattr(module, "TERMS_VERSION", 99)
    monkeypatch.setattr(module, "index_terms", lambda *texts: real(*(text.replace("n", "m") for text in texts)))
    again = SqliteMemoryStore(path)
    assert [hit.entry.identifier for hit in again.search(MemoryQuery(text="rummimg"))] == ["a"]
    assert again.delete("a")
    assert again.search(MemoryQuery(text="rummimg")) == []
    again.close()


def test_the_full_text_index_is_sound_after_changes(store, path):
    for number in range(50):
        store.store(
            entry(f"e{number % 10}", f"fact {number} getUserName", context=f"near {number}", tags=[str(number)])
        )
    for number in range(5):
        store.delete(f"e{number}")
    store.close()
    other = sqlite3.connect(path)
    assert other.execute("PRAGMA integrity_check").fetchone()[0] == "ok"
    other.execute("INSERT INTO words (words) VALUES ('integrity-check')")
    assert other.execute("SELECT count(DISTINCT doc) FROM places").fetchone()[0] == 5
    assert other.execute("SELECT count(*) FROM tags").fetchone()[0] == 5
    assert other.execute("SELECT entries, words FROM realms").fetchone() == (
        5,
        other.execute("SELECT sum(words) FROM entries").fetchone()[0],
    )
    other.close()


def test_the_write_of_another_handle_is_followed(path):
    one, two = (SqliteMemoryStore(path, embedder=WheelEmbedder()) for _ in range(2))
    one.store(entry("a", "sql"))
    assert len(two.search(MemoryQuery(semantic_text="sql"))) == 1
    one.store(entry("b", "sql table"))
    assert len(two.search(MemoryQuery(semantic_text="sql"))) == 2
    assert len(two.search(MemoryQuery(text="sql"))) == 2
    two.delete("a")
    assert len(one.search(MemoryQuery(semantic_text="sql"))) == 1
    one.close()
    two.close()


def test_a_failed_change_leaves_everything_as_it_was(store):
    store.store(entry("a", "before"))

    def fail(_old):
        store._remove(store._connection, 1)
        raise RuntimeError("in the middle")

    with pytest.raises(RuntimeError):
        store._transact((store.realm(entry("a").scope),), "a", fail)
    assert store.retrieve("a").content == "before"
    assert len(store.search(MemoryQuery(text="before"))) == 1


def test_a_read_only_file_is_told(path, tmp_path):
    store = SqliteMemoryStore(tmp_path / "nowhere" / "x.db")
    (tmp_path / "nowhere").write_text("a file where a folder should be")
    with pytest.raises(PersistenceFault):
        store.store(entry("a"))


class TestMatrix:
    def test_portions_hold_the_nearest_first(self):
        rng = np.random.default_rng(1)
        rows = rng.normal(size=(500, 8)).astype(np.float32)
        matrix = Matrix(8)
        for start in range(0, 500, 50):
            matrix.put(
                list(range(start, start + 50)), [n % 3 for n in range(start, start + 50)], rows[start : start + 50]
            )
        for number in range(0, 500, 7):
            matrix.remove(number)
        query = rng.normal(size=8)
        unit = rows / np.linalg.norm(rows, axis=1, keepdims=True)
        truth = {
            n: max(0.0, float(unit[n] @ (query / np.linalg.norm(query))))
            for n in range(500)
            if n % 7 and n % 3 in (0, 1)
        }
        portions = list(matrix.nearest(query.tolist(), [0, 1], 5))
        seen: dict[int, float] = {}
        lowest = 2.0
        for portion in portions:
            inside = {number: score for number, score in portion.items() if score > -2}
            assert all(score <= lowest + 1e-6 for score in inside.values())
            lowest = min([lowest, *inside.values()])
            seen |= inside
        assert seen.keys() == truth.keys()
        assert all(abs(seen[number] - truth[number]) < 1e-5 for number in truth)
        assert len(portions[0]) >= 5
        assert matrix.cosine(query.tolist(), [1, 7]) == pytest.approx({1: truth[1]}, abs=1e-5)

    def test_a_row_put_again_is_replaced(self):
        matrix = Matrix(2)
        matrix.put([1, 2], [0, 0], [[1, 0], [0, 1]])
        matrix.put([1], [1], [[0, -1]])
        assert len(matrix) == 2
        assert matrix.cosine([0, 1], [1, 2]) == {1: -1.0, 2: 1.0}

    def test_empty(self):
        assert list(Matrix(3).nearest([1, 2, 3], [0], 5)) in ([], [{}])


def test_a_vector_that_somebody_spoilt_does_not_stop_recall(tmp_path):
    path = tmp_path / "memory.db"
    with contextlib.closing(SqliteMemoryStore(path, embedder=WheelEmbedder())) as store:
        store.store(MemoryEntry(identifier="spoilt", content="a table"))
        store.store(MemoryEntry(identifier="sound", content="some sql"))
    with contextlib.closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(
            "UPDATE vectors SET data = ? WHERE entry = (SELECT id FROM entries WHERE identifier = ?)",
            (struct.pack("<4f", 1, float("nan"), 0, 0), b"spoilt"),
        )
    with contextlib.closing(SqliteMemoryStore(path, embedder=WheelEmbedder())) as store:
        assert [hit.entry.identifier for hit in store.recall("postgres")] == ["sound"]
        assert [one.identifier for one in store.list()] == ["sound"]


def test_an_expired_record_that_somebody_spoilt_stops_nothing(path):
    notices = []
    now = FakeTime()
    with contextlib.closing(SqliteMemoryStore(path, now=now)) as store:
        ending = ExpirationPolicy(ttl_seconds=5)
        for name in ("spoilt", "ended"):
            store.store(entry(name, "a table", expiration=ending, created_at=now()))
        store.store(entry("stays", "a table"))
    with contextlib.closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE entries SET record = ? WHERE identifier = ?", (b"{", b"spoilt"))
    now.pass_time(seconds=5)
    with contextlib.closing(SqliteMemoryStore(path, now=now, notify=lambda code, _: notices.append(code))) as store:
        assert [one.identifier for one in store.list()] == ["stays"]
        assert [hit.entry.identifier for hit in store.recall("table")] == ["stays"]
        assert store.delete("stays")
        assert store.store(entry("new")).content == "a fact"
    assert set(notices) == {"memory_skipped"}

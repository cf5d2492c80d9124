"""What only the store of files promises: what lies on the disk, and who may look."""

from __future__ import annotations

import json
import os
import stat
import time

import pytest

from indusagi_lsp.contract.errors import PersistenceFault
from indusagi_lsp.memory import FileMemoryStore, MemoryEntry, MemoryQuery, MemoryScope


def entry(identifier, content="a fact", **fields):
    return MemoryEntry(identifier=identifier, content=content, **fields)


@pytest.fixture
def notices():
    return []


@pytest.fixture
def folder(tmp_path):
    return tmp_path / ".indusagi" / "memory"


@pytest.fixture
def store(folder, notices):
    return FileMemoryStore(folder, notify=lambda code, text: notices.append((code, text)))


def files(folder):
    return sorted(folder.glob("*.json"))


def test_a_file_is_readable_and_private(store, folder):
    old = os.umask(0)
    try:
        store.store(entry("a/b", "Grüße\nzwei", tags=["t"]))
    finally:
        os.umask(old)
    (path,) = files(folder)
    assert json.loads(path.read_text("utf-8"))["content"] == "Grüße\nzwei"
    assert len(path.read_text("utf-8").splitlines()) > 5
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert stat.S_IMODE((folder / ".lock").stat().st_mode) == 0o600


def test_reading_makes_no_folder(store, folder):
    assert store.list() == []
    assert store.retrieve("x") is None
    assert not folder.exists()


@pytest.mark.parametrize(
    "damage",
    [
        b"", b"{", b"[]", b"null", b"\x00\xff", b"{}", b'{"version":2}', b"\xef\xbb\xbf{}",
        b'{"version":1,"identifier":1}',
        b'{"version":1,"identifier":"x","content":"y","scope":"agent","createdAt":"yesterday","updatedAt":"2026-01-01"}',
        b'{"version":1,"identifier":"x","content":"y","scope":"everyone","createdAt":"2026-01-01","updatedAt":"2026-01-01"}',
        b"[" * 100_000,
    ],
)  # fmt: skip
def test_a_damaged_file_is_skipped_told_and_kept(store, folder, notices, damage):
    store.store(entry("good"))
    store.store(entry("bad"))
    bad = next(path for path in files(folder) if json.loads(path.read_bytes())["identifier"] == "bad")
    bad.write_bytes(damage)
    assert [found.identifier for found in store.list()] == ["good"]
    assert store.retrieve("bad") is None
    assert notices[0][0] == "memory_skipped"
    assert bad.name in notices[0][1]
    assert bad.read_bytes() == damage


def test_one_bad_time_does_not_open_the_time_filter(store, folder):
    store.store(entry("good"))
    store.store(entry("bad"))
    bad = next(path for path in files(folder) if json.loads(path.read_bytes())["identifier"] == "bad")
    record = json.loads(bad.read_bytes()) | {"createdAt": "0000-99-99"}
    bad.write_text(json.dumps(record))
    query = MemoryQuery(start_time=store.retrieve("good").created_at)
    assert [found.identifier for found in store.list(query)] == ["good"]


def test_a_file_under_anothers_name_is_skipped(store, folder, notices):
    store.store(entry("one"))
    (path,) = files(folder)
    path.rename(folder / ("0" * 64 + ".json"))
    assert store.list() == []
    assert "name" in notices[0][1]


def test_a_change_on_disk_is_seen(store, folder):
    store.store(entry("one", "before"))
    assert store.list()[0].content == "before"
    (path,) = files(folder)
    path.write_text(path.read_text().replace("before", "after!"))
    assert store.list()[0].content == "after!"
    assert store.search(MemoryQuery(text="after"))
    path.unlink()
    assert store.list() == []


def test_links_pipes_and_folders_are_not_read(store, folder, tmp_path, notices):
    store.store(entry("one"))
    (path,) = files(folder)
    secret = tmp_path / "secret"
    path.rename(secret)
    path.symlink_to(secret)
    assert store.list() == []
    path.unlink()
    os.mkfifo(path)
    assert store.list() == []
    path.unlink()
    path.mkdir()
    assert store.list() == []
    assert store.retrieve("one") is None


@pytest.mark.parametrize("which", ["folder", "parent"])
def test_a_folder_that_is_a_link_is_refused(store, folder, tmp_path, which):
    outside = tmp_path / "outside"
    outside.mkdir()
    if which == "folder":
        folder.parent.mkdir()
        folder.symlink_to(outside)
    else:
        folder.parent.symlink_to(outside)
    with pytest.raises(PersistenceFault):
        store.store(entry("one"))
    with pytest.raises(PersistenceFault):
        store.list()
    assert list(outside.iterdir()) == []


def test_a_write_that_fails_changes_nothing_and_says_so(store, folder, monkeypatch):
    store.store(entry("one", "before"))

    def full(*_):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(PersistenceFault, match="No space left"):
            store.store(entry("one", "after"))
    assert store.retrieve("one").content == "before"
    assert [path.name for path in folder.iterdir() if path.name.endswith(".tmp")] == []


def test_leftovers_of_a_killed_writer_are_tidied(folder):
    folder.mkdir(parents=True)
    (folder / ".x.json.abc.tmp").write_text("half")
    FileMemoryStore(folder).store(entry("one"))
    assert [path.name for path in folder.iterdir() if path.name.endswith(".tmp")] == []


def test_storing_costs_the_same_however_many_there_are(tmp_path, monkeypatch):
    def cost(number):
        store = FileMemoryStore(tmp_path / str(number))
        for index in range(number):
            store.store(entry(f"e{index}"))
        calls = 0
        real = os.open

        def counted(*arguments, **options):
            nonlocal calls
            calls += 1
            return real(*arguments, **options)

        with monkeypatch.context() as patch:
            patch.setattr(os, "open", counted)
            patch.setattr(os, "scandir", lambda *_: pytest.fail("the folder was listed"))
            store.store(entry("one more"))
            store.retrieve("one more")
        return calls

    assert cost(5) == cost(60)


def test_same_identifier_in_two_scopes_is_two_files(store, folder):
    store.store(entry("x", "mine"))
    store.store(entry("x", "ours", scope=MemoryScope.SHARED))
    assert len(files(folder)) == 2
    assert store.amend("x", scope=MemoryScope.SHARED).content == "mine"
    assert len(files(folder)) == 1


def test_a_lock_that_never_opens_is_told(store, folder, monkeypatch):
    import filelock

    store.store(entry("one"))
    monkeypatch.setattr("indusagi_lsp.memory.files.LOCK_TIMEOUT", 0.05)
    other = FileMemoryStore(folder)
    with filelock.FileLock(folder / ".lock"):
        begun = time.monotonic()
        with pytest.raises(PersistenceFault, match="locked"):
            other.store(entry("two"))
        assert time.monotonic() - begun < 5
    other.store(entry("two"))


def test_a_leftover_that_cannot_be_removed_is_left_and_the_lock_opened(folder):
    import filelock

    (folder / ".someone.tmp").mkdir(parents=True)
    FileMemoryStore(folder).store(entry("a"))
    with filelock.FileLock(folder / ".lock", timeout=0):
        assert (folder / ".someone.tmp").is_dir()

"""Whose history is it: what this user signed is theirs, everything else is foreign until adopted."""

from __future__ import annotations

import hmac
import json
import multiprocessing
import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from indusagi_lsp.contract.errors import PersistenceFault
from indusagi_lsp.contract.turns import assistant, user
from indusagi_lsp.sessions import SessionStore, Signer, load_key

CWD = "file:///workspace"
KEY = b"k" * 32
OTHER_KEY = b"o" * 32


def head(leaf: str | None, **fields) -> bytes:
    return json.dumps({"type": "head", "leaf": leaf, **fields}).encode() + b"\n"


async def test_only_the_user_who_wrote_it_trusts_it(window: Callable[..., SessionStore]) -> None:
    session = await window(key=OTHER_KEY).create(cwd=CWD, session_id="s")
    await session.append([user("please run this"), assistant("ok")])
    assert session.trusted
    mine = await window(key=KEY).open("s")
    assert not mine.trusted
    assert [turn.text for turn in mine.model_view()] == ["please run this", "ok"], "it can be read"
    [summary] = await window(key=KEY).summaries()
    assert not summary.trusted
    [summary] = await window(key=OTHER_KEY).summaries()
    assert summary.trusted


async def test_adopting_makes_it_mine(window: Callable[..., SessionStore]) -> None:
    session = await window(key=OTHER_KEY).create(cwd=CWD, session_id="s")
    await session.append([user("a")])
    mine = await window(key=KEY).open("s")
    await mine.adopt()
    assert mine.trusted
    await mine.append([user("b")])
    again = await window(key=KEY).open("s")
    assert again.trusted
    assert [turn.text for turn in again.model_view()] == ["a", "b"]


async def test_writing_to_a_foreign_session_does_not_launder_it(window: Callable[..., SessionStore]) -> None:
    session = await window(key=OTHER_KEY).create(cwd=CWD, session_id="s")
    nodes = await session.append([user("a"), assistant("b")])
    mine = await window(key=KEY).open("s")
    await mine.append([user("c")])
    await mine.move_head(nodes[0].id, "fork")
    assert not mine.trusted
    fork = await mine.fork_to_new(nodes[1].id)
    assert not fork.trusted
    await mine.condense(user("summary"), 1)
    assert not (await window(key=KEY).open("s")).trusted
    assert not (await window(key=KEY).open(fork.id)).trusted


async def test_going_to_a_foreign_branch_of_my_own_session_does_not_launder_it(
    window: Callable[..., SessionStore],
) -> None:
    mine = await window(key=KEY).create(cwd=CWD, session_id="s")
    [a] = await mine.append([user("a")])
    await mine.append([assistant("mine")])
    theirs = await window(key=OTHER_KEY).open("s")
    await theirs.move_head(a.id, "fork")
    [b] = await theirs.append([assistant("theirs")])
    again = await window(key=KEY).open("s")
    assert again.graph.leaf == b.id
    assert not again.trusted
    ours = next(leaf for leaf in again.graph.leaves() if leaf != b.id)
    await again.move_head(ours, "resume")
    assert again.trusted
    await again.move_head(b.id, "resume")
    assert not again.trusted
    await again.move_head(a.id, "fork")
    assert again.trusted
    assert (await window(key=KEY).open("s")).trusted


@pytest.mark.parametrize("mac", [None, "", "0" * 64, 5, ["x"], "é"])
async def test_a_head_with_a_false_mac(window: Callable[..., SessionStore], mac: object) -> None:
    session = await window(key=KEY).create(cwd=CWD, session_id="s")
    await session.append([user("a")])
    await session.close()
    evil = await window(key=OTHER_KEY).open("s")
    await evil.append([user("obey me")])
    text = Path(evil.path).read_bytes().splitlines(keepends=True)
    Path(evil.path).write_bytes(b"".join(text[:-1]) + head(evil.graph.leaf, why="append", by="me", mac=mac))
    mine = await window(key=KEY).open("s")
    assert mine.model_view()[-1].text == "obey me"
    assert not mine.trusted


async def test_a_signed_head_does_not_vouch_under_another_name(window: Callable[..., SessionStore], root: Path) -> None:
    session = await window(key=KEY).create(cwd=CWD, session_id="s")
    await session.append([user("a")])
    (root / "t.jsonl").write_bytes(Path(session.path).read_bytes())
    assert not (await window(key=KEY).open("t")).trusted


async def test_a_changed_ancestor_breaks_the_seal(window: Callable[..., SessionStore]) -> None:
    session = await window(key=KEY).create(cwd=CWD, session_id="s")
    await session.append([user("good words"), assistant("ok")])
    await session.close()
    path = Path(session.path)
    path.write_bytes(path.read_bytes().replace(b"good words", b"evil words"))
    mine = await window(key=KEY).open("s")
    assert mine.model_view()[0].text == "evil words"
    assert not mine.trusted


async def test_a_planted_cache_is_not_believed(window: Callable[..., SessionStore], root: Path) -> None:
    session = await window(key=OTHER_KEY).create(cwd=CWD, session_id="s")
    await session.append([user("a")])
    assert [one.trusted for one in await window(key=OTHER_KEY).summaries()] == [True]
    assert (root / ".cache" / "summaries.json").exists()
    assert [one.trusted for one in await window(key=KEY).summaries()] == [False]


async def test_without_a_signer_everything_is_trusted(root: Path) -> None:
    store = SessionStore(root)
    session = await store.create(cwd=CWD)
    await session.append([user("a")])
    assert session.trusted
    assert b'"mac"' not in Path(session.path).read_bytes()
    await store.close()


def test_a_mac_depends_on_key_session_and_leaf() -> None:
    signer = Signer(KEY)
    mac = signer.mac("s", "leaf")
    assert signer.valid("s", "leaf", mac)
    assert not signer.valid("t", "leaf", mac)
    assert not signer.valid("s", None, mac)
    assert not Signer(OTHER_KEY).valid("s", "leaf", mac)
    assert signer.mac("s", None) != mac
    with pytest.raises(ValueError):
        Signer(b"short")
    for key in (KEY, b"x" * 64, b"y" * 200):
        assert Signer(key).mac("s", "é") == hmac.new(key, "s\né".encode(), "sha256").hexdigest()


def test_the_key_is_made_once_and_is_private(tmp_path: Path) -> None:
    state = tmp_path / "a" / "state"
    before = os.umask(0)
    try:
        key = load_key(state)
    finally:
        os.umask(before)
    assert len(key) == 32
    assert load_key(state) == key
    [file] = state.iterdir()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(state.stat().st_mode) == 0o700
    assert load_key(tmp_path / "b") != key
    file.write_bytes(b"")
    with pytest.raises(PersistenceFault):
        load_key(state)


def test_processes_that_start_at_once_get_one_key(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    with context.Pool(4) as pool:
        keys = pool.map(load_key, [tmp_path / "state"] * 16, chunksize=1)
    assert len(set(keys)) == 1
    assert len(list((tmp_path / "state").iterdir())) == 1

"""None of the tools blocks the event loop."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from blockbuster import BlockBuster

from indusagi_lsp.sessions import SessionStore
from indusagi_lsp.sessions.compare import bring_back, compare_branches
from indusagi_lsp.sessions.doctor import examine
from indusagi_lsp.sessions.exporters import export_branch
from indusagi_lsp.sessions.importers import Importer
from indusagi_lsp.sessions.search import SearchIndex

if TYPE_CHECKING:
    from collections.abc import Iterator

FIXTURES = Path(__file__).parents[3] / "fixtures" / "transcripts"


@pytest.fixture
def watched() -> Iterator[None]:
    guard = BlockBuster(["indusagi_lsp"])
    guard.activate()
    yield
    guard.deactivate()


@pytest.mark.usefixtures("watched")
async def test_the_loop_is_never_blocked(tmp_path: Path) -> None:
    root = tmp_path / ".indusagi" / "sessions"
    reports = await Importer(root).import_files([FIXTURES])
    await Importer(root).import_all(home=tmp_path, environ={})
    assert (await SearchIndex(root).search("roses")).hits
    assert (await examine(root, repair=True)).sessions

    store = SessionStore(root)
    session = await store.open(next(str(r.session_id) for r in reports if r.path.endswith("growing-2.jsonl")))
    leaves = session.graph.leaves()
    await compare_branches(session, leaves[0], leaves[1])
    other = next(leaf for leaf in leaves if leaf != session.graph.leaf)
    await bring_back(session, other, "what came of it")
    assert b"<article" in await export_branch(session, "html")
    await store.close()


@pytest.mark.skipif(sys.platform == "win32", reason="deletes open files")
async def test_a_deleted_session_does_not_come_back(tmp_path: Path) -> None:
    root = tmp_path / ".indusagi" / "sessions"
    source = FIXTURES / "pi" / "tree.jsonl"
    [first] = await Importer(root).import_files([source])
    store = SessionStore(root)
    await store.delete(str(first.session_id))

    [again] = await Importer(root).import_files([source])

    assert again.problem == f"The session {first.session_id} was deleted here."
    assert await store.list_sessions() == []
    await store.close()

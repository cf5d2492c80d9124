"""What is dropped is not lost: real transcripts in real session files, condensed three times, looked up by the tool."""

from __future__ import annotations

from pathlib import Path

import pytest
from benchmarks import condensation as bench
from benchmarks import foreign, probes

from indusagi_lsp.condensation import CompactionPolicy, condense_plainly
from indusagi_lsp.conductor.history import StoredHistory
from indusagi_lsp.contract.tools import ToolContext
from indusagi_lsp.contract.turns import USER, turn_from_json, turn_to_json
from indusagi_lsp.memory import FileMemoryStore, MemoryService
from indusagi_lsp.sessions import SessionStore
from indusagi_lsp.sessions.search import SearchIndex
from indusagi_lsp.workspace.agent_tools import Recall
from support.histories import pairs

SAMPLES = bench.histories(None)
pytestmark = [
    pytest.mark.transcripts,
    pytest.mark.skipif(not SAMPLES, reason="no transcripts of other agents are here: recalling was not measured"),
]


def context(session: str) -> ToolContext:
    return ToolContext(session, "call")


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda sample: sample.name)
async def test_everything_is_read_again_after_three_condensations(sample: foreign.Sample, tmp_path: Path) -> None:
    root = tmp_path / "sessions"
    store = SessionStore(root)
    session = await store.create(cwd=tmp_path.as_uri())
    history = StoredHistory(session)
    nodes = []
    start = 0
    for part in (0.3, 0.6, 0.9):
        stop = int(len(sample.turns) * part)
        nodes += await history.append(sample.turns[start:stop])
        start = stop
        turns = history.view()
        made = condense_plainly(turns, bench.CARD, CompactionPolicy(), cut=len(turns))
        await history.condense(made, "manual")
    assert len(history.view()) == 1
    await store.close()

    # Another process: what is on the disk counts.
    store = SessionStore(root)
    session = await store.open(session.id)
    dropped = sample.turns[:start]
    kept = [session.graph.node(node.id).turn for node in nodes]
    assert kept == [turn_from_json(turn_to_json(turn)) for turn in dropped]
    assert pairs(kept) == pairs(dropped)

    index = SearchIndex(root)
    memory = MemoryService(FileMemoryStore(tmp_path / "shared"), FileMemoryStore(tmp_path / "user"))

    async def find(_: str) -> object:
        return session

    recall = Recall(memory, lambda: index, find)
    lost = []
    for fact in probes.must_keep(dropped):
        found = (await recall.run({"query": fact.key}, context(session.id))).output
        near = [turn for node, turn in zip(nodes, kept, strict=True) if f'node="{node.id}"' in found]
        if not any(probes.present(fact, probes.whole_text(turn)) for turn in near):
            lost.append(fact)
    assert lost == []
    last = next(node for node, turn in zip(reversed(nodes), reversed(kept), strict=True) if turn.role == USER)
    assert last.id in (await recall.run({"node": last.id}, context(session.id))).output
    index.close()
    await memory.close()
    await store.close()

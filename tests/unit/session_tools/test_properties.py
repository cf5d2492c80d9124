"""Properties: damaged files never raise, what is exported is what is loaded, importing twice is importing once."""

from __future__ import annotations

import json
import os
import random
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from indusagi_lsp.contract.clock import SystemClock
from indusagi_lsp.contract.models import Usage
from indusagi_lsp.contract.turns import (
    ImageBlock,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
    ToolResultBlock,
    Turn,
    block_from_json,
)
from indusagi_lsp.sessions.exporters import Branch, to_html, to_jsonl, to_markdown
from indusagi_lsp.sessions.importers import Importer, places
from indusagi_lsp.sessions.importers.assemble import assemble
from indusagi_lsp.sessions.nodes import Node, hash_node
from indusagi_lsp.sessions.state import SessionState, load

FIXTURES = Path(__file__).parents[3] / "fixtures" / "transcripts"
FILES = {path: path.read_bytes() for path in sorted(FIXTURES.rglob("*.json*"))}
RELAXED = settings(
    deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture], max_examples=120
)

text = st.text(st.characters(), max_size=30) | st.sampled_from(
    ["\ud800", "😀", "\u2028", "</script>", "```", "\x00", "e\u0301"]
)
json_value = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False) | text,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(text, inner, max_size=3),
    max_leaves=6,
)
block = st.one_of(
    st.builds(TextBlock, text),
    st.builds(ThinkingBlock, text, st.none() | text),
    st.builds(ToolCallBlock, text, text, json_value),
    st.builds(ToolResultBlock, text, text, st.none() | st.booleans()),
    st.builds(ImageBlock, st.sampled_from(["image/png", "image/svg+xml", '"><script>']), text),
    st.dictionaries(st.sampled_from(["kind", "a", "b"]), json_value, max_size=3).map(block_from_json),
)
turn = st.builds(
    Turn, st.sampled_from(["user", "assistant", "tool", "system"]) | text, st.lists(block, max_size=3).map(tuple)
)


def path_of(turns: list[Turn]) -> list[Node]:
    nodes: list[Node] = []
    parent: str | None = None
    for at, each in enumerate(turns):
        node = Node(hash_node(parent, each, at), parent, each, at)
        nodes.append(node)
        parent = node.id
    return nodes


@RELAXED
@given(st.lists(turn, min_size=1, max_size=5), text)
def test_what_is_exported_is_what_is_loaded(turns: list[Turn], title: str) -> None:
    nodes = path_of(turns)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "x.jsonl")
        path.write_bytes(to_jsonl(Branch("x", nodes, title)))
        state = SessionState("x", clock=SystemClock(), signer=None)
        load(state, str(path))

        assert [node.id for node in state.graph.nodes_to(state.graph.leaf)] == [node.id for node in nodes]
        assert state.report.clean
        assert all(node.verified for node in state.graph.nodes_to(state.graph.leaf))


@RELAXED
@given(st.lists(turn, min_size=1, max_size=4), text)
def test_every_branch_has_a_page_and_a_text(turns: list[Turn], title: str) -> None:
    branch = Branch("x", path_of(turns), title, usage=Usage(1, 2, cost=0.5))

    page = to_html(branch)
    page.encode()
    to_markdown(branch).encode()
    assert "<script" not in page.lower()
    assert page.count("<article") == page.count("</article>") == len(turns)


@RELAXED
@given(st.data())
def test_damage_never_raises(data: st.DataObject) -> None:
    path = data.draw(st.sampled_from(list(FILES)))
    lines = FILES[path].split(b"\n")
    kept = data.draw(st.lists(st.sampled_from(lines), max_size=2 * len(lines)))
    content = bytearray(b"\n".join(kept))
    for _ in range(data.draw(st.integers(0, 5))):
        if content:
            content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    tool = places.tool_of(bytes(content), path) or data.draw(st.sampled_from(places.TOOLS))

    transcript = places.read(bytes(content), path.stem, tool)
    made = assemble(transcript)

    known: set[str] = set()
    for node in made.nodes:
        assert node.parent is None or node.parent in known, "parents come first"
        known.add(node.id)
    assert made.head is None or made.head in known
    assert all(turn.role != "assistant" or turn.blocks for turn in (node.turn for node in made.nodes))


WRONG = (
    None,
    True,
    0,
    1.5,
    "x",
    "\ud800",
    "",
    -1,
    "e1",
    "a1",
    10**17,
    [],
    {},
    [1],
    [[]],
    [None],
    {"a": 1},
    {"text": 5},
)


def mutated(value: Any, dice: random.Random) -> Any:
    """Swap one value somewhere in JSON data for one of another type."""
    if dice.random() < 0.3 or not value or not isinstance(value, dict | list):
        return dice.choice(WRONG)

    if isinstance(value, dict):
        key = dice.choice(list(value))
        return {**value, key: mutated(value[key], dice)}

    at = dice.randrange(len(value))
    return [*value[:at], mutated(value[at], dice), *value[at + 1 :]]


def test_wrong_types_never_raise() -> None:
    for seed in range(5_000 if os.environ.get("INDUSAGI_LONG") else 300):
        dice = random.Random(seed)
        path = dice.choice(list(FILES))
        changed = []
        for line in FILES[path].split(b"\n") if path.suffix == ".jsonl" else [FILES[path]]:
            try:
                value = json.loads(line)
            except ValueError:
                continue
            for _ in range(dice.choice((0, 0, 1, 2))):
                value = mutated(value, dice)
            changed.append(json.dumps(value))
        content = "\n".join(changed).encode()
        for tool in places.TOOLS:
            assemble(places.read(content, path.stem, tool))


@pytest.mark.parametrize("path", list(FILES), ids=lambda path: path.name[:20])
async def test_importing_an_export_gives_the_same_ids(path: Path, tmp_path: Path) -> None:
    [report] = await Importer(tmp_path / "first").import_files([path])
    name = str(report.session_id)
    state = SessionState(name, clock=SystemClock(), signer=None)
    load(state, str(tmp_path / "first" / f"{name}.jsonl"))
    nodes = state.graph.nodes_to(state.graph.leaf)
    exported = tmp_path / "exported.jsonl"
    exported.write_bytes(to_jsonl(Branch(name, nodes)))

    [again] = await Importer(tmp_path / "second").import_files([exported])

    other = SessionState("x", clock=SystemClock(), signer=None)
    load(other, str(tmp_path / "second" / f"{again.session_id}.jsonl"))
    assert [node.id for node in other.graph.nodes_to(other.graph.leaf)] == [node.id for node in nodes]

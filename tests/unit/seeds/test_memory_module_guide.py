"""The examples of the "Memory Module" developer guide, in the order of the document and in Python spelling."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from indusagi_lsp.condensation import (
    SUMMARY_PREFIX,
    CompactionPolicy,
    compact,
    estimate_context_tokens,
    find_cut_point,
    should_compact,
)
from indusagi_lsp.conductor import AgentConfig, AgentDeps, create_agent
from indusagi_lsp.contract.errors import ModelError
from indusagi_lsp.contract.models import ModelCard
from indusagi_lsp.contract.turns import TextBlock, ToolCallBlock, ToolResultBlock, Turn, assistant, user
from indusagi_lsp.ledger import RunLedger, SnapshotAccumulator
from indusagi_lsp.sessions import SessionGraph, SessionStore
from support.scripted import Reply, ScriptedModel, call
from unit.conductor.rig import EchoTool

POLICY = CompactionPolicy(trigger_ratio=0.8, keep_recent=8)
SMALL = ModelCard("scripted:test", "scripted", "test", window=3_000, tools=False)
LONG = "word " * 120


def history(turns: int) -> list[Turn]:
    return [user(f"{n} {LONG}") if n % 2 == 0 else assistant(f"{n} {LONG}") for n in range(turns)]


def deps(model: ScriptedModel, **more: Any) -> AgentDeps:
    return AgentDeps(invoke_model=model, catalogue=model, **more)


# --- Configuring condensation ---------------------------------------------------------------------------------------


async def test_condensation_is_governed_by_the_policy() -> None:
    model = ScriptedModel([LONG], loop=True, card=SMALL)
    agent = create_agent(AgentConfig(model="claude-sonnet-4", compaction=POLICY), deps(model))
    for number in range(12):
        final = await agent.submit(f"{number} {LONG}")

    assert final.messages[0].role == "user"
    assert final.messages[0].text.startswith("[condensed earlier context]")
    assert len(model.last.turns) < 24


async def test_without_a_policy_condensation_is_disabled() -> None:
    model = ScriptedModel([LONG], loop=True, card=SMALL)
    agent = create_agent(AgentConfig(model="claude-sonnet-4"), deps(model))
    for number in range(12):
        await agent.submit(f"{number} {LONG}")
    assert len(agent.snapshot().messages) == 24


def test_the_defaults_are_those_of_the_guide() -> None:
    assert (CompactionPolicy().trigger_ratio, CompactionPolicy().keep_recent) == (0.8, 8)


def test_the_footprint_is_about_four_characters_per_token_plus_a_surcharge_per_turn() -> None:
    assert estimate_context_tokens([user("x" * 400)]) == 100 + 4
    assert estimate_context_tokens([user("x" * 400)] * 3) == 3 * 104


# --- Observing a run through the ledger -----------------------------------------------------------------------------


async def test_a_subscriber_sees_the_run_and_can_be_disposed() -> None:
    model = ScriptedModel([Reply("I list.", calls=(call("echo", text="x"),)), "Done.", "more"])
    agent = create_agent(AgentConfig(model="claude-sonnet-4", tools=(EchoTool(),)), deps(model))
    out: list[str] = []

    def on_event(event: Any) -> None:
        match event.kind:
            case "text_delta":
                out.append(event.delta)
            case "tool_started":
                out.append(f"[tool] {event.name} started")
            case "tool_finished":
                out.append(f"[tool] {event.name} finished")
            case "settled":
                out.append(f"[done] {len(event.snapshot.messages)} turns")
            case "faulted":
                out.append(f"[fault] {event.error.kind}")

    unsubscribe = agent.subscribe(on_event)
    await agent.submit("List the files in src/runtime.")
    assert "".join(out) == "I list.[tool] echo started[tool] echo finishedDone.[done] 4 turns"

    unsubscribe()
    await agent.submit("again")
    assert len(out) == 5


async def test_a_fault_is_told_with_its_kind() -> None:
    model = ScriptedModel([ModelError("no")])
    agent = create_agent(AgentConfig(model="claude-sonnet-4"), deps(model))
    kinds: list[str] = []
    agent.subscribe(lambda event: kinds.append(event.error.kind) if event.kind == "faulted" else None)
    await agent.submit("hi")
    assert kinds == ["model_failed"]


async def test_the_accumulator_knows_where_the_run_is() -> None:
    ledger = RunLedger()
    accumulator = SnapshotAccumulator()
    detach = accumulator.attach(ledger)
    assert accumulator.get_snapshot() is None
    model = ScriptedModel(["hello", "again"])
    agent = create_agent(AgentConfig(model="claude-sonnet-4"), deps(model, ledger=ledger))
    await agent.submit("hi")
    current = accumulator.get_snapshot()
    assert current is not None
    assert (current.phase, len(current.messages)) == ("settled", 2)

    detach()
    await agent.submit("more")
    assert accumulator.get_snapshot() == current


async def test_a_throwing_subscriber_does_not_break_the_run_nor_the_others() -> None:
    model = ScriptedModel(["hello"])
    agent = create_agent(AgentConfig(model="claude-sonnet-4"), deps(model))
    kinds: list[str] = []

    def throws(_: Any) -> None:
        message = "mine"
        raise ValueError(message)

    agent.subscribe(throws)
    agent.subscribe(lambda event: kinds.append(event.kind))
    assert (await agent.submit("hi")).phase == "settled"
    assert kinds[-1] == "settled"


# --- Persisting and resuming sessions -------------------------------------------------------------------------------


async def test_a_session_is_persisted_and_resumed_by_a_fresh_agent(tmp_path: Path) -> None:
    store = SessionStore(tmp_path / "sessions")
    agent = create_agent(AgentConfig(model="claude-sonnet-4"), deps(ScriptedModel(["started"]), store=store))
    await agent.submit("Start a new task.")
    session_id = agent.session_id
    assert session_id is not None
    await store.close()

    model = ScriptedModel(["going on"])
    resumed = create_agent(AgentConfig(model="claude-sonnet-4"), deps(model, store=SessionStore(tmp_path / "sessions")))
    view = await resumed.resume(session_id)
    assert [turn.text for turn in view.messages] == ["Start a new task.", "started"]
    await resumed.submit("And now?")
    assert [turn.text for turn in model.last.turns] == ["Start a new task.", "started", "And now?"]


async def test_resuming_raises_no_content_events(tmp_path: Path) -> None:
    store = SessionStore(tmp_path)
    agent = create_agent(AgentConfig(model="m:m"), deps(ScriptedModel(["x"]), store=store))
    await agent.submit("a")
    assert agent.session_id is not None

    fresh = create_agent(AgentConfig(model="m:m"), deps(ScriptedModel(["x"]), store=store))
    events: list[Any] = []
    fresh.subscribe(events.append)
    await fresh.resume(agent.session_id)
    assert events == []
    await store.close()


async def test_a_store_counts_only_if_it_is_a_real_one() -> None:
    class Looks:
        """Looks like a store, and is none."""

        async def create(self, **_: Any) -> None:
            pytest.fail("a store that is no SessionStore was used")

    agent = create_agent(AgentConfig(model="m:m"), deps(ScriptedModel(["x"]), store=Looks(), ledger=object()))
    assert (await agent.submit("a")).phase == "settled"
    assert agent.session is None


async def test_on_disk_each_line_is_a_record_and_the_last_head_names_the_leaf(tmp_path: Path) -> None:
    store = SessionStore(tmp_path)
    agent = create_agent(AgentConfig(model="m:m"), deps(ScriptedModel(["hello"]), store=store))
    final = await agent.submit("hi")
    await store.close()

    records = [json.loads(line) for line in (tmp_path / f"{agent.session_id}.jsonl").read_bytes().splitlines()]
    nodes = [record["node"] for record in records if record["type"] == "node"]
    heads = [record["leaf"] for record in records if record["type"] == "head"]
    assert [node["turn"]["role"] for node in nodes] == ["user", "assistant"]
    assert nodes[1]["parent"] == nodes[0]["id"]
    assert heads[-1] == nodes[1]["id"] == final.leaf


# --- The pieces in isolation ----------------------------------------------------------------------------------------


async def test_deciding_and_performing_a_condensation() -> None:
    messages = history(24)
    model = ScriptedModel(["never asked"], card=SMALL)
    assert should_compact(messages, SMALL, POLICY)
    assert not should_compact(messages[:4], SMALL, POLICY)
    cut = find_cut_point(messages, 8)
    assert cut == 16

    condensed = await compact(messages, SMALL, CompactionPolicy(0.8, 8, tail_ratio=1.0), None)
    assert condensed[0].role == "user"
    assert condensed[0].text.startswith(SUMMARY_PREFIX)
    assert condensed[1:] == messages[16:]
    assert model.requests == []


async def test_compact_returns_the_very_same_turns_when_there_is_nothing_to_drop() -> None:
    messages = history(6)
    model = ScriptedModel(["never asked"])
    assert find_cut_point(messages, 8) == 0
    assert await compact(messages, model.card_, POLICY, model) == messages
    assert model.requests == []


def test_the_cut_never_splits_a_call_from_its_result() -> None:
    messages = [
        user("go"),
        Turn("assistant", (ToolCallBlock("c1", "read", {}), ToolCallBlock("c2", "read", {}))),
        Turn("tool", (ToolResultBlock("c1", "one"),)),
        Turn("tool", (ToolResultBlock("c2", "two"),)),
        assistant("done"),
    ]
    assert [find_cut_point(messages, keep) for keep in (1, 2, 3, 4)] == [4, 1, 1, 1]


def test_building_a_session_graph_by_hand() -> None:
    graph = SessionGraph("session-42")
    a = graph.append({"role": "user", "blocks": [{"kind": "text", "text": "hi"}]})
    b = graph.append({"role": "assistant", "blocks": [{"kind": "text", "text": "hello"}]})
    assert graph.leaf == b.id
    assert graph.path_to(b.id) == [user("hi"), assistant("hello")]

    graph.branch_from(a.id)
    c = graph.append({"role": "user", "blocks": [{"kind": "text", "text": "again"}]})
    assert sorted(graph.children(a.id)) == sorted([b.id, c.id])

    context = graph.resume(b.id)
    assert graph.leaf == b.id
    assert [turn.text for turn in context] == ["hi", "hello"]


def test_an_identical_turn_collapses_to_the_same_node() -> None:
    graph = SessionGraph("s")
    a = graph.append(user("hi"), created_at=5)
    graph.branch_from(None)
    again = graph.append(user("hi"), created_at=5)
    graph.branch_from(None)
    later = graph.append(user("hi"), created_at=6)
    assert a.id == again.id != later.id
    assert len(graph) == 2


# --- Schema migration on load ---------------------------------------------------------------------------------------


class RenameLeaf:
    """The guide's example of a migrator, with something to do."""

    id = "2026-06-rename-leaf"

    def upgrade(self, raw: Mapping[str, Any]) -> Mapping[str, Any]:
        if raw.get("type") == "head" and "tip" in raw:
            return {"type": "head", "leaf": raw["tip"]}
        return raw


async def test_migrators_upgrade_each_raw_record_at_load(tmp_path: Path) -> None:
    graph = SessionGraph("session-42")
    a, b = graph.append(user("hi"), created_at=1), graph.append(assistant("hello"), created_at=2)
    lines = []
    for node in (a, b):
        turn = {"role": node.turn.role, "blocks": [{"kind": "text", "text": node.turn.text}]}
        record = {"id": node.id, "parent": node.parent, "turn": turn, "createdAt": node.created_at}
        lines.append({"type": "node", "node": record})
    lines += [{"type": "head", "tip": a.id}, {"type": "unheard of"}, {"no": "type"}]
    path = tmp_path / "session-42.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), "utf-8")

    assert (await SessionStore(tmp_path, [RenameLeaf()]).load_session("session-42")).leaf == a.id
    assert (await SessionStore(tmp_path).load_session("session-42")).leaf == b.id


async def test_a_record_that_is_neither_node_nor_head_is_skipped_and_a_missing_file_is_an_empty_graph(
    tmp_path: Path,
) -> None:
    store = SessionStore(tmp_path)
    (tmp_path / "odd.jsonl").write_text('{"type":"surprise"}\n[1]\nnot json\n', "utf-8")
    odd = await store.load_session("odd")
    assert (len(odd), odd.leaf) == (0, None)

    missing = await store.load_session("missing")
    assert (len(missing), missing.leaf, missing.session_id) == (0, None, "missing")


def test_blocks_of_the_guide_round_trip_as_values() -> None:
    assert Turn("user", (TextBlock("hi"),)) == user("hi")

from __future__ import annotations

import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from indusagi_lsp.contract import events as e
from indusagi_lsp.contract.models import Usage
from indusagi_lsp.contract.turns import ToolCallBlock, Turn, assistant, user
from indusagi_lsp.protocol import messages as m
from indusagi_lsp.protocol.events import (
    EVENT_TYPES,
    EventEncoder,
    event_to_json,
    snapshot_view,
)

SNAPSHOT = e.RunSnapshot(
    "r",
    "s",
    "faulted",
    (user("hi"), Turn("assistant", (ToolCallBlock("c", "read_file", {"path": "a"}),), {"later": 1})),
    (e.PendingCall("c", "read_file", "started"),),
    Usage(1, 2, 3, 4, 0.5),
    "p:m",
    "leaf",
    e.Fault("aborted", "stopped", "go on"),
    "par",
)
EVENTS = [
    e.Snapshot(SNAPSHOT),
    e.TextDelta("é"),
    e.ThinkingDelta("x"),
    e.ToolStarted("c", "n"),
    e.ToolFinished("c", "n", e.ToolResult("out", is_error=True)),
    e.Settled(SNAPSHOT),
    e.Faulted(e.Fault("aborted", "stopped"), SNAPSHOT),
    e.RunStarted(None),
    e.ToolCalled("c", "n", {"a": [1]}),
    e.ToolUpdate("c", "t"),
    e.ApprovalRequested("i", "c", "rm", ("once", "deny")),
    e.ApprovalResolved("i", "deny", "user"),
    e.UsageReported(1, 2, None, 3, None),
    e.CondenseStarted("auto"),
    e.CondenseFinished(1, 2, 3),
    e.Persisted("n", "l"),
    e.QueueChanged(1),
    e.Retry(1, 0.5, "x"),
    e.SessionChanged(("a",), "h", ()),
    e.MemoryRecalled(({"id": "m"},)),
    e.Notice("info", "c", "t"),
]


def test_every_kind_is_here():
    assert [type(event) for event in EVENTS] == list(EVENT_TYPES)


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: event.kind)
def test_the_fast_way_and_the_plain_way_agree(event):
    params = json.loads(EventEncoder().notification("w", "s", "r", 7, 9, event))["params"]
    assert params["event"] == event_to_json(event)
    assert params["event"]["kind"] == event.kind
    taken = msgspec.convert(params, m.EventParams)
    assert (taken.seq, taken.at, taken.run_id) == (7, 9, "r")


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: event.kind)
def test_names_are_camel_case(event):
    def names(value):
        if isinstance(value, dict):
            for name, item in value.items():
                yield name
                yield from names(item)

    assert not [name for name in names(event_to_json(event)) if "_" in name]


def test_a_snapshot_is_the_same_in_both_forms():
    assert event_to_json(e.Snapshot(SNAPSHOT))["snapshot"] == msgspec.to_builtins(snapshot_view(SNAPSHOT))
    assert msgspec.convert(event_to_json(e.Settled(SNAPSHOT))["snapshot"], m.SnapshotView) == snapshot_view(SNAPSHOT)


@given(st.text(), st.text(), st.text(), st.text())
def test_any_text_survives(workspace, session, run, delta):
    """Also a lone surrogate, which UTF-8 has no bytes for."""
    body = EventEncoder().notification(workspace, session, run, 1, 2, e.TextDelta(delta + "\ud800"))
    params = json.loads(body)["params"]
    assert (params["workspace"], params["sessionId"], params["runId"]) == (workspace, session, run)
    assert params["event"]["delta"] == delta + "\ud800"
    body = EventEncoder().notification(
        workspace,
        session,
        run,
        1,
        2,
        e.Settled(e.RunSnapshot(run, session, "settled", (user("\ud800"),), partial="\udfff")),
    )
    assert json.loads(body)["params"]["event"]["snapshot"]["partial"] == "\udfff"


def test_turns_that_were_sent_are_kept_but_not_for_ever():
    encoder = EventEncoder()
    for number in range(5000):
        turns = (user(f"turn {number}"), assistant("same"))
        body = encoder.notification("w", "s", "r", 1, 2, e.Settled(e.RunSnapshot("r", "s", "settled", turns)))
        assert json.loads(body)["params"]["event"]["snapshot"]["messages"][0]["blocks"][0]["text"] == f"turn {number}"
    assert len(encoder._turns) <= 2048

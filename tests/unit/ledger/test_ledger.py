"""The ledger delivers in order and isolates its subscribers; the accumulator advances on snapshots alone."""

from __future__ import annotations

import logging

import pytest

from indusagi_lsp.contract.events import (
    Fault,
    Faulted,
    RunEvent,
    RunSnapshot,
    Settled,
    Snapshot,
    TextDelta,
    ToolStarted,
)
from indusagi_lsp.ledger import RunLedger, SnapshotAccumulator


def snapshot(phase: str) -> RunSnapshot:
    return RunSnapshot(run_id="r", session_id="s", phase=phase)


def test_subscribers_are_called_in_order_of_registration() -> None:
    ledger = RunLedger()
    seen: list[tuple[str, RunEvent]] = []
    ledger.subscribe(lambda event: seen.append(("first", event)))
    ledger.subscribe(lambda event: seen.append(("second", event)))

    ledger.publish(TextDelta("a"))

    assert seen == [("first", TextDelta("a")), ("second", TextDelta("a"))]


def test_a_disposed_subscriber_hears_nothing_more_and_disposing_twice_is_harmless() -> None:
    ledger = RunLedger()
    seen: list[RunEvent] = []
    dispose = ledger.subscribe(seen.append)
    ledger.publish(TextDelta("a"))
    dispose()
    dispose()
    ledger.publish(TextDelta("b"))

    assert seen == [TextDelta("a")]


def test_the_same_function_may_subscribe_twice() -> None:
    ledger = RunLedger()
    seen: list[RunEvent] = []
    first = ledger.subscribe(seen.append)
    ledger.subscribe(seen.append)
    first()
    ledger.publish(TextDelta("a"))

    assert seen == [TextDelta("a")]


def test_a_throwing_subscriber_breaks_nothing_and_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    ledger = RunLedger()
    seen: list[RunEvent] = []

    def throws(_: RunEvent) -> None:
        message = "mine"
        raise RuntimeError(message)

    ledger.subscribe(throws)
    ledger.subscribe(seen.append)
    with caplog.at_level(logging.ERROR):
        ledger.publish(TextDelta("a"))
        ledger.publish(TextDelta("b"))

    assert seen == [TextDelta("a"), TextDelta("b")]
    assert len(caplog.records) == 1


def test_a_handler_may_subscribe_and_dispose_while_it_is_called() -> None:
    ledger = RunLedger()
    seen: list[RunEvent] = []

    def once(_: RunEvent) -> None:
        dispose()
        ledger.subscribe(seen.append)

    dispose = ledger.subscribe(once)
    ledger.publish(TextDelta("a"))
    ledger.publish(TextDelta("b"))

    assert seen == [TextDelta("b")]


def test_the_accumulator_advances_on_snapshot_settled_and_faulted_alone() -> None:
    ledger = RunLedger()
    accumulator = SnapshotAccumulator()
    detach = accumulator.attach(ledger)
    assert accumulator.get_snapshot() is None

    ledger.publish(Snapshot(snapshot("invoking")))
    ledger.publish(TextDelta("a"))
    ledger.publish(ToolStarted("c", "read_file"))
    current = accumulator.get_snapshot()
    assert current is not None
    assert current.phase == "invoking"

    ledger.publish(Settled(snapshot("settled")))
    assert accumulator.get_snapshot() == snapshot("settled")
    ledger.publish(Faulted(Fault("model_failed", "m"), snapshot("faulted")))
    assert accumulator.get_snapshot() == snapshot("faulted")

    detach()
    ledger.publish(Settled(snapshot("settled")))
    assert accumulator.get_snapshot() == snapshot("faulted")

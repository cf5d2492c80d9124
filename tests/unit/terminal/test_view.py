"""Events as a person sees them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from indusagi_lsp.contract import events as e
from indusagi_lsp.terminal.view import RunView, clause, last_answer, turn_text

if TYPE_CHECKING:
    from .conftest import Recorder


@pytest.fixture
def view(screen: Recorder) -> RunView:
    return RunView(screen, clock=lambda: 10.0)


def feed(view: RunView, *events: dict[str, Any]) -> None:
    for seq, event in enumerate(events, 1):
        view.handle(seq, event)


def settled(text: str) -> dict[str, Any]:
    turn = {"role": "assistant", "blocks": [{"kind": "text", "text": text}]}
    return {"kind": "settled", "snapshot": {"messages": [turn]}}


def test_an_answer_is_streamed_and_ends_its_line(view: RunView, screen: Recorder) -> None:
    feed(
        view,
        {"kind": "run_started", "node": "n"},
        {"kind": "text_delta", "delta": "one "},
        {"kind": "text_delta", "delta": "two"},
        settled("one two"),
    )
    assert screen.answer == "one two\n"
    assert not view.running


def test_turns_reasoning_and_tools_do_not_share_lines(view: RunView, screen: Recorder) -> None:
    feed(
        view,
        {"kind": "thinking_delta", "delta": "hm"},
        {"kind": "text_delta", "delta": "Looking."},
        {"kind": "tool_called", "id": "1", "name": "read_file", "input": {"path": "a\nb", "start_line": 2}},
        {"kind": "tool_finished", "id": "1", "name": "read_file", "outcome": {"output": "x\ny", "isError": False}},
        {"kind": "tool_called", "id": "2", "name": "list_files", "input": {}},
        {
            "kind": "tool_finished",
            "id": "2",
            "name": "list_files",
            "outcome": {"output": "no such folder", "isError": True},
        },
        {"kind": "text_delta", "delta": "Done."},
        settled("Done."),
    )
    assert screen.thoughts == "hm\n"
    assert screen.answer == "Looking.\nDone.\n"
    assert screen.lines == [
        ("tool", '● read_file {"path": "a\\nb", "start_line": 2}'),
        ("dim", "  └ 2 lines"),
        ("tool", "● list_files"),
        ("error", "  └ no such folder"),
    ]


def test_what_a_tool_writes_is_shown_once(view: RunView, screen: Recorder) -> None:
    feed(
        view,
        {"kind": "tool_called", "id": "1", "name": "run_command", "input": {"command": "make"}},
        {"kind": "tool_update", "id": "1", "text": "one\ntwo\n"},
        {"kind": "tool_update", "id": "1", "text": "\n"},
        {
            "kind": "tool_finished",
            "id": "1",
            "name": "run_command",
            "outcome": {"output": "one\ntwo\n[exit code 2]", "isError": True},
        },
    )
    assert screen.lines == [
        ("tool", "● run_command make"),
        ("dim", "  │ one\n  │ two"),
        ("error", "  └ [exit code 2]"),
    ]


def test_nothing_that_steers_the_terminal_gets_through(view: RunView, screen: Recorder) -> None:
    evil = "\x1b]0;owned\x07\x1b[2J\u202e\u0007"
    feed(
        view,
        {"kind": "text_delta", "delta": "a\x1b"},
        {"kind": "text_delta", "delta": "[31mb"},
        {"kind": "thinking_delta", "delta": evil},
        {"kind": "tool_called", "id": evil, "name": evil, "input": {"x": evil}},
        {"kind": "tool_update", "id": "1", "text": evil},
        {"kind": "tool_finished", "id": "1", "name": evil, "outcome": {"output": evil, "isError": True}},
        {"kind": "retry", "attempt": 1, "delay": 2.0, "error": evil},
        {"kind": "notice", "level": "error", "code": "x", "text": evil},
        {"kind": "condense_started", "trigger": "auto"},
        {"kind": "condense_finished", "before": 1, "after": 1, "cut": 0, "reason": evil},
        {"kind": "faulted", "error": {"kind": "x", "message": evil, "hint": evil}, "snapshot": {}},
    )
    assert screen.answer.startswith("ab")
    everything = screen.answer + screen.thoughts + screen.shown
    assert not any(character in everything for character in "\x1b\x07\u202e")


def test_lost_events_are_made_up_for_at_the_end(view: RunView, screen: Recorder) -> None:
    view.handle(1, {"kind": "run_started", "node": "n"})
    view.handle(2, {"kind": "text_delta", "delta": "abc"})
    view.handle(5, settled("abcdef"))
    assert screen.answer == "abcdef\n"

    view.handle(6, {"kind": "run_started", "node": "n"})
    view.handle(7, {"kind": "text_delta", "delta": "abc"})
    view.handle(9, {"kind": "text_delta", "delta": "xyz"})
    view.handle(10, settled("abc def xyz"))
    assert screen.answer.endswith("abcxyz\nabc def xyz\n")
    assert "whole answer" in screen.shown


def test_a_stop_is_no_error_and_a_fault_comes_with_its_hint(view: RunView, screen: Recorder) -> None:
    feed(view, {"kind": "faulted", "error": {"kind": "aborted", "message": "Stopped.", "hint": ""}, "snapshot": {}})
    assert screen.lines == [("warning", "Stopped. What was said is kept; just go on.")]
    feed(
        view, {"kind": "faulted", "error": {"kind": "model_failed", "message": "No.", "hint": "Do x."}, "snapshot": {}}
    )
    assert screen.lines[1:] == [("error", "No."), ("dim", "Do x.")]


def test_usage_condensing_and_the_queue_are_told(view: RunView, screen: Recorder) -> None:
    feed(
        view,
        {"kind": "usage", "input": 5, "output": 1, "window": 100, "estimate": 50, "cost": 0.25},
        {"kind": "usage", "input": 5, "output": 1, "window": 100, "estimate": 60, "cost": None},
        {"kind": "queue", "count": 2},
        {"kind": "condense_started", "trigger": "auto"},
        {"kind": "condense_finished", "before": 900, "after": 90, "cut": 3, "summary": "s"},
        {"kind": "condense_started", "trigger": "manual"},
        {"kind": "condense_finished", "before": 900, "after": 90, "cut": 3, "summary": "s"},
    )
    assert view.tokens == (60, 100)
    assert view.cost == 0.25
    assert view.queued == 2
    assert [text for _, text in screen.lines] == [
        "Condensing: the conversation is getting long.",
        "Condensed from 900 to 90 tokens; /undo takes it back.",
    ]


@pytest.mark.parametrize("cls", e.RunEvent.__args__)
def test_every_kind_may_come_without_its_fields(view: RunView, cls: type[Any]) -> None:
    view.handle(1, {"kind": cls.kind})
    view.handle(
        2, {"kind": cls.kind, "snapshot": 3, "error": [], "outcome": "x", "delta": 5, "entries": {}, "input": None}
    )


def test_small_helpers() -> None:
    assert clause("It is so. ") == "It is so"
    assert last_answer(None) == ""
    assert last_answer({"messages": [{"role": "user", "blocks": []}]}) == ""
    assert turn_text([{"kind": "text", "text": "a"}, {"kind": "image"}, {"kind": "text", "text": "b"}]) == "a\nb"


@pytest.mark.parametrize(
    ("decision", "words"),
    [("once", "allowed once"), ("session", "for this session"), ("always", "always allowed"), ("deny", "denied")],
)
def test_a_decision_is_told_as_it_was(view: RunView, screen: Recorder, decision: str, words: str) -> None:
    feed(view, {"kind": "approval_resolved", "id": "a", "decision": decision, "by": "user"})
    assert words in str(screen.__dict__)

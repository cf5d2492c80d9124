"""A run as a person sees it: the events of one session, told to a screen.

The screen is either the chat (text above the input line) or plain streams. Everything that the server says of
foreign origin passes through `visible` here.
"""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias

from indusagi_lsp.contract.text import VisibleStream, visible, visible_line

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

Style: TypeAlias = Literal["plain", "dim", "tool", "good", "warning", "error", "prompt"]

_INPUT_CHARS = 160
_RESULT_CHARS = 160


class Screen(Protocol):
    """Where a run is shown."""

    def text(self, piece: str) -> None:
        """More of the answer; it may end anywhere in a line."""
        ...

    def thinking(self, piece: str) -> None:
        """More of the reasoning."""
        ...

    def line(self, text: str, style: Style = "plain") -> None:
        """Something beside the answer, on lines of its own."""
        ...


class RunView:
    """Shows the runs of one session.

    Args:
        screen: where.
        clock: seconds that never go back.
    """

    def __init__(self, screen: Screen, clock: Callable[[], float] = time.monotonic) -> None:
        self._screen = screen
        self._clock = clock
        self._text = VisibleStream()
        self._thought = VisibleStream()
        self._said = ""
        self._thought_open = False
        self._manual = False
        self._updated: set[str] = set()
        self._seq: int | None = None
        self._gap = False
        self._kinds: dict[str, Callable[[Mapping[str, Any]], None]] = {
            "run_started": self._run_started,
            "text_delta": self._text_delta,
            "thinking_delta": self._thinking_delta,
            "tool_called": self._tool_called,
            "tool_update": self._tool_update,
            "tool_finished": self._tool_finished,
            "approval_requested": self._approval_requested,
            "approval_resolved": self._approval_resolved,
            "condense_started": self._condense_started,
            "condense_finished": self._condense_finished,
            "retry": self._retry,
            "usage": self._usage,
            "queue": self._queue,
            "session_changed": self._session_changed,
            "memory_recalled": self._memory_recalled,
            "notice": self._notice,
            "settled": self._settled,
            "faulted": self._faulted,
        }
        self.activity = ""
        self.started: float | None = None
        self.queued = 0
        self.tokens: tuple[int, int | None] | None = None
        self.cost = 0.0

    @property
    def running(self) -> bool:
        """Whether a run goes on."""
        return self.started is not None

    @property
    def seconds(self) -> float:
        """How long the run has taken so far."""
        return 0.0 if self.started is None else self._clock() - self.started

    def handle(self, seq: int, event: Mapping[str, Any]) -> None:
        """Show one event; a kind that is not known is passed over.

        Args:
            seq: its number; a gap means that some were lost, and the whole answer is shown at the end.
            event: with its `kind`.
        """
        if self._seq is not None and seq > self._seq + 1:
            self._gap = True
        self._seq = seq
        show = self._kinds.get(str(event.get("kind")))
        if show is not None:
            show(event)

    def begin(self) -> None:
        """A prompt was sent; the wait begins."""
        if self.started is None:
            self.started = self._clock()
            self.activity = "waiting for the model"

    def end(self) -> None:
        """Nothing more comes of the run."""
        self._end_turn()
        self.started = None
        self.activity = ""

    # --- one method for each kind ---

    def _run_started(self, _: Mapping[str, Any]) -> None:
        self.started = self.started or self._clock()
        self.activity = "waiting for the model"
        self._said = ""
        self._gap = False

    def _text_delta(self, event: Mapping[str, Any]) -> None:
        self._end_thought()
        self.activity = "answering"
        piece = self._text.feed(_text(event, "delta"))
        self._said += piece
        self._screen.text(piece)

    def _thinking_delta(self, event: Mapping[str, Any]) -> None:
        self.activity = "thinking"
        piece = self._thought.feed(_text(event, "delta"))
        self._screen.thinking(piece)
        self._thought_open = not piece.endswith("\n") if piece else self._thought_open

    def _tool_called(self, event: Mapping[str, Any]) -> None:
        self._end_turn()
        name = visible_line(_text(event, "name"), 60)
        self.activity = f"running {name}"
        self._screen.line(f"● {name} {_input_line(event.get('input'))}".rstrip(), "tool")

    def _tool_update(self, event: Mapping[str, Any]) -> None:
        text = visible(_text(event, "text")).strip("\n")
        if text:
            self._updated.add(_text(event, "id"))
            self._screen.line("\n".join(f"  │ {line}" for line in text.split("\n")), "dim")

    def _tool_finished(self, event: Mapping[str, Any]) -> None:
        self.activity = "waiting for the model"
        outcome = event.get("outcome")
        known = outcome if isinstance(outcome, dict) else {}
        output = str(known.get("output", ""))
        failed = known.get("isError") is True
        if _text(event, "id") in self._updated:
            # What it wrote was shown as it came; its end is what is new.
            self._updated.discard(_text(event, "id"))
            output = output.rstrip("\n").rpartition("\n")[2]
        self._screen.line(f"  └ {_result_line(output, failed)}", "error" if failed else "dim")

    def _approval_requested(self, _: Mapping[str, Any]) -> None:
        self.activity = "waiting for your word"

    def _approval_resolved(self, event: Mapping[str, Any]) -> None:
        self.activity = "going on"
        decision = str(event.get("decision", "deny"))
        words = {"once": "allowed once", "session": "allowed for this session", "always": "always allowed here"}
        shown = words.get(decision, "denied")
        self._screen.line(f"  {shown}", "good" if decision != "deny" else "warning")

    def _condense_started(self, event: Mapping[str, Any]) -> None:
        self._end_turn()
        self.activity = "condensing"
        self._manual = event.get("trigger") == "manual"
        if not self._manual:
            self._screen.line("Condensing: the conversation is getting long.", "dim")

    def _condense_finished(self, event: Mapping[str, Any]) -> None:
        self.activity = "waiting for the model"
        if self._manual:
            # Whoever asked for it is told by the answer to the request.
            return
        if event.get("summary") is None:
            self._screen.line(f"Not condensed: {clause(str(event.get('reason') or 'no reason was given'))}.", "dim")
            return
        before, after = _count(event.get("before")), _count(event.get("after"))
        self._screen.line(f"Condensed from {before:,} to {after:,} tokens; /undo takes it back.", "dim")

    def _retry(self, event: Mapping[str, Any]) -> None:
        delay = event.get("delay")
        wait = f"in {delay:.0f} s" if isinstance(delay, int | float) else "soon"
        self.activity = f"asking again {wait}"
        self._screen.line(f"{visible_line(str(event.get('error', '')))} Asking again {wait}.", "warning")

    def _usage(self, event: Mapping[str, Any]) -> None:
        window = event.get("window")
        self.tokens = (_count(event.get("estimate")), window if isinstance(window, int) else None)
        cost = event.get("cost")
        self.cost += cost if isinstance(cost, int | float) else 0.0

    def _queue(self, event: Mapping[str, Any]) -> None:
        self.queued = _count(event.get("count"))

    def _session_changed(self, event: Mapping[str, Any]) -> None:
        if event.get("added"):
            self._screen.line("Somebody else went on with this session; /resume shows it anew.", "warning")

    def _memory_recalled(self, event: Mapping[str, Any]) -> None:
        entries = event.get("entries")
        if isinstance(entries, list) and entries:
            many = "memory is" if len(entries) == 1 else "memories are"
            self._screen.line(f"{len(entries)} {many} part of the prompt.", "dim")

    def _notice(self, event: Mapping[str, Any]) -> None:
        level = event.get("level")
        style: Style = "error" if level == "error" else "warning" if level == "warning" else "dim"
        self._screen.line(visible(_text(event, "text")), style)

    def _settled(self, event: Mapping[str, Any]) -> None:
        if self._gap:
            self._show_missed(event.get("snapshot"))
        self._end_turn()
        self.started = None
        self.activity = ""

    def _faulted(self, event: Mapping[str, Any]) -> None:
        self._end_turn()
        self.started = None
        self.activity = ""
        error = event.get("error")
        known = error if isinstance(error, dict) else {}
        if known.get("kind") == "aborted":
            self._screen.line("Stopped. What was said is kept; just go on.", "warning")
        else:
            show_error(self._screen, str(known.get("message", "")), str(known.get("hint") or ""))

    # --- helpers ---

    def _show_missed(self, snapshot: Any) -> None:
        """Events were lost: show what of the answer was not shown."""
        whole = visible(last_answer(snapshot))
        if whole.startswith(self._said):
            self._screen.text(whole[len(self._said) :])
        elif whole:
            self._screen.text("\n" if self._said and not self._said.endswith("\n") else "")
            self._screen.line("Parts were lost on the way; here is the whole answer.", "warning")
            self._screen.text(whole)

    def _end_thought(self) -> None:
        """The reasoning is over: what comes next begins on a line of its own."""
        rest = self._thought.close()
        if rest or self._thought_open:
            self._screen.thinking(f"{rest}\n")
        self._thought_open = False

    def _end_turn(self) -> None:
        """The model's turn is over: what comes next begins on a line of its own."""
        self._end_thought()
        self._screen.text(self._text.close())
        if self._said and not self._said.endswith("\n"):
            self._screen.text("\n")
        self._said = ""


def show_error(screen: Screen, message: str, hint: str = "") -> None:
    """An error as a sentence and what to do about it."""
    screen.line(visible(message) or "Something went wrong.", "error")
    if hint:
        screen.line(visible(hint), "dim")


def clause(sentence: str) -> str:
    """A foreign sentence as a part of one of ours."""
    return visible_line(sentence).rstrip(". ")


def last_answer(snapshot: Any) -> str:
    """The text of the last assistant turn in a snapshot that came as JSON."""
    messages = snapshot.get("messages") if isinstance(snapshot, dict) else None
    for turn in reversed(messages if isinstance(messages, list) else []):
        if isinstance(turn, dict) and turn.get("role") == "assistant":
            return turn_text(turn.get("blocks"))
    return ""


def turn_text(blocks: Any) -> str:
    """The text blocks of a turn that came as JSON, joined by line ends."""
    found = [block for block in blocks if isinstance(block, dict)] if isinstance(blocks, list) else []
    return "\n".join(str(block.get("text", "")) for block in found if block.get("kind") == "text")


def _input_line(value: Any) -> str:
    """A tool's arguments, short: a lone argument as its value, else as JSON."""
    if isinstance(value, dict) and len(value) == 1:
        (value,) = value.values()
    if isinstance(value, dict) and not value:
        return ""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return visible_line(text, _INPUT_CHARS)


def _result_line(output: str, failed: bool) -> str:
    lines = output.splitlines()
    first = visible_line(lines[0], _RESULT_CHARS) if lines else "nothing"
    if failed or len(lines) <= 1:
        return first
    return f"{len(lines):,} lines"


def _text(event: Mapping[str, Any], name: str) -> str:
    value = event.get(name)
    return value if isinstance(value, str) else ""


def _count(value: Any) -> int:
    return value if isinstance(value, int) else 0

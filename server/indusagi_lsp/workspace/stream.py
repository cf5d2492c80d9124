"""The stream of one session's events on its way to the client: numbered without a gap, joined, kept for a while.

Deltas are joined for a few milliseconds before they are numbered, and for as long as the client is slow to read. So
the number of messages depends on the reader, not on the model. The newest events are kept, so that a client that
missed some can ask for them.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable

import msgspec

from indusagi_lsp.contract.clock import Clock
from indusagi_lsp.contract.events import RunEvent, TextDelta, ThinkingDelta
from indusagi_lsp.contract.graphemes import split_last
from indusagi_lsp.workspace.outlet import Outlet

JOIN_SECONDS = 0.008
"""How long deltas are joined: half a frame of a 60 Hz screen, so that no reader sees a difference."""

CONGESTED_SECONDS = 0.05
"""How long to wait before looking again whether a slow client has caught up."""

KEPT_EVENTS = 2_000


class KeptEvent(msgspec.Struct, frozen=True):
    """An event that was sent."""

    seq: int
    run_id: str
    at: int
    event: RunEvent


class EventStream:
    """Takes the events of one session's ledger and hands them to the outlet.

    Args:
        outlet: where they go.
        workspace: the folder's URI.
        session_id: the session.
        run_id: gives the id of the run that goes on, empty for none.
        clock: for the events' times.
    """

    def __init__(
        self, outlet: Outlet, workspace: str, session_id: str, run_id: Callable[[], str], clock: Clock
    ) -> None:
        self._outlet = outlet
        self._workspace = workspace
        self._session_id = session_id
        self._run_id = run_id
        self._clock = clock
        self._seq = 0
        self._kept: deque[KeptEvent] = deque(maxlen=KEPT_EVENTS)
        self._delta: type[TextDelta | ThinkingDelta] = TextDelta
        self._joined: list[str] = []
        self._joined_run = ""
        self._timer: asyncio.TimerHandle | None = None

    @property
    def seq(self) -> int:
        """The number of the newest event, 0 before the first."""
        return self._seq

    def on_event(self, event: RunEvent) -> None:
        """Take one event; called by the ledger on the event loop."""
        if isinstance(event, (TextDelta, ThinkingDelta)):
            self._join(event)
            return
        self.flush()
        self._send(self._run_id(), event)

    def flush(self) -> None:
        """Send what was joined, whole."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._joined:
            text = "".join(self._joined)
            self._joined.clear()
            self._send(self._joined_run, self._delta(text))

    def since(self, seq: int) -> list[KeptEvent] | None:
        """The events after `seq`, or None when some of them are not kept any more."""
        if seq >= self._seq:
            return []
        first = self._kept[0].seq if self._kept else self._seq + 1
        if seq + 1 < first:
            return None
        return [kept for kept in self._kept if kept.seq > seq]

    def _join(self, event: TextDelta | ThinkingDelta) -> None:
        run_id = self._run_id()
        if self._joined and (type(event) is not self._delta or run_id != self._joined_run):
            self.flush()
        self._delta = type(event)
        self._joined_run = run_id
        self._joined.append(event.delta)
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(JOIN_SECONDS, self._on_timer)

    def _on_timer(self) -> None:
        self._timer = None
        if self._outlet.congested():
            self._timer = asyncio.get_running_loop().call_later(CONGESTED_SECONDS, self._on_timer)
            return
        # The last character may still grow (an accent, the next part of an emoji), so it waits for the next delta.
        text, rest = split_last("".join(self._joined))
        self._joined = [rest] if rest else []
        if text:
            self._send(self._joined_run, self._delta(text))

    def _send(self, run_id: str, event: RunEvent) -> None:
        self._seq += 1
        at = self._clock.now_ms()
        self._kept.append(KeptEvent(self._seq, run_id, at, event))
        self._outlet.event(self._workspace, self._session_id, run_id, self._seq, at, event)

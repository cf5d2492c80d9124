"""`RunLedger` fans events out, `SnapshotAccumulator` remembers where the run is.

Delivery is synchronous and in order of registration, over a copy of the list, so that a handler may subscribe or
dispose while it is called. A handler that throws is isolated: it is logged once, and the others and the run go on.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TypeAlias

from indusagi_lsp.contract.events import Faulted, RunEvent, RunSnapshot, Settled, Snapshot

logger = logging.getLogger(__name__)

Handler: TypeAlias = Callable[[RunEvent], object]
Dispose: TypeAlias = Callable[[], None]


class RunLedger:
    """Delivers each published event to each subscriber."""

    def __init__(self) -> None:
        self._handlers: dict[int, Handler] = {}
        self._next_key = 0
        self._reported: set[int] = set()

    def subscribe(self, handler: Handler) -> Dispose:
        """Call `handler` with every event from now on.

        Args:
            handler: called on the publisher's thread; its result is ignored. The same function may subscribe twice and
                is then called twice.

        Returns:
            A function that ends this subscription; calling it again does nothing.
        """
        key = self._next_key
        self._next_key += 1
        self._handlers[key] = handler

        def dispose() -> None:
            self._handlers.pop(key, None)
            self._reported.discard(key)

        return dispose

    def publish(self, event: RunEvent) -> None:
        """Deliver `event`; returns when every subscriber has seen it."""
        for key, handler in tuple(self._handlers.items()):
            try:
                handler(event)
            except Exception:
                if key not in self._reported:
                    self._reported.add(key)
                    logger.exception("a subscriber of the ledger raised; it stays subscribed and is not reported again")


class SnapshotAccumulator:
    """Keeps the newest snapshot of a ledger's stream. Deltas and tool events do not advance it (seed)."""

    def __init__(self) -> None:
        self._snapshot: RunSnapshot | None = None

    def attach(self, ledger: RunLedger) -> Dispose:
        """Follow `ledger`; the returned function detaches."""
        return ledger.subscribe(self._on_event)

    def get_snapshot(self) -> RunSnapshot | None:
        """The most recent snapshot, or None before the first."""
        return self._snapshot

    def _on_event(self, event: RunEvent) -> None:
        if isinstance(event, (Snapshot, Settled, Faulted)):
            self._snapshot = event.snapshot

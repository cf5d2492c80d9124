"""One session that is in use: its agent, and the stream of its events."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from indusagi_lsp.conductor import Agent
from indusagi_lsp.contract.clock import Clock
from indusagi_lsp.contract.events import Faulted, Notice, RunEvent, RunStarted, SessionChanged, Settled
from indusagi_lsp.sessions import Change, Session
from indusagi_lsp.workspace.outlet import Outlet
from indusagi_lsp.workspace.stream import EventStream


class LiveSession:
    """An agent that holds one session, and whoever follows it.

    Args:
        agent: it holds the session already.
        session: the session.
        on_change: told when a run has begun or ended, so that lists and the status can follow.

    Attributes:
        warm: whether its live path was looked at already, so that a view of it costs little.
    """

    def __init__(
        self,
        agent: Agent,
        session: Session,
        *,
        outlet: Outlet,
        workspace: str,
        clock: Clock,
        on_change: Callable[[], None],
    ) -> None:
        self.agent = agent
        self.session = session
        self.used_at = clock.monotonic()
        self.warm = False
        self.chosen_model = session.meta.model
        self.stream = EventStream(outlet, workspace, session.id, lambda: agent.run_id, clock)
        self._on_change = on_change
        agent.subscribe(self._on_event)
        session.listen(self._on_outside_change)

    async def close(self) -> None:
        """End what goes on, send what was held back, and let go of the session's file."""
        await self.agent.close()
        self.stream.flush()
        await self.session.close()

    def tell_missed(self, head: str | None) -> None:
        """Say what others did since somebody was shown the session with that head, before it was in use here."""
        graph = self.session.graph
        if graph.leaf != head:
            path = graph.ids_to(graph.leaf)
            added = path[path.index(head) + 1 :] if head in path else path
            self.agent.ledger.publish(SessionChanged(tuple(added), graph.leaf))

    def _on_outside_change(self, change: Change) -> None:
        """Another process has written to the session's file."""
        self.agent.path_changed()
        self.agent.ledger.publish(SessionChanged(change.added, change.head, change.diverged))
        if change.missing:
            text = "The session's file is gone. What was said is in memory, and is written again with the next turn."
            if change.rewritten:
                text = "The session's file was gone. What was said is written anew."
            self.agent.ledger.publish(Notice("warning", "session_missing", text))
        elif change.reloaded:
            text = "The session's file was replaced by another program, and was read anew."
            self.agent.ledger.publish(Notice("info", "session_reloaded", text))
        self._on_change()

    def _on_event(self, event: RunEvent) -> None:
        self.stream.on_event(event)
        if isinstance(event, (Settled, Faulted)):
            self.session.keep_outline_soon()
        if isinstance(event, (RunStarted, Settled, Faulted)):
            # A terminal event is published inside the run: what still runs is known only when that has returned.
            asyncio.get_running_loop().call_soon(self._on_change)

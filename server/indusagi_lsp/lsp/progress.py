"""Runs as work-done progress, for editors that do not know our events, and wherever a client gave a token.

The answer's text comes in report messages: each finished line once, and the line that is being written a few
times a second, which is what editors show.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any, TypeAlias

from indusagi_lsp.contract import events as e
from indusagi_lsp.lsp.peer import Peer, PeerError

logger = logging.getLogger(__name__)

Token: TypeAlias = int | str

_INTERVAL = 0.1
_LONGEST = 1000
_CREATE_SECONDS = 5.0


class Progress:
    """One piece of progress.

    Args:
        peer: the client.
        token: the progress token.
        title: what is going on.
        create: whether the token is ours, so that the client must agree first.
    """

    def __init__(self, peer: Peer, token: Token, title: str, *, create: bool) -> None:
        self._peer = peer
        self._token = token
        self._title = title
        self._line = ""
        self._waiting: list[dict[str, Any]] = []
        self._began = False
        self._timer: asyncio.TimerHandle | None = None
        self._creating: asyncio.Task[None] | None = None
        if create:
            self._creating = asyncio.create_task(self._create())
        else:
            self._begin()

    def event(self, event: e.RunEvent) -> None:
        """Show what matters of an event."""
        if isinstance(event, e.TextDelta):
            self._text(event.delta)
        elif (message := _message(event)) is not None:
            self._flush()
            self._send({"kind": "report", "message": message})

    def end(self, message: str | None) -> None:
        """End it, with a last word."""
        self._flush()
        self._send({"kind": "end"} if message is None else {"kind": "end", "message": message})

    def _text(self, delta: str) -> None:
        *finished, self._line = (self._line + delta).split("\n")
        for line in finished:
            if line.strip():
                self._send({"kind": "report", "message": line[:_LONGEST]})
        if self._line and self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(_INTERVAL, self._flush)

    def _flush(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
            if self._line.strip():
                self._send({"kind": "report", "message": self._line[:_LONGEST]})

    def _send(self, value: dict[str, Any]) -> None:
        if self._began:
            self._peer.notify("$/progress", {"token": self._token, "value": value})
        elif self._creating is not None and not self._creating.done():
            self._waiting.append(value)

    def _begin(self) -> None:
        self._began = True
        self._send({"kind": "begin", "title": self._title, "cancellable": True})
        waiting, self._waiting = self._waiting, []
        for value in waiting:
            self._send(value)

    async def _create(self) -> None:
        try:
            await self._peer.ask("window/workDoneProgress/create", {"token": self._token}, _CREATE_SECONDS)
        except (PeerError, TimeoutError) as error:
            logger.info("the client took no progress: %s", error)
        else:
            self._begin()


class ProgressBoard:
    """All the progress that one client is shown.

    Args:
        peer: the client.
        abort: ends a run that no request of the client stands for.
        new_id: makes the tokens of our own.
    """

    def __init__(self, peer: Peer, abort: Callable[[str, str], None], new_id: Callable[[], str]) -> None:
        self._peer = peer
        self._abort = abort
        self._new_id = new_id
        self._runs: dict[str, Progress] = {}
        self._cancels: dict[Token, Callable[[], object]] = {}
        self._tokens: dict[str, Token] = {}
        self.wanted = False
        self.shown = False
        """Whether events matter here at all; most clients take them as they are."""

    def want(self, wanted: bool) -> None:
        """Say whether runs are shown without being asked for."""
        self.wanted = self.shown = wanted

    def begin(self, key: str, title: str, token: Token | None, cancel: Callable[[], object]) -> None:
        """Show that work goes on.

        Args:
            key: the run's id, or any other name for the work.
            title: what is going on.
            token: the client's own token; without one, progress is shown only to clients that want it.
            cancel: what the client's cancel button does.
        """
        if key in self._runs or token in self._cancels or (token is None and not self.wanted):
            return
        create = token is None
        if token is None:
            token = f"indusagi-{self._new_id()}"
        self._cancels[token] = cancel
        self._tokens[key] = token
        self._runs[key] = Progress(self._peer, token, title, create=create)
        self.shown = True

    def event(self, workspace: str, session_id: str, run_id: str, event: e.RunEvent) -> None:
        """Show an event of a run."""
        if isinstance(event, e.RunStarted) and run_id not in self._runs:
            self.begin(run_id, "Indusagi", None, lambda: self._abort(workspace, session_id))
        progress = self._runs.get(run_id)
        if progress is None:
            return
        progress.event(event)
        if isinstance(event, e.TERMINAL):
            self.end(run_id, event.error.message if isinstance(event, e.Faulted) else None)

    def end(self, key: str, message: str | None) -> None:
        """The work has ended; nothing happens when it has ended before."""
        progress = self._runs.pop(key, None)
        if progress is not None:
            self._cancels.pop(self._tokens.pop(key), None)
            progress.end(message)
            self.shown = self.wanted or bool(self._runs)

    def cancel(self, token: Any) -> None:
        """The client's cancel button."""
        cancel = self._cancels.get(token) if isinstance(token, int | str) else None
        if cancel is not None:
            cancel()


def _message(event: e.RunEvent) -> str | None:
    match event:
        case e.ToolCalled(name=name):
            return f"{name} …"
        case e.ToolUpdate(text=text):
            return text[:_LONGEST]
        case e.ApprovalRequested():
            return "waiting for your approval"
        case e.CondenseStarted():
            return "condensing earlier context"
        case e.Retry(delay=delay, error=error):
            return f"asking the model again in {delay:.0f} s: {error}"
        case e.Notice(text=text):
            return text[:_LONGEST]
        case _:
            return None

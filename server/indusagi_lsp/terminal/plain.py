"""One question, one answer: the answer's text to stdout, everything else to stderr."""

from __future__ import annotations

import asyncio
import signal
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, TextIO

from indusagi_lsp.contract.text import visible_line
from indusagi_lsp.terminal.client import RemoteError, ServerGoneError
from indusagi_lsp.terminal.talk import Approve, Talk, resume_command
from indusagi_lsp.terminal.view import Screen, Style, show_error

if TYPE_CHECKING:
    from collections.abc import Callable

    from indusagi_lsp.contract.approvals import Decision
    from indusagi_lsp.protocol import messages as m
    from indusagi_lsp.terminal.options import Options

ANSWERED, FAILED, SERVER_DIED, INTERRUPTED = 0, 1, 3, 130


class PlainScreen:
    """Two streams, written as things come.

    Args:
        out: takes the answer.
        err: takes the rest.
    """

    def __init__(self, out: TextIO, err: TextIO) -> None:
        self._out = out
        self._err = err
        self._mid_line = False
        self.closed = False

    def text(self, piece: str) -> None:
        """More of the answer."""
        if not piece or self.closed:
            return
        try:
            self._out.write(piece)
            self._out.flush()
        except (BrokenPipeError, ValueError):
            # Whoever read the answer has had enough.
            self.closed = True
        self._mid_line = not piece.endswith("\n")

    def thinking(self, piece: str) -> None:
        """Reasoning is not part of the answer."""

    def line(self, text: str, style: Style = "plain") -> None:
        """Something beside the answer; where both streams meet in one terminal it gets a line of its own."""
        if self._mid_line and self._out.isatty() and self._err.isatty():
            self.text("\n")
        with suppress(BrokenPipeError, ValueError):
            self._err.write(f"{text}\n")
            self._err.flush()


def on_interrupt(action: Callable[[], object]) -> None:
    """Have Ctrl-C do `action` on the running loop.

    Windows' loops cannot watch signals; there Ctrl-C cancels the main task, as asyncio does by itself.
    """
    with suppress(NotImplementedError):
        asyncio.get_running_loop().add_signal_handler(signal.SIGINT, action)


def refuse_all(screen: PlainScreen) -> Approve:
    """The answer to every question where nobody is there to be asked."""

    async def refuse(question: m.ApproveParams) -> Decision:
        screen.line(f"{question.tool} was not allowed: nobody is here to be asked. Use the chat for that.")
        return "deny"

    return refuse


async def once(options: Options, prompt: str) -> int:
    """Ask `prompt`, show the answer, and end.

    Args:
        options: of the command line.
        prompt: what is asked.

    Returns:
        The exit code.
    """
    screen = PlainScreen(sys.stdout, sys.stderr)
    if not prompt.strip():
        show_error(screen, "The prompt is empty.", "Say something after -p, or send it on stdin.")
        return 2

    talk = Talk(options, screen, refuse_all(screen))
    interrupted = asyncio.Event()
    on_interrupt(interrupted.set)
    try:
        await talk.open()
        return await _ask(talk, screen, prompt, interrupted)
    except OSError as error:
        show_error(screen, f"The server cannot be started: {error.strerror}.", "Is the installation complete?")
        return SERVER_DIED
    except ServerGoneError as gone:
        talk.view.end()
        talk.mourn(gone)
        return SERVER_DIED
    except RemoteError as error:
        talk.view.end()
        show_error(screen, error.message, error.hint)
        if error.kind == "session_foreign":
            screen.line("To take it over, open it in the chat and say /adopt.")
        _tell_unwritten(screen, error.kind)
        return FAILED
    finally:
        await talk.close()


async def _ask(talk: Talk, screen: PlainScreen, prompt: str, interrupted: asyncio.Event) -> int:
    work = asyncio.create_task(_converse(talk, prompt))
    stop = asyncio.create_task(interrupted.wait())
    try:
        await asyncio.wait([work, stop], return_when=asyncio.FIRST_COMPLETED)
        if work.done():
            return FAILED if work.result().phase != "settled" or screen.closed else ANSWERED

        # The run is ended by its own operation, so that what was said until now is kept.
        with suppress(RemoteError, ServerGoneError, TimeoutError):
            async with asyncio.timeout(5):
                await talk.abort()
                await work
        if talk.session is not None:
            screen.line(f"Go on with: {resume_command(talk.options, talk.session)}")
        return INTERRUPTED
    finally:
        stop.cancel()
        work.cancel()
        await asyncio.gather(stop, work, return_exceptions=True)


async def _converse(talk: Talk, prompt: str) -> m.SnapshotView:
    if talk.options.session is not None:
        view = await talk.resume(talk.options.session, limit=1)
        talk.screen.line(f"Going on with “{visible_line(view.session.title or view.session.id)}”.", "dim")
    await talk.introduce_model()
    snapshot = await talk.submit(prompt)
    talk.view.end()
    if snapshot.error is not None and snapshot.phase != "faulted":
        show_error(talk.screen, snapshot.error.message, snapshot.error.hint)
    if snapshot.error is not None:
        _tell_unwritten(talk.screen, snapshot.error.kind)
    return snapshot


def _tell_unwritten(screen: Screen, kind: str) -> None:
    """What only the server's memory holds goes with the server, which ends here after one answer."""
    if kind == "persistence":
        screen.line("The server ends now, so what could not be written is not kept.", "warning")

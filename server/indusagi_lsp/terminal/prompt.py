"""The input line: history, completion, a live status above it, and one question at a time in its place."""

from __future__ import annotations

import asyncio
import os
import shutil
import time
from contextlib import suppress
from typing import IO, TYPE_CHECKING, cast

from prompt_toolkit import PromptSession
from prompt_toolkit.completion import Completer, Completion
from prompt_toolkit.history import FileHistory, History, InMemoryHistory, ThreadedHistory
from prompt_toolkit.key_binding import KeyBindings
from prompt_toolkit.styles import Style as PromptStyle
from rich.console import Console
from rich.text import Text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from prompt_toolkit.completion import CompleteEvent
    from prompt_toolkit.document import Document
    from prompt_toolkit.formatted_text import StyleAndTextTuples
    from prompt_toolkit.key_binding.key_processor import KeyPressEvent
    from prompt_toolkit.patch_stdout import StdoutProxy

    from indusagi_lsp.terminal.view import RunView, Style

SPINNER = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
TICK_SECONDS = 0.1
_LONGEST_ROWS = 4

# By style: how rich paints a line.
_PAINT: dict[Style, str] = {
    "plain": "",
    "dim": "dim",
    "tool": "cyan",
    "good": "green",
    "warning": "yellow",
    "error": "bold red",
    "prompt": "bold",
}

_PROMPT_STYLE = PromptStyle.from_dict(
    {"mark": "bold ansicyan", "status": "ansibrightblack", "thinking": "ansibrightblack", "question": "bold ansiyellow"}
)


class Complete(Completer):
    """Completes /commands, and what follows them.

    Args:
        commands: the names, each with its slash.
        arguments: gives what may follow a command.
    """

    def __init__(self, commands: dict[str, str], arguments: Callable[[str], Iterable[tuple[str, str]]]) -> None:
        self._commands = commands
        self._arguments = arguments

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:
        """What could stand at the cursor."""
        text = document.text_before_cursor
        if not text.startswith("/"):
            return
        name, space, rest = text.partition(" ")
        if not space:
            for command, summary in self._commands.items():
                if command.startswith(name):
                    yield Completion(command, -len(name), display_meta=summary)
            return
        for value, summary in self._arguments(name):
            if value.startswith(rest):
                yield Completion(value, -len(rest), display_meta=summary)


class LiveScreen:
    """The terminal: finished lines above, the unfinished line, a status and the input at the bottom.

    Args:
        console: prints finished lines; it writes to a `StdoutProxy`, so that they land above the input.
    """

    def __init__(self, console: Console) -> None:
        self._console = console
        self.partial = ""
        self.partial_style: Style = "plain"
        self.changed: Callable[[], None] = lambda: None

    def text(self, piece: str) -> None:
        """More of the answer."""
        self._stream(piece, "plain")

    def thinking(self, piece: str) -> None:
        """More of the reasoning."""
        self._stream(piece, "dim")

    def line(self, text: str, style: Style = "plain") -> None:
        """Something beside the answer, on lines of its own; an unfinished line of the answer stays below it."""
        self._print(text, style)

    def _stream(self, piece: str, style: Style) -> None:
        if not piece:
            return
        if self.partial and style != self.partial_style:
            self._finish()
        self.partial_style = style
        *done, self.partial = (self.partial + piece).split("\n")
        for line in done:
            self._print(line, style)
        longest = _LONGEST_ROWS * shutil.get_terminal_size().columns
        while len(self.partial) > longest:
            # An endless line would fill the screen below; its beginning goes up, broken between words.
            place = self.partial.rfind(" ", 1, longest)
            place = place if place > 0 else longest
            self._print(self.partial[:place], style)
            self.partial = self.partial[place:].lstrip(" ")
        self.changed()

    def _finish(self) -> None:
        if self.partial:
            self._print(self.partial, self.partial_style)
            self.partial = ""

    def _print(self, text: str, style: Style) -> None:
        self._console.print(Text(text, style=_PAINT[style]), soft_wrap=True)


class Input:
    """Reads what the person types, while answers come in above.

    Args:
        screen: whose unfinished line is shown above the input.
        view: whose activity is the status.
        history: what was typed before.
        completer: for /commands.
        interrupt: called on Ctrl-C; True when that was taken, False when the input itself is to end.
    """

    def __init__(
        self,
        screen: LiveScreen,
        view: RunView,
        *,
        history: ChatHistory,
        completer: Completer,
        interrupt: Callable[[], bool],
    ) -> None:
        self._screen = screen
        self._view = view
        self._interrupt = interrupt
        self._question: tuple[str, frozenset[str] | None, asyncio.Future[str]] | None = None
        self._draft = ""
        self._session: PromptSession[str] = PromptSession(
            history=history,
            completer=completer,
            complete_while_typing=True,
            key_bindings=self._keys(),
            style=_PROMPT_STYLE,
            erase_when_done=True,
            enable_open_in_editor=False,
        )
        history.wanted = lambda: self._question is None
        screen.changed = self.redraw

    async def line(self, draft: str = "") -> str:
        """The next line that is no answer to a question.

        Args:
            draft: text that stands in the input already.

        Raises:
            KeyboardInterrupt: Ctrl-C, and nothing to interrupt.
            EOFError: Ctrl-D.
        """
        ticking = asyncio.create_task(self._tick())
        try:
            while True:
                text = await self._session.prompt_async(self._message, default=draft)
                if not self._answered(text):
                    return text
                # While a wrong answer leaves the question open, what was being typed before it goes on waiting.
                draft = ""
                if self._question is None:
                    draft, self._draft = self._draft, ""
        finally:
            ticking.cancel()

    async def ask(self, question: str, answers: Iterable[str] | None) -> str:
        """Put a question in the place of the input; what was being typed comes back after it.

        Args:
            question: what is asked, with the answers that count.
            answers: those answers, in lower case; None: any text but blanks.

        Returns:
            One of them, or that text.
        """
        answer: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._question = (question, None if answers is None else frozenset(answers), answer)
        app = self._session.app
        if app.is_running:
            self._draft = app.current_buffer.text
            app.current_buffer.reset()
        self.redraw()
        try:
            return await answer
        finally:
            self._question = None
            self.redraw()

    def redraw(self) -> None:
        """Show what has changed."""
        if self._session.app.is_running:
            self._session.app.invalidate()

    def _answered(self, text: str) -> bool:
        """Whether a line belonged to a question; a wrong answer does too, and the question stays."""
        if self._question is None:
            return False
        _, answers, answer = self._question
        said = text.strip() if answers is None else text.strip().lower()
        if (bool(said) if answers is None else said in answers) and not answer.done():
            answer.set_result(said)
            self._question = None
        return True

    def _message(self) -> StyleAndTextTuples:
        shown: StyleAndTextTuples = []
        if self._screen.partial:
            style = "class:thinking" if self._screen.partial_style == "dim" else ""
            shown.append((style, self._screen.partial + "\n"))
        if self._view.running:
            frame = SPINNER[int(time.monotonic() / TICK_SECONDS) % len(SPINNER)]
            queued = f" · {self._view.queued} queued" if self._view.queued else ""
            status = f"{frame} {self._view.activity} · {self._view.seconds:.0f} s{queued} · Ctrl-C stops"
            shown.append(("class:status", status + "\n"))
        if self._question is not None:
            shown.append(("class:question", f"{self._question[0]} "))
        else:
            shown.append(("class:mark", "> "))
        return shown

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(TICK_SECONDS)
            if self._view.running:
                self.redraw()

    def _keys(self) -> KeyBindings:
        keys = KeyBindings()

        @keys.add("c-c")
        def _(event: KeyPressEvent) -> None:
            if self._interrupt():
                return
            if event.current_buffer.text:
                event.current_buffer.reset()
            else:
                event.app.exit(exception=KeyboardInterrupt())

        @keys.add("escape", "enter")
        def _(event: KeyPressEvent) -> None:
            event.current_buffer.insert_text("\n")

        return keys


def make_console(proxy: StdoutProxy) -> Console:
    """A console that prints above the input."""
    return Console(file=cast("IO[str]", proxy), force_terminal=True, highlight=False, markup=False, emoji=False)


class ChatHistory(ThreadedHistory):
    """What was typed before: prompts and commands, not the answers to questions. Its file is a thread's business.

    Args:
        kept: where it is kept.
    """

    def __init__(self, kept: History) -> None:
        super().__init__(kept)
        self.wanted: Callable[[], bool] = lambda: True

    def append_string(self, string: str) -> None:
        """Take a line, unless it answers a question."""
        if self.wanted():
            super().append_string(string)

    def store_string(self, string: str) -> None:
        """Keep a line."""
        asyncio.get_running_loop().run_in_executor(None, self.history.store_string, string)


def open_history(path: Path) -> ChatHistory:
    """What was typed before, in a file that only its user can read; where that cannot be had, for this chat alone."""
    with suppress(OSError):
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o600))
        return ChatHistory(FileHistory(path))
    return ChatHistory(InMemoryHistory())

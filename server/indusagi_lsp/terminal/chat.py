"""The chat: prompts and commands in, answers above the input line."""

from __future__ import annotations

import asyncio
import os
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Literal

from prompt_toolkit.patch_stdout import StdoutProxy

from indusagi_lsp.contract.places import user_places
from indusagi_lsp.contract.text import quoted, visible, visible_line
from indusagi_lsp.terminal.client import RemoteError, ServerGoneError
from indusagi_lsp.terminal.commands import COMMANDS
from indusagi_lsp.terminal.decisions import offer
from indusagi_lsp.terminal.plain import ANSWERED, FAILED, SERVER_DIED, on_interrupt
from indusagi_lsp.terminal.prompt import ChatHistory, Complete, Input, LiveScreen, make_console, open_history
from indusagi_lsp.terminal.talk import Talk, resume_command
from indusagi_lsp.terminal.view import Style, show_error, turn_text

if TYPE_CHECKING:
    from collections.abc import Iterable

    from indusagi_lsp.contract.approvals import Decision
    from indusagi_lsp.protocol import messages as m
    from indusagi_lsp.terminal.options import Options

LEAVE_SECONDS = 2.0
"""Two Ctrl-C within this time, at an empty input, leave."""

STOP_SECONDS = 5.0
"""How long leaving waits for the end of a run."""

SHOWN_TURNS = 6
"""Turns of a resumed session that are shown."""

NO_ANSWER = "-"
"""What the person types to leave a question of the agent unanswered."""

_ACTION_HEAD = 1500
_ACTION_TAIL = 500


class Chat:
    """One person at one terminal.

    Args:
        options: of the command line.
        screen: the terminal.
        history: what was typed before.
    """

    def __init__(self, options: Options, screen: LiveScreen, history: ChatHistory) -> None:
        self.screen = screen
        self.talk = Talk(options, screen, self._approve, answer=self._answer)
        self.draft = ""
        self.leaving = False
        self.listed: list[m.SessionInfo] = []
        self.restored: str | None = None
        self._runs: set[asyncio.Task[None]] = set()
        self._asking = asyncio.Lock()
        self._interrupted_at = float("-inf")
        self._command: asyncio.Task[None] | None = None
        self.input = Input(
            screen,
            self.talk.view,
            history=history,
            completer=Complete({command.name: command.summary for command in COMMANDS}, self._arguments),
            interrupt=self._interrupt,
        )

    # --- the loop ---

    async def run(self) -> int:
        """Talk until the person leaves or the server dies; gives the exit code."""
        on_interrupt(self._signalled)
        try:
            await self.talk.open()
            if self.talk.options.session is None:
                await self.talk.introduce_model()
            if not self.talk.options.trusted:
                self.say("This folder is not trusted: the agent reads and talks. --trust lets it ask for more.", "dim")
            if self.talk.options.session is not None:
                await self.open_session(self.talk.options.session)
                await self.talk.introduce_model()
            self.say("Type a question, or /help.", "dim")
        except OSError as error:
            show_error(self.screen, f"The server cannot be started: {error.strerror}.", "Is the installation complete?")
            return SERVER_DIED
        except RemoteError as error:
            show_error(self.screen, error.message, error.hint)
            return FAILED

        death = asyncio.create_task(self.talk.client.wait_gone())
        loop = asyncio.create_task(self._loop())
        try:
            await asyncio.wait([death, loop], return_when=asyncio.FIRST_COMPLETED)
            if not loop.done():
                self.talk.view.end()
                self.talk.mourn(death.result())
                return SERVER_DIED
            await loop
            await self._end_run()
        finally:
            for task in (death, loop, *self._runs):
                task.cancel()
            await asyncio.gather(death, loop, *self._runs, return_exceptions=True)
        if self.talk.session is not None:
            self.say(f"Go on with: {resume_command(self.talk.options, self.talk.session)}", "dim")
        return ANSWERED

    async def _end_run(self) -> None:
        """Stop what still goes on, so that its end is told before the way back to it."""
        if not self.answering:
            return
        with suppress(TimeoutError):
            async with asyncio.timeout(STOP_SECONDS):
                await self._abort()
                await asyncio.gather(*self._runs)

    async def _loop(self) -> None:
        while not self.leaving:
            draft, self.draft = self.draft, ""
            try:
                line = (await self.input.line(draft)).strip()
            except EOFError:
                return
            except KeyboardInterrupt:
                if self._second_interrupt():
                    return
                self.say("Ctrl-C again leaves.", "dim")
                continue
            if line.startswith("/"):
                await self._run_command(line)
            elif line:
                self.say(f"> {visible(line)}", "prompt")
                if self.talk.view.running:
                    self.say("That waits until this answer is done; /steer says it now.", "dim")
                self.submit(line, "queue")

    @property
    def answering(self) -> bool:
        """Whether an answer comes, or a prompt waits for its turn."""
        return self.talk.view.running or bool(self._runs)

    def submit(self, text: str, mode: Literal["queue", "steer"]) -> None:
        """Send a prompt; its answer is shown as it comes."""
        self.talk.view.begin()
        task = asyncio.create_task(self._submit(text, mode))
        self._runs.add(task)
        task.add_done_callback(self._runs.discard)

    async def _submit(self, text: str, mode: Literal["queue", "steer"]) -> None:
        try:
            await self.talk.submit(text, mode)
        except RemoteError as error:
            self._refused(error)
        except ServerGoneError:
            # The loop sees that too, and says it once.
            return
        finally:
            if self._runs <= {asyncio.current_task()}:
                self.talk.view.end()

    def _refused(self, error: RemoteError) -> None:
        hint = error.hint
        if error.kind == "session_foreign":
            hint = "Read it first; /adopt makes it yours, and then you can go on."
        show_error(self.screen, error.message, hint)

    async def _run_command(self, line: str) -> None:
        name, _, argument = line.partition(" ")
        self.say(visible(line), "prompt")
        found = [command for command in COMMANDS if command.name.startswith(name)]
        exact = [command for command in found if command.name == name]
        if len(exact or found) != 1:
            close = ", ".join(command.name for command in found)
            show_error(
                self.screen,
                f"There is no command {quoted(name)}.",
                f"Did you mean {close}?" if close else "/help lists them.",
            )
            return
        self._command = asyncio.ensure_future((exact or found)[0].run(self, argument.strip()))
        try:
            await self._command
        except RemoteError as error:
            self._refused(error)
        except asyncio.CancelledError:
            # Either the command alone was stopped, or the chat ends, and the command with it.
            task = asyncio.current_task()
            if not self._command.cancelled() or (task is not None and task.cancelling()):
                raise
            self.say("Stopped.", "warning")
        finally:
            self._command = None

    # --- for the commands ---

    def say(self, text: str, style: Style = "plain") -> None:
        """Show a text that is made visible already."""
        self.screen.line(text, style)

    async def ask(self, question: str, answers: Iterable[str]) -> str:
        """Ask the person within a command, when no input line is open."""
        reading = asyncio.create_task(self.input.line())
        try:
            return await self.input.ask(question, answers)
        finally:
            reading.cancel()
            await asyncio.gather(reading, return_exceptions=True)

    async def open_session(self, session_id: str) -> None:
        """Go on with a session, and show its last turns."""
        view = await self.talk.resume(session_id)
        if view.session.model is not None and self.talk.options.model is None:
            self.talk.model = None
        shown = view.turns[-SHOWN_TURNS:]
        if view.before is not None or len(shown) < len(view.turns):
            self.say("… earlier turns are not shown; /tree shows all.", "dim")
        for turn in shown:
            text = visible(turn_text(turn.blocks)).strip()
            if text:
                self.say(f"> {text}" if turn.role == "user" else text, "prompt" if turn.role == "user" else "plain")
        for notice in view.notices:
            self.say(visible(notice.text), "warning")
        self.say(f"Session {view.session.id}: {quoted(view.session.title or 'without a title')}", "dim")
        if not view.trusted:
            self.say(
                "Somebody else wrote this session, so it is not sent to a model. Read it; /adopt makes it yours.",
                "warning",
            )
        if view.session.state == "interrupted":
            self.say("Its last run was interrupted; what is proven is kept. Say something to go on.", "warning")

    # --- Ctrl-C and questions ---

    def _interrupt(self) -> bool:
        """Ctrl-C at the input: stop the run if one goes on."""
        if not self.talk.view.running:
            return False
        if self.talk.view.activity != "stopping":
            self.talk.view.activity = "stopping"
            task = asyncio.create_task(self._abort())
            self._runs.add(task)
            task.add_done_callback(self._runs.discard)
        return True

    async def _abort(self) -> None:
        with suppress(RemoteError, ServerGoneError):
            await self.talk.abort()

    def _signalled(self) -> None:
        """Ctrl-C while no input line is open: stop the command."""
        if self._command is not None:
            self._command.cancel()
        elif not self._interrupt():
            self.leaving = True

    def _second_interrupt(self) -> bool:
        now = time.monotonic()
        again = now - self._interrupted_at < LEAVE_SECONDS
        self._interrupted_at = now
        return again

    async def _approve(self, question: m.ApproveParams) -> Decision:
        """Show the exact action, and ask; one question at a time."""
        async with self._asking:
            self.say(f"{quoted(question.tool)} wants to run, {question.size:,} bytes:", "warning")
            self.say(action_text(question.action))
            asked, answers = offer(question.options)
            return answers[await self.input.ask(asked, answers)]

    async def _answer(self, question: m.QuestionParams) -> str | None:
        """Show the agent's question, and take any text as an answer, or the number of an offered one."""
        async with self._asking:
            self.say("The agent asks:", "warning")
            self.say(visible(question.question))
            for number, option in enumerate(question.options, 1):
                self.say(f"{number:>3}  {visible_line(option)}")
            numbers = "a number, " if question.options else ""
            said = await self.input.ask(f"Answer ({numbers}your words, or {NO_ANSWER} for none):", None)
            if said == NO_ANSWER:
                return None
            if said.isdecimal() and 1 <= int(said) <= len(question.options):
                return question.options[int(said) - 1]
            return said

    def _arguments(self, command: str) -> list[tuple[str, str]]:
        if command == "/model":
            return [(model.id, model.note) for model in self.talk.models]
        if command == "/resume":
            return [(one.id, one.title) for one in self.listed]
        return []


def action_text(action: str) -> str:
    """An action for the person's eyes: head and tail of a long one, with its true size."""
    shown = visible(action)
    if len(shown) <= _ACTION_HEAD + _ACTION_TAIL:
        return shown
    left_out = len(shown) - _ACTION_HEAD - _ACTION_TAIL
    lines = shown.count("\n") + 1
    note = f"[… {left_out:,} characters left out; {len(shown):,} characters, {lines:,} lines in all …]"
    return f"{shown[:_ACTION_HEAD]}\n{note}\n{shown[-_ACTION_TAIL:]}"


async def chat(options: Options) -> int:
    """Open the chat.

    Args:
        options: of the command line.

    Returns:
        The exit code.
    """
    # Lines are handed on at once: the default gathers them for 0.2 s, in which the unfinished line below
    # them would be seen twice or not at all.
    history = await asyncio.to_thread(open_history, user_places(os.environ).state / "chat-history")
    with StdoutProxy(raw=True, sleep_between_writes=0.01) as proxy:
        one = Chat(options, LiveScreen(make_console(proxy)), history)
        try:
            return await one.run()
        except ServerGoneError as gone:
            one.talk.view.end()
            one.talk.mourn(gone)
            return SERVER_DIED
        finally:
            await one.talk.close()

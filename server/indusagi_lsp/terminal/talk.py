"""The client's side of a conversation: one server, one workspace, at most one session."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from indusagi_lsp import __version__
from indusagi_lsp.contract.approvals import Decision
from indusagi_lsp.contract.text import quoted, visible, visible_line
from indusagi_lsp.protocol import messages as m
from indusagi_lsp.protocol import operations as ops
from indusagi_lsp.protocol.uris import path_to_uri
from indusagi_lsp.terminal.client import Client, NotificationHandler, RemoteError, ServerGoneError
from indusagi_lsp.terminal.view import RunView, Screen, show_error

if TYPE_CHECKING:
    from indusagi_lsp.terminal.options import Options

SMALL = "local"
"""The provider of the bundled model, which is small enough to say so."""

Approve = Callable[[m.ApproveParams], Awaitable[Decision]]
Answer = Callable[[m.QuestionParams], Awaitable[str | None]]


async def no_answer(_: m.QuestionParams) -> str | None:
    """The answer to the agent's questions where nobody is there to give one."""
    return None


class Talk:
    """A conversation with one server.

    Args:
        options: of the command line.
        screen: where things are shown.
        approve: asks the person about an action.
        answer: puts a question of the agent to the person.
        on_notification: further notifications that are wanted, by method.
    """

    def __init__(
        self,
        options: Options,
        screen: Screen,
        approve: Approve,
        *,
        answer: Answer = no_answer,
        on_notification: Mapping[str, NotificationHandler] | None = None,
    ) -> None:
        self.options = options
        self.screen = screen
        self.view = RunView(screen)
        self.workspace = path_to_uri(str(options.workspace))
        self.session: str | None = None
        self.model = options.model
        self.session_model: str | None = None
        self.models: list[m.ModelInfo] = []
        self._named_model: str | None = None
        self._beginning = asyncio.Lock()
        self._stop_at_once = False
        self._approve = approve
        self._answer = answer
        self._on_notification = dict(on_notification or {})
        self._client: Client | None = None

    @property
    def client(self) -> Client:
        """The server; `open` has started it."""
        if self._client is None:
            raise RuntimeError("the server was not started")
        return self._client

    async def open(self) -> None:
        """Start the server and greet it.

        Raises:
            OSError: it cannot be started.
            ServerGoneError: it ended at once.
            RemoteError: it refused us.
        """
        self._client = await Client.start(
            server_command(self.options),
            cwd=await asyncio.to_thread(_neutral_folder),
            on_notification={
                ops.EVENT: self._event,
                "window/showMessage": self._message,
                **self._on_notification,
            },
            on_request={
                ops.APPROVE: self._asked,
                ops.QUESTION: self._questioned,
                "window/showMessageRequest": _nothing,
                "window/workDoneProgress/create": _nothing,
                "client/registerCapability": _nothing,
                "workspace/configuration": _no_settings,
            },
            on_stderr=self._overheard,
        )
        settings: dict[str, Any] = {"trusted": self.options.trusted}
        if self.options.model is not None:
            settings["model"] = self.options.model
        await self.client.request(
            "initialize",
            {
                "processId": os.getpid(),
                "clientInfo": {"name": "indusagi-lsp chat", "version": __version__},
                "rootUri": self.workspace,
                "workspaceFolders": [{"uri": self.workspace, "name": self.options.workspace.name or "/"}],
                "capabilities": {
                    "workspace": {"workspaceFolders": True},
                    "experimental": {"indusagi": {"events": True, "approvals": True, "questions": True}},
                },
                "initializationOptions": settings,
            },
        )
        self.client.notify("initialized", {})

    async def close(self) -> int | None:
        """End the server; gives its exit code."""
        return None if self._client is None else await self._client.close()

    # --- what can be asked ---

    async def introduce_model(self, *, again: bool = True) -> None:
        """Say which model answers, and how to have a better one where it is the small bundled one.

        Args:
            again: also where it is the one that was named last.
        """
        listed: m.ModelsListResult = await self.client.call(
            ops.MODELS_LIST, m.WorkspaceParams(workspace=self.workspace)
        )
        self.models = listed.models
        current = self.answering(listed)
        if not again and current == self._named_model:
            return
        self._named_model = current
        known = next((model for model in listed.models if model.id == current), None)
        note = f" ({visible_line(known.note)})" if known is not None and known.note else ""
        self.screen.line(f"Model: {visible_line(current)}{note}", "dim")
        if current.partition(":")[0] == SMALL:
            self.screen.line(visible(listed.hint), "dim")

    def answering(self, listed: m.ModelsListResult) -> str:
        """The model that answers next: the one chosen here, else the session's own, else the default."""
        return self.model or self.session_model or listed.current

    def choose_model(self, model: str) -> None:
        """Have a model answer from now on; whoever chose it is told so."""
        self.model = self._named_model = model

    async def begin(self) -> str:
        """The session, made now if there is none yet; gives its id."""
        async with self._beginning:
            if self.session is not None:
                return self.session
            info: m.SessionInfo = await self.client.call(
                ops.SESSION_NEW, m.SessionNewParams(workspace=self.workspace, model=self.model)
            )
            self.session = info.id
            return info.id

    async def resume(self, session_id: str, *, limit: int = 200) -> m.SessionView:
        """Go on with a session that there is.

        Args:
            session_id: its id.
            limit: turns of it that are wanted, the newest.
        """
        view: m.SessionView = await self.client.call(
            ops.RESUME, m.ResumeParams(session_id=session_id, workspace=self.workspace, limit=limit)
        )
        self.session = view.session.id
        self.session_model = view.session.model
        return view

    async def submit(self, text: str, mode: Literal["queue", "steer"] = "queue") -> m.SnapshotView:
        """Say something; returns when the run has ended."""
        try:
            session_id = await self.begin()
        finally:
            stop, self._stop_at_once = self._stop_at_once, False
        self.view.begin()
        params = m.SubmitParams(session_id=session_id, workspace=self.workspace, text=text, mode=mode, model=self.model)
        stopping = asyncio.create_task(self._stop()) if stop else None
        try:
            # Sent without a step of the event loop in between, so that no abort overtakes it.
            snapshot: m.SnapshotView = await self.client.call(ops.SUBMIT, params)
            return snapshot
        finally:
            if stopping is not None:
                stopping.cancel()

    async def _stop(self) -> None:
        with suppress(RemoteError, ServerGoneError):
            await self.abort()

    async def abort(self) -> None:
        """End the run of a `submit` that goes on; what was said is kept.

        While that one still makes the session, the run ends as soon as it has begun.
        """
        if self.session is None:
            self._stop_at_once = True
            return
        await self.client.call(ops.ABORT, self.params())

    def params(self) -> m.SessionParams:
        """The session, as most operations name it."""
        return m.SessionParams(session_id=self.session or "", workspace=self.workspace)

    def mourn(self, gone: ServerGoneError) -> None:
        """Say that the server has died, and how to go on."""
        how = "" if gone.code is None else f" ({_exit_words(gone.code)})"
        for line in gone.last_words[-5:]:
            self.screen.line(f"  {visible(line)}", "dim")
        hint = ""
        if self.session is not None:
            hint = (
                "What is in the session's file is kept; an answer that was still being given, and prompts that"
                " waited for it, are not."
                f" Go on with: {resume_command(self.options, self.session)}"
            )
        show_error(self.screen, f"The server has ended unexpectedly{how}.", hint)

    # --- what the server says and asks ---

    def _event(self, raw: Any) -> None:
        try:
            event = msgspec.convert(raw, m.EventParams)
        except msgspec.ValidationError:
            return
        if event.session_id == self.session:
            self.view.handle(event.seq, event.event)

    def _message(self, raw: Any) -> None:
        if isinstance(raw, dict):
            style: Literal["error", "warning"] = "error" if raw.get("type") == 1 else "warning"
            self.screen.line(visible(str(raw.get("message", ""))), style)

    async def _asked(self, raw: Any) -> m.ApproveResult:
        question = msgspec.convert(raw, m.ApproveParams)
        answer = await self._approve(question)
        return m.ApproveResult(decision=answer if answer in question.options else "deny")

    async def _questioned(self, raw: Any) -> m.QuestionResult:
        return m.QuestionResult(answer=await self._answer(msgspec.convert(raw, m.QuestionParams)))

    def _overheard(self, line: str) -> None:
        if self.options.log_level is not None and self.options.log_file is None:
            self.screen.line(visible(line), "dim")


def server_command(options: Options) -> list[str]:
    """How the server is started: this Python, without the current folder among the places to import from."""
    command = [sys.executable, "-P", "-m", "indusagi_lsp", "--stdio", "--clientProcessId", str(os.getpid())]
    if options.log_level is not None:
        command += ["--log-level", options.log_level]
    if options.log_file is not None:
        command += ["--log-file", str(options.log_file)]
    if options.record is not None:
        command += ["--record", str(options.record)]
    if options.replay is not None:
        command += ["--replay", str(options.replay)]
    return command


def resume_command(options: Options, session_id: str) -> str:
    """What to type to go on with a session."""
    where = "" if options.here else f" --workspace {quoted(str(options.workspace))}"
    return f"indusagi-lsp chat{where} --session {session_id}"


def _neutral_folder() -> str:
    """Where the server runs: not the workspace, which may hold anything."""
    home = os.path.expanduser("~")
    return home if os.path.isdir(home) else os.path.abspath(os.sep)


def _exit_words(code: int) -> str:
    return f"signal {-code}" if code < 0 else f"exit code {code}"


async def _nothing(_: Any) -> None:
    return None


async def _no_settings(raw: Any) -> list[None]:
    items = raw.get("items") if isinstance(raw, dict) else None
    return [None] * (len(items) if isinstance(items, list) else 0)

"""The agent as an ACP client sees it: each method checks, asks the hosts, and answers."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable
from datetime import UTC, datetime
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec
from acp import helpers, schema
from acp.exceptions import RequestError
from acp.meta import PROTOCOL_VERSION

from indusagi_lsp import __version__
from indusagi_lsp.acp.outlet import AcpOutlet
from indusagi_lsp.acp.prompts import ContentBlock, Said, read_prompt
from indusagi_lsp.acp.updates import replay
from indusagi_lsp.contract.errors import IndusagiError, InvalidInput
from indusagi_lsp.protocol import messages as m
from indusagi_lsp.protocol.errors import CODES, OTHER, error_of
from indusagi_lsp.protocol.operations import (
    FORK,
    MODELS_LIST,
    RESUME,
    SESSION_LIST,
    SESSION_NEW,
    SUBMIT,
    Operation,
)
from indusagi_lsp.protocol.uris import path_to_uri, uri_to_path
from indusagi_lsp.workspace.commands import COMMANDS, Command, read_command, run_command
from indusagi_lsp.workspace.hosts import Hosts

if TYPE_CHECKING:
    from acp import Client

logger = logging.getLogger(__name__)

MODEL = "model"
PAGE = 200
T = TypeVar("T")

McpServer = schema.HttpMcpServer | schema.SseMcpServer | schema.AcpMcpServer | schema.McpServerStdio


class Opened(msgspec.Struct):
    """A session that the client has opened: its folder, the model that was chosen here, and its prompts that go on."""

    workspace: str
    model: str | None = None
    prompts: set[asyncio.Task[Any]] = msgspec.field(default_factory=set)


class AcpAgent:
    """An `acp.Agent` over the hosts.

    Args:
        hosts: do the work.
        outlet: sends updates.
        trusted: whether the folders that the client opens are trusted.
    """

    def __init__(self, hosts: Hosts, outlet: AcpOutlet, *, trusted: bool) -> None:
        self._hosts = hosts
        self._outlet = outlet
        self._trusted = trusted
        self._open: dict[str, Opened] = {}

    def on_connect(self, conn: Client) -> None:
        """Nothing to do: the server hands the connection to the outlet."""

    # --- beginning ----------------------------------------------------------------------------------------------------

    async def initialize(
        self,
        protocol_version: int,
        client_capabilities: schema.ClientCapabilities | None = None,
        client_info: schema.Implementation | None = None,
        **_: Any,
    ) -> schema.InitializeResponse:
        """Agree on a version, and say what can be asked for."""
        return schema.InitializeResponse(
            # The newest version that both know; a client that cannot go back to ours closes the stream.
            protocol_version=min(protocol_version, PROTOCOL_VERSION) or PROTOCOL_VERSION,
            agent_capabilities=schema.AgentCapabilities(
                load_session=True,
                prompt_capabilities=schema.PromptCapabilities(image=True, audio=False, embedded_context=True),
                mcp_capabilities=schema.McpCapabilities(http=False, sse=False),
                session_capabilities=schema.SessionCapabilities(
                    list=schema.SessionListCapabilities(),
                    fork=schema.SessionForkCapabilities(),
                    resume=schema.SessionResumeCapabilities(),
                    close=schema.SessionCloseCapabilities(),
                ),
            ),
            auth_methods=[],
            agent_info=schema.Implementation(name="indusagi-lsp", title="Indusagi", version=__version__),
        )

    async def authenticate(self, method_id: str, **_: Any) -> schema.AuthenticateResponse:
        """There is nothing to log in to: keys of model providers stand in the user's own configuration."""
        message = f"There is no way to log in that is called {method_id}."
        raise _error(InvalidInput(message, hint="None is needed."))

    # --- sessions -----------------------------------------------------------------------------------------------------

    async def new_session(
        self,
        cwd: str,
        additional_directories: list[str] | None = None,
        mcp_servers: list[McpServer] | None = None,
        **_: Any,
    ) -> schema.NewSessionResponse:
        """Make an empty session in a folder."""
        workspace = await self._folder(cwd, mcp_servers)
        made = await self._call(SESSION_NEW, m.SessionNewParams(workspace=workspace))
        options = await self._begin(made.id, Opened(workspace))
        return schema.NewSessionResponse(session_id=made.id, config_options=options)

    async def load_session(
        self,
        cwd: str,
        session_id: str,
        mcp_servers: list[McpServer] | None = None,
        additional_directories: list[str] | None = None,
        **_: Any,
    ) -> schema.LoadSessionResponse:
        """Open a session and show all that was said on its live path."""
        workspace = await self._folder(cwd, mcp_servers)
        pages: list[list[m.TurnView]] = []
        before: str | None = None
        model: str | None = None
        while True:
            view = await self._call(
                RESUME, m.ResumeParams(session_id=session_id, workspace=workspace, limit=PAGE, before=before)
            )
            pages.append(view.turns)
            model = view.session.model
            before = view.before
            if before is None:
                break
        for turns in reversed(pages):
            for update in replay(turns):
                self._outlet.update(session_id, update)
        return schema.LoadSessionResponse(config_options=await self._begin(session_id, Opened(workspace, model)))

    async def resume_session(
        self,
        session_id: str,
        cwd: str,
        additional_directories: list[str] | None = None,
        mcp_servers: list[McpServer] | None = None,
        **_: Any,
    ) -> schema.ResumeSessionResponse:
        """Open a session without showing what was said."""
        workspace = await self._folder(cwd, mcp_servers)
        view = await self._call(RESUME, m.ResumeParams(session_id=session_id, workspace=workspace, limit=1))
        options = await self._begin(session_id, Opened(workspace, view.session.model))
        return schema.ResumeSessionResponse(config_options=options)

    async def fork_session(
        self,
        session_id: str,
        cwd: str,
        additional_directories: list[str] | None = None,
        mcp_servers: list[McpServer] | None = None,
        **_: Any,
    ) -> schema.ForkSessionResponse:
        """Make another session out of what was said so far."""
        workspace = await self._folder(cwd, mcp_servers)
        view = await self._call(RESUME, m.ResumeParams(session_id=session_id, workspace=workspace, limit=1))
        if view.head is None:
            return schema.ForkSessionResponse(session_id=(await self.new_session(cwd)).session_id)
        made = await self._call(
            FORK, m.ForkParams(session_id=session_id, workspace=workspace, node=view.head, new_session=True)
        )
        options = await self._begin(made.session_id, Opened(workspace, view.session.model))
        return schema.ForkSessionResponse(session_id=made.session_id, config_options=options)

    async def list_sessions(
        self, cwd: str | None = None, cursor: str | None = None, **_: Any
    ) -> schema.ListSessionsResponse:
        """A page of the sessions of a folder, by default of the one that was opened first."""
        workspace = await self._folder(cwd, None) if cwd is not None else None
        page = await self._call(SESSION_LIST, m.SessionListParams(workspace=workspace, cursor=cursor, limit=PAGE))
        return schema.ListSessionsResponse(
            sessions=[
                schema.SessionInfo(
                    session_id=one.id,
                    cwd=uri_to_path(one.workspace) or one.workspace,
                    title=one.title,
                    updated_at=datetime.fromtimestamp(one.updated_at / 1000, UTC).isoformat(),
                )
                for one in page.sessions
            ],
            next_cursor=page.next_cursor,
        )

    async def close_session(self, session_id: str, **_: Any) -> schema.CloseSessionResponse:
        """End what goes on in a session; it stays on the disk."""
        await self.cancel(session_id)
        self._open.pop(session_id, None)
        return schema.CloseSessionResponse()

    async def set_session_mode(self, session_id: str, mode_id: str, **_: Any) -> schema.SetSessionModeResponse:
        """There are no modes: what an agent may do stands in the user's own settings, where no client changes it."""
        message = f"There is no mode {mode_id}."
        raise _error(InvalidInput(message, hint="Use the setting `approvals`, and --trust."))

    async def set_config_option(
        self, config_id: str, session_id: str, value: str | bool, **_: Any
    ) -> schema.SetSessionConfigOptionResponse:
        """Choose another model, from the next prompt on."""
        opened = self._opened(session_id)
        listed = await self._call(MODELS_LIST, m.WorkspaceParams(workspace=opened.workspace))
        if config_id != MODEL or not any(one.id == value for one in listed.models):
            message = f"{config_id} cannot be {value}."
            raise _error(InvalidInput(message, hint="Choose one of the values that were listed."))
        opened.model = str(value)
        return schema.SetSessionConfigOptionResponse(config_options=_options(listed, opened.model))

    # --- prompts ------------------------------------------------------------------------------------------------------

    async def prompt(self, session_id: str, prompt: list[ContentBlock], **_: Any) -> schema.PromptResponse:
        """Say something; answered when the run has ended, behind all of its updates."""
        opened = self._opened(session_id)
        work = asyncio.ensure_future(self._say(session_id, opened, prompt))
        opened.prompts.add(work)
        try:
            return await work
        except asyncio.CancelledError:
            if not work.cancelled():
                raise
            return schema.PromptResponse(stop_reason="cancelled")
        finally:
            opened.prompts.discard(work)

    async def cancel(self, session_id: str, **_: Any) -> None:
        """End the session's prompts, keeping what was said."""
        opened = self._open.get(session_id)
        if opened is None:
            return
        # Each is cancelled once: a second time would cut off the end of its run.
        ending, opened.prompts = opened.prompts, set()
        for work in ending:
            work.cancel()

    async def _say(self, session_id: str, opened: Opened, prompt: list[ContentBlock]) -> schema.PromptResponse:
        try:
            said = read_prompt(prompt)
        except IndusagiError as error:
            raise _error(error) from None
        command = read_command(said.text.strip())
        if command is not None:
            return await self._command(session_id, opened, command)
        snapshot = await self._call(SUBMIT, _submit(session_id, opened, said))
        fault = snapshot.error
        if fault is None:
            usage = snapshot.usage
            return schema.PromptResponse(
                stop_reason="end_turn",
                usage=schema.Usage(
                    total_tokens=usage.input + usage.output,
                    input_tokens=usage.input,
                    output_tokens=usage.output,
                    cached_read_tokens=usage.cache_read,
                    cached_write_tokens=usage.cache_write,
                ),
            )
        if fault.kind == "aborted":
            return schema.PromptResponse(stop_reason="cancelled")
        if fault.kind == "turn_budget":
            return schema.PromptResponse(stop_reason="max_turn_requests")
        raise RequestError(CODES.get(fault.kind, OTHER), fault.message, {"kind": fault.kind, "hint": fault.hint})

    async def _command(self, session_id: str, opened: Opened, command: Command) -> schema.PromptResponse:
        told = await _answered(run_command(self._hosts.call, command, session_id, opened.workspace))
        self._outlet.update(session_id, helpers.update_agent_message_text(told))
        return schema.PromptResponse(stop_reason="end_turn")

    # --- the rest -----------------------------------------------------------------------------------------------------

    async def ext_method(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        """None of our own: an editor that wants more speaks the language server's protocol."""
        raise RequestError.method_not_found(f"_{method}")

    async def ext_notification(self, method: str, params: dict[str, Any]) -> None:
        """Not known, so ignored."""

    async def _folder(self, cwd: str, mcp_servers: list[McpServer] | None) -> str:
        """The workspace of a folder, hosted from now on."""
        if not PurePath(cwd).is_absolute():
            message = f"{cwd} is no absolute path."
            raise _error(InvalidInput(message, hint="Send the folder's whole path."))
        if mcp_servers:
            logger.warning("MCP servers of the editor are not used; those of config.toml are")
        folder = PurePath(cwd)
        uri = path_to_uri(str(folder))
        await _answered(self._hosts.open_folder(uri, folder.name or cwd, self._trusted))
        return uri

    async def _begin(self, session_id: str, opened: Opened) -> list[Any]:
        """Note a session that was opened; gives what can be chosen in it."""
        before = self._open.get(session_id)
        if before is not None:
            opened.prompts = before.prompts
        self._open[session_id] = opened
        listed = await self._call(MODELS_LIST, m.WorkspaceParams(workspace=opened.workspace))
        commands = [
            schema.AvailableCommand(
                name=name,
                description=told,
                input=None
                if name == "undo"
                else schema.AvailableCommandInput(root=schema.UnstructuredCommandInput(hint=_HINTS[name])),
            )
            for name, told in COMMANDS.items()
        ]
        # A client knows the session only once it has the answer, which goes out before the loop's next turn.
        asyncio.get_running_loop().call_soon(
            self._outlet.update, session_id, helpers.update_available_commands(commands)
        )
        return _options(listed, opened.model)

    def _opened(self, session_id: str) -> Opened:
        opened = self._open.get(session_id)
        if opened is None:
            message = f"Session {session_id} is not open here."
            raise _error(InvalidInput(message, hint="Load it first, by session/load."))
        return opened

    async def _call(self, operation: Operation, params: Any) -> Any:
        return await _answered(self._hosts.call(operation, params))


_HINTS = {"condense": "what the summary should keep", "remember": "what to remember"}


def _submit(session_id: str, opened: Opened, said: Said) -> m.SubmitParams:
    return m.SubmitParams(
        session_id=session_id,
        workspace=opened.workspace,
        blocks=said.blocks,
        context=said.context,
        model=opened.model,
    )


def _options(listed: m.ModelsListResult, chosen: str | None) -> list[Any]:
    """The choice of a model, as the client's panel shows it."""
    return [
        schema.SessionConfigOptionSelect(
            id=MODEL,
            name="Model",
            category="model",
            type="select",
            current_value=chosen or listed.current,
            options=[
                schema.SessionConfigSelectOption(value=one.id, name=one.name, description=one.note or None)
                for one in listed.models
                if one.available or one.id in (chosen, listed.current)
            ],
        )
    ]


async def _answered(work: Awaitable[T]) -> T:
    """What was asked for, or the protocol's error with our words; never a traceback."""
    try:
        return await work
    except IndusagiError as error:
        raise _error(error) from None
    except Exception as error:
        logger.exception("an operation failed by a mistake of ours")
        raise _error(error) from None


def _error(exception: BaseException) -> RequestError:
    told = error_of(exception)
    return RequestError(told["code"], told["message"], told.get("data"))

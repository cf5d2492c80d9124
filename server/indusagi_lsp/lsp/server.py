"""The language server itself: what it is made of, and its life from `initialize` to `exit`."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any

from lsprotocol import types
from pygls.exceptions import JsonRpcException
from pygls.lsp.server import LanguageServer
from pygls.protocol import default_converter

from indusagi_lsp import __version__
from indusagi_lsp.contract.clock import NewId, new_uuid
from indusagi_lsp.lsp.client import ClientFeatures
from indusagi_lsp.lsp.documents import Documents
from indusagi_lsp.lsp.edits import DocumentEditor
from indusagi_lsp.lsp.engine import Engine
from indusagi_lsp.lsp.features import register
from indusagi_lsp.lsp.folders import folders_of
from indusagi_lsp.lsp.hosts import HostsFactory, default_hosts
from indusagi_lsp.lsp.operations import OperationRunner
from indusagi_lsp.lsp.outlet import ClientOutlet
from indusagi_lsp.lsp.peer import Peer, PeerError
from indusagi_lsp.lsp.progress import ProgressBoard
from indusagi_lsp.lsp.protocol import IndusagiProtocol
from indusagi_lsp.lsp.receiver import Receiver, Stage
from indusagi_lsp.lsp.standard import StandardRequests, announce
from indusagi_lsp.protocol import errors
from indusagi_lsp.protocol.messages import SessionParams
from indusagi_lsp.protocol.operations import ABORT, ASK, CHAT_SEND, TRUST
from indusagi_lsp.transport.framing import FrameError
from indusagi_lsp.transport.outbox import Outbox
from indusagi_lsp.transport.serve import Control

logger = logging.getLogger(__name__)

NAME = "indusagi-lsp"
SECTION = "indusagi"
APPROVAL_SECONDS = 600.0
_PATIENCE_SECONDS = 0.25
_HOSTS_SECONDS = 0.8
_IDLE_SECONDS = 0.05
_WARNING = 2


class IndusagiServer(LanguageServer):
    """One client's server. Made by `create_server`; lives when the byte layer has attached its outbox."""

    protocol: IndusagiProtocol

    def __init__(
        self, *, hosts_factory: HostsFactory, new_id: NewId, approval_seconds: float, token: str | None
    ) -> None:
        super().__init__(NAME, __version__, protocol_cls=IndusagiProtocol, converter_factory=default_converter)
        self._hosts_factory = hosts_factory
        self._new_id = new_id
        self._approval_seconds = approval_seconds
        self._token = token
        self._tasks: set[asyncio.Task[Any]] = set()
        self._finished: asyncio.Task[None] | None = None
        self.documents = Documents()
        self._when_idle: list[Callable[[], None]] = []
        self._log_level = logging.getLogger("indusagi_lsp").level
        self.features = self._announced = ClientFeatures()

    # --- the byte layer's side ----------------------------------------------------------------------------------------

    def attach(self, outbox: Outbox, control: Control) -> None:
        """Take what the server needs of the byte layer, once, before anything is received."""
        self._control = control
        self.peer = Peer(outbox)
        self.board = ProgressBoard(self.peer, self._abort, self._new_id)
        self.outlet = ClientOutlet(self.peer, self.board, self.document_text, self._approval_seconds)
        self.engine = Engine(self._hosts_factory, self.outlet, self.complain)
        self.operations = OperationRunner(self.engine, self.peer, self.board, self._new_id)
        self.editor = self.outlet.editor = DocumentEditor(self.peer, self.documents, lambda: self.features)
        self.standard = StandardRequests(self)
        self.operations.local = {
            ASK.name: self.standard.ask,
            CHAT_SEND.name: self.standard.send_chat,
            TRUST.name: self.engine.trust,
        }
        self.outlet.on_sessions_changed = self.standard.sessions_changed
        self.receiver = Receiver(self.protocol, self.operations, self.standard, self.peer, self)

    def receive(self, item: bytes | FrameError) -> None:
        """Take one message body, or the news that bytes made no sense."""
        self.receiver.receive(item)

    @property
    def was_shut_down(self) -> bool:
        """Whether `shutdown` was asked for, so that an end is a good end."""
        return hasattr(self, "receiver") and self.receiver.stage is Stage.SHUTTING_DOWN

    async def finish(self) -> None:
        """End all work, once: short requests may end, long ones are cancelled, the hosts go. Below 1.5 s."""
        if self._finished is None:
            self._finished = asyncio.create_task(self._finish())
        await asyncio.shield(self._finished)

    async def _finish(self) -> None:
        await self.standard.finish()
        await self.operations.finish(_PATIENCE_SECONDS)
        await self.engine.shutdown(_HOSTS_SECONDS)

    def send_body(self, body: bytes) -> None:
        """Send a message that pygls has made."""
        self.peer.outbox.send(body)

    def on_idle(self, work: Callable[[], None]) -> None:
        """Have `work` done in a thread once `initialize` is answered."""
        self._when_idle.append(work)

    # --- lifecycle ----------------------------------------------------------------------------------------------------

    def announced(self, capabilities: Any) -> None:
        """Take the client's capabilities as decoded JSON: to turn pygls' types back into it costs time at the start."""
        self._announced = ClientFeatures.of(capabilities)

    def initialized_with(self, params: types.InitializeParams) -> None:
        """Take what `initialize` said."""
        options = _options(params.initialization_options)
        if self._token is not None and options.get("token") != self._token:
            logger.error("a client without the right token was turned away")
            self._control.stop(1)
            return
        self.features = self.outlet.features = self._announced
        self.board.want(self.features.progress and not self.features.events)
        folders = folders_of(params.workspace_folders, params.root_uri, params.root_path)
        settings = {name: value for name, value in options.items() if name not in ("token", "trusted")}
        self.engine.prepare(settings, folders, trusted=options.get("trusted") is True)
        self.receiver.stage = Stage.RUNNING
        for work in self._when_idle:
            asyncio.get_running_loop().call_later(_IDLE_SECONDS, self._spawn_thread, work)
        self._when_idle.clear()
        if params.process_id is not None:
            self._control.watch(params.process_id)

    def agreed(self, capabilities: types.ServerCapabilities) -> None:
        """Put into the answer to `initialize` what this client may ask of us, and note how it counts characters."""
        encoding = capabilities.position_encoding
        self.documents.encoding = "utf-8" if encoding == "utf-8" else "utf-32" if encoding == "utf-32" else "utf-16"
        capabilities.text_document_sync = types.TextDocumentSyncOptions(
            open_close=True, change=types.TextDocumentSyncKind.Incremental, save=True
        )
        announce(capabilities, self.features.asks)

    def client_ready(self) -> None:
        """The client is initialized: start what takes long."""
        self.engine.start(self.spawn(self.pull_configuration()) if self.features.configuration else None)
        if self.features.register_configuration:
            self.spawn(self._register_configuration())

    def shutdown(self, request_id: int | str | None = None) -> None:
        """End all work, then answer."""
        if request_id is not None:
            self.spawn(self._shutdown(request_id))

    async def _shutdown(self, request_id: int | str) -> None:
        await self.finish()
        self.peer.respond(request_id, b"null")
        self.protocol.mark_shut_down()
        self._control.shutdown_answered()

    def exit(self) -> None:
        """End the process: well after `shutdown`, else with 1."""
        self._control.stop(0 if self.was_shut_down else 1)

    def cancel_progress(self, token: Any) -> None:
        """The client's cancel button."""
        self.board.cancel(token)

    # --- settings and documents ---------------------------------------------------------------------------------------

    async def pull_configuration(self) -> None:
        """Ask the client for our section of its settings, and apply them."""
        try:
            answer = await self.peer.ask("workspace/configuration", {"items": [{"section": SECTION}]}, timeout=10)
        except (PeerError, TimeoutError) as error:
            logger.info("the client gave no settings: %s", error)
            return
        await self.engine.configure(answer[0] if isinstance(answer, list) and answer else None)

    async def take_configuration(self, pushed: Any) -> None:
        """Settings have changed: ask for them where that is possible, else take what was sent."""
        if self.features.configuration:
            await self.pull_configuration()
        elif isinstance(pushed, dict) and SECTION in pushed:
            await self.engine.configure(pushed[SECTION])

    def set_trace(self, value: str) -> None:
        """Log more or less, as the client says."""
        levels = {"messages": logging.INFO, "verbose": logging.DEBUG}
        logging.getLogger("indusagi_lsp").setLevel(levels.get(value, self._log_level))

    async def _register_configuration(self) -> None:
        registration = {"id": "indusagi-configuration", "method": "workspace/didChangeConfiguration"}
        registration_options = {"registerOptions": {"section": SECTION}}
        try:
            await self.peer.ask(
                "client/registerCapability",
                {"registrations": [{**registration, **registration_options}]},
                timeout=10,
            )
        except (PeerError, TimeoutError) as error:
            logger.info("changes of settings will not be told: %s", error)

    def document_text(self, uri: str) -> str | None:
        """The unsaved text of a file that is open in the editor, else None."""
        document = self.documents.get(uri)
        return None if document is None else document.text

    # --- small things -------------------------------------------------------------------------------------------------

    def complain(self, sentence: str) -> None:
        """Show one sentence to the user."""
        logger.info("told the user: %s", sentence)
        self.peer.notify("window/showMessage", {"type": _WARNING, "message": sentence})

    def report_server_error(self, error: Exception, source: Any) -> None:
        """Log what went wrong within pygls; its default would show a message for each."""
        # A client's mistake was answered, and is no error of ours.
        level = (
            logging.INFO
            if isinstance(error, JsonRpcException) and error.code != errors.INTERNAL_ERROR
            else logging.ERROR
        )
        logger.log(level, "%s: %s", getattr(source, "__name__", source), error, exc_info=error)

    def spawn(self, work: Any) -> asyncio.Task[Any]:
        """Run a coroutine beside the rest; a failure is logged."""
        task: asyncio.Task[Any] = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._spawned)
        return task

    def _spawn_thread(self, work: Callable[[], None]) -> None:
        self.spawn(asyncio.to_thread(work))

    def _spawned(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            logger.error("work beside the rest failed", exc_info=task.exception())

    def _abort(self, workspace: str, session_id: str) -> None:
        async def abort() -> None:
            hosts = await self.engine.ready()
            await hosts.call(ABORT, SessionParams(session_id=session_id, workspace=workspace))

        self.spawn(abort())


def create_server(
    hosts_factory: HostsFactory = default_hosts,
    *,
    new_id: NewId = new_uuid,
    approval_seconds: float = APPROVAL_SECONDS,
    token: str | None = None,
) -> IndusagiServer:
    """Make a server. It does nothing until the byte layer attaches to it.

    Args:
        hosts_factory: makes the hosts, given the outlet; called after `initialized`.
        new_id: makes ids.
        approval_seconds: how long the user may think about a question, in seconds.
        token: a secret that `initializationOptions.token` must equal; None where the stream itself is
            private.

    Returns:
        A server for exactly one client.
    """
    server = IndusagiServer(hosts_factory=hosts_factory, new_id=new_id, approval_seconds=approval_seconds, token=token)
    register(server)
    return server


def _options(value: Any) -> dict[str, Any]:
    """`initializationOptions`, which pygls leaves as decoded JSON; anything but an object counts as none."""
    return dict(value) if isinstance(value, dict) else {}

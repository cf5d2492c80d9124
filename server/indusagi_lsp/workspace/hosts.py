"""The hosts of all open folders, and the one place where an operation finds its host and its code."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec

from indusagi_lsp import __version__
from indusagi_lsp.contract.clock import Clock, NewId, SystemClock, new_uuid
from indusagi_lsp.contract.errors import IndusagiError, InvalidInput, InvalidState, SessionNotFound
from indusagi_lsp.contract.events import Notice
from indusagi_lsp.contract.places import Places, user_places
from indusagi_lsp.contract.tracing import Tracer, Untraced
from indusagi_lsp.models import create_models
from indusagi_lsp.protocol import messages as m
from indusagi_lsp.protocol import operations as o
from indusagi_lsp.protocol.views import notice_view
from indusagi_lsp.sessions import Signer, load_key
from indusagi_lsp.workspace import (
    serve_files,
    serve_library,
    serve_memory,
    serve_models,
    serve_runs,
    serve_sessions,
    serve_workflows,
    tracing,
)
from indusagi_lsp.workspace.host import Host
from indusagi_lsp.workspace.memories import memory_server
from indusagi_lsp.workspace.outlet import Outlet
from indusagi_lsp.workspace.paths import uri_path
from indusagi_lsp.workspace.settings import UserConfig, read_user_config

if TYPE_CHECKING:
    from indusagi_lsp.models import ModelSource

logger = logging.getLogger(__name__)

_TRACER_SECONDS = 0.5

Handler: TypeAlias = Callable[[Host, Any], Awaitable[msgspec.Struct]]

HANDLERS: Mapping[str, Handler] = {
    o.SESSION_NEW.name: serve_sessions.new,
    o.SESSION_LIST.name: serve_sessions.listing,
    o.SESSION_TREE.name: serve_sessions.tree,
    o.SESSION_ADOPT.name: serve_sessions.adopt,
    o.SESSION_LABEL.name: serve_library.label,
    o.SESSION_RENAME.name: serve_library.rename,
    o.SESSION_ARCHIVE.name: serve_library.archive,
    o.SESSION_DELETE.name: serve_library.delete,
    o.SESSION_EXPORT.name: serve_library.export_branch,
    o.SESSION_IMPORT.name: serve_library.import_sessions,
    o.SESSION_COMPARE.name: serve_library.compare_branches,
    o.SESSION_NOTE.name: serve_library.bring_note,
    o.SESSION_SEARCH.name: serve_library.search,
    o.SESSION_DOCTOR.name: serve_library.doctor,
    o.BLOB_GET.name: serve_library.show_blob,
    o.BLOB_COLLECT.name: serve_library.collect_blobs,
    o.FILES_CHANGES.name: serve_files.changes,
    o.FILES_RESTORE.name: serve_files.restore,
    o.FILES_CONTENT.name: serve_files.content,
    o.RESUME.name: serve_sessions.resume,
    o.FORK.name: serve_sessions.fork,
    o.SUBMIT.name: serve_runs.submit,
    o.ABORT.name: serve_runs.abort,
    o.SNAPSHOT.name: serve_runs.snapshot,
    o.CONDENSE.name: serve_runs.condense,
    o.CONDENSE_UNDO.name: serve_runs.undo,
    o.REMEMBER.name: serve_memory.remember,
    o.RECALL.name: serve_memory.recall,
    o.MEMORY_LIST.name: serve_memory.listing,
    o.FORGET.name: serve_memory.forget,
    o.MEMORY_GET.name: serve_memory.get,
    o.MEMORY_UPDATE.name: serve_memory.update,
    o.MEMORY_ADOPT.name: serve_memory.adopt,
    o.MEMORY_EXPLAIN.name: serve_memory.explain,
    o.MEMORY_EXPORT.name: serve_memory.export_markdown,
    o.MEMORY_IMPORT.name: serve_memory.import_markdown,
    o.WORKFLOW_LIST.name: serve_workflows.listing,
    o.WORKFLOW_RUN.name: serve_workflows.run,
    o.WORKFLOW_RESUME.name: serve_workflows.resume,
    o.WORKFLOW_CANCEL.name: serve_workflows.cancel,
    o.MODELS_LIST.name: serve_models.listing,
}
"""The code of each operation that concerns one workspace; `status` and `trust` may concern them all."""


class Hosts:
    """One host per workspace folder.

    Args:
        outlet: where their words go.
        environ: the process's environment, for keys and places.
        places: the user's own folders; by default told by `environ`.
        clock: the time.
        new_id: makes ids.
        source: given the models of this user, says who answers in their place: a recorder, or a recording.
    """

    def __init__(
        self,
        outlet: Outlet,
        *,
        environ: Mapping[str, str],
        places: Places | None = None,
        clock: Clock | None = None,
        new_id: NewId = new_uuid,
        source: Callable[[ModelSource], ModelSource] = lambda models: models,
    ) -> None:
        self._outlet = outlet
        self._environ = environ
        self._places = places or user_places(environ)
        self._clock = clock or SystemClock()
        self._new_id = new_id
        self._source = source
        self._hosts: dict[str, Host] = {}
        self._refused: dict[str, IndusagiError] = {}
        self._opening: dict[str, asyncio.Lock] = {}
        self._models: ModelSource | None = None
        self._signer: Signer | None = None
        self._tracer: Tracer = Untraced()
        self._user = UserConfig()
        self._editor_settings: Mapping[str, Any] = {}
        self._notices: list[Notice] = []
        self._prepared = asyncio.Lock()
        self._closed = False

    # --- folders ------------------------------------------------------------------------------------------------------

    async def open_folder(self, uri: str, name: str, trusted: bool) -> None:
        """Host a folder; one that is hosted already only takes the new trust.

        Args:
            uri: its normalised file URI.
            name: as the editor shows it.
            trusted: whether the user trusts what is in it.

        Raises:
            InvalidInput: it is no folder on this machine.
        """
        try:
            await self._open(uri, name, trusted=trusted)
        except IndusagiError as error:
            self._refused[uri] = error
            raise
        self._refused.pop(uri, None)

    async def _open(self, uri: str, name: str, *, trusted: bool) -> None:
        await self._prepare()
        async with self._opening.setdefault(uri, asyncio.Lock()):
            known = self._hosts.get(uri)
            if known is not None:
                await known.trust(trusted)
                return
            root = uri_path(uri)
            if not await asyncio.to_thread(root.is_dir):
                message = f"{root} is not a folder."
                raise InvalidInput(message, hint="Open a folder that exists.")
            assert self._models is not None  # noqa: S101 - made by `_prepare`
            assert self._signer is not None  # noqa: S101
            server = await asyncio.to_thread(memory_server, self._user.memory_server, root)
            self._hosts[uri] = Host(
                uri=uri,
                root=root,
                name=name,
                trusted=trusted,
                outlet=self._outlet,
                models=self._models,
                places=self._places,
                environ=self._environ,
                signer=self._signer,
                settings=(self._user.settings, self._editor_settings),
                user=self._user,
                server=server,
                tracer=self._tracer,
                clock=self._clock,
                new_id=self._new_id,
            )

    async def close_folder(self, uri: str) -> None:
        """Let go of a folder; runs in it are ended, and nothing is lost."""
        self._refused.pop(uri, None)
        host = self._hosts.pop(uri, None)
        if host is not None:
            await host.close()

    async def configure(self, settings: Mapping[str, Any]) -> list[m.NoticeView]:
        """Take the editor's settings.

        Args:
            settings: the section `indusagi`; unknown keys are ignored.

        Returns:
            What was not taken, and why; the rest is in force.
        """
        self._editor_settings = settings
        await self._prepare()
        notices: list[Notice] = list(self._notices)
        for host in self._hosts.values():
            notices += await host.configure(self._user.settings, settings)
        return [notice_view(notice) for notice in dict.fromkeys(notices)]

    async def shutdown(self) -> None:
        """End everything; returns when all that was said is on disk."""
        self._closed = True
        hosts, self._hosts = list(self._hosts.values()), {}
        ended = await asyncio.gather(*(host.close() for host in hosts), return_exceptions=True)
        for host, failure in zip(hosts, ended, strict=True):
            if failure is not None:
                logger.error("%s did not end as it should", host.root, exc_info=failure)
        if self._models is not None:
            await self._models.close()
        if isinstance(self._tracer, tracing.OtelTracer):
            # A collector that does not answer must not hold the end; the last spans are then lost.
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(asyncio.to_thread(self._tracer.close), _TRACER_SECONDS)

    # --- operations ---------------------------------------------------------------------------------------------------

    async def call(self, operation: o.Operation, params: Any) -> msgspec.Struct:
        """Do one operation.

        Args:
            operation: from the table.
            params: a value of its params type.

        Returns:
            A value of its result type.

        Raises:
            IndusagiError: with what is wrong and what to do.
        """
        if self._closed:
            raise InvalidState("The server is shutting down.", hint="Start it again.")
        if operation is o.STATUS:
            return self._status(params)
        if operation is o.TRUST:
            return await self._trust(params)
        if operation.name in o.EDITOR_OPERATIONS:
            raise InvalidState("That is about a document in an editor.", hint="Ask the language server for it.")
        return await HANDLERS[operation.name](await self._host(params), params)

    async def _host(self, params: Any) -> Host:
        """The host that the params name: by folder, or by the session's id."""
        uri = params.workspace
        if uri in self._refused or not self._hosts:
            # Whoever asks again for a folder that could not be opened wants to know why, not that it is not open.
            raise self._refused.get(uri) or next(
                iter(self._refused.values()),
                InvalidState("No folder is open.", hint="Open a folder, then try again."),
            )
        if uri is not None:
            host = self._hosts.get(uri) or self._hosts.get(uri.rstrip("/"))
            if host is None:
                raise self._not_open(uri)
            return host
        session_id = getattr(params, "session_id", None)
        hosts = list(self._hosts.values())
        execution_id = getattr(params, "execution_id", None)
        if execution_id is not None and len(hosts) > 1:
            owners = [host for host in hosts if await host.workflows.knows(execution_id)]
            return owners[0] if owners else hosts[0]
        if session_id is None or len(hosts) == 1:
            return hosts[0]
        for host in hosts:
            if session_id in host.live:
                return host
        for host in hosts:
            if session_id in await host.store.list_sessions():
                return host
        raise SessionNotFound(session_id)

    def _not_open(self, uri: str) -> InvalidInput:
        known = ", ".join(self._hosts) or "none"
        return InvalidInput(f"{uri} is not open here.", hint=f"The open folders are: {known}.")

    async def _trust(self, params: m.TrustParams) -> m.StatusResult:
        """Grant or withdraw trust in one folder, or in all that are open."""
        hosts = [await self._host(params)] if params.workspace is not None else list(self._hosts.values())
        for host in hosts:
            await host.trust(params.trusted)
        return self._status(m.WorkspaceParams(workspace=params.workspace))

    def _status(self, params: m.WorkspaceParams) -> m.StatusResult:
        if params.workspace is not None and params.workspace not in self._hosts:
            raise self._not_open(params.workspace)
        hosts = [host for uri, host in self._hosts.items() if params.workspace in (None, uri)]
        running = [session for host in hosts for session in host.running]
        return m.StatusResult(
            version=__version__,
            protocol_version=m.PROTOCOL_VERSION,
            busy=bool(running),
            message=f"{len(running)} running" if running else "Ready",
            kind="Normal" if hosts else "Inactive",
            workspaces=[
                m.WorkspaceStatus(
                    uri=host.uri,
                    name=host.name,
                    trusted=host.trusted,
                    model=host.model_id,
                    sessions=len(host.live),
                    running=host.running,
                    notices=[notice_view(notice) for notice in (*self._notices, *host.notices)],
                )
                for host in hosts
            ],
        )

    async def _prepare(self) -> None:
        """Read the user's own files, once."""
        async with self._prepared:
            if self._models is not None:
                return
            config, notices = await asyncio.to_thread(read_user_config, self._places.config_file)
            self._signer = Signer(await asyncio.to_thread(load_key, self._places.state))
            self._user = config
            self._notices = notices
            models = create_models(
                config.models, environ=self._environ, clock=self._clock, cache_dir=self._places.cache
            )
            self._tracer = await self._open_tracer(config.telemetry)
            self._models = self._source(models)

    async def _open_tracer(self, setting: bool | None) -> Tracer:
        if not tracing.wanted(setting, self._environ):
            return Untraced()
        if await asyncio.to_thread(tracing.installed):
            try:
                return await asyncio.to_thread(tracing.open_tracer)
            except Exception:
                # It reads variables of its own, and what is wrong in one of them must not keep a folder closed.
                logger.exception("no spans are sent")
                text = "No spans are sent: OpenTelemetry does not take its settings. The log has the details."
                self._notices.append(Notice("warning", "telemetry", text))
                return Untraced()
        text = "Spans are wanted, but the extra `otel` is not installed: pip install 'indusagi-lsp[otel]'"
        if setting:
            self._notices.append(Notice("warning", "telemetry", text))
        else:
            # The variables may be meant for another program.
            logger.info(text)
        return Untraced()


def create_hosts(outlet: Outlet, *, source: Callable[[ModelSource], ModelSource] = lambda models: models) -> Hosts:
    """The hosts of this process: the real environment, clock and places.

    Args:
        outlet: where their words go.
        source: as `Hosts` takes it.
    """
    return Hosts(outlet, environ=dict(os.environ), source=source)

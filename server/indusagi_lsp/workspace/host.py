"""The host of one workspace folder: its store, its memory, its models, and the sessions that are in use.

Nothing is opened before it is needed, and no state is shared between hosts but the models and the user's own settings.
"""

from __future__ import annotations

import asyncio
import platform
from collections.abc import Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from indusagi_lsp.conductor import Agent, AgentConfig, AgentDeps, RulesFile, build_system_prompt, create_agent
from indusagi_lsp.contract.clock import Clock, NewId
from indusagi_lsp.contract.errors import IndusagiError
from indusagi_lsp.contract.events import Notice
from indusagi_lsp.contract.models import ModelCard
from indusagi_lsp.contract.places import Places
from indusagi_lsp.contract.tools import Editor, Tool
from indusagi_lsp.contract.tracing import Tracer
from indusagi_lsp.filehistory import FILES, FileHistory
from indusagi_lsp.protocol import messages as m
from indusagi_lsp.protocol.uris import path_to_uri
from indusagi_lsp.sessions import Look, Session, SessionStore, Signer, blobs
from indusagi_lsp.sessions.redaction import redact_turn
from indusagi_lsp.tools import PathGuard, excerpts
from indusagi_lsp.workspace.agent_tools import host_tools
from indusagi_lsp.workspace.gate import Gate
from indusagi_lsp.workspace.live import LiveSession
from indusagi_lsp.workspace.outlet import Outlet
from indusagi_lsp.workspace.paths import uri_path
from indusagi_lsp.workspace.permissions import McpGrants, Permissions
from indusagi_lsp.workspace.rules import read_rules
from indusagi_lsp.workspace.settings import UserConfig, merge_settings
from indusagi_lsp.workspace.toolbox import Toolbox
from indusagi_lsp.workspace.user_tools import AskUser, Diagnostics

if TYPE_CHECKING:
    from indusagi_lsp.memory import MemoryService
    from indusagi_lsp.models import ModelSource
    from indusagi_lsp.sessions.importers import Importer
    from indusagi_lsp.sessions.search import SearchIndex
    from indusagi_lsp.sessions.watch import SessionWatcher
    from indusagi_lsp.workspace.memories import MemoryServer
    from indusagi_lsp.workspace.workflows import HostWorkflows

INDUSAGI = ".indusagi"
BLOBS = "blobs"
EXCERPT_CHARS = 1_600
"""What a model without tools gets of the workspace: about 400 tokens, which the bundled one reads in 2 s."""

SMALL_OUTPUT_TOKENS = 400
"""A small model that goes on longer than this only repeats itself."""

MAX_IDLE_SESSIONS = 32
MAX_ATTACHED_BYTES = 1_000_000


class Host:
    """One workspace folder.

    Args:
        uri: the folder's normalised URI.
        root: the folder.
        name: as the editor shows it.
        trusted: whether the user trusts what is in the folder.
        outlet: where events go.
        models: the models of this user.
        places: the user's own folders.
        environ: the user's environment, which says where other tools keep their sessions.
        signer: the user's key for heads.
        settings: layers of raw settings, weakest first.
        user: the user's own configuration.
        server: keeps what is remembered, in the place of the folder.
        tracer: is told how long runs take.
    """

    def __init__(
        self,
        *,
        uri: str,
        root: Path,
        name: str,
        trusted: bool,
        outlet: Outlet,
        models: ModelSource,
        places: Places,
        environ: Mapping[str, str],
        signer: Signer,
        settings: tuple[Mapping[str, Any], ...],
        user: UserConfig,
        server: MemoryServer | None,
        tracer: Tracer,
        clock: Clock,
        new_id: NewId,
    ) -> None:
        self.uri = uri
        self.root = root
        self.name = name
        self.models = models
        self.places = places
        self.environ = environ
        self.signer = signer
        self.clock = clock
        self.blobs_dir = root / INDUSAGI / BLOBS
        self.settings, self._complaints = merge_settings(*settings)
        self._reports: list[Notice] = []
        self.store = SessionStore(
            root / INDUSAGI / "sessions",
            signer=signer,
            clock=clock,
            new_id=new_id,
            redact=redact_turn if self.settings.redact_secrets else None,
        )
        self._outlet = outlet
        self._new_id = new_id
        self._tracer = tracer
        self._guard = PathGuard(root)
        self._live: dict[str, LiveSession] = {}
        self._opening: dict[str, asyncio.Task[LiveSession]] = {}
        self._shown: dict[str, str | None] = {}
        self._catching_up: set[asyncio.Task[None]] = set()
        self._memory: MemoryService | None = None
        self._memory_server = server
        self._workflows: HostWorkflows | None = None
        self._search: SearchIndex | None = None
        self.files = FileHistory(
            self._guard,
            root / INDUSAGI / FILES,
            signer.seal,
            document=self._document,
            clock=clock,
            new_id=new_id,
        )
        self._watcher: SessionWatcher | None = None
        self.gate = Gate(
            workspace=uri,
            trusted=trusted,
            mode=lambda: self.settings.approvals,
            permissions=Permissions(places.state, uri),
            outlet=outlet,
            clock=clock,
        )
        self.toolbox = Toolbox(
            self._guard,
            self.files,
            own=self._own_tools,
            mcp=user.mcp,
            commands=user.commands,
            approver=self.gate.decide,
            grants=McpGrants(places.state, uri),
            environ=environ,
            clock=clock,
            new_id=new_id,
            report=self._notify,
        )

    # --- sessions -----------------------------------------------------------------------------------------------------

    @property
    def trusted(self) -> bool:
        """Whether the user trusts what is in the folder."""
        return self.gate.trusted

    @property
    def live(self) -> Mapping[str, LiveSession]:
        """The sessions in use, by id."""
        return self._live

    @property
    def model_id(self) -> str:
        """The model of new sessions."""
        return self.settings.model or self.models.default()

    @property
    def running(self) -> list[str]:
        """The sessions in which a run goes on."""
        return [session_id for session_id, live in self._live.items() if live.agent.running]

    async def new_session(self, *, title: str | None, model: str | None) -> LiveSession:
        """Make an empty session.

        Raises:
            ModelError: there is no such model.
            PersistenceFault: the folder cannot be written.
        """
        if model is not None:
            await self.models.look_up(model)
        session = await self.store.create(cwd=self.uri, title=title, model=model)
        live = await self._begin(session)
        self.changed()
        return live

    async def session(self, session_id: str) -> LiveSession:
        """The session, opened if it is not in use yet.

        Raises:
            SessionNotFound: there is none of that id.
            InvalidInput: that is no session id.
        """
        live = self._live.get(session_id)
        if live is None:
            # Two requests for one session must get one agent, so the second waits for the first one's opening.
            opening = self._opening.get(session_id)
            if opening is None:
                opening = asyncio.create_task(self._open(session_id))
                self._opening[session_id] = opening
                opening.add_done_callback(lambda _: self._opening.pop(session_id, None))
            live = await asyncio.shield(opening)
        live.used_at = self.clock.monotonic()
        return live

    async def look(self, session_id: str, limit: int) -> Look | None:
        """The newest turns of a large session that is not in use, without reading it as a whole.

        It is opened when something needs more of it: any other operation, or another program that writes to it.

        Returns:
            What opening it would show; None if it is in use, or if only opening it can tell.

        Raises:
            InvalidInput: that is no session id.
            PersistenceFault: the file is there and cannot be read.
        """
        if session_id in self._live or session_id in self._opening:
            return None
        await self.watch()
        # What is written while we look must not be missed, so it counts as shown from here on.
        self._shown.setdefault(session_id, None)
        try:
            look = await self.store.look(session_id, limit)
        except IndusagiError:
            self._shown.pop(session_id, None)
            raise
        if look is None or session_id in self._live or session_id in self._opening:
            self._shown.pop(session_id, None)
            return None
        self._shown[session_id] = look.outline.summary.head
        return look

    async def adopt_fork(self, session: Session) -> LiveSession:
        """Take a session into use that was just made by a fork."""
        live = await self._begin(session)
        self.changed()
        return live

    async def delete_session(self, session_id: str) -> None:
        """Delete a session for good; what goes on in it is ended first.

        Raises:
            SessionNotFound: there is none of that id.
            PersistenceFault: the disk refused.
        """
        self._shown.pop(session_id, None)
        live = self._live.pop(session_id, None)
        if live is not None:
            await live.close()
        await self.store.delete(session_id)

    def search_index(self) -> SearchIndex:
        """The index over what was said in this folder's sessions; derived, and made when it is first asked."""
        if self._search is None:
            from indusagi_lsp.sessions.search import SearchIndex

            self._search = SearchIndex(self.store.root)
        return self._search

    def importer(self) -> Importer:
        """What brings other tools' sessions here."""
        from indusagi_lsp.sessions.importers import Importer

        return Importer(self.store.root, blobs_dir=self.blobs_dir, clock=self.clock)

    async def _open(self, session_id: str) -> LiveSession:
        return await self._begin(await self.store.open(session_id))

    async def _begin(self, session: Session) -> LiveSession:
        await self._close_idle()
        card = await self._card(session.meta.model or self.model_id)
        agent = create_agent(
            await self._agent_config(card),
            AgentDeps(
                invoke_model=self.models.invoke,
                catalogue=self.models,
                store=self.store,
                approver=self.gate.decide,
                excerpts=self._excerpts,
                editor=self._editor(),
                spill=self._spill,
                workspace=self.uri,
                clock=self.clock,
                new_id=self._new_id,
                tracer=self._tracer,
            ),
        )
        warm = await asyncio.to_thread(session.preload)
        await agent.start(session)
        live = LiveSession(
            agent, session, outlet=self._outlet, workspace=self.uri, clock=self.clock, on_change=self.changed
        )
        live.warm = warm
        self._live[session.id] = live
        if session.id in self._shown:
            live.tell_missed(self._shown.pop(session.id))
        await self.watch()
        return live

    async def watch(self) -> None:
        """Watch for what other windows and programs do to the sessions, from the first one that is used here on."""
        if self._watcher is not None or self.settings.watch == "off":
            return
        from indusagi_lsp.sessions.watch import SessionWatcher

        self._watcher = SessionWatcher(
            self.store,
            on_sessions=self._changed_outside,
            on_notice=lambda text: self._notify(Notice("warning", "polling", text)),
            mode=self.settings.watch,
        )
        await self._watcher.start()

    def _changed_outside(self, names: frozenset[str]) -> None:
        """Other programs wrote to sessions; one that is only shown here is opened, which tells what is new in it."""
        self.changed()
        for name in names & self._shown.keys():
            task = asyncio.create_task(self._catch_up(name))
            self._catching_up.add(task)
            task.add_done_callback(self._catching_up.discard)

    async def _catch_up(self, session_id: str) -> None:
        try:
            await self.session(session_id)
        except IndusagiError as error:
            self._shown.pop(session_id, None)
            self._notify(Notice("warning", "session", str(error)))

    async def _card(self, model: str) -> ModelCard:
        """A model, or the best there is where it is not there any more: reading a session must work all the same."""
        try:
            return await self.models.look_up(model)
        except IndusagiError:
            return await self.models.look_up(self.models.default())

    async def use_model(self, live: LiveSession, model: str) -> None:
        """Use another model in a session, from its next run on, and after a restart too.

        Raises:
            ModelError: there is no such model.
            PersistenceFault: the disk refused to keep the choice.
        """
        card = await self.models.look_up(model)
        if model != live.chosen_model:
            live.chosen_model = model
            await live.session.update(model=model)
        live.agent.configure(await self._agent_config(card))

    async def _close_idle(self) -> None:
        """Close the sessions that were not used for longest, so that a long day does not fill the memory."""
        idle = sorted((live.used_at, key) for key, live in self._live.items() if not live.agent.running)
        for _, key in idle[: max(0, len(self._live) - MAX_IDLE_SESSIONS + 1)]:
            await self._live.pop(key).close()

    # --- what an agent is given ---------------------------------------------------------------------------------------

    async def _agent_config(self, card: ModelCard) -> AgentConfig:
        settings = self.settings
        return AgentConfig(
            model=card.id,
            system=build_system_prompt(
                workspace=str(self.root), platform=platform.system(), card=card, rules=await self._rules()
            ),
            tools=self._tools() if card.tools else (),
            max_output_tokens=None if card.tools else SMALL_OUTPUT_TOKENS,
            thinking=settings.thinking,
            compaction=settings.compaction.policy,
            max_turns=settings.max_turns,
            tool_seconds=settings.tool_seconds,
        )

    def _tools(self) -> tuple[Tool, ...]:
        """What the model may ask for; in the mode `readOnly`, and in a folder that is not trusted, only what reads."""
        return self.toolbox.tools(act=self.gate.lets_act)

    def _own_tools(self) -> tuple[Tool, ...]:
        async def session(session_id: str) -> Session:
            return (await self.session(session_id)).session

        tools = host_tools(self.memory, self.search_index, session, self.memory_changed)
        asking: tuple[Tool, ...] = (AskUser(self.uri, self.gate.put, self._new_id),)
        if self._outlet.shows_diagnostics:
            asking += (Diagnostics(self._guard, self.uri, self._outlet.diagnostics),)
        return (*tools, *asking)

    async def prepare_run(self, live: LiveSession) -> None:
        """Before a run: start the user's MCP servers, and take the tools and the standing instructions of by now."""
        if not live.warm:
            live.warm = True
            await asyncio.to_thread(live.session.model_view)
        before = self._tools()
        await self.toolbox.prepare(act=self.gate.lets_act)
        # An `AGENTS.md` that was changed meanwhile holds from this run on, as if the session had just been opened.
        config = await self._agent_config(await self._card(live.agent.config.model))
        if self._tools() != before or config.system != live.agent.config.system:
            live.agent.configure(config)

    async def settle_files(self) -> None:
        """Find what commands have changed that ended unseen: in the background, or with their server."""
        await self.files.settle(still_running=self.toolbox.commands_run())

    async def _rules(self) -> list[RulesFile]:
        return await asyncio.to_thread(read_rules, self.places.config, self._guard, trusted=self.trusted)

    async def _excerpts(self, prompt: str) -> str:
        found = await asyncio.to_thread(excerpts, self._guard, prompt, EXCERPT_CHARS)
        return "\n\n".join(f"Text from {excerpt.path}:\n{excerpt.text}" for excerpt in found)

    def _editor(self) -> Editor:
        """What tools may ask of the editor."""

        def open_paths() -> list[str]:
            base = f"{path_to_uri(str(self.root))}/"
            return [unquote(uri[len(base) :]) for uri in self._outlet.open_documents() if uri.startswith(base)]

        async def edit(path: str, text: str) -> bool:
            return await self._outlet.apply_edit((self.root / path).as_uri(), text, f"Indusagi: edit {path}")

        return Editor(self._document, open_paths, edit)

    def _document(self, path: str) -> str | None:
        return self._outlet.document((self.root / path).as_uri())

    async def _spill(self, output: str) -> str:
        return await asyncio.to_thread(blobs.spill, output, self.blobs_dir, redacted=self.settings.redact_secrets)

    def read_file(self, uri: str) -> str:
        """A file that goes with a prompt: the editor's unsaved text, else what is on disk, past the path guard. Blocks.

        Raises:
            ToolFailed: the file lies outside of the folder, is no text, or cannot be read.
        """
        unsaved = self._outlet.document(uri)
        if unsaved is not None:
            return unsaved
        path = self._guard.relative(str(uri_path(uri)))
        return self._guard.read_bytes(path, MAX_ATTACHED_BYTES).decode("utf-8", "replace")

    # --- the rest -----------------------------------------------------------------------------------------------------

    @property
    def memory(self) -> MemoryService:
        """What is remembered in this workspace."""
        if self._memory is None:
            from indusagi_lsp.workspace.memories import open_memory

            self._memory = open_memory(
                self.settings.memory,
                inside=self.root / INDUSAGI,
                data=self.places.data,
                signer=self.signer,
                clock=self.clock,
                new_id=self._new_id,
                report=self._notify,
                server=self._memory_server,
            )
        return self._memory

    @property
    def workflows(self) -> HostWorkflows:
        """The workflows of the user and of this workspace."""
        if self._workflows is None:
            from indusagi_lsp.workflows import ExecutorParts
            from indusagi_lsp.workspace.workflows import HostWorkflows

            parts = ExecutorParts(
                open_agent=self._agent_for_step,
                tools=lambda: {tool.spec.name: tool for tool in self._tools()},
                approver=self.gate.decide,
                ask=self.gate.ask,
                editor=self._editor(),
                spill=self._spill,
            )
            self._workflows = HostWorkflows(self, parts, self._outlet, self._new_id)
        return self._workflows

    async def _agent_for_step(self, session_id: str | None, model: str | None, title: str) -> Agent:
        """The agent for a prompt of a workflow: in a session of its own, or in the one that it names."""
        if session_id is None:
            live = await self.new_session(title=title, model=model)
        else:
            live = await self.session(session_id)
            if model is not None:
                await self.use_model(live, model)
        await self.prepare_run(live)
        return live.agent

    @property
    def notices(self) -> list[Notice]:
        """What the user should know: of the settings that hold now, and of what has happened since the start."""
        return [*self._complaints, *self._reports]

    def _notify(self, notice: Notice) -> None:
        """Keep what the user should know, and tell every session that is in use."""
        self._reports.append(notice)
        for live in self._live.values():
            live.agent.ledger.publish(notice)

    def memory_changed(self) -> None:
        """Tell the client that what is remembered has changed."""
        self._outlet.memory_changed(self.uri)

    def changed(self) -> None:
        """Tell the client that the list of sessions, or what runs, has changed."""
        self._outlet.sessions_changed(self.uri)
        running = self.running
        text = f"{len(running)} run{'s' if len(running) != 1 else ''}" if running else "Ready"
        self._outlet.status(m.StatusParams(busy=bool(running), message=text))

    async def configure(self, *layers: Mapping[str, Any]) -> list[Notice]:
        """Take other settings; sessions in use take them from their next run on.

        Returns:
            A notice for each value that was not taken.
        """
        self.settings, self._complaints = merge_settings(*layers)
        await self._configure_agents()
        return self._complaints

    async def _configure_agents(self) -> None:
        # A session may be opened or closed while models and rules are read.
        for live in tuple(self._live.values()):
            card = await self._card(live.chosen_model or self.model_id)
            live.agent.configure(await self._agent_config(card))

    async def trust(self, trusted: bool) -> None:
        """Take other trust, at once; the sessions stay open, and their events go on being counted.

        Where it is withdrawn, what goes on is ended: runs, commands, workflows, MCP servers. Whatever comes after asks
        the gate, which does not let an agent act any more. Where it is granted, an agent may act from its next run on.
        """
        if trusted == self.trusted:
            return
        self.gate.trusted = trusted
        await self._configure_agents()
        notice = Notice(
            "info", "trust", f"This folder is {'trusted from now on' if trusted else 'not trusted any more'}."
        )
        for live in tuple(self._live.values()):
            if not trusted:
                await live.agent.abort()
            live.agent.ledger.publish(notice)
        if not trusted:
            workflows, self._workflows = self._workflows, None
            if workflows is not None:
                await workflows.close()
            await self.toolbox.close()
        self.changed()

    async def close(self) -> None:
        """End every run, every command, and let go of every file.

        Raises:
            PersistenceFault: the disk refused what was still to be written; the rest has ended all the same.
        """
        async with AsyncExitStack() as last:
            # They end from the bottom up, each of them whatever became of the others.
            if self._memory is not None:
                last.push_async_callback(self._memory.close)
            last.push_async_callback(self.store.close)
            last.callback(self.files.close)
            last.push_async_callback(self.toolbox.close)
            last.push_async_callback(self._close_sessions)
            if self._workflows is not None:
                last.push_async_callback(self._workflows.close)
            if self._watcher is not None:
                last.push_async_callback(self._watcher.close)
            for task in self._catching_up:
                task.cancel()

    async def _close_sessions(self) -> None:
        live, self._live = list(self._live.values()), {}
        ended = await asyncio.gather(*(session.close() for session in live), return_exceptions=True)
        for failure in ended:
            if failure is not None:
                raise failure

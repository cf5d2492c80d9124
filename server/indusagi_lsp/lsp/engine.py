"""The hosts as the server has them: started late, configured first, and spoken to in the order of arrival.

Nothing of the engine is imported until the client is initialized. Work that comes earlier waits.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from indusagi_lsp.contract.errors import IndusagiError
from indusagi_lsp.lsp.folders import Folder
from indusagi_lsp.lsp.hosts import Hosts, HostsFactory
from indusagi_lsp.protocol.messages import TrustParams
from indusagi_lsp.protocol.operations import TRUST
from indusagi_lsp.workspace.outlet import Outlet

logger = logging.getLogger(__name__)

_CONFIGURATION_SECONDS = 1.0


class EngineUnavailableError(IndusagiError):
    """The hosts could not be started; the server can still say so."""

    kind = "internal"


class Engine:
    """Starts the hosts, and keeps their settings and folders as the client wants them.

    Args:
        factory: makes the hosts.
        outlet: what the hosts may say.
        complain: shows one sentence to the user.
    """

    def __init__(self, factory: HostsFactory, outlet: Outlet, complain: Callable[[str], None]) -> None:
        self._factory = factory
        self._outlet = outlet
        self._complain = complain
        self._options: dict[str, Any] = {}
        self._section: dict[str, Any] = {}
        self._folders: dict[str, Folder] = {}
        self._open: dict[str, Folder] = {}
        self._trusted = False
        self._trust_of: dict[str, bool] = {}
        self._hosts: Hosts | None = None
        self._failure: EngineUnavailableError | None = None
        self._turn = asyncio.Lock()
        self._started: asyncio.Task[None] | None = None
        self._configured: Awaitable[Any] | None = None
        self._settings_taken = False
        self._ended = False

    def prepare(self, options: Mapping[str, Any], folders: Sequence[Folder], *, trusted: bool) -> None:
        """Take what `initialize` said; nothing is started yet."""
        self._options = dict(options)
        self._trusted = trusted
        self._folders = {folder.uri: folder for folder in folders}

    def start(self, configured: Awaitable[Any] | None = None) -> None:
        """Start the hosts, once.

        Args:
            configured: the client's settings on their way; they are waited for, but not long, since some
                clients never answer.
        """
        if self._started is None and not self._ended:
            self._configured = configured
            self._started = asyncio.create_task(self._start())

    async def ready(self) -> Hosts:
        """The hosts, once everything that the client said before is done.

        Raises:
            EngineUnavailableError: they could not be started, or the server is ending.
        """
        if self._hosts is not None and not self._turn.locked():
            return self._hosts
        self.start()
        async with self._turn:
            pass
        if self._started is not None:
            await asyncio.shield(self._started)
        if self._failure is not None:
            raise self._failure
        if self._hosts is None:
            raise EngineUnavailableError("The server is ending.", hint="Start it again.")
        return self._hosts

    async def trust(self, params: TrustParams) -> Any:
        """Do the operation `trust`: it holds for the folders that are open, and, asked for all, for those that come."""
        if params.workspace is None:
            self._trusted = params.trusted
            self._trust_of.clear()
        else:
            self._trust_of[params.workspace] = params.trusted
        return await (await self.ready()).call(TRUST, params)

    def folders(self) -> list[str]:
        """The URIs of the folders that are open."""
        return list(self._open)

    def folder_of(self, uri: str) -> str | None:
        """The folder, by its URI, in which a document lies; None when it lies in none that is open."""
        inside = [folder for folder in self._folders if uri.startswith(folder.rstrip("/") + "/")]
        return max(inside, key=len, default=None)

    async def change_folders(self, added: Sequence[Folder], removed: Sequence[Folder]) -> None:
        """Open and close folders. One that is removed and added at once stays open."""
        for folder in removed:
            self._folders.pop(folder.uri, None)
        for folder in added:
            self._folders[folder.uri] = folder
        if self._started is None:
            return
        await asyncio.shield(self._started)
        async with self._turn:
            await self._match_folders()

    async def configure(self, section: Any) -> None:
        """Take the client's settings, whole: the section `indusagi`.

        Args:
            section: decoded JSON; null means none, anything but an object is refused with a message.
        """
        if section is not None and not isinstance(section, dict):
            self._complain("The settings of Indusagi must be an object; the defaults are used.")
            section = None
        self._section = section or {}
        if self._started is None or not self._settings_taken:
            # The start takes them; it may be waiting for just this answer.
            return
        await asyncio.shield(self._started)
        async with self._turn:
            await self._apply_settings()

    async def shutdown(self, limit: float) -> None:
        """End the hosts.

        Args:
            limit: seconds; what hangs longer is left to the end of the process.
        """
        self._ended = True
        if self._started is not None and not self._started.done():
            self._started.cancel()
        hosts, self._hosts = self._hosts, None
        if hosts is None:
            return
        try:
            async with asyncio.timeout(limit):
                await hosts.shutdown()
        except TimeoutError:
            logger.warning("the hosts did not end within %s s", limit)
        except Exception:
            logger.exception("ending the hosts failed")

    async def _start(self) -> None:
        async with self._turn:
            try:
                made = self._factory(self._outlet)
                hosts = await made if inspect.isawaitable(made) else made
            except Exception:
                logger.exception("the engine could not be started")
                self._failure = EngineUnavailableError(
                    "The engine of the server could not be started.",
                    hint="The server's log says why; a broken installation is the usual cause.",
                )
                self._complain(f"{self._failure.message} {self._failure.hint}")
                return
            if self._configured is not None:
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(
                        asyncio.shield(asyncio.ensure_future(self._configured)), _CONFIGURATION_SECONDS
                    )
            self._hosts = hosts
            await self._apply_settings()
            await self._match_folders()

    async def _apply_settings(self) -> None:
        if self._hosts is None:
            return
        self._settings_taken = True
        settings = {**self._options, **self._section}
        try:
            complaints = await self._hosts.configure(settings)
        except IndusagiError as error:
            complaints = [f"{error.message} {error.hint}".strip()]
        except Exception:
            logger.exception("settings could not be applied")
            complaints = ["The settings of Indusagi could not be applied; the defaults are used."]
        for complaint in complaints or ():
            self._complain(getattr(complaint, "text", str(complaint)))

    async def _match_folders(self) -> None:
        hosts = self._hosts
        if hosts is None:
            return
        for uri in [uri for uri in self._open if uri not in self._folders]:
            del self._open[uri]
            await self._quietly(hosts.close_folder(uri), "a folder could not be closed")
        for uri, folder in list(self._folders.items()):
            if uri not in self._open:
                self._open[uri] = folder
                trusted = self._trust_of.get(uri, self._trusted)
                await self._quietly(hosts.open_folder(uri, folder.name, trusted), "a folder could not be opened")

    async def _quietly(self, work: Awaitable[Any], failed: str) -> None:
        """One folder's trouble must not be that of the others."""
        try:
            await work
        except IndusagiError as error:
            self._complain(f"{error.message} {error.hint}".strip())
        except Exception:
            logger.exception(failed)
            self._complain(f"Indusagi: {failed}.")

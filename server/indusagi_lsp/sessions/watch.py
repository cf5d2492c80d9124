"""The watcher: what other processes do to the sessions, told within a few hundredths of a second.

It watches the sessions folder and the folders above it, none of them recursively, so that a folder that is deleted and
made again is seen, and at most three watches are taken. Where the system gives no watches (a limit, a network mount),
it looks at regular intervals instead. Own writes are known by their place in the file, so they cause nothing.
"""

from __future__ import annotations

import asyncio
import importlib
import os
import sys
from collections.abc import AsyncGenerator, Callable, Iterable
from contextlib import aclosing, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias

from indusagi_lsp.contract.errors import IndusagiError
from indusagi_lsp.sessions.ids import session_of

if TYPE_CHECKING:
    from indusagi_lsp.sessions.store import SessionStore

Mode: TypeAlias = Literal["native", "polling"]

_STEP_MS = 10
_DEBOUNCE_MS = 50
_POLL_SECONDS = 0.5
_CHECK_MS = 5_000
_SETTLE_SECONDS = (0.05, 0.2, 1.0)

_Stamp: TypeAlias = tuple[int, int, int]


class SessionWatcher:
    """Watches the sessions of one store, and refreshes those that are open in it.

    Args of the constructor: `on_sessions` is called on the event loop when another process made, changed or removed a
    session, with the ids; `on_notice` is told once when changes can only be seen by looking regularly. An open session
    tells what changed in it through its own `listen`.
    """

    def __init__(
        self,
        store: SessionStore,
        *,
        on_sessions: Callable[[frozenset[str]], None] = lambda _: None,
        on_notice: Callable[[str], None] = lambda _: None,
        mode: Mode = "native",
        poll_seconds: float = _POLL_SECONDS,
    ) -> None:
        self._store = store
        self._on_sessions = on_sessions
        self._on_notice = on_notice
        self._mode: Mode = mode
        self._poll_seconds = poll_seconds
        self._seen: dict[str, _Stamp] = {}
        self._way = (store.root.parent.parent, store.root.parent, store.root)
        self._task: asyncio.Task[None] | None = None

    @property
    def mode(self) -> Mode:
        """How changes are seen at present."""
        return self._mode

    async def start(self) -> None:
        """Begin to watch."""
        self._seen = await asyncio.to_thread(self._look)
        self._task = asyncio.create_task(self._run())

    async def close(self) -> None:
        """Watch no more."""
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task
            self._task = None

    # --- seeing -------------------------------------------------------------------------------------

    async def _run(self) -> None:
        while self._mode == "native":
            try:
                async with aclosing(self._native()) as changes:
                    async for names in changes:
                        await self._tell(names if names is not None else await self._differences())
            except OSError as error:
                self._mode = "polling"
                self._on_notice(
                    f"The system watches no more folders ({error.strerror or error}), so changes by other programs are "
                    f"looked for every {self._poll_seconds:g} seconds."
                )
        while True:
            await asyncio.sleep(self._poll_seconds)
            await self._tell(await self._differences())

    async def _native(self) -> AsyncGenerator[set[str] | None, None]:
        """The ids of changed sessions, as the system tells of them; None asks for a look at all.

        Ends when a folder on the way to the sessions comes or goes, so that the watches can be set anew.

        Raises:
            OSError: the system gives no watches.
        """
        folders = await asyncio.to_thread(self._folders)
        if not folders:
            await asyncio.sleep(self._poll_seconds)
            return
        own = {str(folder) for folder in self._way}
        async with aclosing(self._linux(folders) if sys.platform == "linux" else self._anywhere(folders)) as changes:
            async for paths in changes:
                names = {name for path in paths if (name := self._session(path)) is not None}
                if names:
                    yield names
                if not paths or not own.isdisjoint(paths):
                    yield None
                    if folders != await asyncio.to_thread(self._folders) or not own.isdisjoint(paths):
                        return

    async def _linux(self, folders: list[str]) -> AsyncGenerator[set[str], None]:
        """The paths that change, by the system's own watches; none: something may have changed."""
        library = await asyncio.to_thread(importlib.import_module, "indusagi_lsp.sessions.inotify")
        try:
            events = await asyncio.to_thread(library.FolderEvents, folders, str(self._way[-1]))
        except FileNotFoundError:
            return
        async with aclosing(events.changes(_STEP_MS / 1000, _CHECK_MS / 1000)) as changes:
            # From here on nothing is missed; what came before is found by looking.
            yield set()
            async for paths in changes:
                yield paths

    async def _anywhere(self, folders: list[str]) -> AsyncGenerator[set[str], None]:
        """The same, by a library that knows every system."""
        library = await asyncio.to_thread(importlib.import_module, "watchfiles")
        again = asyncio.Event()
        settling = asyncio.create_task(self._settle(folders, again))
        try:
            async for changes in library.awatch(
                *folders,
                watch_filter=None,
                step=_STEP_MS,
                debounce=_DEBOUNCE_MS,
                rust_timeout=_CHECK_MS,
                yield_on_timeout=True,
                recursive=False,
                stop_event=again,
            ):
                yield {path for _, path in changes}
        finally:
            settling.cancel()

    async def _settle(self, folders: list[str], again: asyncio.Event) -> None:
        """The watches are armed some time after they were asked for: find what happened before that."""
        for pause in _SETTLE_SECONDS:
            await asyncio.sleep(pause)
            await self._tell(await self._differences())
            if folders != await asyncio.to_thread(self._folders):
                again.set()
                return

    def _folders(self) -> list[str]:
        return [str(folder) for folder in self._way if folder.is_dir()]

    def _session(self, path: str) -> str | None:
        folder, name = os.path.split(path)
        return session_of(name) if Path(folder) == self._store.root else None

    # --- telling ------------------------------------------------------------------------------------

    async def _differences(self) -> set[str]:
        """The sessions that look different from the last time, and those that are open, which know themselves."""
        now = await asyncio.to_thread(self._look)
        changed = {name for name in now.keys() | self._seen.keys() if now.get(name) != self._seen.get(name)}
        self._seen = now
        return changed | self._store.open_ids()

    def _look(self) -> dict[str, _Stamp]:
        found: dict[str, _Stamp] = {}
        try:
            for name, entry in self._store.folder.entries():
                with suppress(OSError):
                    status = entry.stat(follow_symlinks=False)
                    found[name] = (status.st_size, status.st_mtime_ns, status.st_ino)
        except IndusagiError:
            return {}
        return found

    async def _tell(self, names: Iterable[str]) -> None:
        """Refresh the open sessions among `names`, and tell of those that others have changed."""
        foreign: set[str] = set()
        for name in names:
            sessions = self._store.open_sessions(name)
            if not sessions:
                foreign.add(name)
            for session in sessions:
                with suppress(IndusagiError):
                    if await session.refresh():
                        foreign.add(name)
        if foreign:
            self._on_sessions(frozenset(foreign))

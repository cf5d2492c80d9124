"""The watcher: what other processes do to the sessions, told within a few hundredths of a second.

It watches the sessions folder and the folders above it, none of them recursively, so that a folder that is deleted and made
again is seen, and at most three watches are taken. Where the system gives no watches (a limit, a network mount), it looks
at regular intervals instead. Own writes are known by their place in the file, so they cause nothing.
"""

from __future__ import annotations

import asyncio
import importlib
import os
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import suppress
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
_SETTLE_SECONDS = 0.3

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
        self._stop = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []

    @property
    def mode(self) -> Mode:
        """How changes are seen at present."""
        return self._mode

    async def start(self) -> None:
        """Begin to watch."""
        self._seen = await asyncio.to_thread(self._look)
        self._tasks = [asyncio.create_task(self._run()), asyncio.create_task(self._look_again())]

    async def close(self) -> None:
        """Watch no more."""
        self._stop.set()
        for task in self._tasks:
            task.cancel()
        for task in self._tasks:
            with suppress(asyncio.CancelledError):
                await task
        self._tasks = []

    # --- seeing -------------------------------------------------------------------------------------

    async def _run(self) -> None:
        while self._mode == "native":
            try:
                async for names in self._native():
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

    async def _look_again(self) -> None:
        """The watches are armed some time after the start; what happened before that is found here."""
        await asyncio.sleep(_SETTLE_SECONDS)
        await self._tell(await self._differences())

    async def _native(self) -> AsyncIterator[set[str] | None]:
        """The ids of changed sessions, as the system tells of them; None asks for a look at all. Ends when a folder of
        the way to the sessions comes or goes, so that the watches can be set anew.

        Raises:
            OSError: the system gives no watches.
        """
        library = await asyncio.to_thread(importlib.import_module, "watchfiles")
        root = self._store.root
        way = [root.parent.parent, root.parent, root]
        folders = await asyncio.to_thread(lambda: [str(folder) for folder in way if folder.is_dir()])
        if not folders:
            await asyncio.sleep(self._poll_seconds)
            return
        own = {str(folder) for folder in way}
        yield None

        async for changes in library.awatch(
            *folders,
            watch_filter=None,
            step=_STEP_MS,
            debounce=_DEBOUNCE_MS,
            rust_timeout=_CHECK_MS,
            yield_on_timeout=True,
            recursive=False,
            stop_event=self._stop,
        ):
            if not changes:
                yield None  # nothing for a while: see that no change was missed
                continue
            paths = {path for _, path in changes}
            names = {name for path in paths if (name := self._session(path)) is not None}
            if names:
                yield names
            if not own.isdisjoint(paths):
                yield None
                return

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

"""Summaries: what a list of sessions shows, kept in a cache that may be deleted at any time.

An entry counts only for a file of the same size, inode and times. A file that was changed within the clock's grain of
the moment in which it was read is read again the next time, so that a change in the same tick is never missed.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import msgspec

from indusagi_lsp.contract.turns import ASSISTANT, USER, TextBlock
from indusagi_lsp.sessions.derived import DerivedFiles
from indusagi_lsp.sessions.folder import SessionFolder
from indusagi_lsp.sessions.graph import SessionGraph
from indusagi_lsp.sessions.scan import Migrator
from indusagi_lsp.sessions.state import FileSource, SessionState, load, totals

if TYPE_CHECKING:
    from indusagi_lsp.sessions.outline import Outlines

_FILE = "summaries.json"
_VERSION = 2
"""Raised whenever a summary is made in another way: what an older program kept is then made anew."""
_GRAIN_NS = 50_000_000
_TITLE_CHARS = 80
_TITLE_TURNS = 8


class SessionSummary(msgspec.Struct, frozen=True):
    """A session in a list.

    Times are in milliseconds since the epoch; `turns` counts the live path; `tokens` and `cost` (US dollars, None where
    unknown) are those of all its model calls; `interrupted` says that the last run never came to its end.
    """

    id: str
    title: str
    created_at: int
    updated_at: int
    turns: int
    tokens: int
    cost: float | None
    head: str | None
    trusted: bool
    interrupted: bool
    cwd: str | None = None
    parent_session: str | None = None
    model: str | None = None
    archived: bool = False


class _Entry(msgspec.Struct, frozen=True, array_like=True):
    size: int
    mtime: int
    ctime: int
    inode: int
    seen: int
    summary: SessionSummary


class _Cache(msgspec.Struct, array_like=True):
    version: int
    entries: dict[str, _Entry]


def summarize_state(state: SessionState, *, written_at: int = 0) -> SessionSummary:
    """The summary of a session that was read; `written_at` (ms) dates one in which nothing was said."""
    graph, meta = state.graph, state.meta
    path = graph.positions_to(graph.leaf)
    first = [graph.ids[at] for at in path[:_TITLE_TURNS]]
    usage = totals(list(state.usages.values()))
    last = graph.node(graph.ids[path[-1]]) if path else None
    created = meta.created_at or (graph.node(first[0]).created_at if first else written_at)
    return SessionSummary(
        meta.id,
        meta.title or _first_words(graph, first),
        created,
        max(created, last.created_at if last is not None else written_at),
        len(path),
        usage.input + usage.output,
        usage.cost,
        graph.leaf,
        state.trusts(graph.leaf),
        last is not None and (last.turn.role != ASSISTANT or bool(last.turn.tool_calls)),
        meta.cwd,
        meta.parent_session,
        meta.model,
        meta.archived,
    )


def _first_words(graph: SessionGraph, ids: Sequence[str]) -> str:
    """A title from what the user said first: cut to a length that fits a list."""
    for node in ids:
        turn = graph.node(node).turn
        if turn.role == USER:
            # What the editor sent along stands before the words, and is none of them.
            said = [b.text for b in turn.blocks if isinstance(b, TextBlock) and "context" not in b.extra]
            line = " ".join("\n".join(said)[: _TITLE_CHARS * 8].split())
            if line:
                return line if len(line) <= _TITLE_CHARS else line[: _TITLE_CHARS - 1].rstrip() + "…"
    return ""


class SummaryCache:
    """The summaries of one folder. Used by one thread at a time."""

    def __init__(
        self,
        folder: SessionFolder,
        fresh: Callable[[str], SessionState],
        migrators: Sequence[Migrator],
        derived: DerivedFiles,
        known: Callable[[str, os.stat_result], SessionSummary | None],
        outlines: Outlines,
    ) -> None:
        """`known` gives the summary of a session without reading it, where its file still has the given status."""
        self._folder = folder
        self._fresh = fresh
        self._migrators = migrators
        self._derived = derived
        self._known = known
        self._outlines = outlines
        self._entries: dict[str, _Entry] | None = None

    def read(self) -> list[SessionSummary]:
        """Every session's summary, by id. A session that cannot be read is left out.

        Raises:
            PersistenceFault: the folder cannot be read.
        """
        known = self._entries if self._entries is not None else self._load()
        entries: dict[str, _Entry] = {}
        changed = False
        for name, place in self._folder.entries():
            try:
                status = place.stat(follow_symlinks=False)
                entry = known.get(name)
                if entry is None or not _is_current(entry, status):
                    entry = self._summarize(name, status)
                    changed = True
            except OSError:
                continue
            entries[name] = entry
        changed = changed or len(entries) != len(known)
        self._entries = entries
        if changed:
            self._save(entries)
        if known.keys() - entries.keys():
            self._outlines.drop_all_but(tuple(entries))
        return [entries[name].summary for name in sorted(entries)]

    def _summarize(self, name: str, status: os.stat_result) -> _Entry:
        seen = time.time_ns()
        summary = self._known(name, status)
        if summary is None:
            state = self._fresh(name)
            loaded = load(state, self._folder.path(name), self._migrators)
            summary = summarize_state(state, written_at=status.st_mtime_ns // 1_000_000)
            if loaded is not None:
                self._outlines.keep(state, loaded)
            if isinstance(state.graph.source, FileSource):
                state.graph.source.close()
        return _Entry(status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino, seen, summary)

    def _load(self) -> dict[str, _Entry]:
        """What an earlier process kept. A cache that this user did not write is not believed."""
        body = None if self._migrators else self._derived.read(_FILE)
        if body is None:
            return {}
        try:
            cache = msgspec.json.decode(body, type=_Cache)
        except (msgspec.DecodeError, msgspec.ValidationError, ValueError):
            return {}
        return cache.entries if cache.version == _VERSION else {}

    def _save(self, entries: dict[str, _Entry]) -> None:
        """Keep the cache for the next process."""
        self._derived.keep(_FILE, msgspec.json.encode(_Cache(_VERSION, entries)))


def _is_current(entry: _Entry, status: os.stat_result) -> bool:
    return (
        entry.mtime == status.st_mtime_ns
        and entry.size == status.st_size
        and entry.inode == status.st_ino
        and entry.ctime == status.st_ctime_ns
        and entry.ctime + _GRAIN_NS < entry.seen
    )

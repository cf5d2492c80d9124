"""Memory as the hosts use it: asynchronous, over the workspace's store and the user's own.

All work on files, databases and vectors happens in worker threads; the event loop never waits for it.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import msgspec

from indusagi_lsp.contract.clock import NewId, new_uuid
from indusagi_lsp.contract.errors import InvalidInput
from indusagi_lsp.memory.entry import (
    ExpirationPolicy,
    MemoryEntry,
    MemoryScope,
    MemorySource,
    Now,
    newest_first,
    utc_now,
)
from indusagi_lsp.memory.markdown import from_markdown, to_markdown
from indusagi_lsp.memory.query import MemoryQuery, ScoredEntry
from indusagi_lsp.memory.scoring import by_score
from indusagi_lsp.memory.store import BaseStore, Entries, EntryNotFound, Hits
from indusagi_lsp.memory.text import index_terms, query_words

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

SIMILAR_SCORE = 0.4
"""From this score on, an entry is shown to whoever remembers something like it."""

DEFAULT_LIMIT = 10

Place: TypeAlias = Literal["own", "near", "split"]
PLACES: tuple[Place, ...] = ("own", "near", "split")


class Remembered(msgspec.Struct, frozen=True):
    """What came of `remember`.

    Attributes:
        entry: the entry that holds the text now.
        created: False where an equal text was there already.
        similar_existing: entries that may say the same or the contrary, with their score; the caller decides.
    """

    entry: MemoryEntry
    created: bool
    similar_existing: tuple[ScoredEntry, ...] = ()


class Imported(msgspec.Struct, frozen=True):
    """What came of an import; the numbers and the problems together are all that was brought.

    Attributes:
        added: how many were not there before.
        changed: how many took the place of an earlier form.
        present: how many were there already, the same.
        kept: how many differ from what is here, and were left out: `adopt` takes them.
        problems: what was refused, and why, in words.
    """

    added: int = 0
    changed: int = 0
    present: int = 0
    kept: int = 0
    problems: tuple[str, ...] = ()


class Explained(msgspec.Struct, frozen=True):
    """Why an entry is, or is not, a hit for a text.

    Attributes:
        entry: the entry.
        score: its score; 0 where it is no hit.
        rank: its place among the hits, from 1; None where it is no hit.
        parts: the parts of the score by name: `lexical`, `semantic`.
        words: each word of the question as it is looked up, with where the entry has it: `own` text, `near` (the
            turns around it), `split` (pieces of compound names).
    """

    entry: MemoryEntry
    score: float
    rank: int | None
    parts: Mapping[str, float]
    words: Mapping[str, tuple[Place, ...]]


class MemoryService:
    """Remember, recall, list, get, update, forget.

    Args:
        workspace: the store of this workspace, for entries of scope AGENT and SHARED.
        everywhere: the user's own store for entries of scope GLOBAL; None keeps them in `workspace`.
        now: tells the time.
        new_id: makes identifiers.
    """

    def __init__(
        self,
        workspace: BaseStore,
        everywhere: BaseStore | None = None,
        *,
        now: Now = utc_now,
        new_id: NewId = new_uuid,
    ) -> None:
        self._workspace = workspace
        self._everywhere = everywhere
        self._now = now
        self._new_id = new_id

    async def remember(
        self,
        text: str,
        *,
        tags: Sequence[str] = (),
        metadata: Mapping[str, Any] | None = None,
        scope: MemoryScope = MemoryScope.SHARED,
        source: MemorySource | None = None,
        ttl_seconds: float | None = None,
        context: str = "",
        tainted: bool = False,
        supersedes: str | None = None,
    ) -> Remembered:
        """Remember a text.

        Args:
            text: what to remember; an equal text in the same scope is not stored again.
            tags: for filtering.
            metadata: free JSON data.
            scope: who sees it.
            source: the turn that said it.
            ttl_seconds: how long, in seconds; None for ever.
            context: the turns around it, which help to find it.
            tainted: whether the text came from where an attacker may write.
            supersedes: the identifier of an entry that this one replaces, also where an equal text is there already;
                the old one is kept, and linked.

        Raises:
            InvalidInput: the text is empty, too long, or holds a secret; or there is nothing to supersede.
        """
        if not text.strip():
            raise InvalidInput("There is nothing to remember: the text is empty.")
        moment = self._now()
        entry = MemoryEntry(
            identifier=self._new_id(),
            content=text,
            context=context,
            tags=tuple(tags),
            metadata=metadata or {},
            scope=scope,
            created_at=moment,
            expiration=None if ttl_seconds is None else ExpirationPolicy(ttl_seconds),
            source=source,
            tainted=tainted,
            supersedes=supersedes,
        )
        return await asyncio.to_thread(self._remember, entry)

    async def recall(
        self,
        text: str,
        *,
        scope: MemoryScope | None = None,
        tags: Sequence[str] = (),
        limit: int | None = None,
        min_relevance: float | None = None,
    ) -> Hits:
        """Find what is remembered about a text; what was superseded is left out.

        Args:
            text: a question or some words.
            scope: sees this scope and wider ones; None for all that this agent may see.
            tags: the entry must have all of them.
            limit: the most hits; None for 10.
            min_relevance: the least score, 0 to 1.

        Returns:
            The best first, each with its score.
        """
        most = DEFAULT_LIMIT if limit is None else limit
        query = self._query(scope, tags, most, min_relevance=min_relevance, superseded=False)
        return await asyncio.to_thread(self._recall, text, query)

    async def recall_for_prompt(self, text: str, *, limit: int = 5, min_relevance: float | None = None) -> Hits:
        """As `recall`, but only entries that this user wrote or adopted: the others never reach a model."""
        query = self._query(None, (), limit, min_relevance=min_relevance, superseded=False, trusted_only=True)
        return await asyncio.to_thread(self._recall, text, query)

    async def list(
        self, *, scope: MemoryScope | None = None, tags: Sequence[str] = (), limit: int | None = None
    ) -> Entries:
        """What is remembered, the newest first."""
        return await asyncio.to_thread(self._list, self._query(scope, tags, limit))

    async def get(self, identifier: str) -> MemoryEntry | None:
        """The visible entry of that identifier, or None."""
        return await asyncio.to_thread(self._get, identifier)

    async def update(
        self, identifier: str, *, expected_updated_at: datetime | None = None, **changes: Any
    ) -> MemoryEntry:
        """Change some fields of an entry; all that is not named stays.

        Raises:
            EntryNotFound: there is none.
            Conflict: it was changed since `expected_updated_at`.
            InvalidInput: the change makes no sense.
        """
        return await asyncio.to_thread(self._update, identifier, expected_updated_at, changes)

    async def adopt(self, identifier: str) -> MemoryEntry:
        """Vouch for an entry that somebody else wrote, so that it may reach a model.

        Raises:
            EntryNotFound: there is none.
        """
        return await asyncio.to_thread(lambda: self._holder(identifier).adopt(identifier))

    async def forget(self, identifier: str) -> bool:
        """Remove an entry for good; whether there was one."""
        return await asyncio.to_thread(lambda: any(store.delete(identifier) for store in self._stores))

    async def history(self, identifier: str) -> Entries:
        """The chain of entries that replaced each other, the oldest first, of which this is one."""
        return await asyncio.to_thread(self._history, identifier)

    async def explain(self, text: str, identifier: str) -> Explained:
        """Tell why `recall(text)` ranks an entry where it does.

        Raises:
            EntryNotFound: there is none.
        """
        return await asyncio.to_thread(self._explain, text, identifier)

    async def export_markdown(self, *, scope: MemoryScope | None = None, tags: Sequence[str] = ()) -> tuple[str, int]:
        """All that is visible as a Markdown document, the newest first, and how many entries that is."""

        def write() -> tuple[str, int]:
            entries = self._list(self._query(scope, tags, None))
            return to_markdown(entries), len(entries)

        return await asyncio.to_thread(write)

    async def import_markdown(self, text: str, *, adopt: bool = False) -> Imported:
        """Bring the entries of a Markdown document in.

        What this user's key vouches for comes as it was. Anything else, be it edited or somebody else's, is marked as
        foreign and kept from models, and takes no entry's place.

        Args:
            text: a document of `export_markdown`, as it was or edited.
            adopt: vouch for all of it: edited texts take the place of the former, and nothing is foreign.

        Raises:
            InvalidInput: the document cannot be read; nothing was brought in.
        """
        return await asyncio.to_thread(lambda: self._import(from_markdown(text), adopt=adopt))

    async def close(self) -> None:
        """Let go of files and connections."""
        for store in self._stores:
            await asyncio.to_thread(store.close)

    # --- in the worker thread -----------------------------------------------------------------------------

    @property
    def _stores(self) -> tuple[BaseStore, ...]:
        return (self._workspace,) if self._everywhere is None else (self._workspace, self._everywhere)

    def _store_of(self, scope: MemoryScope) -> BaseStore:
        return self._stores[-1] if scope is MemoryScope.GLOBAL else self._workspace

    def _holder(self, identifier: str) -> BaseStore:
        for store in self._stores:
            if store.retrieve(identifier) is not None:
                return store
        raise EntryNotFound(identifier)

    @staticmethod
    def _query(scope: MemoryScope | None, tags: Sequence[str], limit: int | None, **more: Any) -> MemoryQuery:
        return MemoryQuery(scope=scope, tags=tuple(tags), max_results=limit, **more)

    def _remember(self, entry: MemoryEntry) -> Remembered:
        old = None
        if entry.supersedes is not None:
            old = self._get(entry.supersedes)
            if old is None:
                raise EntryNotFound(entry.supersedes)
        similar = self._recall(
            entry.content,
            MemoryQuery(scope=entry.scope, max_results=5, min_relevance=SIMILAR_SCORE, superseded=False),
        )
        kept, created = self._store_of(entry.scope).remember(entry)
        if old is not None and kept.identifier not in (old.identifier, old.superseded_by):
            if not created and kept.supersedes is None:
                kept = self._holder(kept.identifier).amend(kept.identifier, supersedes=old.identifier)
            self._holder(old.identifier).amend(old.identifier, superseded_by=kept.identifier)
        others = tuple(hit for hit in similar if hit.entry.identifier not in (kept.identifier, entry.supersedes))
        return Remembered(kept, created, others)

    def _explain(self, text: str, identifier: str) -> Explained:
        entry = self._get(identifier)
        if entry is None:
            raise EntryNotFound(identifier)
        hits = self._recall(text, MemoryQuery())
        rank = next((at for at, hit in enumerate(hits, 1) if hit.entry.identifier == identifier), None)
        terms = index_terms(entry.content, entry.context)
        words = {
            word: tuple(place for place in PLACES if word in getattr(terms, place))
            for word in query_words(index_terms(text))
        }
        if rank is None:
            return Explained(entry, 0.0, None, {}, words)
        return Explained(entry, hits[rank - 1].score, rank, hits[rank - 1].score_details, words)

    def _import(self, entries: Sequence[MemoryEntry], *, adopt: bool) -> Imported:
        counts: Counter[str] = Counter()
        problems = []
        for entry in entries:
            if entry.is_expired(self._now()):
                problems.append(f"{entry.identifier}: it has expired.")
                continue
            try:
                counts[self._store_of(entry.scope).bring(entry, adopt=adopt)] += 1
            except InvalidInput as error:
                problems.append(f"{entry.identifier}: {error.message}")
        return Imported(**counts, problems=tuple(problems))

    def _recall(self, text: str, query: MemoryQuery) -> Hits:
        hits = [hit for store in self._stores for hit in store.recall(text, query)]
        return sorted(hits, key=by_score)[: query.max_results]

    def _list(self, query: MemoryQuery) -> Entries:
        entries = [entry for store in self._stores for entry in store.list(query)]
        return sorted(entries, key=newest_first)[: query.max_results]

    def _get(self, identifier: str) -> MemoryEntry | None:
        found = (store.retrieve(identifier) for store in self._stores)
        return next((entry for entry in found if entry is not None), None)

    def _update(self, identifier: str, expected: datetime | None, changes: Mapping[str, Any]) -> MemoryEntry:
        holder = self._holder(identifier)
        scope = changes.get("scope")
        if isinstance(scope, MemoryScope) and self._store_of(scope) is not holder:
            raise InvalidInput("An entry cannot move between the workspace's memory and the user's own by an update.")
        return holder.amend(identifier, expected_updated_at=expected, **changes)

    def _history(self, identifier: str) -> Entries:
        middle = self._get(identifier)
        if middle is None:
            raise EntryNotFound(identifier)
        chain = [middle]
        seen = {middle.identifier}
        while (older := chain[0].supersedes) and older not in seen and (entry := self._get(older)):
            chain.insert(0, entry)
            seen.add(older)
        while (newer := chain[-1].superseded_by) and newer not in seen and (entry := self._get(newer)):
            chain.append(entry)
            seen.add(newer)
        return chain

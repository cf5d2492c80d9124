"""The store of memories as every back end offers it, and the rules that all of ours share.

`MemoryStore` is the seed's abstract class; whoever brings a store of their own derives from it. `BaseStore` adds what
our back ends have in common: who may see what, lazy expiry, vectors at storage time, proofs of origin, the refusal of
secrets, and ranking. A back end of ours supplies six primitives.
"""

from __future__ import annotations

import abc
import hmac
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import msgspec

from indusagi_lsp.contract.errors import InvalidInput, InvalidState
from indusagi_lsp.contract.jsontext import dumps
from indusagi_lsp.contract.secrets import find_secret
from indusagi_lsp.memory.embedding import entry_vectors, query_vector
from indusagi_lsp.memory.entry import (
    MemoryEntry,
    MemoryScope,
    Now,
    as_utc,
    is_vector,
    signed_bytes,
    utc_now,
)
from indusagi_lsp.memory.query import MemoryQuery, ScoredEntry
from indusagi_lsp.memory.scoring import by_score, fuse
from indusagi_lsp.memory.text import plain_text

if TYPE_CHECKING:
    from contextlib import AbstractContextManager
    from datetime import datetime

    from indusagi_lsp.memory.embedding import EmbeddingProvider

Mac: TypeAlias = Callable[[bytes], str]
"""Makes this user's proof for some bytes, with a key that never lies in a workspace."""

Notify: TypeAlias = Callable[[str, str], None]
"""Takes a notice: a stable code, and a text for people."""

Change: TypeAlias = Callable[[MemoryEntry | None], MemoryEntry | None]
"""Given what is stored, what shall be stored: an entry, or None for nothing. It may raise; then nothing changes."""

Entries: TypeAlias = list[MemoryEntry]
Hits: TypeAlias = list[ScoredEntry]

MAX_CONTENT = 1_000_000
"""The longest content, in characters, that a store takes."""


class Conflict(InvalidState):
    """The entry was changed by somebody else since it was read."""


class EntryNotFound(InvalidInput):
    """No entry of that identifier is visible here."""

    def __init__(self, identifier: str) -> None:
        super().__init__(f"There is no memory {identifier!r}.", hint="List the memories to see which exist.")


class MemoryStore(abc.ABC):
    """The interface of storage back ends: store, retrieve, search, update and delete entries.

    The methods may block; call them from worker threads, several at once if need be.
    """

    @abc.abstractmethod
    def store(self, entry: MemoryEntry) -> MemoryEntry:
        """Put an entry in, over one of the same identifier in its scope; `created_at` of the older one is kept.

        Returns:
            The entry as stored.
        """

    @abc.abstractmethod
    def retrieve(self, identifier: str) -> MemoryEntry | None:
        """The visible entry of that identifier, of the narrowest scope if there are several; None if there is none."""

    @abc.abstractmethod
    def search(self, query: MemoryQuery) -> Hits:
        """The entries that pass every filter of `query`.

        Returns:
            By falling score where the query has a text, else the newest first. The first k are the same for any
            `max_results` of at least k.
        """

    @abc.abstractmethod
    def update(self, entry: MemoryEntry, *, expected_updated_at: datetime | None = None) -> MemoryEntry:
        """Put `entry` in the place of the visible one of the same identifier, keeping `created_at`.

        Args:
            entry: the new form.
            expected_updated_at: what `updated_at` must be for the change to be made.

        Raises:
            EntryNotFound: there is none.
            Conflict: `updated_at` is another.
        """

    @abc.abstractmethod
    def delete(self, identifier: str) -> bool:
        """Remove the entry that `retrieve` shows; whether there was one."""

    def list(self, query: MemoryQuery | None = None) -> Entries:
        """The entries that pass the filters, the newest first."""
        return [hit.entry for hit in self.search(without_texts(query))]

    def count(self, query: MemoryQuery | None = None) -> int:
        """How many entries pass the filters; `max_results` does not matter."""
        return len(self.list(msgspec.structs.replace(without_texts(query), max_results=None)))

    def export(self, query: MemoryQuery | None = None) -> Iterator[MemoryEntry]:
        """All entries that pass the filters, one by one, the newest first."""
        yield from self.list(query)

    def recall(self, text: str, query: MemoryQuery | None = None) -> Hits:
        """What is remembered about a text, by words and, where there is an embedder, by meaning."""
        return self.search(msgspec.structs.replace(without_texts(query), text=text))

    def close(self) -> None:
        """Let go of files and connections; a store without any has nothing to do."""
        return


def without_texts(query: MemoryQuery | None) -> MemoryQuery:
    """The query's filters alone."""
    return msgspec.structs.replace(query or MemoryQuery(), text=None, semantic_text=None, min_relevance=None)


def realm_name(scope: MemoryScope, workspace: str, agent: str) -> str:
    """The name of a group of entries with the same viewers; ASCII, and different for different groups."""
    parts = {MemoryScope.GLOBAL: [], MemoryScope.SHARED: [workspace], MemoryScope.AGENT: [workspace, agent]}[scope]
    return json.dumps([scope.value, *parts], separators=(",", ":"))


class BaseStore(MemoryStore):
    """What our back ends share.

    A store is opened for one workspace and one agent, and shows what that agent may see: its own entries, those
    shared in the workspace, and global ones. This is decided here, by naming the realms that a verb may touch, and
    every primitive is confined to the realms that it is given; so no verb can forget it.

    Args:
        workspace: the identity of the workspace; entries of another one are invisible.
        agent: the owner of entries in scope AGENT.
        now: tells the time.
        embedder: makes vectors of new entries, and makes queries with `semantic_text` possible.
        mac: makes this user's proofs. Without it no entry counts as trusted.
        notify: takes notices (what was skipped and why).
    """

    def __init__(
        self,
        *,
        workspace: str = "",
        agent: str = "",
        now: Now = utc_now,
        embedder: EmbeddingProvider | None = None,
        mac: Mac | None = None,
        notify: Notify | None = None,
    ) -> None:
        self._workspace = workspace
        self._agent = agent
        self._realm_names = {scope: realm_name(scope, workspace, agent) for scope in MemoryScope}
        self._now = now
        self._embedder = embedder
        self._mac = mac
        self._notify: Notify = notify or (lambda _code, _text: None)

    # --- primitives of a back end -------------------------------------------------------------------------

    @abc.abstractmethod
    def _evict(self, realms: Sequence[str], now: datetime) -> None:
        """Remove for good all that has expired at `now` in these realms."""

    @abc.abstractmethod
    def _load(self, realm: str, identifier: str) -> MemoryEntry | None:
        """The stored entry, or None."""

    @abc.abstractmethod
    def _transact(self, realms: Sequence[str], identifier: str, change: Change) -> MemoryEntry | None:
        """Replace an entry under a lock that holds off every other process.

        The first of `realms` that holds the identifier gives the entry that `change` gets, None if none does. What it
        returns is stored in the realm of its scope, and the former is removed if that was another; None removes it.

        Returns:
            What `change` returned.
        """

    @abc.abstractmethod
    def _exclusively(self, realm: str) -> AbstractContextManager[None]:
        """Hold off every other writer of a realm, of this process or another; this thread may go on writing."""

    @abc.abstractmethod
    def _filtered(self, query: MemoryQuery, realms: Sequence[str], limit: int | None) -> Entries:
        """The entries in these realms that pass the filters, in the order of `newest_first`."""

    @abc.abstractmethod
    def _lexical(self, query: MemoryQuery, realms: Sequence[str], limit: int | None) -> Hits:
        """The entries that pass the filters and share words with `query.text`, in the order of `by_score`."""

    @abc.abstractmethod
    def _semantic(self, vector: Sequence[float], query: MemoryQuery, realms: Sequence[str], limit: int | None) -> Hits:
        """The entries that pass the filters and have a vector of this embedder, in the order of `by_score`."""

    @abc.abstractmethod
    def _fused(self, vector: Sequence[float], query: MemoryQuery, realms: Sequence[str], limit: int | None) -> Hits:
        """The entries that pass the filters and are near in words or meaning, in the order of `by_score`.

        The score is that of `fuse`; entries of score 0 are left out.
        """

    # --- verbs --------------------------------------------------------------------------------------------

    def store(self, entry: MemoryEntry) -> MemoryEntry:
        """See `MemoryStore.store`."""
        entry = self._admit(entry)
        realm = self.realm(entry.scope)

        def put(old: MemoryEntry | None) -> MemoryEntry:
            if old is None:
                return self._sealed(entry)
            return self._sealed(entry.changed(created_at=old.created_at, updated_at=self._after(old)))

        return self._present(self._changed((realm,), entry.identifier, put))

    def retrieve(self, identifier: str) -> MemoryEntry | None:
        """See `MemoryStore.retrieve`."""
        realms = self._realms(MemoryScope.AGENT.and_wider)
        self._evict_touched(realms, identifier, self._now())
        found = (self._load(realm, identifier) for realm in realms)
        return next((self._checked(entry) for entry in found if entry is not None), None)

    def search(self, query: MemoryQuery) -> Hits:
        """See `MemoryStore.search`."""
        realms = self._realms(query.scopes)
        self._evict(realms, self._now())
        if query.semantic_text is not None:
            return self._by_meaning(query, realms)
        if query.text is not None:
            return self._relevant(self._lexical(query, realms, query.max_results), query)
        return [ScoredEntry(entry, 1.0) for entry in self._filtered(query, realms, query.max_results)]

    def update(self, entry: MemoryEntry, *, expected_updated_at: datetime | None = None) -> MemoryEntry:
        """See `MemoryStore.update`."""
        return self._replace(entry.identifier, lambda _: entry, expected_updated_at)

    def amend(self, identifier: str, /, *, expected_updated_at: datetime | None = None, **changes: Any) -> MemoryEntry:
        """Change some fields of the visible entry of that identifier; all that is not named stays as it is.

        Args:
            identifier: names the entry.
            expected_updated_at: what `updated_at` must be for the change to be made.
            changes: fields of `MemoryEntry` by name; not `identifier`, the times, or the owner.

        Raises:
            EntryNotFound: there is none.
            Conflict: `updated_at` is another.
            InvalidInput: a field cannot be changed.
        """
        fixed = changes.keys() - _AMENDABLE
        if fixed:
            msg = f"These fields of a memory cannot be changed: {', '.join(sorted(fixed))}."
            raise InvalidInput(msg)
        return self._replace(identifier, lambda old: old.changed(**changes), expected_updated_at)

    def delete(self, identifier: str) -> bool:
        """See `MemoryStore.delete`."""
        realms = self._realms(MemoryScope.AGENT.and_wider)
        found: list[MemoryEntry] = []

        def remove(old: MemoryEntry | None) -> None:
            if old is not None:
                found.append(old)

        self._changed(realms, identifier, remove)
        return bool(found)

    def remember(self, entry: MemoryEntry) -> tuple[MemoryEntry, bool]:
        """Store an entry unless an equal text is in its scope already; both in one step.

        Returns:
            The entry that holds the text now, and whether it is new.
        """
        twin = self._twin(entry)
        if twin is not None:
            return twin, False

        # The vector is made before the lock is taken, and the question asked again under it.
        entry = self._admit(entry)
        realm = self.realm(entry.scope)
        with self._exclusively(realm):
            twin = self._twin(entry)
            if twin is not None:
                return twin, False
            if self._load(realm, entry.identifier) is not None:
                msg = f"There is a memory {entry.identifier!r} already."
                raise Conflict(msg)
            return self._present(self._changed((realm,), entry.identifier, lambda _: self._sealed(entry))), True

    @property
    def agent(self) -> str:
        """The agent that this store was opened for."""
        return self._agent

    def exactly(self, scope: MemoryScope, identifier: str) -> MemoryEntry | None:
        """The entry of that identifier in just this scope, or None."""
        realm = self.realm(scope)
        self._evict_touched((realm,), identifier, self._now())
        entry = self._load(realm, identifier)
        return None if entry is None else self._checked(entry)

    def accept(self, entry: MemoryEntry) -> None:
        """Put an entry in as it is, with its times and its proof, over one of the same identifier in its scope."""
        self._changed((self.realm(entry.scope),), entry.identifier, lambda _: self._checked(entry))

    def bring(self, entry: MemoryEntry, *, adopt: bool = False) -> Literal["added", "changed", "present", "kept"]:
        """Take an entry in that was written elsewhere, with its times.

        Args:
            entry: the entry. Where its proof is not this user's it is foreign, and takes no other's place.
            adopt: vouch for it.

        Returns:
            What came of it.

        Raises:
            InvalidInput: it is too long, or holds a secret.
        """
        entry = self._admit(entry)
        entry = self._sealed(entry) if adopt and self._mac is not None else self._checked(entry)
        outcome: list[Literal["added", "changed", "present", "kept"]] = []

        def put(old: MemoryEntry | None) -> MemoryEntry | None:
            old = None if old is None else self._checked(old)
            if old is None:
                outcome.append("added")
                return entry
            if _said(old) == _said(entry) and (old.trusted or not entry.trusted):
                outcome.append("present")
                return old
            if adopt:
                outcome.append("changed")
                return self._sealed(entry.changed(created_at=old.created_at, updated_at=self._after(old)))
            if entry.trusted and (not old.trusted or entry.changed_at > old.changed_at):
                outcome.append("changed")
                return entry
            outcome.append("kept")
            return old

        self._changed((self.realm(entry.scope),), entry.identifier, put)
        return outcome[-1]

    def adopt(self, identifier: str) -> MemoryEntry:
        """Vouch for the visible entry of that identifier, as if this user had written it.

        Raises:
            EntryNotFound: there is none.
            InvalidState: this store was opened without a key.
        """
        if self._mac is None:
            raise InvalidState("A memory cannot be adopted without a key to sign it with.")
        realms = self._realms(MemoryScope.AGENT.and_wider)

        def sign(old: MemoryEntry | None) -> MemoryEntry:
            if old is None:
                raise EntryNotFound(identifier)
            return self._sealed(old)

        return self._present(self._changed(realms, identifier, sign))

    def recall(self, text: str, query: MemoryQuery | None = None) -> Hits:
        """See `MemoryStore.recall`. `score_details` of a hit tells its lexical and its semantic part."""
        query = msgspec.structs.replace(query or MemoryQuery(), text=text, semantic_text=None)
        vector = self._vector(text)
        if vector is None:
            return self.search(query)
        realms = self._realms(query.scopes)
        self._evict(realms, self._now())
        return self._relevant(self._fused(vector, query, realms, query.max_results), query)

    def reembed(self, progress: Callable[[int, int], None] | None = None, *, batch: int = 32) -> int:
        """Make the vectors of all visible entries that have none of this embedder.

        It may be stopped at any time; what is done stays done, and the next call goes on from there.

        Args:
            progress: is told how many are done and how many there are to do.
            batch: how many are embedded together.

        Returns:
            How many vectors were made.

        Raises:
            InvalidState: there is no embedder.
        """
        embedder = self._embedder
        if embedder is None:
            raise InvalidState("There is no embedder to make vectors with.")
        waiting = [entry for entry in self.export() if entry.embedder != embedder.id]
        for start in range(0, len(waiting), batch):
            portion = waiting[start : start + batch]
            vectors = entry_vectors(embedder, portion)
            for entry, vector in zip(portion, vectors, strict=True):
                self._put_vector(entry, vector, embedder.id)
            if progress is not None:
                progress(start + len(portion), len(waiting))
        return len(waiting)

    # --- what the verbs are made of -----------------------------------------------------------------------

    def realm(self, scope: MemoryScope) -> str:
        """The name of the group of entries that a scope means for this workspace and agent; ASCII."""
        return self._realm_names[scope]

    def _realms(self, scopes: Iterable[MemoryScope]) -> tuple[str, ...]:
        return tuple(self.realm(scope) for scope in scopes)

    def _twin(self, entry: MemoryEntry) -> MemoryEntry | None:
        """The entry in the same scope that says the same."""
        realm = self.realm(entry.scope)
        self._evict((realm,), self._now())
        text = plain_text(entry.content)
        # A foreign entry that says the same does not count: what this user says must be this user's.
        query = MemoryQuery(superseded=False, trusted_only=self._mac is not None)
        for other in self._filtered(query, (realm,), None):
            if plain_text(other.content) == text:
                return self._checked(other)
        return None

    def _admit(self, entry: MemoryEntry) -> MemoryEntry:
        """Check an entry that shall be stored, and give it its owner and its vector."""
        if len(entry.content) > MAX_CONTENT or len(entry.context) > MAX_CONTENT:
            msg = f"A memory has at most {MAX_CONTENT} characters."
            raise InvalidInput(msg)
        secret = find_secret(entry.content, entry.context, *entry.tags, dumps(entry.metadata).decode("utf-8"))
        if secret is not None:
            msg = f"This text seems to hold a secret ({secret}), and that is never remembered."
            raise InvalidInput(
                msg,
                hint="Leave the secret out, or say where it is kept.",
            )
        return self._embedded(entry.changed(agent=self._owner(entry)))

    def _owner(self, entry: MemoryEntry) -> str:
        """Who owns an entry; one that only this agent sees is its own, whoever wrote it first."""
        return self._agent if entry.scope is MemoryScope.AGENT else entry.agent or self._agent

    def _embedded(self, entry: MemoryEntry) -> MemoryEntry:
        embedder = self._embedder
        if entry.embedding is not None and not is_vector(entry.embedding):
            entry = entry.changed(embedding=None, embedder=None)
        if embedder is None or (entry.embedding is not None and entry.embedder == embedder.id):
            return entry
        try:
            (vector,) = entry_vectors(embedder, [entry])
        except Exception as error:  # noqa: BLE001 - whatever an embedder raises, what is said must not be lost
            self._notify("memory_not_embedded", f"A memory is kept without its vector: {error}")
            return entry.changed(embedding=None, embedder=None)
        return entry.changed(embedding=vector, embedder=embedder.id)

    def _vector(self, text: str) -> Sequence[float] | None:
        """The vector of a question; None where there is no embedder, or it fails."""
        if self._embedder is None:
            return None
        try:
            return query_vector(self._embedder, text)
        except Exception as error:  # noqa: BLE001 - whatever an embedder raises, search by words goes on
            self._notify("memory_not_embedded", f"This search goes by words alone: {error}")
            return None

    def _put_vector(self, entry: MemoryEntry, vector: tuple[float, ...], embedder: str) -> None:
        """Give an entry its vector unless its text has changed meanwhile. Proof and times stay as they are."""

        def put(old: MemoryEntry | None) -> MemoryEntry | None:
            if old is None or _worded(old) != _worded(entry):
                return old
            return old.changed(embedding=vector, embedder=embedder)

        self._transact((self.realm(entry.scope),), entry.identifier, put)

    def _sealed(self, entry: MemoryEntry) -> MemoryEntry:
        """The entry with this user's proof."""
        entry = entry.changed(mac=None, trusted=False)
        if self._mac is None:
            return entry
        return entry.changed(mac=self._mac(signed_bytes(entry)), trusted=True)

    def _checked(self, entry: MemoryEntry) -> MemoryEntry:
        """The entry with `trusted` set by its proof."""
        valid = (
            self._mac is not None
            and entry.mac is not None
            and hmac.compare_digest(entry.mac.encode("utf-8", "replace"), self._mac(signed_bytes(entry)).encode())
        )
        return entry if entry.trusted is valid else entry.changed(trusted=valid)

    def _changed(self, realms: Sequence[str], identifier: str, change: Change) -> MemoryEntry | None:
        self._evict_touched(realms, identifier, self._now())
        return self._transact(realms, identifier, change)

    def _evict_touched(self, realms: Sequence[str], identifier: str, now: datetime) -> None:
        """Remove the entries of that identifier that have expired; a back end may remove more."""
        for realm in realms:
            entry = self._load(realm, identifier)
            if entry is not None and entry.is_expired(now):
                self._transact((realm,), identifier, lambda old: None if old is None or old.is_expired(now) else old)

    @staticmethod
    def _present(entry: MemoryEntry | None) -> MemoryEntry:
        if entry is None:
            raise AssertionError("a change that always returns an entry returned none")
        return entry

    def _after(self, old: MemoryEntry) -> datetime:
        """The time of a change: now, or the last one where the clock went back."""
        return max(as_utc(self._now()), old.changed_at)

    def _replace(
        self, identifier: str, form: Callable[[MemoryEntry], MemoryEntry], expected: datetime | None
    ) -> MemoryEntry:
        """Replace the visible entry by `form` of it. The vector is made outside the lock, for what is likely stored."""
        current = self.retrieve(identifier)
        if current is None:
            raise EntryNotFound(identifier)
        ready = self._admit(_renewed(current, form(current)))

        def put(old: MemoryEntry | None) -> MemoryEntry:
            if old is None:
                raise EntryNotFound(identifier)
            if expected is not None and old.changed_at != as_utc(expected):
                msg = f"Memory {identifier!r} was changed by somebody else."
                raise Conflict(
                    msg,
                    hint="Read it again, then repeat the change.",
                )
            fresh = form(old)
            vector = (
                {"embedding": ready.embedding, "embedder": ready.embedder} if _worded(fresh) == _worded(ready) else {}
            )
            owner = self._owner(fresh.changed(agent=old.agent))
            seal = self._sealed if old.trusted or _reworded(old, fresh) else _unsealed
            return seal(fresh.changed(agent=owner, created_at=old.created_at, updated_at=self._after(old), **vector))

        return self._present(self._changed(self._realms(MemoryScope.AGENT.and_wider), identifier, put))

    def _by_meaning(self, query: MemoryQuery, realms: Sequence[str]) -> Hits:
        if self._embedder is None:
            self._notify("memory_no_embedder", "Search by meaning finds nothing: no embedder is configured.")
            return []
        vector = self._vector(query.semantic_text or "")
        if vector is None:
            return []
        if query.text is None:
            return self._relevant(self._semantic(vector, query, realms, query.max_results), query)
        near = {self._key(hit.entry): hit for hit in self._semantic(vector, query, realms, None)}
        words = self._lexical(query, realms, None)
        both = [(near[self._key(hit.entry)], hit) for hit in words if self._key(hit.entry) in near]
        weight = self._embedder.weight
        hits = [
            ScoredEntry(
                left.entry,
                fuse(right.score, left.score, weight),
                {**left.score_details, **right.score_details},
            )
            for left, right in both
        ]
        return self._relevant(sorted(hits, key=by_score), query)[: query.max_results]

    @staticmethod
    def _key(entry: MemoryEntry) -> tuple[str, str]:
        return entry.scope.value, entry.identifier

    @staticmethod
    def _relevant(hits: list[ScoredEntry], query: MemoryQuery) -> Hits:
        least = query.min_relevance
        return hits if least is None else [hit for hit in hits if hit.score >= least]


_AMENDABLE = frozenset(MemoryEntry.__struct_fields__) - {
    "identifier", "created_at", "updated_at", "agent", "mac", "trusted",
}  # fmt: skip


def _worded(entry: MemoryEntry) -> tuple[str, str]:
    """The texts that a vector is made of."""
    return entry.content, entry.context


def _renewed(old: MemoryEntry, new: MemoryEntry) -> MemoryEntry:
    """The new form, without the vector of a text that it no longer has."""
    if _worded(new) != _worded(old) and new.embedding == old.embedding:
        return new.changed(embedding=None, embedder=None)
    return new


def _said(entry: MemoryEntry) -> MemoryEntry:
    """All that an entry says, without what is derived or told by its proof."""
    return entry.changed(mac=None, trusted=False, embedding=None, embedder=None)


def _unsealed(entry: MemoryEntry) -> MemoryEntry:
    return entry.changed(mac=None, trusted=False)


def _reworded(old: MemoryEntry, new: MemoryEntry) -> bool:
    """Whether nothing of the old wording is left. Only then does a change make a foreign entry this user's own."""
    return new.content != old.content and (not new.context or new.context != old.context)

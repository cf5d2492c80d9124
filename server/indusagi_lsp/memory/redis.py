"""Short-lived shared state: memories in Redis, which also lets them go by itself when they expire.

An entry is a value under a key of its own, with the server's time to live. For each realm a hash names its entries with
the number of their last change, and a counter counts the changes; so a reader that is up to date asks for one number,
and one that is not fetches only what has changed. Ranking happens here, over what was fetched.
"""

from __future__ import annotations

import contextlib
import hashlib
import math
import secrets
import time
from typing import TYPE_CHECKING, Any

import msgspec

from indusagi_lsp.contract.errors import PersistenceFault
from indusagi_lsp.contract.jsontext import dumps, loads
from indusagi_lsp.memory.entry import MemoryEntry, entry_from_json, entry_to_json, identifier_bytes
from indusagi_lsp.memory.realms import InMemoryRanking

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import datetime

    from indusagi_lsp.memory.store import Change

LOCK_MS = 3_000
"""Milliseconds after which the lock of a process that died is free again. A change takes far less."""

LOCK_WAIT = 30.0
"""Seconds to wait for the lock."""

LONGEST_TTL_MS = 10 * 365 * 86_400_000
"""What lives longer is not given to the server to expire."""


class _Seen(msgspec.Struct):
    """What is known of a realm: the number of its last change, and that of each entry with its identifier."""

    change: bytes | None = None
    entries: dict[bytes, tuple[bytes, str]] = {}


class RedisMemoryStore(InMemoryRanking):
    """A `MemoryStore` in a Redis server of version 6 or newer.

    Args:
        url: the server, as `redis://host:port/db`.
        prefix: begins the name of every key.
        options: see `BaseStore`.
    """

    def __init__(self, url: str, *, prefix: str = "indusagi:memory", **options: Any) -> None:
        super().__init__(**options)
        self._url = url
        self._prefix = prefix
        self._client: Any = None
        self._token: bytes | None = None
        self._depth = 0
        self._seen: dict[str, _Seen] = {}

    def close(self) -> None:
        """See `MemoryStore.close`."""
        with self._guard:
            if self._client is not None:
                self._client.close()
            self._client = None

    # --- primitives -------------------------------------------------------------------------------------------------

    def _load(self, realm: str, identifier: str) -> MemoryEntry | None:
        with self._serving() as client:
            data = client.get(self._name(realm, _short(identifier_bytes(identifier))))
        return None if data is None else self._decode(data)

    def _transact(self, realms: Sequence[str], identifier: str, change: Change) -> MemoryEntry | None:
        with self._guard, self._locked() as client:
            found = ((realm, self._load(realm, identifier)) for realm in realms)
            place, old = next(((realm, entry) for realm, entry in found if entry is not None), (realms[0], None))
            new = change(old)
            target = place if new is None else self.realm(new.scope)
            name = _short(identifier_bytes(identifier))
            with client.pipeline() as pipe:
                # What is done under a lock that was lost meanwhile is not done at all.
                pipe.watch(self._lock_key)
                if pipe.get(self._lock_key) != self._token:
                    raise PersistenceFault("The memory server was too slow; nothing was changed.")
                pipe.multi()
                if old is not None and (new is None or target != place):
                    pipe.delete(self._name(place, name))
                    pipe.hdel(self._name(place, "entries"), name)
                    pipe.incr(self._name(place, "changes"))
                if new is not None:
                    number = client.incr(self._name(target, "numbers"))
                    pipe.set(self._name(target, name), dumps(entry_to_json(new)), px=self._remaining(new))
                    pipe.hset(self._name(target, "entries"), name, number)
                    pipe.incr(self._name(target, "changes"))
                pipe.execute()
            return new

    def _evict_touched(self, realms: Sequence[str], identifier: str, now: datetime) -> None:
        super()._evict_touched(realms, identifier, now)
        name = _short(identifier_bytes(identifier))
        with self._guard, self._serving() as client:
            for realm in realms:
                # The server may have let an entry go whose name is still on the list.
                if client.hexists(self._name(realm, "entries"), name) and not client.exists(self._name(realm, name)):
                    with self._locked():
                        client.hdel(self._name(realm, "entries"), name)
                        client.incr(self._name(realm, "changes"))
                    self._realm(realm).remove(identifier)

    @contextlib.contextmanager
    def _exclusively(self, realm: str) -> Iterator[None]:
        del realm  # one lock serves all realms of a prefix
        with self._guard, self._locked():
            yield

    def _refresh(self, realms: Sequence[str]) -> None:
        with self._guard, self._serving() as client:
            for realm in realms:
                seen = self._seen.setdefault(realm, _Seen())
                change = client.get(self._name(realm, "changes"))
                if change != seen.change:
                    self._fetch(client, realm, seen)
                    seen.change = change

    # --- the server -------------------------------------------------------------------------------------------------

    def _fetch(self, client: Any, realm: str, seen: _Seen) -> None:
        there: dict[bytes, bytes] = client.hgetall(self._name(realm, "entries"))
        view = self._realm(realm)
        for name in seen.entries.keys() - there.keys():
            view.remove(seen.entries.pop(name)[1])
        fresh = [name for name, number in there.items() if name not in seen.entries or seen.entries[name][0] != number]
        for start in range(0, len(fresh), 500):
            names = fresh[start : start + 500]
            for name, data in zip(names, client.mget([self._name(realm, name) for name in names]), strict=True):
                former = seen.entries.pop(name, None)
                entry = None if data is None else self._decode(data)
                if entry is None:
                    # The server has let it go, or it cannot be read.
                    if former is not None:
                        view.remove(former[1])
                    continue
                view.put(entry)
                seen.entries[name] = (there[name], entry.identifier)

    def _decode(self, data: bytes) -> MemoryEntry | None:
        try:
            return self._checked(entry_from_json(loads(data)))
        except (ValueError, TypeError) as error:
            self._notify("memory_skipped", f"A memory in the server was skipped: {error}.")
            return None

    def _remaining(self, entry: MemoryEntry) -> int | None:
        """Milliseconds that an entry has left, by this store's clock; None for no end."""
        if entry.expires_at is None:
            return None
        left = math.ceil((entry.expires_at - self._now()).total_seconds() * 1000)
        return None if left > LONGEST_TTL_MS else max(left, 1)

    @property
    def _lock_key(self) -> str:
        return f"{self._prefix}:lock"

    def _name(self, realm: str, name: str | bytes) -> bytes:
        last = name if isinstance(name, bytes) else name.encode("ascii")
        return f"{self._prefix}:".encode() + _short(realm.encode("ascii")) + b":" + last

    @contextlib.contextmanager
    def _serving(self) -> Iterator[Any]:
        import redis

        if self._client is None:
            self._client = redis.Redis.from_url(self._url, decode_responses=False, socket_timeout=LOCK_WAIT)
        try:
            yield self._client
        except redis.RedisError as error:
            message = f"The memory server cannot be used: {error}."
            raise PersistenceFault(message, hint="Is Redis running, and is its address right?") from error

    @contextlib.contextmanager
    def _locked(self) -> Iterator[Any]:
        """Hold the lock of all writers; this thread may take it again."""
        with self._serving() as client:
            if self._depth == 0:
                self._take_lock(client)
            self._depth += 1
            try:
                yield client
            finally:
                self._depth -= 1
                if self._depth == 0:
                    self._leave_lock(client)

    def _take_lock(self, client: Any) -> None:
        token = secrets.token_hex(16).encode()
        end = time.monotonic() + LOCK_WAIT
        while not client.set(self._lock_key, token, nx=True, px=LOCK_MS):
            if time.monotonic() > end:
                raise PersistenceFault("Another process has kept the memory locked for too long.")
            time.sleep(0.002)
        self._token = token

    def _leave_lock(self, client: Any) -> None:
        # Only the holder may open the lock, so asking and deleting are one step of the server.
        client.eval(
            "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) else return 0 end",
            1,
            self._lock_key,
            self._token,
        )
        self._token = None


def _short(data: bytes) -> bytes:
    return hashlib.sha256(data).hexdigest()[:40].encode("ascii")

"""What is remembered: one immutable entry, who may see it, when it ends, and how it reads and writes as JSON."""

from __future__ import annotations

import base64
import binascii
import math
import struct
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime, timedelta
from enum import Enum
from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec

from indusagi_lsp.contract.errors import InvalidInput
from indusagi_lsp.contract.jsontext import dumps, loads

if TYPE_CHECKING:
    from indusagi_lsp.contract.clock import Clock

MAX_IDENTIFIER = 1024
"""The longest identifier, in characters, that every back end takes."""

FORMAT_VERSION = 1

_LARGEST = struct.unpack("<f", bytes.fromhex("ffff7f7f"))[0]
"""The largest finite 32-bit float."""

_FIRST = datetime.min.replace(tzinfo=UTC)
_LAST = datetime.max.replace(tzinfo=UTC)

Now: TypeAlias = Callable[[], datetime]
"""Tells the time as an aware datetime; injected, so that expiry can be tested to the microsecond."""


def utc_now() -> datetime:
    """The machine's time, aware, in UTC."""
    return datetime.now(UTC)


def now_from(clock: Clock) -> Now:
    """Make a `Now` from the house's clock, which counts milliseconds."""
    return lambda: datetime.fromtimestamp(clock.now_ms() / 1000, UTC)


def as_utc(moment: datetime) -> datetime:
    """The same moment in UTC; a naive time is read as UTC.

    A time so near the ends of the calendar that its UTC form does not exist becomes that end.
    """
    if moment.tzinfo is None:
        return moment.replace(tzinfo=UTC)
    try:
        return moment.astimezone(UTC)
    except OverflowError:
        return _LAST if moment.year > 1 else _FIRST


class MemoryScope(Enum):
    """Who sees an entry. A query sees its scope and every wider one."""

    AGENT = "agent"
    """The agent that wrote it, in this workspace."""

    SHARED = "shared"
    """Every agent of this workspace."""

    GLOBAL = "global"
    """All workspaces of the user."""

    @property
    def and_wider(self) -> tuple[MemoryScope, ...]:
        """This scope and the wider ones, the narrowest first."""
        order = tuple(MemoryScope)
        return order[order.index(self) :]

    @property
    def breadth(self) -> int:
        """Its place in that order: 0 for the narrowest."""
        return tuple(MemoryScope).index(self)


class ExpirationPolicy(msgspec.Struct, frozen=True):
    """When an entry ends: so many seconds after its creation, or at a given time; exactly one of the two.

    Expiry is lazy: nothing sweeps. The first verb that could meet an expired entry removes it and does not show it.

    Attributes:
        ttl_seconds: seconds from `created_at`, more than 0.
        expires_at: the moment itself; an entry is expired at this very moment.
    """

    ttl_seconds: float | None = None
    expires_at: datetime | None = None

    def __post_init__(self) -> None:
        if (self.ttl_seconds is None) == (self.expires_at is None):
            raise InvalidInput("An expiration needs either a time to live or a moment, not both.")
        # The comparison is written so that NaN is refused as well.
        if self.ttl_seconds is not None and not 0 < self.ttl_seconds < float("inf"):
            raise InvalidInput("A time to live must be more than 0 seconds.")
        if self.expires_at is not None:
            msgspec.structs.force_setattr(self, "expires_at", as_utc(self.expires_at))

    def moment(self, created_at: datetime) -> datetime:
        """When an entry that was created at `created_at` ends; the end of the calendar if that is nearer."""
        if self.expires_at is not None:
            return self.expires_at
        try:
            return as_utc(created_at) + timedelta(seconds=self.ttl_seconds or 0)
        except OverflowError:
            return _LAST

    def is_expired(self, created_at: datetime, now: datetime) -> bool:
        """Whether it has ended at `now`; the moment itself counts as ended."""
        return as_utc(now) >= self.moment(created_at)


class MemorySource(msgspec.Struct, frozen=True):
    """The turn that said it: a session and, where known, the node in it."""

    session: str
    node: str | None = None


class MemoryEntry(msgspec.Struct, frozen=True, kw_only=True):
    """One piece of remembered information. Immutable: a change is a new entry under the same identifier.

    Attributes:
        identifier: any text of 1 to 1,024 characters; unique per scope, workspace and (in scope AGENT) agent.
        content: what is remembered.
        context: text around it (the neighbouring turns); searched at half weight, not part of what is remembered.
        tags: for filtering by category.
        metadata: free JSON data.
        scope: who sees it.
        created_at: aware UTC.
        updated_at: aware UTC.
        expiration: when it ends; None for never.
        agent: the owner; the store fills it in.
        source: the turn that said it.
        supersedes: the identifier of the entry that this one replaces.
        superseded_by: the identifier of the entry that replaces this one.
        tainted: whether the text came from where an attacker may write (tool output, a web page).
        embedding: the text's vector, as 32-bit floats.
        embedder: which embedder made the vector; vectors of another one are ignored.
        mac: proof that this user wrote it.
        trusted: whether `mac` is valid; set by the store on reading, never stored.
    """

    identifier: str
    content: str
    context: str = ""
    tags: tuple[str, ...] = ()
    metadata: Mapping[str, Any] = {}
    scope: MemoryScope = MemoryScope.AGENT
    created_at: datetime = msgspec.field(default_factory=utc_now)
    updated_at: datetime | None = None
    expiration: ExpirationPolicy | None = None
    agent: str = ""
    source: MemorySource | None = None
    supersedes: str | None = None
    superseded_by: str | None = None
    tainted: bool = False
    embedding: tuple[float, ...] | None = None
    embedder: str | None = None
    mac: str | None = None
    trusted: bool = False

    def __post_init__(self) -> None:
        if not 1 <= len(self.identifier) <= MAX_IDENTIFIER:
            msg = f"An identifier has 1 to {MAX_IDENTIFIER} characters."
            raise InvalidInput(msg)
        put = msgspec.structs.force_setattr
        put(self, "tags", tuple(dict.fromkeys(self.tags)))
        put(self, "created_at", as_utc(self.created_at))
        put(self, "updated_at", as_utc(self.updated_at or self.created_at))
        if self.embedding is not None:
            put(self, "embedding", tuple(self.embedding))

    @property
    def changed_at(self) -> datetime:
        """`updated_at`, which is always there once an entry exists."""
        return self.updated_at or self.created_at

    @property
    def expires_at(self) -> datetime | None:
        """When it ends, or None."""
        return self.expiration.moment(self.created_at) if self.expiration else None

    def is_expired(self, now: datetime) -> bool:
        """Whether it has ended at `now`."""
        return self.expiration is not None and self.expiration.is_expired(self.created_at, now)

    def changed(self, **changes: Any) -> MemoryEntry:
        """A copy with some fields changed."""
        return msgspec.structs.replace(self, **changes)


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


def micros(moment: datetime) -> int:
    """A moment as microseconds since the epoch, exact."""
    return (as_utc(moment) - _EPOCH) // _MICROSECOND


def identifier_bytes(identifier: str) -> bytes:
    """An identifier as bytes, whatever it holds; their order is that of the characters."""
    return identifier.encode("utf-8", "surrogatepass")


def newest_first(entry: MemoryEntry) -> tuple[int, bytes, int]:
    """The order in which every back end lists entries: the newest first, then by identifier, the narrow scope first."""
    return -micros(entry.created_at), identifier_bytes(entry.identifier), entry.scope.breadth


def pack_vector(vector: Iterable[float]) -> bytes:
    """A vector as little-endian 32-bit floats."""
    values = tuple(vector)
    return struct.pack(f"<{len(values)}f", *values)


def unpack_vector(data: bytes) -> tuple[float, ...]:
    """The vector of `pack_vector`'s bytes.

    Raises:
        ValueError: the number of bytes is not a multiple of 4, or a number is not finite.
    """
    if len(data) % 4:
        raise ValueError("a vector has 4 bytes per number")
    vector = struct.unpack(f"<{len(data) // 4}f", data)
    # What is not finite stays so in a sum, and 32-bit floats are too small to overflow it.
    if not math.isfinite(sum(vector)):
        raise ValueError("a vector holds finite numbers")
    return vector


def is_vector(numbers: Iterable[float]) -> bool:
    """Whether 32-bit floats can hold these numbers, all of them finite."""
    return all(-_LARGEST <= number <= _LARGEST for number in numbers)


def _require(holds: bool, message: str) -> None:
    if not holds:
        raise ValueError(message)


def _moment_to_json(moment: datetime | None) -> str | None:
    return None if moment is None else moment.isoformat(timespec="microseconds").replace("+00:00", "Z")


def _moment_from_json(raw: Any) -> datetime:
    _require(isinstance(raw, str), "a time must be a text")
    return as_utc(datetime.fromisoformat(raw))


def entry_to_json(entry: MemoryEntry) -> dict[str, Any]:
    """Write an entry as JSON data in a fixed order; what is empty is left out."""
    expiration = entry.expiration
    data: dict[str, Any] = {
        "version": FORMAT_VERSION,
        "identifier": entry.identifier,
        "scope": entry.scope.value,
        "agent": entry.agent or None,
        "content": entry.content,
        "context": entry.context or None,
        "tags": list(entry.tags) or None,
        "metadata": dict(entry.metadata) or None,
        "createdAt": _moment_to_json(entry.created_at),
        "updatedAt": _moment_to_json(entry.changed_at),
        "ttlSeconds": expiration.ttl_seconds if expiration else None,
        "expiresAt": _moment_to_json(expiration.expires_at) if expiration else None,
        "source": None if entry.source is None else {"session": entry.source.session, "node": entry.source.node},
        "supersedes": entry.supersedes,
        "supersededBy": entry.superseded_by,
        "tainted": entry.tainted or None,
        "embedder": entry.embedder,
        "embedding": (
            None if entry.embedding is None else base64.b64encode(pack_vector(entry.embedding)).decode("ascii")
        ),
        "mac": entry.mac,
    }
    return {name: value for name, value in data.items() if value is not None}


def _typed(raw: Mapping[str, Any], name: str, wanted: type, default: Any = None) -> Any:
    value = raw.get(name, default)
    if value is not default and type(value) is not wanted:
        message = f"`{name}` must be a {wanted.__name__}"
        raise ValueError(message)
    return value


def entry_from_json(raw: Any, packed: bytes | None = None) -> MemoryEntry:
    """Read an entry.

    Args:
        raw: decoded JSON, an object as `entry_to_json` makes it.
        packed: its vector as `pack_vector` makes it, where that has a place of its own.

    Raises:
        ValueError: a field is missing or of the wrong kind, or a time is no time.
    """
    _require(isinstance(raw, dict), "an entry must be an object")
    _require(raw.get("version") == FORMAT_VERSION, "the entry has a version that is not known here")
    tags = _typed(raw, "tags", list, [])
    _require(all(isinstance(tag, str) for tag in tags), "tags must be texts")
    identifier, content = raw.get("identifier"), raw.get("content")
    _require(isinstance(identifier, str), "`identifier` must be a text")
    _require(isinstance(content, str), "`content` must be a text")
    source = _typed(raw, "source", dict, None)
    ttl, ends = raw.get("ttlSeconds"), raw.get("expiresAt")
    if ttl is not None and (isinstance(ttl, bool) or not isinstance(ttl, int | float)):
        raise ValueError("`ttlSeconds` must be a number")
    vector = _typed(raw, "embedding", str, None)
    try:
        if packed is None and vector is not None:
            packed = base64.b64decode(vector, validate=True)
        return MemoryEntry(
            identifier=identifier,
            content=content,
            context=_typed(raw, "context", str, ""),
            tags=tuple(tags),
            metadata=_typed(raw, "metadata", dict, {}),
            scope=MemoryScope(raw.get("scope")),
            created_at=_moment_from_json(raw.get("createdAt")),
            updated_at=_moment_from_json(raw.get("updatedAt")),
            expiration=(
                None
                if ttl is None and ends is None
                else ExpirationPolicy(ttl, None if ends is None else _moment_from_json(ends))
            ),
            agent=_typed(raw, "agent", str, ""),
            source=None if source is None else msgspec.convert(source, MemorySource),
            supersedes=_typed(raw, "supersedes", str, None),
            superseded_by=_typed(raw, "supersededBy", str, None),
            tainted=_typed(raw, "tainted", bool, default=False),
            embedder=_typed(raw, "embedder", str, None),
            embedding=None if packed is None else unpack_vector(packed),
            mac=_typed(raw, "mac", str, None),
        )
    except (InvalidInput, binascii.Error, msgspec.ValidationError) as error:
        raise ValueError(str(error)) from None


def entry_record(entry: MemoryEntry) -> bytes:
    """An entry as a database keeps it: JSON, with the vector in a place of its own."""
    return dumps(entry_to_json(entry.changed(embedding=None)))


def entry_from_record(record: bytes, vector: bytes | None) -> MemoryEntry:
    """The entry of an `entry_record`, and of its vector as `pack_vector` makes it.

    Raises:
        ValueError: it is none.
    """
    return entry_from_json(loads(record), vector)


_UNSIGNED = ("mac", "embedding", "embedder")


def signed_bytes(entry: MemoryEntry) -> bytes:
    """The bytes that `mac` vouches for: everything that a reader or a model could be shown, in sorted order.

    The vector is left out, since it is derived and is renewed when the embedder changes.
    """
    data = {name: value for name, value in entry_to_json(entry).items() if name not in _UNSIGNED}
    return b"indusagi-memory-1\n" + dumps(_sorted(data))


def _sorted(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _sorted(value[name]) for name in sorted(value)}
    if isinstance(value, list):
        return [_sorted(item) for item in value]
    return value

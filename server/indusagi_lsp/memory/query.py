"""What can be asked of a memory store, and what comes back."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, date, datetime, time
from typing import Any

import msgspec

from indusagi_lsp.contract.errors import InvalidInput
from indusagi_lsp.memory.entry import MemoryEntry, MemoryScope, as_utc


class MemoryQuery(msgspec.Struct, frozen=True, kw_only=True):
    """A bundle of filters; the result is what passes all of them.

    Attributes:
        tags: the entry must have all of these; an empty list asks for nothing.
        metadata: key and value that must match. Values compare by type: `True` is not 1, 10 is more than 9. A value
            that
            is an object of operators compares instead: `{"$gt": 9, "$lte": 100}`, also `$gte`, `$lt`, `$ne`, `$in`.
        scope: sees this scope and every wider one; None means AGENT, which sees all that this agent may see.
        start_time: `created_at` is not before it; a plain date means its first moment in UTC.
        end_time: `created_at` is not after it; a plain date means its last moment in UTC.
        semantic_text: search by meaning; needs an embedder.
        text: search by words; always there.
        max_results: the most results; None for all.
        min_relevance: the least score, 0 to 1, of a query with `text` or `semantic_text`.
        superseded: whether entries that were replaced by newer ones are found.
        trusted_only: whether only entries that this user wrote or adopted are found.
    """

    tags: tuple[str, ...] | list[str] | None = None
    metadata: Mapping[str, Any] | None = None
    scope: MemoryScope | None = None
    start_time: datetime | date | None = None
    end_time: datetime | date | None = None
    semantic_text: str | None = None
    text: str | None = None
    max_results: int | None = None
    min_relevance: float | None = None
    superseded: bool = True
    trusted_only: bool = False

    def __post_init__(self) -> None:
        if self.max_results is not None and self.max_results < 0:
            raise InvalidInput("`max_results` cannot be negative.")
        for operand in (self.metadata or {}).values():
            _check_operators(operand)
        put = msgspec.structs.force_setattr
        put(self, "tags", tuple(self.tags or ()))
        put(self, "start_time", _bound(self.start_time, time.min))
        put(self, "end_time", _bound(self.end_time, time.max))

    @property
    def bounds(self) -> tuple[datetime | None, datetime | None]:
        """The first and the last moment of `created_at`, in UTC."""
        return _bound(self.start_time, time.min), _bound(self.end_time, time.max)

    @property
    def scopes(self) -> tuple[MemoryScope, ...]:
        """The scopes that it sees, the narrowest first."""
        return (self.scope or MemoryScope.AGENT).and_wider

    def matches(self, entry: MemoryEntry) -> bool:
        """Whether `entry` passes the filters on its own fields (not: who may see it, nor the texts)."""
        if self.tags and not set(self.tags) <= set(entry.tags):
            return False
        if isinstance(self.start_time, datetime) and entry.created_at < self.start_time:
            return False
        if isinstance(self.end_time, datetime) and entry.created_at > self.end_time:
            return False
        if not self.superseded and entry.superseded_by is not None:
            return False
        if self.trusted_only and not entry.trusted:
            return False
        return all(
            name in entry.metadata and metadata_matches(entry.metadata[name], operand)
            for name, operand in (self.metadata or {}).items()
        )


class ScoredEntry(msgspec.Struct, frozen=True):
    """A hit. `score` is 1 for identical, 0 for unrelated; `score_details` holds its parts by name."""

    entry: MemoryEntry
    score: float
    score_details: Mapping[str, float] = {}


def _bound(moment: datetime | date | None, edge: time) -> datetime | None:
    if moment is None:
        return None
    if isinstance(moment, datetime):
        return as_utc(moment)
    return datetime.combine(moment, edge, UTC)


_OPERATORS = ("$gt", "$gte", "$lt", "$lte", "$ne", "$in")


def _is_operators(operand: Any) -> bool:
    return isinstance(operand, Mapping) and bool(operand) and all(str(name).startswith("$") for name in operand)


def _check_operators(operand: Any) -> None:
    if not _is_operators(operand):
        return
    for name, value in operand.items():
        if name not in _OPERATORS:
            msg = f"There is no metadata operator {name!r}."
            raise InvalidInput(msg, hint="Use one of " + ", ".join(_OPERATORS))
        if name == "$in" and not isinstance(value, list | tuple):
            raise InvalidInput("The metadata operator `$in` takes a list.")


def _number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def same_value(left: Any, right: Any) -> bool:
    """Whether two JSON values are equal and of one type; all numbers are one type, truth values another."""
    if _number(left) and _number(right):
        return bool(left == right)
    if isinstance(left, Mapping) and isinstance(right, Mapping):
        return left.keys() == right.keys() and all(same_value(left[name], right[name]) for name in left)
    if isinstance(left, list | tuple) and isinstance(right, list | tuple):
        return len(left) == len(right) and all(map(same_value, left, right))
    return type(left) is type(right) and bool(left == right)


def metadata_matches(value: Any, operand: Any) -> bool:
    """Whether a metadata value passes an operand of `MemoryQuery.metadata`. Values of two types are never ordered."""
    if not _is_operators(operand):
        return same_value(value, operand)
    return all(_compares(value, name, bound) for name, bound in operand.items())


def _compares(value: Any, operator: str, bound: Any) -> bool:
    if operator == "$ne":
        return not same_value(value, bound)
    if operator == "$in":
        return any(same_value(value, item) for item in bound)
    both_numbers = _number(value) and _number(bound)
    if not both_numbers and not (isinstance(value, str) and isinstance(bound, str)):
        return False
    if operator == "$gt":
        return bool(value > bound)
    if operator == "$gte":
        return bool(value >= bound)
    if operator == "$lt":
        return bool(value < bound)
    return bool(value <= bound)

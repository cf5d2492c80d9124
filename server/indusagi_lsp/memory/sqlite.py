"""The default store of the server: one SQLite file per workspace, with full text and vectors in it.

Full text is ranked by the formula of `lexical`, fed from the index's own lists of places; SQLite's `bm25` knows neither
who may see what nor a score between 0 and 1. What ranking needs of every row is held in memory, in `sqlite_derived`; it
follows the writes of other processes.
"""

from __future__ import annotations

import contextlib
import heapq
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

from indusagi_lsp.memory.entry import (
    MemoryEntry,
    entry_from_record,
    entry_record,
    identifier_bytes,
    micros,
    pack_vector,
)
from indusagi_lsp.memory.index import DIGITS as COSINE_DIGITS
from indusagi_lsp.memory.lexical import K1, B, Question, Statistics, best_score, relative_score
from indusagi_lsp.memory.query import MemoryQuery, ScoredEntry
from indusagi_lsp.memory.scoring import fuse
from indusagi_lsp.memory.sqlite_derived import Derived
from indusagi_lsp.memory.sqlite_schema import connect, faults, words_outdated
from indusagi_lsp.memory.store import BaseStore, Change
from indusagi_lsp.memory.text import NEAR_WEIGHT, OWN_WEIGHT, SPLIT_WEIGHT, TERMS_VERSION, index_terms, text_digest

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterator, Mapping, Sequence
    from datetime import datetime

_WEIGHTS = {"own": OWN_WEIGHT, "near": NEAR_WEIGHT, "split": SPLIT_WEIGHT}
_ORDER = "ORDER BY e.created DESC, e.identifier, e.breadth"
_ROW = "SELECT e.id, e.record, v.data, e.realm FROM entries e LEFT JOIN vectors v ON v.entry = e.id"
_PAGE = 16
"""How many entries are decoded at once while hits are being collected."""

_BATCH = 500
"""How many entries are fetched at once by their numbers."""


class SqliteMemoryStore(BaseStore):
    """A `MemoryStore` in one SQLite file (FTS5, write-ahead log), shared by any number of processes.

    Args:
        path: the file, made at the first write (0600).
        options: see `BaseStore`.
    """

    def __init__(self, path: Path | str, **options: Any) -> None:
        super().__init__(**options)
        self._path = Path(path)
        self._guard = threading.RLock()
        self._connection: sqlite3.Connection | None = None
        self._depth = 0
        self._seen = -1
        self._derived = Derived(self._path, self._mac)

    def close(self) -> None:
        """See `MemoryStore.close`."""
        with self._guard:
            if self._connection is not None:
                self._connection.close()
            self._connection = None
            self._derived.forget()

    @contextlib.contextmanager
    def bulk(self) -> Iterator[None]:
        """Make many changes one transaction: all of them are kept, or none, and the disk is waited for once."""
        with self._writing():
            yield

    # --- primitives -------------------------------------------------------------------------------------------------

    def _evict(self, realms: Sequence[str], now: datetime) -> None:
        with self._reading() as connection:
            if connection is None or not self._ended(connection, realms, now):
                return
        with self._writing() as connection:
            for row in self._ended(connection, realms, now):
                # One that cannot be read cannot be taken out of the full text; it stays, and is skipped everywhere.
                with contextlib.suppress(ValueError, TypeError):
                    self._remove(connection, row)

    def _evict_touched(self, realms: Sequence[str], identifier: str, now: datetime) -> None:
        self._evict(realms, now)

    def _load(self, realm: str, identifier: str) -> MemoryEntry | None:
        with self._reading() as connection:
            if connection is None:
                return None
            found = self._at(connection, realm, identifier)
            return found[1] if found else None

    def _transact(self, realms: Sequence[str], identifier: str, change: Change) -> MemoryEntry | None:
        with self._writing() as connection:
            found = next((place for realm in realms if (place := self._at(connection, realm, identifier))), None)
            new = change(found[1] if found else None)
            if new is not None and found is not None and new is found[1]:
                return new
            if found is not None:
                self._remove(connection, found[0])
            if new is not None:
                target = self.realm(new.scope)
                # A new entry whose place was just looked at needs no second look.
                looked = found is None and target in realms
                if not looked and (there := self._at(connection, target, identifier)):
                    self._remove(connection, there[0])
                self._insert(connection, target, new, None if found is None else found[0])
            return new

    def _changed(self, realms: Sequence[str], identifier: str, change: Change) -> MemoryEntry | None:
        # Eviction and change are one transaction, so that the disk is waited for once.
        with self._writing():
            return super()._changed(realms, identifier, change)

    @contextlib.contextmanager
    def _exclusively(self, realm: str) -> Iterator[None]:
        del realm  # one writer at a time writes the file, whatever the realm
        with self._writing():
            yield

    def _twin(self, entry: MemoryEntry) -> MemoryEntry | None:
        realm = self.realm(entry.scope)
        self._evict((realm,), self._now())
        with self._reading() as connection:
            if connection is None:
                return None
            rows = connection.execute(
                f"{_ROW} WHERE e.realm = ? AND e.digest = ? AND NOT e.superseded {_ORDER}",
                (realm, text_digest(entry.content)),
            )
            found = (one for _, one in self._entries(rows))
            return next((one for one in found if one.trusted or self._mac is None), None)

    def _filtered(self, query: MemoryQuery, realms: Sequence[str], limit: int | None) -> list[MemoryEntry]:
        with self._reading() as connection:
            if connection is None or limit == 0:
                return []
            where, values = _where(query, realms)
            found: list[MemoryEntry] = []
            for _, entry in self._entries(connection.execute(f"{_ROW} WHERE {where} {_ORDER}", values)):
                if query.matches(entry):
                    found.append(entry)
                    if len(found) == limit:
                        break
            return found

    def count(self, query: MemoryQuery | None = None) -> int:
        """See `MemoryStore.count`."""
        query = query or MemoryQuery()
        if query.metadata or query.trusted_only:
            return super().count(query)
        realms = self._realms(query.scopes)
        self._evict(realms, self._now())
        with self._reading() as connection:
            if connection is None:
                return 0
            where, values = _where(query, realms)
            sql = f"SELECT count(*) FROM entries e WHERE {where}"  # noqa: S608 - only placeholders are joined
            counted = connection.execute(sql, values)
            return int(counted.fetchone()[0])

    def _lexical(self, query: MemoryQuery, realms: Sequence[str], limit: int | None) -> list[ScoredEntry]:
        with self._reading() as connection:
            if connection is None or limit == 0:
                return []
            raw, best = self._raw_scores(connection, Question.of(index_terms(query.text or "")), realms)
            return self._best(connection, raw, best, query, realms, limit)

    def _semantic(
        self, vector: Sequence[float], query: MemoryQuery, realms: Sequence[str], limit: int | None
    ) -> list[ScoredEntry]:
        embedder = self._embedder.id if self._embedder else ""
        with self._reading() as connection:
            if connection is None or limit == 0:
                return []
            matrix = self._derived.matrix(connection, embedder, len(vector))
            sizes = self._derived.sizes(connection)
            groups = sizes.confined_to(realms)
            hits: list[ScoredEntry] = []
            for portion in matrix.nearest(vector, groups, 4 * limit if limit else len(matrix)):
                scores = {row: round(score, COSINE_DIGITS) for row, score in portion.items()}
                scores = {row: score for row, score in scores.items() if score > 0}
                for row, entry in self._in_order(connection, scores, query, realms, limit):
                    hits.append(ScoredEntry(entry, scores[row], {"semantic": scores[row]}))
                    if len(hits) == limit:
                        return hits
            return hits

    def _fused(
        self, vector: Sequence[float], query: MemoryQuery, realms: Sequence[str], limit: int | None
    ) -> list[ScoredEntry]:
        embedder, weight = (self._embedder.id, self._embedder.weight) if self._embedder else ("", 0.0)
        with self._reading() as connection:
            if connection is None or limit == 0:
                return []
            raw, best = self._raw_scores(connection, Question.of(index_terms(query.text or "")), realms)
            words = {row: relative_score(score, best) for row, score in raw.items()}
            matrix = self._derived.matrix(connection, embedder, len(vector))
            sizes = self._derived.sizes(connection)
            groups = sizes.confined_to(realms)
            first = 4 * limit if limit else len(matrix) + len(words)
            hits: list[ScoredEntry] = []
            for portion in matrix.nearest(vector, groups, first, words, weight):
                meaning = matrix.cosine(vector, list(portion))
                rounded = {row: round(cosine, COSINE_DIGITS) for row, cosine in meaning.items()}
                scores = {row: fuse(words.get(row, 0.0), rounded.get(row), weight) for row in portion}
                scores = {row: score for row, score in scores.items() if score > 0}
                for row, entry in self._in_order(connection, scores, query, realms, limit):
                    parts = {"lexical": words.get(row, 0.0)}
                    if row in rounded:
                        parts["semantic"] = rounded[row]
                    hits.append(ScoredEntry(entry, scores[row], parts))
                    if len(hits) == limit:
                        return hits
            return hits

    # --- ranking ------------------------------------------------------------------------------------------------------

    def _raw_scores(
        self, connection: sqlite3.Connection, question: Question, realms: Sequence[str]
    ) -> tuple[dict[int, float], float]:
        """The BM25 sums of all visible entries that share a word with the question, and that of an identical text."""
        sizes = self._derived.sizes(connection)
        visible = sizes.confined_to(realms)
        entries, words = self._totals(connection, realms)
        weights: dict[str, dict[int, float]] = {}
        for word in question.words:
            held: dict[int, float] = {}
            for row, column in connection.execute("SELECT doc, col FROM places WHERE term = ?", (word,)).fetchall():
                weight = _WEIGHTS[column]
                held[row] = held[row] + weight if row in held else weight
            if visible is not None:
                held = {row: weight for row, weight in held.items() if sizes.realms[row] in visible}
            weights[word] = held

        statistics = Statistics(entries, words, {word: len(held) for word, held in weights.items()})
        lengths, constant, slope = sizes.words, K1 * (1 - B), K1 * B / statistics.average
        raw: dict[int, float] = {}
        for word, held in weights.items():
            rarity = statistics.rarity(word) * (K1 + 1)
            for row, weight in held.items():
                part = rarity * weight / (weight + constant + slope * lengths[row])
                raw[row] = raw[row] + part if row in raw else part
        return raw, best_score(question, statistics)

    def _best(
        self,
        connection: sqlite3.Connection,
        raw: Mapping[int, float],
        best: float,
        query: MemoryQuery,
        realms: Sequence[str],
        limit: int | None,
    ) -> list[ScoredEntry]:
        """The entries behind rows of raw lexical scores that pass the filters, in order, at most `limit` of them."""
        size = len(raw) if limit is None else min(len(raw), 2 * limit + 16)
        while True:
            floor = 0.0
            if size < len(raw):
                # What cannot be told from the last one chosen belongs to the choice, or the order of ties would
                # depend on rows. All that is at least as good as identical has the same score.
                floor = min(heapq.nlargest(size, raw.values())[-1] * (1 - 1e-8) - 1e-9 * best, best)
            by_row = {row: relative_score(score, best) for row, score in raw.items() if score >= floor}
            hits = []
            for row, entry in self._in_order(connection, by_row, query, realms, limit):
                hits.append(ScoredEntry(entry, by_row[row], {"lexical": by_row[row]}))
                if len(hits) == limit:
                    return hits
            if size >= len(raw):
                return hits
            size *= 8

    def _in_order(
        self,
        connection: sqlite3.Connection,
        by_row: Mapping[int, float],
        query: MemoryQuery,
        realms: Sequence[str],
        limit: int | None,
    ) -> Iterator[tuple[int, MemoryEntry]]:
        """The entries of scored rows that pass the filters, the best first. Little is decoded beyond what is taken.

        `limit` is how many the caller takes; None for all.
        """
        where, values = _where(query, realms, by_row=True)
        keys: list[tuple[float, int, bytes, int, int]] = []
        for batch in _batches(list(by_row)):
            marks = ",".join("?" * len(batch))
            sql = (
                "SELECT id, created, identifier, breadth FROM entries e "  # noqa: S608 - only placeholders are joined
                f"WHERE e.id IN ({marks}) AND {where}"
            )
            for row, created, identifier, breadth in connection.execute(sql, (*batch, *values)):
                keys.append((-by_row[row], -created, identifier, breadth, row))
        keys.sort()
        for batch in _batches([key[4] for key in keys], min(limit or _PAGE, _PAGE)):
            found = dict(self._fetch(connection, batch, query, realms))
            yield from ((row, found[row]) for row in batch if row in found)

    def _fetch(
        self, connection: sqlite3.Connection, rows: Sequence[int], query: MemoryQuery, realms: Sequence[str]
    ) -> Iterator[tuple[int, MemoryEntry]]:
        where, values = _where(query, realms, by_row=True)
        for batch in _batches(rows):
            marks = ",".join("?" * len(batch))
            found = connection.execute(f"{_ROW} WHERE e.id IN ({marks}) AND {where}", (*batch, *values))
            for row, entry in self._entries(found):
                if query.matches(entry):
                    yield row, entry

    @staticmethod
    def _totals(connection: sqlite3.Connection, realms: Sequence[str]) -> tuple[int, int]:
        marks = ",".join("?" * len(realms))
        totals = connection.execute(
            f"SELECT coalesce(sum(entries), 0), coalesce(sum(words), 0) FROM realms WHERE name IN ({marks})",  # noqa: S608 - only placeholders are joined
            realms,
        )
        entries, words = totals.fetchone()
        return int(entries), int(words)

    # --- rows ---------------------------------------------------------------------------------------------------------

    def _at(self, connection: sqlite3.Connection, realm: str, identifier: str) -> tuple[int, MemoryEntry] | None:
        rows = connection.execute(
            f"{_ROW} WHERE e.realm = ? AND e.identifier = ?", (realm, identifier_bytes(identifier))
        )
        return next(self._entries(rows), None)

    def _entries(self, rows: sqlite3.Cursor) -> Iterator[tuple[int, MemoryEntry]]:
        """The entries in rows of `_ROW`; a record that cannot be read is skipped with a notice."""
        for row, record, vector, _ in rows:
            try:
                entry = entry_from_record(record, vector)
            except (ValueError, TypeError) as error:
                self._notify("memory_skipped", f"A memory in the database was skipped: {error}.")
                continue
            yield row, self._checked(entry)

    def _insert(self, connection: sqlite3.Connection, realm: str, entry: MemoryEntry, row: int | None) -> None:
        terms = index_terms(entry.content, entry.context)
        values = (
            row,
            realm,
            identifier_bytes(entry.identifier),
            entry.scope.breadth,
            micros(entry.created_at),
            None if entry.expires_at is None else micros(entry.expires_at),
            entry.superseded_by is not None,
            text_digest(entry.content),
            terms.length,
            entry_record(entry),
        )
        cursor = connection.execute("INSERT INTO entries VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", values)
        row = int(cursor.lastrowid or 0)
        connection.execute(
            "INSERT INTO words (rowid, own, near, split) VALUES (?, ?, ?, ?)",
            (row, " ".join(terms.own), " ".join(terms.near), " ".join(terms.split)),
        )
        if entry.tags:
            tags = [(identifier_bytes(tag), row) for tag in entry.tags]
            connection.executemany("INSERT INTO tags VALUES (?, ?)", tags)
        if entry.embedding is not None:
            connection.execute(
                "INSERT INTO vectors VALUES (?, ?, ?)", (row, entry.embedder or "", pack_vector(entry.embedding))
            )
        connection.execute(
            "INSERT INTO realms VALUES (?, 1, ?) ON CONFLICT (name) DO UPDATE"
            " SET entries = entries + 1, words = words + excluded.words",
            (realm, terms.length),
        )
        self._derived.put(row, realm, entry, terms.length)

    def _remove(self, connection: sqlite3.Connection, row: int) -> None:
        """Take an entry out; raises ValueError or TypeError, with nothing done, where its record cannot be read."""
        realm, record, words = connection.execute(
            "SELECT realm, record, words FROM entries WHERE id = ?", (row,)
        ).fetchone()
        entry = entry_from_record(record, None)
        terms = index_terms(entry.content, entry.context)
        # A full-text index without a text of its own must be told what it is to forget.
        connection.execute(
            "INSERT INTO words (words, rowid, own, near, split) VALUES ('delete', ?, ?, ?, ?)",
            (row, " ".join(terms.own), " ".join(terms.near), " ".join(terms.split)),
        )
        connection.executemany(
            "DELETE FROM tags WHERE tag = ? AND entry = ?", [(identifier_bytes(tag), row) for tag in entry.tags]
        )
        connection.execute("DELETE FROM vectors WHERE entry = ?", (row,))
        connection.execute("DELETE FROM entries WHERE id = ?", (row,))
        connection.execute("UPDATE realms SET entries = entries - 1, words = words - ? WHERE name = ?", (words, realm))
        self._derived.remove(row)

    @staticmethod
    def _ended(connection: sqlite3.Connection, realms: Sequence[str], now: datetime) -> list[int]:
        marks = ",".join("?" * len(realms))
        rows = connection.execute(
            "SELECT id FROM entries INDEXED BY entries_by_end"  # noqa: S608 - only placeholders are joined
            f" WHERE ends IS NOT NULL AND ends <= ? AND realm IN ({marks})",
            (micros(now), *realms),
        )
        return [row for (row,) in rows]

    # --- transactions -------------------------------------------------------------------------------------------------

    def _open(self, *, create: bool) -> sqlite3.Connection | None:
        if self._connection is None:
            self._connection = connect(self._path, version=TERMS_VERSION, create=create)
            if self._connection is not None and words_outdated(self._connection, TERMS_VERSION):
                self._reindex(self._connection)
        return self._connection

    @contextlib.contextmanager
    def _reading(self) -> Iterator[sqlite3.Connection | None]:
        """A connection that sees one state of the file throughout; None where there is no file yet."""
        with self._guard, faults():
            connection = self._open(create=False)
            if connection is None or self._depth:
                yield connection
                return
            connection.execute("BEGIN")
            try:
                self._follow(connection)
                yield connection
            finally:
                connection.execute("COMMIT")

    @contextlib.contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        """A connection in a transaction of its own, or in the one that this thread has begun already."""
        with self._guard, faults():
            connection = self._open(create=True)
            if connection is None:
                raise AssertionError("a database that may be made was not made")
            if self._depth == 0:
                connection.execute("BEGIN IMMEDIATE")
                self._follow(connection)
            self._depth += 1
            try:
                yield connection
                if self._depth == 1:
                    connection.execute("COMMIT")
            except BaseException:
                if self._depth == 1:
                    self._derived.forget()
                    if connection.in_transaction:
                        connection.execute("ROLLBACK")
                raise
            finally:
                self._depth -= 1

    def _follow(self, connection: sqlite3.Connection) -> None:
        """Drop what was derived before another process wrote."""
        # Reading a page brings the connection up to date, without which the version would be that of its last look.
        connection.execute("SELECT 1 FROM realms LIMIT 1").fetchone()
        version = connection.execute("PRAGMA data_version").fetchone()[0]
        if version != self._seen:
            self._seen = version
            self._derived.forget()

    def _reindex(self, connection: sqlite3.Connection) -> None:
        """Cut all texts into words anew, since the way of doing so has changed."""
        connection.execute("BEGIN IMMEDIATE")
        try:
            connection.execute("INSERT INTO words (words) VALUES ('delete-all')")
            connection.execute("UPDATE realms SET words = 0")
            for row, entry in self._entries(connection.execute(f"{_ROW}")):
                terms = index_terms(entry.content, entry.context)
                connection.execute(
                    "INSERT INTO words (rowid, own, near, split) VALUES (?, ?, ?, ?)",
                    (row, " ".join(terms.own), " ".join(terms.near), " ".join(terms.split)),
                )
                connection.execute("UPDATE entries SET words = ? WHERE id = ?", (terms.length, row))
            connection.execute(
                "UPDATE realms SET words = (SELECT coalesce(sum(words), 0) FROM entries WHERE realm = realms.name)"
            )
            connection.execute(f"PRAGMA user_version={TERMS_VERSION}")
            connection.execute("COMMIT")
        except BaseException:
            connection.execute("ROLLBACK")
            raise


def _batches(rows: Sequence[int], size: int = _BATCH) -> Iterator[Sequence[int]]:
    for start in range(0, len(rows), size):
        yield rows[start : start + size]


def _where(query: MemoryQuery, realms: Sequence[str], *, by_row: bool = False) -> tuple[str, tuple[Any, ...]]:
    """What a row must pass, as far as it can be said in SQL. Values never become part of the text."""
    # Where the rows are named, the plus keeps the planner from walking through the realm instead.
    column = "+e.realm" if by_row else "e.realm"
    parts = [f"{column} IN ({','.join('?' * len(realms))})"]
    values: list[Any] = [*realms]
    for tag in query.tags or ():
        parts.append("EXISTS (SELECT 1 FROM tags t WHERE t.tag = ? AND t.entry = e.id)")
        values.append(identifier_bytes(tag))
    for bound, test in zip(query.bounds, ("e.created >= ?", "e.created <= ?"), strict=True):
        if bound is not None:
            parts.append(test)
            values.append(micros(bound))
    if not query.superseded:
        parts.append("NOT e.superseded")
    return " AND ".join(parts), tuple(values)

"""The store for a team: PostgreSQL with full text and pgvector, shared by many machines.

Every statement names the realms that it may touch, and row-level security holds it to them. Words are found through a
full-text index of the words that we cut ourselves, so that all back ends find the same; ranking follows `lexical`.
"""

from __future__ import annotations

import contextlib
import hashlib
import threading
from typing import TYPE_CHECKING, Any

from indusagi_lsp.contract.errors import PersistenceFault
from indusagi_lsp.memory.entry import (
    MemoryEntry,
    MemoryScope,
    entry_from_record,
    entry_record,
    identifier_bytes,
    micros,
    pack_vector,
)
from indusagi_lsp.memory.index import DIGITS as COSINE_DIGITS
from indusagi_lsp.memory.lexical import Question, Statistics, best_score, frequency_part, relative_score
from indusagi_lsp.memory.postgres_schema import check_name, is_current, migrate_schema
from indusagi_lsp.memory.query import MemoryQuery, ScoredEntry
from indusagi_lsp.memory.scoring import fuse
from indusagi_lsp.memory.store import BaseStore, Change
from indusagi_lsp.memory.text import TERMS_VERSION, index_terms, text_digest

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from datetime import datetime

LONGEST_VECTOR = 16_000
"""pgvector takes no more numbers; a longer vector is kept, but not searched."""

_PAGE = 16
_ROW = "SELECT id, record, embedding FROM {entries} e"
_ORDER = "ORDER BY created DESC, identifier, breadth"


class PostgresMemoryStore(BaseStore):
    """A `MemoryStore` in a PostgreSQL database of version 14 or newer with pgvector.

    Args:
        address: the database, as a URL or a connection string of libpq.
        schema: where the tables live.
        connections: the most connections at once.
        role: a role to act as; row-level security binds it even where the login is a superuser.
        options: see `BaseStore`.
    """

    def __init__(
        self,
        address: str,
        *,
        schema: str = "indusagi_memory",
        connections: int = 4,
        role: str | None = None,
        **options: Any,
    ) -> None:
        super().__init__(**options)
        check_name(schema)
        self._address = address
        self._schema = schema
        self._connections = connections
        self._role = role
        self._guard = threading.Lock()
        self._pool: Any = None
        self._mine = threading.local()

    def close(self) -> None:
        """See `MemoryStore.close`."""
        with self._guard:
            if self._pool is not None:
                self._pool.close()
            self._pool = None

    # --- primitives -------------------------------------------------------------------------------------------------

    def _evict(self, realms: Sequence[str], now: datetime) -> None:
        with self._working() as run:
            run(
                "DELETE FROM {entries} WHERE ends IS NOT NULL AND ends <= %s AND realm = ANY(%s)",
                (micros(now), list(realms)),
            )

    def _evict_touched(self, realms: Sequence[str], identifier: str, now: datetime) -> None:
        self._evict(realms, now)

    def _load(self, realm: str, identifier: str) -> MemoryEntry | None:
        with self._working() as run:
            found = self._at(run, realm, identifier)
            return found[1] if found else None

    def _transact(self, realms: Sequence[str], identifier: str, change: Change) -> MemoryEntry | None:
        with self._working() as run:
            name = identifier_bytes(identifier)
            # Locks are taken in one order by everybody, so that no two can wait for each other.
            own = sorted({*realms, *self._realms(MemoryScope)})
            for realm in own:
                run("SELECT pg_advisory_xact_lock(%s)", (_lock_number(self._schema, realm, name),))
            found = next((place for realm in realms if (place := self._at(run, realm, identifier))), None)
            new = change(found[1] if found else None)
            if found is not None and new is not found[1]:
                run("DELETE FROM {entries} WHERE id = %s", (found[0],))
            if new is not None and (found is None or new is not found[1]):
                self._insert(run, self.realm(new.scope), new)
            return new

    @contextlib.contextmanager
    def _exclusively(self, realm: str) -> Iterator[None]:
        with self._working() as run:
            run("SELECT pg_advisory_xact_lock(%s)", (_lock_number(self._schema, realm, b"\x00realm"),))
            yield

    def _twin(self, entry: MemoryEntry) -> MemoryEntry | None:
        realm = self.realm(entry.scope)
        self._evict((realm,), self._now())
        with self._working() as run:
            rows = run(
                f"{_ROW} WHERE realm = %s AND digest = %s AND NOT superseded {_ORDER}",
                (realm, text_digest(entry.content)),
            )
            found = (one for _, one in self._entries(rows))
            return next((one for one in found if one.trusted or self._mac is None), None)

    def _filtered(self, query: MemoryQuery, realms: Sequence[str], limit: int | None) -> list[MemoryEntry]:
        where, values = _where(query, realms)
        rest = query.metadata or query.trusted_only
        with self._working() as run:
            rows = run(f"{_ROW} WHERE {where} {_ORDER} LIMIT %s", (*values, None if rest else limit))
            return [entry for _, entry in self._entries(rows) if query.matches(entry)][:limit]

    def _lexical(self, query: MemoryQuery, realms: Sequence[str], limit: int | None) -> list[ScoredEntry]:
        with self._working() as run:
            scores = self._lexical_scores(run, query.text or "", realms)
            return [
                ScoredEntry(entry, scores[row], {"lexical": scores[row]})
                for row, entry in self._in_order(run, scores, query, realms, limit)
            ]

    def _semantic(
        self, vector: Sequence[float], query: MemoryQuery, realms: Sequence[str], limit: int | None
    ) -> list[ScoredEntry]:
        with self._working() as run:
            scores = {row: score for row, score in self._cosines(run, vector, realms).items() if score > 0}
            return [
                ScoredEntry(entry, scores[row], {"semantic": scores[row]})
                for row, entry in self._in_order(run, scores, query, realms, limit)
            ]

    def _fused(
        self, vector: Sequence[float], query: MemoryQuery, realms: Sequence[str], limit: int | None
    ) -> list[ScoredEntry]:
        weight = self._embedder.weight if self._embedder else 0.0
        with self._working() as run:
            words = self._lexical_scores(run, query.text or "", realms)
            meaning = self._cosines(run, vector, realms)
            scores = {row: fuse(words.get(row, 0.0), meaning.get(row), weight) for row in words.keys() | meaning.keys()}
            scores = {row: score for row, score in scores.items() if score > 0}
            hits = []
            for row, entry in self._in_order(run, scores, query, realms, limit):
                parts = {"lexical": words.get(row, 0.0)}
                if row in meaning:
                    parts["semantic"] = meaning[row]
                hits.append(ScoredEntry(entry, scores[row], parts))
            return hits

    # --- ranking ----------------------------------------------------------------------------------------------------

    def _lexical_scores(self, run: Any, text: str, realms: Sequence[str]) -> dict[int, float]:
        question = Question.of(index_terms(text))
        if not question.words:
            return {}
        entries, words = run(
            "SELECT count(*), coalesce(sum(words), 0) FROM {entries} WHERE realm = ANY(%s)", (list(realms),)
        ).fetchone()
        rows = run(
            "SELECT e.id, e.words, q.word, (e.terms ->> q.word)::float8 FROM {entries} e"
            " CROSS JOIN unnest(%s::text[]) AS q (word)"
            " WHERE e.realm = ANY(%s) AND e.lexemes @@ %s::tsquery AND jsonb_exists(e.terms, q.word)",
            (list(question.words), list(realms), " | ".join(f"'{word}'" for word in question.words)),
        ).fetchall()
        holders: dict[str, int] = {}
        for _, _, word, _ in rows:
            holders[word] = holders.get(word, 0) + 1
        statistics = Statistics(entries, int(words), holders)
        average = statistics.average
        # Summed in the order of the question, as every back end does.
        place = {word: number for number, word in enumerate(question.words)}
        raw: dict[int, float] = {}
        for row, length, word, weight in sorted(rows, key=lambda each: place[each[2]]):
            raw[row] = raw.get(row, 0.0) + statistics.rarity(word) * frequency_part(weight, length, average)
        best = best_score(question, statistics)
        return {row: relative_score(score, best) for row, score in raw.items()}

    def _cosines(self, run: Any, vector: Sequence[float], realms: Sequence[str]) -> dict[int, float]:
        embedder = self._embedder.id if self._embedder else ""
        if len(vector) > LONGEST_VECTOR:
            return {}
        rows = run(
            "SELECT id, 1 - (vector OPERATOR(public.<=>) %s::public.vector) FROM {entries}"
            " WHERE realm = ANY(%s) AND embedder = %s AND vector IS NOT NULL AND public.vector_dims(vector) = %s",
            (_vector_text(vector), list(realms), embedder, len(vector)),
        )
        # The cosine to a vector of zeros is no number there, and 0 here.
        return {row: 0.0 if score != score else round(max(0.0, score), COSINE_DIGITS) for row, score in rows}

    def _in_order(
        self, run: Any, scores: Mapping[int, float], query: MemoryQuery, realms: Sequence[str], limit: int | None
    ) -> list[tuple[int, MemoryEntry]]:
        """The entries of scored rows that pass the filters, the best first, at most `limit` of them."""
        if not scores or limit == 0:
            return []
        where, values = _where(query, realms)
        keys = run(
            "SELECT id, created, identifier, breadth FROM {entries}"  # noqa: S608 - only placeholders are joined
            f" WHERE id = ANY(%s) AND {where}",
            (list(scores), *values),
        )
        ranked = sorted((-scores[row], -created, bytes(name), breadth, row) for row, created, name, breadth in keys)
        taken: list[tuple[int, MemoryEntry]] = []
        # No key may be left: the filters take all, or another agent has removed the rows meanwhile.
        size = max(_PAGE, len(ranked) if limit is None else limit)
        for start in range(0, len(ranked), size):
            batch = [key[4] for key in ranked[start : start + size]]
            found = dict(self._entries(run(f"{_ROW} WHERE id = ANY(%s) AND realm = ANY(%s)", (batch, list(realms)))))
            taken += [(row, found[row]) for row in batch if row in found and query.matches(found[row])]
            if limit is not None and len(taken) >= limit:
                break
        return taken[:limit]

    # --- rows -------------------------------------------------------------------------------------------------------

    def _at(self, run: Any, realm: str, identifier: str) -> tuple[int, MemoryEntry] | None:
        rows = run(f"{_ROW} WHERE realm = %s AND identifier = %s", (realm, identifier_bytes(identifier)))
        return next(self._entries(rows), None)

    def _entries(self, rows: Any) -> Iterator[tuple[int, MemoryEntry]]:
        for row, record, embedding in rows:
            try:
                entry = entry_from_record(bytes(record), None if embedding is None else bytes(embedding))
            except (ValueError, TypeError) as error:
                self._notify("memory_skipped", f"A memory in the database was skipped: {error}.")
                continue
            yield row, self._checked(entry)

    def _insert(self, run: Any, realm: str, entry: MemoryEntry) -> None:
        from psycopg.types.json import Jsonb

        terms = index_terms(entry.content, entry.context)
        weights = terms.weights()
        searched = entry.embedding is not None and len(entry.embedding) <= LONGEST_VECTOR
        run(
            "INSERT INTO {entries} (realm, identifier, breadth, created, ends, superseded, digest, words, terms,"
            " lexemes,"
            " tags, record, embedder, embedding, vector)"
            " VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, array_to_tsvector(%s::text[]), %s, %s, %s, %s,"
            " %s::public.vector) ON CONFLICT (realm, identifier) DO UPDATE SET breadth = excluded.breadth,"
            " created = excluded.created, ends = excluded.ends, superseded = excluded.superseded,"
            " digest = excluded.digest,"
            " words = excluded.words, terms = excluded.terms, lexemes = excluded.lexemes, tags = excluded.tags,"
            " record = excluded.record, embedder = excluded.embedder, embedding = excluded.embedding,"
            " vector = excluded.vector",
            (
                realm,
                identifier_bytes(entry.identifier),
                entry.scope.breadth,
                micros(entry.created_at),
                None if entry.expires_at is None else micros(entry.expires_at),
                entry.superseded_by is not None,
                text_digest(entry.content),
                terms.length,
                Jsonb(weights),
                list(weights),
                [identifier_bytes(tag) for tag in entry.tags],
                entry_record(entry),
                entry.embedder,
                None if entry.embedding is None else pack_vector(entry.embedding),
                _vector_text(entry.embedding or ()) if searched else None,
            ),
        )

    def _reindex(self, connection: Any) -> None:
        """Cut all texts into words anew; called within a transaction, before anybody may read the tables."""
        from psycopg import sql
        from psycopg.types.json import Jsonb

        entries = sql.Identifier(self._schema, "entries")
        for (realm,) in connection.execute(sql.SQL("SELECT DISTINCT realm FROM {}").format(entries)).fetchall():
            rows = connection.execute(sql.SQL(_ROW + " WHERE realm = %s").format(entries=entries), (realm,)).fetchall()
            for row, entry in self._entries(rows):
                terms = index_terms(entry.content, entry.context)
                weights = terms.weights()
                connection.execute(
                    sql.SQL(
                        "UPDATE {} SET words = %s, terms = %s, lexemes = array_to_tsvector(%s::text[]) WHERE id = %s"
                    ).format(entries),
                    (terms.length, Jsonb(weights), list(weights), row),
                )

    # --- connections ------------------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def _working(self) -> Iterator[Any]:
        """A function that executes in a transaction: a new one, or the one that this thread is in already."""
        import psycopg
        from psycopg import sql

        running = getattr(self._mine, "run", None)
        if running is not None:
            yield running
            return
        entries = sql.Identifier(self._schema, "entries")
        try:
            with self._opened().connection() as connection, connection.transaction():
                if self._role is not None:
                    connection.execute(sql.SQL("SET LOCAL ROLE {}").format(sql.Identifier(self._role)))
                seen = "\n".join(self._realms(MemoryScope))
                connection.execute("SELECT set_config('indusagi.realms', %s, true)", (seen,))

                def run(statement: str, values: tuple[Any, ...]) -> Any:
                    return connection.execute(sql.SQL(statement).format(entries=entries), values)

                self._mine.run = run
                try:
                    yield run
                finally:
                    self._mine.run = None
        except psycopg.Error as error:
            message = f"The team store cannot be used: {str(error).strip()}"
            raise PersistenceFault(message, hint="Is PostgreSQL running, and is its address right?") from error

    def _opened(self) -> Any:
        from psycopg_pool import ConnectionPool, PoolTimeout

        with self._guard:
            if self._pool is None:
                pool = ConnectionPool(
                    self._address,
                    min_size=1,
                    max_size=self._connections,
                    timeout=30,
                    kwargs={"autocommit": True, "application_name": "indusagi-lsp"},
                    open=False,
                )
                try:
                    pool.open(wait=True, timeout=10)
                    with pool.connection() as connection:
                        if not is_current(connection, self._schema, TERMS_VERSION):
                            migrate_schema(connection, self._schema, terms_version=TERMS_VERSION, reindex=self._reindex)
                except PoolTimeout as error:
                    pool.close()
                    raise PersistenceFault(
                        "The team store does not answer.", hint="Is PostgreSQL running, and is its address right?"
                    ) from error
                except BaseException:
                    pool.close()
                    raise
                self._pool = pool
            return self._pool


def _where(query: MemoryQuery, realms: Sequence[str]) -> tuple[str, tuple[Any, ...]]:
    """What a row must pass, as far as it can be said in SQL. Values never become part of the text."""
    parts = ["realm = ANY(%s)"]
    values: list[Any] = [list(realms)]
    if query.tags:
        parts.append("tags @> %s::bytea[]")
        values.append([identifier_bytes(tag) for tag in query.tags])
    for bound, test in zip(query.bounds, ("created >= %s", "created <= %s"), strict=True):
        if bound is not None:
            parts.append(test)
            values.append(micros(bound))
    if not query.superseded:
        parts.append("NOT superseded")
    return " AND ".join(parts), tuple(values)


def _vector_text(vector: Sequence[float]) -> str:
    return "[" + ",".join(map(repr, map(float, vector))) + "]"


def _lock_number(schema: str, realm: str, name: bytes) -> int:
    """A number for a lock that all clients of the schema agree on."""
    data = schema.encode("ascii") + b"\n" + realm.encode("ascii") + b"\n" + name
    return int.from_bytes(hashlib.sha256(data).digest()[:8], "big", signed=True)

"""The tables of the team store, and how they come about: numbered steps, each applied once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from indusagi_lsp.contract.errors import InvalidInput

if TYPE_CHECKING:
    from collections.abc import Callable

# Times are microseconds since the epoch; `terms` holds each word with its weight, `lexemes` the words alone for the
# index; `record` is the entry as JSON without its vector, `embedding` the vector as it was given, `vector` for search.
# The policy is a second wall: even a statement that forgets the realm sees only those that were named for the session.
# (It does not bind the owner of a database who is a superuser; use a role of its own.)
STEPS: tuple[tuple[str, ...], ...] = (
    (
        """CREATE TABLE {schema}.entries (
            id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, realm text NOT NULL, identifier bytea NOT NULL,
            breadth smallint NOT NULL, created bigint NOT NULL, ends bigint, superseded boolean NOT NULL,
            digest bytea NOT NULL, words integer NOT NULL, terms jsonb NOT NULL, lexemes tsvector NOT NULL,
            tags bytea[] NOT NULL, record bytea NOT NULL, embedder text, embedding bytea, vector {vector},
            UNIQUE (realm, identifier))""",
        "CREATE INDEX entries_by_age ON {schema}.entries (realm, created DESC, identifier)",
        "CREATE INDEX entries_by_end ON {schema}.entries (ends) WHERE ends IS NOT NULL",
        "CREATE INDEX entries_by_text ON {schema}.entries (realm, digest)",
        "CREATE INDEX entries_by_word ON {schema}.entries USING gin (lexemes)",
        "CREATE INDEX entries_by_tag ON {schema}.entries USING gin (tags)",
        "ALTER TABLE {schema}.entries ENABLE ROW LEVEL SECURITY",
        "ALTER TABLE {schema}.entries FORCE ROW LEVEL SECURITY",
        """CREATE POLICY by_realm ON {schema}.entries
            USING (realm = ANY (string_to_array(current_setting('indusagi.realms', true), E'\\n')))""",
    ),
)


def migrate_schema(connection: Any, schema: str, *, terms_version: int, reindex: Callable[[Any], None]) -> None:
    """Bring the tables up to date, in one transaction that holds off everybody else who does the same.

    Args:
        connection: a connection of psycopg, not in a transaction.
        schema: where the tables live; made where it is missing.
        terms_version: how words are cut now.
        reindex: cuts all words anew; called where the stored ones are of another version.

    Raises:
        InvalidInput: the tables are newer than this program.
    """
    from psycopg import sql

    names = {"schema": sql.Identifier(schema), "vector": sql.SQL("public.vector")}
    with connection.transaction():
        connection.execute("SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))", (f"indusagi {schema}",))
        connection.execute(sql.SQL("CREATE SCHEMA IF NOT EXISTS {schema}").format(**names))
        connection.execute("CREATE EXTENSION IF NOT EXISTS vector WITH SCHEMA public")
        connection.execute(
            sql.SQL(
                "CREATE TABLE IF NOT EXISTS {schema}.versions (step integer NOT NULL, terms integer NOT NULL)"
            ).format(**names)
        )
        found = connection.execute(sql.SQL("SELECT step, terms FROM {schema}.versions").format(**names)).fetchone()
        step, terms = found or (0, terms_version)
        if step > len(STEPS):
            raise InvalidInput("The team store is newer than this program.", hint="Update indusagi-lsp.")
        for statements in STEPS[step:]:
            for statement in statements:
                connection.execute(sql.SQL(statement).format(**names))
        if found is None:
            insert = sql.SQL("INSERT INTO {schema}.versions VALUES (%s, %s)").format(**names)
            connection.execute(insert, (len(STEPS), terms_version))
        elif (step, terms) != (len(STEPS), terms_version):
            if terms != terms_version:
                reindex(connection)
            update = sql.SQL("UPDATE {schema}.versions SET step = %s, terms = %s").format(**names)
            connection.execute(update, (len(STEPS), terms_version))


def check_name(schema: str) -> None:
    """Refuse what is no plain name.

    Raises:
        InvalidInput: it has other characters than ASCII letters, digits and `_`, or begins with a digit.
    """
    if not schema.isascii() or not schema.isidentifier():
        message = f"{schema!r} is no name for a schema."
        raise InvalidInput(message)


def is_current(connection: Any, schema: str, terms_version: int) -> bool:
    """Whether the tables are there and up to date; asked first, since it needs no rights but to read."""
    from psycopg import errors, sql

    try:
        with connection.transaction():
            query = sql.SQL("SELECT step, terms FROM {}.versions").format(sql.Identifier(schema))
            return bool(connection.execute(query).fetchone() == (len(STEPS), terms_version))
    except (errors.UndefinedTable, errors.InvalidSchemaName):
        return False

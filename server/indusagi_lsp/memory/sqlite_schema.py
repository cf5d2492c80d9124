"""The database file of a workspace's memory: its tables, how it is opened, and why it is not believed.

The file lies in a folder that somebody else may have filled, so it is opened with everything off that a hostile schema
could use, and is refused unless its tables are exactly ours.
"""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING

from indusagi_lsp.contract.errors import PersistenceFault

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterator
    from pathlib import Path

APPLICATION_ID = 0x494E4D45
"""Marks the file as ours ("INME")."""

BUSY_MS = 30_000
"""Milliseconds to wait for another process that writes."""

# `entries.id` is the row of the full-text index and of the vector. Times are microseconds since the epoch. `breadth`
# is 0 for scope AGENT, 1 for SHARED, 2 for GLOBAL. `words` is the number of indexed words, `record` the entry as JSON
# without its vector. `realms` counts what is in each realm. The full-text index holds no text of its own; its words
# come from `text.index_terms`, so its tokenizer must only split at spaces, which `ascii` does for the words that we
# make.
TABLES = (
    """CREATE TABLE entries (
        id INTEGER PRIMARY KEY, realm TEXT NOT NULL, identifier BLOB NOT NULL, breadth INTEGER NOT NULL,
        created INTEGER NOT NULL, ends INTEGER, superseded INTEGER NOT NULL, digest BLOB NOT NULL,
        words INTEGER NOT NULL, record BLOB NOT NULL, UNIQUE (realm, identifier))""",
    "CREATE INDEX entries_by_age ON entries (realm, created DESC, identifier)",
    "CREATE INDEX entries_by_end ON entries (ends) WHERE ends IS NOT NULL",
    "CREATE INDEX entries_by_text ON entries (realm, digest)",
    "CREATE TABLE realms (name TEXT PRIMARY KEY, entries INTEGER NOT NULL, words INTEGER NOT NULL) WITHOUT ROWID",
    "CREATE TABLE tags (tag BLOB NOT NULL, entry INTEGER NOT NULL, PRIMARY KEY (tag, entry)) WITHOUT ROWID",
    "CREATE TABLE vectors (entry INTEGER PRIMARY KEY, embedder TEXT NOT NULL, data BLOB NOT NULL)",
    "CREATE VIRTUAL TABLE words USING fts5 (own, near, split, content='', columnsize=0, tokenize='ascii')",
    "CREATE VIRTUAL TABLE places USING fts5vocab (words, instance)",
)


def connect(path: Path, *, version: int, create: bool) -> sqlite3.Connection | None:
    """Open the file, and make it where it is missing and may be made.

    Args:
        path: the file; it and the folder that holds it must not be links.
        version: how words are cut. A file with words of another version keeps its entries; see `words_outdated`.
        create: whether to make a missing file (0600, in a folder of 0700).

    Returns:
        The connection, in autocommit mode and usable from any one thread at a time; None where there is no file.

    Raises:
        PersistenceFault: it cannot be opened, is damaged, or is not ours.
    """
    import sqlite3

    with faults():
        _refuse_links(path)
        if not path.exists():
            if not create:
                return None
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            # SQLite gives the files beside it the same mode.
            flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)
            os.close(os.open(path, flags, 0o600))
        connection = sqlite3.connect(
            path, timeout=BUSY_MS / 1000, isolation_level=None, check_same_thread=False, cached_statements=256
        )
        try:
            _prepare(connection, version)
        except BaseException:
            connection.close()
            raise
        return connection


@contextlib.contextmanager
def faults() -> Iterator[None]:
    """Turn what the database or the disk raises into a fault for people."""
    import sqlite3

    try:
        yield
    except sqlite3.DatabaseError as error:
        message = f"The memory database cannot be used: {error}."
        raise PersistenceFault(message, hint="Is it damaged? Move the file away to begin anew.") from error
    except OSError as error:
        message = f"The memory database cannot be used: {error.strerror}."
        raise PersistenceFault(message) from error


def words_outdated(connection: sqlite3.Connection, version: int) -> bool:
    """Whether the full-text index was made with another way of cutting words."""
    return bool(connection.execute("PRAGMA user_version").fetchone()[0] != version)


def _refuse_links(path: Path) -> None:
    parents = (path.parent, path.parent.parent) if path.parent.parent.name == ".indusagi" else (path.parent,)
    beside = tuple(path.with_name(path.name + suffix) for suffix in ("-wal", "-shm", "-journal"))
    for item in (path, *beside, *parents):
        if item.is_symlink():
            message = f"{item.name} is a link, so the memory in it is not used."
            raise PersistenceFault(message)


def _prepare(connection: sqlite3.Connection, version: int) -> None:
    for pragma in (
        f"busy_timeout={BUSY_MS}",
        "trusted_schema=OFF",
        "cell_size_check=ON",
        "mmap_size=0",
        "journal_mode=WAL",
        "synchronous=FULL",
        "foreign_keys=OFF",
        "temp_store=MEMORY",
    ):
        connection.execute(f"PRAGMA {pragma}")
    if not _shape(connection):
        connection.execute("BEGIN IMMEDIATE")
        try:
            # Another process may have been faster.
            if not _shape(connection):
                for statement in TABLES:
                    connection.execute(statement)
                connection.execute(f"PRAGMA application_id={APPLICATION_ID}")
                connection.execute(f"PRAGMA user_version={version}")
            connection.execute("COMMIT")
        except BaseException:
            connection.execute("ROLLBACK")
            raise
    if _shape(connection) != _expected_shape():
        raise PersistenceFault(
            "The memory database has tables that are not known here.", hint="Move the file away to begin anew."
        )


def _shape(connection: sqlite3.Connection) -> list[tuple[str, str, str]]:
    """Every table, index, view and trigger, with the text that makes it."""
    return connection.execute("SELECT type, name, coalesce(sql, '') FROM sqlite_schema ORDER BY type, name").fetchall()


def _expected_shape() -> list[tuple[str, str, str]]:
    import sqlite3

    with contextlib.closing(sqlite3.connect(":memory:")) as model:
        for statement in TABLES:
            model.execute(statement)
        return _shape(model)

"""Full-text search over all sessions and all their branches: a hit is a node, with a snippet of what it says.

The index is an SQLite FTS5 table beside the sessions, derived from them: it may be deleted at any time, and
it is brought up to date before each search by reading only what is new in the files. It holds no text:
snippets are read from the sessions, so what is shown is what is there.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec

from indusagi_lsp.sessions.folder import CACHE, SessionFolder
from indusagi_lsp.sessions.oscalls import OsCalls, read_exactly
from indusagi_lsp.sessions.records import Record, decode, open_fd, open_regular, parse_line
from indusagi_lsp.sessions.scan import narrow_node
from indusagi_lsp.sessions.words import index_text, match_query, snippet_of, words_of

if TYPE_CHECKING:
    import sqlite3
    from pathlib import Path

Progress: TypeAlias = Callable[[int, int], None]
"""Called with how many files are done, and how many there are."""

DATABASE = "search.sqlite"

_VERSION = 1
_FILES = """\
CREATE TABLE files(
  id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT UNIQUE NOT NULL, mtime_ns INTEGER NOT NULL,
  size INTEGER NOT NULL, inode INTEGER NOT NULL, offset INTEGER NOT NULL, before BLOB NOT NULL)"""
_NODES = """\
CREATE TABLE nodes(
  id INTEGER PRIMARY KEY AUTOINCREMENT, file INTEGER NOT NULL, node TEXT NOT NULL, role TEXT NOT NULL,
  at INTEGER NOT NULL, offset INTEGER NOT NULL, length INTEGER NOT NULL, UNIQUE(file, node))"""
_WORDS = "CREATE VIRTUAL TABLE words USING fts5(text, content='', tokenize='unicode61 remove_diacritics 2')"
_SCHEMA = (_FILES, _NODES, _WORDS)
_SQLITE_OWN = "CREATE TABLE sqlite_sequence(name,seq)"
_SHADOWS = frozenset({"words_data", "words_idx", "words_docsize", "words_config"})
_CANDIDATES = 400
_BEFORE = 64


class Hit(msgspec.Struct, frozen=True):
    """One node that holds all the words: where it is, what it says, and where in `snippet` the words stand.

    `spans` are (start, end) in characters. `at` is milliseconds since the epoch. A lower `score` is better.
    """

    session_id: str
    node: str
    role: str
    at: int
    snippet: str
    spans: tuple[tuple[int, int], ...]
    score: float


class Found(msgspec.Struct, frozen=True):
    """The hits, the best first; `more` says that there are others, `problems` names unreadable files."""

    hits: tuple[Hit, ...] = ()
    more: bool = False
    problems: tuple[str, ...] = ()


class _File(msgspec.Struct, frozen=True):
    id: int
    mtime_ns: int
    size: int
    inode: int
    offset: int
    before: bytes


class SearchIndex:
    """Search over the sessions in one folder.

    Args of the constructor: `root` is the folder of the session files; `database` is where the index is kept,
    by default beside them.
    """

    def __init__(self, root: Path, database: Path | None = None) -> None:
        self._folder = SessionFolder(root)
        self._own_place = database is None
        self._path = database or root / CACHE / DATABASE
        self._lock = threading.Lock()
        self._db: sqlite3.Connection | None = None
        self._identity: tuple[int, int] | None = None
        self._finalizer: weakref.finalize[..., SearchIndex] | None = None

    async def search(
        self,
        query: str,
        *,
        limit: int = 20,
        sessions: Iterable[str] | None = None,
        roles: Iterable[str] | None = None,
        progress: Progress | None = None,
    ) -> Found:
        """Find the nodes that hold all the words of `query`.

        Args:
            query: words; each may hold any characters.
            limit: how many hits at most.
            sessions: only these sessions, by id.
            roles: only turns of these roles.
            progress: told of the reading of new files, in another thread.

        Raises:
            PersistenceFault: the folder of the sessions cannot be read.
        """
        wanted = None if sessions is None else frozenset(sessions)
        kinds = None if roles is None else frozenset(roles)
        return await asyncio.to_thread(self._search, query, limit, wanted, kinds, progress)

    async def update(self, progress: Progress | None = None) -> tuple[str, ...]:
        """Bring the index up to date; returns the names of files that could not be read."""
        return await asyncio.to_thread(self._with_database, lambda db: self._update(db, progress))

    def _search(
        self,
        query: str,
        limit: int,
        sessions: frozenset[str] | None,
        roles: frozenset[str] | None,
        progress: Progress | None,
    ) -> Found:
        expression = match_query(query)
        if expression is None or limit < 1:
            return Found()

        def find(db: sqlite3.Connection) -> Found:
            problems = self._update(db, progress)
            rows = _candidates(db, expression, sessions, roles)
            hits: list[Hit] = []
            for row in rows:
                hit = self._hit(row, query)
                if hit is not None:
                    hits.append(hit)
                if len(hits) > limit:
                    break

            return Found(tuple(hits[:limit]), len(hits) > limit, problems)

        found: Found = self._with_database(find)
        return found

    def _hit(self, row: Sequence[Any], query: str) -> Hit | None:
        """Read the node again, to show what it says; None if it is not there any more."""
        name, node, role, at, offset, length, score = row
        try:
            descriptor = open_fd(self._folder.path(name))
            try:
                found = narrow_node(decode(read_exactly(OsCalls(), descriptor, length, offset)))
            finally:
                os.close(descriptor)
        except (OSError, ValueError, AttributeError):
            return None

        if found is None or found[0] != node:
            return None

        snippet, spans = snippet_of(words_of(found[2]), query)
        return Hit(name, node, role, at, snippet, spans, score)

    def close(self) -> None:
        """Give the database back. The index can be used again afterwards."""
        with self._lock:
            self._shut()

    def _with_database(self, work: Callable[[sqlite3.Connection], Any]) -> Any:
        """Do `work` on the database; one that is broken, or not of our making, is made anew."""
        import sqlite3

        with self._lock:
            for attempt in range(2):
                try:
                    return work(self._database())
                except sqlite3.DatabaseError as error:
                    self._shut()
                    busy = isinstance(error, sqlite3.OperationalError) and "lock" in str(error)
                    if attempt or busy:
                        raise
                    self._remove()

        raise AssertionError("unreachable")

    def _database(self) -> sqlite3.Connection:
        """The open database, if the file that it was opened from is still there; else a new one."""
        try:
            status = self._path.lstat()
            found = (status.st_dev, status.st_ino)
        except OSError:
            found = None
        if self._db is None or found != self._identity:
            self._shut()
            self._db = db = self._open()
            self._identity = (self._path.lstat().st_dev, self._path.lstat().st_ino)
            self._finalizer = weakref.finalize(self, db.close)

        return self._db

    def _shut(self) -> None:
        if self._finalizer is not None:
            self._finalizer()
        self._db = self._finalizer = None

    def _open(self) -> sqlite3.Connection:
        import sqlite3

        if self._own_place:
            self._folder.ensure(CACHE)
        else:
            self._path.parent.mkdir(parents=True, exist_ok=True)
        if self._path.is_symlink():
            self._path.unlink()
        # SQLite makes its other files with the mode of the database.
        with contextlib.suppress(FileExistsError):
            os.close(os.open(self._path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))

        db = sqlite3.connect(self._path, timeout=10.0, isolation_level=None, check_same_thread=False)
        try:
            for setting in ("trusted_schema=OFF", "cell_size_check=ON", "journal_mode=WAL", "synchronous=OFF"):
                db.execute(f"PRAGMA {setting}")
            if not _is_ours(db):
                _make(db)
        except BaseException:
            db.close()
            raise

        return db

    def _remove(self) -> None:
        for ending in ("", "-wal", "-shm", "-journal"):
            self._path.with_name(self._path.name + ending).unlink(missing_ok=True)

    def _update(self, db: sqlite3.Connection, progress: Progress | None) -> tuple[str, ...]:
        known = {
            row[1]: _File(row[0], *row[2:])
            for row in db.execute("SELECT id, name, mtime_ns, size, inode, offset, before FROM files")
        }
        problems: list[str] = []
        stale: list[tuple[str, os.stat_result]] = []
        seen: set[str] = set()
        for name, entry in self._folder.entries():
            seen.add(name)
            try:
                status = entry.stat(follow_symlinks=False)
            except OSError:
                continue

            old = known.get(name)
            if old is None or (old.mtime_ns, old.size, old.inode) != (
                status.st_mtime_ns,
                status.st_size,
                status.st_ino,
            ):
                stale.append((name, status))

        gone = [known[name].id for name in known if name not in seen]
        if gone or stale:
            for file in gone:
                with _transaction(db):
                    _forget(db, file)
            for done, (name, status) in enumerate(stale):
                if progress is not None:
                    progress(done, len(stale))
                try:
                    self._read(db, name, status)
                except OSError:
                    problems.append(name)
            if progress is not None:
                progress(len(stale), len(stale))
            _shrink(db)

        return tuple(problems)

    def _read(self, db: sqlite3.Connection, name: str, status: os.stat_result) -> None:
        """Take what is new in one file."""
        with open_regular(self._folder.path(name)) as file, _transaction(db):
            # Read again inside the transaction: another process may have done the work meanwhile.
            row = db.execute(
                "SELECT id, mtime_ns, size, inode, offset, before FROM files WHERE name = ?", (name,)
            ).fetchone()
            old = None if row is None else _File(*row)
            start = 0
            if old is not None:
                if old.inode == status.st_ino and _continues(file, old):
                    start = old.offset
                else:
                    _forget(db, old.id)
                    old = None

            file_id = old.id if old is not None else _insert_file(db, name)
            offset, before = start, old.before if old is not None else b""
            file.seek(start)
            for line in file:
                for item in parse_line(line, offset):
                    if isinstance(item, Record):
                        _insert_node(db, file_id, item)
                if not line.endswith(b"\n"):
                    # It may still grow; it is read again the next time, and known then.
                    break

                offset += len(line)
                before = (before + line)[-_BEFORE:]

            db.execute(
                "UPDATE files SET mtime_ns = ?, size = ?, inode = ?, offset = ?, before = ? WHERE id = ?",
                (status.st_mtime_ns, status.st_size, status.st_ino, offset, before, file_id),
            )


def _candidates(
    db: sqlite3.Connection, expression: str, sessions: frozenset[str] | None, roles: frozenset[str] | None
) -> list[Sequence[Any]]:
    """The newest matching nodes, the best of them first. What was forgotten falls out at the join."""
    where, values = ["words MATCH ?"], [expression]
    for column, wanted in (("files.name", sessions), ("nodes.role", roles)):
        if wanted is not None:
            where.append(f"{column} IN ({','.join('?' * len(wanted))})")
            values.extend(wanted)
    # Only names of columns and question marks are put into the statement; the values are bound.
    statement = f"""\
SELECT files.name, nodes.node, nodes.role, nodes.at, nodes.offset, nodes.length, bm25(words)
FROM words JOIN nodes ON nodes.id = words.rowid JOIN files ON files.id = nodes.file
WHERE {" AND ".join(where)} ORDER BY words.rowid DESC LIMIT {_CANDIDATES}"""  # noqa: S608 - see above
    rows = db.execute(statement, values).fetchall()
    return sorted(rows, key=lambda row: row[6])


@contextlib.contextmanager
def _transaction(db: sqlite3.Connection) -> Iterator[None]:
    db.execute("BEGIN IMMEDIATE")
    try:
        yield
    except BaseException:
        db.execute("ROLLBACK")
        raise

    db.execute("COMMIT")


def _is_ours(db: sqlite3.Connection) -> bool:
    """Whether the database has our tables and nothing else: it lies where others can put one."""
    if db.execute("PRAGMA user_version").fetchone()[0] != _VERSION:
        return False

    found = {
        sql
        for name, sql in db.execute("SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL")
        if name not in _SHADOWS
    }
    return found - {_SQLITE_OWN} == set(_SCHEMA)


def _make(db: sqlite3.Connection) -> None:
    import sqlite3

    with _transaction(db):
        if _is_ours(db):
            return

        if db.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
            raise sqlite3.DatabaseError("not our index")
        for statement in _SCHEMA:
            db.execute(statement)
        db.execute(f"PRAGMA user_version = {_VERSION}")


def _forget(db: sqlite3.Connection, file: int) -> None:
    """Take a file out. Its words stay until the index is made anew; without nodes they are never found."""
    db.execute("DELETE FROM nodes WHERE file = ?", (file,))
    db.execute("DELETE FROM files WHERE id = ?", (file,))


def _shrink(db: sqlite3.Connection) -> None:
    """Begin anew where most of the words belong to nodes that were forgotten."""
    import sqlite3

    ever = db.execute("SELECT coalesce(max(seq), 0) FROM sqlite_sequence WHERE name = 'nodes'").fetchone()[0]
    alive = db.execute("SELECT count(*) FROM nodes").fetchone()[0]
    if ever > 20_000 and ever > 3 * alive:
        raise sqlite3.DatabaseError("the index holds too much that is gone")


def _continues(file: Any, old: _File) -> bool:
    """Whether the file still has, before our place in it, what it had there."""
    file.seek(max(0, old.offset - len(old.before)))
    found = file.read(len(old.before))
    return bool(found == old.before and len(found) == min(old.offset, _BEFORE))


def _insert_file(db: sqlite3.Connection, name: str) -> int:
    cursor = db.execute(
        "INSERT INTO files(name, mtime_ns, size, inode, offset, before) VALUES(?, 0, 0, 0, 0, x'')", (name,)
    )
    return int(cursor.lastrowid or 0)


def _insert_node(db: sqlite3.Connection, file: int, record: Record) -> None:
    found = narrow_node(record.raw)
    if found is None:
        return

    node, _, turn, at = found
    when = int(at) if -(2**62) < at < 2**62 else 0  # NaN fails the test too
    cursor = db.execute(
        "INSERT OR IGNORE INTO nodes(file, node, role, at, offset, length) VALUES(?, ?, ?, ?, ?, ?)",
        (file, _plain(node), _plain(turn.role), when, record.offset, record.length),
    )
    if cursor.rowcount == 1:
        text = index_text(words_of(turn))
        db.execute("INSERT INTO words(rowid, text) VALUES(?, ?)", (cursor.lastrowid, text))


def _plain(text: str) -> str:
    return text.encode("utf-8", "replace").decode()

"""What the SQLite store holds in memory of its rows, so that ranking need not read them: words, realms, vectors.

All of it is made from the file when it is first asked for, kept up with the store's own writes, and forgotten when
another process writes. The store guards it against several threads.
"""

from __future__ import annotations

import hashlib
from array import array
from typing import TYPE_CHECKING

from indusagi_lsp.memory import neighbours
from indusagi_lsp.memory.neighbours import Neighbours

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from indusagi_lsp.memory.entry import MemoryEntry
    from indusagi_lsp.memory.matrix import Matrix


class Sizes:
    """The number of words and the realm of each entry, by row number."""

    def __init__(self) -> None:
        self.words = array("L")
        self.realms = array("l")
        self.numbers: dict[str, int] = {}

    def put(self, row: int, realm: str, words: int) -> None:
        """Take an entry in, in place of what was in its row."""
        missing = row + 1 - len(self.words)
        if missing > 0:
            self.words.extend([0] * missing)
            self.realms.extend([-1] * missing)
        self.words[row] = words
        self.realms[row] = self.number(realm)

    def remove(self, row: int) -> None:
        """Forget an entry."""
        self.realms[row] = -1

    def number(self, realm: str) -> int:
        """The number of a realm, by which `realms` and the matrices name it."""
        return self.numbers.setdefault(realm, len(self.numbers))

    def confined_to(self, realms: Sequence[str]) -> frozenset[int] | None:
        """The numbers of some realms; None where those are all that there are, so that nothing need be looked at."""
        if self.numbers.keys() <= set(realms):
            return None
        return frozenset(self.numbers[realm] for realm in realms if realm in self.numbers)


class Derived:
    """The sizes of all entries, and a matrix for each embedder and length of vector.

    Args:
        path: the database; copies of indexes lie beside it.
        mac: proves that such a copy is this user's.
    """

    def __init__(self, path: Path, mac: Callable[[bytes], str] | None) -> None:
        self._path = path
        self._mac = mac
        self._sizes: Sizes | None = None
        self._matrices: dict[tuple[str, int], Matrix] = {}
        self._neighbours: dict[tuple[str, int], Neighbours] = {}

    def sizes(self, connection: sqlite3.Connection) -> Sizes:
        """The number of words and the realm of every entry."""
        if self._sizes is None:
            sizes = Sizes()
            for row, realm, words in connection.execute("SELECT id, realm, words FROM entries"):
                sizes.put(row, realm, words)
            self._sizes = sizes
        return self._sizes

    def matrix(self, connection: sqlite3.Connection, embedder: str, length: int) -> Matrix:
        """The vectors of one embedder; a spoilt one is left out."""
        matrix = self._matrices.get((embedder, length))
        if matrix is None:
            from indusagi_lsp.memory.index import load_numpy
            from indusagi_lsp.memory.matrix import Matrix

            matrix = Matrix(length)
            sizes = self.sizes(connection)
            cursor = connection.execute(
                "SELECT entry, data FROM vectors WHERE embedder = ? AND length(data) = ?", (embedder, 4 * length)
            )
            numpy = load_numpy()
            while rows := cursor.fetchmany(4096):
                vectors = numpy.frombuffer(b"".join(data for _, data in rows), "<f4").reshape(-1, length)
                sound = numpy.isfinite(vectors).all(axis=1)
                vectors = vectors[sound]
                ids = [row for (row, _), fit in zip(rows, sound, strict=True) if fit]
                matrix.put(ids, [sizes.realms[row] for row in ids], vectors)
            self._matrices[embedder, length] = matrix
        if not matrix.is_looked_up and len(matrix) >= neighbours.FROM and neighbours.is_available():
            key = hashlib.sha256(f"{embedder}\0{length}".encode()).hexdigest()[:16]
            beside = self._path.with_name(f"{self._path.name}-near-{key}")
            if (embedder, length) not in self._neighbours:
                self._neighbours[embedder, length] = Neighbours(length, path=beside, mac=self._mac)
            matrix.look_up_with(self._neighbours[embedder, length])
        return matrix

    def put(self, row: int, realm: str, entry: MemoryEntry, words: int) -> None:
        """An entry was written to a row."""
        if self._sizes is None:
            # Nothing was asked for yet; the matrices are made after the sizes.
            return
        self._sizes.put(row, realm, words)
        if entry.embedding is None:
            return
        matrix = self._matrices.get((entry.embedder or "", len(entry.embedding)))
        if matrix is not None:
            from indusagi_lsp.memory.index import load_numpy

            vectors = load_numpy().asarray([entry.embedding], "<f4")
            matrix.put([row], [self._sizes.number(realm)], vectors)

    def remove(self, row: int) -> None:
        """A row was removed."""
        if self._sizes is not None:
            self._sizes.remove(row)
        for matrix in self._matrices.values():
            matrix.remove(row)

    def forget(self) -> None:
        """The file has changed in a way that is not known here."""
        self._sizes = None
        self._matrices.clear()
        # What they know stays, and is compared with the matrices to come.
        for near in self._neighbours.values():
            near.follow(None)

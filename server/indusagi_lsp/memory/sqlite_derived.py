"""What the SQLite store holds in memory of its rows, so that ranking need not read them: words, realms, vectors.

All of it is made from the file when it is first asked for, kept up with the store's own writes, and forgotten when
another process writes. The store guards it against several threads.
"""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Sequence

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
    """The sizes of all entries, and a matrix for each embedder and length of vector."""

    def __init__(self) -> None:
        self._sizes: Sizes | None = None
        self._matrices: dict[tuple[str, int], Matrix] = {}

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

"""The seed's in-memory index: cosine similarity over embedded entries, one pass of NumPy over a float32 matrix."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from indusagi_lsp.contract.errors import InvalidInput, InvalidState
from indusagi_lsp.memory.entry import MemoryEntry, newest_first
from indusagi_lsp.memory.query import ScoredEntry

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import numpy as np
    import numpy.typing as npt

DIGITS = 6
"""Similarities are rounded to this many digits: 32-bit floats tell no more, and equal ones must tie everywhere."""


def load_numpy() -> Any:
    """Import NumPy, at the first use.

    Raises:
        InvalidState: it is not installed.
    """
    try:
        import numpy as np
    except ImportError:
        msg = "Search by meaning needs NumPy, which is not installed."
        raise InvalidState(msg, hint="Install indusagi-lsp[embeddings].") from None
    return np


class MemoryIndex:
    """In-memory cosine-similarity index over embedded entries.

    Entries without a vector are left out. All vectors have one length.
    """

    def __init__(self, entries: Iterable[MemoryEntry] = ()) -> None:
        self._entries: list[MemoryEntry] = []
        self._rows: npt.NDArray[np.float32] | None = None
        self.add(entries)

    def __len__(self) -> int:
        return len(self._entries)

    def add(self, entries: Iterable[MemoryEntry]) -> None:
        """Take more entries in.

        Raises:
            InvalidInput: a vector has another length than those already here.
        """
        fresh = [entry for entry in entries if entry.embedding]
        if not fresh:
            return
        rows = unit_rows([entry.embedding or () for entry in fresh])
        if self._rows is None:
            self._rows = rows
        else:
            if rows.shape[1] != self._rows.shape[1]:
                raise InvalidInput("All vectors of an index must have the same length.")
            self._rows = load_numpy().concatenate((self._rows, rows))
        self._entries.extend(fresh)

    def scores(self, query_vector: Sequence[float]) -> list[float]:
        """The cosine of every entry to `query_vector`, -1 to 1, in the order in which they were added.

        Raises:
            InvalidInput: the vector has another length than those of the index.
        """
        if self._rows is None:
            return []
        return cosines(self._rows, query_vector)

    def search(
        self, query_vector: Sequence[float], max_results: int = 10, min_relevance: float = 0.0
    ) -> list[ScoredEntry]:
        """The entries nearest in meaning.

        Args:
            query_vector: as long as the entries' vectors.
            max_results: the most hits.
            min_relevance: the least cosine of a hit.

        Returns:
            Hits by falling cosine; equal ones the newest first, then by identifier.
        """
        hits = [
            ScoredEntry(entry, score, {"semantic": score})
            for entry, score in zip(self._entries, self.scores(query_vector), strict=True)
            if score >= min_relevance
        ]
        hits.sort(key=lambda hit: (-hit.score, *newest_first(hit.entry)))
        return hits[:max_results]


def unit_rows(vectors: npt.ArrayLike) -> npt.NDArray[np.float32]:
    """Vectors as the rows of a matrix, each of length 1; a vector of zeros stays one.

    Raises:
        InvalidInput: they differ in length, or hold something that is not finite.
    """
    numpy = load_numpy()
    try:
        rows = numpy.asarray(vectors, dtype=numpy.float32)
    except ValueError:
        raise InvalidInput("All vectors of an index must have the same length.") from None
    if rows.ndim != 2 or not numpy.isfinite(rows).all():
        raise InvalidInput("A vector holds finite numbers, as many as the others.")
    norms = numpy.linalg.norm(rows, axis=1, keepdims=True)
    return rows / numpy.where(norms == 0, 1, norms)  # type: ignore[no-any-return]  # NumPy is imported late


def cosines(rows: npt.NDArray[np.float32], query_vector: Sequence[float]) -> list[float]:
    """The cosine of each row (of length 1) to a vector of any length.

    Raises:
        InvalidInput: it has another number of dimensions.
    """
    query = unit_rows([query_vector])[0]
    if rows.shape[1] != query.shape[0]:
        msg = f"The vector has {query.shape[0]} numbers, those of the index have {rows.shape[1]}."
        raise InvalidInput(msg)
    return [round(score, DIGITS) for score in (rows @ query).tolist()]

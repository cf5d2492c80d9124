"""Vectors of one embedder as the rows of a matrix, for exact search by one pass of NumPy.

Where there are very many, an index names the candidates; the scores are those of the matrix all the same.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from indusagi_lsp.memory.index import load_numpy, unit_rows

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    import numpy as np
    import numpy.typing as npt

    from indusagi_lsp.memory.neighbours import Neighbours

MARGIN = 2e-6
"""Two similarities that round to the same six digits differ by less."""

MOST_LOOKED_UP = 64
"""The largest first portion for which the candidates of an index do; with more, all rows are looked at."""


class Matrix:
    """Rows of unit length with a number each, and a group each that searches can be confined to.

    Args:
        length: how many numbers a vector has.
    """

    def __init__(self, length: int) -> None:
        numpy = load_numpy()
        self._numpy = numpy
        self._rows: npt.NDArray[np.float32] = numpy.zeros((16, length), numpy.float32)
        self._ids: npt.NDArray[np.int64] = numpy.zeros(16, numpy.int64)
        self._groups: npt.NDArray[np.int32] = numpy.full(16, -1, numpy.int32)
        self._place: dict[int, int] = {}
        self._end = 0
        # Against the thread of the index, which reads while the store writes.
        self._guard = threading.RLock()
        self._neighbours: Neighbours | None = None

    def __len__(self) -> int:
        return len(self._place)

    @property
    def length(self) -> int:
        """How many numbers a vector has."""
        return int(self._rows.shape[1])

    @property
    def is_looked_up(self) -> bool:
        """Whether there is an index over the rows."""
        return self._neighbours is not None

    def look_up_with(self, neighbours: Neighbours) -> None:
        """Let an index name the candidates of a search, as soon as it is ready."""
        self._neighbours = neighbours
        neighbours.follow(self)

    def numbers(self) -> npt.NDArray[np.int64]:
        """The numbers of all rows."""
        with self._guard:
            return self._ids[: self._end].copy()

    def rows(self, ids: Collection[int]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float32]]:
        """Those of certain rows that are here: their numbers, and a copy of each."""
        with self._guard:
            known = [number for number in ids if number in self._place]
            places = [self._place[number] for number in known]
            return self._numpy.asarray(known, self._numpy.int64), self._rows[places]

    def put(self, ids: Sequence[int], groups: Sequence[int], vectors: npt.ArrayLike) -> None:
        """Take rows in, in place of those of the same numbers.

        Args:
            ids: a number for each row.
            groups: the group of each row, 0 or more.
            vectors: one row each, of any length but 0; they are made unit vectors.
        """
        with self._guard:
            for number in ids:
                self._drop(number)
            self._grow(self._end + len(ids))
            piece = slice(self._end, self._end + len(ids))
            self._rows[piece] = unit_rows(vectors)
            self._ids[piece] = ids
            self._groups[piece] = groups
            self._place.update(zip(ids, range(piece.start, piece.stop), strict=True))
            self._end = piece.stop
        self._tell(ids)

    def remove(self, number: int) -> None:
        """Drop a row; nothing happens where there is none. The last row takes its place."""
        with self._guard:
            if not self._drop(number):
                return
        self._tell((number,))

    def _drop(self, number: int) -> bool:
        place = self._place.pop(number, None)
        if place is None:
            return False
        self._end -= 1
        if place != self._end:
            self._rows[place] = self._rows[self._end]
            self._ids[place] = self._ids[self._end]
            self._groups[place] = self._groups[self._end]
            self._place[int(self._ids[place])] = place
        return True

    def _tell(self, ids: Sequence[int]) -> None:
        """Tell the index of changed rows; not under the guard, since the index asks for rows under its own."""
        if self._neighbours is not None:
            for number in ids:
                self._neighbours.changed(number)

    def nearest(
        self,
        vector: Sequence[float],
        groups: Collection[int] | None,
        first: int,
        lexical: Mapping[int, float] | None = None,
        weight: float = 1.0,
    ) -> Iterator[dict[int, float]]:
        """The rows of some groups by falling score, in growing portions.

        The score is the cosine, nothing less than 0, or where there are lexical scores, both fused as `fuse` does.

        Args:
            vector: as long as the rows.
            groups: the groups to look into; None for all.
            first: the size of the first portion.
            lexical: scores by number, also of what has no row here; all of them are of these groups.
            weight: how much the cosine counts.

        Yields:
            Scores by number. No row of a later portion is better than one of an earlier, and rows whose scores
            cannot be told apart are in one portion. Where an index names the candidates of the first portion, a row
            that it has missed comes in a later one.
        """
        numpy = self._numpy
        early = self._looked_up(vector, groups, first, lexical or {}, weight)
        if early:
            yield early
        ids = self._ids[: self._end]
        scores = numpy.maximum(self._rows[: self._end] @ unit_rows([vector])[0], 0)
        if lexical is not None:
            scores = scores.astype(numpy.float64) * weight
            known = [number for number in lexical if number in self._place]
            places = [self._place[number] for number in known]
            scores[places] += (1 - weight) * numpy.asarray([lexical[number] for number in known])
            bare = [number for number in lexical if number not in self._place]
            ids = numpy.concatenate((ids, numpy.asarray(bare, numpy.int64)))
            scores = numpy.concatenate((scores, numpy.asarray([lexical[number] for number in bare])))
        if groups is not None:
            mask = numpy.isin(self._groups[: self._end], list(groups))
            scores[: self._end][~mask] = -numpy.inf
        if early:
            scores[numpy.isin(ids, list(early))] = -numpy.inf
        ceiling, size = numpy.inf, max(first, 1)
        while True:
            if size >= len(scores):
                floor = -2.0
            else:
                floor = float(numpy.partition(scores, len(scores) - size)[len(scores) - size]) - MARGIN
            chosen = numpy.flatnonzero((scores >= max(floor, 0)) & (scores < ceiling))
            yield dict(zip(ids[chosen].tolist(), scores[chosen].tolist(), strict=True))
            if floor <= 0:
                return
            ceiling, size = floor, size * 8

    def _looked_up(
        self,
        vector: Sequence[float],
        groups: Collection[int] | None,
        first: int,
        lexical: Mapping[int, float],
        weight: float,
    ) -> dict[int, float]:
        """The first portion, from the index; nothing where that would not help.

        A row that the index does not name is no nearer than the farthest that it names. So whatever scores better than
        such a row could, be it named or known by its words, is among the best.
        """
        if self._neighbours is None or first > MOST_LOOKED_UP or len(lexical) > len(self) // 8:
            return {}
        named = self._neighbours.candidates(vector)
        near = self.cosine(vector, named or ())
        if not near:
            return {}
        cosines = near | self.cosine(vector, [number for number in lexical if number not in near])
        floor = max(weight * min(near.values()), 0) + MARGIN
        if groups is not None:
            allowed = set(groups)
            cosines = {row: cosine for row, cosine in cosines.items() if self._groups[self._place[row]] in allowed}
        # Without words the cosine is the score; what has words alone keeps theirs, as `fuse` does.
        scores = {
            row: weight * max(cosine, 0.0) + (1 - weight) * lexical.get(row, 0.0) for row, cosine in cosines.items()
        }
        scores |= {row: score for row, score in lexical.items() if row not in self._place}
        return {row: score for row, score in scores.items() if score > floor}

    def cosine(self, vector: Sequence[float], ids: Sequence[int]) -> dict[int, float]:
        """The cosines of certain rows, by number; numbers without a row are left out."""
        known = [number for number in ids if number in self._place]
        if not known:
            return {}
        rows = self._rows[[self._place[number] for number in known]]
        return dict(zip(known, (rows @ unit_rows([vector])[0]).tolist(), strict=True))

    def _grow(self, needed: int) -> None:
        capacity = len(self._ids)
        if needed <= capacity:
            return
        while capacity < needed:
            capacity *= 2
        numpy = self._numpy
        extra = capacity - len(self._ids)
        self._rows = numpy.concatenate((self._rows, numpy.zeros((extra, self.length), numpy.float32)))
        self._ids = numpy.concatenate((self._ids, numpy.zeros(extra, numpy.int64)))
        self._groups = numpy.concatenate((self._groups, numpy.full(extra, -1, numpy.int32)))

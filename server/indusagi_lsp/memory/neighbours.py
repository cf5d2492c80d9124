"""An index over very many vectors (usearch, HNSW, 16-bit floats), so that a search need not pass over all of them.

It is derived: what it finds are candidates, and whoever asks scores them by the matrix. It is brought up to date in a
thread of its own, and until it is, and wherever usearch is not installed, the matrix is searched as a whole. A copy in
a file spares the next process the building; it is sealed, since whoever wrote the workspace could have written it too,
and may be deleted at any time.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import logging
import os
import secrets
import threading
from typing import TYPE_CHECKING, Any

from indusagi_lsp.memory.index import load_numpy, unit_rows

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence
    from pathlib import Path

    from indusagi_lsp.memory.matrix import Matrix

log = logging.getLogger(__name__)

FROM = 100_000
"""So many vectors are worth an index: below it, one pass of NumPy is as quick as need be (measured), and exact."""

CANDIDATES = 96
"""How many neighbours are looked up at once."""

INLINE = 32
"""So many changed rows are brought into the index by the search that meets them; more, by the thread."""

PORTION = 2048
"""Rows between two looks at whether the thread shall stop; about a second."""

_SAME = 0.99
"""The least product of a vector with its 16-bit form, both of unit length."""

_SEAL = 64


class Neighbours:
    """The index of one matrix after another, all of one embedder. Any thread may call it.

    Args:
        length: how many numbers a vector has.
        path: where a copy is kept; None for nowhere.
        mac: proves that the copy is this user's; without it none is kept.
    """

    def __init__(self, length: int, *, path: Path | None = None, mac: Callable[[bytes], str] | None = None) -> None:
        self._length = length
        self._path = path if mac is not None else None
        self._mac = mac
        self._lock = threading.Lock()
        self._matrix: Matrix | None = None
        self._index: Any = None
        self._dirty: set[int] = set()
        self._ready = threading.Event()
        self._thread: threading.Thread | None = None

    def follow(self, matrix: Matrix | None) -> None:
        """Take a matrix in the place of the one before; None to let go of it."""
        with self._lock:
            self._matrix = matrix
            self._ready.clear()
            self._dirty.clear()
            if matrix is not None:
                self._begin()

    def changed(self, number: int) -> None:
        """A row of the matrix was put or removed."""
        with self._lock:
            self._dirty.add(number)

    def wait(self, seconds: float) -> bool:
        """Wait until the index is up to date; whether it is."""
        return self._ready.wait(seconds)

    def candidates(self, vector: Sequence[float]) -> list[int] | None:
        """The numbers of about `CANDIDATES` rows near to a vector; None where the index is not ready."""
        with self._lock:
            if not self._ready.is_set() or self._matrix is None:
                return None
            if len(self._dirty) > INLINE:
                self._ready.clear()
                self._begin()
                return None
            try:
                self._bring(self._matrix, self._dirty)
                self._dirty.clear()
                found = self._index.search(unit_rows([vector])[0], CANDIDATES, threads=1).keys
            except Exception as error:  # noqa: BLE001 - whatever it raises, the search goes on without it
                self._give_up(error)
                return None
            return [int(key) for key in found]

    def _give_up(self, error: Exception) -> None:
        """The index does not work: until there is another matrix, there is none."""
        log.error("the index of the memory's vectors does not work; they are searched without it", exc_info=error)
        self._matrix, self._index = None, None
        self._ready.clear()

    # --- the thread ---------------------------------------------------------------------------------------------------

    def _begin(self) -> None:
        if self._thread is None:
            # A daemon: the end of the program does not wait for what can be made again.
            self._thread = threading.Thread(target=self._work, name="memory-neighbours", daemon=True)
            self._thread.start()

    def _work(self) -> None:
        done: Matrix | None = None
        while True:
            with self._lock:
                matrix = self._matrix
                finished = matrix is None or (matrix is done and len(self._dirty) <= INLINE)
                if finished:
                    self._thread = None
                    if matrix is not None:
                        self._ready.set()
                    return
                dirty, self._dirty = self._dirty, set()
            if matrix is None:
                raise AssertionError("a matrix that is there is None")
            try:
                if matrix is done:
                    self._bring(matrix, dirty)
                elif self._bring_all(matrix):
                    done = matrix
            except Exception as error:  # noqa: BLE001 - whatever it raises, the search goes on without it
                with self._lock:
                    self._thread = None
                    self._give_up(error)
                return

    def _bring_all(self, matrix: Matrix) -> bool:
        """Make the index say what the matrix says; whether that came to its end before another matrix did."""
        numpy = load_numpy()
        if self._index is None:
            self._index = self._loaded() or _empty(self._length)
        numbers = matrix.numbers()
        gone = numpy.setdiff1d(numpy.asarray(self._index.keys, numpy.uint64), numbers.astype(numpy.uint64))
        if len(gone):
            self._index.remove(gone)
        changes = len(gone)
        for start in range(0, len(numbers), PORTION):
            if self._matrix is not matrix:
                return False
            changes += self._bring(matrix, numbers[start : start + PORTION].tolist())
        if changes > len(numbers) // 100:
            self._keep()
        return True

    def _bring(self, matrix: Matrix, wanted: Collection[int]) -> int:
        """Make the index say of some rows what the matrix says; how many it did not have so."""
        if not wanted:
            return 0
        numpy, index = load_numpy(), self._index
        numbers, rows = matrix.rows(wanted)
        keys = numbers.astype(numpy.uint64)
        known = index.contains(keys)
        if known.any():
            stored = numpy.asarray(index.get(keys[known])).astype(numpy.float32)
            same = numpy.zeros(len(keys), bool)
            same[known] = (stored * rows[known]).sum(axis=1) > _SAME
            index.remove(keys[known & ~same])
            keys, rows = keys[~same], rows[~same]
        gone = numpy.asarray(sorted(set(wanted) - set(numbers.tolist())), numpy.uint64)
        gone = gone[index.contains(gone)] if len(gone) else gone
        if len(gone):
            index.remove(gone)
        if len(keys):
            index.add(keys, rows, threads=1)
        return len(keys) + len(gone)

    # --- the file -----------------------------------------------------------------------------------------------------

    def _loaded(self) -> Any:
        """The index in the file; None where there is none, or it is not this user's."""
        if self._path is None:
            return None
        flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
        try:
            with open(os.open(self._path, flags), "rb") as file:
                seal, body = file.read(_SEAL), bytearray(file.read())
        except OSError:
            return None
        if not hmac.compare_digest(seal, self._seal(body)):
            return None
        index = _empty(self._length)
        # Nobody but this user can have sealed it, so the loader meets only what `save` has written.
        index.load(body)
        return index if index.ndim == self._length else None

    def _keep(self) -> None:
        """Keep a copy, if that is possible."""
        if self._path is None:
            return
        body = self._index.save()
        # What a process that died has left.
        for left in self._path.parent.glob(f"{self._path.name}.*.tmp"):
            with contextlib.suppress(OSError):
                left.unlink()
        temporary = self._path.with_name(f"{self._path.name}.{secrets.token_hex(4)}.tmp")
        with contextlib.suppress(OSError):
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)
            try:
                with open(os.open(temporary, flags, 0o600), "wb") as file:
                    file.write(self._seal(body))
                    file.write(body)
                os.replace(temporary, self._path)
            except OSError:
                temporary.unlink(missing_ok=True)
                raise

    def _seal(self, body: bytearray) -> bytes:
        if self._mac is None:
            raise AssertionError("a copy without a proof is neither read nor written")
        said = self._mac(b"memory neighbours\0%d\0" % self._length + hashlib.sha256(body).digest())
        return hashlib.sha256(said.encode()).hexdigest().encode("ascii")


def is_available() -> bool:
    """Whether usearch is installed."""
    try:
        import usearch.index  # noqa: F401 - only whether it is there
    except ImportError:
        return False
    return True


def _empty(length: int) -> Any:
    from usearch.index import Index

    return Index(ndim=length, metric="cos", dtype="f16", connectivity=16, expansion_add=64, expansion_search=CANDIDATES)

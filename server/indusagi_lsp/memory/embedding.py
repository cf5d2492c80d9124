"""The seam to embedders: services that turn text into vectors of fixed length for search by meaning."""

from __future__ import annotations

import abc
import math
import threading
from collections import OrderedDict
from typing import TYPE_CHECKING

from indusagi_lsp.memory.entry import is_vector

if TYPE_CHECKING:
    from collections.abc import Sequence

    from indusagi_lsp.memory.entry import MemoryEntry


class EmbeddingProvider(abc.ABC):
    """Turns text into fixed-length vectors.

    `embed` and `batch_embed` may block; they are called from worker threads, possibly several at once.
    """

    @property
    def id(self) -> str:
        """Names the embedder and its version. Vectors of another id are ignored, since they cannot be compared."""
        return type(self).__qualname__

    @property
    def weight(self) -> float:
        """How much its judgement counts against shared words in a fused score: 0 not at all, 1 alone."""
        return 0.5

    @abc.abstractmethod
    def embed(self, text: str) -> list[float]:
        """The vector of one text."""

    @abc.abstractmethod
    def batch_embed(self, texts: list[str]) -> list[list[float]]:
        """The vectors of several texts, in their order."""


class RecentVectors(EmbeddingProvider):
    """An embedder that keeps what it made last.

    One question goes to several stores, and what shall be remembered is looked for first.

    Args:
        embedder: makes the vectors.
        most: how many are kept.
    """

    def __init__(self, embedder: EmbeddingProvider, most: int = 32) -> None:
        self._embedder = embedder
        self._most = most
        self._lock = threading.Lock()
        self._kept: OrderedDict[str, list[float]] = OrderedDict()

    @property
    def id(self) -> str:
        """See `EmbeddingProvider.id`."""
        return self._embedder.id

    @property
    def weight(self) -> float:
        """See `EmbeddingProvider.weight`."""
        return self._embedder.weight

    def embed(self, text: str) -> list[float]:
        """See `EmbeddingProvider.embed`; raises what the embedder raises."""
        return self.batch_embed([text])[0]

    def batch_embed(self, texts: list[str]) -> list[list[float]]:
        """See `EmbeddingProvider.batch_embed`; raises what the embedder raises."""
        with self._lock:
            found = {text: self._kept[text] for text in texts if text in self._kept}
        missing = list(dict.fromkeys(text for text in texts if text not in found))
        if missing:
            found.update(zip(missing, self._embedder.batch_embed(missing), strict=True))
        with self._lock:
            for text in texts[-self._most :]:
                self._kept[text] = found[text]
                self._kept.move_to_end(text)
            while len(self._kept) > self._most:
                self._kept.popitem(last=False)
        return [found[text] for text in texts]


CONTEXT_SHARE = 0.5
"""How much the text around an entry turns its vector: measured best on conversations, where vectors of the bare turns
find less than shared words do."""


def entry_vectors(embedder: EmbeddingProvider, entries: Sequence[MemoryEntry]) -> list[tuple[float, ...]]:
    """The vectors of entries: of the content, turned a little towards the context where there is one.

    Raises:
        ValueError: the embedder has made something that is no vector. Whatever it raises itself comes through.
    """
    texts = [entry.content for entry in entries]
    around = [entry.context for entry in entries if entry.context]
    made = [tuple(vector) for vector in embedder.batch_embed([*texts, *around])]
    near = iter(made[len(texts) :])
    return [
        _sound(_turned(vector, next(near)) if entry.context else vector)
        for entry, vector in zip(entries, made[: len(texts)], strict=True)
    ]


def query_vector(embedder: EmbeddingProvider, text: str) -> tuple[float, ...]:
    """The vector of a question; raises as `entry_vectors` does."""
    return _sound(tuple(embedder.embed(text)))


def _sound(vector: tuple[float, ...]) -> tuple[float, ...]:
    if not is_vector(vector):
        raise ValueError("the embedder gave numbers that are not finite, or too large")
    return vector


def _turned(vector: tuple[float, ...], towards: tuple[float, ...]) -> tuple[float, ...]:
    length, other = (math.sqrt(sum(x * x for x in each)) or 1.0 for each in (vector, towards))
    mixed = [x / length + CONTEXT_SHARE * y / other for x, y in zip(vector, towards, strict=True)]
    size = math.sqrt(sum(x * x for x in mixed)) or 1.0
    return tuple(x / size for x in mixed)

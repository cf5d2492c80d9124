"""The seam to embedders: services that turn text into vectors of fixed length for search by meaning."""

from __future__ import annotations

import abc
import math
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

"""The seam to embedders: services that turn text into vectors of fixed length for search by meaning."""

from __future__ import annotations

import abc


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

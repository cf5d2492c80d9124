"""The light embedder: WordLlama, a table with a vector for each piece of a word; a text is the mean of its pieces.

It needs a twentieth of a millisecond for a text, and no runtime but NumPy; it finds less than `minilm`. Table and
tokenizer come in the package `wordllama`, of which nothing is imported, since it would fetch what it misses: the files
are found, checked by their SHA-256, and read here.
"""

from __future__ import annotations

import threading
from typing import Any

from indusagi_lsp.contract.errors import InvalidState
from indusagi_lsp.memory.embedding import EmbeddingProvider
from indusagi_lsp.memory.packaged import checked_bytes, packaged_file

PACKAGE = "wordllama"
TABLE_FILE = "wordllama/weights/l2_supercat_256.safetensors"
TABLE_SHA256 = "64b47a2dc493cb8e85944076601189739852d7b64e0e1eedcb1937a251cd9fd5"
TOKENIZER_FILE = "wordllama/tokenizers/l2_supercat_tokenizer_config.json"
TOKENIZER_SHA256 = "93248f2a9ec36c7b35f700a033d5f36228aae48db61aee31007fa49062cdeb68"

LONGEST = 1024
"""The most pieces of a text. What is beyond does not count: the mean of so many says little."""

_HINT = "Install indusagi-lsp[wordllama]."


class WordLlamaEmbedder(EmbeddingProvider):
    """Embeds with WordLlama (l2_supercat): 256 numbers. The table (33 MB in memory) is loaded at the first use."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._loaded: tuple[Any, Any] | None = None

    @property
    def id(self) -> str:
        """See `EmbeddingProvider.id`."""
        return "wordllama-l2-supercat-256"

    @property
    def weight(self) -> float:
        """See `EmbeddingProvider.weight`. The value was measured: with more, conversations are found less well."""
        return 0.4

    def embed(self, text: str) -> list[float]:
        """See `EmbeddingProvider.embed`.

        Raises:
            InvalidState: the package is not installed, or its files are not the right ones.
        """
        return self.batch_embed([text])[0]

    def batch_embed(self, texts: list[str]) -> list[list[float]]:
        """See `EmbeddingProvider.batch_embed`; raises as `embed` does."""
        import numpy as np

        table, tokenizer = self._ready()
        vectors = []
        for text in texts:
            numbers = tokenizer.encode(text, add_special_tokens=False).ids[:LONGEST]
            mean = table[numbers].mean(axis=0) if numbers else np.zeros(table.shape[1], np.float32)
            vectors.append((mean / (np.linalg.norm(mean) or 1.0)).tolist())
        return vectors

    def _ready(self) -> tuple[Any, Any]:
        with self._guard:
            if self._loaded is None:
                self._loaded = _load()
            return self._loaded


def _load() -> tuple[Any, Any]:
    """The table, a row for each piece, and the tokenizer."""
    table, words = (
        checked_bytes(packaged_file(PACKAGE, file, _HINT), sha256, _HINT)
        for file, sha256 in ((TABLE_FILE, TABLE_SHA256), (TOKENIZER_FILE, TOKENIZER_SHA256))
    )
    try:
        from safetensors.numpy import load
        from tokenizers import Tokenizer
    except ImportError:
        raise InvalidState("The embedder's tokenizer is not installed.", hint=_HINT) from None
    (rows,) = load(table).values()
    return rows.astype("float32"), Tokenizer.from_str(words.decode("utf-8"))

"""BERT's way of cutting text into word pieces (uncased), for the packaged embedder."""

from __future__ import annotations

import gzip
import hashlib
import unicodedata
from importlib import resources
from typing import TYPE_CHECKING

import msgspec

from indusagi_lsp.contract.errors import InvalidState

if TYPE_CHECKING:
    from collections.abc import Mapping

VOCABULARY_SHA256 = "07eced375cec144d27c900241f3e339478dec958f92fddbc551f295c992038a3"
_CLS, _SEP, _UNKNOWN = "[CLS]", "[SEP]", "[UNK]"
_LONGEST_WORD = 100


class WordPiece(msgspec.Struct, frozen=True):
    """Turns text into the numbers of word pieces: the longest known piece first, from left to right."""

    vocabulary: Mapping[str, int]

    @classmethod
    def load(cls) -> WordPiece:
        """Read the vocabulary that comes with us, and check it.

        Raises:
            InvalidState: the file is not what it should be.
        """
        packed = resources.files("indusagi_lsp.memory").joinpath("data/bert-uncased-vocabulary.txt.gz").read_bytes()
        text = gzip.decompress(packed)
        if hashlib.sha256(text).hexdigest() != VOCABULARY_SHA256:
            raise InvalidState("The embedder's vocabulary is damaged.", hint="Install indusagi-lsp again.")
        # Split at line feeds only: some pieces are other separators of lines.
        return cls({piece: number for number, piece in enumerate(text.decode("utf-8").rstrip("\n").split("\n"))})

    def encode(self, text: str, longest: int) -> list[int]:
        """The numbers of a text's pieces, between the marks of begin and end.

        Args:
            text: any text.
            longest: the most numbers, the two marks included; what is beyond is dropped.
        """
        numbers = [self.vocabulary[_CLS]]
        for word in _words(text):
            if len(numbers) >= longest:
                break
            numbers.extend(self._pieces(word))
        del numbers[longest - 1 :]
        return [*numbers, self.vocabulary[_SEP]]

    def _pieces(self, word: str) -> list[int]:
        unknown = [self.vocabulary[_UNKNOWN]]
        if len(word) > _LONGEST_WORD:
            return unknown
        found: list[int] = []
        start = 0
        while start < len(word):
            for end in range(len(word), start, -1):
                piece = word[start:end] if start == 0 else "##" + word[start:end]
                number = self.vocabulary.get(piece)
                if number is not None:
                    found.append(number)
                    start = end
                    break
            else:
                return unknown
        return found


def _words(text: str) -> list[str]:
    """Lower-case words without accents; each punctuation mark and each Chinese character is a word."""
    spaced = "".join(_cleaned(letter) for letter in text)
    bare = "".join(letter for letter in unicodedata.normalize("NFD", spaced) if unicodedata.category(letter) != "Mn")
    return "".join(f" {letter} " if _punctuation(letter) else letter for letter in bare.lower()).split()


def _cleaned(letter: str) -> str:
    if letter in "\t\n\r":
        return " "
    code = ord(letter)
    if code in (0, 0xFFFD):
        return ""
    category = unicodedata.category(letter)
    if category == "Zs":
        return " "
    if category in ("Cc", "Cf", "Co", "Cs"):
        return ""
    if (
        0x4E00 <= code <= 0x9FFF
        or 0x3400 <= code <= 0x4DBF
        or 0x20000 <= code <= 0x2CEAF
        or 0xF900 <= code <= 0xFAFF
        or 0x2F800 <= code <= 0x2FA1F
    ):
        return f" {letter} "
    return letter


def _punctuation(letter: str) -> bool:
    code = ord(letter)
    if 33 <= code <= 47 or 58 <= code <= 64 or 91 <= code <= 96 or 123 <= code <= 126:
        return True
    return code > 127 and unicodedata.category(letter).startswith("P")

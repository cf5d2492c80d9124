"""Text into words: the one way in which entries and questions are cut up, whatever back end holds them.

The words are safe to hand to any full-text engine: lower-case ASCII letters and digits, or letters beyond ASCII, and
nothing else. So no punctuation of a question can reach a query syntax. Compatibility forms are unified (NFKC), Chinese,
Japanese and Korean are cut into bigrams, and `getUserName` is found by `user` as well as by `get_user_name`.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections import Counter
from functools import lru_cache
from typing import TYPE_CHECKING

import msgspec

from indusagi_lsp.memory.stemmer import stem

if TYPE_CHECKING:
    from collections.abc import Iterator

TERMS_VERSION = 1
"""Counts the ways in which texts are cut. Back ends that keep words make them anew when it differs from theirs."""

OWN_WEIGHT = 1.0
NEAR_WEIGHT = 0.5
"""Neighbouring turns count half: measured best on conversations."""
SPLIT_WEIGHT = 1.0

LONGEST_WORD = 100
"""Letters of a word that count; databases cannot index words without end."""

MAX_QUERY_WORDS = 128
"""A question's words beyond this many are not looked up."""

STOP_WORDS = frozenset(
    [
        "a",
        "about",
        "after",
        "again",
        "all",
        "also",
        "am",
        "an",
        "and",
        "any",
        "are",
        "as",
        "at",
        "be",
        "because",
        "been",
        "before",
        "being",
        "between",
        "both",
        "but",
        "by",
        "can",
        "could",
        "did",
        "do",
        "does",
        "doing",
        "down",
        "during",
        "each",
        "few",
        "for",
        "from",
        "further",
        "had",
        "has",
        "have",
        "having",
        "he",
        "her",
        "here",
        "hers",
        "him",
        "his",
        "how",
        "i",
        "if",
        "in",
        "into",
        "is",
        "it",
        "its",
        "itself",
        "just",
        "me",
        "more",
        "most",
        "my",
        "no",
        "nor",
        "not",
        "now",
        "of",
        "off",
        "on",
        "once",
        "only",
        "or",
        "other",
        "our",
        "ours",
        "out",
        "over",
        "own",
        "same",
        "she",
        "should",
        "so",
        "some",
        "such",
        "than",
        "that",
        "the",
        "their",
        "theirs",
        "them",
        "then",
        "there",
        "these",
        "they",
        "this",
        "those",
        "through",
        "to",
        "too",
        "under",
        "until",
        "up",
        "very",
        "was",
        "we",
        "were",
        "what",
        "when",
        "where",
        "which",
        "while",
        "who",
        "whom",
        "why",
        "will",
        "with",
        "would",
        "you",
        "your",
        "yours",
        "s",
        "t",
        "d",
        "ll",
        "m",
        "re",
        "ve",
    ]
)

_CJK = (
    "\u3005-\u3007\u3040-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003ffff"
)
_RUN = re.compile(rf"[{_CJK}]+|(?:(?![{_CJK}])\w)+")
_ASCII_RUN = re.compile(r"[A-Za-z0-9_]+")
_FIRST_CJK = re.compile(rf"[{_CJK}]")
_SPECIAL = re.compile(r"(?<!\w)(?:c\+\+|[cf]#|\.net\b)", re.IGNORECASE)
_SPECIAL_WORDS = {"c++": " cplusplus ", "c#": " csharp ", "f#": " fsharp ", ".net": " dotnet "}
_PIECE = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+|[0-9]+|[^A-Za-z0-9_]+")
_ACCENTS = re.compile("[\u0300-\u036f]")


class Terms(msgspec.Struct, frozen=True):
    """The words of an entry, by where they stand, each list in the order of the text.

    Attributes:
        own: the entry's own words.
        near: the words of its context.
        split: the pieces of its compound identifiers.
    """

    own: tuple[str, ...]
    near: tuple[str, ...]
    split: tuple[str, ...]

    @property
    def length(self) -> int:
        """How many words there are in all."""
        return len(self.own) + len(self.near) + len(self.split)

    def weights(self) -> dict[str, float]:
        """How often each word occurs, weighted by where it stands."""
        found: Counter[str] = Counter()
        for words, weight in ((self.own, OWN_WEIGHT), (self.near, NEAR_WEIGHT), (self.split, SPLIT_WEIGHT)):
            for word in words:
                found[word] += weight  # type: ignore[assignment]  # typeshed counts in int only
        return dict(found)


@lru_cache(maxsize=65536)
def _word(run: str) -> str:
    """The indexed form of one word of one kind of letters."""
    word = run.casefold()[:LONGEST_WORD]
    if word.isascii():
        return stem(word)
    bare = _ACCENTS.sub("", unicodedata.normalize("NFD", word))
    return unicodedata.normalize("NFC", bare)


@lru_cache(maxsize=65536)
def _compound(run: str) -> tuple[str, tuple[str, ...]]:
    """The indexed form of a run of letters, digits and `_`, and its pieces where it has more than one."""
    pieces = _PIECE.findall(run)
    if len(pieces) < 2:
        return (_word(pieces[0]) if pieces else "", ())
    # A single letter says nothing: the `k` and `s` of `k8s` would be found everywhere.
    return _word("".join(pieces)), tuple(_word(piece) for piece in pieces if len(piece) > 1 or not piece.isalpha())


def _runs(text: str) -> Iterator[tuple[str, tuple[str, ...]]]:
    """The words of `text`, each with its pieces."""
    if not text.isascii():
        text = unicodedata.normalize("NFKC", text)
    text = _SPECIAL.sub(lambda match: _SPECIAL_WORDS[match.group().lower()], text)
    if text.isascii():
        yield from map(_compound, _ASCII_RUN.findall(text))
        return
    for run in _RUN.findall(text):
        if not _FIRST_CJK.match(run):
            yield _compound(run)
        elif len(run) == 1:
            yield run, ()
        else:
            yield run[:2], (run[0], run[1])
            for place in range(1, len(run) - 1):
                yield run[place : place + 2], (run[place + 1],)


def index_terms(content: str, context: str = "") -> Terms:
    """Cut an entry's text, and the text around it, into words."""
    own: list[str] = []
    split: list[str] = []
    for word, pieces in _runs(content):
        if word:
            own.append(word)
        split.extend(piece for piece in pieces if piece)
    near: list[str] = []
    for word, pieces in _runs(context) if context else ():
        near.extend(piece for piece in (word, *pieces) if piece)
    return Terms(tuple(own), tuple(near), tuple(split))


def query_words(terms: Terms) -> tuple[str, ...]:
    """The words of a question that are looked up: each once, without stop words unless there is nothing else."""
    words = dict.fromkeys((*terms.own, *terms.split))
    telling = [word for word in words if word not in _STOP_STEMS and not _lone_piece(word, terms)]
    return tuple(telling or words)[:MAX_QUERY_WORDS]


def _lone_piece(word: str, terms: Terms) -> bool:
    """Whether a word is only a single Chinese, Japanese or Korean letter of a longer run; its bigrams say more."""
    return len(word) == 1 and not word.isascii() and word not in terms.own


_STOP_STEMS = frozenset(stem(word) for word in STOP_WORDS)


def plain_text(text: str) -> str:
    """The form in which texts are compared: without compatibility forms, white space at the ends, and CR line ends."""
    return unicodedata.normalize("NFKC", text).replace("\r\n", "\n").strip()


def text_digest(text: str) -> bytes:
    """A hash by which a database finds an equal text: that of its plain form."""
    return hashlib.sha256(plain_text(text).encode("utf-8", "surrogatepass")).digest()

"""Ranking by words: Okapi BM25 over weighted fields, with a score that is 1 for an identical text.

The formula stands here once. Back ends that rank in a database write the same formula in its language, and the
conformance suite demands the same order of all.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import msgspec

from indusagi_lsp.memory.text import Terms, query_words

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

K1 = 1.2
B = 0.75
DIGITS = 9
"""Scores are rounded to this many digits, so that the order of a sum cannot change the order of the hits."""


class Statistics(msgspec.Struct, frozen=True):
    """What BM25 needs to know of all the entries that a query can see.

    Attributes:
        entries: how many there are.
        words: how many words they have together.
        holders: how many entries hold each word that is asked for.
    """

    entries: int
    words: int
    holders: Mapping[str, int]

    @property
    def average(self) -> float:
        """The average number of words of an entry; never 0."""
        return max(self.words / self.entries, 1.0) if self.entries else 1.0

    def rarity(self, word: str) -> float:
        """The inverse document frequency of a word; more than 0 for any word.

        A word that no entry holds counts as one that a single entry holds, so that scores stay telling where there are
        few entries.
        """
        holders = max(self.holders.get(word, 0), 1)
        return math.log(1 + (self.entries - holders + 0.5) / (holders + 0.5))


class Question(msgspec.Struct, frozen=True):
    """A question cut into the words that are looked up, and the words of its whole text."""

    words: tuple[str, ...]
    weights: Mapping[str, float]
    length: int

    @classmethod
    def of(cls, terms: Terms) -> Question:
        """Prepare the words of a question."""
        return cls(query_words(terms), terms.weights(), terms.length)


def frequency_part(weight: float, length: int, average: float) -> float:
    """How much a word of `weight` counts in an entry of `length` words."""
    return weight * (K1 + 1) / (weight + K1 * (1 - B + B * length / average))


def best_score(question: Question, statistics: Statistics) -> float:
    """What an entry whose text is the question itself would get; at least a hair above 0."""
    average = statistics.average
    total = sum(
        statistics.rarity(word) * frequency_part(question.weights[word], question.length, average)
        for word in question.words
    )
    return max(total, 1e-12)


def relative_score(raw: float, best: float) -> float:
    """A raw score on the scale of 0 (unrelated) to 1 (identical)."""
    return round(min(1.0, raw / best), DIGITS)


class LexicalIndex:
    """An inverted index in memory: the entries' words by key."""

    def __init__(self) -> None:
        self._entries: dict[str, tuple[dict[str, float], int]] = {}
        self._holders: dict[str, dict[str, float]] = {}
        self._words = 0

    def __len__(self) -> int:
        return len(self._entries)

    @property
    def words(self) -> int:
        """How many words all entries have together."""
        return self._words

    def put(self, key: str, terms: Terms) -> None:
        """Hold the words of an entry, in place of those that were held under the key."""
        self.remove(key)
        weights = terms.weights()
        self._entries[key] = (weights, terms.length)
        self._words += terms.length
        for word, weight in weights.items():
            self._holders.setdefault(word, {})[key] = weight

    def remove(self, key: str) -> None:
        """Forget an entry; nothing happens where there is none."""
        weights, length = self._entries.pop(key, ({}, 0))
        self._words -= length
        for word in weights:
            holders = self._holders[word]
            del holders[key]
            if not holders:
                del self._holders[word]

    def holders(self, word: str) -> Mapping[str, float]:
        """The keys of the entries that hold a word, with its weight in each."""
        return self._holders.get(word, {})

    def length(self, key: str) -> int:
        """How many words an entry has."""
        return self._entries[key][1]


def rank(question: Question, indexes: Sequence[LexicalIndex]) -> list[dict[str, float]]:
    """The scores of all entries that share a word with the question, above 0 and at most 1.

    Returns:
        Scores by key, for each index; the statistics are those of all indexes together.
    """
    statistics = gather(question.words, indexes)
    average = statistics.average
    best = best_score(question, statistics)
    rarities = {word: statistics.rarity(word) for word in question.words}
    ranked = []
    for index in indexes:
        raw: dict[str, float] = {}
        for word, rarity in rarities.items():
            for key, weight in index.holders(word).items():
                raw[key] = raw.get(key, 0.0) + rarity * frequency_part(weight, index.length(key), average)
        ranked.append({key: relative_score(score, best) for key, score in raw.items()})
    return ranked


def gather(words: Iterable[str], indexes: Sequence[LexicalIndex]) -> Statistics:
    """The statistics of several indexes together."""
    return Statistics(
        sum(map(len, indexes)),
        sum(index.words for index in indexes),
        {word: sum(len(index.holders(word)) for index in indexes) for word in words},
    )

"""Scores of hits: how two kinds are fused into one, and the order that every back end keeps."""

from __future__ import annotations

from typing import TYPE_CHECKING

from indusagi_lsp.memory.entry import newest_first

if TYPE_CHECKING:
    from indusagi_lsp.memory.query import ScoredEntry

FUSED_DIGITS = 6


def fuse(lexical: float, semantic: float | None, weight: float) -> float:
    """One score of two. An entry without a vector has its lexical score, so that it is not buried.

    A weighted sum of scores, not of ranks: measured on questions in other words, fusion by ranks loses half of the hits
    that the better of two searches has.
    """
    if semantic is None:
        return round(lexical, FUSED_DIGITS)
    return round(weight * max(0.0, semantic) + (1 - weight) * lexical, FUSED_DIGITS)


def by_score(hit: ScoredEntry) -> tuple[float, int, bytes, int]:
    """The order of hits in every back end: by falling score, equal ones as they are listed."""
    return (-hit.score, *newest_first(hit.entry))

"""The words of turns and of queries: how a text is indexed, how a query is put, what a hit shows of a text."""

from __future__ import annotations

import re
import unicodedata
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from indusagi_lsp.contract.turns import TextBlock, ThinkingBlock, ToolCallBlock, ToolResultBlock, Turn

if TYPE_CHECKING:
    from collections.abc import Iterator

MAX_TEXT = 256 * 1024
"""Characters of one turn that are indexed."""

_CONTEXT = 80
_CJK = re.compile(
    "[\u1100-\u11ff\u2e80-\u2fdf\u3005-\u3007\u3040-\u30ff\u3130-\u318f\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff"
    "\ua960-\ua97f\uac00-\ud7ff\uf900-\ufaff\U00020000-\U0003ffff]+"
)
_SHARP = re.compile(r"\b([a-z]\w*)(\+\+|#)(?!\w)")
_SPELLED = {"++": "plusplus", "#": "sharp"}
_WORD = re.compile(r"[^\W_]")


def words_of(turn: Turn) -> str:
    """What a turn says, as one text: words, thoughts, the names and arguments of calls, outputs."""
    texts: list[str] = []
    for block in turn.blocks:
        if isinstance(block, TextBlock | ThinkingBlock):
            texts.append(block.text)
        elif isinstance(block, ToolCallBlock):
            texts.append(block.name)
            texts.extend(_strings(block.input))
        elif isinstance(block, ToolResultBlock):
            texts.append(block.output)

    return "\n".join(texts)[:MAX_TEXT]


def index_text(text: str) -> str:
    """A text as the tokenizer should see it.

    Compatible forms are made one (NFKC), case is folded, runs of Chinese, Japanese and Korean characters,
    which have no spaces, become pairs of neighbours, and `c++` and `c#` get a word of their own.
    """
    folded = text.lower() if text.isascii() else unicodedata.normalize("NFKC", text).casefold()
    if "++" in folded or "#" in folded:
        folded = _SHARP.sub(lambda match: f"{match[1]} {match[1]}{_SPELLED[match[2]]}", folded)
    if not folded.isascii():
        folded = _CJK.sub(lambda match: f" {' '.join(_pairs(match[0]))} ", folded)
    # FTS5 ends a text at NUL, and UTF-8 has no lone surrogates.
    return folded.replace("\x00", " ").encode("utf-8", "replace").decode()


def match_query(query: str) -> str | None:
    """A user's words as an FTS5 query in which every word is quoted, so that nothing in them is syntax.

    Args:
        query: anything that a user can type.

    Returns:
        All the words must occur; the parts of a word (`gateway/run.py`) stand side by side; the last one may
        go on. None if nothing in it can be looked up.
    """
    words = [word for part in query.split() if _WORD.search(word := _query_word(part))]
    if not words:
        return None

    quoted = ['"' + word.replace('"', '""') + '"' for word in words]
    return " AND ".join(quoted) + "*"


def snippet_of(text: str, query: str) -> tuple[str, tuple[tuple[int, int], ...]]:
    """A piece of `text` around the first of the query's words, on one line, and where in it they stand."""
    words = sorted({part.strip("\"'`()[]{},;:") or part for part in query.split()}, key=len, reverse=True)
    pattern = re.compile("|".join(re.escape(word) for word in words), re.IGNORECASE) if words else None
    match = pattern.search(text) if pattern is not None else None
    if match is None:
        # Other spellings of the same word: look at its parts.
        parts = [part for part in re.findall(r"\w+", query) if len(part) > 1]
        pattern = re.compile("|".join(map(re.escape, parts)), re.IGNORECASE) if parts else None
        match = pattern.search(text) if pattern is not None else None

    middle = match.start() if match is not None else 0
    start, end = max(0, middle - _CONTEXT), min(len(text), middle + 2 * _CONTEXT)
    shown = re.sub(r"\s", " ", text[start:end])
    lead = "…" if start else ""
    shown = f"{lead}{shown}{'…' if end < len(text) else ''}"
    return shown, tuple(found.span() for found in pattern.finditer(shown)) if pattern is not None else ()


def _query_word(part: str) -> str:
    return index_text(part).strip()


def _pairs(run: str) -> Iterator[str]:
    """Neighbours, and the last character alone, so that any single character begins a word."""
    for first, second in pairwise(run):
        yield first + second
    yield run[-1]


def _strings(value: Any) -> Iterator[str]:
    """Every text in JSON data, keys not included."""
    stack = [value]
    while stack:
        item = stack.pop()
        if isinstance(item, str):
            yield item
        elif isinstance(item, dict):
            stack.extend(reversed(list(item.values())))
        elif isinstance(item, list):
            stack.extend(reversed(item))

"""Deterministic probes: facts of dropped turns, and whether the real continuation used them again.

This extractor shares no code and no tables with the ledger that it judges: it looks at the shape of the arguments, not
at the names of tools. A fact is *needed* when the turns after the cut, the assistant's words or calls, use it again.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import msgspec

from indusagi_lsp.contract.turns import (
    ASSISTANT,
    USER,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
    ToolResultBlock,
    Turn,
)

KINDS = ("modified", "read", "command", "error", "version", "instruction")
MUST = ("modified", "error", "standing", "last")

_PATH_KEYS = ("file_path", "path", "filePath", "dir_path")
_CHANGE_KEYS = {"content", "old_string", "new_string", "oldText", "newText", "edits", "patch"}
_ERROR = re.compile(r"\bTS\d{4}\b|\bERR_[A-Z_]+\b|\bE[A-Z]{4,12}\b(?=[:,])|\b[A-Z][a-zA-Z]+Error\b|\bE\d{4}\b")
_VERSION = re.compile(r"(?<![\d.])\d+\.\d+\.\d+(?![\d.]*\d)")
_PATCH = re.compile(r"^\*\*\* (?:Update|Add|Delete) File: (.+)$", re.MULTILINE)
_STANDING = re.compile(r"\b(?:always|never|don't|do not|must|make sure|from now on|remember)\b", re.IGNORECASE)
_MACHINE = re.compile(
    r"^(?:<|Caveat:|# AGENTS|\[Request|Ran `|\[condensed|This session is being continued|Publish the current session)"
)
_WORD = re.compile(r"[A-Za-z_][\w-]{4,}")


class Fact(msgspec.Struct, frozen=True):
    """A fact: `key` is what must be found again; `clear` says that a path's last part names no other path."""

    kind: str
    key: str
    clear: bool = True


def call_texts(turn: Turn) -> str:
    """What the assistant itself wrote in a turn: its words and its calls' arguments."""
    parts = []
    for block in turn.blocks:
        if isinstance(block, TextBlock) and turn.role == ASSISTANT:
            parts.append(block.text)
        elif isinstance(block, ToolCallBlock):
            parts.append(block.input if isinstance(block.input, str) else json.dumps(block.input, ensure_ascii=False))
    return "\n".join(parts)


def whole_text(turn: Turn) -> str:
    """Everything in a turn, as a search would see it."""
    parts = []
    for block in turn.blocks:
        if isinstance(block, TextBlock | ThinkingBlock):
            parts.append(block.text)
        elif isinstance(block, ToolCallBlock):
            parts.append(f"{block.name} {json.dumps(block.input, ensure_ascii=False)}")
        elif isinstance(block, ToolResultBlock):
            parts.append(block.output)
    return "\n".join(parts)


def facts(turns: Sequence[Turn]) -> list[Fact]:
    """The facts of `turns`, each once, in the order of their first appearance."""
    found: dict[tuple[str, str], None] = {}
    runs: set[str] = set()
    for turn in turns:
        for block in turn.blocks:
            for kind, key in _of_block(block, turn.role, runs):
                found[kind, key] = None
    modified = {key for kind, key in found if kind == "modified"}
    names = Counter(key.rsplit("/", 1)[-1] for key in {key for kind, key in found if kind in ("modified", "read")})
    return [
        Fact(kind, key, names[key.rsplit("/", 1)[-1]] == 1 if kind in ("modified", "read") else True)
        for kind, key in found
        if not (kind == "read" and key in modified)
    ]


def _of_block(block: Any, role: str, runs: set[str]) -> Iterator[tuple[str, str]]:
    if isinstance(block, ToolCallBlock):
        yield from _of_call(block, runs)
    elif isinstance(block, ToolResultBlock):
        if block.call_id in runs or block.is_error:
            yield from (("error", found) for found in _ERROR.findall(block.output))
            yield from (("version", found) for found in _VERSION.findall(block.output[:2_000]))
    elif isinstance(block, TextBlock) and role == USER and not _MACHINE.match(block.text.strip()):
        text = block.text.strip()
        yield from (("error", found) for found in _ERROR.findall(text))
        yield from (("version", found) for found in _VERSION.findall(text))
        if len(text) > 12:
            yield "instruction", text
    elif isinstance(block, TextBlock) and role == ASSISTANT:
        yield from (("version", found) for found in _VERSION.findall(block.text))


def _of_call(block: ToolCallBlock, runs: set[str]) -> Iterator[tuple[str, str]]:
    if isinstance(block.input, str):
        yield from (("modified", path.strip()) for path in _PATCH.findall(block.input))
        return
    if not isinstance(block.input, dict):
        return

    path = next((block.input[key] for key in _PATH_KEYS if isinstance(block.input.get(key), str)), "")
    if path and "." in path.rsplit("/", 1)[-1]:
        yield ("modified" if _CHANGE_KEYS & block.input.keys() else "read"), path
    command = block.input.get("command") or block.input.get("cmd")
    if isinstance(command, str) and not path:
        runs.add(block.id)
        words = re.sub(r"^cd \S+ (?:&&|;) ", "", command.strip()).split("\n")[0].split()
        if len(words) >= 2:
            yield "command", " ".join(words[:3])
        yield from (("version", found) for found in _VERSION.findall(command))


class Later(msgspec.Struct, frozen=True):
    """A continuation: what the assistant wrote in it, also in lower case."""

    text: str
    lowered: str

    @classmethod
    def of(cls, turns: Iterable[Turn]) -> Later:
        """The continuation that `turns` are."""
        text = "\n".join(map(call_texts, turns))
        return cls(text, text.lower())


def needed(fact: Fact, later: Later) -> bool:
    """Whether the continuation uses the fact."""
    if fact.kind in ("modified", "read"):
        return "/".join(fact.key.split("/")[-2:]) in later.text
    if fact.kind == "instruction":
        words = {word.lower() for word in _WORD.findall(fact.key)}
        used = sum(word in later.lowered for word in words)
        return bool(words) and used >= max(2, len(words) // 2)
    return _as_word(fact.key, later.text)


def _as_word(key: str, text: str) -> bool:
    """Whether `key` stands in `text` by itself, not as a part of a longer word."""
    return key in text and re.search(rf"(?<![\w.]){re.escape(key)}(?!\w)", text) is not None


def present(fact: Fact, text: str) -> bool:
    """Whether `text` holds the fact; a path may be written by its folder and its name in one line."""
    if fact.kind in ("modified", "read"):
        if fact.key.rsplit("/", 1)[-1] not in text:
            return False
        *_, parent, name = ("", *fact.key.split("/"))
        word = re.compile(rf"(?<![\w.-]){re.escape(name)}(?![\w-])")
        if fact.clear:
            return word.search(text) is not None
        return any(f"{parent}/" in line and word.search(line) for line in text.split("\n"))
    if fact.kind in ("instruction", "standing", "last"):
        squeezed = " ".join(text.split())
        return " ".join(fact.key.split())[:60] in squeezed
    return _as_word(fact.key, text)


def must_keep(turns: Sequence[Turn]) -> list[Fact]:
    """What may never be lost: files modified, error identifiers, standing instructions, the last request."""
    found = [fact for fact in facts(turns) if fact.kind in ("modified", "error")]
    said = [fact.key for fact in facts(turns) if fact.kind == "instruction"]
    found += [Fact("standing", text) for text in said if _STANDING.search(text)]
    last = [b.text.strip() for t in turns if t.role == USER for b in t.blocks if isinstance(b, TextBlock)]
    last = [text for text in last if len(text) > 12 and not _MACHINE.match(text)]
    return found + ([Fact("last", last[-1])] if last else [])


class Search:
    """A plain BM25 over turns: what any lexical search of the session would do at least."""

    def __init__(self, turns: Iterable[Turn]) -> None:
        self.texts = [whole_text(turn) for turn in turns]
        counts = [Counter(self._words(text)) for text in self.texts]
        self._lengths = [sum(count.values()) for count in counts]
        self._mean = sum(self._lengths) / max(len(counts), 1) or 1.0
        self._postings: dict[str, list[tuple[int, int]]] = {}
        for at, count in enumerate(counts):
            for word, times in count.items():
                self._postings.setdefault(word, []).append((at, times))

    @staticmethod
    def _words(text: str) -> list[str]:
        return re.findall(r"[A-Za-z0-9_]+", text.lower())

    def find(self, query: str, limit: int = 10) -> list[str]:
        """The texts of the best turns."""
        scores: dict[int, float] = {}
        for word in set(self._words(query)):
            postings = self._postings.get(word, [])
            weight = math.log(1 + (len(self.texts) - len(postings) + 0.5) / (len(postings) + 0.5))
            for at, times in postings:
                damping = 1.2 * (0.25 + 0.75 * self._lengths[at] / self._mean)
                scores[at] = scores.get(at, 0.0) + weight * times * 2.2 / (times + damping)
        best = sorted(scores, key=lambda at: -scores[at])[:limit]
        return [self.texts[at] for at in best]


def recall(found: Iterable[Fact], holds: Callable[[Fact], bool]) -> dict[str, tuple[int, int]]:
    """Per kind: how many of the facts are held, and how many there are."""
    table: dict[str, tuple[int, int]] = {}
    for fact in found:
        held, all_of = table.get(fact.kind, (0, 0))
        table[fact.kind] = (held + holds(fact), all_of + 1)
    return table


def macro(tables: Iterable[dict[str, tuple[int, int]]]) -> float:
    """The mean over the tables of the mean over their kinds."""
    means = [sum(held / all_of for held, all_of in table.values()) / len(table) for table in tables if table]
    return sum(means) / len(means) if means else math.nan

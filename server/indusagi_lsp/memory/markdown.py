"""Memories as one Markdown document for people: to read, to keep elsewhere, to edit, and to bring back.

Each entry is a heading, a line of facts in a comment that a Markdown viewer hides, and its text as it is. What the text
cannot show (control characters, lone surrogates) goes into the facts instead. Vectors are left out, since they are
derived. Reading the document gives the same entries, with their proofs; an edited text no longer fits its proof.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from indusagi_lsp.contract.errors import InvalidInput
from indusagi_lsp.contract.jsontext import dumps, loads
from indusagi_lsp.memory.entry import MemoryEntry, entry_from_json, entry_to_json

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

TITLE = "# What is remembered"
_BEGIN = "<!-- memory "
_END = "<!-- end of memory -->"
_CLOSE = " -->"
_MARK = re.compile(r"(\\*)(?=<!-- (?:memory|end of memory) )")
_HIDDEN = re.compile(r"[\x00-\x08\x0b-\x1f\x7f\x85\u2028\u2029\ud800-\udfff]")
_UNSAFE = re.compile(r"[>\x7f\x85\u2028\u2029\ud800-\udfff]")


def to_markdown(entries: Iterable[MemoryEntry]) -> str:
    """Write entries as a document, in their order."""
    return "".join((f"{TITLE}\n", *map(_section, entries)))


def from_markdown(text: str) -> list[MemoryEntry]:
    """Read the document of `to_markdown`, as it was or edited.

    Args:
        text: the document; what stands outside its entries is ignored, and line ends may have become CR LF.

    Raises:
        InvalidInput: an entry has no end, or its facts cannot be read; the line is named.
    """
    return list(_entries(text.replace("\r\n", "\n").split("\n")))


def _section(entry: MemoryEntry) -> str:
    facts = entry_to_json(entry.changed(embedding=None, embedder=None))
    shown = "" if _HIDDEN.search(entry.content) else entry.content
    if shown:
        del facts["content"]
    raw = dumps(facts).decode("utf-8")
    line = _UNSAFE.sub(lambda match: f"\\u{ord(match.group()):04x}", raw)
    tags = "".join(f" · {tag}" for tag in entry.tags)
    heading = _HIDDEN.sub("", f"## {entry.created_at:%Y-%m-%d} · {entry.scope.value}{tags}").replace("\n", " ")
    body = "".join(f"{_escaped(one)}\n" for one in shown.split("\n")) if shown else ""
    return f"\n{_escaped(heading)}\n\n{_BEGIN}{line}{_CLOSE}\n{body}{_END}\n"


def _escaped(line: str) -> str:
    return f"\\{line}" if _MARK.match(line) else line


def _plain(line: str) -> str:
    return line[1:] if line.startswith("\\") and _MARK.match(line) else line


def _entries(lines: list[str]) -> Iterator[MemoryEntry]:
    begun: tuple[int, dict[str, Any]] | None = None
    body: list[str] = []
    for number, line in enumerate(lines, 1):
        if begun is None:
            if line.startswith(_BEGIN):
                begun, body = (number, _facts(line, number)), []
        elif line.rstrip() == _END:
            yield _entry(begun, body)
            begun = None
        elif line.startswith(_BEGIN):
            break
        else:
            body.append(_plain(line))
    if begun is not None:
        message = f"The memory in line {begun[0]} has no end."
        raise InvalidInput(message, hint=f"Each memory ends with the line {_END}")


def _facts(line: str, number: int) -> dict[str, Any]:
    try:
        facts = loads(line.removeprefix(_BEGIN).rstrip().removesuffix(_CLOSE))
    except ValueError:
        facts = None
    if not isinstance(facts, dict):
        message = f"The facts of the memory in line {number} cannot be read."
        raise InvalidInput(message, hint="Edit the text of a memory, not the comment above it.")
    return facts


def _entry(begun: tuple[int, dict[str, Any]], body: list[str]) -> MemoryEntry:
    number, facts = begun
    if body:
        facts = {**facts, "content": "\n".join(body)}
    facts.setdefault("content", "")
    try:
        return entry_from_json(facts)
    except ValueError as error:
        message = f"The memory in line {number} cannot be read: {error}."
        raise InvalidInput(message) from None

"""What a model that calls no tools is told of the workspace: excerpts that fit its question and window."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import msgspec

from indusagi_lsp.contract.errors import ToolFailed
from indusagi_lsp.contract.text import quoted, visible
from indusagi_lsp.tools.listing import Walked, walk

if TYPE_CHECKING:
    from collections.abc import Callable

    from indusagi_lsp.tools.guard import PathGuard

LISTING = "(files)"
"""The `path` of the excerpt that lists the workspace's files."""

_READMES = ("README.md", "README.rst", "README.txt", "README", "readme.md", "Readme.md")
_MAX_NAMED = 4
_MAX_LISTED = 60
_MAX_WALKED = 2000
_MAX_FILE_BYTES = 512 * 1024
_LEAST_USEFUL = 80

# A word of a prompt that may be a path: it has a dot or a slash inside, and no blanks.
_PATH_LIKE = re.compile(r"[\w@~.+-]*(?:[/\\.][\w@~+-]+)+")
# Badges, images and bare HTML at the head of a README say nothing to a reader of text.
_ORNAMENT = re.compile(r"\s*(?:\[?!\[[^\]]*\]\([^)]*\)(?:\]\([^)]*\))?|<[^>]*>|<!--.*?-->)\s*", re.DOTALL)


class Excerpt(msgspec.Struct, frozen=True):
    """A part of the workspace: `path` below the root, or `LISTING`; `whole` if nothing is left out."""

    path: str
    text: str
    whole: bool = True


def excerpts(
    guard: PathGuard,
    prompt: str,
    budget_chars: int,
    *,
    document: Callable[[str], str | None] = lambda _: None,
) -> list[Excerpt]:
    """Choose what to show: the files that the prompt names, the beginning of the README, the list of files.

    Blocks; call it in a thread. What is outside the workspace, binary or not there is left out silently.

    Args:
        guard: opens what is read.
        prompt: the user's words.
        budget_chars: characters that all texts together may have.
        document: unsaved text of open files, by path below the root; called in the caller's thread.

    Returns:
        Excerpts in the order of their use, each within its share of the budget.
    """
    chosen: list[Excerpt] = []
    left = budget_chars
    files = _files(guard)

    named = _named(prompt, files)
    for count, path in enumerate(named):
        # Half of what is left for the named files, in equal parts; the rest tells what surrounds them.
        share = left * 2 // 3 // (len(named) - count)
        left -= _add(chosen, guard, path, share, document)

    readme = next((name for name in _READMES if name in files), None)
    if readme is not None and readme not in named:
        left -= _add(chosen, guard, readme, left * 3 // 4, document)

    listing = _list(files, left)
    if listing is not None:
        chosen.append(listing)
    return chosen


def _files(guard: PathGuard) -> list[str]:
    files: list[str] = []
    try:
        for path in walk(guard, ".", Walked()):
            files.append(path)
            if len(files) >= _MAX_WALKED:
                break
    except ToolFailed:
        return []
    return files


def _named(prompt: str, files: list[str]) -> list[str]:
    """The files that the prompt names, by path, by the end of a path, or by name."""
    found: list[str] = []
    for match in _PATH_LIKE.finditer(prompt):
        word = match.group().replace("\\", "/").removeprefix("./").rstrip(".")
        hits = [path for path in files if path == word] or [path for path in files if path.endswith(f"/{word}")]
        found += [path for path in hits[:1] if path not in found]
    return found[:_MAX_NAMED]


def _add(chosen: list[Excerpt], guard: PathGuard, path: str, share: int, document: Callable[[str], str | None]) -> int:
    """Add the beginning of a file; gives the characters used."""
    if share < _LEAST_USEFUL:
        return 0
    text = document(path)
    if text is None:
        try:
            data = guard.read_bytes(path, _MAX_FILE_BYTES)
        except ToolFailed:
            return 0
        if b"\0" in data:
            return 0
        text = data.decode("utf-8", "replace")
    if path in _READMES:
        text = _without_ornaments(text)
    text = visible(text.removeprefix("\ufeff")).strip()
    if not text:
        return 0
    cut = _cut(text, share)
    chosen.append(Excerpt(path, cut, whole=len(cut) == len(text)))
    return len(cut)


def _cut(text: str, limit: int) -> str:
    """The beginning of a text, up to the end of a paragraph, a line or a word where one is near."""
    if len(text) <= limit:
        return text
    head = text[:limit]
    for end in ("\n\n", "\n", " "):
        place = head.rfind(end)
        if place >= limit * 2 // 3:
            return head[:place].rstrip()
    return head.rstrip()


def _without_ornaments(text: str) -> str:
    """A README without badges, images and HTML tags at its head."""
    while match := _ORNAMENT.match(text):
        text = text[match.end() :]
    return text


def _list(files: list[str], budget: int) -> Excerpt | None:
    """The names of files, those near the root first."""
    rows: list[str] = []
    used = 0
    for path in sorted(files, key=lambda path: (path.count("/"), path))[:_MAX_LISTED]:
        row = quoted(path, 200)
        if used + len(row) + 1 > budget:
            break
        rows.append(row)
        used += len(row) + 1
    return Excerpt(LISTING, "\n".join(rows), whole=len(rows) == len(files)) if rows else None

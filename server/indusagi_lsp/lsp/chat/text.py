"""How a chat document is written: who speaks where, which session it belongs to, and what would be sent.

A comment in its head binds it to a session. The user's last section begins after the last heading `## You`, or after
the last line `---`. What stands in a fenced block of code is no heading.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

import msgspec

YOU = "## You"
ANSWER = "## Indusagi"
_BINDING = re.compile(r"<!--\s*indusagi:\s*session=([A-Za-z0-9._-]{1,128})\s*-->")
_COMMENT = re.compile(r"<!--(?=\s*indusagi:)")
_BREAK = re.compile(r"(?:##[ \t]+You|---)[ \t]*[\r\n]*\Z")
_HEADING = re.compile(r"##[ \t]+(?:You|Indusagi)[ \t]*[\r\n]*\Z")
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")
_HEAD_LINES = 20
_LINK = re.compile(r"\[[^\]\n]*\]\(indusagi:([A-Za-z0-9._-]{1,128})/([0-9A-Za-z_-]{1,128})\)")


class Section(msgspec.Struct, frozen=True):
    """What the user wrote last: its text, and the line of its heading or None where the document has none."""

    text: str
    heading: int | None
    first: int


class NodeLink(msgspec.Struct, frozen=True):
    """A link to a turn: where it stands in a line, in characters, and what it names."""

    line: int
    start: int
    end: int
    session_id: str
    node: str


def session_of(lines: Sequence[str]) -> str | None:
    """The session that the document is bound to."""
    for line in lines[:_HEAD_LINES]:
        match = _BINDING.search(line)
        if match is not None:
            return match.group(1)
    return None


def binding(session_id: str) -> str:
    """The line that binds a document to a session."""
    return f"<!-- indusagi: session={session_id} -->\n"


def is_binding(line: str) -> bool:
    """Whether a line binds the document."""
    return _BINDING.search(line) is not None


def last_section(lines: Sequence[str]) -> Section:
    """What the user wrote last. After an answer without a heading of the user's, nothing."""
    heading: int | None = None
    answered = False
    for number, line in _outside_fences(lines):
        if _BREAK.match(line):
            heading, answered = number, False
        elif _HEADING.match(line):
            answered = True
    first = 0 if heading is None else heading + 1
    if answered:
        return Section("", heading, len(lines))
    text = "".join(line for line in lines[first:] if not is_binding(line)).strip()
    return Section(text, heading, first)


def guard_line(line: str) -> str:
    """A line of an answer; one that would be taken for a heading of ours is escaped."""
    line = unbound(line)
    return f"\\{line}" if _BREAK.match(line) or _HEADING.match(line) else line


def unbound(text: str) -> str:
    """A piece of an answer that binds the document to no session."""
    return _COMMENT.sub("&lt;!--", text)


def open_fence(text: str) -> str:
    """What closes the fenced block in which a text ends; empty where it ends in none."""
    fence = ""
    for line in text.splitlines():
        fence = _after(line, fence)
    return fence


def links(lines: Sequence[str]) -> list[NodeLink]:
    """The links to turns."""
    return [
        NodeLink(number, match.start(), match.end(), match.group(1), match.group(2))
        for number, line in enumerate(lines)
        if "(indusagi:" in line
        for match in _LINK.finditer(line)
    ]


def node_link(session_id: str, node: str) -> str:
    """A link to a turn."""
    return f"[↳ {node[:8]}](indusagi:{session_id}/{node})"


def fenced(text: str, language: str = "") -> str:
    """A text in a fence that nothing in it closes."""
    longest = max((len(run) for run in re.findall(r"`{3,}", text)), default=2)
    fence = "`" * (longest + 1)
    end = "" if text.endswith("\n") else "\n"
    return f"{fence}{language}\n{text}{end}{fence}\n"


def _outside_fences(lines: Sequence[str]) -> Iterator[tuple[int, str]]:
    fence = ""
    for number, line in enumerate(lines):
        before, fence = fence, _after(line, fence)
        if not before and not fence:
            yield number, line


def _after(line: str, fence: str) -> str:
    """The fence that is open after a line, given that before it."""
    match = _FENCE.match(line)
    if match is None:
        return fence
    mark = match.group(1)
    if not fence:
        return mark
    closes = mark[0] == fence[0] and len(mark) >= len(fence) and not line[match.end() :].strip()
    return "" if closes else fence

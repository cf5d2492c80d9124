"""The index of one session file: the facts of each line, kept as the document changes, and what they make together.

Only lines that were touched are read again. What crosses lines (parents, children, calls without results) is made anew
from the facts, which takes no text.
"""

from __future__ import annotations

import msgspec

from indusagi_lsp.lsp.documents import Splice
from indusagi_lsp.lsp.sessionfiles.facts import Fact, facts_of
from indusagi_lsp.sessions.inspection import Contents, Level, Notes

Facts = tuple[Fact, ...]

_SERIOUS: dict[str, Level] = {"torn": "warning"}


class Spot(msgspec.Struct, frozen=True, gc=False):
    """Where a fact stands: its line and its number within it."""

    line: int
    number: int


class Trouble(msgspec.Struct, frozen=True):
    """Something that is wrong, and where. `code` is the doctor's."""

    level: Level
    code: str
    text: str
    spot: Spot


class Index:
    """What one state of a session file holds. Never changed once it is made.

    Attributes:
        lines: the lines, each with its end.
        facts: of each line; a line that only goes on with the one before it (a lone CR) has none.
        nodes: where each node stands, the first of its id.
        children: the nodes under each node, in the order of the file.
        names: the records that name a node, other than heads.
        troubles: what is wrong.
        leaf: the live leaf.
        undoable: the condensation that an undo would take back.
    """

    def __init__(self, session_id: str, lines: list[str], facts: list[Facts]) -> None:
        self.lines = lines
        self.facts = facts
        self.nodes: dict[str, Spot] = {}
        self.children: dict[str, list[str]] = {}
        self.names: dict[str, list[Spot]] = {}
        self.troubles: list[Trouble] = []
        self.leaf: str | None = None
        self.undoable: Spot | None = None
        self._calls = False
        self._read(session_id)

    def fact(self, spot: Spot) -> Fact:
        """The fact at a spot."""
        return self.facts[spot.line][spot.number]

    def text(self, line: int) -> str:
        """The text that the facts of a line were read from: the line, with those that a lone CR cut off it."""
        return chunk(self.lines, line)

    def place(self, line: int, offset: int) -> tuple[int, int]:
        """The line and the index in it, in characters, of a byte of the text of `line`."""
        if not offset:
            return line, 0
        while True:
            text = self.lines[line] if line < len(self.lines) else ""
            if text.isascii():
                size = len(text)
                index = offset
            else:
                data = text.encode("utf-8", "surrogatepass")
                size = len(data)
                index = len(data[:offset].decode("utf-8", "surrogatepass")) if offset < size else len(text)
            if offset < size or not continues(text) or line + 1 >= len(self.lines):
                return line, min(index, len(text.rstrip("\r\n")))
            offset -= size
            line += 1

    def path(self, node: str | None) -> set[str]:
        """The nodes from one up to its root."""
        found: set[str] = set()
        while node is not None and node not in found and node in self.nodes:
            found.add(node)
            node = self.fact(self.nodes[node]).parent
        return found

    def _read(self, session_id: str) -> None:
        contents, notes = Contents(session_id), Notes()
        condensations: list[tuple[Spot, str]] = []
        heads: list[tuple[Spot, str]] = []
        for line, facts in enumerate(self.facts):
            for number, fact in enumerate(facts):
                spot = Spot(line, number)
                if fact.kind == "node":
                    self._node(contents, fact, spot)
                elif fact.kind == "head" and fact.id is not None:
                    heads.append((spot, fact.id))
                elif fact.kind == "condense" and fact.names:
                    condensations.append((spot, fact.names[0]))
                self._other(fact, spot)
        lineage = contents.check_lineage(notes)
        self.children = lineage.children
        if self._calls:
            contents.check_pairs(lineage, notes)
        for finding in notes.findings:
            if finding.node in self.nodes:
                self.troubles.append(Trouble(finding.level, finding.code, finding.text, self.nodes[finding.node]))
        self._leaf(heads, lineage.leaves)
        live = self.path(self.leaf)
        self.undoable = next((spot for spot, summary in reversed(condensations) if summary in live), None)

    def _other(self, fact: Fact, spot: Spot) -> None:
        """What holds for a fact of any kind."""
        if fact.kind == "problem":
            level = _SERIOUS.get(str(fact.id), "error")
            self.troubles.append(Trouble(level, str(fact.id), fact.title, spot))
        if not fact.whole:
            self.troubles.append(Trouble("warning", "welded", "This record shares its line with something else.", spot))
        for name in fact.names:
            self.names.setdefault(name, []).append(spot)

    def _node(self, contents: Contents, fact: Fact, spot: Spot) -> None:
        node = str(fact.id)
        if node in self.nodes:
            if self.fact(self.nodes[node]).verified != fact.verified:
                text = f"Another content under the id {node}, which was there before."
                self.troubles.append(Trouble("error", "conflict", text, spot))
            return
        self.nodes[node] = spot
        self._calls = self._calls or bool(fact.calls or fact.results)
        contents.know(node, fact.parent, fact.calls, fact.results, verified=fact.verified)
        if not fact.verified:
            text = f"Turn {node} is not what its id promises: it was changed after it was written."
            self.troubles.append(Trouble("error", "unverified", text, spot))

    def _leaf(self, heads: list[tuple[Spot, str]], leaves: tuple[str, ...]) -> None:
        missing: dict[str, Spot] = {}
        for spot, leaf in heads:
            if leaf in self.nodes:
                self.leaf = leaf
            else:
                missing.setdefault(leaf, spot)
        for leaf, spot in missing.items():
            text = f"This head names turn {leaf}, which is not there."
            self.troubles.append(Trouble("warning", "head", text, spot))
        if self.leaf is None and leaves:
            self.leaf = leaves[-1]


class Reader:
    """Keeps the facts of a document from one state to the next."""

    def __init__(self, session_id: str) -> None:
        self._session_id = session_id
        self._facts: list[Facts | None] = []
        self._split = False

    def read(self, lines: list[str], splices: list[Splice] | None) -> Index:
        """Make the index of the document as it is now. Takes long, so it runs in a thread.

        Args:
            lines: the lines now; not changed by anybody any more.
            splices: what was replaced since the last time; None when that is not known.
        """
        split = any(continues(line) for line in lines)
        if splices is None or split or self._split:
            self._facts = [None] * len(lines)
        else:
            for splice in splices:
                self._facts[splice.start : splice.start + splice.removed] = [None] * splice.added
        self._split = split
        for number, known in enumerate(self._facts):
            if known is None:
                goes_on = split and number > 0 and continues(lines[number - 1])
                self._facts[number] = () if goes_on else facts_of(chunk(lines, number) if split else lines[number])
        return Index(self._session_id, lines, [facts or () for facts in self._facts])


def continues(line: str) -> bool:
    """Whether the line ends in a lone CR, which is no end for the records of a session file."""
    return line.endswith("\r")


def chunk(lines: list[str], start: int) -> str:
    """A line together with those that it goes on in."""
    end = start
    while end + 1 < len(lines) and continues(lines[end]):
        end += 1
    return "".join(lines[start : end + 1]) if end > start else (lines[start] if start < len(lines) else "")

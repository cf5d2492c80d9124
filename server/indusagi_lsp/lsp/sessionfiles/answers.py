"""What the editor is told of a session file, as LSP data, from an index of it."""

from __future__ import annotations

import re
from typing import Any, TypeAlias

from indusagi_lsp.condensation import estimate_turn_tokens
from indusagi_lsp.lsp.documents import Encoding, index_of, units_of
from indusagi_lsp.lsp.sessionfiles import render
from indusagi_lsp.lsp.sessionfiles.facts import Fact, raw_at, turn_at
from indusagi_lsp.lsp.sessionfiles.index import Index, Spot, Trouble
from indusagi_lsp.protocol.operations import CONDENSE_UNDO, FORK, RESUME, SESSION_ADOPT, SESSION_DOCTOR, Operation
from indusagi_lsp.sessions.nodes import ID_LENGTH

Json: TypeAlias = dict[str, Any]

SOURCE = "indusagi"
_KINDS = {"user": 15, "assistant": 12, "tool": 24, "system": 3}
_SESSION, _OTHER = 1, 20
_LEVELS = {"error": 1, "warning": 2, "info": 3}
_ID = re.compile(r"[0-9A-Za-z_-]{1,128}")
_REPAIRABLE = frozenset({"torn", "skipped", "malformed", "welded"})
_ADOPTABLE = frozenset({"foreign", "unverified", "gap"})
MOST_TROUBLES = 500
_AROUND = ID_LENGTH * 4


class Answers:
    """The answers for one state of one session file.

    Args:
        index: what the file holds.
        uri: as the client spells it.
        session_id: whose file it is.
        workspace: the folder's URI.
        encoding: what the client counts characters in.
    """

    def __init__(self, index: Index, uri: str, session_id: str, workspace: str, encoding: Encoding) -> None:
        self.index = index
        self._uri = uri
        self._session_id = session_id
        self._workspace = workspace
        self._encoding = encoding

    # --- the whole file -----------------------------------------------------------------------------------------------

    def diagnostics(self, *, foreign: bool) -> list[Json]:
        """What is wrong. `foreign`: somebody else wrote the session."""
        found = [self._diagnostic(trouble) for trouble in self.index.troubles[:MOST_TROUBLES]]
        if foreign:
            text = "Somebody else wrote this session; a model sees it only after you have adopted it."
            found.append(_diagnostic(self._line_range(0), "info", "foreign", text))
        return found

    def symbols(self) -> list[Json]:
        """The outline: each prompt with the turns that follow it in the file, and other records that have a name."""
        roots: list[Json] = []
        under: list[Json] = roots
        for line, fact in self._all():
            if fact.kind == "node":
                symbol = self._symbol(line, fact, f"{fact.role}: {fact.title}", _KINDS.get(fact.role, _OTHER))
                if fact.role == "user":
                    roots.append(symbol)
                    under = symbol["children"] = []
                    continue
                under.append(symbol)
            elif fact.kind in ("session", "condense", "label"):
                title = f"{fact.kind}: {fact.title}" if fact.title else fact.kind
                under.append(self._symbol(line, fact, title, _SESSION if fact.kind == "session" else _OTHER))
            else:
                continue
            if under is not roots:
                roots[-1]["range"]["end"] = under[-1]["range"]["end"]
        return roots

    def flat_symbols(self) -> list[Json]:
        """The same for clients that know no tree."""
        flat: list[Json] = []
        for symbol in self.symbols():
            for one in (symbol, *symbol.get("children", ())):
                place = {"uri": self._uri, "range": one["selectionRange"]}
                flat.append({"name": one["name"], "kind": one["kind"], "location": place})
        return flat

    def folds(self) -> list[Json]:
        """Each prompt with what follows it."""
        starts = [line for line, fact in self._all() if fact.kind == "node" and fact.role == "user"]
        ends = [start - 1 for start in starts[1:]] + [self._last_line()]
        return [
            {"startLine": start, "endLine": end, "kind": "region"}
            for start, end in zip(starts, ends, strict=True)
            if end > start
        ]

    def lenses(self) -> list[Json]:
        """Fork and resume at each turn, undo at the condensation that an undo takes back."""
        found: list[Json] = []
        names = {"sessionId": self._session_id, "workspace": self._workspace}
        for node, spot in self.index.nodes.items():
            line = spot.line
            place = {"start": {"line": line, "character": 0}, "end": {"line": line, "character": 0}}
            arguments = [{**names, "node": node}]
            found.append({"range": place, "command": _command("Fork here", FORK, arguments)})
            title = "Live leaf: resume" if node == self.index.leaf else "Resume here"
            found.append({"range": place, "command": _command(title, RESUME, arguments)})
        if self.index.undoable is not None:
            line = self.index.undoable.line
            place = {"start": {"line": line, "character": 0}, "end": {"line": line, "character": 0}}
            found.append({"range": place, "command": _command("Undo this condensation", CONDENSE_UNDO, [names])})
        return found

    # --- a place ------------------------------------------------------------------------------------------------------

    def hover(self, line: int, character: int, *, markdown: bool) -> Json | None:
        """The decoded record at a place."""
        found = self._fact_at(line, character)
        if found is None:
            return None
        start, fact = found
        text = self.index.text(start)
        if fact.kind == "node" and (said := turn_at(text, fact)) is not None:
            shown = render.turn_markdown(str(fact.id), *said, verified=fact.verified)
        elif fact.kind == "problem":
            shown = render.fenced(fact.title)
        else:
            shown = render.record_markdown(fact.kind, raw_at(text, fact))
        kind = "markdown" if markdown else "plaintext"
        return {"contents": {"kind": kind, "value": shown}, "range": self._range(start, fact)}

    def definition(self, line: int, character: int) -> Json | None:
        """The node whose id is at a place; else the parent of the turn there, or what its record names."""
        target = self._named_at(line, character)
        found = self._fact_at(line, character)
        if found is not None and (target is None or target == found[1].id) and found[1].kind == "node":
            target = found[1].parent
        elif target is None and found is not None:
            target = found[1].id or next(iter(found[1].names), None)
        return self._location(target)

    def references(self, line: int, character: int, *, declaration: bool) -> list[Json]:
        """The children of the node at a place, and the records that name it."""
        target = self._named_at(line, character)
        if target is None:
            found = self._fact_at(line, character)
            target = found[1].id if found is not None and found[1].kind == "node" else None
        if target is None:
            return []
        nodes = [*([target] if declaration else []), *self.index.children.get(target, ())]
        places = [place for node in nodes if (place := self._location(node)) is not None]
        named = self.index.names.get(target, ())
        return places + [{"uri": self._uri, "range": self._spot_range(spot)} for spot in named]

    def hints(self, first: int, last: int) -> list[Json]:
        """The tokens of each turn in some lines, at their begin, where they are seen however long the line is."""
        found: list[Json] = []
        for line in range(max(first, 0), min(last + 1, len(self.index.facts))):
            for fact in self.index.facts[line]:
                if fact.kind != "node":
                    continue
                said = turn_at(self.index.text(line), fact)
                if said is not None:
                    label = f"{fact.role} · {estimate_turn_tokens(said[0]):,} tokens"
                    place = self._position(line, fact.offset)
                    found.append({"position": place, "label": label, "paddingRight": True})
        return found

    def actions(self, first: int, last: int, diagnostics: list[Json]) -> list[Json]:
        """Quick fixes for what is wrong in some lines."""
        codes = {trouble.code for trouble in self.index.troubles if first <= trouble.spot.line <= last}
        codes.update(str(one.get("code")) for one in diagnostics if one.get("source") == SOURCE)
        names = {"sessionId": self._session_id, "workspace": self._workspace}
        found: list[Json] = []
        for wanted, title, operation, arguments in (
            (_REPAIRABLE, "Repair this session (nothing is lost)", SESSION_DOCTOR, {**names, "repair": True}),
            (_ADOPTABLE, "Adopt this session as your own", SESSION_ADOPT, names),
        ):
            if codes & wanted:
                fixed = [one for one in diagnostics if one.get("source") == SOURCE and one.get("code") in wanted]
                found.append(
                    {
                        "title": title,
                        "kind": "quickfix",
                        "diagnostics": fixed,
                        "command": _command(title, operation, [arguments]),
                    }
                )
        return found

    # --- places -------------------------------------------------------------------------------------------------------

    def _all(self) -> list[tuple[int, Fact]]:
        return [(line, fact) for line, facts in enumerate(self.index.facts) for fact in facts]

    def _last_line(self) -> int:
        return max((line for line, facts in enumerate(self.index.facts) if facts), default=0)

    def _position(self, line: int, offset: int) -> Json:
        line, index = self.index.place(line, offset)
        text = self.index.lines[line] if line < len(self.index.lines) else ""
        return {"line": line, "character": units_of(text, index, self._encoding)}

    def _range(self, line: int, fact: Fact) -> Json:
        if fact.whole and fact.kind != "problem" and not self.index.lines[line].endswith("\r"):
            # It fills the line, so its bytes need not be counted.
            return self._line_range(line)
        return {
            "start": self._position(line, fact.offset),
            "end": self._position(line, fact.offset + fact.length),
        }

    def _line_range(self, line: int) -> Json:
        text = self.index.lines[line] if line < len(self.index.lines) else ""
        end = units_of(text, len(text.rstrip("\r\n")), self._encoding)
        return {"start": {"line": line, "character": 0}, "end": {"line": line, "character": end}}

    def _spot_range(self, spot: Spot) -> Json:
        return self._range(spot.line, self.index.fact(spot))

    def _diagnostic(self, trouble: Trouble) -> Json:
        return _diagnostic(self._spot_range(trouble.spot), trouble.level, trouble.code, trouble.text)

    def _symbol(self, line: int, fact: Fact, name: str, kind: int) -> Json:
        place = self._range(line, fact)
        # The outline goes to the begin of a line, never a megabyte to its right.
        begin = {"start": place["start"], "end": place["start"]}
        return {"name": name, "kind": kind, "range": place, "selectionRange": begin}

    def _fact_at(self, line: int, character: int) -> tuple[int, Fact] | None:
        """The record at a place, or the nearest one before it on the same line, and the line where its text begins."""
        start = line
        while start > 0 and start < len(self.index.facts) and not self.index.facts[start]:
            if not self.index.lines[start - 1].endswith("\r"):
                return None
            start -= 1
        if not 0 <= start < len(self.index.facts) or not self.index.facts[start]:
            return None
        at = sum(len(self.index.lines[number].encode("utf-8", "surrogatepass")) for number in range(start, line))
        text = self.index.lines[line]
        at += len(text[: index_of(text, character, self._encoding)].encode("utf-8", "surrogatepass"))
        before = [fact for fact in self.index.facts[start] if fact.offset <= at]
        return start, before[-1] if before else self.index.facts[start][0]

    def _named_at(self, line: int, character: int) -> str | None:
        """The id of a node that stands at a place."""
        if not 0 <= line < len(self.index.lines):
            return None
        text = self.index.lines[line]
        index = index_of(text, character, self._encoding)
        begin = max(0, index - _AROUND)
        for match in _ID.finditer(text, begin, index + _AROUND):
            if match.start() <= index <= match.end():
                return match.group() if match.group() in self.index.nodes else None
        return None

    def _location(self, node: str | None) -> Json | None:
        spot = self.index.nodes.get(node) if node is not None else None
        return None if spot is None else {"uri": self._uri, "range": self._spot_range(spot)}


def _diagnostic(place: Json, level: str, code: str, text: str) -> Json:
    return {"range": place, "severity": _LEVELS[level], "code": code, "source": SOURCE, "message": text}


def _command(title: str, operation: Operation, arguments: list[Json]) -> Json:
    return {"title": title, "command": operation.command, "arguments": arguments}

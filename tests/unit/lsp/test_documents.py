"""Positions and changes of open documents, in every unit that a client may count in."""

from __future__ import annotations

import random

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from indusagi_lsp.lsp.documents import Documents, index_of, split_lines, units_of

ENCODINGS = ("utf-8", "utf-16", "utf-32")
PIECES = ["a", "é", "😀", "\u2028", "\x0c", "\x85", "\n", "\r\n", "\r", "\U0001d54f", "\ud800", "line"]
texts = st.lists(st.sampled_from(PIECES), max_size=12).map("".join)


def units(text: str, encoding: str) -> int:
    """Counted in the plainest way."""
    width = {"utf-8": 1, "utf-16": 2, "utf-32": 4}[encoding]
    codec = encoding if encoding == "utf-8" else f"{encoding}-le"
    return sum(len(one.encode(codec, "surrogatepass")) // width for one in text)


@given(texts, st.sampled_from(ENCODINGS))
def test_every_place_of_a_line_can_be_named(text, encoding):
    for line in split_lines(text):
        for index in range(len(line) + 1):
            at = units_of(line, index, encoding)
            assert at == units(line[:index], encoding)
            assert index_of(line, at, encoding) == index


def test_the_inside_of_a_character_is_its_begin():
    assert index_of("a😀b", 2, "utf-16") == 1
    assert [index_of("a😀b", n, "utf-8") for n in range(7)] == [0, 1, 1, 1, 1, 2, 3]
    assert index_of("a😀b", 99, "utf-16") == 3
    assert index_of("a😀b", -1, "utf-8") == 0


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_a_line_of_a_megabyte(encoding):
    line = "é😀" * 250_000 + "x"
    at = units_of(line, 500_000, encoding)
    assert at == {"utf-8": 1_500_000, "utf-16": 750_000, "utf-32": 500_000}[encoding]
    assert line[index_of(line, at, encoding)] == "x"


def test_only_what_lsp_calls_an_end_ends_a_line():
    assert split_lines("a\u2028b\x0cc\x85d\ne\rf\r\ng") == ["a\u2028b\x0cc\x85d\n", "e\r", "f\r\n", "g"]


@pytest.mark.parametrize("encoding", ENCODINGS)
@pytest.mark.parametrize("seed", range(40))
def test_changes_follow_the_editor(encoding, seed):
    """Random edits give the same text as edits of one long text, and the splices tell where lines were replaced."""
    dice = random.Random(seed)

    def some() -> str:
        return "".join(dice.choices(PIECES, k=dice.randrange(8)))

    documents = Documents()
    documents.encoding = encoding
    text = some() + some()
    document = documents.open({"textDocument": {"uri": "file:///a", "languageId": "x", "version": 0, "text": text}})
    assert document.take_splices() is None
    mirror = list(document.lines)
    for version in range(1, 30):
        lines = split_lines(text)

        def place(lines=lines) -> tuple[int, int]:
            line = dice.randrange(len(lines) + 1)
            body = lines[line].rstrip("\r\n") if line < len(lines) else ""
            return line, dice.randrange(len(body) + 1)

        def offset(at, lines=lines) -> int:
            return sum(map(len, lines[: at[0]])) + at[1]

        start, end = sorted([place(), place()])
        new = some()
        if lines and not lines[-1].endswith(("\n", "\r")) and len(lines) in (start[0], end[0]):
            continue  # no client names the line after a last one without an end
        expected = text[: offset(start)] + new + text[offset(end) :]
        positions = [
            {"line": at[0], "character": units((lines[at[0]] if at[0] < len(lines) else "")[: at[1]], encoding)}
            for at in (start, end)
        ]
        change = {"range": {"start": positions[0], "end": positions[1]}, "text": new}
        if dice.random() < 0.1:
            change = {"text": expected}
        documents.change({"textDocument": {"uri": "file:///a", "version": version}, "contentChanges": [change]})
        text = expected
        assert document.text == text
        assert document.lines == split_lines(text)
        assert document.version == version
        for splice in document.take_splices() or []:
            mirror[splice.start : splice.start + splice.removed] = document.lines[
                splice.start : splice.start + splice.added
            ]
        assert mirror == document.lines


def test_a_selection_and_ends():
    documents = Documents()
    text = "one 😀\ntwo\n"
    document = documents.open({"textDocument": {"uri": "file:///a", "text": text}})
    chosen = {"start": {"line": 0, "character": 4}, "end": {"line": 1, "character": 2}}
    assert document.selected(chosen) == "😀\ntw"
    assert document.last() == {"line": 2, "character": 0}
    assert document.end(0) == {"line": 0, "character": 6}


@pytest.mark.parametrize("params", [None, {}, {"textDocument": {"uri": 1}}, {"textDocument": {"uri": "file:///a"}}])
def test_nonsense_is_refused(params):
    documents = Documents()
    with pytest.raises(msgspec.ValidationError):
        documents.open(params)
    with pytest.raises(msgspec.ValidationError):
        documents.change(params)


def test_changes_of_a_document_that_is_not_open():
    params = {"textDocument": {"uri": "file:///a", "version": 1}, "contentChanges": [{"text": "x"}]}
    assert Documents().change(params) is None

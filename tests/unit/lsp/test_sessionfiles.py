"""What a session file shows in an editor, line by line and across lines."""

from __future__ import annotations

import random

import msgspec
import pytest

from indusagi_lsp.contract.turns import assistant, user
from indusagi_lsp.lsp.documents import Document, _Change, split_lines
from indusagi_lsp.lsp.sessionfiles.answers import Answers
from indusagi_lsp.lsp.sessionfiles.index import Reader
from indusagi_lsp.lsp.sessionfiles.places import locate, place_of
from unit.lsp.session_text import Log, call, record, result, talk

URI = "file:///ws/.indusagi/sessions/s1.jsonl"


def answers(text: str, encoding: str = "utf-16") -> Answers:
    index = Reader("s1").read(split_lines(text), None)
    return Answers(index, URI, "s1", "file:///ws", encoding)


def troubles(text: str) -> set[tuple[str, int]]:
    found = answers(text).diagnostics(foreign=False)
    return {(one["code"], one["range"]["start"]["line"]) for one in found}


def test_a_good_file_has_no_diagnostics():
    assert troubles(talk().text) == set()


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "utf-32"])
def test_a_torn_record_at_the_end(encoding):
    text = talk().text
    cut = text + '{"type":"node","node":{"id":"😀abc'
    (found,) = answers(cut, encoding).diagnostics(foreign=False)
    assert (found["code"], found["severity"], found["source"]) == ("torn", 2, "indusagi")
    last = cut.rpartition("\n")[2]
    width = {"utf-8": 1, "utf-16": 2, "utf-32": 4}[encoding]
    size = len(last.encode(encoding if encoding == "utf-8" else encoding + "-le")) // width
    assert found["range"] == {"start": {"line": 9, "character": 0}, "end": {"line": 9, "character": size}}


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "utf-32"])
def test_welded_records_far_to_the_right(encoding):
    """Positions are right behind a megabyte of characters that take more than one unit."""
    log = Log()
    log.say(user("é😀" * 150_000))
    first = log.text.rstrip("\n")
    log.say(assistant("welded"))
    second = log.text[len(first) + 1 :]
    text = first + second
    line = text.splitlines()[1]
    found = [one for one in answers(text, encoding).diagnostics(foreign=False) if one["code"] == "welded"]
    assert len(found) == 2
    width = {"utf-8": 1, "utf-16": 2, "utf-32": 4}[encoding]
    codec = encoding if encoding == "utf-8" else encoding + "-le"
    before = len(line[: len(line) - len(second.rstrip("\n"))].encode(codec)) // width
    assert found[1]["range"]["start"] == {"line": 1, "character": before}
    assert found[1]["range"]["end"] == {"line": 1, "character": len(line.encode(codec)) // width}
    shown = answers(text, encoding).hover(1, before + 5, markdown=True)
    assert "welded" in shown["contents"]["value"]


def test_what_does_not_fit_together():
    log = talk()
    changed = log.text.replace("an answer", "no answer")
    assert ("unverified", 3) in troubles(changed)
    without = "".join(line for line in split_lines(log.text) if log.ids[0] not in line[:70])
    assert troubles(without) == {("gap", 1)}
    log.say(call("c2"))
    assert troubles(log.text) == {("unanswered", 9)}
    log.say(result("c2"))
    assert troubles(log.text) == set()
    log.say(result("c9"))
    assert ("orphan_result", 11) in troubles(log.text)
    log.add({"type": "head", "leaf": "f" * 32})
    assert ("head", 12) in troubles(log.text)
    assert ("malformed", 13) in troubles(log.text + "[1]\n")
    assert ("skipped", 13) in troubles(log.text + "rubbish\n")
    assert ("bad_node", 13) in troubles(log.text + record({"type": "node", "node": {"id": 1}}))
    assert ("malformed", 13) in troubles(log.text + record({"no": "type"}))


def test_the_same_is_found_as_by_the_doctor(tmp_path):
    """Whatever happens to the bytes, the editor and the doctor agree on what is broken."""
    from indusagi_lsp.sessions.inspection import Contents, Notes
    from indusagi_lsp.sessions.records import read_records

    log = talk()
    log.say(call("c2"))
    data = log.text.encode()
    dice = random.Random(3)
    path = tmp_path / "s1.jsonl"
    for _ in range(60):
        broken = bytearray(data)
        for _ in range(dice.randrange(1, 4)):
            at = dice.randrange(len(broken))
            broken[at : at + dice.randrange(3)] = dice.choice([b"", b"\n", b"x", b"}", '"é'.encode()])
        text = broken.decode("utf-8", "replace")
        path.write_text(text, "utf-8", newline="")
        contents, notes = Contents("s1"), Notes()
        for item in read_records(path):
            contents.take(item, notes)
        contents.check_pairs(contents.check_lineage(notes), notes)
        doctors = [finding.code for finding in (*contents.broken, *notes.findings)]
        ours = [trouble.code for trouble in answers(text).index.troubles]
        for code in ("torn", "skipped", "gap", "unverified", "unanswered", "orphan_result", "bad_node", "conflict"):
            assert ours.count(code) == doctors.count(code), (code, text)


def test_the_outline_has_prompts_with_their_turns():
    log = talk()
    log.add({"type": "label", "node": log.ids[0], "name": "start"})
    symbols = answers(log.text).symbols()
    assert [one["name"] for one in symbols] == ["session", "user: first 😀 question", "user: second"]
    assert [one["name"] for one in symbols[1]["children"]] == ["assistant: an answer"]
    assert [one["name"] for one in symbols[2]["children"]] == ["assistant: read(…)", "tool: out", "label: start"]
    for one in symbols:
        for child in one.get("children", []):
            assert one["range"]["end"]["line"] >= child["range"]["end"]["line"]
    flat = answers(log.text).flat_symbols()
    assert len(flat) == 7
    assert flat[0]["location"]["uri"] == URI


def test_folds_are_prompts_with_what_follows():
    assert answers(talk().text).folds() == [
        {"startLine": 1, "endLine": 4, "kind": "region"},
        {"startLine": 5, "endLine": 8, "kind": "region"},
    ]


def test_hover_shows_foreign_text_as_text():
    log = Log()
    log.say(user("![x](http://evil/p.png)\n```\n````\n[link](command:x) \u202e \x1b[31mred"))
    shown = answers(log.text).hover(1, 5, markdown=True)
    value = shown["contents"]["value"]
    assert "`````markdown\n![x]" in value
    assert value.endswith("\n`````")
    assert "\u202e" not in value
    assert "\x1b" not in value
    assert "about" in value
    assert shown["range"]["end"]["character"] > 100
    assert answers(log.text).hover(0, 0, markdown=False)["contents"]["kind"] == "plaintext"
    assert answers(log.text).hover(7, 0, markdown=True) is None


def test_definition_is_the_parent_and_references_are_the_children():
    log = talk()
    log.say(user("branch"), parent=1)
    log.add({"type": "label", "node": log.ids[1], "name": "here"})
    told = answers(log.text)
    assert told.definition(3, 400)["range"]["start"]["line"] == 1
    assert told.definition(1, 0) is None
    # On a parent's id, and on a head's leaf.
    line = log.text.splitlines()[5]
    assert told.definition(5, line.index(log.ids[1]) + 3)["range"]["start"]["line"] == 3
    assert told.definition(2, 0)["range"]["start"]["line"] == 1
    assert told.definition(10, 0)["range"]["start"]["line"] == 3
    assert [one["range"]["start"]["line"] for one in told.references(3, 0, declaration=False)] == [5, 9, 10]
    assert [one["range"]["start"]["line"] for one in told.references(3, 0, declaration=True)] == [3, 5, 9, 10]
    assert told.references(0, 0, declaration=True) == []


def test_lenses_are_commands_with_one_object():
    log = talk()
    summary = log.say(user("summary"), parent=None)
    log.add({"type": "condense", "summary": summary, "from": log.ids[4], "cut": None})
    log.head()
    lenses = answers(log.text).lenses()
    titles = [(one["range"]["start"]["line"], one["command"]["title"]) for one in lenses]
    assert (1, "Fork here") in titles
    assert (1, "Resume here") in titles
    assert (9, "Live leaf: resume") in titles
    assert titles[-1] == (10, "Undo this condensation")
    assert lenses[0]["command"] == {
        "title": "Fork here",
        "command": "indusagi.server.fork",
        "arguments": [{"sessionId": "s1", "workspace": "file:///ws", "node": log.ids[0]}],
    }
    # Once it is undone, there is nothing to take back.
    log.head(log.ids[4])
    assert not [one for one in answers(log.text).lenses() if one["command"]["title"].startswith("Undo")]


def test_hints_are_where_they_are_seen():
    hints = answers(talk().text).hints(0, 4)
    assert [one["position"] for one in hints] == [{"line": 1, "character": 0}, {"line": 3, "character": 0}]
    assert hints[0]["label"].startswith("user · ")


def test_quick_fixes():
    text = talk().text + "rubbish\n"
    told = answers(text)
    found = told.diagnostics(foreign=True)
    (repair,) = told.actions(9, 9, [one for one in found if one["code"] == "skipped"])
    assert repair["kind"] == "quickfix"
    assert repair["command"]["command"] == "indusagi.server.session/doctor"
    assert repair["command"]["arguments"] == [{"sessionId": "s1", "workspace": "file:///ws", "repair": True}]
    assert [one["code"] for one in repair["diagnostics"]] == ["skipped"]
    (adopt,) = told.actions(0, 0, [one for one in found if one["code"] == "foreign"])
    assert adopt["command"]["command"] == "indusagi.server.session/adopt"
    assert told.actions(3, 3, []) == []


def test_a_lone_cr_ends_no_record():
    log = talk()
    text = log.text.replace('{"type":"head"', '{\r"type":"head"', 1)
    told = answers(text)
    assert told.diagnostics(foreign=False) == []
    assert told.definition(3, 2)["range"]["start"]["line"] == 1
    assert told.hover(3, 2, markdown=True)["range"] == {
        "start": {"line": 2, "character": 0},
        "end": {"line": 3, "character": len(text.splitlines()[3])},
    }


@pytest.mark.parametrize("seed", range(20))
def test_only_what_was_touched_is_read_again_and_nothing_is_missed(seed, monkeypatch):
    from indusagi_lsp.lsp.sessionfiles import index as module

    dice = random.Random(seed)
    log = talk()
    for number in range(20):
        log.say(user(f"turn {number}"))
    document = Document(URI, log.text, 1, "utf-16")
    reader = Reader("s1")
    reader.read(list(document.lines), document.take_splices())
    real = module.facts_of
    seen: list[str] = []
    monkeypatch.setattr(module, "facts_of", lambda line: seen.append(line) or real(line))
    for version in range(2, 12):
        line = dice.randrange(len(document.lines))
        place = {"line": line, "character": dice.randrange(60)}
        end = {"line": min(line + dice.randrange(2), len(document.lines)), "character": dice.randrange(60)}
        text = dice.choice(["", "x", "\n", log.text.splitlines()[2] + "\n", "\r"])
        change = {"range": {"start": place, "end": end}, "text": text}
        document.change(msgspec.convert(change, _Change), version)
        seen.clear()
        index = reader.read(list(document.lines), document.take_splices())
        if "\r" not in document.text:
            assert len(seen) <= 3
        fresh = Reader("s1").read(list(document.lines), None)
        assert index.facts == fresh.facts
        assert index.troubles == fresh.troubles


@pytest.mark.parametrize(
    ("uri", "place"),
    [
        (URI, ("file:///ws", "s1")),
        ("file:///a%20b/.indusagi/sessions/x.y.jsonl", ("file:///a%20b", "x.y")),
        ("file:///ws/.indusagi/sessions/sub/s1.jsonl", None),
        ("file:///ws/.indusagi/sessions/s1.json", None),
        ("file:///ws/.indusagi/sessions/..jsonl", None),
        ("file:///ws/sessions/s1.jsonl", None),
    ],
)
def test_which_uri_is_a_session_file(uri, place):
    found = place_of(uri)
    assert (None if found is None else (found.workspace, found.session_id)) == place


async def test_nodes_are_located_on_disk(tmp_path):
    folder = tmp_path / ".indusagi" / "sessions"
    folder.mkdir(parents=True)
    log = talk()
    (folder / "s1.jsonl").write_text(log.text, "utf-8")
    uri, places = await locate(tmp_path.as_uri(), "s1", [log.ids[2], "0" * 32], "utf-16")
    assert uri == (folder / "s1.jsonl").as_uri()
    assert places == {log.ids[2]: (5, 0)}
    assert (await locate(tmp_path.as_uri(), "none", [log.ids[2]], "utf-16"))[1] == {}

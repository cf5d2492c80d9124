"""Edits through the editor: what is asked of which client, and what comes of refusal, silence and typing users."""

from __future__ import annotations

import asyncio
import random

import pytest

from indusagi_lsp.lsp.client import ClientFeatures
from indusagi_lsp.lsp.documents import Documents, split_lines
from indusagi_lsp.lsp.edits import DocumentEditor, difference
from wire.editor import replace

URI = "file:///ws/a.py"


class Client:
    """A client that applies edits, in the way that a test wants it to."""

    def __init__(self, text: str, **features: bool) -> None:
        self.documents = Documents()
        self.features = ClientFeatures(apply_edit=True, **features)
        self.document = self.documents.open({"textDocument": {"uri": URI, "version": 1, "text": text}})
        self.asked: list = []
        self.way = "apply"
        self.editor = DocumentEditor(self, self.documents, lambda: self.features, limit=0.3)

    async def ask(self, method, params, timeout=None):  # noqa: ASYNC109 - as the peer has it
        self.asked.append((method, params))
        if self.way == "silent":
            await asyncio.sleep(timeout)
            raise TimeoutError
        if self.way == "refuse":
            return {"applied": False}
        if self.way == "nonsense":
            return 7
        edits = params["edit"].get("changes", {}).get(URI) or params["edit"]["documentChanges"][0]["edits"]
        if self.way == "late":
            asyncio.get_running_loop().call_later(0.05, self.change, edits)
        else:
            self.change(edits)
        return {"applied": True}

    def change(self, edits) -> None:
        changes = [{"range": one["range"], "text": one["newText"]} for one in edits]
        params = {"textDocument": {"uri": URI, "version": 2}, "contentChanges": changes}
        self.documents.change(params)


@pytest.mark.parametrize("way", ["apply", "late"])
async def test_an_edit_is_applied(way):
    client = Client("a\nb\nc\n", document_changes=True, annotations=True)
    client.way = way
    assert await client.editor.replace("FILE:///ws/a%2Epy", "a\nB\nc\n", "Change b")
    ((method, params),) = client.asked
    assert method == "workspace/applyEdit"
    assert params == {
        "label": "Change b",
        "edit": {
            "documentChanges": [
                {
                    "textDocument": {"uri": URI, "version": 1},
                    "edits": [
                        {
                            "range": {"start": {"line": 1, "character": 0}, "end": {"line": 2, "character": 0}},
                            "newText": "B\n",
                            "annotationId": "indusagi",
                        }
                    ],
                }
            ],
            "changeAnnotations": {"indusagi": {"label": "Indusagi", "description": "Change b"}},
        },
    }
    assert client.document.text == "a\nB\nc\n"
    # It has that text already.
    assert await client.editor.replace(URI, "a\nB\nc\n", "")
    assert len(client.asked) == 1


async def test_old_clients_get_plain_changes():
    client = Client("a\n")
    assert await client.editor.replace(URI, "b\n", "")
    assert list(client.asked[0][1]["edit"]) == ["changes"]


@pytest.mark.parametrize("way", ["refuse", "silent", "nonsense"])
async def test_what_was_not_done_is_said(way):
    client = Client("a\n", document_changes=True)
    client.way = way
    assert await client.editor.replace(URI, "b\n", "") is False


async def test_no_client_no_document():
    client = Client("a\n")
    assert await client.editor.replace("file:///other", "b", "") is False
    client.features = ClientFeatures()
    assert await client.editor.replace(URI, "b", "") is False
    assert await client.editor.show(URI) is False
    assert await client.editor.create(URI, "b", "") is False
    assert client.asked == []


@pytest.mark.parametrize("seed", range(30))
def test_the_difference_gives_the_text(seed):
    dice = random.Random(seed)
    pieces = ["a\n", "b\n", "😀\n", "c", "\n"]
    old, new = ("".join(dice.choices(pieces, k=dice.randrange(6))) for _ in range(2))
    document = Documents().open({"textDocument": {"uri": URI, "text": old}})
    edit = difference(document, new)
    assert replace(old, edit["range"], edit["newText"]) == new


@pytest.mark.parametrize("seed", range(60))
def test_an_anchor_keeps_its_place(seed):
    """It stays between the same two characters whatever is written around it."""
    dice = random.Random(seed)
    documents = Documents()
    text = "one\ntwo 😀\nthree\n|four\nfive"
    document = documents.open({"textDocument": {"uri": URI, "text": text}})
    anchor = document.anchor(3, 1)
    for version in range(20):
        lines = split_lines(text)
        mark = next(number for number, line in enumerate(lines) if "|" in line)
        # Somewhere before the mark, or behind it, but never over it.
        if dice.random() < 0.5:
            line = dice.randrange(mark + 1)
            room = lines[line].index("|") if line == mark else len(lines[line].rstrip("\n"))
        else:
            line = dice.randrange(mark, len(lines))
            room = len(lines[line].rstrip("\n"))
        low = lines[line].index("|") + 2 if line == mark and room > lines[line].index("|") else 0
        if low > room:
            continue
        start, end = sorted(dice.randint(low, room) for _ in range(2))
        new = dice.choice(["", "x", "é\n", "\n\n", "a\nb"])
        units = [len(lines[line][:at].encode("utf-16-le")) // 2 for at in (start, end)]
        place = {
            "start": {"line": line, "character": units[0]},
            "end": {"line": line, "character": units[1]},
        }
        text = replace(text, place, new)
        change = {"range": place, "text": new} if dice.random() < 0.8 else {"text": text}
        documents.change({"textDocument": {"uri": URI, "version": version}, "contentChanges": [change]})
        assert document.text == text
        assert document.line(anchor.line)[: anchor.index].endswith("|"), (text, anchor)

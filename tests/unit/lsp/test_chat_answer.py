"""An answer on its way into a document, in editors of all habits."""

from __future__ import annotations

import asyncio
import random

import pytest

from indusagi_lsp.contract import events as e
from indusagi_lsp.lsp.chat.answer import AnswerWriter
from indusagi_lsp.lsp.chat.text import last_section
from unit.lsp.test_edits import URI, Client


class Strict(Client):
    """A client that refuses edits for a state that it has left, and tells of its changes when it likes."""

    def __init__(self, text: str, *, late: float = 0.0, crlf: bool = False, versions: bool = True) -> None:
        super().__init__(text, document_changes=versions)
        self.late = late
        self.crlf = crlf
        self.version = 1
        self.ahead = 0

    async def ask(self, method, params, timeout=None):  # noqa: ASYNC109 - as the peer has it
        self.asked.append(params)
        if self.features.document_changes:
            change = params["edit"]["documentChanges"][0]
            if change["textDocument"]["version"] != self.version:
                return {"applied": False}
            given = change["edits"]
        else:
            given = params["edit"]["changes"][URI]
        edits = sorted(given, key=lambda one: list(one["range"]["start"].values()), reverse=True)
        if self.crlf:
            edits = [{**one, "newText": one["newText"].replace("\n", "\r\n")} for one in edits]
        self.version += 1
        if self.late:
            asyncio.get_running_loop().call_later(self.late, self.tell, edits)
        else:
            self.tell(edits)
        return {"applied": True}

    def tell(self, edits) -> None:
        changes = [{"range": one["range"], "text": one["newText"]} for one in edits]
        params = {"textDocument": {"uri": URI, "version": self.version}, "contentChanges": changes}
        self.documents.change(params)

    def type(self, line: int, character: int, text: str) -> None:
        self.version += 1
        at = {"line": line, "character": character}
        self.tell([{"range": {"start": at, "end": at}, "newText": text}])


async def answer(client: Client, pieces, *, meanwhile=lambda: None, bind=None, interval=0.01) -> AnswerWriter:
    writer = AnswerWriter(client.document, client.editor, bind, interval)
    writer.start()
    for piece in pieces:
        writer.event(piece if not isinstance(piece, str) else e.TextDelta(piece))
        meanwhile()
        await asyncio.sleep(0.002)
    await writer.finish("*end*")
    return writer


ANSWER = "Some words.\n\n## You\n---\n```\ncode 😀\n```\nlast <!-- indusagi: session=x --> line"
EXPECTED = "Some words.\n\n\\## You\n\\---\n```\ncode 😀\n```\nlast &lt;!-- indusagi: session=x --> line"


@pytest.mark.parametrize("seed", range(15))
async def test_however_it_is_cut(seed):
    dice = random.Random(seed)
    pieces, at = [], 0
    while at < len(ANSWER):
        size = dice.randint(1, 6)
        pieces.append(ANSWER[at : at + size])
        at += size
    client = Strict("hello")
    await answer(client, pieces, bind="s1")
    expected = f"<!-- indusagi: session=s1 -->\nhello\n\n## Indusagi\n\n{EXPECTED}\n\n*end*\n\n## You\n\n"
    assert client.document.text == expected
    assert last_section(client.document.lines).text == ""


@pytest.mark.parametrize("versions", [True, False])
@pytest.mark.parametrize(("late", "crlf"), [(0.02, False), (0.0, True), (0.03, True)])
async def test_editors_that_tell_late_or_write_crlf(late, crlf, versions):
    """Where edits carry no version, nobody notices one for a text that is gone: each must wait for the one before."""
    client = Strict("hello\n", late=late, crlf=crlf, versions=versions)
    await answer(client, [f"word{number} " for number in range(60)])
    text = client.document.text.replace("\r\n", "\n")
    assert "".join(f"word{number} " for number in range(60)) in text


async def test_the_user_types_above_and_below():
    client = Strict("top\n\nhello\n")
    count = iter(range(1000))

    def meanwhile() -> None:
        number = next(count)
        if number % 3 == 0:
            client.type(0, 0, f"n{number}\n")

    await answer(client, [f"word{number} " for number in range(60)], meanwhile=meanwhile)
    text = client.document.text
    assert "".join(f"word{number} " for number in range(60)) in text
    assert all(f"n{number}\n" in text for number in range(0, 60, 3))


async def test_an_editor_that_always_refuses_is_given_up():
    client = Client("hello", document_changes=True)
    client.way = "refuse"
    writer = AnswerWriter(client.document, client.editor, None, 0.0)
    writer._retry_seconds = 0.001
    writer.start()
    writer.event(e.TextDelta("words"))
    await writer.finish("")
    assert writer.failed
    assert client.document.text == "hello"


async def test_few_edits_for_many_deltas():
    client = Strict("hello")
    await answer(client, [f"word{number} " for number in range(200)], interval=0.2)
    assert len(client.asked) <= 6


async def test_tools_and_open_fences_are_shown():
    client = Strict("hello\n\n")
    await answer(client, ["I look.", e.ToolCalled("c1", "read_file", {}), "```\ncode"])
    assert client.document.text.endswith(
        "hello\n\n## Indusagi\n\nI look.\n\n> read_file …\n\n```\ncode\n```\n\n*end*\n\n## You\n\n"
    )

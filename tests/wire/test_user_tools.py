"""A question of the agent, and the editor's problems, over the wire: in our words, and to an editor without them."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from wire.editor import EDITOR, Editor

OURS = {"experimental": {"indusagi": {"events": True, "approvals": True, "questions": True, "diagnostics": True}}}


def calls(name: str, **arguments: Any) -> dict[str, Any]:
    return {"calls": [{"name": name, "input": arguments}]}


async def outputs(editor: Editor, text: str) -> list[tuple[str, bool]]:
    session = (await editor.ask("indusagi/session/new", {}))["result"]["id"]
    final = (await editor.ask("indusagi/submit", {"sessionId": session, "text": text}))["result"]
    blocks = [block for message in final["messages"] for block in message["blocks"]]
    return [(block["output"], block.get("isError", False)) for block in blocks if block["kind"] == "tool_result"]


class Answering(Editor):
    """An editor whose user and language servers say what the test sets."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.asked: list[tuple[str, Any]] = []
        self.replies: dict[str, list[dict[str, Any]]] = {}

    def handle(self, message: Any) -> None:
        waiting = self.replies.get(message.get("method", ""))
        if waiting and "id" in message:
            self.asked.append((message["method"], message["params"]))
            self.wire.send(id=message["id"], **waiting.pop(0))
        else:
            super().handle(message)


async def test_a_client_that_knows_our_words(start: Any, tmp_path: Path) -> None:
    ask, look = calls("ask_user", question="Tabs?", options=["yes"]), calls("diagnostics", path="a.py")
    editor = await Answering.start(start, tmp_path, [ask, ask, ask, look, look, "Good."], OURS)
    uri = (tmp_path / "ws/a.py").as_uri()
    place = {"line": 1, "character": 2}
    shown = {"range": {"start": place, "end": place}, "message": "undefined", "tags": [1], "codeDescription": {}}
    editor.replies = {
        "indusagi/question": [{"result": {"answer": "no, spaces"}}, {"result": 5}, {"result": {"answer": None}}],
        "indusagi/diagnostics": [
            {"result": {"files": [{"uri": uri, "diagnostics": [{**shown, "severity": 1}]}]}},
            {"error": {"code": -32603, "message": "no"}},
        ],
    }
    found = await outputs(editor, "Go.")
    assert found[0] == ("no, spaces", False)
    assert found[1] == ("The user could not be asked. Ask in your answer, and end your turn.", True)
    assert found[2][0].startswith("The user gave no answer.")
    assert found[3] == ("a.py:2:3 error: undefined", False)
    assert found[4][1]
    assert [method for method, _ in editor.asked] == ["indusagi/question"] * 3 + ["indusagi/diagnostics"] * 2
    assert editor.asked[3][1] == {"workspace": (tmp_path / "ws").as_uri(), "uri": uri}


async def test_an_editor_without_them_is_asked_by_a_message(start: Any, tmp_path: Path) -> None:
    offered = calls("ask_user", question="Tabs\x1b[31m?", options=["yes", "no\u202e"])
    editor = await Answering.start(start, tmp_path, [offered, calls("ask_user", question="Why?"), "Good."], EDITOR)
    editor.replies = {"window/showMessageRequest": [{"result": {"title": "no\\u{202e}"}}]}
    found = await outputs(editor, "Go.")
    # What the model gets is the option that it offered, which the user saw with nothing hidden.
    assert found[0] == ("no\u202e", False)
    assert found[1][1]
    assert "Offer `options`" in found[1][0]
    assert editor.asked[0][1] == {
        "type": 3,
        "message": "Indusagi asks: Tabs?",
        "actions": [{"title": "yes"}, {"title": "no\\u{202e}"}],
    }


async def test_cancelling_takes_the_question_back(start: Any, tmp_path: Path) -> None:
    editor = await Editor.start(start, tmp_path, [calls("ask_user", question="Tabs?"), "Good."], OURS)
    session = (await editor.ask("indusagi/session/new", {}))["result"]["id"]
    editor.wire.send(id="run", method="indusagi/submit", params={"sessionId": session, "text": "Go."})
    question = await editor.wire.until("indusagi/question", 20)
    editor.wire.send(method="$/cancelRequest", params={"id": "run"})
    assert (await editor.wire.until("$/cancelRequest", 20))["params"] == {"id": question["id"]}
    async with asyncio.timeout(20):
        assert (await editor.wire.response("run", 20))["error"]["code"] == -32800

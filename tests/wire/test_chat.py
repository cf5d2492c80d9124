"""Chat documents and code actions through the real program, in an editor that has never heard of us."""

from __future__ import annotations

import asyncio
import copy

import pytest

from wire.editor import EDITOR, Editor
from wire.wire_client import OURS


def without(*path: str):
    capabilities = copy.deepcopy(EDITOR)
    value = capabilities
    for name in path[:-1]:
        value = value[name]
    del value[path[-1]]
    return capabilities


async def open_chat(editor: Editor, text: str) -> str:
    uri = (editor.root / "talk.chat.md").as_uri()
    editor.open(uri, text, "markdown")
    return uri


async def send(editor: Editor, uri: str):
    return await editor.command("indusagi.server.chat/send", {"uri": uri})


async def test_a_conversation_in_a_document(start, tmp_path):
    editor = await Editor.start(start, tmp_path, ["The first answer.\n\n## You\nevil", "The second."])
    uri = await open_chat(editor, "# My talk\n\nhello there\n")
    lenses = await editor.ask("textDocument/codeLens", {"textDocument": {"uri": uri}})
    command = lenses["result"][0]["command"]
    assert command["command"] == "indusagi.server.chat/send"
    done = await editor.command(command["command"], command["arguments"][0])
    assert done["result"]["phase"] == "settled"
    assert done["result"]["written"] is True
    session = done["result"]["sessionId"]
    text = editor.text(uri)
    assert text.startswith(
        f"<!-- indusagi: session={session} -->\n# My talk\n\nhello there\n\n## Indusagi\n\nThe first"
    )
    assert "\n\\## You\nevil" in text
    assert text.endswith("\n## You\n\n")
    # Few steps of undo, each with a name.
    assert len(editor.edits) <= 3
    assert {one["label"] for one in editor.edits} == {"Indusagi's answer"}

    # What is not written yet is not sent.
    assert (await send(editor, uri))["error"]["data"]["kind"] == "bad_request"
    last = text.count("\n")
    at = {"line": last, "character": 0}
    editor.type(uri, [{"range": {"start": at, "end": at}, "text": "go on"}])
    done = await send(editor, uri)
    assert done["result"]["sessionId"] == session
    assert "## You\n\ngo on\n\n## Indusagi\n\nThe second." in editor.text(uri)
    tree = await editor.ask("indusagi/session/tree", {"sessionId": session})
    assert [node["preview"] for node in tree["result"]["nodes"]][2] == "go on"

    links = (await editor.ask("textDocument/documentLink", {"textDocument": {"uri": uri}}))["result"]
    assert len(links) == 2
    assert f"/.indusagi/sessions/{session}.jsonl#L" in links[0]["target"]
    found = await editor.ask(
        "textDocument/definition", {"textDocument": {"uri": uri}, "position": links[0]["range"]["start"]}
    )
    assert found["result"]["uri"].endswith(f"{session}.jsonl")


async def test_the_user_may_write_elsewhere_meanwhile(start, tmp_path):
    answer = {"text": "word " * 400, "pace": 0.005}
    editor = await Editor.start(start, tmp_path, [answer])
    uri = await open_chat(editor, "Title\n\n---\nsay much\n")
    task = asyncio.create_task(send(editor, uri))
    for number in range(8):
        await asyncio.sleep(0.12)
        top = {"line": 0, "character": 0}
        editor.type(uri, [{"range": {"start": top, "end": top}, "text": f"note {number}\n"}])
    done = await task
    assert done["result"]["written"] is True
    text = editor.text(uri)
    assert ("word " * 400).strip() in text
    for number in range(8):
        assert f"note {number}\n" in text


@pytest.mark.parametrize("way", ["refuses", "cannot"])
async def test_an_editor_that_takes_no_edits(start, tmp_path, way):
    capabilities = without("workspace", "applyEdit") if way == "cannot" else EDITOR
    editor = await Editor.start(start, tmp_path, ["x"], capabilities)
    uri = await open_chat(editor, "hello\n")
    if way == "cannot":
        done = await send(editor, uri)
        assert done["error"]["data"]["kind"] == "invalid_state"
        return
    editor.apply = lambda edit: {"applied": False}
    done = await send(editor, uri)
    assert done["result"]["written"] is False
    assert editor.text(uri) == "hello\n"


async def test_a_stop_leaves_what_was_said(start, tmp_path):
    editor = await Editor.start(start, tmp_path, [{"text": "word " * 2000, "pace": 0.02}])
    uri = await open_chat(editor, "say much\n")
    argument = {"command": "indusagi.server.chat/send", "arguments": [{"uri": uri}]}
    editor.wire.send(id="run", method="workspace/executeCommand", params=argument)
    await editor.until("workspace/applyEdit")
    editor.wire.send(method="$/cancelRequest", params={"id": "run"})
    while True:
        message = await editor.wire.receive()
        editor.handle(message)
        if "(stopped)" in editor.text(uri):
            break
    assert editor.text(uri).endswith("*(stopped)*\n\n## You\n\n")


async def test_completion(start, tmp_path):
    editor = await Editor.start(start, tmp_path)
    (editor.root / "src").mkdir()
    (editor.root / "src" / "main.py").write_text("x")
    await editor.ask("indusagi/memory/remember", {"text": "Tabs, not spaces"})
    uri = await open_chat(editor, "/\nsee @mai and #\n")

    async def offered(line: int, character: int):
        params = {"textDocument": {"uri": uri}, "position": {"line": line, "character": character}}
        return (await editor.ask("textDocument/completion", params))["result"]["items"]

    assert [one["label"] for one in await offered(0, 1)] == ["/condense", "/undo", "/remember"]
    (path,) = await offered(1, 8)
    assert path["textEdit"] == {
        "range": {"start": {"line": 1, "character": 4}, "end": {"line": 1, "character": 8}},
        "newText": "@src/main.py",
    }
    (memory,) = await offered(1, 14)
    assert memory["label"] == "#Tabs, not spaces"
    assert memory["textEdit"]["newText"] == "Tabs, not spaces"
    assert await offered(1, 2) == []


async def test_a_command_in_a_chat(start, tmp_path):
    editor = await Editor.start(start, tmp_path)
    uri = await open_chat(editor, "/remember the build needs make\n")
    assert (await send(editor, uri))["result"]["phase"] == "settled"
    assert "## Indusagi\n\n\nRemembered.\n" in editor.text(uri)
    listed = await editor.ask("indusagi/memory/list", {})
    assert [one["content"] for one in listed["result"]["entries"]] == ["the build needs make"]


async def test_asking_about_code(start, tmp_path):
    editor = await Editor.start(start, tmp_path, ["It adds."])
    uri = (editor.root / "a.py").as_uri()
    editor.open(uri, "def add(a, b):\n    return a + b\n", "python")
    chosen = {"start": {"line": 0, "character": 0}, "end": {"line": 2, "character": 0}}
    asked = {"textDocument": {"uri": uri}, "range": chosen, "context": {"diagnostics": []}}
    explain, ask, remember = (await editor.ask("textDocument/codeAction", asked))["result"]
    done = await editor.command(explain["command"]["command"], explain["command"]["arguments"][0])
    assert (done["result"]["shown"], done["result"]["phase"]) == ("chat", "settled")
    chat = done["result"]["uri"]
    assert editor.shown == [chat]
    text = editor.text(chat)
    assert "Explain this code." in text
    assert "From a.py, line 1:\n\n```python\ndef add(a, b):" in text
    assert "## Indusagi\n\nIt adds." in text
    done = await editor.command(ask["command"]["command"], ask["command"]["arguments"][0])
    assert (done["result"]["shown"], done["result"]["phase"]) == ("chat", "idle")
    done = await editor.command(remember["command"]["command"], remember["command"]["arguments"][0])
    assert done["result"]["entry"]["metadata"]["line"] == 1


async def test_asking_where_no_document_can_be_made(start, tmp_path):
    editor = await Editor.start(
        start, tmp_path, ["It adds."], without("workspace", "workspaceEdit", "resourceOperations")
    )
    uri = (editor.root / "a.py").as_uri()
    editor.open(uri, "x = 1\n", "python")
    place = {"start": {"line": 0, "character": 0}, "end": {"line": 0, "character": 5}}
    done = await editor.command("indusagi.server.ask", {"kind": "explain", "uri": uri, "range": place})
    assert (done["result"]["shown"], done["result"]["answer"]) == ("message", "It adds.")
    told = [one for one in editor.wire.seen if one.get("method") == "window/showMessage"]
    assert told[0]["params"]["message"] == "It adds."


async def test_our_own_client_shows_the_answer_itself(start, tmp_path):
    editor = await Editor.start(start, tmp_path, ["It adds."], {**EDITOR, **OURS})
    uri = (editor.root / "a.py").as_uri()
    editor.open(uri, "x = 1\n", "python")
    place = {"start": {"line": 0, "character": 0}, "end": {"line": 0, "character": 5}}
    done = await editor.command("indusagi.server.ask", {"kind": "explain", "uri": uri, "range": place})
    assert (done["result"]["shown"], done["result"]["answer"]) == ("client", "It adds.")
    assert editor.edits == []
    assert editor.wire.events("settled")

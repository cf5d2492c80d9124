"""Session files through the real program: what an editor sees, and that its quick fixes work."""

from __future__ import annotations

import pytest

from unit.lsp.session_text import talk
from wire.editor import EDITOR, Editor
from wire.wire_client import OURS


def session_file(root, text: str):
    folder = root / "ws" / ".indusagi" / "sessions"
    folder.mkdir(parents=True)
    path = folder / "s1.jsonl"
    path.write_text(text, "utf-8", newline="")
    path.chmod(0o600)
    return path


async def test_only_what_the_client_can_use_is_announced(start, tmp_path):
    editor = await Editor.start(start, tmp_path)
    capabilities = editor.answer["result"]["capabilities"]
    for name in ("hover", "definition", "references", "documentSymbol", "foldingRange", "inlayHint"):
        assert capabilities[f"{name}Provider"] is True
    assert capabilities["textDocumentSync"] == {"openClose": True, "change": 2, "save": True}
    bare = await Editor.start(start, tmp_path, capabilities=OURS)
    assert not [name for name in bare.answer["result"]["capabilities"] if name.endswith("Provider")][1:]
    params = {"textDocument": {"uri": "file:///x"}, "position": {"line": 0, "character": 0}}
    assert (await bare.ask("textDocument/hover", params))["error"]["code"] == -32601


async def test_a_session_file_from_open_to_adopted(start, tmp_path):
    path = session_file(tmp_path, talk().text + '{"type":"node","node":{"id":"')
    editor = await Editor.start(start, tmp_path)
    uri = path.as_uri()
    document = {"uri": uri}
    editor.open(uri, path.read_text("utf-8"), "jsonl")
    told = await editor.until("textDocument/publishDiagnostics")
    assert [one["code"] for one in told["diagnostics"]] == ["torn", "foreign"]
    assert (told["uri"], told["version"]) == (uri, 1)

    symbols = (await editor.ask("textDocument/documentSymbol", {"textDocument": document}))["result"]
    assert [one["name"] for one in symbols] == ["session", "user: first 😀 question", "user: second"]
    at = {"textDocument": document, "position": {"line": 3, "character": 9}}
    assert "an answer" in (await editor.ask("textDocument/hover", at))["result"]["contents"]["value"]
    assert (await editor.ask("textDocument/definition", at))["result"]["range"]["start"]["line"] == 1
    children = await editor.ask("textDocument/references", {**at, "context": {"includeDeclaration": False}})
    assert [one["range"]["start"]["line"] for one in children["result"]] == [5]
    assert len((await editor.ask("textDocument/foldingRange", {"textDocument": document}))["result"]) == 2
    whole = {"start": {"line": 0, "character": 0}, "end": {"line": 20, "character": 0}}
    hints = await editor.ask("textDocument/inlayHint", {"textDocument": document, "range": whole})
    assert len(hints["result"]) == 5

    context = {"diagnostics": told["diagnostics"]}
    asked = {"textDocument": document, "range": told["diagnostics"][0]["range"], "context": context}
    repair, adopt = (await editor.ask("textDocument/codeAction", asked))["result"][:2]
    done = await editor.command(repair["command"]["command"], repair["command"]["arguments"][0])
    assert done["result"]["repaired"] is True
    text = path.read_text("utf-8")
    assert '"id":"\n' not in text
    editor.type(uri, [{"text": text}])
    await editor.until_told(uri, ["foreign"])
    await editor.command(adopt["command"]["command"], adopt["command"]["arguments"][0])
    # The editor is told that it is nobody else's any more, without any word of its own.
    await editor.until_told(uri, [])

    lenses = (await editor.ask("textDocument/codeLens", {"textDocument": document}))["result"]
    fork = next(one["command"] for one in lenses if one["command"]["title"] == "Fork here")
    done = await editor.command(fork["command"], fork["arguments"][0])
    assert done["result"]["leaf"] == fork["arguments"][0]["node"]
    editor.told.clear()
    editor.wire.send(method="textDocument/didClose", params={"textDocument": document})
    await editor.until_told(uri, [])


async def test_workspace_symbols_search_all_sessions(start, tmp_path):
    path = session_file(tmp_path, talk().text)
    editor = await Editor.start(start, tmp_path)
    (found,) = (await editor.ask("workspace/symbol", {"query": "question"}))["result"]
    assert found["name"].startswith("user: first")
    assert found["location"]["uri"] == path.as_uri()
    assert found["location"]["range"]["start"] == {"line": 1, "character": 0}
    (found,) = (await editor.ask("workspace/symbol", {"query": ""}))["result"]
    assert found["containerName"] == "s1"
    assert (await editor.ask("workspace/symbol", {"query": "nowhere"}))["result"] == []


@pytest.mark.parametrize("method", ["hover", "definition", "documentSymbol", "codeLens", "inlayHint", "codeAction"])
async def test_nonsense_and_other_documents(start, tmp_path, method):
    editor = await Editor.start(start, tmp_path)
    assert (await editor.ask(f"textDocument/{method}", {}))["error"]["code"] == -32602
    uri = (tmp_path / "ws" / ".indusagi" / "sessions" / "s1.jsonl").as_uri()
    # Not open: nothing is known.
    assert (await editor.ask(f"textDocument/{method}", {"textDocument": {"uri": uri}}))["result"] in (None, [])
    editor.open(uri, "rubbish\n")
    if method in ("hover", "definition", "inlayHint", "codeAction"):
        assert (await editor.ask(f"textDocument/{method}", {"textDocument": {"uri": uri}}))["error"]["code"] == -32602
    assert EDITOR["textDocument"]["hover"]

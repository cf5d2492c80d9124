"""A client that stands for an ordinary editor: it knows nothing of ours, and can all that the standard offers."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from wire.wire_client import REAL, WireClient

EDITOR: dict[str, Any] = {
    "general": {"positionEncodings": ["utf-16"]},
    "window": {"workDoneProgress": True, "showDocument": {"support": True}},
    "workspace": {
        "applyEdit": True,
        "symbol": {},
        "workspaceEdit": {
            "documentChanges": True,
            "resourceOperations": ["create"],
            "changeAnnotationSupport": {"groupsOnLabel": True},
        },
    },
    "textDocument": {
        "publishDiagnostics": {},
        "hover": {"contentFormat": ["markdown", "plaintext"]},
        "definition": {},
        "references": {},
        "documentSymbol": {"hierarchicalDocumentSymbolSupport": True},
        "foldingRange": {},
        "codeLens": {},
        "inlayHint": {},
        "codeAction": {"codeActionLiteralSupport": {"codeActionKind": {"valueSet": []}}},
        "completion": {},
        "documentLink": {},
    },
}


class Editor:
    """A wire client with open documents, which it keeps as an editor does."""

    def __init__(self, wire: WireClient, root: Path) -> None:
        self.wire = wire
        self.root = root
        self.documents: dict[str, tuple[int, str]] = {}
        self.edits: list[Any] = []
        self.shown: list[str] = []
        self.told: dict[str, list[str]] = {}
        """By URI: the codes of what was published last, also while something else was awaited."""
        self.number = 0

    @classmethod
    async def start(cls, start: Any, tmp_path: Path, replies: Sequence[Any] = (), capabilities: Any = EDITOR) -> Editor:
        root = tmp_path / "ws"
        root.mkdir(exist_ok=True)
        script = tmp_path / "script.json"
        said = [{"text": reply} if isinstance(reply, str) else reply for reply in replies]
        script.write_text(json.dumps({"replies": said}), "utf-8")
        env = {"INDUSAGI_LSP_HOME": str(tmp_path / "home"), "INDUSAGI_SCRIPTED_MODEL": str(script)}
        editor = cls(await start(REAL, **env), root)
        editor.answer = await editor.wire.initialize(
            capabilities,
            workspaceFolders=[{"uri": root.as_uri(), "name": "ws"}],
            initializationOptions={"trusted": True},
        )
        return editor

    async def ask(self, method: str, params: Any, limit: float = 20) -> Any:
        """A request; what the server asks meanwhile is answered as an editor does."""
        self.number += 1
        self.wire.send(id=self.number, method=method, params=params)
        wanted = self.number
        while True:
            message = await self.wire.receive(limit)
            if message.get("id") == wanted and "method" not in message:
                return message
            self.handle(message)

    async def command(self, name: str, argument: Any) -> Any:
        return await self.ask("workspace/executeCommand", {"command": name, "arguments": [argument]})

    async def until(self, method: str, limit: float = 20) -> Any:
        while True:
            message = await self.wire.receive(limit)
            self.handle(message)
            if message.get("method") == method:
                return message["params"]

    async def until_told(self, uri: str, codes: list[str], limit: float = 20) -> None:
        """Wait until just these codes are published for a document."""
        while self.told.get(uri) != codes:
            self.handle(await self.wire.receive(limit))

    def handle(self, message: Any) -> None:
        method, params = message.get("method"), message.get("params")
        if method == "textDocument/publishDiagnostics":
            self.told[params["uri"]] = [one["code"] for one in params["diagnostics"]]
        if "id" not in message or method is None:
            return
        result: Any = None
        if method == "workspace/applyEdit":
            self.edits.append(params)
            result = self.apply(params["edit"])
        elif method == "window/showDocument":
            self.shown.append(params["uri"])
            result = {"success": True}
        self.wire.send(id=message["id"], result=result)

    # --- documents

    def open(self, uri: str, text: str, language: str = "plaintext") -> None:
        self.documents[uri] = (1, text)
        document = {"uri": uri, "languageId": language, "version": 1, "text": text}
        self.wire.send(method="textDocument/didOpen", params={"textDocument": document})

    def text(self, uri: str) -> str:
        return self.documents[uri][1]

    def type(self, uri: str, changes: list[Any]) -> None:
        """Change a document, as its user does."""
        version, text = self.documents[uri]
        for change in changes:
            text = replace(text, change["range"], change["text"]) if "range" in change else change["text"]
        self.documents[uri] = (version + 1, text)
        document = {"uri": uri, "version": version + 1}
        self.wire.send(method="textDocument/didChange", params={"textDocument": document, "contentChanges": changes})

    def apply(self, edit: Any) -> Any:
        for change in edit["documentChanges"]:
            if change.get("kind") == "create":
                if change["uri"] in self.documents:
                    return {"applied": False, "failureReason": "it exists"}
                self.open(change["uri"], "", "markdown")
                continue
            uri, version = change["textDocument"]["uri"], change["textDocument"]["version"]
            if version is not None and version != self.documents[uri][0]:
                return {"applied": False, "failureReason": "the document has changed"}
            edits = sorted(change["edits"], key=lambda one: list(one["range"]["start"].values()), reverse=True)
            self.type(uri, [{"range": one["range"], "text": one["newText"]} for one in edits])
        return {"applied": True}


def replace(text: str, place: Any, new: str) -> str:
    lines = text.split("\n")

    def offset(at: Any) -> int:
        before = sum(len(line) + 1 for line in lines[: at["line"]])
        line = lines[at["line"]] if at["line"] < len(lines) else ""
        units = line.encode("utf-16-le")[: at["character"] * 2]
        return before + len(units.decode("utf-16-le"))

    return text[: offset(place["start"])] + new + text[offset(place["end"]) :]

"""What a client said about itself in `initialize`, as far as it matters to us."""

from __future__ import annotations

from typing import Any

import msgspec


class ClientFeatures(msgspec.Struct, frozen=True):
    """What the client can do. The first four mean that it knows our own messages.

    `asks` names the standard requests that it may send; the others are what it takes of us.
    """

    events: bool = False
    approvals: bool = False
    questions: bool = False
    shows_diagnostics: bool = False
    progress: bool = False
    configuration: bool = False
    register_configuration: bool = False
    asks: frozenset[str] = frozenset()
    diagnostics: bool = False
    hover_markdown: bool = False
    symbol_tree: bool = False
    action_literals: bool = False
    lens_refresh: bool = False
    hint_refresh: bool = False
    apply_edit: bool = False
    document_changes: bool = False
    annotations: bool = False
    create_files: bool = False
    show_document: bool = False

    @classmethod
    def of(cls, capabilities: Any) -> ClientFeatures:
        """Read `ClientCapabilities`, given as decoded JSON; what makes no sense counts as absent."""
        ours = _at(capabilities, "experimental", "indusagi")
        documents, workspace = _at(capabilities, "textDocument"), _at(capabilities, "workspace")
        edits = _at(workspace, "workspaceEdit")
        return cls(
            events=_at(ours, "events") is True,
            approvals=_at(ours, "approvals") is True,
            questions=_at(ours, "questions") is True,
            shows_diagnostics=_at(ours, "diagnostics") is True,
            progress=_at(capabilities, "window", "workDoneProgress") is True,
            configuration=_at(workspace, "configuration") is True,
            register_configuration=_at(workspace, "didChangeConfiguration", "dynamicRegistration") is True,
            asks=frozenset(
                [name for name in _DOCUMENT_REQUESTS if isinstance(_at(documents, name), dict)]
                + (["symbol"] if isinstance(_at(workspace, "symbol"), dict) else [])
            ),
            diagnostics=isinstance(_at(documents, "publishDiagnostics"), dict),
            hover_markdown="markdown" in _list(_at(documents, "hover", "contentFormat")),
            symbol_tree=_at(documents, "documentSymbol", "hierarchicalDocumentSymbolSupport") is True,
            action_literals=isinstance(_at(documents, "codeAction", "codeActionLiteralSupport"), dict),
            lens_refresh=_at(workspace, "codeLens", "refreshSupport") is True,
            hint_refresh=_at(workspace, "inlayHint", "refreshSupport") is True,
            apply_edit=_at(workspace, "applyEdit") is True,
            document_changes=_at(edits, "documentChanges") is True,
            annotations=isinstance(_at(edits, "changeAnnotationSupport"), dict),
            create_files=_at(edits, "documentChanges") is True and "create" in _list(_at(edits, "resourceOperations")),
            show_document=_at(capabilities, "window", "showDocument", "support") is True,
        )


_DOCUMENT_REQUESTS = (
    "hover",
    "definition",
    "references",
    "documentSymbol",
    "foldingRange",
    "codeLens",
    "inlayHint",
    "codeAction",
    "completion",
    "documentLink",
)


def _at(value: Any, *names: str) -> Any:
    for name in names:
        value = value.get(name) if isinstance(value, dict) else None
    return value


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []

"""One table of operations: handlers, the document, the TypeScript mirror and the server's own list agree with it."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import pytest

from indusagi_lsp.protocol import errors
from indusagi_lsp.protocol.operations import CLIENT_REQUESTS, EDITOR_OPERATIONS, NOTIFICATIONS, OPERATIONS

ROOT = Path(__file__).parents[2]
GENERATED = runpy.run_path(str(Path(__file__).with_name("regenerate.py")))["GENERATED"]


@pytest.mark.parametrize("path", GENERATED, ids=lambda path: path.name)
def test_generated_files_are_fresh(path):
    assert path.read_text(encoding="utf-8") == GENERATED[path](), "run: python tests/contract/regenerate.py"


def test_every_operation_has_a_handler():
    from indusagi_lsp.workspace.hosts import HANDLERS

    assert {*HANDLERS, *EDITOR_OPERATIONS, "status", "trust"} == {operation.name for operation in OPERATIONS}


def test_methods_are_written_in_one_file_only():
    """Nobody spells a method of ours but the table, the clients that only speak the protocol, and prose."""
    table = ROOT / "server/indusagi_lsp/protocol/operations.py"
    spelled = re.compile(r"""["']indusagi/[a-z]""")
    # The terminal client may not import the server's parts, but the protocol's names it does.
    offenders = [
        str(path.relative_to(ROOT))
        for path in (ROOT / "server").rglob("*.py")
        if path != table and spelled.search(path.read_text(encoding="utf-8"))
    ]
    assert offenders in ([], ["server/indusagi_lsp/protocol/shapes.py"])


def test_the_names_are_disjoint_from_those_of_the_extension():
    for operation in OPERATIONS:
        assert operation.method.startswith("indusagi/")
        assert operation.command.startswith("indusagi.server.")


def test_the_document_names_everything():
    text = (ROOT / "docs/protocol.md").read_text(encoding="utf-8")
    for name in (*(o.method for o in OPERATIONS), *(o.command for o in OPERATIONS), *NOTIFICATIONS, *CLIENT_REQUESTS):
        assert f"`{name}`" in text or f"`{name} " in text
    for kind, code in errors.CODES.items():
        assert f"| {code} | `{kind}` |" in text


def test_error_codes_are_ours_alone():
    codes = [*errors.CODES.values(), errors.OTHER]
    assert len(set(codes)) == len(codes)
    # -32002 is LSP's; -32096 and below are used by the client libraries.
    assert all(-32095 <= code <= -32003 for code in codes)

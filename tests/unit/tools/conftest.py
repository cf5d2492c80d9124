"""A small workspace with something of everything."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from blockbuster import blockbuster_ctx

from indusagi_lsp.contract.tools import Tool, ToolContext
from indusagi_lsp.tools import PathGuard

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path


@pytest.fixture(autouse=True)
def _nothing_blocks() -> Iterator[None]:
    """Code of ours that blocks the event loop fails the test."""
    with blockbuster_ctx("indusagi_lsp"):
        yield


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "ws"
    for path, text in {
        "README.md": "# Sluice\n\nA small tool that counts boats.\n",
        "src/main.py": "import boats\n\n\ndef main():\n    return boats.count()\n",
        "src/boats.py": "def count():\n    return 3  # boats\n",
        "src/deep/notes.txt": "boats are slow\n",
        "build/out.py": "boats = 1\n",
        "debug.log": "boats\n",
        "keep.log": "boats kept\n",
        "src/deep/local.tmp": "boats\n",
        ".gitignore": "build/\n*.log\n!keep.log\n",
        "src/deep/.gitignore": "*.tmp\n",
        ".git/config": "boats\n",
        ".git/info/exclude": "excluded.txt\n",
        "excluded.txt": "boats\n",
        ".indusagi/sessions/s.jsonl": "boats\n",
        ".github/workflows/ci.yml": "run: boats\n",
    }.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)
    return root


@pytest.fixture
def guard(root: Path) -> PathGuard:
    return PathGuard(root)


async def ask(tool: Tool, documents: Mapping[str, str] | None = None, /, **arguments: object) -> str:
    """Run a tool as the dispatcher does; gives what the model is told."""
    documents = documents or {}
    context = ToolContext("session", "call", document=documents.get, open_paths=lambda: documents)
    return (await tool.run(arguments, context)).output

"""Write the files that are generated from the wire types: `python tests/contract/regenerate.py`."""

from __future__ import annotations

from pathlib import Path

from indusagi_lsp.protocol import document, typescript

ROOT = Path(__file__).parents[2]
GENERATED = {
    ROOT / "vscode-client/src/protocol.ts": typescript.render,
    ROOT / "docs/protocol.md": document.render,
}

if __name__ == "__main__":
    for path, render in GENERATED.items():
        path.write_text(render(), encoding="utf-8")

"""Write what is generated: the mirror and the document of the protocol, and the README's copy of `--help`."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from contract import readme
from indusagi_lsp.protocol import document, typescript

ROOT = Path(__file__).parents[2]
GENERATED = {
    ROOT / "vscode-client/src/protocol.ts": typescript.render,
    ROOT / "docs/protocol.md": document.render,
}

if __name__ == "__main__":
    for path, render in GENERATED.items():
        path.write_text(render(), encoding="utf-8")
    text = readme.README.read_text("utf-8")
    readme.README.write_text(readme.replace(text, "help", readme.help_part()), encoding="utf-8")

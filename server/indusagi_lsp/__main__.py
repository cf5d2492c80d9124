"""`python -m indusagi_lsp`."""

from __future__ import annotations

from indusagi_lsp.cli import main

if __name__ == "__main__":
    raise SystemExit(main())

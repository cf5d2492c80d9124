"""The language server: lifecycle, operations as requests and commands, and what the engine may say.

Thin: validate, hand over, answer. None of the engine's work is done here, and this module imports nothing heavy; ask
`create_server` for a server.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from indusagi_lsp.lsp.server import IndusagiServer


def create_server(**deps: Any) -> IndusagiServer:
    """Make a language server; see `indusagi_lsp.lsp.server.create_server` for what can be injected."""
    from indusagi_lsp.lsp import typecache

    typecache.load_types()
    from indusagi_lsp.lsp import server

    return server.create_server(**deps)

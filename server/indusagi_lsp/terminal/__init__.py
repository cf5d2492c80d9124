"""The terminal client, `indusagi-lsp chat`: it starts the server as an editor would and speaks only the protocol.

Nothing here knows the engine. What comes from the server is text that somebody else wrote, so all of it is made
visible before it reaches the screen.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


def main(argv: Sequence[str] | None = None) -> int:
    """Run the terminal client.

    Args:
        argv: the arguments after `chat`; None means those of the process.

    Returns:
        The exit code: 0 when all went well, 1 when an answer failed, 2 for wrong arguments, 3 when the server
        died, 130 after Ctrl-C.
    """
    from indusagi_lsp.terminal.app import run

    return run(argv)

"""From arguments to an exit code."""

from __future__ import annotations

import asyncio
import os
import sys
from typing import TYPE_CHECKING

from indusagi_lsp.terminal.options import read_options
from indusagi_lsp.terminal.plain import INTERRUPTED, once

if TYPE_CHECKING:
    from collections.abc import Sequence


def run(argv: Sequence[str] | None) -> int:
    """Run the client.

    Args:
        argv: the arguments; None means those of the process.

    Returns:
        The exit code.
    """
    options = read_options(argv)
    for stream in (sys.stdout, sys.stderr):
        # An answer may hold characters that the terminal's encoding lacks; they must not end the program.
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="replace")
    try:
        prompt = options.prompt
        if prompt == "-" or (prompt is None and not sys.stdin.isatty()):
            prompt = sys.stdin.read()
        if prompt is not None:
            return asyncio.run(once(options, prompt))

        from indusagi_lsp.terminal.chat import chat

        return asyncio.run(chat(options))
    except KeyboardInterrupt:
        return INTERRUPTED
    finally:
        _let_go_of_stdout()


def _let_go_of_stdout() -> None:
    """A reader that has gone must not make the interpreter complain at its end."""
    try:
        sys.stdout.flush()
    except (BrokenPipeError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)

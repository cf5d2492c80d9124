"""`indusagi-lsp acp`: its arguments, and the way from the process to the server."""

from __future__ import annotations

import argparse
import importlib.util
import sys
from collections.abc import Sequence
from pathlib import Path

from indusagi_lsp.transport import logs, serve
from indusagi_lsp.transport.framing import LINES


def build_parser() -> argparse.ArgumentParser:
    """The parser of `indusagi-lsp acp`."""
    parser = argparse.ArgumentParser(
        prog="indusagi-lsp acp",
        description="Serve an editor that speaks the Agent Client Protocol, over stdin and stdout.",
    )
    trust = parser.add_mutually_exclusive_group()
    trust.add_argument(
        "--trust",
        dest="trusted",
        action="store_true",
        default=False,
        help="trust the folders that the editor opens: their rules are followed, and actions may be asked for",
    )
    trust.add_argument("--no-trust", dest="trusted", action="store_false", help="only read and talk (the default)")
    parser.add_argument("--log-level", choices=logs.LEVELS, default="warning", help="how much to log")
    parser.add_argument("--log-file", metavar="FILE", help="log to FILE instead of stderr")
    return parser


def serve_acp(argv: Sequence[str]) -> int:
    """Serve one editor until it is gone.

    Args:
        argv: the arguments behind `acp`.

    Returns:
        2 when it cannot start; else the process ends by itself.
    """
    options = build_parser().parse_args(argv)
    if importlib.util.find_spec("acp") is None:
        sys.stderr.write("indusagi-lsp: this needs the extra `acp`: pip install 'indusagi-lsp[acp]'\n")
        return 2
    try:
        log = logs.configure(options.log_level, Path(options.log_file) if options.log_file else None)
    except OSError as error:
        sys.stderr.write(f"indusagi-lsp: the log file cannot be used: {error.strerror}: {options.log_file}\n")
        return 2

    read_fd, write_fd = serve.claim_stdio()
    from indusagi_lsp.acp.server import AcpServer

    code = serve.Session(AcpServer(trusted=options.trusted), read_fd, write_fd, framing=LINES).run()
    log.close()
    return serve.end(code)

"""Console entry point.

`--version` and usage errors are answered before anything heavy is imported; so is the hand-over to the
terminal client.
"""

from __future__ import annotations

import sys

from indusagi_lsp import __version__

ERRANDS = ("sessions", "search", "doctor", "import", "export", "blobs")
"""Commands that ask one thing; named here so that nothing is imported before it is needed."""

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Sequence
    from typing import TextIO

    from indusagi_lsp.lsp.hosts import HostsFactory
    from indusagi_lsp.transport.serve import Served


def main(argv: Sequence[str] | None = None) -> int:
    """Run the program.

    Args:
        argv: the arguments without the program's name; None means those of the process.

    Returns:
        The exit code: 0 when all went well.
    """
    arguments = list(sys.argv[1:] if argv is None else argv)
    if arguments == ["--version"]:
        sys.stdout.write(f"indusagi-lsp {__version__}\n")
        return 0
    if arguments[:1] == ["chat"]:
        from indusagi_lsp.terminal import main as chat

        return chat(arguments[1:])
    if arguments[:1] == ["acp"]:
        from indusagi_lsp.acp.main import serve_acp

        return serve_acp(arguments[1:])
    if arguments[:1] == ["workflow"]:
        from indusagi_lsp.terminal.workflow import run_workflow_command

        return run_workflow_command(arguments[1:])
    if arguments[:2] == ["memory", "migrate"]:
        from indusagi_lsp.workspace.migration import run_migration

        return run_migration(arguments[2:], _lines_to(sys.stdout), _lines_to(sys.stderr))
    if arguments[:1] == ["memory"]:
        from indusagi_lsp.terminal.memory import run_memory_command

        return run_memory_command(arguments[1:])
    if arguments[:1] == ["doctor"] and "--env" in arguments:
        from indusagi_lsp.workspace.report import run_report

        return run_report(arguments[1:], _lines_to(sys.stdout))
    if arguments[:1] and arguments[0] in ERRANDS:
        from indusagi_lsp.terminal.errands import run_errand

        return run_errand(arguments[0], arguments[1:])
    return _serve(build_parser().parse_args(arguments))


def _lines_to(stream: TextIO) -> Callable[[str], None]:
    def write(line: str) -> None:
        stream.write(f"{line}\n")

    return write


def build_parser() -> argparse.ArgumentParser:
    """The parser of the server's own arguments."""
    import argparse

    from indusagi_lsp.transport.logs import FORMATS, LEVELS

    parser = argparse.ArgumentParser(
        prog="indusagi-lsp",
        description="An agent that lives beside your editor: a language server over stdin and stdout.",
        epilog=(
            "`indusagi-lsp chat` opens the terminal client, `indusagi-lsp workflow` runs workflows, "
            "`indusagi-lsp acp` serves editors that speak the Agent Client Protocol. "
            "`indusagi-lsp memory` shows and changes what is remembered. "
            f"Errands: {', '.join(ERRANDS)}; each has a --help."
        ),
    )
    parser.add_argument("--version", action="version", version=f"%(prog)s {__version__}")
    parser.add_argument("--stdio", action="store_true", help="talk over stdin and stdout (the default)")
    parser.add_argument("--log-level", choices=LEVELS, default="warning", help="how much to log (default: warning)")
    parser.add_argument("--log-file", metavar="FILE", help="log to FILE instead of stderr")
    parser.add_argument("--log-format", choices=FORMATS, default="text", help="lines of text, or of JSON")
    parser.add_argument(
        "--clientProcessId",
        type=int,
        metavar="PID",
        dest="client_process_id",
        help="end when this process ends",
    )
    parser.add_argument(
        "--tcp",
        "--socket",
        type=int,
        metavar="PORT",
        nargs="?",
        const=0,
        help="for tests: serve one client on 127.0.0.1:PORT (0: any) that knows the token in INDUSAGI_TOKEN",
    )
    tape = parser.add_mutually_exclusive_group()
    tape.add_argument("--record", metavar="FILE", help="write down what the models say, to a new file")
    tape.add_argument("--replay", metavar="FILE", help="have a recording answer in the place of the models")
    return parser


def _serve(options: argparse.Namespace) -> int:
    import os
    from pathlib import Path

    from indusagi_lsp.transport import logs, serve

    try:
        log = logs.configure(
            options.log_level, Path(options.log_file) if options.log_file else None, options.log_format
        )
    except OSError as error:
        sys.stderr.write(f"indusagi-lsp: the log file cannot be used: {error.strerror}: {options.log_file}\n")
        return 2

    try:
        hosts_factory = _hosts_factory(options)
    except OSError as error:
        sys.stderr.write(f"indusagi-lsp: the recording cannot be made: {error.strerror}: {options.record}\n")
        return 2
    except ValueError as error:
        sys.stderr.write(f"indusagi-lsp: {error}\n")
        return 2

    token = None
    if options.tcp is None:
        read_fd, write_fd = serve.claim_stdio()
    else:
        from indusagi_lsp.transport import tcp

        token = os.environ.get("INDUSAGI_TOKEN")
        if not token:
            sys.stderr.write("indusagi-lsp: --tcp needs a secret in the environment variable INDUSAGI_TOKEN\n")
            return 2
        try:
            read_fd, write_fd = tcp.accept_one(options.tcp)
        except OSError as error:
            sys.stderr.write(f"indusagi-lsp: port {options.tcp} cannot be used: {error.strerror}\n")
            return 2

    code = serve.Session(_make_server(token, hosts_factory), read_fd, write_fd).run(options.client_process_id)
    log.close()
    return serve.end(code)


def _hosts_factory(options: argparse.Namespace) -> HostsFactory | None:
    """The hosts where the models are recorded or replayed, None for the usual ones."""
    if not (options.record or options.replay):
        return None
    from functools import partial
    from pathlib import Path

    from indusagi_lsp.lsp.hosts import default_hosts

    if options.record:
        from indusagi_lsp.models.recording import Recorder

        return partial(default_hosts, source=Recorder(Path(options.record).absolute()).follow)

    from indusagi_lsp.contract.errors import ModelError
    from indusagi_lsp.models.recording import read_recording
    from indusagi_lsp.models.replay import Replay

    path = Path(options.replay)
    try:
        replay = Replay(read_recording(path), path)
    except ModelError as error:
        raise ValueError(f"{error.message} {error.hint}") from None
    return partial(default_hosts, source=lambda _: replay)


def _make_server(token: str | None, hosts_factory: HostsFactory | None) -> Served:
    import gc

    # The import makes half a million objects that stay; looking at them again and again only takes time.
    gc.disable()
    from indusagi_lsp.lsp import typecache

    cache = typecache.load_types()
    from indusagi_lsp.lsp.server import create_server

    server = create_server(token=token) if hosts_factory is None else create_server(hosts_factory, token=token)
    if cache is not None:
        server.on_idle(cache.save_and_forget)
    gc.freeze()
    gc.enable()
    return server

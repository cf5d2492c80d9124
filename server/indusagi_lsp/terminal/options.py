"""The arguments of `indusagi-lsp chat`."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from collections.abc import Sequence

LEVELS = ("debug", "info", "warning", "error")


class Options(msgspec.Struct, frozen=True):
    """What was asked for on the command line.

    Attributes:
        workspace: the folder to talk about, absolute.
        session: id of a session to go on with.
        model: model to use, `provider:name`.
        prompt: ask this, print the answer, and end; None opens the chat.
        trusted: whether the folder is trusted.
        log_level: how much the server logs; None leaves it to the server, and its words stay unseen.
        log_file: where the server logs to, absolute.
        record: a new file to which what the models say is written, absolute.
        replay: a recording that answers in the place of the models, absolute.
        here: whether the workspace is the folder in which the program was started.
    """

    workspace: Path
    session: str | None = None
    model: str | None = None
    prompt: str | None = None
    trusted: bool = False
    log_level: str | None = None
    log_file: Path | None = None
    record: Path | None = None
    replay: Path | None = None
    here: bool = False


def build_parser() -> argparse.ArgumentParser:
    """The parser of the client's arguments."""
    parser = argparse.ArgumentParser(
        prog="indusagi-lsp chat",
        description="Talk with the agent about a folder. Without -p it opens a chat; type /help there.",
        epilog="Exit codes: 0 answered, 1 the answer failed, 2 wrong arguments, 3 the server died, 130 interrupted.",
    )
    parser.add_argument("--workspace", metavar="PATH", default=".", help="the folder to talk about (default: here)")
    parser.add_argument("--session", metavar="ID", help="go on with this session")
    parser.add_argument("--model", metavar="ID", help="the model to use, as provider:name")
    parser.add_argument(
        "-p",
        "--prompt",
        metavar="TEXT",
        help="ask this, print the answer, and end; - reads it from stdin",
    )
    trust = parser.add_mutually_exclusive_group()
    trust.add_argument(
        "--trust",
        dest="trusted",
        action="store_true",
        default=False,
        help="trust the folder: its rules are followed, and actions may be asked for",
    )
    trust.add_argument("--no-trust", dest="trusted", action="store_false", help="only read and talk (the default)")
    parser.add_argument("--log-level", choices=LEVELS, help="how much the server logs, to stderr")
    parser.add_argument("--log-file", metavar="FILE", help="log to FILE instead")
    tape = parser.add_mutually_exclusive_group()
    tape.add_argument("--record", metavar="FILE", help="write down what the models say, to a new file")
    tape.add_argument("--replay", metavar="FILE", help="have a recording answer in the place of the models")
    return parser


def read_options(argv: Sequence[str] | None) -> Options:
    """Read the arguments; wrong ones end the program with 2, as argparse does.

    Args:
        argv: without the program's name; None means those of the process.
    """
    parser = build_parser()
    given = parser.parse_args(argv)
    workspace = Path(given.workspace).expanduser().absolute()
    if not workspace.is_dir():
        parser.error(f"there is no folder {given.workspace!r}")
    record, replay = _absolute(given.record), _absolute(given.replay)
    if record is not None and record.exists():
        parser.error(f"{given.record!r} exists already; name a new file to record to")
    if replay is not None and not replay.is_file():
        parser.error(f"there is no recording {given.replay!r}")
    return Options(
        workspace=workspace,
        session=given.session,
        model=given.model,
        prompt=given.prompt,
        trusted=given.trusted,
        log_level=given.log_level,
        here=workspace.resolve() == Path.cwd().resolve(),
        log_file=_absolute(given.log_file),
        record=record,
        replay=replay,
    )


def _absolute(path: str | None) -> Path | None:
    return Path(path).expanduser().absolute() if path else None

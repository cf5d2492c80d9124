"""One errand, one answer: `indusagi-lsp doctor`, `search`, `import`, `export`, `sessions`, `blobs`.

Each is one operation of the protocol, asked of a server that is started for it, exactly as an editor would. `--json`
gives the result as it came; otherwise it is said in words. Exit codes: 0 all is well, 1 something is not, 2 wrong
arguments, 3 the server died.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

from indusagi_lsp.contract.text import visible, visible_line
from indusagi_lsp.protocol import messages as m
from indusagi_lsp.protocol import operations as ops
from indusagi_lsp.terminal.client import RemoteError, ServerGoneError
from indusagi_lsp.terminal.options import Options
from indusagi_lsp.terminal.plain import FAILED, SERVER_DIED, PlainScreen, refuse_all
from indusagi_lsp.terminal.talk import Talk
from indusagi_lsp.terminal.view import show_error

OK = 0


class Errand(msgspec.Struct, frozen=True):
    """What a command asks for, and how its answer is said."""

    title: str
    operation: ops.Operation
    arguments: Callable[[argparse.ArgumentParser], object]
    params: Callable[[argparse.Namespace, str], msgspec.Struct]
    words: Callable[[Any], str]
    well: Callable[[Any], bool] = lambda _: True


def run_errand(name: str, argv: Sequence[str]) -> int:
    """Run one errand.

    Args:
        name: a key of `ERRANDS`.
        argv: its arguments.

    Returns:
        The exit code.
    """
    return go_on_errand(name, ERRANDS[name], argv)


def go_on_errand(name: str, errand: Errand, argv: Sequence[str]) -> int:
    """Run one errand, named `name` on the command line; the arguments and the result are those of `run_errand`."""
    parser = argparse.ArgumentParser(prog=f"indusagi-lsp {name}", description=errand.title)
    parser.add_argument("--workspace", metavar="PATH", default=".", help="the folder (default: here)")
    parser.add_argument("--json", action="store_true", help="give the result as JSON")
    errand.arguments(parser)
    given = parser.parse_args(argv)
    workspace = Path(given.workspace).expanduser().absolute()
    if getattr(given, "env", False):
        # The command line gives it to `workspace.report`, which needs no server; it knows the whole word only.
        parser.error("write --env in full")
    if not workspace.is_dir():
        parser.error(f"there is no folder {given.workspace!r}")
    return asyncio.run(_go(errand, given, workspace))


async def _go(errand: Errand, given: argparse.Namespace, workspace: Path) -> int:
    screen = PlainScreen(sys.stdout, sys.stderr)
    talk = Talk(Options(workspace=workspace), screen, refuse_all(screen))
    try:
        await talk.open()
        result = await talk.client.call(errand.operation, errand.params(given, talk.workspace))
    except ServerGoneError as gone:
        talk.mourn(gone)
        return SERVER_DIED
    except (RemoteError, OSError, UnicodeDecodeError) as error:
        show_error(screen, str(error), getattr(error, "hint", ""))
        return FAILED
    finally:
        await talk.close()
    said = msgspec.json.format(msgspec.json.encode(result)).decode() if given.json else errand.words(result)
    screen.text(said if said.endswith("\n") else f"{said}\n")
    return OK if errand.well(result) else FAILED


# --- how the answers are said -----------------------------------------------------------------------------------------


def _sessions(result: m.SessionListResult) -> str:
    rows = []
    for one in result.sessions:
        when = datetime.fromtimestamp(one.updated_at / 1000, UTC).strftime("%Y-%m-%d %H:%M")
        cost = "" if one.cost is None else f"  ${one.cost:.2f}"
        rows.append(
            f"{one.id}  {when}  {one.turns} turns  {one.tokens:,} tokens{cost}  {one.state}  {visible_line(one.title)}"
        )
    return "\n".join(rows) or "There are no sessions yet."


def _hits(result: m.SearchResult) -> str:
    rows = [f"{hit.session_id} {hit.node[:8]} {hit.role}: {visible_line(hit.snippet)}" for hit in result.hits]
    rows += ["There are more; say more words, or raise --limit."] if result.more else []
    return "\n".join(rows) or "Nothing was found."


def _imported(result: m.ImportResult) -> str:
    rows = []
    for file in result.files:
        name = visible_line(file.path)
        if file.problem is not None:
            rows.append(f"{name}: {file.problem}")
            continue
        rows.append(f"{name}: {file.turns} turns, {file.added} nodes are new, {file.unanswered} calls without result")
        rows.extend(f"  skipped {visible_line(line)}" for line in file.skipped)
    return "\n".join(rows) or "There was nothing to import."


def _collected(result: m.CollectResult) -> str:
    outputs = f"{len(result.removed)} outputs ({result.bytes:,} bytes) that nothing names; {result.kept} stay."
    return f"{outputs}\n{result.contents} old contents of files ({result.content_bytes:,} bytes) that nothing needs."


# --- what can be asked ------------------------------------------------------------------------------------------------


def _with_session(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("session", metavar="SESSION", help="the session's id")


def _export_arguments(parser: argparse.ArgumentParser) -> None:
    _with_session(parser)
    parser.add_argument("--format", choices=("markdown", "html", "jsonl"), default="markdown")
    parser.add_argument("--leaf", metavar="NODE", help="the branch that ends here (default: the live one)")


def _import_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("path", nargs="?", help="a file or folder (default: where the tools keep this folder's)")
    parser.add_argument("--tool", help="which tool wrote it (default: told by the file)")
    parser.add_argument("--everywhere", action="store_true", help="sessions of other folders, too")


def _search_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("query", nargs="+", metavar="WORD")
    parser.add_argument("--limit", type=int, default=20)


def _doctor_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("session", nargs="?", metavar="SESSION", help="only this one")
    parser.add_argument("--repair", action="store_true", help="heal what can be healed; nothing is deleted")
    parser.add_argument(
        "--env", action="store_true", help="report on this installation instead, without secrets or names, for an issue"
    )


def _list_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--query", help="only those whose title has this")
    parser.add_argument("--limit", type=int, default=50)


def _blob_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--collect", action="store_true", help="remove them; otherwise they are only counted")


ERRANDS: dict[str, Errand] = {
    "sessions": Errand(
        "List the folder's sessions, the newest first.",
        ops.SESSION_LIST,
        _list_arguments,
        lambda given, uri: m.SessionListParams(workspace=uri, query=given.query, limit=given.limit),
        _sessions,
    ),
    "search": Errand(
        "Search what was said, in all sessions and on all their branches.",
        ops.SESSION_SEARCH,
        _search_arguments,
        lambda given, uri: m.SearchParams(workspace=uri, query=" ".join(given.query), limit=given.limit),
        _hits,
        lambda result: bool(result.hits),
    ),
    "doctor": Errand(
        "Examine the folder's sessions, byte by byte.",
        ops.SESSION_DOCTOR,
        _doctor_arguments,
        lambda given, uri: m.DoctorParams(workspace=uri, session_id=given.session, repair=given.repair),
        lambda result: result.text,
        lambda result: result.healthy,
    ),
    "import": Errand(
        "Import sessions of Claude Code, Codex, pi, Gemini CLI and others; again and again, only what is new.",
        ops.SESSION_IMPORT,
        _import_arguments,
        lambda given, uri: m.ImportParams(
            workspace=uri,
            path=None if given.path is None else str(Path(given.path).expanduser().absolute()),
            tool=given.tool,
            everywhere=given.everywhere,
        ),
        _imported,
        lambda result: all(file.problem is None for file in result.files),
    ),
    "export": Errand(
        "Export a branch of a session to stdout.",
        ops.SESSION_EXPORT,
        _export_arguments,
        lambda given, uri: m.ExportParams(
            workspace=uri, session_id=given.session, format=given.format, leaf=given.leaf
        ),
        lambda result: result.text if result.media_type != "text/markdown" else visible(result.text),
    ),
    "blobs": Errand(
        "Count, or remove, long outputs that no session names any more, and old contents of files that none needs.",
        ops.BLOB_COLLECT,
        _blob_arguments,
        lambda given, uri: m.CollectParams(workspace=uri, dry_run=not given.collect),
        _collected,
    ),
}

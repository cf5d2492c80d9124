"""`indusagi-lsp memory VERB`: what is remembered for a folder, from the command line.

Each verb is one operation of the protocol, as with the other errands. `export` writes Markdown to stdout, and `import`
reads it from a file or from stdin.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from indusagi_lsp.contract.text import visible, visible_line
from indusagi_lsp.protocol import messages as m
from indusagi_lsp.protocol import operations as ops
from indusagi_lsp.terminal.errands import Errand, go_on_errand

LONGEST_DOCUMENT = 50_000_000
"""Characters of a document, as many as the protocol takes."""


def run_memory_command(argv: Sequence[str]) -> int:
    """Run `indusagi-lsp memory`.

    Args:
        argv: the arguments after `memory`.

    Returns:
        The exit code.
    """
    parser = argparse.ArgumentParser(
        prog="indusagi-lsp memory",
        description="What is remembered for a folder; each verb has a --help.",
        epilog="Exit codes: 0 all is well, 1 something is not, 2 wrong arguments, 3 the server died.",
    )
    parser.add_argument("verb", choices=tuple(VERBS), metavar="VERB", help=", ".join((*VERBS, "migrate")))
    given = parser.parse_args(argv[:1])
    return go_on_errand(f"memory {given.verb}", VERBS[given.verb], argv[1:])


# --- how the answers are said -----------------------------------------------------------------------------------------


def _entry(entry: m.MemoryEntryView) -> str:
    marks = [entry.scope, *entry.tags]
    marks += [] if entry.trusted else ["foreign: not shown to models until you adopt it"]
    marks += ["replaced"] if entry.superseded_by is not None else []
    return f"{visible(entry.content)}\n  {visible_line(entry.id)} · {visible_line(' · '.join(marks))}"


def _entries(entries: Sequence[m.MemoryEntryView], nothing: str) -> str:
    return "\n".join(map(_entry, entries)) or nothing


def _imported(result: m.MemoryImportResult) -> str:
    rows = [f"{result.added} new, {result.changed} changed, {result.present} there already, {result.kept} left out."]
    rows += ["Those left out differ from what is here; --adopt takes them."] if result.kept else []
    return "\n".join([*rows, *map(visible_line, result.problems)])


def _explained(result: m.MemoryExplainResult) -> str:
    place = "no hit" if result.rank is None else f"hit {result.rank}, score {result.score:.3f}"
    rows = [f"{_entry(result.entry)}", place]
    rows += [f"  {name}: {part:.3f}" for name, part in result.parts.items()]
    rows += [f"  {visible_line(word)}: {', '.join(where) or 'not there'}" for word, where in result.words.items()]
    return "\n".join(rows)


# --- what can be asked ------------------------------------------------------------------------------------------------

_Adds = Callable[[argparse.ArgumentParser], object]


def _all(*adds: _Adds) -> _Adds:
    def add(parser: argparse.ArgumentParser) -> None:
        for one in adds:
            one(parser)

    return add


def _id(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("id", metavar="ID", help="the entry's id, as `list` shows it")


def _text(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("text", nargs="+", metavar="WORD")


def _limit(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--limit", type=int, help="the most entries")


def _tags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--tag", dest="tags", action="append", default=[], metavar="TAG", help="only with this tag")


def _scope(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--scope", choices=("agent", "shared", "global"), help="who sees it")


def _changes(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--text", help="the new text")
    parser.add_argument("--tag", dest="tags", action="append", metavar="TAG", help="the new tags, one each")


def _document(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("path", nargs="?", default="-", help="the document (default: stdin)")
    parser.add_argument("--adopt", action="store_true", help="vouch for all that it says")


def _read(path: str) -> str:
    if path == "-":
        return sys.stdin.buffer.read(4 * LONGEST_DOCUMENT).decode("utf-8")
    return Path(path).expanduser().read_bytes().decode("utf-8")


VERBS: dict[str, Errand] = {
    "list": Errand(
        "List what is remembered, the newest first.",
        ops.MEMORY_LIST,
        _all(_scope, _tags, _limit),
        lambda given, uri: m.MemoryListParams(workspace=uri, scope=given.scope, tags=given.tags, limit=given.limit),
        lambda result: _entries(result.entries, "Nothing is remembered yet."),
    ),
    "recall": Errand(
        "Find what is remembered about a text.",
        ops.RECALL,
        _all(_text, _scope, _tags, _limit),
        lambda given, uri: m.RecallParams(
            workspace=uri, text=" ".join(given.text), scope=given.scope, tags=given.tags, limit=given.limit
        ),
        lambda result: _entries([hit.entry for hit in result.hits], "Nothing is remembered about that."),
        lambda result: bool(result.hits),
    ),
    "remember": Errand(
        "Remember a text.",
        ops.REMEMBER,
        _all(_text, _scope, _tags, lambda parser: parser.add_argument("--supersedes", metavar="ID", help="replaces")),
        lambda given, uri: m.RememberParams(
            workspace=uri,
            text=" ".join(given.text),
            scope=given.scope or "shared",
            tags=given.tags,
            supersedes=given.supersedes,
        ),
        lambda result: f"{'Remembered' if result.created else 'Remembered already'}: {visible_line(result.entry.id)}",
    ),
    "get": Errand(
        "Show one entry, with what it replaced and what replaced it.",
        ops.MEMORY_GET,
        _id,
        lambda given, uri: m.MemoryParams(workspace=uri, id=given.id),
        lambda result: _entries(result.history, ""),
    ),
    "update": Errand(
        "Change an entry; what is not named stays.",
        ops.MEMORY_UPDATE,
        _all(_id, _changes),
        lambda given, uri: m.MemoryUpdateParams(workspace=uri, id=given.id, text=given.text, tags=given.tags),
        lambda result: _entry(result.entry),
    ),
    "forget": Errand(
        "Remove an entry for good.",
        ops.FORGET,
        _id,
        lambda given, uri: m.ForgetParams(workspace=uri, id=given.id),
        lambda result: "Forgotten." if result.forgotten else "There is no such entry.",
        lambda result: result.forgotten,
    ),
    "adopt": Errand(
        "Vouch for an entry that somebody else wrote, so that models may see it.",
        ops.MEMORY_ADOPT,
        _id,
        lambda given, uri: m.MemoryParams(workspace=uri, id=given.id),
        lambda result: _entry(result.entry),
    ),
    "explain": Errand(
        "Tell why an entry is found for a text, or is not.",
        ops.MEMORY_EXPLAIN,
        _all(_id, _text),
        lambda given, uri: m.MemoryExplainParams(workspace=uri, id=given.id, text=" ".join(given.text)),
        _explained,
    ),
    "export": Errand(
        "Write what is remembered to stdout, as a Markdown document that `import` takes.",
        ops.MEMORY_EXPORT,
        _all(_scope, _tags),
        lambda given, uri: m.MemoryExportParams(workspace=uri, scope=given.scope, tags=given.tags),
        lambda result: result.text,
    ),
    "import": Errand(
        "Bring in a document of `export`. What you do not vouch for is kept from models, and replaces nothing.",
        ops.MEMORY_IMPORT,
        _document,
        lambda given, uri: m.MemoryImportParams(workspace=uri, text=_read(given.path), adopt=given.adopt),
        _imported,
        lambda result: not result.problems,
    ),
}

"""Where other tools keep their sessions, and which tool wrote a file."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from indusagi_lsp.sessions.importers import claude_code, codex, gemini_cli, pi, reading, relative

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from indusagi_lsp.sessions.importers.transcript import Transcript

_LOOK = 256 * 1024
_MAX_DEPTH = 6
_CLAUDE_KINDS = frozenset({"user", "assistant", "system", "summary", "file-history-snapshot", "queue-operation"})
_CODEX_KINDS = frozenset({"session_meta", "response_item", "event_msg", "turn_context", "compacted"})


class Place(msgspec.Struct, frozen=True):
    """A folder in which a tool keeps sessions, and how the names of its files begin and end."""

    tool: str
    folder: Path
    begin: str
    ends: tuple[str, ...]


def places(home: Path, environ: Mapping[str, str]) -> tuple[Place, ...]:
    """The folders in which the tools keep sessions, with the variables by which each tool moves them."""

    def base(variable: str, *parts: str) -> Path:
        return Path(environ[variable]) if environ.get(variable) else home.joinpath(*parts)

    own = base("INDUSAGI_HOME", ".pindusagi")
    lines = (".jsonl",)
    return (
        Place(claude_code.TOOL_NAME, base("CLAUDE_CONFIG_DIR", ".claude") / "projects", "", lines),
        Place(codex.TOOL_NAME, base("CODEX_HOME", ".codex") / "sessions", "rollout-", lines),
        Place(codex.TOOL_NAME, base("CODEX_HOME", ".codex") / "archived_sessions", "rollout-", lines),
        Place(pi.TOOL_NAME, base("PI_CODING_AGENT_DIR", ".pi", "agent") / "sessions", "", lines),
        Place(gemini_cli.TOOL_NAME, home / ".gemini" / "tmp", "session-", (".json", ".jsonl")),
        Place(relative.TOOL_NAME, base("INDUSAGI_AGENT_DIR", ".pindusagi", "agent") / "sessions", "", lines),
        Place(relative.TOOL_NAME, own / "sessions", "", lines),
    )


def files(place: Place) -> Iterator[Path]:
    """The sessions in a place, in a fixed order; links are not followed."""
    if not place.folder.is_dir():
        return

    depth = len(place.folder.parts)
    for folder, inner, names in os.walk(place.folder):
        inner.sort()
        if len(Path(folder).parts) - depth >= _MAX_DEPTH:
            inner.clear()
        for name in sorted(names):
            path = Path(folder, name)
            if name.startswith(place.begin) and name.endswith(place.ends) and not path.is_symlink():
                yield path


def tool_of(data: bytes, path: Path) -> str | None:
    """Which tool wrote a file, judged by its first lines; None if it is none that we know.

    Args:
        data: the file's bytes.
        path: where it lies: two of the tools write the same lines in different folders.
    """
    if path.suffix == ".json" or (data.lstrip()[:1] == b"{" and b"\n" in data[:3]):
        return gemini_cli.TOOL_NAME if b'"messages"' in data[:_LOOK] else None

    for line in reading.lines(data[:_LOOK]):
        for value in line.values:
            tool = _tool(value)
            if tool == pi.TOOL_NAME and any("indusagi" in part for part in path.parts):
                return relative.TOOL_NAME
            if tool is not None:
                return tool

    return gemini_cli.TOOL_NAME if b'"messages"' in data[:_LOOK] else None


def _tool(value: Mapping[str, Any]) -> str | None:
    kind = reading.text_of(value.get("type"))
    if kind in ("node", "head") or (kind == "session" and "schema" in value):
        return relative.TOOL_NAME

    if kind == "session" and "timestamp" in value:
        return pi.TOOL_NAME

    if "projectHash" in value and "sessionId" in value:
        return gemini_cli.TOOL_NAME

    if (kind in _CODEX_KINDS and "payload" in value) or (
        kind is None and {"id", "timestamp", "instructions"} <= value.keys()
    ):
        return codex.TOOL_NAME

    if kind in _CLAUDE_KINDS and (
        {"uuid", "leafUuid", "messageId", "operation"} & value.keys() or "sessionId" in value
    ):
        return claude_code.TOOL_NAME

    return None


def read(data: bytes, name: str, tool: str, cuts: frozenset[int] = frozenset()) -> Transcript:
    """Read a file of `tool`; `name` is the file's name without its ending."""
    if tool == relative.TOOL_NAME and _is_pi_like(data):
        return pi.read(data, name, cuts, tool)

    readers: dict[str, Callable[[bytes, str, frozenset[int]], Transcript]] = {
        claude_code.TOOL_NAME: claude_code.read,
        codex.TOOL_NAME: codex.read,
        pi.TOOL_NAME: pi.read,
        gemini_cli.TOOL_NAME: gemini_cli.read,
        relative.TOOL_NAME: relative.read,
    }
    return readers[tool](data, name, cuts)


TOOLS = (claude_code.TOOL_NAME, codex.TOOL_NAME, pi.TOOL_NAME, gemini_cli.TOOL_NAME, relative.TOOL_NAME)
"""The tools that can be imported from."""


def _is_pi_like(data: bytes) -> bool:
    for line in reading.lines(data[:_LOOK]):
        for value in line.values:
            tool = _tool(value)
            if tool is not None:
                return tool == pi.TOOL_NAME

    return False

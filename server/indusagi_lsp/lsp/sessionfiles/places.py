"""Where session files lie: which URI is one, and in which line of its file a node stands."""

from __future__ import annotations

import asyncio
from pathlib import Path
from urllib.parse import unquote

import msgspec

from indusagi_lsp.lsp.documents import Encoding, units_of
from indusagi_lsp.protocol.uris import path_to_uri, uri_to_path
from indusagi_lsp.sessions.folder import INDUSAGI, SESSIONS, SessionFolder, sessions_root
from indusagi_lsp.sessions.ids import session_of
from indusagi_lsp.sessions.records import open_regular

_MIDDLE = f"/{INDUSAGI}/{SESSIONS}/"
_MOST_BYTES = 256 << 20


class SessionPlace(msgspec.Struct, frozen=True):
    """A session's file: the folder's URI, and the session's id."""

    workspace: str
    session_id: str


def place_of(uri: str) -> SessionPlace | None:
    """The session whose file has this URI, in its one spelling; None for any other file."""
    workspace, middle, name = uri.rpartition(_MIDDLE)
    session_id = session_of(unquote(name)) if middle and "/" not in name else None
    return None if session_id is None else SessionPlace(workspace, session_id)


async def locate(
    workspace: str, session_id: str, nodes: list[str], encoding: Encoding
) -> tuple[str, dict[str, tuple[int, int]]]:
    """Find nodes in a session's file.

    Args:
        workspace: the folder's URI.
        session_id: the session.
        nodes: ids.
        encoding: what the client counts characters in.

    Returns:
        The file's URI, and by node the line and the character where its record begins. What is not found is left out.
    """
    root = uri_to_path(workspace)
    if root is None:
        return workspace, {}
    path = SessionFolder(sessions_root(Path(root))).path(session_id)
    return path_to_uri(path), await asyncio.to_thread(_find, path, nodes, encoding)


def _find(path: str, nodes: list[str], encoding: Encoding) -> dict[str, tuple[int, int]]:
    try:
        with open_regular(path) as file:
            data = file.read(_MOST_BYTES)
    except OSError:
        return {}
    found: dict[str, tuple[int, int]] = {}
    for node in nodes:
        at = data.find(b'"node":{"id":"%b"' % node.encode("utf-8", "surrogatepass"))
        if at >= 0:
            begin = data.rfind(b"\n", 0, at) + 1
            record = data.rfind(b'{"type":"node"', begin, at)
            before = data[begin : max(record, begin)].decode("utf-8", "replace")
            found[node] = (data.count(b"\n", 0, at), units_of(before, len(before), encoding))
    return found

"""Workspace symbols: a search through what was said in all sessions of all open folders."""

from __future__ import annotations

import logging
from typing import Any

import msgspec

from indusagi_lsp.contract.errors import IndusagiError
from indusagi_lsp.contract.text import visible_line
from indusagi_lsp.lsp.documents import Encoding
from indusagi_lsp.lsp.engine import Engine
from indusagi_lsp.lsp.sessionfiles.places import locate
from indusagi_lsp.protocol import messages as m
from indusagi_lsp.protocol.operations import SESSION_LIST, SESSION_SEARCH

logger = logging.getLogger(__name__)

_LIMIT = 50
_NAME_CHARS = 120
_FILE, _STRING = 1, 15


class _Query(msgspec.Struct, frozen=True):
    query: str


async def workspace_symbols(engine: Engine, encoding: Encoding, params: Any) -> list[dict[str, Any]]:
    """Answer `workspace/symbol`.

    Args:
        engine: has the sessions.
        encoding: what the client counts characters in.
        params: its params, as decoded JSON. An empty query lists the newest sessions.

    Raises:
        msgspec.ValidationError: the params are not those of the method.
    """
    query = msgspec.convert(params, _Query).query.strip()
    hosts = await engine.ready()
    found: list[dict[str, Any]] = []
    for folder in engine.folders():
        try:
            if query:
                search = m.SearchParams(query=query[:10_000], workspace=folder, limit=_LIMIT)
                found += await _hits(folder, await hosts.call(SESSION_SEARCH, search), encoding)
            else:
                listing = m.SessionListParams(workspace=folder, limit=_LIMIT)
                found += await _sessions(folder, await hosts.call(SESSION_LIST, listing), encoding)
        except IndusagiError as error:
            logger.info("a folder's sessions were not searched: %s", error.message)
    return found


async def _hits(folder: str, result: m.SearchResult, encoding: Encoding) -> list[dict[str, Any]]:
    by_session: dict[str, list[m.SearchHit]] = {}
    for hit in result.hits:
        by_session.setdefault(hit.session_id, []).append(hit)
    found: list[dict[str, Any]] = []
    for session_id, hits in by_session.items():
        uri, places = await locate(folder, session_id, [hit.node for hit in hits], encoding)
        for hit in hits:
            name = visible_line(" ".join(hit.snippet.split()), _NAME_CHARS)
            line, character = places.get(hit.node, (0, 0))
            found.append(_symbol(f"{hit.role}: {name}", _STRING, uri, line, character, session_id))
    return found


async def _sessions(folder: str, result: m.SessionListResult, encoding: Encoding) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for session in result.sessions:
        uri, _ = await locate(folder, session.id, [], encoding)
        title = visible_line(session.title or session.id, _NAME_CHARS)
        found.append(_symbol(title, _FILE, uri, 0, 0, session.id))
    return found


def _symbol(name: str, kind: int, uri: str, line: int, character: int, session_id: str) -> dict[str, Any]:
    place = {"line": line, "character": character}
    location = {"uri": uri, "range": {"start": place, "end": place}}
    return {"name": name, "kind": kind, "location": location, "containerName": session_id}

"""Names for the servers' tools: without clashes, and such as every provider takes."""

from __future__ import annotations

import hashlib
import re

PREFIX = "mcp"
MAX_NAME = 64
"""The shortest limit among the providers, whose common characters are `[A-Za-z0-9_-]`."""

_HASH = 8
_FOREIGN = re.compile(r"[^A-Za-z0-9_-]")


def tool_name(server: str, tool: str) -> str:
    """The name under which the model sees a server's tool.

    It depends on the two names alone, so that a tool keeps its name whichever other servers there are.

    Args:
        server: the server's name, as the configuration allows it.
        tool: the tool's name, any text.

    Returns:
        `mcp__server__tool`; where the tool's name has other characters or is too long, it is changed and ends in a
        part of its hash.
    """
    plain = _FOREIGN.sub("_", tool)
    name = f"{PREFIX}__{server}__{plain}"
    if plain == tool and tool and len(name) <= MAX_NAME:
        return name
    mark = hashlib.sha256(tool.encode("utf-8", "surrogatepass")).hexdigest()[:_HASH]
    return f"{name[: MAX_NAME - _HASH - 1]}_{mark}"

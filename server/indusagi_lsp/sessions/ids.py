"""Session ids: what may be one, so that it is a safe file name on every system."""

from __future__ import annotations

import re

from indusagi_lsp.contract.errors import InvalidInput

_ID = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,126}[A-Za-z0-9])?")
_DEVICES = frozenset(["con", "prn", "aux", "nul", *(f"com{n}" for n in range(10)), *(f"lpt{n}" for n in range(10))])
SUFFIX = ".jsonl"


def is_session_id(text: object) -> bool:
    """Whether `text` may name a session: 1 to 128 letters, digits, `.`, `_`, `-`; no `..`; no device of Windows."""
    if not isinstance(text, str) or _ID.fullmatch(text) is None or ".." in text:
        return False
    return text.partition(".")[0].casefold() not in _DEVICES


def check_session_id(text: object) -> str:
    """Take `text` as a session id.

    Raises:
        InvalidInput: it may not name a session.
    """
    if isinstance(text, str) and is_session_id(text):
        return text
    shown = text[:80] if isinstance(text, str) else type(text).__name__
    msg = f"{shown!r} is no session id."
    raise InvalidInput(
        msg,
        hint="An id has 1 to 128 letters, digits, '.', '_' or '-', begins and ends with a letter or digit, no '..'.",
    )


def session_of(name: str) -> str | None:
    """The session whose file is called `name`, None if it is no session's file."""
    if not name.endswith(SUFFIX):
        return None
    stem = name[: -len(SUFFIX)]
    return stem if is_session_id(stem) else None

"""File URIs and the paths that they stand for."""

from __future__ import annotations

import os
from urllib.parse import unquote, urlsplit

from indusagi_lsp.contract.errors import InvalidInput


def uri_path(uri: str) -> str:
    """The path of a file URI.

    Raises:
        InvalidInput: it is no URI of a file on this machine.
    """
    parts = urlsplit(uri)
    if parts.scheme != "file" or parts.netloc not in ("", "localhost"):
        message = f"{uri} is not a file on this machine."
        raise InvalidInput(message, hint="Send its text with it.")
    path = unquote(parts.path)
    if os.name == "nt" and path[2:3] == ":":
        path = path[1:]
    return path

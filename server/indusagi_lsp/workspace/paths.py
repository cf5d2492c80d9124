"""The paths that the file URIs of a client stand for."""

from __future__ import annotations

from pathlib import Path

from indusagi_lsp.contract.errors import InvalidInput
from indusagi_lsp.protocol.uris import uri_to_path


def uri_path(uri: str) -> Path:
    """The path of a file URI.

    Raises:
        InvalidInput: it is no URI of a file on this machine.
    """
    path = uri_to_path(uri)
    if path is None:
        message = f"{uri} is not a file on this machine."
        raise InvalidInput(message, hint="Send its text with it.")
    return Path(path)

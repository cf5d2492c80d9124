"""Workspace folders as a client names them: a list, one root, a path, or nothing at all."""

from __future__ import annotations

from typing import Any
from urllib.parse import unquote

import msgspec

from indusagi_lsp.protocol.uris import normalise_uri, path_to_uri


class Folder(msgspec.Struct, frozen=True):
    """One workspace folder; `uri` is in its one spelling."""

    uri: str
    name: str

    @classmethod
    def of(cls, uri: str, name: str | None = None) -> Folder:
        """A folder from a URI in any spelling; without a name it is called after its last part."""
        uri = normalise_uri(uri)
        return cls(uri, name or unquote(uri.rstrip("/").rpartition("/")[2]) or uri)


def folders_of(folders: Any, root_uri: str | None, root_path: str | None) -> list[Folder]:
    """The folders of an `initialize` request, each once, in order.

    Args:
        folders: `workspaceFolders`: objects with `uri` and `name`, or null; null means that the client has no
            such notion or no folder is open, and then the older fields count.
        root_uri: `rootUri`.
        root_path: `rootPath`.

    Returns:
        The folders; empty when nothing is open.
    """
    if folders:
        found = [Folder.of(folder.uri, folder.name) for folder in folders]
    elif root_uri:
        found = [Folder.of(root_uri)]
    elif root_path:
        found = [Folder.of(path_to_uri(root_path))]
    else:
        found = []
    return list({folder.uri: folder for folder in found}.values())

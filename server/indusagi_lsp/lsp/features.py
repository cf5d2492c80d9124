"""What pygls dispatches for us: `initialize` and the notifications about the client itself, handed on in two lines.

pygls finds the server by the name of the first parameter, and reads the annotations at run time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lsprotocol import types

from indusagi_lsp.lsp.folders import Folder

if TYPE_CHECKING:
    from indusagi_lsp.lsp.server import IndusagiServer


def register(server: IndusagiServer) -> None:
    """Register the handlers of a new server."""

    @server.feature(types.INITIALIZE)
    def initialize(ls: Any, params: types.InitializeParams) -> None:
        ls.initialized_with(params)

    @server.feature(types.INITIALIZED)
    def initialized(ls: Any, _params: types.InitializedParams) -> None:
        ls.client_ready()

    @server.feature(types.WORKSPACE_DID_CHANGE_WORKSPACE_FOLDERS)
    def folders(ls: Any, params: types.DidChangeWorkspaceFoldersParams) -> None:
        added = [Folder.of(folder.uri, folder.name) for folder in params.event.added]
        removed = [Folder.of(folder.uri, folder.name) for folder in params.event.removed]
        ls.spawn(ls.engine.change_folders(added, removed))

    @server.feature(types.WORKSPACE_DID_CHANGE_CONFIGURATION)
    def configuration(ls: Any, params: types.DidChangeConfigurationParams) -> None:
        ls.spawn(ls.take_configuration(params.settings))

    @server.feature(types.SET_TRACE)
    def trace(ls: Any, params: types.SetTraceParams) -> None:
        ls.set_trace(params.value)

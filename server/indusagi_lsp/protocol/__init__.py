"""Names and wire types of our own methods, and the only conversion between the wire and the engine.

The Python types here are the source: `vscode-client/src/protocol.ts` and `docs/protocol.md` are generated from them,
and contract tests hold the three together. Nothing here imports pygls or lsprotocol.
"""

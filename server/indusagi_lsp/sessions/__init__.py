"""Sessions: conversations as content-addressed graphs in append-only files that cannot be lost.

The file is the log, the graph and the source of truth; everything else is derived from it.
"""

from __future__ import annotations

from indusagi_lsp.sessions.folder import sessions_root
from indusagi_lsp.sessions.graph import SessionGraph
from indusagi_lsp.sessions.ids import check_session_id, is_session_id
from indusagi_lsp.sessions.journal import Change
from indusagi_lsp.sessions.nodes import Node, hash_node
from indusagi_lsp.sessions.outline import Look, Outline
from indusagi_lsp.sessions.records import Problem, Record, read_records
from indusagi_lsp.sessions.scan import Migrator
from indusagi_lsp.sessions.session import Session
from indusagi_lsp.sessions.signing import Signer, load_key
from indusagi_lsp.sessions.state import LoadReport, SessionMeta
from indusagi_lsp.sessions.store import SessionStore
from indusagi_lsp.sessions.summaries import SessionSummary
from indusagi_lsp.sessions.view import answered, model_view, view_with_sources
from indusagi_lsp.sessions.watch import SessionWatcher

__all__ = [
    "Change",
    "LoadReport",
    "Look",
    "Migrator",
    "Node",
    "Outline",
    "Problem",
    "Record",
    "Session",
    "SessionGraph",
    "SessionMeta",
    "SessionStore",
    "SessionSummary",
    "SessionWatcher",
    "Signer",
    "answered",
    "check_session_id",
    "hash_node",
    "is_session_id",
    "load_key",
    "model_view",
    "read_records",
    "sessions_root",
    "view_with_sources",
]

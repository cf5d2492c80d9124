"""The run event ledger: what happens in a run is published here, and whoever wants to know subscribes (seed)."""

from __future__ import annotations

from indusagi_lsp.ledger.ledger import Dispose, Handler, RunLedger, SnapshotAccumulator

__all__ = ["Dispose", "Handler", "RunLedger", "SnapshotAccumulator"]

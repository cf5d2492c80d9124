"""Importers: sessions of other tools become sessions of ours, again and again, and marked as foreign.

`places` knows where each tool keeps its sessions and whose a file is; one module for each tool reads its
files into a `transcript`; `assemble` makes nodes of it; `service` writes what is new.
"""

from __future__ import annotations

from indusagi_lsp.sessions.importers.places import TOOLS
from indusagi_lsp.sessions.importers.service import Importer, ImportReport, Progress

__all__ = ["TOOLS", "ImportReport", "Importer", "Progress"]

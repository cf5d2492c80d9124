"""Files rewind with the conversation: what the agent changed is kept, and can be brought back, file by file.

Old contents lie in `.indusagi/files/`, each under its SHA-256, outside the user's version control, with a journal that
ties each change to the session and the tool call that made it. Nothing that the user did since is touched without an
explicit choice, nothing that the agent did not make is removed, and going back is a change that can be undone itself.
"""

from __future__ import annotations

from indusagi_lsp.filehistory.contents import Collected
from indusagi_lsp.filehistory.history import FILES, ChangedFile, FileHistory
from indusagi_lsp.filehistory.lineage import Lineage, Member
from indusagi_lsp.filehistory.planning import WHY, Choice, RestoreItem, RestorePlan
from indusagi_lsp.filehistory.recording import recorded
from indusagi_lsp.filehistory.restoring import Restored
from indusagi_lsp.filehistory.scan import Limits
from indusagi_lsp.filehistory.watching import Changed

__all__ = [
    "FILES",
    "WHY",
    "Changed",
    "ChangedFile",
    "Choice",
    "Collected",
    "FileHistory",
    "Limits",
    "Lineage",
    "Member",
    "RestoreItem",
    "RestorePlan",
    "Restored",
    "recorded",
]

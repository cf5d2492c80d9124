"""How far a workflow has come, kept in a memory store so that another process can go on from there.

Open the store with an agent of its own (`agent="workflows"`), so that checkpoints do not turn up among memories.
"""

from __future__ import annotations

from indusagi_lsp.checkpoints.manager import CheckpointManager, WorkflowCheckpoint, WorkflowContext

__all__ = ["CheckpointManager", "WorkflowCheckpoint", "WorkflowContext"]

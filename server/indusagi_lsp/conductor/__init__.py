"""The conductor: runs prompts through a model and tools, and keeps what is said. It knows nothing of LSP.

Its one door is `create_agent`.
"""

from __future__ import annotations

from indusagi_lsp.conductor.agent import Agent, ForkPoint
from indusagi_lsp.conductor.condense import CondenseOutcome, CondensePlan, CondenseRequest
from indusagi_lsp.conductor.config import AgentConfig, AgentDeps
from indusagi_lsp.conductor.factory import create_agent
from indusagi_lsp.conductor.prompt import RulesFile, build_system_prompt, context_block

__all__ = [
    "Agent",
    "AgentConfig",
    "AgentDeps",
    "CondenseOutcome",
    "CondensePlan",
    "CondenseRequest",
    "ForkPoint",
    "RulesFile",
    "build_system_prompt",
    "context_block",
    "create_agent",
]

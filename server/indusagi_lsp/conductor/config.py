"""What an agent is made of: its configuration, and the parts that it is handed."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeAlias

import msgspec

from indusagi_lsp.condensation import CompactionPolicy
from indusagi_lsp.contract.approvals import Approver, deny
from indusagi_lsp.contract.clock import Clock, NewId, SystemClock, new_uuid
from indusagi_lsp.contract.limits import cap_output
from indusagi_lsp.contract.models import ModelCatalogue, ModelInvoker
from indusagi_lsp.contract.tools import Editor, Tool
from indusagi_lsp.contract.tracing import Tracer, Untraced

Excerpts: TypeAlias = Callable[[str], Awaitable[str]]
"""Gives what of the workspace is relevant to a prompt, as text, for a model that calls no tools."""

Spill: TypeAlias = Callable[[str], Awaitable[str]]
"""Makes a tool's output fit a block; what does not fit goes where it can be read on demand."""


async def cut(output: str) -> str:
    """Make an output fit a block by leaving out its middle, where there is no place for the whole."""
    return cap_output(output)


DEFAULT_MAX_TURNS = 100
DEFAULT_TOOL_SECONDS = 120.0


class AgentConfig(msgspec.Struct, frozen=True, kw_only=True):
    """How an agent behaves.

    Attributes:
        model: the model's id, `provider:name`.
        system: the system prompt.
        tools: what the model may ask for.
        max_output_tokens: the answer's limit, None for the provider's own.
        thinking: whether to ask the model for visible reasoning.
        compaction: when to condense by itself; None means never (seed).
        max_turns: model calls of one run, after which it faults with `turn_budget`.
        tool_seconds: the time that one tool call may take.
    """

    model: str
    system: str = ""
    tools: tuple[Tool, ...] = ()
    max_output_tokens: int | None = None
    thinking: bool = False
    compaction: CompactionPolicy | None = None
    max_turns: int = DEFAULT_MAX_TURNS
    tool_seconds: float = DEFAULT_TOOL_SECONDS


class AgentDeps(msgspec.Struct, frozen=True, kw_only=True):
    """The parts that an agent works with; every one may be left out.

    `store` and `ledger` count only if they are a real `SessionStore` and `RunLedger` (seed), so they are typed as
    anything. Without a store the conversation lives in memory. Without `invoke_model` the user's own environment
    decides which models there are.
    """

    invoke_model: ModelInvoker | None = None
    catalogue: ModelCatalogue | None = None
    store: object = None
    ledger: object = None
    approver: Approver = deny
    excerpts: Excerpts | None = None
    editor: Editor = Editor()
    spill: Spill = cut
    workspace: str = ""
    clock: Clock = msgspec.field(default_factory=SystemClock)
    new_id: NewId = new_uuid
    tracer: Tracer = Untraced()

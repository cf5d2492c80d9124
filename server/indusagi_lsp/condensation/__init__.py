"""Condensation: how large a conversation is, where it may be cut, and what stands for the turns that go.

Invariants: a cut never parts a call from its result; the same cut serves the summary and the tail; nothing here
stores anything, so a failed or cancelled condensation leaves the history as it was; what code knows for certain (the
ledger) is never left to a model. The names of the seed are all here: `estimate_context_tokens`, `should_compact`,
`find_cut_point`, `summarize`, `compact`, `ContextSummarizer`, `LLMConversation`.
"""

from indusagi_lsp.condensation.condense import (
    Condensation,
    compact,
    condense,
    condense_plainly,
    plan_cut,
    summarize,
)
from indusagi_lsp.condensation.conversation import ContextSummarizer, LLMConversation, LLMMessage
from indusagi_lsp.condensation.cut import SUMMARY_PREFIX, CutIndex, find_cut_point, is_summary
from indusagi_lsp.condensation.estimate import (
    estimate_block_tokens,
    estimate_context_tokens,
    estimate_text_tokens,
    estimate_turn_tokens,
)
from indusagi_lsp.condensation.guard import ProgressGuard, check_fixed
from indusagi_lsp.condensation.ledger import Ledger, collect
from indusagi_lsp.condensation.masking import Masking, Reduction, mask_old, reduce_turns
from indusagi_lsp.condensation.meter import ContextMeter, should_compact, tail_budget
from indusagi_lsp.condensation.policy import DEFAULT_POLICY, CompactionPolicy, window_of

__all__ = [
    "DEFAULT_POLICY",
    "SUMMARY_PREFIX",
    "CompactionPolicy",
    "Condensation",
    "ContextMeter",
    "ContextSummarizer",
    "CutIndex",
    "LLMConversation",
    "LLMMessage",
    "Ledger",
    "Masking",
    "ProgressGuard",
    "Reduction",
    "check_fixed",
    "collect",
    "compact",
    "condense",
    "condense_plainly",
    "estimate_block_tokens",
    "estimate_context_tokens",
    "estimate_text_tokens",
    "estimate_turn_tokens",
    "find_cut_point",
    "is_summary",
    "mask_old",
    "plan_cut",
    "reduce_turns",
    "should_compact",
    "summarize",
    "tail_budget",
    "window_of",
]

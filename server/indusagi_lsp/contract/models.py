"""The seam to the models: what is asked, what streams back, what a model can do.

A `ModelInvoker` is any callable that takes a `ModelRequest` and yields parts, the last of them `ModelDone`. It raises
`ModelError` (or `ContextOverflow`) and nothing else. The conductor knows only this.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import Any, Literal, Protocol, TypeAlias

import msgspec

from indusagi_lsp.contract.turns import Turn

StopReason: TypeAlias = Literal["stop", "tool_calls", "length", "filtered", "interrupted"]
Purpose: TypeAlias = Literal["main", "summarizer", "embedding", "title"]


class Usage(msgspec.Struct, frozen=True):
    """Tokens of one or more model calls.

    `input` counts the whole prompt, the cached part included. `cost` is in US dollars; None means unknown, never 0.
    """

    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0
    cost: float | None = None

    def __add__(self, other: Usage) -> Usage:
        """Both together; the cost is unknown only if both are."""
        costs = [cost for cost in (self.cost, other.cost) if cost is not None]
        return Usage(
            self.input + other.input,
            self.output + other.output,
            self.cache_read + other.cache_read,
            self.cache_write + other.cache_write,
            sum(costs) if costs else None,
        )


class ModelCard(msgspec.Struct, frozen=True):
    """What is known of a model.

    `id` is what people write in settings, `provider:name`. `window` and `max_output` are in tokens, None where unknown.
    `tools` says whether the model calls tools; a model that does not gets excerpts of the workspace in its prompt.
    `note` is shown to people beside the name.
    """

    id: str
    provider: str
    name: str
    window: int | None = None
    max_output: int | None = None
    tools: bool = True
    images: bool = False
    local: bool = False
    note: str = ""


class ToolSpec(msgspec.Struct, frozen=True):
    """A tool as the model sees it: `input_schema` is a JSON schema of type object."""

    name: str
    description: str
    input_schema: Mapping[str, Any]


class ModelRequest(msgspec.Struct, frozen=True):
    """One call of a model. `turns` is a valid history: each call has its result, each result its call."""

    model: str
    turns: tuple[Turn, ...]
    system: str = ""
    tools: tuple[ToolSpec, ...] = ()
    max_output_tokens: int | None = None
    thinking: bool = False
    purpose: Purpose = "main"


class TextDelta(msgspec.Struct, frozen=True):
    """More of the answer's text."""

    text: str


class ThinkingDelta(msgspec.Struct, frozen=True):
    """More of the reasoning."""

    text: str


class ToolCallDelta(msgspec.Struct, frozen=True):
    """More of a tool call: `arguments` is a fragment of JSON text. `index` counts the answer's calls from 0."""

    index: int
    id: str
    name: str
    arguments: str


class ModelRetry(msgspec.Struct, frozen=True):
    """The call failed before anything was shown and is tried again after `delay` seconds; `attempt` counts from 1."""

    attempt: int
    delay: float
    error: str


class ModelNote(msgspec.Struct, frozen=True):
    """Something about the call that the user should know; no part of the answer. `code` is stable."""

    code: str
    text: str


class ModelDone(msgspec.Struct, frozen=True):
    """The end of the answer: the whole assistant turn. A turn without blocks means that the model said nothing.

    A tool call whose arguments were no JSON object has the raw text as its `input`.
    """

    turn: Turn
    stop: StopReason
    usage: Usage | None = None


ModelPart: TypeAlias = TextDelta | ThinkingDelta | ToolCallDelta | ModelRetry | ModelNote | ModelDone


class ModelInvoker(Protocol):
    """Calls a model."""

    def __call__(self, request: ModelRequest, /) -> AsyncIterator[ModelPart]:
        """Stream the answer to `request`. Closing the iterator (or cancelling the task) ends the call at once."""
        ...


class ModelCatalogue(Protocol):
    """Knows the models that can be used here."""

    def card(self, model: str, /) -> ModelCard:
        """What is known of `model`.

        Raises:
            ModelError: no such provider, with a hint of how to name one.
        """
        ...

"""The seed's view of a short-term history: immutable messages in a mutable list, and a summariser for them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import msgspec

from indusagi_lsp.contract.errors import CompactionFailed, SemanticError
from indusagi_lsp.contract.models import ModelDone, ModelInvoker, ModelRequest
from indusagi_lsp.contract.turns import (
    SYSTEM,
    Block,
    Role,
    TextBlock,
    ToolCallBlock,
    ToolResultBlock,
    Turn,
    user,
)

SUMMARIZE_PROMPT = "Summarize the following conversation concisely, preserving key information:\n\n{}"
"""The seed's prompt, word for word."""


class LLMMessage(msgspec.Struct, frozen=True):
    """One message, immutable. `call_ids` and `result_ids` tell which tool calls it makes and answers."""

    role: Role
    content: str
    call_ids: tuple[str, ...] = ()
    result_ids: tuple[str, ...] = ()

    @classmethod
    def from_turn(cls, turn: Turn) -> LLMMessage:
        """The message that says what the turn says; tool calls and results become text."""
        return cls(
            turn.role,
            "\n".join(text for text in map(_block_text, turn.blocks) if text),
            tuple(call.id for call in turn.tool_calls),
            tuple(result.call_id for result in turn.tool_results),
        )


def _block_text(block: Block) -> str:
    """What a block says, as text."""
    if isinstance(block, TextBlock):
        return block.text
    if isinstance(block, ToolCallBlock):
        return f"[calls {block.name}]"
    return block.output if isinstance(block, ToolResultBlock) else ""


class LLMConversation:
    """An ordered, mutable sequence of immutable messages (seed). Truncation happens on demand only."""

    def __init__(self, messages: Iterable[LLMMessage] = ()) -> None:
        self._messages = list(messages)

    def __len__(self) -> int:
        return len(self._messages)

    def __iter__(self) -> Iterator[LLMMessage]:
        return iter(tuple(self._messages))

    @property
    def messages(self) -> tuple[LLMMessage, ...]:
        """The messages, in order."""
        return tuple(self._messages)

    def append(self, message: LLMMessage) -> None:
        """Add a message at the end."""
        self._messages.append(message)

    def remove(self, message: LLMMessage) -> None:
        """Take the first equal message out.

        Raises:
            SemanticError: there is none.
        """
        try:
            self._messages.remove(message)
        except ValueError:
            raise SemanticError("The conversation does not hold that message.") from None

    def truncate(self, max_messages: int) -> None:
        """Drop the oldest messages that are not system messages, until at most `max_messages` are left.

        Every system message stays, all in their original order; when they alone are more than the limit, they all stay.
        A call and its result are dropped together, so that fewer than `max_messages` may be left.

        Args:
            max_messages: the limit, at least 0.

        Raises:
            SemanticError: the limit is negative.
        """
        if max_messages < 0:
            raise SemanticError("max_messages must not be negative.")
        if len(self._messages) <= max_messages:
            return

        others = [at for at, message in enumerate(self._messages) if message.role != SYSTEM]
        slots = max(max_messages - (len(self._messages) - len(others)), 0)
        dropped = self._with_partners(set(others[: len(others) - slots]))
        self._messages = [message for at, message in enumerate(self._messages) if at not in dropped]

    def _with_partners(self, dropped: set[int]) -> set[int]:
        """`dropped`, and every message that would lose its call or its result by that."""
        pairs: list[tuple[int, int]] = []
        callers: dict[str, int] = {}
        for at, message in enumerate(self._messages):
            pairs += [(callers[call_id], at) for call_id in message.result_ids if call_id in callers]
            callers.update(dict.fromkeys(message.call_ids, at))
        while True:
            more = {at for pair in pairs if (pair[0] in dropped) != (pair[1] in dropped) for at in pair} - dropped
            if not more:
                return dropped
            dropped |= more


class ContextSummarizer:
    """Summarises messages by one model call (seed). It has no policy; the caller decides when."""

    def __init__(self, invoke_model: ModelInvoker, model: str) -> None:
        self._invoke = invoke_model
        self._model = model

    async def summarize_messages(self, messages: Sequence[LLMMessage | Turn]) -> Turn:
        """Summarise `messages`.

        Args:
            messages: at least one.

        Returns:
            A turn of role `system` with the summary.

        Raises:
            SemanticError: there are no messages.
            ModelError: the model failed.
            CompactionFailed: the model said nothing, or did not come to an end.
        """
        if not messages:
            raise SemanticError("Cannot summarize an empty list of messages.")

        plain = [LLMMessage.from_turn(message) if isinstance(message, Turn) else message for message in messages]
        combined = "\n".join(f"[{message.role}] {message.content}" for message in plain)
        request = ModelRequest(self._model, (user(SUMMARIZE_PROMPT.format(combined)),), purpose="summarizer")
        async for part in self._invoke(request):
            if isinstance(part, ModelDone):
                text = part.turn.text.strip()
                if part.stop != "stop" or not text:
                    raise CompactionFailed(
                        "The model gave no usable summary.", hint="Try again, or choose another model."
                    )
                return Turn(SYSTEM, (TextBlock(text),))

        raise CompactionFailed("The model's answer had no end.", hint="Try again, or choose another model.")

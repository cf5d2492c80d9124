"""Turns to the model library's messages, and its answers back to turns.

This module imports the model library, so it is itself imported late, in a thread (see `service`).
"""

from __future__ import annotations

import base64
import binascii
import re
from typing import TYPE_CHECKING, Any

from pydantic_ai.messages import (
    BaseToolCallPart,
    BinaryContent,
    FilePart,
    ModelMessage,
    ModelRequest,
    ModelRequestPart,
    ModelResponse,
    ModelResponsePart,
    SystemPromptPart,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolReturnPart,
    UserContent,
    UserPromptPart,
)

from indusagi_lsp.contract import jsontext
from indusagi_lsp.contract.turns import (
    ASSISTANT,
    SYSTEM,
    Block,
    ImageBlock,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
    ToolResultBlock,
    Turn,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from indusagi_lsp.contract.models import ModelRequest as Request

_SURROGATE = re.compile("[\ud800-\udfff]")
_PROVENANCE = "provider"
"""Field of a block that says which provider made it: proofs are only sent back to their maker."""


def to_messages(request: Request, *, provider: str, images: bool, tools: bool) -> list[ModelMessage]:
    """Write a request's history as the library's messages.

    Args:
        request: the system text and the turns. Turns of role system are joined to the system text, since
            several providers take that at the very front only.
        provider: the name under which the provider's own reasoning was kept; that of others is left out.
        images: whether the model sees images; else a line of text stands in their place.
        tools: whether the model knows tool calls; else they are told as text.

    Returns:
        The messages, requests and responses in turn.
    """
    system = [request.system, *(turn.text for turn in request.turns if turn.role == SYSTEM)]
    text = "\n\n".join(part for part in system if part.strip())
    parts: list[ModelRequestPart] = [SystemPromptPart(clean(text))] if text else []
    messages: list[ModelMessage] = []
    names: dict[str, str] = {}
    for turn in request.turns:
        if turn.role == SYSTEM:
            continue
        if turn.role == ASSISTANT:
            names.update((call.id, call.name) for call in turn.tool_calls)
            answer = list(_answer_parts(turn.blocks, provider=provider, tools=tools))
            if answer:
                if parts:
                    messages.append(ModelRequest(parts=parts))
                    parts = []
                messages.append(ModelResponse(parts=answer, provider_name=provider))
        else:
            parts.extend(_user_parts(turn.blocks, names, images=images, tools=tools))
    if parts:
        messages.append(ModelRequest(parts=parts))
    return [_joined(message) if isinstance(message, ModelRequest) else message for message in messages]


def from_response(response: ModelResponse) -> Turn:
    """The assistant's turn that a response amounts to; what only the provider can read is kept as extra."""
    return Turn(ASSISTANT, tuple(block for part in response.parts for block in _blocks(part)))


def clean(text: str) -> str:
    """Text that has UTF-8 bytes: each lone surrogate is replaced."""
    return text if text.isascii() else _SURROGATE.sub("\ufffd", text)


def _user_parts(
    blocks: Iterable[Block], names: Mapping[str, str], *, images: bool, tools: bool
) -> Iterator[ModelRequestPart]:
    for block in blocks:
        if isinstance(block, TextBlock):
            if block.text.strip():
                yield UserPromptPart(clean(block.text))
        elif isinstance(block, ImageBlock):
            yield UserPromptPart([_image(block)] if images else _no_image(block))
        elif isinstance(block, ToolResultBlock):
            output, name = clean(block.output), names.get(block.call_id, "unknown")
            if tools:
                yield ToolReturnPart(name, output, block.call_id, outcome="failed" if block.is_error else "success")
            else:
                yield UserPromptPart(f"[result of {name}]\n{output}")


def _answer_parts(blocks: Iterable[Block], *, provider: str, tools: bool) -> Iterator[ModelResponsePart]:
    for block in blocks:
        if isinstance(block, TextBlock):
            if block.text.strip():
                yield TextPart(clean(block.text), **_proofs(block.extra, provider))
        elif isinstance(block, ThinkingBlock):
            if block.extra.get(_PROVENANCE) == provider:
                yield ThinkingPart(clean(block.text), signature=block.signature, **_proofs(block.extra, provider))
        elif isinstance(block, ToolCallBlock):
            if tools:
                arguments = block.input if isinstance(block.input, dict) else {"INVALID_JSON": block.input}
                yield ToolCallPart(block.name, _cleaned(arguments), block.id, **_proofs(block.extra, provider))
            else:
                yield TextPart(f"[called {block.name}]")


def _proofs(extra: Mapping[str, Any], provider: str) -> dict[str, Any]:
    if extra.get(_PROVENANCE) != provider:
        return {}
    kept = {"id": extra.get("partId"), "provider_details": extra.get("details")}
    return {"provider_name": provider, **{name: value for name, value in kept.items() if value is not None}}


def _extra(part: TextPart | ThinkingPart | BaseToolCallPart, *, always: bool = False) -> Mapping[str, Any]:
    kept = {"partId": part.id, "details": part.provider_details}
    extra = {name: value for name, value in kept.items() if value is not None}
    return {_PROVENANCE: part.provider_name, **extra} if part.provider_name and (extra or always) else {}


def _blocks(part: ModelResponsePart) -> Iterator[Block]:
    if isinstance(part, TextPart):
        if part.content:
            yield TextBlock(part.content, extra=_extra(part))
    elif isinstance(part, ThinkingPart):
        if part.content or part.signature:
            yield ThinkingBlock(part.content, part.signature, extra=_extra(part, always=True))
    elif isinstance(part, ToolCallPart):
        yield ToolCallBlock(part.tool_call_id, part.tool_name, _arguments(part), extra=_extra(part))
    elif isinstance(part, FilePart) and part.content.media_type.startswith("image/"):
        yield ImageBlock(part.content.media_type, base64.b64encode(part.content.data).decode("ascii"))


def _arguments(part: ToolCallPart) -> Any:
    raw = part.args
    if raw is None or raw == "":
        return {}
    if isinstance(raw, dict):
        return raw
    try:
        value = jsontext.loads(raw)
    except ValueError:
        return raw
    return value if isinstance(value, dict) else raw


def _image(block: ImageBlock) -> UserContent:
    try:
        data = base64.b64decode(block.data_base64, validate=True)
    except (binascii.Error, ValueError):
        return f"[an image of type {block.media_type}, damaged]"
    return BinaryContent(data, media_type=block.media_type)


def _no_image(block: ImageBlock) -> str:
    return f"[an image of type {block.media_type}, which this model does not see]"


def _joined(message: ModelRequest) -> ModelRequest:
    """Join neighbouring user parts: several providers refuse two messages of the user in a row."""
    parts: list[ModelRequestPart] = []
    for part in message.parts:
        before = parts[-1] if parts else None
        if isinstance(part, UserPromptPart) and isinstance(before, UserPromptPart):
            if isinstance(before.content, str) and isinstance(part.content, str):
                parts[-1] = UserPromptPart(f"{before.content}\n\n{part.content}")
            else:
                parts[-1] = UserPromptPart([*_contents(before), *_contents(part)])
        else:
            parts.append(part)
    return ModelRequest(parts=parts)


def _contents(part: UserPromptPart) -> list[UserContent]:
    return [part.content] if isinstance(part.content, str) else list(part.content)


def _cleaned(value: Any) -> Any:
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, dict):
        return {clean(str(name)): _cleaned(item) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_cleaned(item) for item in value]
    return value

"""The result of a tool as text, for models and people alike: what is no text is named and measured."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from indusagi_lsp.contract import jsontext
from indusagi_lsp.contract.text import quoted, visible, visible_line

if TYPE_CHECKING:
    import mcp_types

MAX_PARTS = 1_000


def result_text(result: mcp_types.CallToolResult) -> str:
    """Everything that a result holds, part by part. May take long for a large one: call it in a thread.

    Args:
        result: what the server answered.

    Returns:
        Text without hidden characters; structured content only where there is no other.
    """
    parts = [_part(block) for block in result.content[:MAX_PARTS]]
    if len(result.content) > MAX_PARTS:
        parts.append(f"[… {len(result.content) - MAX_PARTS} more parts]")
    if not parts and result.structured_content is not None:
        parts.append(visible(jsontext.dumps(result.structured_content).decode("utf-8")))
    return "\n".join(parts)


def _part(block: Any) -> str:
    match block.type:
        case "text":
            return visible(block.text)
        case "image" | "audio":
            return f"[{block.type}, {_kind(block.mime_type)}, {_size(block.data):,} bytes; not shown]"
        case "resource_link":
            about = f": {visible_line(block.description)}" if block.description else ""
            return f"[resource {quoted(str(block.uri))}, {quoted(block.name)}{about}]"
        case "resource":
            return _resource(block.resource)
        case _:
            return f"[{visible_line(str(block.type), 50)}; not shown]"


def _resource(resource: Any) -> str:
    head = f"resource {quoted(str(resource.uri))}"
    text = getattr(resource, "text", None)
    if text is not None:
        return f"[{head}]\n{visible(text)}"
    return f"[{head}, {_kind(resource.mime_type)}, {_size(resource.blob):,} bytes; not shown]"


def _kind(mime_type: str | None) -> str:
    return visible_line(mime_type or "unknown kind", 100)


def _size(base64: str) -> int:
    """Bytes that a base64 text stands for."""
    return max(0, len(base64) * 3 // 4 - base64[-2:].count("="))

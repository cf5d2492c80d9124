"""From what an ACP client sends to what the engine takes. No input or output here."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import msgspec
from acp import schema

from indusagi_lsp.contract.errors import InvalidInput
from indusagi_lsp.protocol import messages as m

ContentBlock: TypeAlias = (
    schema.TextContentBlock
    | schema.ImageContentBlock
    | schema.AudioContentBlock
    | schema.ResourceContentBlock
    | schema.EmbeddedResourceContentBlock
)


class Said(msgspec.Struct, frozen=True):
    """A prompt: its blocks in the session format, and what of the editor goes with it."""

    blocks: list[dict[str, Any]]
    context: list[m.ContextItem]

    @property
    def text(self) -> str:
        """The words alone."""
        return "\n".join(block["text"] for block in self.blocks if block["kind"] == "text")


def read_prompt(content: Sequence[ContentBlock]) -> Said:
    """Read a prompt.

    Args:
        content: the client's blocks. A link to a file is read later by the host, past its path guard; a resource that
            comes with its text may hold what is not saved yet.

    Raises:
        InvalidInput: there are no words in it, or something that no model here takes.
    """
    blocks: list[dict[str, Any]] = []
    context: list[m.ContextItem] = []
    for one in content:
        if isinstance(one, schema.TextContentBlock):
            if one.text:
                blocks.append({"kind": "text", "text": one.text})
        elif isinstance(one, schema.ImageContentBlock):
            blocks.append({"kind": "image", "mediaType": one.mime_type, "dataBase64": one.data})
        elif isinstance(one, schema.ResourceContentBlock):
            context.append(m.ContextItem(kind="file", uri=one.uri))
        elif isinstance(one, schema.EmbeddedResourceContentBlock) and isinstance(
            one.resource, schema.TextResourceContents
        ):
            context.append(m.ContextItem(kind="file", uri=one.resource.uri, text=one.resource.text))
        else:
            raise InvalidInput(
                "Audio and binary attachments are not understood.", hint="Send text, images, or links to files."
            )
    if not any(block["kind"] == "image" or block["text"].strip() for block in blocks):
        raise InvalidInput("The prompt is empty.", hint="Write something.")
    return Said(blocks, context)

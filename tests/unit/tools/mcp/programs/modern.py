"""An MCP server made with the SDK: its tools answer with all kinds of content, tell progress, and come and go."""

from __future__ import annotations

import sys
from pathlib import Path

import anyio
from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.types import EmbeddedResource, ImageContent, ResourceLink, TextContent, TextResourceContents, ToolAnnotations

server = MCPServer("modern")


@server.tool(annotations=ToolAnnotations(read_only_hint=True))
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@server.tool()
async def count(to: int, ctx: Context) -> str:
    """Count, telling so."""
    for number in range(to):
        await ctx.report_progress(number, to, f"at {number}")
        await anyio.sleep(0.01)
    return "counted"


@server.tool()
async def wait(path: str) -> str:
    """Wait until cancelled, and leave a mark then."""
    try:
        await anyio.sleep(1000)
    except BaseException:
        Path(path).write_text("cancelled")
        raise
    return "never"


@server.tool(structured_output=False)
def everything() -> list:
    """All kinds of content."""
    return [
        TextContent(type="text", text="a\x1b[31mb\u202ec"),
        ImageContent(type="image", data="AAAA", mime_type="image/png"),
        ResourceLink(type="resource_link", uri="file:///x", name="x", description="an x"),
        EmbeddedResource(type="resource", resource=TextResourceContents(uri="note://1", text="a note")),
    ]


@server.tool()
def fail() -> str:
    """Fail."""
    raise ToolError("that did not work")


@server.tool()
async def grow(ctx: Context) -> str:
    """Offer one tool more."""
    server.add_tool(add, name="plus", description="Add, by another name.")
    await ctx.notify_tools_changed()
    return "grown"


if len(sys.argv) > 1:
    server.run("streamable-http", port=int(sys.argv[1]), json_response="--json" in sys.argv)
else:
    server.run()

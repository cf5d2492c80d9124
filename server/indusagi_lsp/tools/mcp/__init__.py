"""The user's MCP servers: programs and addresses that offer tools to the agent, and that are not to be trusted blindly.

Only the user's own configuration names them. Starting one, and using tools that it did not offer before, is allowed by
the user; each call of a tool is asked about with its server, its name and its arguments. What a server says is a
stranger's text: bounded, and cleaned before a model or a person sees it. Nothing here is imported before it is needed:
the SDK is the optional extra `mcp`.
"""

from __future__ import annotations

from indusagi_lsp.tools.mcp.config import McpConfig, read_mcp_config
from indusagi_lsp.tools.mcp.grants import Grants
from indusagi_lsp.tools.mcp.server import Pace
from indusagi_lsp.tools.mcp.servers import McpServers, McpStatus

__all__ = ["Grants", "McpConfig", "McpServers", "McpStatus", "Pace", "read_mcp_config"]

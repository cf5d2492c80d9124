"""Which MCP servers the user has: `[mcp.NAME]` of the user's own `config.toml`, read tolerantly.

A workspace cannot name a server: what is written there was written by whoever wrote the repository.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Annotated, Any
from urllib.parse import urlsplit

import msgspec
from msgspec import Meta

# Neither a double underscore nor one at an end, so that `mcp__server__tool` can be taken apart in one way only.
_NAME = re.compile(r"[A-Za-z0-9]+(?:[_-][A-Za-z0-9]+)*")
_MAX_NAME = 32
_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class McpConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One MCP server, as the user sets it: a program to start, or an address to speak to.

    Attributes:
        command: the program: an absolute path, `~/…`, or a name that is looked up in PATH.
        args: its arguments.
        env: environment variables that it gets beside the harmless ones that every server gets.
        cwd: the folder that it runs in, absolute or `~/…`; empty for the user's home folder, never the workspace.
        url: the address of a server that is reached over (streamable) HTTP.
        headers: HTTP headers sent to it.
        enabled: whether it is used at all.
        timeout: seconds that it may take to start, and that one call of a tool may take.
        trust_read_only: believe the server where it says that a tool only reads, and do not ask for such calls.
    """

    command: Annotated[str, Meta(max_length=4096)] = ""
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = {}
    cwd: str = ""
    url: Annotated[str, Meta(max_length=4096)] = ""
    headers: Mapping[str, str] = {}
    enabled: bool = True
    timeout: Annotated[float, Meta(gt=0, le=3600)] = 60.0
    trust_read_only: bool = False

    def __repr__(self) -> str:
        # Arguments, variables and headers may hold keys.
        return f"McpConfig(command={self.command!r}, url={safe_url(self.url)!r}, enabled={self.enabled})"


def read_mcp_config(raw: object) -> tuple[dict[str, McpConfig], tuple[str, ...]]:
    """Read the user's MCP servers, taking what is right and telling what is not.

    Args:
        raw: TOML data: the table `mcp`, an object of servers by name; names of settings in camelCase or with
            underscores. None stands for no servers.

    Returns:
        The servers by name, those that are switched off included, and what was left out, in words that hold no value
        of a variable or header.
    """
    if raw is None:
        return {}, ()
    if not isinstance(raw, Mapping):
        return {}, ("`mcp` is not a table of servers.",)

    servers: dict[str, McpConfig] = {}
    problems: list[str] = []
    for name, settings in raw.items():
        try:
            servers[_checked_name(str(name))] = _read_one(settings)
        except ValueError as error:
            problems.append(f"MCP server {name!r} is not used: {error}.")
    return servers, tuple(problems)


def safe_url(url: str) -> str:
    """An address to show: without the parts that may hold a key.

    Args:
        url: any text.
    """
    try:
        parts = urlsplit(url)
        host = parts.netloc.rpartition("@")[2]
    except ValueError:
        return "…"
    return f"{parts.scheme}://{host}{parts.path}{'?…' if parts.query else ''}" if host else ""


def _checked_name(name: str) -> str:
    if len(name) > _MAX_NAME or not _NAME.fullmatch(name):
        message = f"a name has at most {_MAX_NAME} letters, digits, and single `-` or `_` between them"
        raise ValueError(message)
    return name


def _read_one(settings: object) -> McpConfig:
    if not isinstance(settings, Mapping):
        raise ValueError("its settings are not a table")
    config = msgspec.convert({_snake(str(name)): value for name, value in settings.items()}, McpConfig)
    if bool(config.command) == bool(config.url):
        raise ValueError("it needs either `command` or `url`")
    if config.url:
        _check_address(config)
    else:
        _check_program(config)
    return config


def _check_address(config: McpConfig) -> None:
    if config.args or config.env or config.cwd:
        raise ValueError("`args`, `env` and `cwd` belong to a `command`, not to a `url`")
    parts = urlsplit(config.url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError("`url` is no http:// or https:// address")
    for name, value in config.headers.items():
        if not _HEADER_NAME.fullmatch(name) or not value.isprintable() or not value.isascii():
            message = f"`headers` has a name or value that HTTP does not take ({name!r})"
            raise ValueError(message)


def _check_program(config: McpConfig) -> None:
    if config.headers:
        raise ValueError("`headers` belongs to a `url`, not to a `command`")
    if any("\0" in text for text in (config.command, config.cwd, *config.args, *config.env.values())):
        raise ValueError("it has a NUL character")
    if not all(_VARIABLE.fullmatch(name) for name in config.env):
        raise ValueError("`env` has a name that is no variable's")
    for what, path in (("command", config.command), ("cwd", config.cwd)):
        # A relative path would mean whatever lies in the folder that we happen to run in: a workspace, at worst.
        names_folder = what == "cwd" or os.sep in path or "/" in path
        if path and names_folder and not os.path.isabs(os.path.expanduser(path)):
            message = f"`{what}` is a relative path; it must be absolute or start with ~/"
            raise ValueError(message)


def _snake(name: str) -> str:
    return re.sub(r"(?<=[a-z])([A-Z])", r"_\1", name).lower()


def plain(config: McpConfig) -> dict[str, Any]:
    """What decides which program runs, or who is spoken to, as JSON data: the part that a permission is bound to.

    Args:
        config: a server.
    """
    return {
        "command": config.command,
        "args": list(config.args),
        "env": dict(sorted(config.env.items())),
        "cwd": config.cwd,
        "url": config.url,
        "headers": dict(sorted((name.lower(), value) for name, value in config.headers.items())),
    }

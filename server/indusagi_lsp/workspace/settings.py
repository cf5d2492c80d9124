"""The settings, from the user's `config.toml` and from the editor: one table, checked field by field.

A value that makes no sense is replaced by the default and reported; it never stops the server. What decides where data
goes (providers, base URLs, keys) is read from the user's own file alone, because an editor's settings may come from the
workspace, and a workspace is hostile until trusted.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias

import msgspec
from msgspec import Meta

from indusagi_lsp.condensation import CompactionPolicy
from indusagi_lsp.contract.events import Notice
from indusagi_lsp.models import ModelsConfig, read_models_config
from indusagi_lsp.tools.mcp import McpConfig, read_mcp_config

ApprovalMode: TypeAlias = Literal["readOnly", "ask", "acceptEdits"]


class CompactionSettings(msgspec.Struct, frozen=True, rename="camel"):
    """When a conversation is condensed by itself."""

    enabled: bool = True
    trigger_ratio: Annotated[float, Meta(gt=0, le=1)] = 0.8
    keep_recent: Annotated[int, Meta(ge=1, le=1000)] = 8

    @property
    def policy(self) -> CompactionPolicy | None:
        """The policy for the conductor; None where condensing by itself is off."""
        return CompactionPolicy(self.trigger_ratio, self.keep_recent) if self.enabled else None


class MemorySettings(msgspec.Struct, frozen=True, rename="camel"):
    """Where what is remembered is kept, and how it is found."""

    store: Literal["sqlite", "file"] = "sqlite"
    semantic: bool = False


class Settings(msgspec.Struct, frozen=True, rename="camel"):
    """What can be set, under `indusagi` in the editor or at the top of `config.toml`.

    Attributes:
        model: the model's id, `provider:name`; empty for the best that is configured, at last the bundled one.
        thinking: ask the model to show its reasoning.
        max_turns: model calls of one run.
        tool_seconds: time that one tool call may take.
        approvals: `readOnly` gives the agent no tool that changes anything, `ask` asks before each, `acceptEdits` lets
            it edit files of the workspace unasked; protected paths and commands are asked about all the same.
        compaction: when to condense by itself.
        memory: the kind of store, and whether to find by meaning too; both take effect when the folder is opened.
        redact_secrets: take secrets of known shapes out of what is kept; it takes effect when the folder is opened.
        watch: how changes by other programs are seen: `native`, `polling` (network folders), or `off`.
    """

    model: Annotated[str, Meta(max_length=200)] = ""
    thinking: bool = False
    max_turns: Annotated[int, Meta(ge=1, le=10_000)] = 100
    tool_seconds: Annotated[float, Meta(gt=0, le=86_400)] = 120.0
    approvals: ApprovalMode = "ask"
    compaction: CompactionSettings = CompactionSettings()
    memory: MemorySettings = MemorySettings()
    redact_secrets: bool = True
    watch: Literal["native", "polling", "off"] = "native"


class UserConfig(msgspec.Struct, frozen=True):
    """The user's own file: settings, and what only it may say: providers, MCP servers, commands that pass unasked."""

    settings: Mapping[str, Any] = {}
    models: ModelsConfig = ModelsConfig()
    mcp: Mapping[str, McpConfig] = {}
    commands: tuple[str, ...] = ()
    memory_server: str = ""
    """The address of the server that keeps what folders remember; empty where each folder keeps it itself."""
    telemetry: bool | None = None
    """Whether spans are sent; None leaves it to the standard variables of the environment."""


def read_user_config(path: Path) -> tuple[UserConfig, list[Notice]]:
    """Read the user's `config.toml`.

    Args:
        path: the file; a missing one is an empty one.

    Returns:
        What it says, and a notice for each thing in it that was not understood.
    """
    import tomllib

    try:
        data = tomllib.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        return UserConfig(), []
    except (OSError, ValueError) as error:
        return UserConfig(), [_bad(f"{path} could not be read and is ignored: {error}")]

    models, problems = read_models_config(
        {"providers": data.pop("providers", {}), "default": data.get("model") or None}
    )
    mcp: Mapping[str, McpConfig] = {}
    if "mcp" in data:
        mcp, mcp_problems = read_mcp_config(data.pop("mcp"))
        problems = (*problems, *mcp_problems)
    memory_server, memory_problems = _memory_server(data.get("memory"))
    problems = (*problems, *memory_problems)
    commands = data.pop("commands", [])
    if not (isinstance(commands, list) and all(isinstance(one, str) for one in commands)):
        problems = (*problems, "`commands` is not a list of commands, so each command is asked about.")
        commands = []
    telemetry = data.pop("telemetry", None)
    if not (telemetry is None or isinstance(telemetry, bool)):
        problems = (*problems, "`telemetry` is neither true nor false, so it is off.")
        telemetry = False
    return UserConfig(data, models, mcp, tuple(commands), memory_server, telemetry), [
        _bad(f"{path}: {problem}") for problem in problems
    ]


def merge_settings(*layers: Mapping[str, Any]) -> tuple[Settings, list[Notice]]:
    """Put layers of raw settings together; a later one wins, a bad value falls back to what stood before.

    Args:
        layers: JSON objects in the shape of `Settings`, camelCase or snake_case; null means not set.

    Returns:
        The settings, and a notice for each value that was not taken.
    """
    values: dict[str, Any] = {}
    notices: list[Notice] = []
    for layer in layers:
        for name, value in layer.items():
            key = _camel(name)
            if value is None or key not in _FIELDS:
                continue
            parts = _parts(value) if isinstance(value, Mapping) else {"": value}
            for part, wanted in parts.items():
                before = values.get(key)
                tried = {**(before if isinstance(before, dict) else {}), part: wanted} if part else wanted
                try:
                    msgspec.convert({key: tried}, Settings)
                except msgspec.ValidationError as error:
                    full = f"{key}.{part}" if part else key
                    notices.append(_bad(f"Setting indusagi.{full} is not taken: {error}."))
                else:
                    values[key] = tried
    return msgspec.convert(values, Settings), notices


_SERVERS = {"postgres": ("postgres://", "postgresql://"), "redis": ("redis://", "rediss://", "unix://")}


def _memory_server(memory: Any) -> tuple[str, list[str]]:
    """Take the address of a server out of the settings of memory; an address and its password never reach an editor."""
    if not isinstance(memory, dict):
        return "", []
    address = memory.pop("address", "")
    kind = memory.get("store")
    if kind not in _SERVERS:
        return "", ["`memory.address` is only for the stores postgres and redis."] if address else []
    del memory["store"]
    if isinstance(address, str) and address.startswith(_SERVERS[kind]):
        return address, []
    begin = " or ".join(_SERVERS[kind])
    return "", [f"`memory.store` {kind} needs a `memory.address` that begins with {begin}."]


def _parts(group: Mapping[str, Any]) -> dict[str, Any]:
    """A group's settings one by one, so that a bad one does not take the others along."""
    return {_camel(part): item for part, item in group.items() if item is not None}


def _bad(text: str) -> Notice:
    return Notice("warning", "bad_setting", text)


def _camel(name: str) -> str:
    head, *tail = name.split("_")
    return head + "".join(part[:1].upper() + part[1:] for part in tail)


_FIELDS = frozenset(_camel(name) for name in Settings.__struct_fields__)

"""Standing permissions: what the user has allowed for good in one workspace.

They live in the user's own state folder, never in the workspace, which could then grant itself what it likes. Each is
bound to the exact bytes of one action. What must be asked afresh each time (protected paths, memory) is never looked up
here.
"""

from __future__ import annotations

import asyncio
import os
import secrets
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any

import msgspec

from indusagi_lsp.contract.errors import PersistenceFault
from indusagi_lsp.contract.jsontext import dumps, loads

PREVIEW_CHARS = 200


class Permission(msgspec.Struct, frozen=True):
    """One action that may be done without asking; `preview` is for people who look at the file."""

    tool: str
    preview: str
    at: int


class Permissions:
    """The permissions of one workspace. All of it blocks; call it in a thread.

    Args of the constructor: the user's state folder, and the workspace's URI.
    """

    def __init__(self, state: Path, workspace: str) -> None:
        self._folder = state / "permissions"
        self._path = self._folder / f"{sha256(workspace.encode()).hexdigest()[:32]}.json"
        self._workspace = workspace

    def allows(self, tool: str, action: str) -> bool:
        """Whether the user has allowed exactly this action of this tool."""
        return _key(tool, action) in self._read()

    def grant(self, tool: str, action: str, at: int) -> None:
        """Allow an action from now on.

        Args:
            tool: its tool.
            action: what the user was shown, whole.
            at: milliseconds since the epoch.

        Raises:
            PersistenceFault: the file cannot be written.
        """
        from filelock import FileLock

        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            with FileLock(f"{self._path}.lock", mode=0o600):
                permissions = dict(self._read())
                permissions[_key(tool, action)] = Permission(tool, action[:PREVIEW_CHARS], at)
                self._write(permissions)
        except OSError as error:
            message = f"The permission could not be kept: {error.strerror or error}."
            raise PersistenceFault(message, hint=f"Make {self._folder} writable.") from error

    def _read(self) -> Mapping[str, Permission]:
        # A file that cannot be understood grants nothing: when in doubt, the user is asked.
        try:
            data = loads(self._path.read_bytes())
            return msgspec.convert(data["actions"], dict[str, Permission])
        except (OSError, ValueError, KeyError, TypeError, msgspec.ValidationError):
            return {}

    def _write(self, permissions: Mapping[str, Permission]) -> None:
        replace_private(self._path, {"workspace": self._workspace, "actions": msgspec.to_builtins(permissions)})


class McpGrants:
    """What the user has allowed MCP servers in one workspace; the shape of a grant is theirs."""

    def __init__(self, state: Path, workspace: str) -> None:
        self._folder = state / "permissions"
        self._path = self._folder / f"{sha256(workspace.encode()).hexdigest()[:32]}.mcp.json"

    async def get(self, key: str, /) -> str | None:
        """What was put under `key`, None if nothing was, or if the file cannot be understood."""
        value = (await asyncio.to_thread(self._read)).get(key)
        return value if isinstance(value, str) else None

    async def put(self, key: str, value: str, /) -> None:
        """Keep `value` under `key`.

        Raises:
            OSError: the file cannot be written.
        """
        await asyncio.to_thread(self._put, key, value)

    def _put(self, key: str, value: str) -> None:
        from filelock import FileLock

        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with FileLock(f"{self._path}.lock", mode=0o600):
            replace_private(self._path, {**self._read(), key: value})

    def _read(self) -> dict[str, Any]:
        try:
            data = loads(self._path.read_bytes())
        except (OSError, ValueError):
            return {}
        return data if isinstance(data, dict) else {}


def replace_private(path: Path, data: Mapping[str, Any]) -> None:
    """Write JSON in the place of a file, whole or not at all, for the user's eyes alone.

    Raises:
        OSError: the disk refused.
    """
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(dumps(data))
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def _key(tool: str, action: str) -> str:
    return sha256(f"{tool}\0{action}".encode("utf-8", "surrogatepass")).hexdigest()

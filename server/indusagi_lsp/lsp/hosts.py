"""What the server needs of the hosts behind it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Protocol, TypeAlias

from indusagi_lsp.protocol.operations import Operation
from indusagi_lsp.workspace.outlet import Outlet


class Hosts(Protocol):
    """One host per workspace folder, behind one door."""

    async def configure(self, settings: Mapping[str, Any]) -> Any:
        """Take the section `indusagi` of the settings, whole; what is invalid is left at its default.

        Returns:
            Nothing, or what was invalid, as sentences or notices, which are shown to the user.
        """
        ...

    async def open_folder(self, uri: str, name: str, trusted: bool) -> Any:
        """Open a host for a folder."""
        ...

    async def close_folder(self, uri: str) -> Any:
        """Close the host of a folder."""
        ...

    async def call(self, operation: Operation, params: Any) -> Any:
        """Do one operation: `params` is an `operation.params`, the result an `operation.result`.

        Raises:
            IndusagiError: with words for people.
        """
        ...

    async def shutdown(self) -> Any:
        """End all runs and close everything."""
        ...


HostsFactory: TypeAlias = Callable[[Outlet], Hosts | Awaitable[Hosts]]


async def default_hosts(outlet: Outlet, **options: Any) -> Hosts:
    """The product's own hosts. Their import takes long, so it runs beside the event loop.

    Args:
        outlet: where their words go.
        **options: as `create_hosts` takes them.
    """
    create = await asyncio.to_thread(_load)
    return create(outlet, **options)


def _load() -> Callable[..., Hosts]:
    from indusagi_lsp.workspace.hosts import create_hosts

    return create_hosts

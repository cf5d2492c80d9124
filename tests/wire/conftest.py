from __future__ import annotations

import contextlib

import pytest

from wire.wire_client import WireClient


@pytest.fixture
async def start():
    """Start servers that are gone when the test is."""
    clients: list[WireClient] = []

    async def starter(*args, **env) -> WireClient:
        clients.append(await WireClient.start(*args, **env))
        return clients[-1]

    yield starter
    for client in clients:
        with contextlib.suppress(ProcessLookupError):
            client.process.kill()
        with contextlib.suppress(OSError):
            client.process.stdin.close()
        await client.process.communicate()


@pytest.fixture
async def wire(start) -> WireClient:
    return await start()

"""`Models` on a test's own clock, against fake providers."""

from __future__ import annotations

import contextlib

from indusagi_lsp.contract.models import ModelRequest
from indusagi_lsp.contract.turns import user
from indusagi_lsp.models import ModelsConfig, ProviderConfig, create_models

KEY = "sk-test-0123456789abcdefghij"


class FakeClock:
    """A clock that the test moves."""

    def __init__(self) -> None:
        self.seconds = 1_000.0

    def now_ms(self) -> int:
        return 1_800_000_000_000 + int(self.seconds * 1000)

    def monotonic(self) -> float:
        return self.seconds


class Bench:
    """`Models` against a fake provider, with a clock and a sleep of the test's own."""

    def __init__(self, cache_dir) -> None:
        self.clock = FakeClock()
        self.slept: list[float] = []
        self.cache_dir = cache_dir
        self.made = []

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.clock.seconds += seconds

    def models(self, server=None, *, kind=None, environ=None, key=KEY, idle=5.0, retry=None, **config):
        name = {"openai": "fake", None: "fake"}.get(server.wire if server else None, server and server.wire)
        providers = {}
        if server is not None:
            providers[name] = ProviderConfig(kind=kind, base_url=server.base_url, api_key=key, **config)
        models = create_models(
            ModelsConfig(providers=providers),
            environ=environ or {},
            cache_dir=self.cache_dir,
            clock=self.clock,
            sleep=self.sleep,
            retry=retry,
            luck=lambda: 0.5,
            idle_seconds=idle,
        )
        self.made.append(models)
        return models


def ask(model: str = "fake:m", text: str = "hi", **fields) -> ModelRequest:
    return ModelRequest(model, fields.pop("turns", (user(text),)), **fields)


async def collect(stream, into=None):
    """All parts of a stream; those before an error are in `into`."""
    parts = into if into is not None else []
    async with contextlib.aclosing(stream):
        async for part in stream:
            parts.append(part)
    return parts

"""`Models`: the one door to every model, with the retry policy, the circuit breakers and the catalogue."""

from __future__ import annotations

import asyncio
import contextlib
import random
from contextlib import aclosing
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Protocol

from indusagi_lsp.contract.clock import Clock, SystemClock
from indusagi_lsp.contract.errors import ModelError
from indusagi_lsp.contract.models import ModelCard, ModelCatalogue, ModelDone, ModelPart, ModelRequest, ModelRetry
from indusagi_lsp.models import config as settings
from indusagi_lsp.models import local, prices, probe, scripted
from indusagi_lsp.models.breaker import CircuitBreaker
from indusagi_lsp.models.config import LOCAL, SCRIPT_VARIABLE, SCRIPTED, ModelsConfig, Provider
from indusagi_lsp.models.retry import RetryPolicy

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping

    from indusagi_lsp.models.client import ProviderClient

IDLE_SECONDS = 120.0
_CLOSE_SECONDS = 2.0
_NAMING_HINT = "Name a model as provider:name, for instance anthropic:claude-sonnet-5-5, ollama:qwen3 or local:smollm2."


class ModelSource(ModelCatalogue, Protocol):
    """What a host needs of the models, wherever their answers come from."""

    @property
    def problems(self) -> tuple[str, ...]:
        """What is wrong with the user's settings, in words."""
        ...

    def invoke(self, request: ModelRequest, /) -> AsyncIterator[ModelPart]:
        """Call a model."""
        ...

    def default(self) -> str:
        """The model to use where none is named."""
        ...

    async def list(self) -> list[Listed]:
        """The models that can be named."""
        ...

    async def look_up(self, model: str) -> ModelCard:
        """What `card` says, without stopping the event loop."""
        ...

    async def close(self) -> None:
        """End all calls."""
        ...


class Listed(NamedTuple):
    """A model in a list: `note` says why it cannot be called, or what is special about it."""

    card: ModelCard
    available: bool
    note: str


def create_models(
    config: ModelsConfig | None = None,
    *,
    environ: Mapping[str, str],
    cache_dir: Path,
    clock: Clock | None = None,
    retry: RetryPolicy | None = None,
    idle_seconds: float = IDLE_SECONDS,
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    luck: Callable[[], float] = random.random,
    local_model: local.LocalModel | None = None,
) -> Models:
    """Make the door to the models. Imports nothing heavy and connects nowhere.

    Args:
        config: the user's settings, never a workspace's.
        environ: the user's environment: keys, addresses, and the script of a scripted model.
        cache_dir: a folder of the user's for what can be made again.
        clock: the time.
        retry: how patient to be.
        idle_seconds: silence after which a stream is ended.
        sleep: waits between two calls.
        luck: a random number in [0, 1), for jitter.
        local_model: the bundled model.
    """
    clock = clock or SystemClock()
    return Models(
        config or ModelsConfig(),
        environ=environ,
        clock=clock,
        retry=retry or RetryPolicy(),
        idle_seconds=idle_seconds,
        sleep=sleep,
        luck=luck,
        local_model=local_model or local.LocalModel(clock=clock, cache_dir=cache_dir),
    )


class Models:
    """The models that can be used here. Make it with `create_models`.

    Attributes:
        problems: what is wrong with the user's settings, in words.
    """

    def __init__(
        self,
        config: ModelsConfig,
        *,
        environ: Mapping[str, str],
        clock: Clock,
        retry: RetryPolicy,
        idle_seconds: float,
        sleep: Callable[[float], Awaitable[None]],
        luck: Callable[[], float],
        local_model: local.LocalModel,
    ) -> None:
        self._default = config.default
        self._providers, self.problems = settings.resolve_providers(config, environ)
        self._clock = clock
        self._retry = retry
        self._idle = idle_seconds
        self._sleep = sleep
        self._luck = luck
        self._local = local_model
        self._script_file = environ.get(SCRIPT_VARIABLE, "")
        self._script: scripted.Script | None = None
        self._player: scripted.Player | None = None
        self._clients: dict[str, ProviderClient] = {}
        self._breakers: dict[str, CircuitBreaker] = {}
        self._opening = asyncio.Lock()
        self._closed = False

    def invoke(self, request: ModelRequest, /) -> AsyncIterator[ModelPart]:
        """Call a model; this is a `ModelInvoker`.

        Yields:
            `ModelRetry` for each call that failed before anything was shown, deltas, and `ModelDone` at the
            end.

        Raises:
            ModelError: with what was streamed before it left standing.
        """
        return self._invoke(request)

    def card(self, model: str, /) -> ModelCard:
        """What is known of `model`.

        Raises:
            ModelError: there is no such provider, or no model was named.
        """
        provider, name = self._split(model)
        if provider == LOCAL:
            return local.CARD
        if provider == SCRIPTED:
            return self._scripted_card()
        found = self._providers[provider]
        return ModelCard(
            id=model,
            provider=provider,
            name=name,
            window=found.window or prices.window(found, name),
            tools=found.tools,
            images=found.images,
            local=found.loopback,
        )

    def default(self) -> str:
        """The model to use where none is named: the configured one, one whose key is set, or the bundled."""
        if self._default:
            return self._default
        if self._script_file:
            return f"{SCRIPTED}:{self._script_file}"
        for name in settings.KNOWN:
            provider = self._providers[name]
            if provider.key and not provider.missing and provider.models:
                return f"{name}:{provider.models[0]}"
        return local.ID

    async def list(self) -> list[Listed]:
        """The models that can be named, the usable ones first. Asks servers on this machine what they have.

        Never raises: what cannot be asked is left out, or listed as not available with the reason.
        """
        await asyncio.to_thread(prices.load)
        absence = await asyncio.to_thread(self._local.absence)
        served = await asyncio.gather(
            *(asyncio.to_thread(self._offered, provider) for provider in self._providers.values())
        )
        listed: list[Listed] = [Listed(local.CARD, not absence, absence or local.CARD.note)]
        if self._script_file:
            card = self._scripted_card()
            listed.append(Listed(card, available=True, note=card.note))
        for provider, (names, note) in zip(self._providers.values(), served, strict=True):
            listed.extend(
                Listed(self.card(f"{provider.name}:{name}"), not note, note) for name in names if name.strip()
            )
        return sorted(listed, key=lambda entry: not entry.available)

    async def look_up(self, model: str) -> ModelCard:
        """What `card` says, with the table of windows imported in a thread first: that would stop the event loop.

        Raises:
            ModelError: there is no such provider, or no model was named.
        """
        if model.partition(":")[0] in self._providers:
            await asyncio.to_thread(prices.load)
        return self.card(model)

    async def close(self) -> None:
        """End all connections and the bundled model's process, within two seconds."""
        self._closed = True
        clients = list(self._clients.values())
        self._clients.clear()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_CLOSE_SECONDS):
                await asyncio.gather(self._local.close(), *(client.close() for client in clients))

    async def _invoke(self, request: ModelRequest) -> AsyncGenerator[ModelPart, None]:
        provider = self._callable(request.model)
        breaker = self._breakers.setdefault(provider, CircuitBreaker(self._label(provider), self._clock))
        attempt = 0
        last: ModelError | None = None
        while True:
            attempt += 1
            if last is not None and breaker.open:
                raise last
            breaker.admit()
            visible = False
            settled = False
            try:
                async with aclosing(self._attempt(provider, request)) as parts:
                    async for part in parts:
                        visible = True
                        if isinstance(part, ModelDone):
                            # Told before it is handed on: who has the end of an answer asks for nothing more.
                            settled = True
                            breaker.succeeded()
                        yield part
                return
            except ModelError as error:
                settled = _settle(breaker, error)
                last = error
                delay = None if visible else self._retry.delay(error, attempt, self._luck())
                if delay is None:
                    raise
            finally:
                if not settled:
                    breaker.dropped()
            yield ModelRetry(attempt, delay, last.message)
            await self._sleep(delay)

    async def _attempt(self, provider: str, request: ModelRequest) -> AsyncGenerator[ModelPart, None]:
        if provider == SCRIPTED:
            player = await self._scripted_player()
            stream = scripted.play(player.next(request), request)
        elif provider == LOCAL:
            stream = self._local.stream(request)
        else:
            _, name = self._split(request.model)
            client = await self._client(self._providers[provider], name)
            stream = client.stream(request, self.card(request.model))
        async with aclosing(stream) as parts:
            async for part in parts:
                yield part

    def _split(self, model: str) -> tuple[str, str]:
        provider, colon, name = model.partition(":")
        if not colon or not name.strip():
            message = f"{model!r} names no model."
            raise ModelError(message, hint=_NAMING_HINT)
        if provider == LOCAL and name != local.NAME:
            message = f"There is no bundled model {name!r}."
            raise ModelError(message, hint=f"The bundled model is {local.ID}.")
        if provider == SCRIPTED and (not self._script_file or name != self._script_file):
            message = f"There is no scripted model {name!r}."
            raise ModelError(message, hint=f"Set the environment variable {SCRIPT_VARIABLE} to its file.")
        if provider not in (LOCAL, SCRIPTED) and provider not in self._providers:
            known = ", ".join([LOCAL, *self._providers])
            message = f"There is no model provider {provider!r}; there are {known}."
            raise ModelError(message, hint=_NAMING_HINT)
        return provider, name

    def _callable(self, model: str) -> str:
        if self._closed:
            raise ModelError("The server is shutting down.")
        name, _ = self._split(model)
        provider = self._providers.get(name)
        if provider is not None and provider.missing:
            message = f"{provider.label} cannot be called: {provider.missing}"
            raise ModelError(message, hint=f"Or use another model, for instance {local.ID}.")
        return name

    def _label(self, provider: str) -> str:
        return self._providers[provider].label if provider in self._providers else f"The {provider} model"

    async def _client(self, provider: Provider, model: str) -> ProviderClient:
        async with self._opening:
            client = self._clients.get(provider.name)
            if client is None or not client.ready(model):
                client = await asyncio.to_thread(self._open, client, provider, model)
                self._clients[provider.name] = client
            return client

    def _open(self, client: ProviderClient | None, provider: Provider, model: str) -> ProviderClient:
        prices.load()
        from indusagi_lsp.models.client import ProviderClient

        client = client or ProviderClient(provider, clock=self._clock, idle=self._idle)
        client.open(model)
        return client

    async def _scripted_player(self) -> scripted.Player:
        async with self._opening:
            if self._player is None:
                self._script = await asyncio.to_thread(scripted.read_script, Path(self._script_file))
                self._player = scripted.Player(self._script.replies, loop=self._script.loop)
            return self._player

    def _scripted_card(self) -> ModelCard:
        script = self._script or scripted.Script()
        return ModelCard(
            id=f"{SCRIPTED}:{self._script_file}",
            provider=SCRIPTED,
            name=Path(self._script_file).name,
            window=script.window,
            tools=script.tools,
            local=True,
            note="says what its script tells it to",
        )

    def _offered(self, provider: Provider) -> tuple[tuple[str, ...], str]:
        """The names to list for a provider, and why they cannot be called. Blocks."""
        if provider.missing:
            return provider.models, provider.missing
        if provider.kind in ("anthropic", "openai", "google"):
            return provider.models, ""
        served = probe.list_models(provider)
        if served is None:
            return provider.models, f"{provider.label} does not answer at {provider.base_url}."
        return tuple(dict.fromkeys([*provider.models, *served])), ""


def _settle(breaker: CircuitBreaker, error: ModelError) -> bool:
    """Tell the circuit breaker what a failed call says about the provider; whether it says anything."""
    if error.outage:
        breaker.failed()
    elif error.status is not None:
        breaker.succeeded()
    else:
        return False
    return True

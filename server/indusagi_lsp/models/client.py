"""Calls one provider through the model library, once per call: no retries here.

This module imports the model library, so it is itself imported late, in a thread; `ProviderClient` is made
there too, since it reads certificates from disk.
"""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any

import httpx2
from pydantic_ai.direct import model_request_stream
from pydantic_ai.messages import (
    PartDeltaEvent,
    PartStartEvent,
    TextPart,
    TextPartDelta,
    ThinkingPart,
    ThinkingPartDelta,
    ToolCallPart,
    ToolCallPartDelta,
)
from pydantic_ai.models import Model, ModelRequestParameters, StreamedResponse
from pydantic_ai.tools import ToolDefinition

from indusagi_lsp import __version__
from indusagi_lsp.contract import jsontext
from indusagi_lsp.contract.models import (
    ModelCard,
    ModelDone,
    ModelPart,
    ModelRequest,
    StopReason,
    TextDelta,
    ThinkingDelta,
    ToolCallDelta,
    Usage,
)
from indusagi_lsp.models import faults, prices
from indusagi_lsp.models.messages import from_response, to_messages

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Iterator

    from pydantic_ai.settings import ModelSettings

    from indusagi_lsp.contract.clock import Clock
    from indusagi_lsp.models.config import Provider

CONNECT_SECONDS = 10.0
_USER_AGENT = f"indusagi-lsp/{__version__}"
MAX_RESPONSE_BYTES = 64 * 1024 * 1024
_QUIET_FACTOR = 5
"""A stream that only keeps itself alive (pings, no events) may take this many times the idle limit."""
_DEFAULT_MAX_TOKENS = 16_384
"""Asked for where a provider insists on a number: its own default would crowd the prompt out."""
_STOPS: dict[str | None, StopReason] = {
    "stop": "stop",
    "length": "length",
    "content_filter": "filtered",
    "tool_call": "tool_calls",
    "error": "stop",
}


class ProviderClient:
    """One provider's connection.

    Args:
        provider: whom to call, with address and key.
        clock: the time, to read dates in headers and to date prices.
        idle: seconds of silence after which a stream is ended.
        socket: path of a Unix socket to call instead of the network.
        extra_body: fields added to each request, for servers that take more than the common ones.
    """

    def __init__(
        self,
        provider: Provider,
        *,
        clock: Clock,
        idle: float,
        socket: str | None = None,
        extra_body: dict[str, Any] | None = None,
    ) -> None:
        self._provider = provider
        self._clock = clock
        self._idle = idle
        self._extra_body = extra_body
        self._timeout = httpx2.Timeout(idle, connect=CONNECT_SECONDS, pool=CONNECT_SECONDS)
        self._http = httpx2.AsyncClient(
            timeout=self._timeout,
            transport=httpx2.AsyncHTTPTransport(uds=socket) if socket else None,
            headers={"User-Agent": _USER_AGENT},
            trust_env=not provider.loopback and socket is None,
            follow_redirects=False,  # a key is not carried to an address that the user did not name
            event_hooks={"response": [_cap_response]},
        )
        self._models: dict[str, Model] = {}

    def open(self, name: str) -> None:
        """Make ready to call the model `name`. Takes a tenth of a second: call it in a thread."""
        if name not in self._models:
            self._models[name] = _make_model(self._provider, name, self._http)

    def ready(self, name: str) -> bool:
        """Whether the model `name` was opened."""
        return name in self._models

    async def close(self) -> None:
        """Close the connections; streams that still run end with an error."""
        await self._http.aclose()

    async def stream(self, request: ModelRequest, card: ModelCard) -> AsyncGenerator[ModelPart, None]:
        """Call the model once.

        Args:
            request: what to ask.
            card: the model's card; its `name` is what the provider is asked for.

        Yields:
            Deltas as they come, and `ModelDone` at the end.

        Raises:
            ModelError: with what was streamed before it left standing.
        """
        response: StreamedResponse | None = None
        try:
            messages = to_messages(request, provider=self._provider_name, images=card.images, tools=card.tools)
            opened = model_request_stream(
                self._model(card.name),
                messages,
                model_settings=self._settings(request, card),
                model_request_parameters=_parameters(request, card),
                instrument=False,
            )
            async with AsyncExitStack() as stack:
                # The library already waits for the first event here.
                async with asyncio.timeout(self._idle * _QUIET_FACTOR):
                    response = await stack.enter_async_context(opened)
                async for part in self._parts(response):
                    yield part
        except TimeoutError:
            raise faults.too_quiet(self._provider, self._idle * _QUIET_FACTOR) from None
        except Exception as error:  # noqa: BLE001 (whatever a library throws at us must end as words, not as a traceback)
            if response is None or not _finished(response):
                raise faults.fault(error, self._provider, card.name, now_ms=self._clock.now_ms()) from None
        yield self._done(response, card)

    @property
    def _provider_name(self) -> str:
        """The name under which the library files what only this provider understands."""
        named = self._provider.kind in ("ollama", "openai-compatible")
        return self._provider.name if named else self._provider.kind

    async def _parts(self, response: StreamedResponse) -> AsyncIterator[ModelPart]:
        events = aiter(response)
        calls: dict[int, tuple[int, str, str]] = {}
        while True:
            try:
                async with asyncio.timeout(self._idle * _QUIET_FACTOR):
                    event = await anext(events)
            except StopAsyncIteration:
                return
            for part in _deltas(event, calls):
                yield part

    def _done(self, response: StreamedResponse | None, card: ModelCard) -> ModelDone:
        if response is None:
            raise faults.no_answer(self._provider)
        final = response.get()
        if not _finished(response):
            raise faults.broken_off(self._provider) if final.parts else faults.no_answer(self._provider)
        turn = from_response(final)
        stop: StopReason = "tool_calls" if turn.tool_calls else _STOPS.get(response.finish_reason, "stop")
        if response.finish_reason == "length":
            stop = "length"
        usage = response.usage
        if not usage.input_tokens and not usage.output_tokens:
            return ModelDone(turn, stop)
        counted = Usage(usage.input_tokens, usage.output_tokens, usage.cache_read_tokens, usage.cache_write_tokens)
        cost = prices.cost(self._provider, card.name, counted, now_ms=self._clock.now_ms())
        return ModelDone(
            turn, stop, Usage(counted.input, counted.output, counted.cache_read, counted.cache_write, cost)
        )

    def _settings(self, request: ModelRequest, card: ModelCard) -> ModelSettings:
        settings: dict[str, Any] = {"timeout": self._timeout, "max_retries": 0}
        if self._provider.kind == "google":
            settings["timeout"] = self._idle  # its client takes one number only
        else:
            settings["extra_headers"] = {"User-Agent": _USER_AGENT}
        if self._extra_body:
            settings["extra_body"] = self._extra_body
        limit = request.max_output_tokens
        if limit is None and self._provider.kind == "anthropic":
            limit = min(card.max_output or _DEFAULT_MAX_TOKENS, _DEFAULT_MAX_TOKENS)
        if limit is not None:
            settings["max_tokens"] = limit
        if request.thinking:
            settings["thinking"] = True
        if self._provider.kind == "anthropic":
            settings["anthropic_cache_instructions"] = True
            settings["anthropic_cache_messages"] = True
        return settings  # type: ignore[return-value]  # a TypedDict whose keys depend on the provider

    def _model(self, name: str) -> Model:
        self.open(name)
        return self._models[name]


def _make_model(provider: Provider, name: str, http: httpx2.AsyncClient) -> Model:
    if provider.kind == "anthropic":
        from pydantic_ai.models.anthropic import AnthropicModel
        from pydantic_ai.providers.anthropic import AnthropicProvider

        anthropic = AnthropicProvider(api_key=provider.key, base_url=provider.base_url, http_client=http)
        return AnthropicModel(name, provider=anthropic)
    if provider.kind == "google":
        from pydantic_ai.models.google import GoogleModel
        from pydantic_ai.providers.google import GoogleProvider

        google = GoogleProvider(api_key=provider.key, base_url=provider.base_url, http_client=http)
        return GoogleModel(name, provider=google)

    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.providers.openai import OpenAIProvider
    from pydantic_ai.providers.openai_compatible import OpenAICompatibleProvider

    if provider.kind == "openai":
        openai = OpenAIProvider(base_url=provider.base_url, api_key=provider.key, http_client=http)
        return OpenAIChatModel(name, provider=openai)
    # The client wants some key; a server without one ignores it.
    compatible = OpenAICompatibleProvider(
        provider.name, base_url=provider.base_url, api_key=provider.key or "none", http_client=http
    )
    return OpenAIChatModel(name, provider=compatible)


def load_openai() -> None:
    """Import what a server that speaks OpenAI's format needs. Takes a second: call it in a thread."""
    import pydantic_ai.models.openai
    import pydantic_ai.providers.openai_compatible  # noqa: F401 (imported for its effect)


def _parameters(request: ModelRequest, card: ModelCard) -> ModelRequestParameters:
    tools = request.tools if card.tools else ()
    return ModelRequestParameters(
        function_tools=[
            ToolDefinition(
                name=tool.name,
                description=tool.description,
                parameters_json_schema=dict(tool.input_schema),
                # Strict mode rewrites the schema: optional fields become required. The dispatcher checks
                # arguments.
                strict=False,
            )
            for tool in tools
        ],
        allow_text_output=True,
    )


def _deltas(event: object, calls: dict[int, tuple[int, str, str]]) -> Iterator[ModelPart]:
    """What an event of the library adds to the answer; unknown events add nothing."""
    if isinstance(event, PartStartEvent):
        yield from _started(event.index, event.part, calls)
    elif isinstance(event, PartDeltaEvent):
        yield from _continued(event.index, event.delta, calls)


def _started(index: int, part: object, calls: dict[int, tuple[int, str, str]]) -> Iterator[ModelPart]:
    if isinstance(part, TextPart):
        if part.content:
            yield TextDelta(part.content)
    elif isinstance(part, ThinkingPart):
        if part.content:
            yield ThinkingDelta(part.content)
    elif isinstance(part, ToolCallPart):
        calls[index] = (len(calls), part.tool_call_id, part.tool_name)
        yield ToolCallDelta(*calls[index], _fragment(part.args))


def _continued(index: int, delta: object, calls: dict[int, tuple[int, str, str]]) -> Iterator[ModelPart]:
    if isinstance(delta, TextPartDelta):
        if delta.content_delta:
            yield TextDelta(delta.content_delta)
    elif isinstance(delta, ThinkingPartDelta):
        if delta.content_delta:
            yield ThinkingDelta(delta.content_delta)
    elif isinstance(delta, ToolCallPartDelta) and index in calls and delta.args_delta:
        yield ToolCallDelta(*calls[index], _fragment(delta.args_delta))


def _finished(response: StreamedResponse) -> bool:
    """Whether the provider itself said that the answer is complete: the library assumes it of any stream."""
    details = response.provider_details or {}
    return "finish_reason" in details or "refusal" in details


def _fragment(arguments: object) -> str:
    if arguments is None or isinstance(arguments, str):
        return arguments or ""
    return jsontext.dumps(arguments).decode()


class _Capped(httpx2.AsyncByteStream):
    """A response's bytes, up to a limit: a body without end must not fill the memory."""

    def __init__(self, inner: httpx2.AsyncByteStream) -> None:
        self._inner = inner

    async def __aiter__(self) -> AsyncIterator[bytes]:
        received = 0
        async for chunk in self._inner:
            received += len(chunk)
            if received > MAX_RESPONSE_BYTES:
                message = f"the answer is larger than {MAX_RESPONSE_BYTES // 1024 // 1024} MiB"
                raise httpx2.ReadError(message)
            yield chunk

    async def aclose(self) -> None:
        await self._inner.aclose()


async def _cap_response(response: httpx2.Response) -> None:
    if isinstance(response.stream, httpx2.AsyncByteStream):
        response.stream = _Capped(response.stream)

"""OpenTelemetry behind the seam `contract.tracing`: imported only where the user wants spans, and off otherwise.

Where spans go is said by the user's own environment (`OTEL_EXPORTER_OTLP_ENDPOINT` and its like) or defaults to a
collector on this machine. A workspace and an editor's settings can neither switch it on nor redirect it.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING

from indusagi_lsp import __version__
from indusagi_lsp.contract.errors import IndusagiError
from indusagi_lsp.contract.tracing import Fact, Span

if TYPE_CHECKING:
    from opentelemetry import trace
    from opentelemetry.sdk.trace import TracerProvider

_ENDPOINTS = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
_PACKAGES = ("opentelemetry.sdk", "opentelemetry.exporter.otlp.proto.http")


def wanted(setting: bool | None, environ: Mapping[str, str]) -> bool:
    """Whether spans are wanted: by `telemetry` of the user's `config.toml`, else by the standard variables.

    Args:
        setting: the user's; None where nothing is set. False holds against the environment.
        environ: the user's environment; `OTEL_SDK_DISABLED` and `OTEL_TRACES_EXPORTER=none` hold against the setting.
    """
    exporter = environ.get("OTEL_TRACES_EXPORTER", "").strip().lower()
    if setting is False or environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true" or exporter == "none":
        return False
    return bool(setting) or exporter == "otlp" or any(environ.get(name, "").strip() for name in _ENDPOINTS)


def installed() -> bool:
    """Whether the extra `otel` is there. Imports at most a namespace."""
    try:
        return all(importlib.util.find_spec(name) is not None for name in _PACKAGES)
    except ModuleNotFoundError:
        return False


def open_tracer() -> OtelTracer:
    """A tracer that sends to the collector which the environment names. Takes half a second: call it in a thread."""
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    resource = Resource.create()
    if str(resource.attributes.get("service.name", "")).startswith("unknown_service"):
        resource = resource.merge(Resource({"service.name": "indusagi-lsp"}))
    resource = resource.merge(Resource({"service.version": __version__}))
    provider = TracerProvider(resource=resource, shutdown_on_exit=False)
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    return OtelTracer(provider)


class OtelTracer:
    """A `contract.tracing.Tracer` on a provider of its own; the process's global one is left alone.

    Args:
        provider: takes the spans.
    """

    def __init__(self, provider: TracerProvider) -> None:
        self._provider = provider
        self._tracer = provider.get_tracer("indusagi_lsp", __version__)

    def span(self, name: str, facts: Mapping[str, Fact]) -> AbstractContextManager[Span]:
        """A span under which others begin."""
        return self._span(name, facts)

    @contextmanager
    def _span(self, name: str, facts: Mapping[str, Fact]) -> Iterator[Span]:
        from opentelemetry import trace

        with self.leaf(name, facts) as span, trace.use_span(span.otel, record_exception=False):
            yield span

    @contextmanager
    def leaf(self, name: str, facts: Mapping[str, Fact]) -> Iterator[OtelSpan]:
        """A span without children."""
        # The library's own handling of exceptions would write their messages down, and those may quote anything.
        span = OtelSpan(self._tracer.start_span(name, attributes=facts, record_exception=False))
        try:
            yield span
        except BaseException as error:
            if not isinstance(error, GeneratorExit):
                span.fail(error.kind if isinstance(error, IndusagiError) else type(error).__name__)
            raise
        finally:
            span.otel.end()

    def close(self) -> None:
        """Send what is left. Blocks, for as long as the collector takes to answer."""
        self._provider.shutdown()


class OtelSpan:
    """A `contract.tracing.Span`; `otel` is the library's."""

    def __init__(self, otel: trace.Span) -> None:
        self.otel = otel

    def note(self, facts: Mapping[str, Fact]) -> None:
        """Add what is known by now."""
        self.otel.set_attributes(facts)

    def fail(self, kind: str) -> None:
        """Mark it as failed by `kind`."""
        from opentelemetry.trace import StatusCode

        self.otel.set_attribute("error.type", kind)
        self.otel.set_status(StatusCode.ERROR)

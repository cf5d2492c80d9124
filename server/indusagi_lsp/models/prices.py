"""Prices and windows, from a maintained table. What it does not know stays unknown, and is never 0.

The table takes a third of a second to import: `load` does it in a thread, before anything else here is used
on the event loop.
"""

from __future__ import annotations

import contextlib
import datetime as dt
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from indusagi_lsp.contract.models import Usage
    from indusagi_lsp.models.config import Provider


def load() -> None:
    """Import the table and build it. Call it in a thread."""
    import genai_prices  # noqa: F401 (imported for its effect)
    from genai_prices.data_snapshot import get_snapshot

    get_snapshot()


def window(provider: Provider, model: str) -> int | None:
    """How many tokens `model` takes, None where unknown."""
    if provider.kind == "ollama":
        return None
    from genai_prices.data_snapshot import get_snapshot

    with contextlib.suppress(LookupError):
        _, found = get_snapshot().find_provider_model(model, None, **_reference(provider))
        return found.context_window
    return None


def cost(provider: Provider, model: str, usage: Usage, *, now_ms: int) -> float | None:
    """What a call cost.

    Args:
        provider: who was called. A provider of the user's own is recognised by its address, if at all.
        model: the model's name there.
        usage: the tokens.
        now_ms: when, in milliseconds since the epoch: prices change.

    Returns:
        US dollars; None where the price is unknown.
    """
    if provider.kind == "ollama":
        return None
    import genai_prices

    tokens = genai_prices.Usage(
        input_tokens=usage.input,
        output_tokens=usage.output,
        cache_read_tokens=usage.cache_read,
        cache_write_tokens=usage.cache_write,
    )
    moment = dt.datetime.fromtimestamp(now_ms / 1000, tz=dt.UTC)
    with contextlib.suppress(LookupError, ValueError):
        price = genai_prices.calc_price(
            tokens, model, genai_request_timestamp=moment, **_reference(provider, call=True)
        )
        return float(price.total_price)
    return None


def _reference(provider: Provider, *, call: bool = False) -> dict[str, Any]:
    known = provider.kind != "openai-compatible"
    if call:
        return {"provider_id": provider.kind} if known else {"provider_api_url": provider.base_url}
    return {
        "provider_id": provider.kind if known else None,
        "provider_api_url": None if known else provider.base_url,
    }

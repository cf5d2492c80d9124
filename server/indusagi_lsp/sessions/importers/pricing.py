"""What an answer cost where its source does not say: from the price list that is installed."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from indusagi_lsp.contract.models import Usage


def priced(usage: Usage, model: str, provider: str, at: int) -> Usage:
    """The usage with its cost.

    Args:
        usage: tokens, and a cost if the source knew it.
        model: the model's name with its provider.
        provider: the provider, empty if unknown.
        at: when, in milliseconds since the epoch; prices change.

    Returns:
        The usage itself where the cost is known already, or where the list does not know the model.
    """
    if usage.cost is not None or not model:
        return usage

    # The list takes half a second to load.
    from genai_prices import Usage as Counted
    from genai_prices import calc_price

    counted = Counted(
        input_tokens=usage.input,
        output_tokens=usage.output,
        cache_read_tokens=usage.cache_read,
        cache_write_tokens=usage.cache_write,
    )
    when = datetime.fromtimestamp(at / 1000, UTC) if 0 < at < 4_000_000_000_000 else None
    for name in (provider or None, None):
        try:
            price = calc_price(counted, model, provider_id=name, genai_request_timestamp=when)
        except (LookupError, ValueError):
            continue

        return msgspec.structs.replace(usage, cost=float(price.total_price))

    return usage

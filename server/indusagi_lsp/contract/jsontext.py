"""JSON in and out, for data that may hold what a strict encoder refuses.

orjson is the fast path. It refuses lone surrogates and integers beyond 64 bits, both of which occur in real
transcripts; those texts take the standard library's way.
"""

from __future__ import annotations

import json
from typing import Any

import orjson


def loads(text: bytes | str) -> Any:
    """Decode one JSON text.

    Args:
        text: the JSON, as UTF-8 bytes or as text.

    Returns:
        The decoded value. A lone surrogate escape becomes a lone surrogate; `NaN` and `Infinity` are refused.

    Raises:
        ValueError: the text is not JSON, or is nested deeper than the decoder can follow.
    """
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        pass
    if isinstance(text, bytes):
        text = text.decode("utf-8", errors="strict")
    try:
        return json.loads(text, parse_constant=_refuse_constant)
    except RecursionError:
        raise ValueError("JSON nested too deep") from None


def dumps(value: Any) -> bytes:
    """Encode `value` as compact UTF-8 JSON, object keys in their own order.

    Args:
        value: JSON data: dict with text keys, list, tuple, text, number, bool, None.

    Returns:
        One line of UTF-8 without white space. A text with a lone surrogate is escaped to ASCII, since UTF-8 has no
        bytes for it.

    Raises:
        ValueError: the value holds NaN or an infinity in a place where only the slow path could write it.
        TypeError: the value is not JSON data.
    """
    try:
        return orjson.dumps(value)
    except orjson.JSONEncodeError:
        return json.dumps(value, separators=(",", ":"), ensure_ascii=True, allow_nan=False).encode("ascii")


def _refuse_constant(name: str) -> Any:
    message = f"{name} is not JSON"
    raise ValueError(message)

r"""JSON text as JavaScript's `JSON.stringify` writes it: what node ids are hashes of (session format, "Node ids").

The rules that differ from a Python encoder's: non-ASCII raw, lone surrogates as `\udXXX`, numbers as a double prints
(`1.0` is `1`, `1e21` is `1e+21`, NaN is null), keys that are array indexes first and in ascending order.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

import orjson

_SAFE_INTEGER = 2**53
_ARRAY_INDEX_END = 2**32 - 1
_ESCAPE = json.encoder.py_encode_basestring


def canonical_json(value: Any) -> bytes:
    """The text of `value` as `JSON.stringify` would write it, in UTF-8.

    Args:
        value: JSON data; tuples count as arrays.

    Returns:
        One line without white space.

    Raises:
        TypeError: the value is not JSON data.
        ValueError: it is nested too deep.
    """
    if is_plain(value):
        try:
            return orjson.dumps(value)
        except orjson.JSONEncodeError:
            pass
    parts: list[str] = []
    try:
        _write(value, parts.append)
    except RecursionError:
        raise ValueError("JSON nested too deep") from None
    return "".join(parts).encode()


def is_plain(value: Any) -> bool:
    """Whether a fast encoder writes `value` as JavaScript would: no number or key with a rule of its own in it."""
    stack = [value]
    while stack:
        item = stack.pop()
        kind = type(item)
        if kind is str or kind is bool or item is None:
            continue

        if kind is int:
            if not -_SAFE_INTEGER <= item <= _SAFE_INTEGER:
                return False
        elif kind is dict:
            for key in item:
                if type(key) is not str or key[:1].isdigit():
                    return False
            stack.extend(item.values())
        elif kind is list or kind is tuple:
            stack.extend(item)
        else:
            return False
    return True


def is_lossless(value: Any) -> bool:
    """Whether the canonical text keeps every number of `value`: integers beyond 2**53 are rounded to a double by it."""
    stack = [value]
    while stack:
        item = stack.pop()
        kind = type(item)
        if kind is int:
            if not -_SAFE_INTEGER <= item <= _SAFE_INTEGER and _number(item) != str(item):
                return False
        elif kind is float:
            if not math.isfinite(item):
                return False
        elif isinstance(item, Mapping):
            stack.extend(item.values())
        elif isinstance(item, (list, tuple)):
            stack.extend(item)
    return True


def canonical_string(text: str) -> str:
    """A text as a JSON string: pairs of surrogates joined, lone ones escaped."""
    try:
        text.encode()
    except UnicodeEncodeError:
        joined = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")
        return "".join(f"\\u{ord(char):04x}" if "\ud800" <= char <= "\udfff" else char for char in _ESCAPE(joined))
    return _ESCAPE(text)


def _write(value: Any, put: Any) -> None:
    if isinstance(value, str):
        put(canonical_string(value))
    elif value is None:
        put("null")
    elif value is True:
        put("true")
    elif value is False:
        put("false")
    elif isinstance(value, (int, float)):
        put(_number(value))
    elif isinstance(value, Mapping):
        put("{")
        for count, key in enumerate(_ordered(value)):
            put("," + canonical_string(key) + ":" if count else canonical_string(key) + ":")
            _write(value[key], put)
        put("}")
    elif isinstance(value, (list, tuple)):
        put("[")
        for count, item in enumerate(value):
            if count:
                put(",")
            _write(item, put)
        put("]")
    else:
        message = f"{type(value).__name__} is not JSON data"
        raise TypeError(message)


def _ordered(value: Mapping[Any, Any]) -> list[str]:
    """The keys in JavaScript's order: array indexes ascending, then the others as they were put in."""
    indexes: list[str] = []
    others: list[str] = []
    for key in value:
        if not isinstance(key, str):
            raise TypeError("JSON keys must be text")
        (indexes if _is_index(key) else others).append(key)
    return sorted(indexes, key=int) + others


def _is_index(key: str) -> bool:
    if not (key.isascii() and key.isdigit() and len(key) <= 10):
        return False
    return (key == "0" or key[0] != "0") and int(key) < _ARRAY_INDEX_END


def _number(value: float) -> str:
    """A number as `Number.prototype.toString` writes it; what is not finite is null, as in JSON.stringify."""
    if isinstance(value, int) and -_SAFE_INTEGER <= value <= _SAFE_INTEGER:
        return str(int(value))
    try:
        double = float(value)
    except OverflowError:
        return "null"
    if not math.isfinite(double):
        return "null"
    if double == 0:
        return "0"

    mantissa, _, exponent = repr(abs(double)).partition("e")
    whole, _, fraction = mantissa.partition(".")
    if fraction == "0":
        fraction = ""
    digits = (whole + fraction).lstrip("0")
    # The decimal point stands before digit `point` of `digits`, as ECMAScript's algorithm has it.
    point = len(whole) + int(exponent or "0") - (len(whole + fraction) - len(digits))
    digits = digits.rstrip("0")
    sign = "-" if double < 0 else ""
    if len(digits) <= point <= 21:
        return sign + digits + "0" * (point - len(digits))
    if 0 < point <= 21:
        return sign + digits[:point] + "." + digits[point:]
    if -6 < point <= 0:
        return sign + "0." + "0" * -point + digits

    power = point - 1
    tail = "." + digits[1:] if len(digits) > 1 else ""
    return f"{sign}{digits[0]}{tail}e{'+' if power > 0 else '-'}{abs(power)}"

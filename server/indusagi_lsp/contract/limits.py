"""Bounds on what one block may hold."""

from __future__ import annotations

MAX_OUTPUT_BYTES = 64 * 1024
"""Tool output above this is cut before it becomes a block (session format, "Large things")."""


def cap_output(text: str, limit: int = MAX_OUTPUT_BYTES) -> str:
    """Cut a long text in its middle, by code point, keeping its head and tail.

    Args:
        text: any text.
        limit: bytes of UTF-8 that may stay.

    Returns:
        The text itself where it fits, else head, a line that says how much is missing, and tail.
    """
    if len(text) * 4 <= limit:
        return text
    data = text.encode("utf-8", "surrogatepass")
    if len(data) <= limit:
        return text
    half = limit // 2
    head = data[:half].decode("utf-8", "ignore")
    tail = data[-half:].decode("utf-8", "ignore")
    return f"{head}\n[… {len(data) - limit:,} bytes left out …]\n{tail}"

"""Where a text may be cut without tearing what a reader sees as one character."""

from __future__ import annotations

_LOOK_BACK = 64
"""Characters; longer clusters exist only to break programs, and are cut."""


def split_last(text: str) -> tuple[str, str]:
    """Split off the last grapheme cluster (UAX 29), which may still be growing.

    Args:
        text: any text.

    Returns:
        The text before it, and the cluster; both empty for an empty text. ASCII is never held back, but for a CR.
    """
    if not text or (text[-1].isascii() and text[-1] != "\r"):
        return text, ""
    import regex

    end = text[-_LOOK_BACK:]
    last = regex.findall(r"\X", end)[-1]
    return text[: len(text) - len(last)], last

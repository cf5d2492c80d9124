"""The shapes of well-known secrets, so that none of them is ever remembered.

This is a net for accidents, not a wall: the wall is that a person sees each text before the agent may keep it.
"""

from __future__ import annotations

import re

_SHAPES: tuple[tuple[str, re.Pattern[str]], ...] = (
    ("a private key", re.compile(r"-----BEGIN (?:[A-Z]+ )*PRIVATE KEY-----")),
    ("an API key", re.compile(r"\bsk-(?:ant-|proj-|or-)?[A-Za-z0-9_-]{20,}")),
    ("a GitHub token", re.compile(r"\b(?:gh[pousr]_[A-Za-z0-9]{36,}|github_pat_[A-Za-z0-9_]{40,})")),
    ("a GitLab token", re.compile(r"\bglpat-[A-Za-z0-9_-]{20,}")),
    ("an AWS access key", re.compile(r"\b(?:AKIA|ASIA)[A-Z0-9]{16}\b")),
    ("a Google API key", re.compile(r"\bAIza[A-Za-z0-9_-]{35}")),
    ("a Slack token", re.compile(r"\bxox[abeoprs]-[A-Za-z0-9-]{10,}")),
    ("a Stripe key", re.compile(r"\b[rs]k_(?:live|test)_[A-Za-z0-9]{16,}")),
    ("an npm token", re.compile(r"\bnpm_[A-Za-z0-9]{36}")),
    ("a JSON web token", re.compile(r"\beyJ[A-Za-z0-9_-]{10,}\.eyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,}")),
    ("a password in an address", re.compile(r"\b[a-z][a-z0-9+.-]*://[^\s:/@]+:[^\s:/@]{3,}@")),
)


# One look tells that there is nothing, which is nearly always so.
_ANY = re.compile("|".join(shape.pattern for _, shape in _SHAPES))


def find_secret(*texts: str) -> str | None:
    """Name the kind of the first secret in `texts`, or None."""
    for text in texts:
        if _ANY.search(text):
            return next(name for name, shape in _SHAPES if shape.search(text))
    return None


def redact(text: str) -> str:
    """The text with every known shape of a secret replaced by `[redacted]`."""
    for _, shape in _SHAPES:
        text = shape.sub("[redacted]", text)
    return text

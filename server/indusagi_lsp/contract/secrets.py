"""The shapes of well-known secrets: one table for all that is kept, be it a session, a checkpoint or a memory.

A strict shape is what nothing else has: a prefix that its issuer chose for being found, and the right length. It is for
history, where a guess by entropy or by the name of a variable would also take hashes, ids and examples. A loose shape
takes more than that: it is for what is kept by somebody's choice, and can be said in other words.

This is a net for accidents, not a wall: the wall is that a person sees each text before an agent may keep it.
"""

from __future__ import annotations

import re

_B = r"(?<![A-Za-z0-9_-])"
_E = r"(?![A-Za-z0-9_-])"
_STRICT: dict[str, str] = {
    "private key": r"-----BEGIN (?:[A-Z0-9]+ )*PRIVATE KEY(?: BLOCK)?-----(?:(?!-----)[\s\S]){16,20000}"
    r"-----END (?:[A-Z0-9]+ )*PRIVATE KEY(?: BLOCK)?-----",
    "aws key": rf"{_B}(?:AKIA|ASIA)[A-Z2-7]{{16}}{_E}",
    "github token": rf"{_B}(?:gh[pousr]_[A-Za-z0-9]{{36}}"
    rf"|github_pat_[A-Za-z0-9]{{22}}_[A-Za-z0-9]{{59}}){_E}",
    "gitlab token": rf"{_B}gl(?:pat|dt|rt|ptt|ft|soat)-[A-Za-z0-9_-]{{20,64}}{_E}",
    "anthropic key": rf"{_B}sk-ant-[a-z]+[0-9]{{2}}-[A-Za-z0-9_-]{{80,120}}{_E}",
    "openai key": rf"{_B}sk-(?:(?:proj|svcacct|admin)-[A-Za-z0-9_-]{{20,200}}|[A-Za-z0-9]{{20}})"
    rf"(?:T3BlbkFJ)[A-Za-z0-9_-]{{20,200}}{_E}",
    "google key": rf"{_B}AIza[A-Za-z0-9_-]{{35}}{_E}",
    "slack token": rf"{_B}xox[abeprs]-(?:[0-9]{{10,13}}-){{1,3}}[A-Za-z0-9-]{{20,64}}{_E}",
    "stripe key": rf"{_B}[rs]k_live_[A-Za-z0-9]{{24,99}}{_E}",
    "npm token": rf"{_B}npm_[A-Za-z0-9]{{36}}{_E}",
    "pypi token": rf"{_B}pypi-AgEIcHlwaS5vcmc[A-Za-z0-9_-]{{50,200}}{_E}",
    "huggingface token": rf"{_B}hf_[A-Za-z]{{34}}{_E}",
    "sendgrid key": rf"{_B}SG\.[A-Za-z0-9_-]{{22}}\.[A-Za-z0-9_-]{{43}}{_E}",
    "digitalocean token": rf"{_B}do[opr]_v1_[a-f0-9]{{64}}{_E}",
}
# One pass over the text looks only for what all of them begin with.
_HINT = re.compile(
    r"-----BEGIN |A[KS]IA|gh[pousr]_|github_pat_|gl[a-z]+-|sk-|AIza|xox|k_live_|npm_|pypi-|hf_|SG\.|_v1_"
)
_LOOSER: dict[str, str] = {
    "private key": rf"{_STRICT['private key']}|-----BEGIN (?:[A-Z0-9]+ )*PRIVATE KEY(?: BLOCK)?-----",
    "aws key": r"\b(?:AKIA|ASIA)[A-Z0-9]{16}\b",
    "github token": r"\b(?:gh[pousr]_[A-Za-z0-9]{36,}|github_pat_[A-Za-z0-9_]{40,})",
    "gitlab token": r"\bgl(?:pat|dt|rt|ptt|ft|soat)-[A-Za-z0-9_-]{20,}",
    "api key": r"\bsk-(?:ant-|proj-|or-)?[A-Za-z0-9_-]{20,}",
    "google key": r"\bAIza[A-Za-z0-9_-]{35}",
    "slack token": r"\bxox[abeoprs]-[A-Za-z0-9-]{10,}",
    "stripe key": r"\b[rs]k_(?:live|test)_[A-Za-z0-9]{16,}",
    "npm token": r"\bnpm_[A-Za-z0-9]{36}",
    "json web token": r"\beyJ[A-Za-z0-9_-]{10,}\.eyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,}",
    "password in an address": r"\b[a-z][a-z0-9+.-]*://[^\s:/@]+:[^\s:/@]{3,}@",
}
_LOOSE = {kind: re.compile(shape) for kind, shape in {**_STRICT, **_LOOSER}.items()}

# One look tells that there is nothing, which is nearly always so.
_ANY = re.compile("|".join(shape.pattern for shape in _LOOSE.values()))


def find_secret(*texts: str) -> str | None:
    """Name the kind of the first secret in `texts` that has a loose shape, or None."""
    for text in texts:
        if _ANY.search(text):
            return next(kind for kind, shape in _LOOSE.items() if shape.search(text))

    return None


def redact(text: str, *, loose: bool = False) -> str:
    """Replace secrets of known shapes.

    Args:
        text: any text.
        loose: take the loose shapes too.

    Returns:
        The text with each secret as `[redacted: kind]`; the same object where there is none.
    """
    if (_ANY if loose else _HINT).search(text) is None:
        return text

    for kind, shape in (_LOOSE if loose else _STRICT).items():
        text = re.sub(shape, f"[redacted: {kind}]", text)

    return text

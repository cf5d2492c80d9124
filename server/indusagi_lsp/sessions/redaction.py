"""Secrets of known shapes, taken out of what is stored, before it is hashed.

Only shapes that nothing else has: a prefix that its issuer chose for being found, and the right length. A
guess by entropy or by the name of a variable would also take hashes, ids and examples, which are part of the
history.
"""

from __future__ import annotations

import re
from typing import Any

import msgspec

from indusagi_lsp.contract.turns import Block, TextBlock, ThinkingBlock, ToolCallBlock, ToolResultBlock, Turn

_B = r"(?<![A-Za-z0-9_-])"
_E = r"(?![A-Za-z0-9_-])"
_SHAPES: dict[str, str] = {
    "private_key": r"-----BEGIN (?:[A-Z0-9]+ )*PRIVATE KEY(?: BLOCK)?-----(?:(?!-----)[\s\S]){16,20000}"
    r"-----END (?:[A-Z0-9]+ )*PRIVATE KEY(?: BLOCK)?-----",
    "aws_key": rf"{_B}(?:AKIA|ASIA)[A-Z2-7]{{16}}{_E}",
    "github_token": rf"{_B}(?:gh[pousr]_[A-Za-z0-9]{{36}}"
    rf"|github_pat_[A-Za-z0-9]{{22}}_[A-Za-z0-9]{{59}}){_E}",
    "gitlab_token": rf"{_B}gl(?:pat|dt|rt|ptt|ft|soat)-[A-Za-z0-9_-]{{20,64}}{_E}",
    "anthropic_key": rf"{_B}sk-ant-[a-z]+[0-9]{{2}}-[A-Za-z0-9_-]{{80,120}}{_E}",
    "openai_key": rf"{_B}sk-(?:(?:proj|svcacct|admin)-[A-Za-z0-9_-]{{20,200}}|[A-Za-z0-9]{{20}})"
    rf"(?:T3BlbkFJ)[A-Za-z0-9_-]{{20,200}}{_E}",
    "google_key": rf"{_B}AIza[A-Za-z0-9_-]{{35}}{_E}",
    "slack_token": rf"{_B}xox[abeprs]-(?:[0-9]{{10,13}}-){{1,3}}[A-Za-z0-9-]{{20,64}}{_E}",
    "stripe_key": rf"{_B}[rs]k_live_[A-Za-z0-9]{{24,99}}{_E}",
    "npm_token": rf"{_B}npm_[A-Za-z0-9]{{36}}{_E}",
    "pypi_token": rf"{_B}pypi-AgEIcHlwaS5vcmc[A-Za-z0-9_-]{{50,200}}{_E}",
    "huggingface_token": rf"{_B}hf_[A-Za-z]{{34}}{_E}",
    "sendgrid_key": rf"{_B}SG\.[A-Za-z0-9_-]{{22}}\.[A-Za-z0-9_-]{{43}}{_E}",
    "digitalocean_token": rf"{_B}do[opr]_v1_[a-f0-9]{{64}}{_E}",
}
# One pass over the text looks only for what all of them begin with.
_HINT = re.compile(
    r"-----BEGIN |A[KS]IA|gh[pousr]_|github_pat_|gl[a-z]+-|sk-|AIza|xox|k_live_|npm_|pypi-|hf_|SG\.|_v1_"
)


def redact(text: str) -> str:
    """Replace secrets of known shapes.

    Args:
        text: any text.

    Returns:
        The text with each secret as `[redacted: kind]`; the same object where there is none.
    """
    if _HINT.search(text) is None:
        return text

    for kind, shape in _SHAPES.items():
        text = re.sub(shape, f"[redacted: {kind.replace('_', ' ')}]", text)

    return text


def redact_data(value: Any) -> Any:
    """The same for every text in JSON data; what holds no secret is returned as it is."""
    if isinstance(value, str):
        return redact(value)

    if isinstance(value, dict):
        changed = {key: redact_data(item) for key, item in value.items()}
        return changed if any(changed[key] is not value[key] for key in value) else value

    if isinstance(value, list):
        items = [redact_data(item) for item in value]
        return items if any(new is not old for new, old in zip(items, value, strict=True)) else value

    return value


def redact_turn(turn: Turn) -> Turn:
    """The turn without secrets of known shapes; images and blocks of unknown kinds stay as they are."""
    blocks = tuple(map(_redact_block, turn.blocks))
    if all(new is old for new, old in zip(blocks, turn.blocks, strict=True)):
        return turn

    return msgspec.structs.replace(turn, blocks=blocks)


def _redact_block(block: Block) -> Block:
    if isinstance(block, TextBlock):
        text = redact(block.text)
        return block if text is block.text else msgspec.structs.replace(block, text=text)

    if isinstance(block, ThinkingBlock):
        text = redact(block.text)
        # The signature is over the text as it was: without it, the thought is not sent back to its provider.
        return block if text is block.text else msgspec.structs.replace(block, text=text, signature=None)

    if isinstance(block, ToolCallBlock):
        data = redact_data(block.input)
        return block if data is block.input else msgspec.structs.replace(block, input=data)

    if isinstance(block, ToolResultBlock):
        output = redact(block.output)
        return block if output is block.output else msgspec.structs.replace(block, output=output)

    return block

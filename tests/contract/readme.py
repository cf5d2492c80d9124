"""What the README repeats of the program, so that the two can be held together."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from indusagi_lsp.workspace.settings import Settings

ROOT = Path(__file__).parents[2]
README = ROOT / "README.md"


def between(text: str, mark: str) -> str:
    """The part of `text` between `<!-- mark -->` and `<!-- /mark -->`."""
    found = re.search(rf"<!-- {mark} -->\n(.*?)\n<!-- /{mark} -->", text, re.DOTALL)
    assert found, f"the README has no part {mark!r}"
    return found[1]


def replace(text: str, mark: str, part: str) -> str:
    """`text` with another part at `mark`."""
    return text.replace(between(text, mark), part)


def help_part() -> str:
    """`--help` of the server and of its subcommands that have options of their own, as the README shows them."""
    parts = []
    for arguments in ([], ["chat"], ["workflow"], ["acp"]):
        done = subprocess.run(
            [sys.executable, "-m", "indusagi_lsp", *arguments, "--help"],
            capture_output=True,
            text=True,
            check=True,
            env={**os.environ, "COLUMNS": "100", "NO_COLOR": "1", "TERM": "dumb"},
        )
        command = " ".join(["indusagi-lsp", *arguments, "--help"])
        parts.append(f"$ {command}\n{done.stdout.rstrip()}")
    return "```\n" + "\n\n".join(parts) + "\n```"


def settings() -> dict[str, str]:
    """Every setting with its default, as the README's table writes them."""
    return {name: msgspec.json.encode(default).decode() for name, default in _fields(Settings, "")}


def settings_in(text: str) -> dict[str, str]:
    """The settings that the README's table has."""
    rows = re.findall(r"^\| `([\w.]+)` \| `([^`]*)` \| .+ \|$", between(text, "settings"), re.MULTILINE)
    return dict(rows)


def _fields(cls: type[msgspec.Struct], prefix: str) -> Iterator[tuple[str, Any]]:
    for field in msgspec.structs.fields(cls):
        default = field.default
        if isinstance(default, msgspec.Struct):
            yield from _fields(type(default), f"{prefix}{field.encode_name}.")
        else:
            yield f"{prefix}{field.encode_name}", default

"""Standing instructions: the user's own, and those of a repository that the user trusts."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

from indusagi_lsp.conductor import RulesFile
from indusagi_lsp.contract.errors import IndusagiError
from indusagi_lsp.tools import PathGuard

RULES_FILE = "AGENTS.md"
MAX_RULES_BYTES = 16_000
CUT = "\n[… the rest of this file is left out: it is too long …]"


def read_rules(config: Path, guard: PathGuard, *, trusted: bool) -> list[RulesFile]:
    """The rules that go into the system prompt, the user's own first. Blocks.

    Args:
        config: the user's own configuration folder.
        guard: the way into the workspace.
        trusted: whether the user trusts the folder; a stranger's instructions are left out until then.

    Returns:
        Each file that is there and says something, its first 16,000 bytes, marked with whose it is.
    """
    rules: list[RulesFile] = []
    own = config / RULES_FILE
    with suppress(OSError), own.open("rb") as file:
        rules.append(_rules(str(own), file, "user"))
    if trusted:
        with (
            suppress(IndusagiError, OSError),
            guard.open_read(RULES_FILE) as opened,
            os.fdopen(os.dup(opened.fd), "rb") as file,
        ):
            rules.append(_rules(RULES_FILE, file, "repository"))
    return [file for file in rules if file.text.strip()]


def _rules(path: str, file: BinaryIO, origin: str) -> RulesFile:
    data = file.read(MAX_RULES_BYTES + 1)
    text = data[:MAX_RULES_BYTES].decode("utf-8", "ignore" if len(data) > MAX_RULES_BYTES else "replace")
    return RulesFile(path, text + CUT if len(data) > MAX_RULES_BYTES else text, origin)

"""Moving what one store holds into another, of any kind, in a way that may be interrupted."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from indusagi_lsp.contract.errors import InvalidInput

if TYPE_CHECKING:
    from collections.abc import Callable

    from indusagi_lsp.memory.store import BaseStore


class Migrated(msgspec.Struct, frozen=True):
    """What came of a migration; the three numbers together are `total`.

    Attributes:
        total: how many entries the source has.
        copied: how many were written to the target.
        present: how many were there already, the same.
        kept: how many were left out because the target has a later form.
    """

    total: int
    copied: int
    present: int
    kept: int


def migrate(source: BaseStore, target: BaseStore, progress: Callable[[int, int], None] | None = None) -> Migrated:
    """Copy every entry that `source` shows into `target`: times, owner, proof and vector stay as they are.

    It may be stopped at any time. The next call finds what is there already and goes on.

    Args:
        source: where the entries are.
        target: where they shall be; opened for the same agent.
        progress: is told after each entry how many are done and how many there are.

    Returns:
        The counts.

    Raises:
        InvalidInput: the stores were opened for different agents, whose own entries must not be mixed.
    """
    if source.agent != target.agent:
        raise InvalidInput("Both stores must be opened for the same agent.")
    entries = source.list()
    copied = present = kept = 0
    for number, entry in enumerate(entries, 1):
        there = target.exactly(entry.scope, entry.identifier)
        if there is not None and there.changed(trusted=False) == entry.changed(trusted=False):
            present += 1
        elif there is not None and there.changed_at > entry.changed_at:
            kept += 1
        else:
            target.accept(entry)
            copied += 1
        if progress is not None:
            progress(number, len(entries))
    return Migrated(len(entries), copied, present, kept)

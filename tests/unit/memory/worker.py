"""A process that writes: `worker.py KIND PLACE FIRST COUNT` stores entries and says each number once it is stored."""

from __future__ import annotations

import sys

from indusagi_lsp.memory import MemoryEntry, MemoryScope
from unit.memory.backends import open_store

kind, place, first, count = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
store = open_store(kind, place, workspace="w", agent=f"agent-{first}")
for number in range(first, first + count):
    store.store(MemoryEntry(identifier=f"e{number}", content=f"fact number{number} of many", scope=MemoryScope.SHARED))
    sys.stdout.write(f"{number}\n")
    sys.stdout.flush()
store.close()

"""Several processes on one store, and processes that are killed while they write."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from indusagi_lsp.memory import MemoryEntry, MemoryQuery, MemoryScope

WORKER = Path(__file__).with_name("worker.py")
CYCLES = 100 if os.environ.get("INDUSAGI_LONG") == "1" else 10
"""How often a writer is killed, in each store."""


def start(bench, first, count):
    return subprocess.Popen(
        [sys.executable, str(WORKER), bench.kind, bench.place, str(first), str(count)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": str(WORKER.parents[2])},
    )


def test_two_processes_of_200_puts_make_400_entries(bench):
    workers = [start(bench, first, 200) for first in (0, 1000)]
    reader = bench.open(workspace="w", agent="reader")
    counts = []
    while any(worker.poll() is None for worker in workers):
        counts.append(reader.count())
        reader.search(MemoryQuery(text="fact", max_results=3))
    for worker in workers:
        worker.communicate()
        assert worker.returncode == 0
    assert counts == sorted(counts)
    assert reader.count() == 400
    assert len(reader.search(MemoryQuery(text="fact"))) == 400
    assert [hit.entry.identifier for hit in reader.search(MemoryQuery(text="number1100", max_results=1))] == ["e1100"]


@pytest.mark.timeout(900)
def test_what_was_acknowledged_survives_a_kill(bench):
    rng = random.Random(7)
    acknowledged: set[str] = set()
    for cycle in range(CYCLES):
        worker = start(bench, cycle * 10_000, 10_000)
        assert worker.stdout is not None
        for _ in range(rng.randrange(1, 40)):
            acknowledged.add(f"e{worker.stdout.readline().strip()}")
        threading.Event().wait(rng.random() * 0.005)
        worker.kill()
        acknowledged.update(f"e{line}" for line in worker.stdout.read().split("\n")[:-1])
        worker.wait()
        worker.stdout.close()

        store = bench.open(workspace="w", agent="reader")
        found = {entry.identifier: entry.content for entry in store.list()}
        assert acknowledged <= found.keys()
        assert all(content == f"fact number{name[1:]} of many" for name, content in found.items())
        # At most the one write that was under way is there without having been acknowledged.
        assert len(found) <= len(acknowledged) + cycle + 1
        last = max(acknowledged, key=lambda name: int(name[1:]))
        hits = store.search(MemoryQuery(text=f"number{last[1:]}", max_results=1))
        assert [hit.entry.identifier for hit in hits] == [last]
        store.close()
    assert bench.notices == []


def test_threads_of_one_process(bench):
    store = bench.open(workspace="w")
    failures = []

    def work(first):
        try:
            for number in range(first, first + 20):
                store.store(MemoryEntry(identifier=f"e{number}", content=f"fact {number}", scope=MemoryScope.SHARED))
                store.search(MemoryQuery(text="fact", max_results=2))
                if number % 5 == 0:
                    store.delete(f"e{number}")
        except Exception as error:  # noqa: BLE001 - shown below
            failures.append(error)

    threads = [threading.Thread(target=work, args=(100 * number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert store.count() == 4 * 16
    assert len(bench.open(workspace="w").search(MemoryQuery(text="fact"))) == 4 * 16


def test_two_handles_that_change_one_entry_lose_nothing(bench):
    one, two = bench.open(), bench.open()
    one.store(MemoryEntry(identifier="e", content="x"))
    failures = []

    def work(store, name):
        try:
            for number in range(15):
                while True:
                    seen = store.retrieve("e")
                    tags = (*seen.tags, f"{name}{number}")
                    try:
                        store.amend("e", tags=tags, expected_updated_at=seen.updated_at)
                    except Exception as error:
                        if type(error).__name__ != "Conflict":
                            raise
                    else:
                        break
        except Exception as error:  # noqa: BLE001 - shown below
            failures.append(error)

    from indusagi_lsp.memory import utc_now

    for store in (one, two):
        store._now = utc_now
    threads = [threading.Thread(target=work, args=pair) for pair in ((one, "a"), (two, "b"))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert len(bench.open().retrieve("e").tags) == 30

"""How soon the first results of a search are there, against a look at every turn of every session."""

from __future__ import annotations

import asyncio
import random
import statistics
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.harness import Measured, cpu, ratios

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

NAMES = ("search",)
_WORDS = 4_000


def run(names: Sequence[str], quick: bool, data: Path | None) -> Iterable[Measured]:
    """Run those of `names`; see the package."""
    del data
    for _ in names:
        yield _search(nodes=6_000 if quick else 20_000, rounds=5 if quick else 11)


def _search(nodes: int, rounds: int) -> Measured:
    from indusagi_lsp.sessions.records import Record, read_records
    from indusagi_lsp.sessions.scan import narrow_node
    from indusagi_lsp.sessions.search import SearchIndex
    from indusagi_lsp.sessions.words import words_of

    with tempfile.TemporaryDirectory() as folder, asyncio.Runner() as runner:
        root = Path(folder, "sessions")
        needles = _fill(root, nodes)
        index = SearchIndex(root)
        built = cpu(lambda: runner.run(index.update()))
        queries = iter(needles * rounds)

        def ours() -> float:
            query = next(queries)
            return cpu(lambda: runner.run(index.search(query)))

        def every_turn() -> float:
            def look() -> None:
                for path in sorted(root.glob("*.jsonl")):
                    for item in read_records(path):
                        node = narrow_node(item.raw) if isinstance(item, Record) else None
                        if node is not None:
                            _ = needles[0] in words_of(node[2]).lower()

            return cpu(look)

        ours()
        found = ratios(ours, every_turn, rounds)
        spent = statistics.median(ours() for _ in range(5))
        size = sum(path.stat().st_size for path in root.glob("*.jsonl")) / 1e6
        note = f"{nodes} turns, {size:.0f} MB: {spent * 1000:.1f} ms; building the index {built:.1f} s"
        index.close()
        return Measured.of("search", found, note)


def _fill(root: Path, nodes: int) -> list[str]:
    """Sessions of 200 turns: 70 % short text, 25 % of 2 to 8 KB, 5 % of 50 KB. Returns words to look for."""
    from indusagi_lsp.contract.turns import TextBlock, Turn
    from indusagi_lsp.sessions.nodes import hash_node, node_line, node_text

    dice = random.Random(7)
    words = ["".join(dice.choices("abcdefghijklmnopqrstuvwxyz", k=dice.randint(3, 11))) for _ in range(_WORDS)]
    root.mkdir(parents=True)
    for start in range(0, nodes, 200):
        lines: list[bytes] = []
        parent: str | None = None
        for at in range(start, min(start + 200, nodes)):
            turn = Turn("user" if at % 2 else "assistant", (TextBlock(" ".join(_some(dice, words))),))
            text = node_text(parent, turn, at)
            node = hash_node(parent, turn, at)
            lines.append(node_line(node, text, turn, parent, at))
            parent = node
        (root / f"session-{start}.jsonl").write_bytes(b"".join(lines))

    return dice.sample(words, 5)


def _some(dice: random.Random, words: list[str]) -> Iterator[str]:
    share = dice.random()
    size = dice.randint(20, 400) if share < 0.7 else dice.randint(2_000, 8_000) if share < 0.95 else 50_000
    while size > 0:
        word = dice.choice(words)
        size -= len(word) + 1
        yield word

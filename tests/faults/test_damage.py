"""Damaged files: cut anywhere, torn, shuffled, bits flipped. Sizes of the long run: INDUSAGI_LONG=1."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from faults import logs
from indusagi_lsp.contract.turns import Turn
from indusagi_lsp.sessions.state import SessionState


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> tuple[bytes, dict[str, Turn]]:
    """A log of 16 KiB and what was said in it."""
    root = tmp_path_factory.mktemp("log") / ".indusagi" / "sessions"
    content = logs.make_log(root, 16 << 10)
    return content, logs.contents(logs.read(root))


@pytest.fixture(scope="module")
def small_log(tmp_path_factory: pytest.TempPathFactory) -> tuple[bytes, dict[str, Turn]]:
    """A log of 5 KiB, for the damages of which there are very many."""
    root = tmp_path_factory.mktemp("log") / ".indusagi" / "sessions"
    content = logs.make_log(root, 5 << 10)
    return content, logs.contents(logs.read(root))


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / ".indusagi" / "sessions"
    root.mkdir(parents=True)
    return root


def put(root: Path, content: bytes) -> SessionState:
    (root / "s.jsonl").write_bytes(content)
    return logs.read(root)


@pytest.mark.timeout(300)
def test_cut_at_every_byte(log: tuple[bytes, dict[str, Turn]], root: Path) -> None:
    content, wanted = log
    ends = logs.node_ends(content)
    put(root, content)
    for cut in range(len(content), -1, -1):
        os.truncate(root / "s.jsonl", cut)
        state = logs.read(root)
        complete = [node for end, node in ends if end <= cut]
        assert list(state.graph.ids) == list(dict.fromkeys(complete)), cut
        assert not state.report.skipped, cut
        if complete and cut % 16 == 0:
            logs.check(state, wanted, complete)
        else:
            state.graph.source.close()


@pytest.mark.timeout(300)
def test_cut_append_and_open_again(log: tuple[bytes, dict[str, Turn]], root: Path) -> None:
    content, wanted = log
    ends = logs.node_ends(content)
    maker = random.Random(3)
    for _ in range(20_000 if logs.LONG else 500):
        cut = maker.randrange(len(content))
        put(root, content[:cut]).graph.source.close()
        node = logs.append_one(root, "next")
        kept = (root / "s.jsonl").read_bytes()
        state = logs.read(root)
        assert state.graph.leaf == node
        assert state.report.clean, cut
        last = content.rfind(b"\n", 0, cut) + 1
        torn = content[last:cut]
        pieces = [path.read_bytes() for path in root.glob("s.broken-*")]
        assert pieces in ([], [torn])
        assert kept.startswith(content[:last])
        said = {one.id: one.turn for one in state.graph.nodes_to(node)[-2:] if one.id not in wanted}
        logs.check(state, {**wanted, **said}, [n for end, n in ends if end <= cut])
        for path in root.glob("s.broken-*"):
            path.unlink()


@pytest.mark.timeout(300)
def test_torn_and_garbage_tails(small_log: tuple[bytes, dict[str, Turn]], root: Path) -> None:
    content, wanted = small_log
    maker = random.Random(5)
    everything = [node for _, node in logs.node_ends(content)]
    for number in range(100_000 if logs.LONG else 5_000):
        kind = number % 5
        if kind == 0:
            tail = maker.randbytes(maker.randrange(1, 200))
        elif kind == 1:
            tail = b"\0" * maker.randrange(1, 5_000)
        elif kind == 2:
            start = maker.randrange(len(content))
            tail = content[start : start + maker.randrange(1, 300)]
        elif kind == 3:
            tail = b'{"type":' * maker.randrange(1, 50)
        else:
            tail = b'{"type":"node","node":{"id":"' + maker.randbytes(maker.randrange(60))
        state = put(root, content + tail)
        logs.check(state, wanted, everything)
        if number % 25 == 0:
            node = logs.append_one(root, "next")
            state = logs.read(root)
            assert state.graph.leaf == node
            assert set(everything) <= set(state.graph.ids)


@pytest.mark.timeout(300)
def test_shuffled_duplicated_and_missing_lines(log: tuple[bytes, dict[str, Turn]], root: Path) -> None:
    content, wanted = log
    lines = content.splitlines(keepends=True)
    for seed in range(50_000 if logs.LONG else 2_000):
        maker = random.Random(seed)
        mixed = list(lines)
        for _ in range(maker.randrange(1, 6)):
            at, other = maker.randrange(len(mixed)), maker.randrange(len(mixed))
            action = maker.randrange(4)
            if action == 0:
                mixed[at], mixed[other] = mixed[other], mixed[at]
            elif action == 1:
                mixed.insert(other, mixed[at])
            elif action == 2 and len(mixed) > 3:
                del mixed[at]
            else:
                mixed[at] = mixed[at].rstrip(b"\n")
        state = put(root, b"".join(mixed))
        there = b"".join(mixed)
        acknowledged = {node for node in wanted if b'"node":{"id":"%b"' % node.encode() in there}
        logs.check(state, wanted, acknowledged)
        assert not state.report.skipped
        for node in state.graph.leaves():
            assert state.graph.ids_to(node)


@pytest.mark.timeout(300)
def test_bit_flips(small_log: tuple[bytes, dict[str, Turn]], root: Path) -> None:
    content, wanted = small_log
    maker = random.Random(7)
    lines = content.splitlines(keepends=True)
    starts = [sum(map(len, lines[:number])) for number in range(len(lines))]
    bits = range(len(content) * 8) if logs.LONG else (maker.randrange(len(content) * 8) for _ in range(20_000))
    ends = dict(logs.node_ends(content))
    for bit in bits:
        at = bit // 8
        broken = bytearray(content)
        broken[at] ^= 1 << (bit % 8)
        state = put(root, bytes(broken))
        line = max(number for number, start in enumerate(starts) if start <= at)
        touched = {line, line + 1} if content[at : at + 1] == b"\n" else {line}
        safe = [
            node
            for end, node in ends.items()
            if not any(starts[n] <= end < starts[n] + len(lines[n]) for n in touched if n < len(lines))
        ]
        found = set(state.graph.ids)
        assert found.issuperset(safe), at
        if bit % 50 == 0:
            logs.check(state, wanted, safe)
        else:
            for node in found - set(wanted):
                assert not state.graph.is_verified(node), "a node that was never said looks genuine"
            state.graph.source.close()

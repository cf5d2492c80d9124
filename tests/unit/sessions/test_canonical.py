"""Ids are hashes of what JavaScript's JSON.stringify would write."""

from __future__ import annotations

import io
import json
import random
import shutil
import struct
import subprocess

import pytest

from indusagi_lsp.contract.canonical import canonical_json, is_lossless
from indusagi_lsp.contract.turns import turn_from_json
from indusagi_lsp.sessions.nodes import hash_node, new_node, node_line, node_text
from indusagi_lsp.sessions.scan import scan

FIRST = "889ad8d74f4b61054ed04d48e4edc68e"


def text(words: str, role: str = "user") -> dict:
    return {"role": role, "blocks": [{"kind": "text", "text": words}]}


CALL = {
    "role": "assistant",
    "blocks": [
        {
            "kind": "tool_call",
            "id": "c1",
            "name": "read",
            "input": {"path": "a b", "n": 1.0, "2": True, "1": None},
        }
    ],
}
RESULT = {
    "role": "tool",
    "blocks": [{"kind": "tool_result", "callId": "c1", "output": 'é\u2028\n"', "isError": False}],
}
VECTORS = [
    (None, text("hi"), 0, FIRST),
    (None, text("hi"), 1, "ec54c870c5ceeecddf8778117c2660eb"),
    (FIRST, text("hello", "assistant"), 1, "ac6e2671c00d54f20c32a7c5952b77fe"),
    (FIRST, CALL, 2, "cba3a53a5fd9e8cda0f0fe44b0ea1138"),
    (FIRST, RESULT, 3, "804dc7291cb5bc57d8592cb42e6a16e9"),
    (None, text("\U0001f600"), 1_700_000_000_123, "d21f2d97b02cf7869b679114c4b9642e"),
    (None, {"role": "user", "blocks": []}, 0, "bd53de6e27736446fb91b3dd027dbd63"),
    (None, text("\ud800"), 0, "887d6eb07363ea63e788291e087906ea"),
]


@pytest.mark.parametrize(("parent", "turn", "created_at", "expected"), VECTORS)
def test_vectors(parent: str | None, turn: dict, created_at: int, expected: str) -> None:
    assert hash_node(parent, turn, created_at) == expected
    assert hash_node(parent, turn_from_json(turn), created_at) == expected


@pytest.mark.parametrize(("parent", "turn", "created_at", "expected"), VECTORS)
def test_canonical_bytes_lie_contiguous_in_the_line(
    parent: str | None, turn: dict, created_at: int, expected: str
) -> None:
    content = node_text(parent, turn, created_at)
    line = node_line(expected, content, turn_from_json(turn), parent, created_at)
    start = b'{"type":"node","node":{"id":"' + expected.encode() + b'",'
    assert line == start + content[1:] + b"}\n"
    assert json.loads(line)["node"]["id"] == expected
    assert new_node(parent, turn_from_json(turn), created_at) == (expected, len(content), line)


def test_a_surrogate_pair_is_one_character_as_in_javascript() -> None:
    assert canonical_json("\ud83d\ude00") == '"\U0001f600"'.encode()
    assert canonical_json("\ud83d") == b'"\\ud83d"'


def test_numbers_that_javascript_cannot_hold_are_hashed_rounded_but_kept_exact() -> None:
    turn = turn_from_json(
        {
            "role": "assistant",
            "blocks": [{"kind": "tool_call", "id": "c", "name": "n", "input": {"id": 2**60 + 1}}],
        }
    )
    content = node_text(None, turn, 5)
    assert b"1152921504606847000" in content
    line = node_line(hash_node(None, turn, 5), content, turn, None, 5)
    assert str(2**60 + 1).encode() in line
    assert new_node(None, turn, 5) == (hash_node(None, turn, 5), len(content), line)
    assert is_lossless({"a": [2**60]}) is False  # 1152921504606846976 prints as ...7000 in JavaScript
    assert is_lossless({"a": [2**53, 0.5, True, None, "x"]})


def test_what_is_no_json_is_refused() -> None:
    with pytest.raises(TypeError):
        canonical_json({"a": {1, 2}})
    with pytest.raises(TypeError):
        canonical_json({1: "a", "b": 1.5})
    deep: list = []
    for _ in range(5_000):
        deep = [deep]
    with pytest.raises(ValueError):
        canonical_json(deep)


def _values(seed: int) -> list:
    maker = random.Random(seed)
    numbers = [struct.unpack("<d", maker.randbytes(8))[0] for _ in range(2_000)]
    numbers += [maker.random() * 10 ** maker.randint(-10, 25) for _ in range(2_000)]
    numbers += [maker.randint(-(10**22), 10**22) for _ in range(500)]
    numbers += [1e21, 1e-7, 1e-6, 123456789012345680000.0, -0.0, 5e-324, 1.7976931348623157e308, 100.0, 2**53 + 1]
    finite = [n for n in numbers if n == n and abs(n) != float("inf")]
    keys = {str(maker.choice([0, 1, 7, 10, "01", 4294967294, 4294967295, "a", "é", "-1"])): n for n in range(40)}
    texts = ["".join(chr(maker.choice([0, 7, 8, 11, 31, 34, 47, 92, 127, 0x2028, 0xE9, 0xD7FF, 0xE000, 0x1F600, 97]))
                     for _ in range(20)) for _ in range(50)]  # fmt: skip
    return [finite, keys, {"b": 1, "2": {"10": 1, "9": 2}, "a": [None, True, False]}, texts, "\ud800x\udc00"]


@pytest.mark.skipif(shutil.which("node") is None, reason="needs Node to compare with")
@pytest.mark.parametrize("seed", [1, 2])
def test_same_as_javascript(seed: int) -> None:
    values = _values(seed)
    script = 'process.stdout.write(JSON.stringify(JSON.parse(require("fs").readFileSync(0,"utf8"))))'
    theirs = subprocess.run(["node", "-e", script], input=json.dumps(values).encode(), capture_output=True, check=True)
    assert canonical_json(values) == theirs.stdout


@pytest.mark.parametrize("verify", [True, False])
@pytest.mark.parametrize("parent", ["x" * 30 + '"', "é" * 16, "x" * 28 + "\\\\"])
def test_a_parent_that_is_no_plain_word_is_read_as_what_it_says(parent: str, verify: bool) -> None:
    node, _, line = new_node(parent, turn_from_json(text("hi")), 1)
    (batch,) = scan(io.BytesIO(line), verify=verify)
    assert (batch.ids, batch.parents, batch.problems) == ([node], [parent], [])

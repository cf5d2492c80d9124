"""The doctor finds what is wrong, says so in words and JSON, and heals without taking a record or a byte away."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

import pytest

from indusagi_lsp.contract.clock import SystemClock
from indusagi_lsp.contract.errors import SessionNotFound
from indusagi_lsp.contract.turns import (
    ToolCallBlock,
    ToolResultBlock,
    Turn,
    assistant,
    turn_to_json,
    user,
)
from indusagi_lsp.sessions import blobs
from indusagi_lsp.sessions.doctor import Diagnosis, examine
from indusagi_lsp.sessions.nodes import hash_node, node_line, node_text
from indusagi_lsp.sessions.signing import Signer
from indusagi_lsp.sessions.state import SessionState, load

if TYPE_CHECKING:
    from pathlib import Path


def line(parent: str | None, turn: Turn, at: int = 0) -> tuple[str, bytes]:
    node = hash_node(parent, turn, at)
    return node, node_line(node, node_text(parent, turn, at), turn, parent, at)


def chain(*turns: Turn) -> tuple[list[str], list[bytes]]:
    parent, ids, lines = None, [], []
    for at, turn in enumerate(turns):
        parent, text = line(parent, turn, at)
        ids.append(parent)
        lines.append(text)
    return ids, lines


def head(leaf: str, **fields: object) -> bytes:
    return json.dumps({"type": "head", "leaf": leaf, **fields}).encode() + b"\n"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / ".indusagi" / "sessions"
    folder.mkdir(parents=True, mode=0o700)
    return folder


def write(root: Path, data: bytes, name: str = "one") -> Path:
    path = root / f"{name}.jsonl"
    path.write_bytes(data)
    path.chmod(0o600)
    return path


def codes(diagnosis: Diagnosis) -> list[str]:
    return [finding.code for finding in diagnosis.sessions[0].findings]


async def test_a_healthy_session(root: Path) -> None:
    ids, lines = chain(user("hi"), assistant("hello"))
    write(root, b"".join(lines) + head(ids[-1]))

    found = await examine(root)

    assert codes(found) == []
    assert found.healthy
    assert (found.sessions[0].nodes, found.sessions[0].branches, found.sessions[0].head) == (2, 1, ids[-1])
    assert "one: 2 turns, 1 branches, healthy" in found.to_text()
    assert json.loads(json.dumps(found.to_json()))["healthy"] is True


CALL = Turn("assistant", (ToolCallBlock("c1", "read", {"path": "a"}),))
RESULT = Turn("tool", (ToolResultBlock("c1", "text"),))
IDS, LINES = chain(user("hi"), assistant("hello"), user("more"))


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (LINES[0] + b"garbage\n" + LINES[1], "skipped"),
        (LINES[0] + LINES[1] + b'{"type":"no', "torn"),
        (LINES[0] + b'{"type":"node","node":{"id":"ab' + LINES[1], "welded"),
        (LINES[0] + b"42\n", "malformed"),
        (LINES[0] + b'{"type":"node","node":{"id":"x"}}\n', "bad_node"),
        (LINES[0].replace(b"hi", b"ho"), "unverified"),
        (LINES[0] + LINES[2], "gap"),
        (b"".join(LINES), "headless"),
        (LINES[0] + head("f" * 32), "head"),
        (LINES[0] + head(IDS[0]) + b'{"type":"label","node":"nowhere","name":"x"}\n', "reference"),
        (LINES[0] + b'{"type":"condense","summary":"s","from":"f","copies":{}}\n', "reference"),
        (chain(user("u"), Turn("assistant"))[1][0] + chain(user("u"), Turn("assistant"))[1][1], "empty"),
        (b"".join(chain(user("u"), CALL)[1]), "unanswered"),
        (b"".join(chain(user("u"), CALL, user("later"))[1]), "unanswered"),
        (b"".join(chain(user("u"), RESULT)[1]), "orphan_result"),
    ],
)
async def test_each_kind_of_fault_is_found(root: Path, data: bytes, code: str) -> None:
    write(root, data)
    before = write(root, data).read_bytes()

    found = await examine(root)

    assert code in codes(found)
    assert root.joinpath("one.jsonl").read_bytes() == before, "looking changes nothing"
    assert found.healthy is (code in ("unanswered", "headless"))


async def test_a_pair_is_a_pair_on_each_branch(root: Path) -> None:
    start, first = line(None, user("u"))
    call, second = line(start, CALL, 1)
    done, third = line(call, RESULT, 2)
    _, other = line(call, user("another way"), 3)
    write(root, first + second + third + other + head(done))

    found = await examine(root)

    assert codes(found) == ["unanswered"], "answered on one branch, not on the other"
    assert found.sessions[0].branches == 2


async def test_rings_and_what_hangs_on_them(root: Path) -> None:
    def raw(node: str, parent: str) -> bytes:
        told = {"id": node, "parent": parent, "turn": turn_to_json(user(node)), "createdAt": 0}
        return json.dumps({"type": "node", "node": told}).encode() + b"\n"

    write(root, raw("x", "a") + raw("a", "b") + raw("b", "a") + raw("self", "self"))

    found = await examine(root)

    cycles = [finding.node for finding in found.sessions[0].findings if finding.code == "cycle"]
    assert cycles == ["a", "self"]


async def test_another_content_under_a_known_id(root: Path) -> None:
    write(root, LINES[0] + LINES[0].replace(b"hi", b"ho") + head(IDS[0]))

    assert codes(await examine(root)) == ["conflict"]


async def test_equal_lines_twice_are_normal(root: Path) -> None:
    write(root, LINES[0] + LINES[1] + LINES[0] + LINES[1] + head(IDS[1]))

    assert codes(await examine(root)) == []


async def test_whose_it_is(root: Path) -> None:
    signer = Signer(b"k" * 32)
    write(root, LINES[0] + head(IDS[0], mac=signer.mac("one", IDS[0])), "one")
    write(root, LINES[0] + head(IDS[0], mac=signer.mac("one", IDS[0])), "two")
    changed = LINES[0].replace(b"hi", b"ho")
    write(root, changed + head(IDS[0], mac=signer.mac("three", IDS[0])), "three")

    found = await examine(root, signer=signer)

    assert {session.session_id: session.trusted for session in found.sessions} == {
        "one": True,
        "two": False,
        "three": False,
    }


async def test_blobs(root: Path) -> None:
    folder = root.parent / "blobs"
    outputs = [blobs.spill(letter * 100_000, folder) for letter in "abc"]
    digests = [blobs.named([Turn("tool", (ToolResultBlock("c", output),))])[0] for output in outputs]
    calls = [Turn("assistant", (ToolCallBlock(f"c{n}", "run", {}),)) for n in range(3)]
    results = [Turn("tool", (ToolResultBlock(f"c{n}", output),)) for n, output in enumerate(outputs)]
    ids, lines = chain(user("u"), *[turn for pair in zip(calls, results, strict=True) for turn in pair])
    write(root, b"".join(lines) + head(ids[-1]))
    (folder / digests[0]).unlink()
    (folder / digests[1]).write_bytes(b"something else")

    assert codes(await examine(root)) == ["blob_missing", "blob_changed"]

    healed = await examine(root, repair=True)
    assert [finding.healed for finding in healed.sessions[0].findings] == [False, True]
    assert (folder / f"{digests[1]}.broken-1").read_bytes() == b"something else"
    assert codes(await examine(root)) == ["blob_missing", "blob_missing"]


@pytest.mark.skipif(os.name == "nt", reason="modes of POSIX")
async def test_modes(root: Path) -> None:
    path = write(root, LINES[0] + head(IDS[0]))
    path.chmod(0o644)

    assert codes(await examine(root)) == ["mode"]
    assert (await examine(root, repair=True)).healthy
    assert path.stat().st_mode & 0o777 == 0o600

    path.write_bytes(b"<<<<<<< HEAD\n" + path.read_bytes())
    path.chmod(0o644)
    healed = await examine(root, repair=True)
    assert sorted(codes(healed)) == ["mode", "skipped"], "healing the bytes hides nothing else"
    assert all(finding.healed for finding in healed.sessions[0].findings)


async def test_a_repair_keeps_every_record_and_every_byte(root: Path) -> None:
    unknown = b'{"type":"from-the-future", "x": [1.0, "\xc3\xa9"]}'
    merged = b"<<<<<<< HEAD\n" + LINES[1] + b"=======\n" + LINES[2] + b">>>>>>> other\n"
    data = (
        b"\xef\xbb\xbf" + LINES[0].rstrip() + b"\r\n\x00\x00\x00\n" + unknown + b"\n" + merged
        + b'{"type":"node","node":{"id":"ab' + head(IDS[2]).rstrip() + unknown + b"\nxyz\n" + b'{"type":"to'
    )  # fmt: skip
    write(root, data)
    before = SessionState("one", clock=SystemClock(), signer=None)
    load(before, str(root / "one.jsonl"))

    found = await examine(root, repair=True)

    assert found.healthy
    after = root.joinpath("one.jsonl").read_bytes()
    for wanted in (LINES[0], LINES[1], LINES[2], unknown + b"\n", head(IDS[2])):
        assert wanted in after
    kept = root.joinpath("one.broken-1").read_bytes()
    for wanted in (b"<<<<<<< HEAD", b"=======", b'{"type":"node","node":{"id":"ab', b"xyz", b'{"type":"to'):
        assert wanted in kept
    assert b'"kept":"one.broken-1"' in after
    state = SessionState("one", clock=SystemClock(), signer=None)
    load(state, str(root / "one.jsonl"))
    assert state.report.clean
    assert (state.graph.leaf, list(state.graph.ids)) == (before.graph.leaf, list(before.graph.ids))

    again = await examine(root, repair=True)
    assert codes(again) == []
    assert root.joinpath("one.jsonl").read_bytes() == after, "a second repair has nothing to do"


async def test_a_session_that_is_not_there(root: Path) -> None:
    with pytest.raises(SessionNotFound):
        await examine(root, sessions=["nowhere"])


async def test_an_unreadable_session_is_a_finding(root: Path, tmp_path: Path) -> None:
    write(root, LINES[0] + head(IDS[0]), "fine")
    root.joinpath("one.jsonl").mkdir()

    assert [session.session_id for session in (await examine(root)).sessions] == ["fine"]


async def test_many_findings_are_counted(root: Path) -> None:
    write(root, LINES[0] + b"junk\n" * 500 + head(IDS[0]))

    found = await examine(root)

    assert found.sessions[0].counts["skipped"] == 500
    assert len(found.sessions[0].findings) == 200
    assert "300 more of skipped" in found.to_text()


async def test_a_long_chain_needs_no_recursion(root: Path) -> None:
    ids, lines = chain(*[user(str(number)) for number in range(5_000)])
    write(root, b"".join(lines) + head(ids[-1]))

    assert codes(await examine(root)) == []

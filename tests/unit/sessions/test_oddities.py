"""Odd but possible: numbers no machine holds, keys said twice, other encodings, clocks that jump."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from indusagi_lsp.contract.errors import PersistenceFault
from indusagi_lsp.contract.turns import assistant, user
from indusagi_lsp.sessions import SessionStore, Signer

CWD = "file:///workspace"


async def written(store: SessionStore) -> Path:
    session = await store.create(cwd=CWD, session_id="s")
    await session.append([user("a"), assistant("b")])
    await session.close()
    return Path(session.path)


@pytest.mark.parametrize(
    "value",
    [b"NaN", b"-Infinity", b"9" * 5_000, b"1e999", b'{"k":1,"k":2}', b'"\\ud800"', '"\u2028\u0085"'.encode()],
    ids=["nan", "infinity", "digits", "exponent", "twice", "surrogate", "separators"],
)
async def test_a_turn_with_an_odd_value_costs_at_most_itself(
    store: SessionStore, window: Callable[..., SessionStore], value: bytes
) -> None:
    path = await written(store)
    session = await window().open("s")
    leaf = session.graph.leaf
    assert leaf is not None
    await session.close()
    odd = (
        b'{"type":"node","node":{"id":"odd","parent":"%b","turn":{"role":"assistant","blocks":[{"kind":"tool_call",'
        b'"id":"c","name":"t","input":{"n":%b}}]},"createdAt":1}}\n'
    ) % (leaf.encode(), value)
    content = path.read_bytes() + odd
    path.write_bytes(content)

    session = await window().open("s")
    found = session.graph.find("odd")
    assert session.report.unverified == (found is not None)
    assert session.report.skipped == (found is None)
    await session.append([user("next")])
    assert path.read_bytes().startswith(content), "it stays byte for byte"
    again = await window().open("s")
    assert ("odd" in again.graph) == (found is not None)
    assert [turn.text for turn in again.model_view()][:2] == ["a", "b"]
    assert again.model_view()[-1].text == "next"
    assert set(again.report.counts) <= {"unverified", "skipped", "malformed"}


@pytest.mark.parametrize(
    "more",
    [
        b',"turn":{"role":"user","blocks":[{"kind":"text","text":"planted"}]}}}',
        b'},"node":{"id":"x","parent":null,"turn":{"role":"user","blocks":[]},"createdAt":1}}',
    ],
    ids=["turn", "node"],
)
async def test_keys_that_are_said_twice_do_not_pass_for_what_was_signed(
    store: SessionStore, window: Callable[..., SessionStore], more: bytes
) -> None:
    path = await written(store)
    lines = path.read_bytes().split(b"\n")
    assert lines[1].startswith(b'{"type":"node"')
    lines[1] = lines[1].removesuffix(b"}}") + more
    path.write_bytes(b"\n".join(lines))
    session = await window().open("s")
    shown = [turn.text for turn in session.model_view()]
    assert "planted" not in shown or not session.trusted
    assert session.report.unverified or session.report.gaps


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-be", "utf-32"])
async def test_a_file_of_another_encoding_is_left_alone(
    store: SessionStore, window: Callable[..., SessionStore], encoding: str
) -> None:
    path = await written(store)
    content = path.read_bytes().decode().encode(encoding)
    path.write_bytes(content)
    session = await window().open("s")
    assert session.graph.leaf is None
    assert session.report.skipped
    with pytest.raises(PersistenceFault):
        await session.append([user("c")])
    session._queue.clear()
    assert path.read_bytes() == content


class Jumping:
    """A clock that goes where it likes."""

    def __init__(self, *times: int) -> None:
        self.times = list(times)

    def now_ms(self) -> int:
        return self.times.pop(0) if len(self.times) > 1 else self.times[0]

    def monotonic(self) -> float:
        return 0.0


async def test_clocks_that_jump_change_neither_the_order_nor_the_live_leaf(root: Path) -> None:
    signer = Signer(b"f" * 32)
    times = (1_700_000_000_000, 0, 4_102_444_800_000, 1, 1_500_000_000_000, -5, 2)
    store = SessionStore(root, signer=signer, clock=Jumping(*times))
    session = await store.create(cwd=CWD, session_id="s")
    said = [str(number) for number in range(9)]
    for text in said:
        await session.append([user(text)])
    await session.close()
    for late in (1_600_000_000_000, 0):
        again = await SessionStore(root, signer=signer, clock=Jumping(late)).open("s")
        assert [turn.text for turn in again.model_view()] == said
        assert again.trusted
        assert again.report.clean
        said.append(f"at {late}")
        await again.append([user(said[-1])])
        await again.close()
    kept = [json.loads(line) for line in (root / "s.jsonl").read_bytes().splitlines()]
    assert len({record["node"]["id"] for record in kept if record["type"] == "node"}) == len(said)

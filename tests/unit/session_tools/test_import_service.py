"""Importing: again and again, after the file grew, beside what the user did, and marked as foreign."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
from pathlib import Path

import pytest

from indusagi_lsp.contract.clock import SystemClock
from indusagi_lsp.contract.errors import InvalidInput
from indusagi_lsp.contract.turns import Turn, block_to_json
from indusagi_lsp.sessions import SessionStore, blobs
from indusagi_lsp.sessions.importers import Importer, ImportReport
from indusagi_lsp.sessions.importers import service as service_module
from indusagi_lsp.sessions.records import Record, read_records
from indusagi_lsp.sessions.signing import Signer
from indusagi_lsp.sessions.state import SessionState, load

FIXTURES = Path(__file__).parents[3] / "fixtures" / "transcripts"
GROWING = FIXTURES / "claude-code" / "growing-2.jsonl"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / ".indusagi" / "sessions"


def state_of(root: Path, session_id: str) -> SessionState:
    state = SessionState(session_id, clock=SystemClock(), signer=None)
    load(state, str(root / f"{session_id}.jsonl"))
    return state


def content(path: Path) -> bytes:
    return path.read_bytes()


def there(folder: Path) -> bool:
    return folder.is_dir()


def snapshot(root: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in root.glob("*.jsonl")}


def flat(turns: list[Turn]) -> list[tuple[str, object]]:
    """The blocks of a path with their roles, however they are cut into turns."""
    return [(turn.role, block_to_json(block)) for turn in turns for block in turn.blocks]


async def test_every_fixture_comes_in_and_a_second_time_changes_nothing(root: Path) -> None:
    importer = Importer(root)
    told: list[tuple[int, int, ImportReport]] = []

    first = await importer.import_files([FIXTURES], progress=lambda *news: told.append(news))

    assert [report.problem for report in first] == [None] * 11
    assert [(done, total) for done, total, _ in told] == [(number, 11) for number in range(1, 12)]
    before = snapshot(root)
    for _ in range(2):
        again = await importer.import_files([FIXTURES])
        assert [report.added for report in again] == [0] * 11
        assert snapshot(root) == before
    assert all(state_of(root, name.removesuffix(".jsonl")).report.clean for name in before)


async def test_a_file_that_grew_adds_only_what_is_new(root: Path) -> None:
    importer = Importer(root)
    [small] = await importer.import_files([FIXTURES / "claude-code" / "growing-1.jsonl"])
    before = (root / f"{small.session_id}.jsonl").read_bytes()

    [grown] = await importer.import_files([GROWING])

    after = (root / f"{grown.session_id}.jsonl").read_bytes()
    assert small.session_id == grown.session_id
    assert after.startswith(before)
    assert (small.added, grown.added) == (5, 10)
    # The older copy again: nothing moves back.
    [old] = await importer.import_files([FIXTURES / "claude-code" / "growing-1.jsonl"])
    assert old.added == 0
    assert (root / f"{grown.session_id}.jsonl").read_bytes() == after


APPENDED = [
    path
    for path in sorted(FIXTURES.rglob("*.jsonl"))
    if path.parent.name != "gemini-cli" and path.name not in ("store-again.jsonl", "growing-1.jsonl")
]


@pytest.mark.parametrize("path", APPENDED, ids=lambda path: path.name[:20])
async def test_any_beginning_and_then_the_whole_is_the_whole(path: Path, tmp_path: Path) -> None:
    """Cut after each line and within it: the same history results, and no turn comes twice."""
    data = content(path)
    [report] = await Importer(tmp_path / "whole").import_files([path])
    name = str(report.session_id)
    whole = state_of(tmp_path / "whole", name)
    wanted = flat(whole.graph.path_to(whole.graph.leaf))
    ends = [at + 1 for at, byte in enumerate(data) if byte == 10]
    for number, end in enumerate([*ends, *(end - 7 for end in ends)]):
        root = tmp_path / str(number)
        part = tmp_path / path.name
        part.write_bytes(data[:end])
        importer = Importer(root)
        [first] = await importer.import_files([part], tool=report.tool)
        before = (root / f"{name}.jsonl").read_bytes() if first.problem is None else b""
        part.write_bytes(data)
        await importer.import_files([part], tool=report.tool)

        assert (root / f"{name}.jsonl").read_bytes().startswith(before)
        state = state_of(root, name)
        assert flat(state.graph.path_to(state.graph.leaf)) == wanted, end
        assert len(state.graph.leaves()) == len(whole.graph.leaves()), end
        assert sum(usage.output for usage in state.usages.values()) == sum(
            usage.output for usage in whole.usages.values()
        ), end
        done = (root / f"{name}.jsonl").read_bytes()
        await importer.import_files([part], tool=report.tool)
        assert (root / f"{name}.jsonl").read_bytes() == done, end


async def test_an_imported_session_is_foreign_until_adopted(root: Path) -> None:
    [report] = await Importer(root).import_files([GROWING])
    store = SessionStore(root, signer=Signer(b"k" * 32))

    session = await store.open(str(report.session_id))

    assert session.trusted is False
    assert session.meta.cwd == "file:///home/kim/garden"
    assert session.meta.title == "Which beds need water today?"
    assert session.meta.fields["origin"]["tool"] == "claude-code"
    assert all(
        "mac" not in item.raw for item in read_records(root / f"{report.session_id}.jsonl") if isinstance(item, Record)
    )
    await store.close()


async def test_what_the_user_did_since_stays(root: Path) -> None:
    importer = Importer(root)
    [small] = await importer.import_files([FIXTURES / "claude-code" / "growing-1.jsonl"])
    store = SessionStore(root, signer=Signer(b"k" * 32))
    session = await store.open(str(small.session_id))
    await session.move_head(session.graph.leaf, "adopt")
    await session.append(
        [Turn("user"), Turn("assistant")][:0] or [{"role": "user", "blocks": [{"kind": "text", "text": "mine"}]}]
    )
    mine = session.graph.leaf
    await store.close()

    [grown] = await importer.import_files([GROWING])

    state = state_of(root, str(small.session_id))
    assert grown.added == 10
    assert state.graph.leaf == mine, "the head stays with the user's own turn"
    assert len(state.graph.leaves()) == 5, "the four of the file, and the user's"


async def test_usage_has_a_price_where_the_list_knows_the_model(root: Path) -> None:
    [claude] = await Importer(root).import_files([FIXTURES / "claude-code" / "growing-1.jsonl"])
    [gemini] = await Importer(root).import_files(list((FIXTURES / "gemini-cli").glob("*.json")))

    assert claude.usage.cost == pytest.approx(0.005565)
    assert claude.unpriced == 0
    assert (gemini.usage.cost, gemini.unpriced) == (None, 2), "unknown is never 0"
    state = state_of(root, str(claude.session_id))
    assert sum(usage.input for usage in state.usages.values()) == claude.usage.input == 2020


async def test_long_outputs_spill_and_secrets_go(root: Path, tmp_path: Path) -> None:
    secret = "ghp_" + "a1B2" * 9
    lines = [
        {"type": "session", "id": "long", "timestamp": "2026-01-01T00:00:00Z", "cwd": "/x"},
        {"type": "message", "timestamp": 1767225601, "message": {"role": "user", "content": f"my token is {secret}"}},
        {
            "type": "message",
            "timestamp": 1767225602,
            "message": {
                "role": "toolResult",
                "toolCallId": "c",
                "content": [{"type": "text", "text": secret + "\n" + "x" * 200_000}],
            },
        },
    ]
    path = tmp_path / "long.jsonl"
    path.write_text("\n".join(map(json.dumps, lines)) + "\n")

    [report] = await Importer(root).import_files([path])

    text = (root / f"{report.session_id}.jsonl").read_bytes()
    assert secret.encode() not in text
    assert b"[redacted: github token]" in text
    assert len(text) < 80_000
    turns = state_of(root, str(report.session_id)).graph.path_to(state_of(root, str(report.session_id)).graph.leaf)
    [digest] = blobs.named(turns)
    whole = blobs.read(root.parent / "blobs", digest)
    assert whole == "[redacted: github token]\n" + "x" * 200_000
    assert (root.parent / ".gitignore").read_bytes() == b"*\n"

    [plain] = await Importer(tmp_path / "plain" / "sessions", redacted=False).import_files([path])
    assert secret.encode() in (tmp_path / "plain" / "sessions" / f"{plain.session_id}.jsonl").read_bytes()


async def test_the_tools_own_folders(root: Path, tmp_path: Path) -> None:
    home = tmp_path / "home"

    def put(source: str, *target: str) -> None:
        path = home.joinpath(*target)
        path.parent.mkdir(parents=True)
        path.write_bytes(next(FIXTURES.glob(source)).read_bytes())

    put("claude-code/growing-2.jsonl", ".claude", "projects", "-home-kim-garden", "a.jsonl")
    put("codex/*.jsonl", ".codex", "sessions", "2026", "03", "03", "rollout-x.jsonl")
    put("pi/tree.jsonl", ".pi", "agent", "sessions", "--home-kim-garden--", "b.jsonl")
    put("gemini-cli/*.json", ".gemini", "tmp", "garden", "chats", "session-c.json")
    put("indusagi/agent.jsonl", ".pindusagi", "agent", "sessions", "--home-kim-garden--", "d.jsonl")
    put("indusagi/store.jsonl", "moved", "sessions", "e.jsonl")
    home.joinpath(".claude", "projects", "-home-kim-garden", "link.jsonl").symlink_to("/etc/passwd")
    importer = Importer(root)
    environ = {"INDUSAGI_HOME": str(home / "moved")}

    found = await importer.import_all(home=home, environ=environ)

    assert [(report.tool, report.problem) for report in found] == [
        ("claude-code", None),
        ("codex", None),
        ("pi", None),
        ("gemini-cli", None),
        ("indusagi", None),
        ("indusagi", None),
    ]
    before = snapshot(root)
    again = await importer.import_all(home=home, environ=environ)
    assert [report.unchanged for report in again] == [True] * 6
    assert snapshot(root) == before
    assert [report.tool for report in await importer.import_all(home=home, environ={}, tools=["pi"])] == ["pi"]

    inside = await Importer(tmp_path / "one").import_all(home=home, environ={}, workspace=Path("/home/kim/garden"))
    assert {report.tool for report in inside} == {"claude-code", "codex", "pi", "gemini-cli", "indusagi"}
    assert await Importer(tmp_path / "two").import_all(home=home, environ={}, workspace=Path("/home/kim/gard")) == ()


async def test_what_cannot_be_imported_is_told(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    empty, other, folder = tmp_path / "empty.jsonl", tmp_path / "other.jsonl", tmp_path / "missing.jsonl"
    empty.write_bytes(b'{"type":"session","id":"e","timestamp":"2026-01-01T00:00:00Z"}\n')
    other.write_bytes(b"just words\n")

    found = await Importer(root).import_files([empty, other, folder])

    assert [report.problem and report.problem.split(":")[0] for report in found] == [
        "There is no turn in it.",
        "It is no session of a tool that we know.",
        "It cannot be read",
    ]
    monkeypatch.setattr(service_module, "MAX_FILE", 10)
    [big] = await Importer(root).import_files([GROWING])
    assert "too big" in str(big.problem)
    with pytest.raises(InvalidInput):
        await Importer(root).import_files([other], tool="nobody")
    assert snapshot(root) == {}


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs FIFOs")
async def test_a_fifo_is_not_waited_for(root: Path, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.jsonl")

    async with asyncio.timeout(5):
        [report] = await Importer(root).import_files([tmp_path / "pipe.jsonl"])

    assert "no regular file" in str(report.problem)


async def test_two_imports_at_once(root: Path) -> None:
    await asyncio.gather(*[Importer(root).import_files([GROWING]) for _ in range(6)])

    [name] = [name.removesuffix(".jsonl") for name in snapshot(root)]
    state = state_of(root, name)
    records = [
        item.raw["node"]["id"]
        for item in read_records(root / f"{name}.jsonl")
        if isinstance(item, Record) and "node" in item.raw and item.raw["type"] == "node"
    ]
    assert state.report.clean
    assert len(records) == len(set(records)) == 15


TRANSCRIPTS = Path(
    os.environ.get("INDUSAGI_TRANSCRIPTS", Path(__file__).parents[4] / "shared" / "data" / "transcripts")
)


@pytest.mark.transcripts
async def test_real_transcripts(root: Path) -> None:
    if not there(TRANSCRIPTS):
        pytest.skip("no real transcripts here: set INDUSAGI_TRANSCRIPTS to a folder with some")

    importer = Importer(root)
    found = {Path(report.path).name: report for report in await importer.import_files([TRANSCRIPTS])}

    assert [report.problem for report in found.values()] == [None] * 9
    counts = {name: (r.turns, r.unanswered, r.condensations, len(r.skipped)) for name, r in found.items()}
    assert counts == {
        "auto-compaction.jsonl": (123, 0, 1, 0),
        "edge-cases.jsonl": (12, 2, 0, 6),
        "growing-1.jsonl": (2, 0, 0, 0),
        "growing-2.jsonl": (12, 0, 0, 0),
        "images.jsonl": (14, 2, 0, 2),
        "short.jsonl": (12, 0, 0, 0),
        "rollout.jsonl": (171, 0, 0, 0),
        "session.json": (24, 0, 0, 0),
        "two-compactions.jsonl": (977, 6, 2, 13),
    }
    assert found["two-compactions.jsonl"].usage.cost == pytest.approx(42.5959, abs=1e-3)
    last = [
        json.loads(line)["payload"]["info"]["total_token_usage"]
        for line in content(TRANSCRIPTS / "codex" / "rollout.jsonl").splitlines()
        if b'"token_count"' in line and b'"total_token_usage"' in line
    ][-1]
    assert (found["rollout.jsonl"].usage.input, found["rollout.jsonl"].usage.output) == (
        last["input_tokens"],
        last["output_tokens"],
    ), "the parts add up to the total that the program itself counted"
    before = {name: hashlib.sha256(data).digest() for name, data in snapshot(root).items()}
    await importer.import_files([TRANSCRIPTS])
    assert {name: hashlib.sha256(data).digest() for name, data in snapshot(root).items()} == before
    assert all(state_of(root, name.removesuffix(".jsonl")).report.clean for name in before)

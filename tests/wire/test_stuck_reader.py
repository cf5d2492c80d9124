"""An editor that stops reading while many runs stream: the loop lives, memory stays, and afterwards nothing is missing.

The whole size, 60 s, is that of the long run: INDUSAGI_LONG=1.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path

import pytest

from wire.wire_client import WireClient

HEART = (sys.executable, str(Path(__file__).with_name("heart_server.py")))
LONG = os.environ.get("INDUSAGI_LONG") == "1"
RUNS = 50
SECONDS = 60 if LONG else 3
PACE = 0.05
CHUNK = 200
# On a machine that others use as well, a second has fewer beats for reasons that are not ours.
LEAST = 0.95 if LONG else 0.3


def beats(path: Path) -> list[tuple[int, int]]:
    lines = path.read_text().splitlines() if path.exists() else []
    return [(int(line.split()[0]), int(line.split()[1])) for line in lines]


async def until_beats(path: Path, count: int) -> list[tuple[int, int]]:
    async with asyncio.timeout(SECONDS * 4 + 30):
        while len(beats(path)) < count:  # noqa: ASYNC110 - a file of another process tells no event
            await asyncio.sleep(0.1)
    return beats(path)


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="memory is read from /proc")
@pytest.mark.timeout(SECONDS * 8 + 120)
async def test_an_editor_that_does_not_read(start, tmp_path: Path):
    (tmp_path / "ws").mkdir()
    script, heart = tmp_path / "script.json", tmp_path / "heart"
    text = "x" * int(CHUNK * SECONDS * 2 / PACE)
    script.write_text(json.dumps({"replies": [{"text": text, "pace": PACE, "chunk": CHUNK, "repeat": True}]}))
    home = str(tmp_path / "home")
    wire: WireClient = await start(HEART, HEART=str(heart), INDUSAGI_SCRIPTED_MODEL=str(script), INDUSAGI_LSP_HOME=home)
    await wire.initialize(workspaceFolders=[{"uri": (tmp_path / "ws").as_uri(), "name": "ws"}])
    sessions = []
    for number in range(RUNS):
        wire.send(id=f"new-{number}", method="indusagi/session/new", params={})
        sessions.append((await wire.response(f"new-{number}", 60))["result"]["id"])
    for number, session in enumerate(sessions):
        wire.send(id=number, method="indusagi/submit", params={"sessionId": session, "text": "go"})
    running: set[str] = set()
    while len(running) < RUNS:
        event = (await wire.until("indusagi/event", 60))["params"]
        if event["event"]["kind"] == "text_delta":
            running.add(event["sessionId"])

    # From here on nobody reads.
    before = await until_beats(heart, len(beats(heart)) + 2)
    after = (await until_beats(heart, len(before) + SECONDS))[len(before) :]
    idle = max(count for count, _ in before)
    assert sum(count for count, _ in after) >= LEAST * SECONDS * min(idle, 45), (before, after)
    assert max(size for _, size in after) - before[-1][1] < 50 << 20, (before, after)

    # The editor is back: every request is answered, no event came twice, and a loss is made known.
    for session in sessions:
        wire.send(id=session, method="indusagi/abort", params={"sessionId": session})
    waiting = {*range(RUNS), *sessions}
    while waiting:
        message = await wire.receive(60)
        waiting.discard(message.get("id"))
    for session in sessions:
        mine = [one["params"] for one in wire.seen if one.get("method") == "indusagi/event"]
        seqs = [one["seq"] for one in mine if one["sessionId"] == session]
        assert seqs == sorted(set(seqs))
        if seqs != list(range(1, len(seqs) + 1)):
            told = [one["event"].get("code") for one in mine if one["sessionId"] == session]
            assert "gap" in told

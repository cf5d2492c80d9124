"""kill -9 at any moment: what was there before is kept, and can be brought back."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from indusagi_lsp.contract import jsontext
from indusagi_lsp.contract.turns import ASSISTANT, ToolCallBlock, Turn
from unit.filehistory.rig import Played, tree

KILLS = 60 if os.environ.get("INDUSAGI_LONG") == "1" else 3
WRITER = Path(__file__).with_name("writer.py")


def killed(root: Path, mode: str, seconds: float) -> list[str]:
    """Run the writer, and kill it some time after its first word; what it said."""
    with subprocess.Popen([sys.executable, str(WRITER), str(root), mode], stdout=subprocess.PIPE, text=True) as process:
        said = [process.stdout.readline().strip()]
        time.sleep(seconds)
        process.send_signal(signal.SIGKILL)
        return said + process.stdout.read().split()


def replay(root: Path) -> tuple[Played, str]:
    """The session as it is known afterwards: every call of the journal, in one line; and its first node."""
    played = Played(root)
    start = played.say()
    for line in (root / ".indusagi/files/journal.jsonl").read_bytes().split(b"\n"):
        if line.startswith((b'{"type":"begin"', b'{"type":"watch"')):
            try:
                call = jsontext.loads(line)["call"]
            except ValueError:
                continue
            if call:
                played.graph.append(Turn(ASSISTANT, (ToolCallBlock(call, "edit", {}),)), created_at=0)
    return played, start


@pytest.fixture
def memory_root(root):
    """In memory where that can be had: then the writer gets further, and is killed at more places."""
    if not os.path.isdir("/dev/shm"):
        yield root
        return
    folder = Path(f"/dev/shm/indusagi-test-{os.getpid()}")
    folder.mkdir()
    yield folder
    shutil.rmtree(folder)


@pytest.mark.parametrize("mode", ["edit", "restore"])
@pytest.mark.parametrize("seed", range(KILLS))
async def test_everything_can_be_undone_after_a_kill(memory_root, mode, seed):
    root = memory_root
    setup = Played(root)
    setup.write("a.txt", "mine\r\n")
    setup.write("f3.txt", "mine too")
    (root / "f3.txt").chmod(0o751)
    setup.write("d/0.txt", "zero")
    setup.write("other.txt", "never touched")
    before = tree(root)
    said = killed(root, mode, random.Random(seed).random() * 0.15)
    assert said

    played, start = replay(root)
    plan = await played.plan(start)
    # Of files that were just being made, it is not told whether anybody has changed their modes since.
    asked = {item.path: "restore" for item in plan.items if item.why}
    assert {item.why for item in plan.items} <= {(), ("unfinished",)}
    assert all(item.action == "remove" for item in plan.items if item.why)
    assert len(asked) <= 6
    assert {item.problem for item in plan.items} <= {""}
    await played.history.apply(plan, asked)
    # What a killed writer leaves beside a file is not part of the promise, and is known by its name.
    left = {path: one for path, one in tree(root).items() if not path.endswith(".tmp")}
    assert left == before
    assert not (await played.plan(start)).items


async def test_a_command_whose_server_was_killed_is_found(root):
    setup = Played(root)
    setup.write("a.txt", "mine")
    killed(root, "command", 0)
    played, start = replay(root)
    assert not (await played.plan(start)).items
    await played.history.settle(still_running=False)
    plan = await played.plan(start)
    assert [(item.path, item.why) for item in plan.items] == [("a.txt", ("command",))]
    await played.history.apply(plan, {"a.txt": "restore"})
    assert played.read("a.txt") == b"mine"
    await played.history.settle(still_running=False)
    assert not (await played.plan(start)).items


@pytest.mark.parametrize("cut", [1, 20, 100])
async def test_a_torn_journal_loses_its_last_line_alone(root, cut):
    played = Played(root)
    played.write("a.txt", "0")
    start = played.say()
    await played.edit({"a.txt": b"1"})
    await played.edit({"b.txt": b"b"})
    journal = root / ".indusagi/files/journal.jsonl"
    data = journal.read_bytes()
    journal.write_bytes(data[:-cut])
    again = Played(root)
    again.graph, again._calls = played.graph, played._calls
    assert [item.path for item in (await again.plan(start)).items] == ["a.txt", "b.txt"]
    await again.edit({"c.txt": b"c"})
    await again.restore(start, **{"b.txt": "restore"})
    assert set(tree(root)) == {"a.txt"}

"""Fifty sessions at once: every run ends once, and afterwards no descriptor, thread or task is left."""

from __future__ import annotations

import asyncio
import gc
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from indusagi_lsp.contract.events import TERMINAL
from unit.workspace.rig import HostsRig

SESSIONS = 50
PROMPTS = 2
CALLS = [
    {"name": "read_file", "input": {"path": "a.txt"}},
    {"name": "list_files", "input": {}},
    {"name": "write_file", "input": {"path": "made.txt", "content": "written\n"}},
]


def held() -> tuple[int, int, int]:
    """Descriptors, threads and tasks of this process; a session that nobody has any more gives its file back."""
    gc.collect()
    return len(os.listdir("/proc/self/fd")), threading.active_count(), len(asyncio.all_tasks())


async def crowd(tmp_path: Path, sessions: int) -> None:
    """Hosts from their start to their end, with so many sessions that all talk at once."""
    rig = HostsRig(tmp_path, [{"calls": CALLS}, "An answer."], loop=True)
    await rig.folder()
    await rig.hosts.configure({"approvals": "acceptEdits"})
    (tmp_path / "ws" / "a.txt").write_text("hello\n")
    names = [await rig.new() for _ in range(sessions)]

    async def talk(session: str) -> None:
        for number in range(PROMPTS):
            final = await rig.say(session, f"prompt {number}")
            assert final.phase == "settled", final.error

    await asyncio.gather(*map(talk, names))
    for session in names:
        events = rig.outlet.of(session)
        assert sum(isinstance(event, TERMINAL) for event in events) == PROMPTS
        started, finished = ([e.id for e in events if e.kind == kind] for kind in ("tool_started", "tool_finished"))
        assert sorted(started) == sorted(finished)
        numbers = [seq for _, name, _, seq, _ in rig.outlet.events if name == session]
        assert numbers == list(range(1, len(numbers) + 1))
    await rig.hosts.shutdown()


async def compare(folder: Path) -> None:
    """A small crowd, then a large one, and what each leaves."""
    # What is imported, and the threads that serve the loop, are there once and for all after the first few.
    await asyncio.gather(*(asyncio.to_thread(threading.Event().wait, 0.05) for _ in range(32)))
    for name in ("warm", "crowd"):
        (folder / name).mkdir()
    await crowd(folder / "warm", 2)
    before = held()
    await crowd(folder / "crowd", SESSIONS)
    after = held()
    assert all(abs(now - then) <= 2 for now, then in zip(after, before, strict=True)), (before, after)


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="needs /proc to count descriptors")
@pytest.mark.timeout(180)
def test_fifty_sessions_at_once_leave_nothing_behind(tmp_path: Path) -> None:
    # In a process of its own: what other tests have left behind comes and goes while it counts.
    done = subprocess.run(
        [sys.executable, __file__, str(tmp_path)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=150,
        check=False,
    )
    assert done.returncode == 0, done.stderr


if __name__ == "__main__":
    asyncio.run(compare(Path(sys.argv[1])))

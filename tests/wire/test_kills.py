"""However and whenever it ends, no process stays behind: those of commands, in the foreground and behind it, included.

200 ends are the long run's: INDUSAGI_LONG=1.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import sys
from pathlib import Path

import pytest

from wire.wire_client import WireClient

ENDS = 200 if os.environ.get("INDUSAGI_LONG") == "1" else 4
WAYS = ("eof", "term", "editor", "exit")
COMMAND = {
    "name": "run_command",
    "input": {"command": "sleep 300 & (setsid sleep 300 &) ; echo begun > begun; sleep 300"},
}

START = (
    "import os, runpy, sys; os.chdir(sys.argv.pop(1)); sys.argv[0] = 'indusagi-lsp'; "
    "runpy.run_module('indusagi_lsp', run_name='__main__')"
)


def inside(folder: Path) -> list[str]:
    """The processes that work in a folder, with their commands."""
    found = []
    for place in Path("/proc").glob("[0-9]*"):
        try:
            if os.readlink(place / "cwd") == str(folder) and (place / "stat").read_text().rpartition(")")[2][1] != "Z":
                found.append(f"{place.name} {(place / 'cmdline').read_text()}")
        except OSError:
            continue
    return found


async def until(condition, limit: float) -> None:
    async with asyncio.timeout(limit):
        while not condition():  # noqa: ASYNC110 - the end of foreign processes tells no event
            await asyncio.sleep(0.05)


@pytest.mark.skipif(not Path("/proc/self/cwd").exists(), reason="processes are looked up in /proc")
@pytest.mark.timeout(ENDS * 40)
async def test_no_process_stays_behind(tmp_path: Path):
    maker = random.Random(7)
    folder, script = tmp_path / "ws", tmp_path / "script.json"
    folder.mkdir()
    script.write_text(json.dumps({"replies": [{"calls": [COMMAND], "repeat": True}]}))
    server = (sys.executable, "-c", START, str(folder))
    for number in range(ENDS):
        way = WAYS[number % len(WAYS)]
        editor = await asyncio.create_subprocess_exec("sleep", "600")
        wire = await WireClient.start(
            server, INDUSAGI_SCRIPTED_MODEL=str(script), INDUSAGI_LSP_HOME=str(tmp_path / "home")
        )
        try:
            await wire.initialize(
                processId=editor.pid,
                workspaceFolders=[{"uri": folder.as_uri(), "name": "ws"}],
                initializationOptions={"trusted": True},
            )
            wire.send(id=1, method="indusagi/session/new", params={})
            session = (await wire.response(1, 30))["result"]["id"]
            wire.send(id=2, method="indusagi/submit", params={"sessionId": session, "text": "go"})
            question = await wire.until("indusagi/approve", 30)
            wire.send(id=question["id"], result={"decision": "once"})
            if number % 8 < len(WAYS):
                await until((folder / "begun").exists, 30)
                (folder / "begun").unlink()
            await asyncio.sleep(maker.random() * 0.3)
            if way == "eof":
                wire.process.stdin.close()
            elif way == "exit":
                wire.send(method="exit")
            else:
                ended = wire.process if way == "term" else editor
                ended.send_signal(signal.SIGTERM)
            await wire.exit_code(20)
            await until(lambda: not inside(folder), 5)
        except TimeoutError:
            pytest.fail(f"after {way!r} ({number}) there are: {inside(folder)}")
        finally:
            for process in (editor, wire.process):
                if process.returncode is None:
                    process.kill()
            wire.process.stdin.close()
            await wire.process.communicate()
            await editor.wait()

"""The way back as a client takes it: a real task in a small repository, done by a model and undone by the user."""

from __future__ import annotations

import asyncio
import os
import sys
import threading

import pytest

from indusagi_lsp.contract.errors import InvalidInput, InvalidState, NodeNotFound
from indusagi_lsp.contract.events import QueueChanged, RunStarted
from indusagi_lsp.protocol import operations as o
from unit.filehistory.rig import tree
from unit.workspace.rig import HostsRig

BROKEN = "def add(a, b):\r\n    return a - b\r\n"
TEST = (
    "from calc import add\n\nopen('report.txt', 'w').write(str(add(1, 2)))\n"
    "assert add(1, 2) == 3, add(1, 2)\nprint('passed')\n"
)


def calls(name, **arguments):
    return {"calls": [{"name": name, "input": arguments}]}


RUN = calls("run_command", command=f"{sys.executable} -B test_calc.py")
TASK = [
    calls("read_file", path="calc.py"),
    RUN,
    calls("edit_file", path="calc.py", edits=[{"old_text": "a - b", "new_text": "a + b"}]),
    calls("write_file", path="notes/why.md", content="minus was wrong\n"),
    RUN,
    "Fixed.",
]


@pytest.fixture
async def rig(tmp_path):
    rig = HostsRig(tmp_path, [*TASK, "Again.", *TASK])
    await rig.folder()
    folder = tmp_path / "ws"
    (folder / "calc.py").write_bytes(BROKEN.encode())
    (folder / "calc.py").chmod(0o640)
    (folder / "test_calc.py").write_text(TEST, "utf-8")
    (folder / ".gitignore").write_text("__pycache__/\n")
    yield rig
    await rig.hosts.shutdown()


async def outputs(rig, session):
    view = await rig.call(o.RESUME, sessionId=session)
    return [block["output"] for turn in view.turns for block in turn.blocks if block["kind"] == "tool_result"]


async def test_a_task_is_undone_by_going_back_to_the_first_node(rig, tmp_path):
    folder = tmp_path / "ws"
    before = tree(folder)
    session = await rig.new()
    final = await rig.say(session, "Make the test pass.")
    told = await outputs(rig, session)
    assert "AssertionError" in told[1]
    assert "passed" in told[4]
    after = tree(folder)
    assert after["calc.py"][0] == BROKEN.replace("-", "+").encode()
    assert after["report.txt"][0] == b"3"

    found = await rig.call(o.FILES_CHANGES, sessionId=session)
    assert [(file.path, file.kind, file.by) for file in found.files] == [
        ("calc.py", "changed", "edit"),
        ("notes/why.md", "made", "edit"),
        ("report.txt", "made", "command"),
    ]
    assert [len(file.calls) for file in found.files] == [1, 1, 2]

    first = (await rig.call(o.RESUME, sessionId=session)).turns[0].id
    plan = await rig.call(o.FILES_RESTORE, sessionId=session, node=first, preview=True)
    assert [(file.path, file.action, file.conflicts) for file in plan.files] == [
        ("calc.py", "restore", []),
        ("notes/why.md", "remove", []),
        ("report.txt", "remove", ["command"]),
    ]
    assert "-    return a + b" in plan.files[0].diff
    assert not plan.applied
    assert tree(folder) == after

    await rig.call(o.RESUME, sessionId=session, node=first)
    done = await rig.call(
        o.FILES_RESTORE, sessionId=session, node=first, token=plan.token, choices={"report.txt": "restore"}
    )
    assert (done.restored, done.kept) == (["calc.py", "notes/why.md", "report.txt"], [])
    assert tree(folder) == before
    assert not (folder / "notes").exists()

    # And back: by undoing the restore, or by going to where the work was done.
    undone = await rig.call(o.FILES_RESTORE, sessionId=session, undo=done.restore)
    assert undone.kept == []
    assert tree(folder) == after
    await rig.call(o.FILES_RESTORE, sessionId=session, node=first)
    assert "notes/why.md" not in tree(folder)
    await rig.call(o.FILES_RESTORE, sessionId=session, node=final.leaf)
    assert tree(folder) == after


async def test_it_all_holds_after_a_restart_and_in_a_fork(rig, tmp_path):
    folder = tmp_path / "ws"
    before = tree(folder)
    session = await rig.new()
    await rig.say(session, "Make the test pass.")
    first = (await rig.call(o.RESUME, sessionId=session)).turns[0].id
    await rig.hosts.shutdown()
    rig.hosts = rig.again()
    await rig.folder()

    fork = await rig.call(o.FORK, sessionId=session, node=first, newSession=True)
    plan = await rig.call(o.FILES_RESTORE, sessionId=fork.session_id, node=first, before=True, preview=True)
    assert [file.path for file in plan.files] == ["calc.py", "notes/why.md", "report.txt"]
    choices = {file.path: "restore" for file in plan.files}
    await rig.call(
        o.FILES_RESTORE, sessionId=fork.session_id, node=first, before=True, token=plan.token, choices=choices
    )
    assert tree(folder) == before


async def test_what_is_asked_wrongly_changes_nothing(rig, tmp_path):
    folder = tmp_path / "ws"
    session = await rig.new()
    await rig.say(session, "Make the test pass.")
    first = (await rig.call(o.RESUME, sessionId=session)).turns[0].id
    after = tree(folder)
    with pytest.raises(InvalidInput):
        await rig.call(o.FILES_RESTORE, sessionId=session)
    with pytest.raises(NodeNotFound):
        await rig.call(o.FILES_RESTORE, sessionId=session, node="nope")
    with pytest.raises(InvalidInput):
        await rig.call(o.FILES_RESTORE, sessionId=session, node=first, choices={"report.txt": "restore"})
    with pytest.raises(InvalidState):
        await rig.call(o.FILES_RESTORE, sessionId=session, node=first, token="stale")
    assert tree(folder) == after
    await rig.folder(trusted=False)
    with pytest.raises(InvalidState):
        await rig.call(o.FILES_RESTORE, sessionId=session, node=first)
    assert (await rig.call(o.FILES_RESTORE, sessionId=session, node=first, preview=True)).files
    assert tree(folder) == after


@pytest.mark.parametrize("cancelled", [False, True])
async def test_a_prompt_waits_for_the_end_of_a_restore(rig, tmp_path, monkeypatch, cancelled):
    session = await rig.new()
    await rig.say(session, "Make the test pass.")
    first = (await rig.call(o.RESUME, sessionId=session)).turns[0].id
    files = next(iter(rig.hosts._hosts.values())).files
    apply = files._apply
    begun, go_on, order = threading.Event(), threading.Event(), []

    def slowly(*arguments):
        begun.set()
        assert go_on.wait(60)
        done = apply(*arguments)
        order.append("restored")
        return done

    monkeypatch.setattr(files, "_apply", slowly)
    restoring = asyncio.create_task(rig.call(o.FILES_RESTORE, sessionId=session, node=first))
    await asyncio.to_thread(begun.wait, 60)
    if cancelled:
        restoring.cancel()
    seen = len(rig.outlet.of(session))

    def news():
        return [event for event in rig.outlet.of(session)[seen:] if isinstance(event, (QueueChanged, RunStarted))]

    saying = asyncio.create_task(rig.say(session, "Again?"))
    async with asyncio.timeout(60):
        while not news():  # noqa: ASYNC110 - what is waited for is an event of the host
            await asyncio.sleep(0)
    assert news() == [QueueChanged(1)]
    with pytest.raises(InvalidState):
        await rig.call(o.FILES_RESTORE, sessionId=session, node=first)
    go_on.set()
    if cancelled:
        with pytest.raises(asyncio.CancelledError):
            await restoring
    else:
        assert (await restoring).restored == ["calc.py", "notes/why.md"]
    assert order == ["restored"]
    assert (await saying).phase == "settled"
    assert (tmp_path / "ws/calc.py").read_bytes() == BROKEN.encode()


async def test_what_a_file_would_hold_can_be_looked_at(rig, tmp_path):
    session = await rig.new()
    await rig.say(session, "Make the test pass.")
    first = (await rig.call(o.RESUME, sessionId=session)).turns[0].id
    where = {"sessionId": session, "node": first}
    assert (await rig.call(o.FILES_CONTENT, path="calc.py", **where)).text == BROKEN
    assert (await rig.call(o.FILES_CONTENT, path="notes/why.md", **where)).text is None
    for path in ("test_calc.py", "../home/state/key", "/etc/passwd", ".indusagi/files/journal.jsonl"):
        with pytest.raises(InvalidInput):
            await rig.call(o.FILES_CONTENT, path=path, **where)
    done = await rig.call(o.FILES_RESTORE, **where)
    undo = {"sessionId": session, "undo": done.restore}
    assert (await rig.call(o.FILES_CONTENT, path="calc.py", **undo)).text == BROKEN.replace("-", "+")


async def test_old_contents_go_with_the_last_session_that_could_need_them(rig, tmp_path):
    session = await rig.new()
    final = await rig.say(session, "Make the test pass.")
    first = (await rig.call(o.RESUME, sessionId=session)).turns[0].id
    fork = await rig.call(o.FORK, sessionId=session, node=first, newSession=True)
    kept = tmp_path / "ws/.indusagi/files"

    async def collect(**params):
        for path in kept.iterdir():
            os.utime(path, (0, 0))
        return (await rig.call(o.BLOB_COLLECT, **params)).contents

    await rig.call(o.FILES_RESTORE, sessionId=session, node=first)
    assert await collect() == 2  # how the folder was before the two commands, which have ended
    plan = await rig.call(o.FILES_RESTORE, sessionId=session, node=final.leaf, preview=True)
    assert [(file.path, file.problem) for file in plan.files] == [("calc.py", ""), ("notes/why.md", "")]
    before = len(list(kept.iterdir()))
    await rig.call(o.SESSION_DELETE, sessionId=session)
    await rig.call(o.SESSION_DELETE, sessionId=fork.session_id)
    await rig.hosts.shutdown()
    rig.hosts = rig.again()  # what commands found last is needed by the server that ran them
    await rig.folder()
    told = await collect(dryRun=True)
    assert told > 0
    assert len(list(kept.iterdir())) == before
    assert await collect() == told
    assert [path.name for path in kept.iterdir() if len(path.name) == 64] == []

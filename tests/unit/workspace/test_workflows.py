"""Workflows as a client meets them: listing, running, asking, resuming, cancelling, and whom they are kept from."""

from __future__ import annotations

import asyncio
import stat
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from indusagi_lsp.contract.errors import InvalidInput, InvalidState
from indusagi_lsp.protocol import operations as o
from unit.workspace.rig import HostsRig

ASK = """
title = "Ask twice"
[inputs]
topic = "tests"

[steps.plan]
prompt = "Plan {{ topic }}"

[steps.again]
prompt = "More about: {{ plan.output }}"
session = "{{ plan.session }}"
needs = ["plan"]

[steps.own]
prompt = "Beside it"
needs = ["plan"]
"""

WRITE = """
[steps.write]
tool = "write_file"
input = { path = "out.txt", content = "written" }

[steps.read]
tool = "read_file"
input = { path = "out.txt" }
needs = ["write"]
"""

MARK = """
from pathlib import Path

WORKFLOW = {{"steps": {{"mark": {{"callable": "mark"}}}}}}
Path({marker!r}).write_text("the file was run")

def mark(context):
    context.progress("marking")
    return {{"marked": True}}
"""


@pytest.fixture
async def rig(tmp_path: Path) -> AsyncIterator[HostsRig]:
    rig = HostsRig(tmp_path, ["one", "two", "three"], loop=True)
    yield rig
    await rig.hosts.shutdown()


def own(rig: HostsRig, name: str, text: str) -> Path:
    return put(rig.tmp_path / "home/config/workflows", name, text)


def theirs(rig: HostsRig, name: str, text: str) -> Path:
    return put(rig.tmp_path / "ws/.indusagi/workflows", name, text)


def put(folder: Path, name: str, text: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    path.write_text(text, "utf-8")
    return path


async def test_prompts_run_in_sessions_of_their_own_or_a_given_one(rig: HostsRig) -> None:
    uri = await rig.folder()
    own(rig, "ask.toml", ASK)
    done = await rig.call(o.WORKFLOW_RUN, name="ask", inputs={"topic": "docs"}, executionId="e1")
    assert (done.state, done.execution_id, done.workspace, done.error) == ("done", "e1", uri, "")
    steps = {step.id: step for step in done.steps}
    assert (steps["plan"].output, steps["plan"].status) == ("one", "ok")
    assert steps["again"].session == steps["plan"].session != steps["own"].session

    view = await rig.call(o.RESUME, sessionId=steps["plan"].session)
    said = [turn.blocks[0]["text"] for turn in view.turns if turn.role == "user"]
    assert said == ["Plan docs", "More about: one"]
    assert view.session.title == "ask: plan"

    told = [(one.kind, one.step, one.status) for one in rig.outlet.workflows]
    assert told[:3] == [("started", None, ""), ("step_started", "plan", ""), ("step_finished", "plan", "ok")]
    assert told[-1] == ("finished", None, "done")
    assert (rig.outlet.workflows[-1].completed, rig.outlet.workflows[-1].total) == (3, 3)

    listed = await rig.call(o.WORKFLOW_LIST)
    assert [(one.name, one.title, one.origin, one.problem) for one in listed.workflows] == [
        ("ask", "Ask twice", "user", "")
    ]
    assert [(step.id, step.kind, step.needs) for step in listed.workflows[0].steps][1] == ("again", "prompt", ["plan"])
    assert [(one.execution_id, one.state, one.steps) for one in listed.executions] == [("e1", "done", [])]


async def test_tools_pass_the_approver(rig: HostsRig) -> None:
    await rig.folder()
    own(rig, "write.toml", WRITE)
    rig.outlet.decision = "deny"
    done = await rig.call(o.WORKFLOW_RUN, name="write", executionId="e1")
    assert done.state == "failed"
    assert not (rig.tmp_path / "ws/out.txt").exists()

    rig.outlet.decision = "once"
    done = await rig.call(o.WORKFLOW_RESUME, executionId="e1")
    assert (done.state, done.completed) == ("done", ["write", "read"])
    assert "written" in done.steps[1].output
    assert [question.tool for question in rig.outlet.questions] == ["write_file", "write_file"]
    with pytest.raises(InvalidState, match="nothing to resume"):
        await rig.call(o.WORKFLOW_RESUME, executionId="e1")


async def test_nothing_of_an_untrusted_folder_is_read_or_run(rig: HostsRig) -> None:
    await rig.folder(trusted=False)
    marker = rig.tmp_path / "marker"
    theirs(rig, "mark.py", MARK.format(marker=str(marker)))
    theirs(rig, "bad.toml", "no toml")
    listed = await rig.call(o.WORKFLOW_LIST)
    assert [(one.name, one.steps) for one in listed.workflows] == [("bad", []), ("mark", [])]
    assert all("not trusted" in one.problem for one in listed.workflows)
    with pytest.raises(InvalidInput, match="not trusted"):
        await rig.call(o.WORKFLOW_RUN, name="mark")
    assert not marker.exists()

    # The user's own workflow runs there, and can do no more than the folder's trust allows.
    own(rig, "write.toml", WRITE)
    done = await rig.call(o.WORKFLOW_RUN, name="write")
    assert (done.state, rig.outlet.questions) == ("failed", [])
    assert not (rig.tmp_path / "ws/out.txt").exists()


async def test_a_trusted_python_file_is_run_by_running_it_and_not_by_listing(rig: HostsRig) -> None:
    await rig.folder()
    marker = rig.tmp_path / "marker"
    path = theirs(rig, "mark.py", MARK.format(marker=str(marker)))
    listed = await rig.call(o.WORKFLOW_LIST)
    assert [(one.name, one.origin, one.problem) for one in listed.workflows] == [("mark", "workspace", "")]
    assert not marker.exists()
    done = await rig.call(o.WORKFLOW_RUN, name="mark")
    assert (done.state, done.steps[0].output) == ("done", {"marked": True})
    assert marker.exists()
    assert [one.text for one in rig.outlet.workflows if one.kind == "step_progress"] == ["marking"]
    assert not (path.parent / "__pycache__").exists()


async def test_a_workspace_cannot_take_the_name_of_the_users_own(rig: HostsRig) -> None:
    await rig.folder()
    own(rig, "ask.toml", ASK)
    marker = rig.tmp_path / "marker"
    theirs(rig, "ask.py", MARK.format(marker=str(marker)))
    listed = await rig.call(o.WORKFLOW_LIST)
    assert [(one.origin, bool(one.problem)) for one in listed.workflows] == [("user", False), ("workspace", True)]
    assert (await rig.call(o.WORKFLOW_RUN, name="ask")).state == "done"
    assert not marker.exists()


async def test_a_link_leads_no_workflow_out_of_the_workspace(rig: HostsRig) -> None:
    await rig.folder()
    outside = put(rig.tmp_path / "outside", "ask.toml", ASK)
    theirs(rig, "real.toml", ASK)
    (rig.tmp_path / "ws/.indusagi/workflows/linked.toml").symlink_to(outside)
    listed = await rig.call(o.WORKFLOW_LIST)
    assert [(one.name, bool(one.problem)) for one in listed.workflows] == [("linked", True), ("real", False)]


async def test_a_bad_file_is_told_with_its_place_and_hides_no_other(rig: HostsRig) -> None:
    await rig.folder()
    own(rig, "ask.toml", ASK)
    path = own(rig, "broken.toml", '[steps.a]\nprompt = "x"\nneeds = ["b"]\n')
    listed = await rig.call(o.WORKFLOW_LIST)
    problems = {one.name: one.problem for one in listed.workflows}
    assert problems["ask"] == ""
    assert problems["broken"] == f'{path}, step "a": it needs "b", which is no step; there are: none.'
    with pytest.raises(InvalidInput, match='step "a"'):
        await rig.call(o.WORKFLOW_RUN, name="broken")
    with pytest.raises(InvalidInput, match="There is no workflow 'nothing'"):
        await rig.call(o.WORKFLOW_RUN, name="nothing")


async def test_an_execution_is_cancelled_and_resumed(rig: HostsRig, tmp_path: Path) -> None:
    rig.script.write_text('{"replies": [{"match": "slow", "text": "x", "wait": 60}, {"text": "ok", "repeat": true}]}')
    await rig.folder()
    own(rig, "slow.toml", '[steps.a]\nprompt = "quick"\n[steps.b]\nprompt = "slow"\nneeds = ["a"]\n')
    task = asyncio.create_task(rig.call(o.WORKFLOW_RUN, name="slow", executionId="e1"))
    await until(rig, "step_started", "b")
    with pytest.raises(InvalidState, match="goes on"):
        await rig.call(o.WORKFLOW_RESUME, executionId="e1")
    assert (await rig.call(o.WORKFLOW_LIST)).executions[0].state == "running"
    assert (await rig.call(o.WORKFLOW_CANCEL, executionId="e1")).cancelled
    stopped = await task
    assert (stopped.state, stopped.completed, stopped.unknown) == ("cancelled", ["a"], ["b"])

    # After a restart it is asked about before what may have been done is done again.
    await rig.hosts.shutdown()
    rig.script.write_text('{"replies": [{"text": "ok", "repeat": true}]}')
    rig.hosts = rig.again()
    await rig.folder()
    rig.outlet.decision = "deny"
    waiting = await rig.call(o.WORKFLOW_RESUME, executionId="e1")
    assert (waiting.state, waiting.unknown) == ("waiting", ["b"])
    rig.outlet.decision = "once"
    done = await rig.call(o.WORKFLOW_RESUME, executionId="e1")
    assert (done.state, done.completed) == ("done", ["a", "b"])
    assert not (await rig.call(o.WORKFLOW_CANCEL, executionId="e1")).cancelled
    with pytest.raises(InvalidInput, match="no execution 'e2'"):
        await rig.call(o.WORKFLOW_CANCEL, executionId="e2")


async def test_another_window_sees_it_and_can_cancel_it(rig: HostsRig) -> None:
    rig.script.write_text('{"replies": [{"text": "x", "wait": 60}]}')
    await rig.folder()
    own(rig, "slow.toml", '[steps.a]\nprompt = "slow"\n')
    task = asyncio.create_task(rig.call(o.WORKFLOW_RUN, name="slow", executionId="e1"))
    await until(rig, "step_started", "a")
    first, rig.hosts = rig.hosts, rig.again()
    try:
        await rig.folder()
        assert (await rig.call(o.WORKFLOW_LIST)).executions[0].state == "running"
        with pytest.raises(InvalidState, match="goes on"):
            await rig.call(o.WORKFLOW_RESUME, executionId="e1")
        assert (await rig.call(o.WORKFLOW_CANCEL, executionId="e1")).cancelled
        assert (await task).state == "cancelled"
    finally:
        await first.shutdown()


async def test_a_shutdown_leaves_an_execution_that_can_be_given_up(rig: HostsRig) -> None:
    rig.script.write_text('{"replies": [{"text": "x", "wait": 60}]}')
    await rig.folder()
    own(rig, "slow.toml", '[steps.a]\nprompt = "slow"\n')
    task = asyncio.create_task(rig.call(o.WORKFLOW_RUN, name="slow", executionId="e1"))
    await until(rig, "step_started", "a")
    await rig.hosts.shutdown()
    assert (await task).state == "interrupted"

    rig.hosts = rig.again()
    await rig.folder()
    assert (await rig.call(o.WORKFLOW_LIST)).executions[0].state == "interrupted"
    assert (await rig.call(o.WORKFLOW_CANCEL, executionId="e1")).cancelled
    assert (await rig.call(o.WORKFLOW_LIST)).executions[0].state == "cancelled"


async def test_checkpoints_are_outside_the_workspace_and_of_one_folder(rig: HostsRig) -> None:
    await rig.folder()
    own(rig, "ask.toml", ASK)
    await rig.call(o.WORKFLOW_RUN, name="ask", executionId="e1")
    assert not list((rig.tmp_path / "ws/.indusagi").rglob("*checkpoint*"))
    state = rig.tmp_path / "home/state/workflows"
    files = [path for path in state.rglob("*") if path.is_file()]
    assert files
    assert all(stat.S_IMODE(path.stat().st_mode) == 0o600 for path in files)

    other = await rig.folder("other")
    assert (await rig.call(o.WORKFLOW_LIST, workspace=other)).executions == []
    # An execution is found in the folder that it belongs to.
    with pytest.raises(InvalidState, match="nothing to resume"):
        await rig.call(o.WORKFLOW_RESUME, executionId="e1")


async def test_a_planted_checkpoint_is_not_resumed(rig: HostsRig) -> None:
    await rig.folder()
    own(rig, "ask.toml", ASK)
    await rig.call(o.WORKFLOW_RUN, name="ask", executionId="e1")
    (path,) = (rig.tmp_path / "home/state/workflows").rglob("*.json")
    path.write_text(path.read_text("utf-8").replace("one", "two"), "utf-8")
    assert (await rig.call(o.WORKFLOW_LIST)).executions == []
    with pytest.raises(InvalidInput, match="no execution"):
        await rig.call(o.WORKFLOW_RESUME, executionId="e1")


async def until(rig: HostsRig, kind: str, step: str) -> Any:
    for _ in range(1000):
        for one in rig.outlet.workflows:
            if (one.kind, one.step) == (kind, step):
                return one
        await asyncio.sleep(0.01)
    raise AssertionError(f"{kind} of {step} was not told")

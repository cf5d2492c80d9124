"""The examples of docs/workflows.md run, and its tables name what there is."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest

from indusagi_lsp.protocol import operations as o
from indusagi_lsp.workflows import Step
from unit.workspace.rig import HostsRig

TEXT = (Path(__file__).parents[3] / "docs/workflows.md").read_text("utf-8")
EXAMPLES = dict(re.findall(r"<!-- example (\S+) -->\n```\w+\n(.*?)```\n<!-- /example -->", TEXT, re.DOTALL))


@pytest.fixture
async def rig(tmp_path: Path) -> AsyncIterator[HostsRig]:
    rig = HostsRig(tmp_path, ["What was said."], loop=True)
    folder = tmp_path / "home/config/workflows"
    folder.mkdir(parents=True)
    for name, text in EXAMPLES.items():
        (folder / name).write_text(text, "utf-8")
    await rig.folder()
    yield rig
    await rig.hosts.shutdown()


async def test_the_examples_are_right(rig: HostsRig) -> None:
    listed = await rig.call(o.WORKFLOW_LIST)
    assert [(one.name, one.problem) for one in listed.workflows] == [("release", ""), ("tidy", "")]


async def test_the_release_runs(rig: HostsRig) -> None:
    done = await rig.call(o.WORKFLOW_RUN, name="release", inputs={"version": "2.0"})
    assert (done.state, done.error) == ("done", "")
    assert (rig.tmp_path / "ws/VERSION").read_text() == "2.0"
    assert rig.outlet.questions[0].action.splitlines()[0] == "Release 2.0 with 3 files?"
    assert "What was said." in rig.outlet.questions[0].action

    again = await rig.call(o.WORKFLOW_RUN, name="release", inputs={"version": "2.1", "skip_notes": True})
    assert (again.state, {step.id: step.status for step in again.steps}["notes"]) == ("done", "skipped")


async def test_the_tidying_runs(rig: HostsRig) -> None:
    done = await rig.call(o.WORKFLOW_RUN, name="tidy")
    steps = {step.id: step for step in done.steps}
    assert (done.state, steps["act"].session) == ("done", steps["plan"].session)


def test_every_field_of_a_step_is_in_the_tables() -> None:
    named = set(re.findall(r"^\| `(\w+)` \|", TEXT, re.MULTILINE))
    fields = {field.name for field in msgspec.structs.fields(Step)}
    # Three are told beside the field that they belong to.
    assert named == fields - {"input", "session", "model"}
    assert all(f"`{name}`" in TEXT for name in fields)

"""A workflow's process is killed at every step boundary and inside every step; no completed step runs twice."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from faults import workflow_worker as worker
from indusagi_lsp.checkpoints import CheckpointManager
from indusagi_lsp.contract.approvals import ApprovalRequest, Decision

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="there is no fork and no SIGKILL")


@pytest.mark.parametrize("kind", ["files", "sqlite"])
async def test_no_completed_step_is_repeated(kind: str, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, worker.__file__, kind, str(tmp_path)], capture_output=True, text=True, check=True, timeout=50
    )
    cases = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(cases) == 2 * (2 * len(worker.STEPS) + 3) + 2 * len(worker.STEPS)
    ends = Counter[str]()
    for case in cases:
        assert case["code"] == (0 if case["last"] else -signal.SIGKILL), case
        if not case["last"]:
            ends[await resumed(kind, case)] += 1
    # Every way of going on was met: nothing was begun, nothing was in doubt, something was.
    assert ends["nothing"] == 1
    assert ends["sure"] > 5
    assert ends["asked"] > 5


async def resumed(kind: str, case: dict[str, Any]) -> str:
    """Go on after the kill, as a careful person would; gives what had to be decided."""
    folder = Path(case["folder"])
    store = worker.open_store(kind, folder)
    manager = CheckpointManager(store)
    checkpoint = manager.load_checkpoint(worker.EXECUTION)
    if checkpoint is None:
        assert (case["number"], case["moment"]) == (1, "before")
        assert counts(folder) == {}
        store.close()
        return "nothing"

    before = counts(folder)
    completed = checkpoint.completed_step_ids
    # What is said to be completed was done, once; and nothing was done that was not announced.
    assert all(before[step] == 1 for step in completed)
    begun = set(checkpoint.context_state["metadata"]["begun"])
    assert set(before) <= completed | begun
    questions: list[ApprovalRequest] = []

    async def ask(request: ApprovalRequest) -> Decision:
        questions.append(request)
        # The marks tell a person what the checkpoint cannot.
        return "deny" if before[request.call_id] else "once"

    flow = worker.flow(folder, case["dying"], idempotent=case["idempotent"])
    state = checkpoint.context_state["metadata"]["state"]
    if state != "done":
        view = await worker.executor(manager, ask=ask).resume(flow, checkpoint)
        asked = {question.call_id for question in questions}
        if case["idempotent"]:
            assert asked == set()
            assert view.state == "done"
            twice = {step for step, number in counts(folder).items() if number != 1}
            assert {case["dying"]} <= twice <= begun
        else:
            assert asked <= begun
            again = [step for step, number in counts(folder).items() if step in before and number > 1]
            assert not again, f"repeated unasked: {again}, begun {begun}, asked {asked}, {case}"
            if view.state == "waiting":
                said = [step for step in view.unknown if before[step]]
                latest = manager.load_checkpoint(worker.EXECUTION)
                assert latest is not None
                view = await worker.executor(manager, ask=ask).resume(flow, latest, done=said)
            assert view.state == "done"
            assert counts(folder) == dict.fromkeys(worker.STEPS, 1)
    store.close()
    return "asked" if questions else "sure"


def counts(folder: Path) -> Counter[str]:
    """How often each step has made its mark; a file without one was made in the moment of the kill."""
    marks = {step: folder / step for step in worker.STEPS}
    return +Counter({step: len(path.read_bytes()) for step, path in marks.items() if path.exists()})

"""Runs a workflow again and again, each time in a process that is killed at another moment.

`workflow_worker.py STORE FOLDER` forks a child per moment, so that the imports are paid for once. The child runs the
workflow of `flow_text` and kills itself with SIGKILL before or after its n-th checkpoint, or in the middle of a step.
For each it prints one JSON line: the moment, and how the child ended.
"""

from __future__ import annotations

import ast
import asyncio
import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

from indusagi_lsp.checkpoints import CheckpointManager
from indusagi_lsp.contract.clock import SystemClock, new_uuid
from indusagi_lsp.memory import FileMemoryStore, MemoryStore, SqliteMemoryStore
from indusagi_lsp.workflows import ExecutorParts, Workflow, WorkflowExecutor, read_definition

STEPS = ("first", "left", "right", "last")
EXECUTION = "e1"


def flow_text(folder: Path, dying: str = "", *, idempotent: bool = False) -> str:
    """A Python workflow whose steps count their runs in files of `folder`; `dying` kills its process half-way."""
    needs = {"first": [], "left": ["first"], "right": ["first"], "last": ["left", "right"]}
    steps = {name: {"callable": name, "needs": needs[name], "idempotent": idempotent} for name in STEPS}
    functions = "".join(f"\n\ndef {name}(context):\n    return count({name!r})\n" for name in STEPS)
    return f"""
import os, signal

WORKFLOW = {{"steps": {steps!r}, "max_parallel": 2}}


def count(name):
    mark = os.open({str(folder)!r} + "/" + name, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.write(mark, b"x")
    os.close(mark)
    if name == {dying!r} and os.environ.get("DYING"):
        os.kill(os.getpid(), signal.SIGKILL)
    return name
{functions}"""


def flow(folder: Path, dying: str = "", *, idempotent: bool = False) -> Workflow:
    text = flow_text(folder, dying, idempotent=idempotent)
    tree = ast.parse(text)
    raw = next(
        ast.literal_eval(node.value)
        for node in tree.body
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and node.targets[0].id == "WORKFLOW"
    )
    return read_definition(
        raw, name="flow", place="flow.py", origin="user", source=text.encode(), functions=list(STEPS)
    )


def open_store(kind: str, folder: Path) -> MemoryStore:
    return FileMemoryStore(folder / "store") if kind == "files" else SqliteMemoryStore(folder / "store.db")


def executor(manager: CheckpointManager, **parts: Any) -> WorkflowExecutor:
    async def no_agent(*_: Any) -> Any:
        raise AssertionError("no step has a prompt")

    return WorkflowExecutor(manager, ExecutorParts(open_agent=no_agent, **parts), clock=SystemClock(), new_id=new_uuid)


class DyingManager(CheckpointManager):
    """Kills its process before or after its n-th save."""

    def __init__(self, store: MemoryStore, number: int, moment: str) -> None:
        super().__init__(store)
        self._left = number
        self._moment = moment

    def save_checkpoint(self, *arguments: Any, **more: Any) -> Any:
        self._left -= 1
        if self._left == 0 and self._moment == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        saved = super().save_checkpoint(*arguments, **more)
        if self._left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return saved


def one(kind: str, folder: Path, number: int, moment: str, dying: str, *, idempotent: bool) -> int:
    """Run it in a child; the child's end as `os.waitstatus_to_exitcode` gives it."""
    folder.mkdir()
    child = os.fork()
    if child == 0:
        code = 1
        try:
            os.environ["DYING"] = "1"
            runner = executor(DyingManager(open_store(kind, folder), number, moment))
            view = asyncio.run(runner.run(flow(folder, dying, idempotent=idempotent), execution_id=EXECUTION))
            code = 0 if view.state == "done" else 2
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def main() -> None:
    kind, root = sys.argv[1], Path(sys.argv[2])
    cases: list[tuple[int, str, str, bool]] = []
    # The beginning, two for each step, the end; one more shows that there are no others.
    saves = 2 * len(STEPS) + 2
    cases += [(number, moment, "", False) for number in range(1, saves + 2) for moment in ("before", "after")]
    cases += [(0, "", name, idempotent) for name in STEPS for idempotent in (False, True)]
    for place, (number, moment, dying, idempotent) in enumerate(cases):
        folder = root / str(place)
        code = one(kind, folder, number, moment, dying, idempotent=idempotent)
        case = {
            "folder": str(folder), "number": number, "moment": moment, "dying": dying,
            "idempotent": idempotent, "code": code, "last": number > saves,
        }  # fmt: skip
        sys.stdout.write(json.dumps(case) + "\n")


if __name__ == "__main__":
    main()

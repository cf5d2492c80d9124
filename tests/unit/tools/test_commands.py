"""`run_command`: what runs, what is told, and that nothing is left behind."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from indusagi_lsp.contract.errors import PathOutside, ToolFailed
from indusagi_lsp.contract.tools import Effect, PlannedCall, PlanningTool, ToolContext, ToolOutcome
from indusagi_lsp.tools import CommandJob, Jobs, PathGuard, RunCommand, command_tools
from indusagi_lsp.tools.policy import rules_of
from indusagi_lsp.tools.processes import Output, marked_processes

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="uses a POSIX shell")


@pytest.fixture
async def jobs() -> AsyncIterator[Jobs]:
    jobs = Jobs()
    yield jobs
    await jobs.close()


@pytest.fixture
def tool(guard: PathGuard, jobs: Jobs) -> RunCommand:
    return RunCommand(guard, jobs)


async def plan(tool: RunCommand, context: ToolContext | None = None, **arguments: Any) -> PlannedCall:
    return await tool.plan(arguments, context or ToolContext("s", "c"))


async def run(tool: RunCommand | CommandJob, context: ToolContext | None = None, **arguments: Any) -> ToolOutcome:
    return await tool.run(arguments, context or ToolContext("s", "c"))


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().split(")")[1].split()[0] != "Z"
    except OSError:
        return False


async def gone(pid: int) -> bool:
    for _ in range(100):
        if not alive(pid):
            return True
        await asyncio.sleep(0.02)
    return False


def git(root: Path, *arguments: str) -> None:
    subprocess.run(["git", *arguments], cwd=root, check=True)


def content(path: Path) -> str:
    return path.read_text() if path.exists() else ""


async def written(path: Path) -> str:
    for _ in range(500):
        text = content(path)
        if text.endswith("\n"):
            return text
        await asyncio.sleep(0.02)
    pytest.fail(f"{path.name} was never written")


async def test_output_and_exit_code_are_told(root: Path, tool: RunCommand) -> None:
    assert await run(tool, command="cat README.md; pwd") == ToolOutcome(
        f"# Sluice\n\nA small tool that counts boats.\n{root}\n[exit code 0]"
    )
    failed = await run(tool, command="echo no >&2; exit 3")
    assert failed == ToolOutcome("no\n[exit code 3]", is_error=True)
    assert (await run(tool, command="kill -9 $$")).output == "[ended by signal 9]"
    assert (await run(tool, command="pwd", folder="src")).output.startswith(str(root / "src"))


async def test_the_question_is_the_command_itself(tool: RunCommand) -> None:
    call = await plan(tool, command="rm -rf build", folder="src", timeout_seconds=7)
    assert call.action == "rm -rf build\n[for at most 7 s in src]"
    assert call.asks
    assert isinstance(tool, PlanningTool)
    assert tool.effects >= {Effect.EXECUTE, Effect.WRITE, Effect.NETWORK}


async def test_planning_runs_nothing(root: Path, tool: RunCommand) -> None:
    call = await plan(tool, command="touch made")
    assert not (root / "made").exists()
    await call.carry_out()
    assert (root / "made").exists()


async def test_it_gets_no_input_no_secret_and_no_pager(tool: RunCommand, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-canary-1")
    monkeypatch.setenv("MY_SECRET_THING", "sk-canary-2")
    monkeypatch.setenv("INDUSAGI_LSP_HOME", "sk-canary-3")
    monkeypatch.setenv("BOATS", "3")
    output = (await run(tool, command="cat; env")).output
    assert "sk-canary" not in output
    assert "BOATS=3" in output
    assert "PAGER=cat" in output


async def test_git_settings_of_the_workspace_run_nothing(root: Path, guard: PathGuard, jobs: Jobs) -> None:
    await asyncio.to_thread(shutil.rmtree, root / ".git")
    await asyncio.to_thread(git, root, "init", "-q")
    marker = root.parent / "ran"
    hostile = root.parent / "hostile.sh"
    hostile.write_text(f"#!/bin/sh\ntouch {marker}\n")
    hostile.chmod(0o755)
    for name in (
        "core.fsmonitor",
        "core.pager",
        "core.sshCommand",
        "core.editor",
        "credential.helper",
        "core.hooksPath",
    ):
        await asyncio.to_thread(git, root, "config", name, str(hostile))
    automatic = RunCommand(guard, jobs, rules=rules_of(("git status",)))
    call = await plan(automatic, command="git status --short")
    assert not call.asks
    assert "README.md" in (await call.carry_out()).output
    assert not marker.exists()


async def test_a_planted_program_is_not_what_runs_by_itself(
    root: Path, guard: PathGuard, jobs: Jobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    planted = root / "bin" / "ls"
    planted.parent.mkdir()
    planted.write_text("#!/bin/sh\ntouch ../planted; touch planted\n")
    planted.chmod(0o755)
    monkeypatch.setenv("PATH", f"{root}/bin:bin:.:{os.environ['PATH']}")
    call = await plan(RunCommand(guard, jobs, rules=rules_of(("ls",))), command="ls src")
    assert not call.asks
    assert "boats.py" in (await call.carry_out()).output
    assert not (root / "planted").exists()
    (root / "out").symlink_to("/etc")
    assert (await plan(RunCommand(guard, jobs, rules=rules_of(("ls",))), command="ls out")).asks


async def test_the_model_cannot_ask_for_more_time_than_there_is(guard: PathGuard, jobs: Jobs) -> None:
    tool = RunCommand(guard, jobs, seconds=0.5)
    call = await plan(tool, command="echo begun; sleep 60", timeout_seconds=3000)
    assert call.action.endswith("[for at most 0.5 s]")
    assert (await call.carry_out()).output.startswith("begun\n[ended after 1 s")


async def test_time_is_up(tool: RunCommand) -> None:
    began = time.monotonic()
    outcome = await run(tool, command="echo begun; sleep 60", timeout_seconds=1)
    assert outcome == ToolOutcome(
        "begun\n[ended after 1 s, since its time was over; what takes longer needs background]", is_error=True
    )
    assert time.monotonic() - began < 6


@pytest.mark.parametrize(
    "command",
    [
        "sleep 61 & echo $!",
        "(sleep 62 & echo $!) ",
        "sh -c 'trap \"\" TERM HUP; sleep 63' & echo $!",
        "setsid sleep 64 & echo $!",
        "nohup setsid sh -c 'echo $$; exec sleep 65' & sleep 0.3",
    ],
)
async def test_what_it_started_ends_with_it(tool: RunCommand, command: str) -> None:
    outcome = await run(tool, command=command)
    pid = int(outcome.output.split("\n")[0])
    assert await gone(pid)


async def test_cancelling_ends_everything(root: Path, tool: RunCommand) -> None:
    running = asyncio.create_task(run(tool, command="trap '' TERM; setsid sleep 66 & echo $! > pid; sleep 67"))
    await written(root / "pid")
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert await gone(int((root / "pid").read_text()))


async def test_cancelling_at_any_moment_leaves_nothing(root: Path, tool: RunCommand) -> None:
    for turns in range(40):
        running = asyncio.create_task(run(tool, command=f"echo $$ > pid{turns}; exec sleep 68"))
        await asyncio.sleep(turns / 2000)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
    await asyncio.sleep(0.1)
    started = [int(text) for turns in range(40) if (text := content(root / f"pid{turns}"))]
    assert all([await gone(pid) for pid in started])


async def test_output_is_streamed_while_it_runs(tool: RunCommand) -> None:
    seen: list[tuple[float, str]] = []
    context = ToolContext("s", "c", update=lambda text: seen.append((time.monotonic(), text)))
    await run(tool, context, command="echo one; sleep 0.6; echo two; printf '\\033[31mred\\033[0m'")
    assert "".join(text for _, text in seen) == "one\ntwo\nred"
    assert seen[-1][0] - seen[0][0] > 0.4


async def test_a_flood_is_capped_in_its_middle(tool: RunCommand) -> None:
    outcome = await run(tool, command="echo head; yes 'a line of noise' | head -c 30000000; echo; echo tail")
    assert len(outcome.output) < 1_000_000
    assert outcome.output.startswith("head\n")
    assert outcome.output.endswith("tail\n[exit code 0]")
    assert "characters left out" in outcome.output


async def test_progress_bars_and_bad_bytes_are_made_readable(tool: RunCommand) -> None:
    output = (await run(tool, command="printf '10%%\\r50%%\\rdone\\n\\377\\033]0;owned\\007x'")).output
    assert output == "done\n\ufffdx\n[exit code 0]"


@pytest.mark.parametrize("folder", ["..", "/etc", "link", ".indusagi", "../ws-evil"])
async def test_it_runs_inside_only(root: Path, tool: RunCommand, folder: str) -> None:
    (root / "link").symlink_to("/etc")
    with pytest.raises(PathOutside):
        await plan(tool, command="ls", folder=folder)


async def test_a_folder_that_was_swapped_after_the_question(root: Path, tool: RunCommand) -> None:
    call = await plan(tool, command="touch made", folder="src")
    (root / "src").rename(root / "old")
    (root / "src").symlink_to("/tmp")
    with pytest.raises(ToolFailed):
        await call.carry_out()


async def test_a_job_goes_on_in_the_background(root: Path, tool: RunCommand, jobs: Jobs) -> None:
    look = CommandJob(jobs)
    outcome = await run(tool, command="echo begun; sleep 30 & echo $! > pid; wait", background=True)
    assert outcome.output.startswith("[job 1 started")
    for _ in range(100):
        told = (await run(look, job=1)).output
        if "begun" in told and (root / "pid").exists():
            break
        await asyncio.sleep(0.02)
    assert told.startswith("begun\n[still running")
    assert (await run(look, job=1, stop=True)).output.startswith("begun\n[ended by signal")
    assert await gone(int((root / "pid").read_text()))
    with pytest.raises(ToolFailed, match="There is no job 7; there are: 1"):
        await run(look, job=7)
    assert look.effects == {Effect.READ}


async def test_closing_ends_the_jobs_and_there_are_not_too_many(root: Path, tool: RunCommand, jobs: Jobs) -> None:
    for number in range(8):
        await run(tool, command=f"echo $$ > pid{number}; exec sleep 40", background=True)
    with pytest.raises(ToolFailed, match="in the background already"):
        await run(tool, command="sleep 1", background=True)
    pids = [int(await written(root / f"pid{number}")) for number in range(8)]
    await jobs.close()
    assert all([await gone(pid) for pid in pids])
    assert jobs.running == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [({}, "missing required field"), ({"command": "a\0b"}, "NUL"), ({"command": "ls", "timeout_seconds": 0}, ">= 1")],
)
async def test_mistakes_are_explained(tool: RunCommand, arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ToolFailed, match=message):
        await plan(tool, **arguments)


async def test_nothing_is_left_of_many_calls(tool: RunCommand) -> None:
    await run(tool, command="true")
    before = len(os.listdir("/dev/fd"))
    for _ in range(10):
        await run(tool, command="sleep 5 & true")
    assert len(os.listdir("/dev/fd")) <= before
    assert await asyncio.to_thread(marked_processes, "") == []


def test_head_and_tail_join_where_nothing_is_left_out() -> None:
    output = Output(half=10)
    for piece in ("abc", "defghij", "klm", "nopqrst"):
        output.add(piece)
    assert output.text() == "abcdefghijklmnopqrst"
    output.add("uvwxyz" * 10)
    assert output.text().startswith("abcdefghij\n[… ")
    assert output.text().endswith("uvwxyz")


def test_the_command_tools(guard: PathGuard) -> None:
    assert [tool.spec.name for tool in command_tools(guard, Jobs())] == ["run_command", "command_job"]

"""The tools `run_command` and `command_job`: programs in the workspace, at once or in the background."""

from __future__ import annotations

import asyncio
import os
import shutil
from typing import TYPE_CHECKING, Annotated, Any

from msgspec import Meta

from indusagi_lsp.contract.errors import ToolFailed
from indusagi_lsp.contract.models import ToolSpec
from indusagi_lsp.contract.text import quoted, visible
from indusagi_lsp.contract.tools import Effect, PlannedCall, ToolContext, ToolOutcome
from indusagi_lsp.tools.arguments import Arguments, schema_of, validate_arguments
from indusagi_lsp.tools.base import Planning
from indusagi_lsp.tools.policy import Rule, judge
from indusagi_lsp.tools.processes import Finished, Program

if TYPE_CHECKING:
    from collections.abc import Mapping

    from indusagi_lsp.tools.guard import PathGuard

MAX_SECONDS = 3600
"""That a command in the background may take."""

FOREGROUND_SECONDS = 110.0
"""That any other may take: below the time that the dispatcher gives a call, so that what it wrote is still told."""

MAX_JOBS = 8
_SHELLS = ("/bin/bash", "/usr/bin/bash", "/bin/sh")


class RunCommandArguments(Arguments, frozen=True):
    """What `run_command` takes."""

    command: Annotated[str, Meta(min_length=1, max_length=20_000, description="Shell command. It gets no input.")]
    folder: Annotated[str, Meta(min_length=1, description="Where it runs, relative to the workspace root.")] = "."
    timeout_seconds: Annotated[int, Meta(ge=1, le=MAX_SECONDS, description="After this time it is ended.")] = 100
    background: Annotated[bool, Meta(description="Start it, and go on; see command_job.")] = False


class CommandJobArguments(Arguments, frozen=True):
    """What `command_job` takes."""

    job: Annotated[int, Meta(ge=1, description="Number that run_command gave.")]
    stop: Annotated[bool, Meta(description="End it.")] = False


class Jobs:
    """Commands in the background. Whoever makes the tools closes this, and every command ends with it."""

    def __init__(self) -> None:
        self._jobs: dict[int, tuple[str, Program, asyncio.Task[Finished]]] = {}
        self._made = 0

    def add(self, command: str, program: Program, seconds: float) -> int:
        """Take a running program; gives its number."""
        self._made += 1
        self._jobs[self._made] = (command, program, asyncio.create_task(program.finish(seconds)))
        return self._made

    @property
    def running(self) -> int:
        """How many have not ended."""
        return sum(program.running for _, program, _ in self._jobs.values())

    async def look(self, number: int, *, stop: bool) -> ToolOutcome:
        """What a job has written, and how it stands.

        Raises:
            ToolFailed: there is no such job.
        """
        if number not in self._jobs:
            known = ", ".join(map(str, self._jobs)) or "none"
            msg = f"There is no job {number}; there are: {known}."
            raise ToolFailed(msg)
        _, program, finishing = self._jobs[number]
        if stop and program.running:
            await program.end()
            await asyncio.wait([finishing])
        if finishing.done():
            return outcome(finishing.result())
        output = visible(program.output.text()).rstrip("\n")
        return ToolOutcome(f"{output}\n[still running, {program.seconds:.0f} s]".lstrip("\n"))

    async def close(self) -> None:
        """End every job."""
        tasks = [finishing for _, _, finishing in self._jobs.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._jobs.clear()


class RunCommand(Planning):
    """Runs a command in the workspace.

    Args:
        guard: decides where it may run.
        jobs: takes those that go on in the background.
        rules: of the user, for commands that need no question.
        environ: our environment.
        seconds: that a command in the foreground may take, whatever the model asks for.
    """

    # A command can do anything.
    effects = frozenset({Effect.READ, Effect.WRITE, Effect.EXECUTE, Effect.NETWORK})

    def __init__(
        self,
        guard: PathGuard,
        jobs: Jobs,
        *,
        rules: tuple[Rule, ...] = (),
        environ: Mapping[str, str] | None = None,
        seconds: float = FOREGROUND_SECONDS,
    ) -> None:
        self._guard = guard
        self._jobs = jobs
        self._rules = rules
        self._environ = os.environ if environ is None else environ
        self._seconds = seconds
        self.spec = ToolSpec(
            "run_command",
            "Run a shell command in the workspace and see what it writes, and its exit code. It gets no input, so it"
            " must not ask for any. Everything that it starts ends with it; what shall go on needs background.",
            schema_of(RunCommandArguments),
        )

    async def plan(self, arguments: Mapping[str, Any], context: ToolContext) -> PlannedCall:
        """Fix what would run, and whether it needs a question.

        Args:
            arguments: as `RunCommandArguments`.
            context: is told what the command writes.

        Raises:
            ToolFailed: the folder lies outside, or there are too many jobs.
        """
        wanted = validate_arguments(RunCommandArguments, arguments)
        if "\0" in wanted.command:
            msg = "The command holds a NUL character."
            raise ToolFailed(msg)
        folder = await asyncio.to_thread(self._folder, wanted.folder)
        argv, asks = await asyncio.to_thread(self._argv, wanted.command, folder)
        where = f" in {quoted(folder)}" if folder else ""
        seconds = min(wanted.timeout_seconds, self._seconds)
        ends = "in the background" if wanted.background else f"for at most {seconds:g} s"
        action = f"{wanted.command}\n[{ends}{where}]"

        async def carry_out() -> ToolOutcome:
            return await self._run(argv, folder, wanted, context)

        return PlannedCall(action, carry_out, asks=asks)

    def _folder(self, path: str) -> str:
        with self._guard.open_folder(path) as opened:
            return opened.path

    def _argv(self, command: str, folder: str) -> tuple[list[str], bool]:
        """What is executed, and whether that needs a question. Blocks."""
        automatic = self._automatic(command, folder)
        return (self._shell(command), True) if automatic is None else (automatic, False)

    def _automatic(self, command: str, folder: str) -> list[str] | None:
        """The words to execute where no question is needed, the program by its absolute path outside the workspace."""
        if not self._rules:
            return None
        prefix = f"{folder}/" if folder else ""
        verdict = judge(command, self._rules, lambda path: self._nothing_or_inside(prefix + path))
        if verdict.argv is None:
            return None
        program = self._program(verdict.argv[0])
        return None if program is None else [program, *verdict.argv[1:]]

    def _nothing_or_inside(self, path: str) -> bool:
        return self._guard.inside(path) or not os.path.lexists(os.path.join(self._guard.root, path))

    def _program(self, name: str) -> str | None:
        root = os.path.realpath(self._guard.root)
        for folder in self._environ.get("PATH", "").split(os.pathsep):
            if not os.path.isabs(folder) or os.path.realpath(folder).startswith(root):
                continue
            found = shutil.which(name, path=folder)
            if found is not None and not os.path.realpath(found).startswith(root):
                return found
        return None

    def _shell(self, command: str) -> list[str]:
        if os.name == "nt":
            return [self._environ.get("COMSPEC", "cmd.exe"), "/d", "/s", "/c", command]
        shell = next((path for path in _SHELLS if os.path.exists(path)), "/bin/sh")
        plain = ["--noprofile", "--norc"] if shell.endswith("bash") else []
        return [shell, *plain, "-c", command]

    async def _run(
        self, argv: list[str], folder: str, wanted: RunCommandArguments, context: ToolContext
    ) -> ToolOutcome:
        if wanted.background and self._jobs.running >= MAX_JOBS:
            msg = f"{MAX_JOBS} commands run in the background already."
            raise ToolFailed(msg, hint="Stop one with command_job.")
        # Looked up again: the folder that was announced must still be the one inside.
        if await asyncio.to_thread(self._folder, folder or ".") != folder:
            msg = f"{quoted(folder)} changed meanwhile."
            raise ToolFailed(msg)
        try:
            program = await Program.start(
                argv,
                cwd=os.path.join(self._guard.root, folder),
                environ=self._environ,
                update=(lambda _: None) if wanted.background else (lambda text: context.update(visible(text))),
            )
        except OSError as error:
            msg = f"The command cannot be started: {error.strerror}."
            raise ToolFailed(msg) from None
        if not wanted.background:
            return outcome(await program.finish(min(wanted.timeout_seconds, self._seconds)))
        number = self._jobs.add(wanted.command, program, MAX_SECONDS)
        return ToolOutcome(f"[job {number} started; command_job shows what it writes, and stops it]")


class CommandJob:
    """Looks after a command in the background."""

    # It only touches what was allowed before.
    effects = frozenset({Effect.READ})

    def __init__(self, jobs: Jobs) -> None:
        self._jobs = jobs
        self.spec = ToolSpec(
            "command_job",
            "See what a command in the background has written, and whether it still runs; or stop it.",
            schema_of(CommandJobArguments),
        )

    async def run(self, arguments: Mapping[str, Any], context: ToolContext) -> ToolOutcome:
        """Look, or stop.

        Args:
            arguments: as `CommandJobArguments`.
            context: not used.

        Raises:
            ToolFailed: there is no such job.
        """
        wanted = validate_arguments(CommandJobArguments, arguments)
        return await self._jobs.look(wanted.job, stop=wanted.stop)


def in_background(arguments: Mapping[str, Any]) -> bool:
    """Whether a call of `run_command` with these arguments leaves a command running."""
    return arguments.get("background") is True


def outcome(finished: Finished) -> ToolOutcome:
    """What the model is told of a command that has ended."""
    if finished.code is None:
        end = f"ended after {finished.seconds:.0f} s, since its time was over; what takes longer needs background"
    elif finished.code < 0:
        end = f"ended by signal {-finished.code}"
    else:
        end = f"exit code {finished.code}"
    output = visible(finished.output).rstrip("\n")
    return ToolOutcome(f"{output}\n[{end}]".lstrip("\n"), is_error=finished.code != 0)

"""`indusagi-lsp workflow list|run|resume|cancel`: the operations on workflows, with progress and questions in between.

The result goes to stdout, all else to stderr. Questions are asked when somebody sits at the terminal, else they are
denied. Ctrl-C interrupts an execution, which can be resumed; `cancel` ends one that another process runs.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from indusagi_lsp.contract.text import quoted, visible, visible_line
from indusagi_lsp.protocol import messages as m
from indusagi_lsp.protocol import operations as ops
from indusagi_lsp.terminal.client import RemoteError, ServerGoneError
from indusagi_lsp.terminal.decisions import offer
from indusagi_lsp.terminal.options import Options
from indusagi_lsp.terminal.plain import FAILED, INTERRUPTED, SERVER_DIED, PlainScreen, on_interrupt
from indusagi_lsp.terminal.talk import Approve, Talk, no_answer
from indusagi_lsp.terminal.view import Style, show_error

if TYPE_CHECKING:
    from indusagi_lsp.contract.approvals import Decision

OK = 0
_STYLES: dict[str, Style] = {"ok": "good", "done": "good", "failed": "error", "skipped": "dim"}


def build_parser() -> argparse.ArgumentParser:
    """The parser of the command's arguments."""
    parser = argparse.ArgumentParser(
        prog="indusagi-lsp workflow",
        description="List and run workflows: those in your configuration folder, and those of a trusted folder.",
        epilog="Exit codes: 0 done, 1 not done, 2 wrong arguments, 3 the server died, 130 interrupted.",
    )
    verbs = parser.add_subparsers(dest="verb", required=True, metavar="VERB")
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument("--workspace", metavar="PATH", default=".", help="the folder (default: here)")
    common.add_argument("--trust", action="store_true", help="trust the folder: its workflows are read and run")
    common.add_argument("--json", action="store_true", help="give the result as JSON")

    verbs.add_parser("list", parents=[common], help="list the workflows, and their executions")
    run = verbs.add_parser("run", parents=[common], help="run a workflow")
    run.add_argument("name", metavar="NAME", help="the workflow")
    run.add_argument(
        "--input",
        dest="inputs",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="an input; the value is JSON, or a text where it is none",
    )
    run.add_argument("--model", metavar="ID", help="the model of its prompts, as provider:name")
    resume = verbs.add_parser("resume", parents=[common], help="go on with an execution that stopped")
    resume.add_argument("execution", metavar="EXECUTION", help="its id")
    resume.add_argument(
        "--done",
        action="append",
        default=[],
        metavar="STEP",
        help="a step of unknown outcome that has done its work, and is not to be repeated",
    )
    resume.add_argument("--model", metavar="ID", help="the model of its prompts, as provider:name")
    cancel = verbs.add_parser("cancel", parents=[common], help="cancel an execution")
    cancel.add_argument("execution", metavar="EXECUTION", help="its id")
    return parser


def run_workflow_command(argv: Sequence[str]) -> int:
    """Run the command.

    Args:
        argv: the arguments after `workflow`.

    Returns:
        The exit code.
    """
    parser = build_parser()
    given = parser.parse_args(argv)
    workspace = Path(given.workspace).expanduser().absolute()
    if not workspace.is_dir():
        parser.error(f"there is no folder {given.workspace!r}")
    try:
        inputs = _inputs(getattr(given, "inputs", []))
    except ValueError as error:
        parser.error(str(error))
    options = Options(workspace=workspace, trusted=given.trust, model=getattr(given, "model", None))
    return asyncio.run(_go(given, options, inputs))


async def _go(given: argparse.Namespace, options: Options, inputs: dict[str, Any]) -> int:
    screen = PlainScreen(sys.stdout, sys.stderr)
    approve = Asker(screen) if sys.stdin.isatty() else _refuse_all(screen)
    talk = Talk(
        options,
        screen,
        approve,
        answer=approve.answer if isinstance(approve, Asker) else no_answer,
        on_notification={ops.WORKFLOW_PROGRESS: lambda raw: _progress(screen, raw)},
    )
    interrupted = asyncio.Event()
    on_interrupt(interrupted.set)
    try:
        await talk.open()
        result = await _unless(interrupted, _ask(talk, given, inputs))
    except asyncio.CancelledError:
        screen.line("Interrupted. `indusagi-lsp workflow list` shows what can be resumed.")
        return INTERRUPTED
    except ServerGoneError as gone:
        talk.mourn(gone)
        return SERVER_DIED
    except (RemoteError, OSError) as error:
        show_error(screen, str(error), getattr(error, "hint", ""))
        return FAILED
    finally:
        await talk.close()
    said = msgspec.json.format(msgspec.json.encode(result)).decode() if given.json else _words(result)
    screen.text(said if said.endswith("\n") else f"{said}\n")
    return OK if _well(result) else FAILED


async def _ask(talk: Talk, given: argparse.Namespace, inputs: dict[str, Any]) -> Any:
    operation, params = _request(given, talk.workspace, inputs)
    return await talk.client.call(operation, params)


def _request(given: argparse.Namespace, uri: str, inputs: dict[str, Any]) -> tuple[ops.Operation, msgspec.Struct]:
    if given.verb == "run":
        return ops.WORKFLOW_RUN, m.WorkflowRunParams(workspace=uri, name=given.name, inputs=inputs)
    if given.verb == "resume":
        return ops.WORKFLOW_RESUME, m.WorkflowResumeParams(workspace=uri, execution_id=given.execution, done=given.done)
    if given.verb == "cancel":
        return ops.WORKFLOW_CANCEL, m.WorkflowCancelParams(workspace=uri, execution_id=given.execution)
    return ops.WORKFLOW_LIST, m.WorkflowListParams(workspace=uri)


async def _unless(interrupted: asyncio.Event, work: Any) -> Any:
    """Do `work`, unless Ctrl-C comes first; then it is cancelled on the server, too."""
    task = asyncio.create_task(work)
    stop = asyncio.create_task(interrupted.wait())
    try:
        await asyncio.wait([task, stop], return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            task.cancel()
        return await task
    finally:
        stop.cancel()


class Asker:
    """Asks the person at the terminal, one question at a time.

    Args:
        screen: where the question is shown.
        read: gives the next line that is typed, empty at the end; it may block.
    """

    def __init__(self, screen: PlainScreen, read: Callable[[], str] = sys.stdin.readline) -> None:
        self._screen = screen
        self._read = read
        self._alone = asyncio.Lock()

    async def __call__(self, question: m.ApproveParams) -> Decision:
        """Show the exact action, and ask; anything but a clear yes is a no."""
        async with self._alone:
            name = "The workflow" if question.tool == "workflow" else quoted(question.tool)
            self._screen.line(f"{name} asks, {question.size:,} bytes:")
            self._screen.line(visible(question.action))
            asked, answers = offer(question.options)
            self._screen.line(asked)
            return answers.get((await self._line()).strip().lower(), "deny")

    async def answer(self, question: m.QuestionParams) -> str | None:
        """Show a question of the agent, and take the next line as the answer; an empty one is none."""
        async with self._alone:
            self._screen.line(f"The agent asks: {visible(question.question)}")
            for option in question.options:
                self._screen.line(f"  {visible_line(option)}")
            return (await self._line()).strip() or None

    async def _line(self) -> str:
        """The next line, read in a thread that nobody waits for: Ctrl-C must not hang on it."""
        loop = asyncio.get_running_loop()
        typed: asyncio.Future[str] = loop.create_future()

        def settle(line: str) -> None:
            if not typed.done():
                typed.set_result(line)

        def work() -> None:
            line = self._read()
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(settle, line)

        threading.Thread(target=work, name="answer", daemon=True).start()
        return await typed


def _refuse_all(screen: PlainScreen) -> Approve:
    async def refuse(question: m.ApproveParams) -> Decision:
        screen.line(f"Not allowed, since nobody is here to be asked: {visible_line(question.action)}")
        return "deny"

    return refuse


def _inputs(pairs: Sequence[str]) -> dict[str, Any]:
    inputs: dict[str, Any] = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or not name:
            message = f"--input {pair!r}: it must be NAME=VALUE"
            raise ValueError(message)
        try:
            inputs[name] = json.loads(value)
        except ValueError:
            inputs[name] = value
    return inputs


# --- how it is said ---------------------------------------------------------------------------------------------------


def _progress(screen: PlainScreen, raw: Any) -> None:
    try:
        told = msgspec.convert(raw, m.WorkflowParams)
    except msgspec.ValidationError:
        return
    step = visible_line(told.step or "")
    text = visible_line(told.text)
    match told.kind:
        case "started":
            screen.line(f"{visible_line(told.workflow)}, execution {told.execution_id}: {told.total} steps", "dim")
        case "step_started":
            screen.line(f"  {step} …{f' {text}' if text else ''}", "dim")
        case "step_finished":
            count = f"[{told.completed}/{told.total}]"
            screen.line(
                f"  {step}: {told.status} {count}{f' {text}' if text else ''}", _STYLES.get(told.status, "plain")
            )
        case "step_progress" | "step_retry":
            screen.line(f"  {step}: {text}", "dim")
        case "finished":
            pass


def _well(result: Any) -> bool:
    if isinstance(result, m.WorkflowExecution):
        return result.state == "done"
    return not isinstance(result, m.WorkflowCancelResult) or result.cancelled


def _words(result: Any) -> str:
    if isinstance(result, m.WorkflowExecution):
        return _execution(result)
    if isinstance(result, m.WorkflowCancelResult):
        return "Cancelled." if result.cancelled else "There was nothing to cancel."
    rows = [_workflow(one) for one in result.workflows] or ["There are no workflows."]
    rows += ["", *(_execution(one) for one in result.executions)] if result.executions else []
    return "\n".join(rows)


def _workflow(one: m.WorkflowInfo) -> str:
    if one.problem:
        return f"{one.name}  ({one.origin})  cannot be run: {visible_line(one.problem)}"
    about = visible_line(one.title or one.description)
    inputs = "".join(f" {name}={json.dumps(value)}" for name, value in one.inputs.items())
    return (
        f"{one.name}  ({one.origin})  {len(one.steps)} steps{inputs and f'; inputs:{inputs}'}{about and f'; {about}'}"
    )


def _execution(one: m.WorkflowExecution) -> str:
    rows = [f"{one.execution_id}  {visible_line(one.workflow)}  {one.state}  {len(one.completed)} of {one.total} steps"]
    if one.error:
        rows += [f"  {visible_line(line)}" for line in one.error.splitlines()]
    if one.unknown:
        rows.append(f"  of unknown outcome: {', '.join(map(visible_line, one.unknown))}")
    if one.state not in ("running", "done"):
        rows.append(f"  go on: indusagi-lsp workflow resume {one.execution_id}")
    return "\n".join(rows)

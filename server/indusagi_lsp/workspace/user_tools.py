"""The tools that need the one at the screen: a question to the user, and the problems that their editor shows."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Annotated, Any
from urllib.parse import unquote

from msgspec import Meta

from indusagi_lsp.contract.clock import NewId
from indusagi_lsp.contract.models import ToolSpec
from indusagi_lsp.contract.text import visible_line
from indusagi_lsp.contract.tools import Effect, PlannedCall, ToolContext, ToolOutcome
from indusagi_lsp.protocol import messages as m
from indusagi_lsp.protocol.uris import normalise_uri, path_to_uri
from indusagi_lsp.tools import Arguments, PathGuard, Planning, schema_of, validate_arguments
from indusagi_lsp.tools.lookups import refuse_outside

MAX_SHOWN = 200
_MESSAGE_CHARS = 500
_SEVERITIES = {1: "error", 2: "warning", 3: "information", 4: "hint"}

PutQuestion = Callable[[m.QuestionParams], Awaitable[str | None]]
ShowDiagnostics = Callable[[m.DiagnosticsParams], Awaitable[list[m.FileDiagnostics]]]


class AskUserArguments(Arguments, frozen=True):
    """What `ask_user` takes."""

    question: Annotated[str, Meta(min_length=1, max_length=4_000, description="One question, in plain words.")]
    options: Annotated[
        tuple[Annotated[str, Meta(min_length=1, max_length=200)], ...],
        Meta(max_length=8, description="Answers to choose from; the user may also answer something else."),
    ] = ()


class DiagnosticsArguments(Arguments, frozen=True):
    """What `diagnostics` takes."""

    path: Annotated[
        str | None, Meta(description="One file, relative to the workspace root. Without it: all files.")
    ] = None


class AskUser(Planning):
    """Asks the user something, and waits for the answer.

    Args:
        workspace: the folder's URI.
        put: puts the question to the user; it sees to a limit of time.
        new_id: makes ids of questions.
    """

    effects = frozenset({Effect.READ})

    def __init__(self, workspace: str, put: PutQuestion, new_id: NewId) -> None:
        self.spec = ToolSpec(
            "ask_user",
            "Ask the user something that only they can decide, and wait for the answer. Where there are a few likely"
            " answers, offer them as `options`. Do not ask for what you can look up, nor whether you may use a tool.",
            schema_of(AskUserArguments),
        )
        self._workspace = workspace
        self._put = put
        self._new_id = new_id

    async def plan(self, arguments: Mapping[str, Any], context: ToolContext) -> PlannedCall:
        """Fix the question. A question needs no permission."""
        asked = validate_arguments(AskUserArguments, arguments)
        question = m.QuestionParams(
            question_id=self._new_id(),
            workspace=self._workspace,
            session_id=context.session_id,
            call_id=context.call_id,
            question=asked.question,
            options=list(dict.fromkeys(asked.options)),
        )

        async def carry_out() -> ToolOutcome:
            answer = await self._put(question)
            if answer is None or not answer.strip():
                return ToolOutcome(
                    "The user gave no answer. Go on with what is safe, and say what you took for granted."
                )
            return ToolOutcome(answer)

        return PlannedCall(asked.question, carry_out, asks=False, waits=True)


class Diagnostics:
    """Tells what problems the editor shows.

    Args:
        guard: of the workspace.
        workspace: the folder's URI.
        show: asks the editor.
    """

    effects = frozenset({Effect.READ})

    def __init__(self, guard: PathGuard, workspace: str, show: ShowDiagnostics) -> None:
        self.spec = ToolSpec(
            "diagnostics",
            "See the problems that the editor shows, of its language servers and linters, in one file or in all. What"
            " was changed a moment ago may not be checked yet.",
            schema_of(DiagnosticsArguments),
        )
        self._guard = guard
        self._workspace = workspace
        self._show = show

    async def run(self, arguments: Mapping[str, Any], context: ToolContext) -> ToolOutcome:
        """Ask the editor, and tell what it says, the files by name and the problems by line."""
        del context
        asked = validate_arguments(DiagnosticsArguments, arguments)
        base = f"{path_to_uri(str(self._guard.root))}/"
        uri = None if asked.path is None else self._uri(asked.path)
        shown = await self._show(m.DiagnosticsParams(workspace=self._workspace, uri=uri))
        # Whatever the editor sends beside it, only what lies in this folder is told.
        rows = sorted(
            (unquote(uri_of[len(base) :]), one.range.start.line, one.range.start.character, _told(one))
            for file in shown
            if (uri_of := normalise_uri(file.uri)).startswith(base) and uri in (None, uri_of)
            for one in file.diagnostics
        )
        lines = [
            f"{visible_line(path)}:{line + 1}:{column + 1} {told}" for path, line, column, told in rows[:MAX_SHOWN]
        ]
        if len(rows) > MAX_SHOWN:
            lines.append(f"[{len(rows) - MAX_SHOWN} more problems; ask for one file]")
        return ToolOutcome("\n".join(lines) or "The editor shows no problems there.")

    def _uri(self, path: str) -> str:
        """A file's URI. Nothing is opened by it, so it need not be there."""
        below = self._guard.relative(path)
        if below.partition("/")[0] == "..":
            refuse_outside(path)
        return path_to_uri(f"{self._guard.root}/{below}")


def _told(one: m.DiagnosticView) -> str:
    source = " ".join(str(part) for part in (one.source, one.code) if part not in (None, ""))
    severity = _SEVERITIES.get(one.severity or 1, "error")
    text = " ".join(one.message[: 4 * _MESSAGE_CHARS].split())
    return f"{severity}: {visible_line(text, _MESSAGE_CHARS)}" + (f" [{visible_line(source, 60)}]" if source else "")

"""The tools that need the host: what was said and remembered is looked up here, and written down on request.

`recall` reaches every turn of the session, those that condensing dropped included, and what is remembered in the
workspace. What others wrote (foreign sessions and entries) never comes out of it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Annotated, Any, Literal

from msgspec import Meta

from indusagi_lsp.contract import jsontext
from indusagi_lsp.contract.errors import InvalidInput, ToolFailed
from indusagi_lsp.contract.models import ToolSpec
from indusagi_lsp.contract.tools import Effect, PlannedCall, Tool, ToolContext, ToolOutcome
from indusagi_lsp.contract.turns import Turn, turn_to_json
from indusagi_lsp.memory import MemoryService, MemorySource, ScoredEntry
from indusagi_lsp.sessions import Session
from indusagi_lsp.sessions.search import Hit, SearchIndex
from indusagi_lsp.tools import Arguments, Planning, schema_of, validate_arguments

MAX_TURNS = 8
MAX_TURN_CHARS = 6_000
NEIGHBOURS = 1
COPIES = 4
"""So many hits are looked at for each that is shown, since condensing copies the turns that it keeps."""

FindSession = Callable[[str], Awaitable[Session]]


class RecallArguments(Arguments, frozen=True):
    """What `recall` takes."""

    query: Annotated[
        str | None, Meta(description="Words to look for: file names, error texts, identifiers, what the user said.")
    ] = None
    node: Annotated[str | None, Meta(description="The id of a turn, to read it whole with its neighbours.")] = None
    start: Annotated[
        int, Meta(ge=0, description="With node: the character to read on from, where a long turn was cut before.")
    ] = 0


class RememberArguments(Arguments, frozen=True):
    """What `remember` takes."""

    text: Annotated[str, Meta(min_length=1, max_length=4_000, description="One fact, in words that stand alone.")]
    tags: Annotated[tuple[str, ...], Meta(max_length=10)] = ()


class TodoItem(Arguments, frozen=True):
    """One task."""

    text: Annotated[str, Meta(min_length=1, max_length=500)]
    status: Literal["open", "doing", "done"] = "open"


class TodoArguments(Arguments, frozen=True):
    """What `todo` takes."""

    todos: Annotated[list[TodoItem], Meta(max_length=100, description="The whole list, in order.")]


class Recall:
    """Finds what was said in this session before, and what is remembered in the workspace."""

    effects = frozenset({Effect.READ})

    def __init__(self, memory: MemoryService, search: Callable[[], SearchIndex], session: FindSession) -> None:
        self.spec = ToolSpec(
            "recall",
            "Look up what was said earlier in this conversation, also what was condensed away, and what is remembered"
            " about this workspace. Give `query` to search, or `node` to read one turn whole.",
            schema_of(RecallArguments),
        )
        self._memory = memory
        self._search = search
        self._session = session

    async def run(self, arguments: Mapping[str, Any], context: ToolContext) -> ToolOutcome:
        """Search, or read one turn."""
        asked = validate_arguments(RecallArguments, arguments)
        session = await self._session(context.session_id)
        if asked.node is not None:
            return ToolOutcome(_turns_around(session, asked.node, asked.start))
        if not asked.query or not asked.query.strip():
            raise ToolFailed("Give a `query` or a `node`.")

        found = await self._search().search(asked.query, sessions=[session.id], limit=MAX_TURNS * COPIES)
        remembered = await self._memory.recall_for_prompt(asked.query)
        if remembered:
            context.recalled([{"id": hit.entry.identifier, "content": hit.entry.content} for hit in remembered])
        parts = [f'<turn node="{hit.node}" role="{hit.role}">\n{hit.snippet}\n</turn>' for hit in _distinct(found.hits)]
        parts += [_memory(hit) for hit in remembered]
        return ToolOutcome("\n".join(parts) or "Nothing was found. Try other words.")


class Remember(Planning):
    """Writes a fact down. The user is asked each time, with the exact text."""

    effects = frozenset({Effect.WRITE})

    def __init__(self, memory: MemoryService, changed: Callable[[], None]) -> None:
        self.spec = ToolSpec(
            "remember",
            "Remember a fact about this workspace for later conversations. The user is asked first.",
            schema_of(RememberArguments),
        )
        self._memory = memory
        self._changed = changed

    async def plan(self, arguments: Mapping[str, Any], context: ToolContext) -> PlannedCall:
        """Show the exact text; what is remembered is that and nothing else."""
        asked = validate_arguments(RememberArguments, arguments)

        async def write() -> ToolOutcome:
            return await self._write(asked, context.session_id)

        return PlannedCall(asked.text, write, afresh=True)

    async def _write(self, asked: RememberArguments, session_id: str) -> ToolOutcome:
        try:
            done = await self._memory.remember(
                asked.text, tags=asked.tags, source=MemorySource(session_id), tainted=True
            )
        except InvalidInput as error:
            raise ToolFailed(error.message, hint=error.hint) from error
        self._changed()
        if not done.created:
            return ToolOutcome("That is remembered already.")
        similar = "".join(f"\nSimilar: {hit.entry.content}" for hit in done.similar_existing)
        return ToolOutcome(f"Remembered.{similar}")


class Todo:
    """Keeps a list of tasks. It lives in the conversation itself, where condensing finds it again."""

    effects = frozenset({Effect.READ})

    def __init__(self) -> None:
        self.spec = ToolSpec(
            "todo",
            "Write down the tasks of a larger job, and mark them as you go. Each call gives the whole list.",
            schema_of(TodoArguments),
        )

    async def run(self, arguments: Mapping[str, Any], context: ToolContext) -> ToolOutcome:
        """Say how the list stands."""
        todos = validate_arguments(TodoArguments, arguments).todos
        done = sum(item.status == "done" for item in todos)
        doing = [item.text for item in todos if item.status == "doing"]
        now = f" Now: {'; '.join(doing)}." if doing else ""
        return ToolOutcome(f"{done} of {len(todos)} done.{now}")


def host_tools(
    memory: MemoryService, search: Callable[[], SearchIndex], session: FindSession, changed: Callable[[], None]
) -> tuple[Tool, ...]:
    """The tools of this module.

    Args:
        memory: what is remembered in the workspace.
        search: the index over its sessions.
        session: gives the session that a call belongs to.
        changed: told when something was remembered.
    """
    return (Recall(memory, search, session), Remember(memory, changed), Todo())


def _distinct(hits: Sequence[Hit]) -> list[Hit]:
    """The best hits, of each turn and its copies one."""
    once: dict[tuple[str, str], Hit] = {}
    for hit in hits:
        once.setdefault((hit.role, hit.snippet), hit)
    return list(once.values())[:MAX_TURNS]


def _turns_around(session: Session, node: str, start: int) -> str:
    if node not in session.graph:
        message = f"There is no turn {node!r} in this conversation."
        raise ToolFailed(message, hint="Search with `query`; each hit names its node.")
    if start:
        return _shown(session, node, start)
    before = session.graph.ids_to(node)[-1 - NEIGHBOURS :]
    after = session.graph.children(node)[:NEIGHBOURS]
    return "\n".join(_shown(session, one) for one in (*before, *after))


def _shown(session: Session, node: str, start: int = 0) -> str:
    turn = session.graph.node(node).turn
    return f'<turn node="{node}" role="{turn.role}">\n{_text(turn, start)}\n</turn>'


def _text(turn: Turn, start: int) -> str:
    blocks: Sequence[Any] = turn_to_json(turn)["blocks"]
    text = "\n".join(
        str(block.get("text") or block.get("output") or jsontext.dumps(block.get("input")).decode())
        for block in blocks
        if isinstance(block, dict) and block.get("kind") != "image"
    )
    end = start + MAX_TURN_CHARS
    if len(text) <= end:
        return text[start:]
    return f"{text[start:end]}\n[… cut: character {end} of {len(text)}; read on with start {end}, or search …]"


def _memory(hit: ScoredEntry) -> str:
    entry = hit.entry
    source = f' source="{entry.source.session}/{entry.source.node or ""}"' if entry.source is not None else ""
    return f'<memory id="{entry.identifier}"{source}>\n{entry.content}\n</memory>'

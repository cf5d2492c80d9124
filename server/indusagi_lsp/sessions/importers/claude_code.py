"""Claude Code's transcripts: `~/.claude/projects/<folder>/<session>.jsonl`, one JSON object a line.

A line holds one content block; the lines of one answer share `message.id` and repeat its usage. `uuid` and
`parentUuid` make a tree. A `compact_boundary` starts a new root, and the summary follows as a user's message.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from indusagi_lsp.contract.models import Usage
from indusagi_lsp.contract.turns import (
    SYSTEM,
    TOOL,
    USER,
    Block,
    OtherBlock,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    Turn,
)
from indusagi_lsp.sessions.importers import reading
from indusagi_lsp.sessions.importers.transcript import Draft, Fold, Transcript

if TYPE_CHECKING:
    from collections.abc import Callable

TOOL_NAME = "claude-code"
_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def read(data: bytes, name: str = "", cuts: frozenset[int] = frozenset()) -> Transcript:
    """Read a transcript.

    Args:
        data: the file's bytes.
        name: the file's name without its ending; it names the session where it is a UUID.
        cuts: the `open_line`s of earlier imports of this file.

    Returns:
        What the file says. Damaged lines are reported, never raised.
    """
    reader = _Reader(Draft(TOOL_NAME, cuts))
    for line in reading.lines(data):
        reader.draft.line(line.number)
        if line.problem:
            reader.draft.skip(line.problem)
        for value in line.values:
            reader.record(value)

    return reader.finish(name, reading.count_lines(data))


class _Reader:
    def __init__(self, draft: Draft) -> None:
        self.draft = draft
        self.agent: str | None = None
        # From a line's uuid to the turn where it went; lines without a turn stand for their parent's.
        self.where: dict[str, str | None] = {}
        self.taken: set[str] = set()
        self.linked = False
        # Parts and results of one answer make one line of history: from each to the one after it.
        self.results: dict[str, str] = {}
        self.parts: dict[str, str] = {}
        self.boundary: dict[str, Any] | None = None
        self.summaries: dict[str, str] = {}
        self.named: str | None = None
        self.asked: str | None = None
        self.kinds: dict[str, Callable[[dict[str, Any]], None]] = {
            "user": self.user,
            "assistant": self.assistant,
            "system": self.system,
            "summary": self.summary,
            "custom-title": self.naming,
            "ai-title": self.naming,
        }

    def record(self, value: dict[str, Any]) -> None:
        kind = value.get("type")
        handler = self.kinds.get(kind) if isinstance(kind, str) else None
        if handler is not None:
            self.header(value)
            handler(value)
        elif isinstance(kind, str):
            self.draft.ignore(kind)
            self.pass_on(value)
        else:
            self.draft.skip("no type")

    def header(self, value: dict[str, Any]) -> None:
        draft = self.draft
        if not draft.id and (session := reading.text_of(value.get("sessionId"))):
            draft.id = session
            agent = reading.text_of(value.get("agentId"))
            if agent and value.get("isSidechain") is True:
                # A file of a sub-agent: its whole content is a side chain of the session that it names.
                self.agent, draft.parent = agent, session
        draft.cwd = draft.cwd or reading.text_of(value.get("cwd"))
        draft.version = draft.version or reading.text_of(value.get("version"))

    def pass_on(self, value: dict[str, Any]) -> None:
        """A line without a turn: whatever names it as parent follows its own parent."""
        uuid, parent = reading.text_of(value.get("uuid")), reading.text_of(value.get("parentUuid"))
        if uuid and uuid not in self.where and (parent is None or parent in self.where):
            self.linked = self.linked or parent is not None
            self.where[uuid] = self.where.get(parent) if parent else self.draft.live

    def main(self, value: dict[str, Any]) -> bool:
        return self.agent is not None or value.get("isSidechain") is not True

    def parent(self, value: dict[str, Any]) -> str | None:
        """Where a turn of this line goes."""
        draft = self.draft
        uuid = reading.text_of(value.get("parentUuid"))
        if uuid is None:
            # Flat transcripts have no parents at all; in the others, a line without one begins a new root.
            return draft.live if self.main(value) and not self.linked else None

        if uuid not in self.where:
            if draft.live is not None:
                draft.gaps += 1
            return draft.live if self.main(value) else None

        self.linked = True
        key = self.where[uuid]
        return None if key is None else self.end(key)

    def end(self, key: str) -> str:
        """The last of what belongs to an answer: further parts and results, which name different lines of it."""
        seen: set[str] = set()
        while key in self.results and key not in seen:
            seen.add(key)
            key = self.results[key]

        return key

    def user(self, value: dict[str, Any]) -> None:
        content = self.content(value, USER)
        if content is None:
            return

        uuid = self.identity(value)
        if uuid is None:
            return

        self.draft.time(reading.milliseconds(value.get("timestamp")))
        if value.get("isCompactSummary") is True:
            self.compacted(uuid, content)
            return

        listed = content if isinstance(content, list) else [content]
        answers = [part for part in listed if isinstance(part, dict) and part.get("type") == "tool_result"]
        said = reading.parts([part for part in listed if not any(part is answer for answer in answers)])
        if not answers and not said:
            self.draft.skip("an empty message")
            self.pass_on(value)
            return

        parent = self.parent(value)
        if answers:
            blocks = tuple(block for answer in answers for block in _result(answer))
            key = f"{uuid}#results" if said else uuid
            self.draft.add(key, Turn(TOOL, blocks), parent, main=self.main(value))
            if parent is not None:
                self.results[parent] = key
            parent = key
        if said:
            self.draft.add(uuid, Turn(USER, said), parent, main=self.main(value))
            if self.asked is None and self.main(value) and value.get("isMeta") is not True:
                self.asked = reading.title_of(said)
        self.take(uuid, uuid)

    def assistant(self, value: dict[str, Any]) -> None:
        content = self.content(value, "assistant")
        if content is None:
            return

        uuid = self.identity(value)
        if uuid is None:
            return

        draft, message = self.draft, reading.mapping(value.get("message"))
        draft.time(reading.milliseconds(value.get("timestamp")))
        group = reading.text_of(message.get("id")) or uuid
        blocks = _answer(content)
        if not blocks:
            draft.skip("an answer without content")
            self.pass_on(value)
            return

        parent = self.parent(value)
        key = draft.answer(group, uuid, blocks, parent, main=self.main(value))
        before = self.parts.get(group, key)
        if key != before and parent is not None and parent == self.end(before):
            # The answer goes on, after a result or after the end of an earlier import: still one line of history.
            self.results[parent] = key
        self.parts[group] = key
        self.take(uuid, key)
        model = reading.text_of(message.get("model")) or ""
        if not model.startswith("<"):
            draft.model = model or draft.model
            draft.spend(group, key, _usage(message, value), model, "anthropic")

    def content(self, value: dict[str, Any], role: str) -> Any:
        message = value.get("message")
        if not isinstance(message, dict):
            self.draft.skip("the message is no object")
        elif message.get("role", role) != role:
            self.draft.skip("the message has another role than its line")
        elif not isinstance(message.get("content"), str | list):
            self.draft.skip("the message has no content")
        else:
            return message["content"]

        self.pass_on(value)
        return None

    def identity(self, value: dict[str, Any]) -> str | None:
        uuid = reading.text_of(value.get("uuid")) or f"line-{self.draft.number}"
        if uuid in self.taken:
            self.draft.skip("a line that was there before")
            return None

        return uuid

    def take(self, uuid: str, key: str) -> None:
        self.taken.add(uuid)
        self.where[uuid] = key

    def system(self, value: dict[str, Any]) -> None:
        if value.get("subtype") == "compact_boundary":
            self.boundary = value
        self.draft.ignore(f"system/{value.get('subtype')}")
        # The answer has ended when the program reports on it.
        self.draft.close()
        self.pass_on(value)

    def compacted(self, uuid: str, content: Any) -> None:
        boundary, self.boundary = self.boundary or {}, None
        base = self.where.get(reading.text_of(boundary.get("logicalParentUuid")) or "") or self.draft.head
        summary = Turn(SYSTEM, reading.parts(content))
        if base is None:
            self.draft.add(uuid, summary, None)
        else:
            about = reading.mapping(boundary.get("compactMetadata"))
            self.draft.fold(
                Fold(
                    uuid,
                    base,
                    None,
                    summary,
                    reading.text_of(about.get("trigger")) or "auto",
                    reading.number(about.get("preTokens")) or None,
                    reading.number(about.get("postTokens")) or None,
                    self.draft.model,
                )
            )
        self.take(uuid, uuid)

    def summary(self, value: dict[str, Any]) -> None:
        self.draft.ignore("summary")
        leaf, text = reading.text_of(value.get("leafUuid")), reading.text_of(value.get("summary"))
        if leaf and text:
            self.summaries[leaf] = text

    def naming(self, value: dict[str, Any]) -> None:
        self.draft.ignore(str(value.get("type")))
        title = reading.text_of(value.get("customTitle")) or reading.text_of(value.get("aiTitle"))
        if title and (self.named is None or value.get("type") == "custom-title"):
            self.named = title

    def finish(self, name: str, lines: int) -> Transcript:
        draft = self.draft
        if self.agent is not None:
            draft.id = f"{draft.id}-agent-{self.agent}"
        elif _UUID.fullmatch(name):
            draft.id = name
        draft.id = draft.id or name
        # A summary names a leaf; most of those in a file speak of other sessions of the same folder.
        own = [text for leaf, text in self.summaries.items() if leaf in self.where]
        draft.title = self.named or (own[-1][: reading.MAX_TITLE] if own else None) or self.asked
        return draft.finish(lines)


def _result(part: dict[str, Any]) -> tuple[Block, ...]:
    output, images = reading.result_text(part.get("content") if part.get("content") is not None else "")
    is_error = part.get("is_error")
    call = reading.text_of(part.get("tool_use_id")) or "unknown"
    return (ToolResultBlock(call, output, is_error if isinstance(is_error, bool) else None), *images)


def _answer(content: Any) -> tuple[Block, ...]:
    blocks: list[Block] = []
    for part in content if isinstance(content, list) else [content]:
        kind = part.get("type") if isinstance(part, dict) else None
        if kind == "thinking":
            blocks.append(ThinkingBlock(str(part.get("thinking", "")), reading.text_of(part.get("signature"))))
        elif kind == "redacted_thinking":
            blocks.append(ThinkingBlock("", None, {"redacted": part.get("data")}))
        elif kind == "tool_use":
            call = reading.text_of(part.get("id")) or "unknown"
            blocks.append(reading.arguments(call, part.get("name"), part.get("input")))
        else:
            blocks.extend(block for block in reading.parts([part]) if _says_something(block))

    return tuple(blocks)


def _says_something(block: Block) -> bool:
    return isinstance(block, OtherBlock) or not isinstance(block, TextBlock) or block.text != "(no content)"


def _usage(message: dict[str, Any], value: dict[str, Any]) -> Usage:
    said = reading.mapping(message.get("usage"))
    cached, written = (
        reading.number(said.get("cache_read_input_tokens")),
        reading.number(said.get("cache_creation_input_tokens")),
    )
    cost = value.get("costUSD")
    return Usage(
        reading.number(said.get("input_tokens")) + cached + written,
        reading.number(said.get("output_tokens")),
        cached,
        written,
        float(cost) if isinstance(cost, int | float) and not isinstance(cost, bool) and cost > 0 else None,
    )

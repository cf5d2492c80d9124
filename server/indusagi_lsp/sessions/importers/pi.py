"""pi's sessions: `~/.pi/agent/sessions/--<folder>--/*.jsonl`. Its relatives use the same lines.

The first line is a header. In the first version the entries follow one another and a compaction names the
first entry that it keeps by its index in the file; since then, `id` and `parentId` make a tree and it is
named by its id.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from indusagi_lsp.contract.models import Usage
from indusagi_lsp.contract.turns import (
    ASSISTANT,
    SYSTEM,
    TOOL,
    USER,
    Block,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    Turn,
)
from indusagi_lsp.sessions.importers import reading
from indusagi_lsp.sessions.importers.transcript import Draft, Fold, Transcript

if TYPE_CHECKING:
    from collections.abc import Callable

TOOL_NAME = "pi"


def read(data: bytes, name: str = "", cuts: frozenset[int] = frozenset(), tool: str = TOOL_NAME) -> Transcript:
    """Read a session; `tool` says whose it is, the other arguments are those of `claude_code.read`."""
    reader = _Reader(Draft(tool, cuts))
    for line in reading.lines(data):
        reader.draft.line(line.number)
        if line.problem:
            reader.draft.skip(line.problem)
        for value in line.values:
            reader.record(value)

    draft = reader.draft
    draft.id = draft.id or name
    draft.title = reader.named or reader.asked
    return draft.finish(reading.count_lines(data))


class _Reader:
    def __init__(self, draft: Draft) -> None:
        self.draft = draft
        self.asked: str | None = None
        self.named: str | None = None
        # From an entry's id to the turn where it went; entries without a turn stand for their parent's.
        self.where: dict[str, str | None] = {}
        # The turns of the file's entries by index (the header has index 0), for compactions of the first
        # version.
        self.order: list[str | None] = []
        self.kinds: dict[str, Callable[[dict[str, Any], str], None]] = {
            "message": self.message,
            "compaction": self.compaction,
            "branch_summary": self.branch_summary,
            "custom_message": self.custom_message,
        }
        self.roles: dict[str, Callable[[dict[str, Any], str, str | None], None]] = {
            "user": self.said,
            "assistant": self.answered,
            "toolResult": self.result,
            "bashExecution": self.executed,
            "custom": self.said,
            "hookMessage": self.said,
        }

    def record(self, value: dict[str, Any]) -> None:
        kind = value.get("type")
        if not isinstance(kind, str):
            self.draft.skip("no type")
            return

        if kind == "session":
            self.header(value)
            self.order.append(None)
            return

        key = reading.text_of(value.get("id")) or f"line-{self.draft.number}"
        if key in self.where:
            self.draft.skip("an entry that was there before")
            return

        self.draft.time(reading.milliseconds(value.get("timestamp")))
        before = len(self.draft.steps)
        handler = self.kinds.get(kind)
        if handler is not None:
            handler(value, key)
        else:
            self.other(value, kind)
        made = len(self.draft.steps) > before
        self.where[key] = key if made else self.parent(value)
        self.order.append(key if made else None)

    def header(self, value: dict[str, Any]) -> None:
        draft = self.draft
        if draft.id:
            draft.ignore("session")
            return

        draft.id = reading.text_of(value.get("id")) or ""
        draft.cwd = reading.text_of(value.get("cwd"))
        draft.model = reading.text_of(value.get("modelId"))
        draft.version = None if value.get("version") is None else str(value["version"])
        origin = reading.text_of(value.get("branchedFrom")) or reading.text_of(value.get("parentSession"))
        if origin:
            # A path of the source's machine: <time>_<id>.jsonl.
            draft.parent = origin.replace("\\", "/").rsplit("/", 1)[-1].removesuffix(".jsonl").rsplit("_", 1)[-1]
        draft.time(reading.milliseconds(value.get("timestamp")))

    def parent(self, value: dict[str, Any]) -> str | None:
        if "parentId" not in value:
            return self.draft.live

        parent = value["parentId"]
        if parent is None:
            return None

        if not isinstance(parent, str) or parent not in self.where:
            self.draft.gaps += 1
            return self.draft.live

        return self.where[parent]

    def other(self, value: dict[str, Any], kind: str) -> None:
        self.draft.ignore(kind)
        if kind == "session_info":
            self.named = reading.text_of(value.get("name")) or self.named
        elif kind == "label":
            target, name = self.where.get(str(value.get("targetId"))), reading.text_of(value.get("label"))
            if target and name:
                self.draft.labels[target] = name
            elif target:
                self.draft.labels.pop(target, None)

    def message(self, value: dict[str, Any], key: str) -> None:
        message = value.get("message")
        handler = self.roles.get(str(message.get("role"))) if isinstance(message, dict) else None
        if handler is None or not isinstance(message, dict):
            self.draft.skip("a message of an unknown role")
            return

        handler(message, key, self.parent(value))

    def said(self, message: dict[str, Any], key: str, parent: str | None) -> None:
        blocks = reading.parts(message.get("content") or [])
        if not blocks:
            self.draft.skip("an empty message")
            return

        self.draft.add(key, Turn(USER, blocks), parent)
        self.asked = self.asked or reading.title_of(blocks)

    def answered(self, message: dict[str, Any], key: str, parent: str | None) -> None:
        content = message.get("content")
        blocks = (
            tuple(block for part in content if (block := _answer(part)))
            if isinstance(content, list)
            else reading.parts(content)
        )
        provider = reading.text_of(message.get("provider")) or ""
        model = reading.text_of(message.get("model")) or ""
        self.draft.model = model or self.draft.model
        if not blocks:
            # Nothing was said before it was stopped: a turn without blocks is never stored.
            self.draft.skip(f"an empty answer ({message.get('stopReason', 'no reason')})")
            return

        self.draft.add(key, Turn(ASSISTANT, blocks), parent)
        self.draft.spend(key, key, _usage(reading.mapping(message.get("usage"))), model, provider)

    def result(self, message: dict[str, Any], key: str, parent: str | None) -> None:
        output, images = reading.result_text(message.get("content") or [])
        failed = message.get("isError")
        call = reading.text_of(message.get("toolCallId")) or "unknown"
        block = ToolResultBlock(call, output, failed if isinstance(failed, bool) else None)
        self.draft.add(key, Turn(TOOL, (block, *images)), parent)

    def executed(self, message: dict[str, Any], key: str, parent: str | None) -> None:
        """A command that the user ran."""
        text = f"I ran `{message.get('command', '')}`; it printed:\n{message.get('output', '')}"
        if message.get("exitCode") not in (0, None):
            text += f"\n(exit code {message['exitCode']})"
        self.draft.add(key, Turn(USER, (TextBlock(text),)), parent)

    def compaction(self, value: dict[str, Any], key: str) -> None:
        text, base = reading.text_of(value.get("summary")), self.parent(value)
        if text is None:
            self.draft.skip("a condensation without a readable summary")
            return

        summary = Turn(SYSTEM, (TextBlock(text),))
        if base is None:
            self.draft.add(key, summary, None)
            return

        kept, index = reading.text_of(value.get("firstKeptEntryId")), value.get("firstKeptEntryIndex")
        cut = self.where.get(kept) if kept else None
        if isinstance(index, int) and 0 <= index < len(self.order):
            # Where the entry has no turn, what was kept begins with the next one that has.
            cut = next((turn for turn in self.order[index:] if turn is not None), None)
        before = reading.number(value.get("tokensBefore")) or None
        self.draft.fold(Fold(key, base, cut, summary, "auto", before, model=self.draft.model))

    def branch_summary(self, value: dict[str, Any], key: str) -> None:
        text = reading.text_of(value.get("summary"))
        if text is None:
            self.draft.ignore("branch_summary")
        else:
            turn = Turn(USER, (TextBlock(f"What came of another branch of this conversation:\n{text}"),))
            self.draft.add(key, turn, self.parent(value))

    def custom_message(self, value: dict[str, Any], key: str) -> None:
        self.said(value, key, self.parent(value))


def _answer(part: Any) -> Block | None:
    kind = part.get("type") if isinstance(part, dict) else None
    if kind == "thinking":
        return ThinkingBlock(str(part.get("thinking", "")), reading.text_of(part.get("thinkingSignature")))

    if kind == "toolCall":
        return reading.arguments(reading.text_of(part.get("id")) or "unknown", part.get("name"), part.get("arguments"))

    return next(iter(reading.parts([part])), None)


def _usage(said: dict[str, Any]) -> Usage:
    cached, written = reading.number(said.get("cacheRead")), reading.number(said.get("cacheWrite"))
    cost = reading.mapping(said.get("cost")).get("total")
    return Usage(
        reading.number(said.get("input")) + cached + written,
        reading.number(said.get("output")),
        cached,
        written,
        float(cost) if isinstance(cost, int | float) and not isinstance(cost, bool) and cost > 0 else None,
    )

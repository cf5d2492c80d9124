"""Codex' rollouts: `~/.codex/sessions/<year>/<month>/<day>/rollout-<time>-<id>.jsonl`.

A line is `{timestamp, type, payload}`. What the model saw and said are the `response_item`s; the `event_msg`s
repeat it for the screen, except for the counts of tokens, each of which ends one answer. Reasoning is
encrypted. The files of the first versions hold the items bare.
"""

from __future__ import annotations

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

TOOL_NAME = "codex"
_CALLS = ("function_call", "custom_tool_call", "local_shell_call", "tool_search_call")
_OUTPUTS = (
    "function_call_output",
    "custom_tool_call_output",
    "local_shell_call_output",
    "tool_search_output",
)


def read(data: bytes, name: str = "", cuts: frozenset[int] = frozenset()) -> Transcript:
    """Read a rollout; the arguments are those of `claude_code.read`."""
    reader = _Reader(Draft(TOOL_NAME, cuts))
    for line in reading.lines(data):
        reader.draft.line(line.number)
        if line.problem:
            reader.draft.skip(line.problem)
        for value in line.values:
            reader.record(value)

    draft = reader.draft
    draft.id = draft.id or name
    draft.title = reader.asked
    return draft.finish(reading.count_lines(data))


class _Reader:
    def __init__(self, draft: Draft) -> None:
        self.draft = draft
        self.asked: str | None = None
        self.provider = "openai"
        self.group = 0
        self.first: str | None = None
        self.counted: Any = None
        self.kinds: dict[str, Callable[[dict[str, Any]], None]] = {
            "session_meta": self.meta,
            "turn_context": self.context,
            "response_item": self.item,
            "compacted": self.compacted,
            "event_msg": self.event,
        }

    def record(self, value: dict[str, Any]) -> None:
        self.draft.time(reading.milliseconds(value.get("timestamp")))
        kind, payload = value.get("type"), value.get("payload")
        if isinstance(payload, dict):
            handler = self.kinds.get(kind) if isinstance(kind, str) else None
            if handler is not None:
                handler(payload)
            else:
                self.draft.ignore(str(kind))
        elif isinstance(kind, str):
            self.item(value)
        elif reading.text_of(value.get("id")) and not self.draft.id:
            self.meta(value)
        elif "record_type" in value:
            self.draft.ignore(str(value["record_type"]))
        else:
            self.draft.skip("no type")

    def meta(self, payload: dict[str, Any]) -> None:
        draft = self.draft
        draft.ignore("session_meta")
        if draft.id:
            # A forked rollout repeats the header of the one that it came from.
            return

        draft.id = reading.text_of(payload.get("id")) or ""
        draft.cwd = reading.text_of(payload.get("cwd"))
        draft.version = reading.text_of(payload.get("cli_version"))
        draft.parent = reading.text_of(payload.get("forked_from_id"))
        self.provider = reading.text_of(payload.get("model_provider")) or self.provider
        started = reading.milliseconds(payload.get("timestamp"))
        draft.created_at = draft.created_at if started is None else started

    def context(self, payload: dict[str, Any]) -> None:
        self.draft.ignore("turn_context")
        self.draft.cwd = self.draft.cwd or reading.text_of(payload.get("cwd"))
        self.draft.model = reading.text_of(payload.get("model")) or self.draft.model

    def item(self, payload: dict[str, Any]) -> None:
        kind = payload.get("type")
        if kind == "message":
            self.message(payload)
        elif kind == "reasoning":
            self.say(_reasoning(payload))
        elif kind in _CALLS:
            call = (
                reading.text_of(payload.get("call_id"))
                or reading.text_of(payload.get("id"))
                or f"line-{self.draft.number}"
            )
            given = payload.get("arguments", payload.get("input", payload.get("action")))
            self.say(reading.arguments(call, payload.get("name") or _name(str(kind)), given))
        elif kind in _OUTPUTS:
            self.output(payload)
        elif isinstance(kind, str) and kind.endswith("_call"):
            # A tool that ran at the provider (a search of the web): it has no result of its own.
            self.say(OtherBlock({"kind": "hosted_call", "call": payload}))
        elif isinstance(kind, str):
            self.draft.ignore(kind)
        else:
            self.draft.skip("an item without a type")

    def message(self, payload: dict[str, Any]) -> None:
        role, blocks = payload.get("role"), reading.parts(payload.get("content") or [])
        if role in ("developer", "system"):
            self.draft.ignore("instructions")
        elif not blocks:
            self.draft.skip("an empty message")
        elif role == "assistant":
            for block in blocks:
                self.say(block)
        elif role == "user":
            self.draft.add(self.key(), Turn(USER, blocks), self.draft.live)
            self.asked = self.asked or reading.title_of(blocks)
        else:
            self.draft.skip("a message of an unknown role")

    def say(self, block: Block) -> None:
        """Add to the model's answer, which goes on until its tokens are counted or something else is said."""
        if self.draft.answering is None:
            self.group += 1
        key = self.draft.answer(str(self.group), self.key(), (block,), self.draft.live)
        self.first = self.first or key

    def output(self, payload: dict[str, Any]) -> None:
        call = reading.text_of(payload.get("call_id"))
        if call is None:
            self.draft.skip("a tool's output that names no call")
            return

        given = payload.get("output")
        success = given.get("success") if isinstance(given, dict) else None
        if isinstance(given, dict):
            given = given.get("content", given.get("body", ""))
        output, images = reading.result_text("" if given is None else given)
        block = ToolResultBlock(call, output, None if success is None else success is False)
        self.draft.add(self.key(), Turn(TOOL, (block, *images)), self.draft.live)

    def event(self, payload: dict[str, Any]) -> None:
        kind = str(payload.get("type"))
        self.draft.ignore(f"event/{kind}")
        if kind == "token_count":
            self.counts(reading.mapping(payload.get("info")))
        elif kind in ("task_complete", "turn_complete", "turn_aborted"):
            self.draft.close()

    def counts(self, info: dict[str, Any]) -> None:
        total, last = info.get("total_token_usage"), reading.mapping(info.get("last_token_usage"))
        if total == self.counted or not last:
            # Said again, with a change of the rate limits.
            return

        self.counted = total
        first, self.first = self.first, None
        self.draft.close()
        if first is None:
            return

        usage = Usage(
            reading.number(last.get("input_tokens")),
            reading.number(last.get("output_tokens")),
            reading.number(last.get("cached_input_tokens")),
        )
        self.draft.spend(f"count-{self.draft.number}", first, usage, self.draft.model or "", self.provider)

    def compacted(self, payload: dict[str, Any]) -> None:
        text = reading.text_of(payload.get("message"))
        if text is None:
            # The summary is the last message of the history that replaces ours.
            for item in reversed(reading.sequence(payload.get("replacement_history"))):
                blocks = reading.parts(reading.mapping(item).get("content") or [])
                text = "\n".join(block.text for block in blocks if isinstance(block, TextBlock))
                if text:
                    break
        base = self.draft.live
        if not text:
            self.draft.skip("a condensation without a readable summary")
        elif base is not None:
            summary = Turn(SYSTEM, (TextBlock(text),))
            self.draft.fold(Fold(self.key(), base, None, summary, "auto", model=self.draft.model))
            self.first = None

    def key(self) -> str:
        return f"{self.draft.number}"


def _reasoning(payload: dict[str, Any]) -> Block:
    texts = [
        text
        for part in (*reading.sequence(payload.get("summary")), *reading.sequence(payload.get("content")))
        if (text := reading.text_of(reading.mapping(part).get("text")))
    ]
    return ThinkingBlock("\n\n".join(texts), reading.text_of(payload.get("encrypted_content")))


def _name(kind: str) -> str:
    return kind.removesuffix("_call")

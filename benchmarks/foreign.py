"""Reads the session files of other agents into our turns, for benchmarks and property tests alone.

This is a reader of what such files look like in the wild, not the importer: what it does not understand it leaves out.
A `Sample` keeps beside the turns what the provider said of the prompts' sizes.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from indusagi_lsp.contract.turns import (
    ASSISTANT,
    TOOL,
    USER,
    Block,
    ImageBlock,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
    ToolResultBlock,
    Turn,
)

FOLDER_VARIABLE = "INDUSAGI_TRANSCRIPTS"


class Reported(msgspec.Struct, frozen=True):
    """What a provider said of one call: `at` turns stood before the answer; `prompt` and `output` are in tokens."""

    at: int
    prompt: int
    output: int


class Sample(msgspec.Struct, frozen=True):
    """One transcript.

    `summaries` are condensations that the other agent made: (number of turns before it, text of the summary).
    """

    name: str
    turns: tuple[Turn, ...]
    usage: tuple[Reported, ...] = ()
    summaries: tuple[tuple[int, str], ...] = ()
    bytes: int = 0


def folder() -> Path | None:
    """Where the transcripts lie: the folder that the variable names, else the one beside the repository."""
    named = os.environ.get(FOLDER_VARIABLE)
    path = Path(named) if named else Path(__file__).resolve().parents[2] / "shared" / "data" / "transcripts"
    return path if path.is_dir() else None


def samples() -> list[Sample]:
    """Every transcript that is there, in a stable order; an empty list where there are none."""
    root = folder()
    if root is None:
        return []

    found = []
    for path in sorted(root.rglob("*.json*")):
        reader = _READERS.get(path.parent.name)
        if reader is not None:
            found.append(reader(f"{path.parent.name}/{path.name}", path.read_bytes()))

    return found


def _lines(data: bytes) -> Iterator[dict[str, Any]]:
    """The objects of a JSON-lines file; other lines are left out."""
    for line in data.split(b"\n"):
        try:
            value = json.loads(line)
        except ValueError:
            continue

        if isinstance(value, dict):
            yield value


def _output_text(content: Any) -> str:
    """A tool's output as text, whichever way it was written."""
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return "\n".join(part.get("text", "") for part in content if isinstance(part, dict))
    return "" if content is None else json.dumps(content)


def _anthropic_block(raw: Any) -> Block | None:
    """One content block in Anthropic's spelling."""
    if isinstance(raw, str):
        return TextBlock(raw)
    if not isinstance(raw, dict):
        return None

    match raw.get("type"):
        case "text":
            return TextBlock(raw.get("text", ""))
        case "thinking":
            return ThinkingBlock(raw.get("thinking", ""), raw.get("signature"))
        case "tool_use":
            return ToolCallBlock(raw["id"], raw["name"], raw.get("input"))
        case "tool_result":
            return ToolResultBlock(raw["tool_use_id"], _output_text(raw.get("content")), raw.get("is_error"))
        case "image":
            source = raw.get("source", {})
            return ImageBlock(source.get("media_type", "image/png"), source.get("data", ""))
        case _:
            return None


def _claude(name: str, data: bytes) -> Sample:
    """Claude Code: one line per content block; lines of one message share its id and repeat its usage."""
    turns: list[Turn] = []
    usage: list[Reported] = []
    summaries: list[tuple[int, str]] = []
    last_id = ""
    for record in _lines(data):
        message = record.get("message")
        if record.get("type") not in ("user", "assistant") or not isinstance(message, dict):
            continue

        content = message.get("content")
        raw = content if isinstance(content, list) else [content] if isinstance(content, str) else []
        blocks = tuple(block for block in map(_anthropic_block, raw) if block is not None)
        if not blocks:
            continue

        if record.get("isCompactSummary"):
            summaries.append((len(turns), "\n".join(b.text for b in blocks if isinstance(b, TextBlock))))
            continue

        if record["type"] == "user":
            results = all(isinstance(block, ToolResultBlock) for block in blocks)
            turns.append(Turn(TOOL if results else USER, blocks))
            last_id = ""
            continue

        said = message.get("usage") or {}
        prompt = sum(
            said.get(key) or 0 for key in ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")
        )
        if message.get("id") == last_id:
            turns[-1] = Turn(ASSISTANT, turns[-1].blocks + blocks)
            if usage and prompt:
                usage[-1] = Reported(usage[-1].at, prompt, max(usage[-1].output, said.get("output_tokens") or 0))
        else:
            if prompt:
                usage.append(Reported(len(turns), prompt, said.get("output_tokens") or 0))
            turns.append(Turn(ASSISTANT, blocks))
            last_id = message.get("id", "")

    return Sample(name, tuple(turns), tuple(usage), tuple(summaries), len(data))


def _pi(name: str, data: bytes) -> Sample:
    """pi: one line per message, with its own spelling of the blocks."""
    turns: list[Turn] = []
    usage: list[Reported] = []
    summaries: list[tuple[int, str]] = []
    for record in _lines(data):
        if record.get("type") == "compaction":
            summaries.append((len(turns), record.get("summary", "")))
            continue

        message = record.get("message")
        if record.get("type") != "message" or not isinstance(message, dict):
            continue

        role = message.get("role")
        if role == "toolResult":
            text = _output_text(message.get("content"))
            turns.append(Turn(TOOL, (ToolResultBlock(message["toolCallId"], text, message.get("isError")),)))
        elif role == "bashExecution":
            turns.append(Turn(USER, (TextBlock(f"Ran `{message['command']}`\n{message.get('output', '')}"),)))
        elif role in (USER, ASSISTANT):
            blocks = tuple(_pi_blocks(message.get("content")))
            said = message.get("usage") or {}
            prompt = sum(said.get(key) or 0 for key in ("input", "cacheRead", "cacheWrite"))
            if role == ASSISTANT and prompt:
                usage.append(Reported(len(turns), prompt, said.get("output") or 0))
            if blocks:
                turns.append(Turn(role, blocks))

    return Sample(name, tuple(turns), tuple(usage), tuple(summaries), len(data))


def _pi_blocks(content: Any) -> Iterator[Block]:
    for raw in [{"type": "text", "text": content}] if isinstance(content, str) else content or []:
        match raw.get("type"):
            case "text":
                yield TextBlock(raw["text"])
            case "thinking":
                yield ThinkingBlock(raw["thinking"], raw.get("thinkingSignature"))
            case "toolCall":
                yield ToolCallBlock(raw["id"], raw["name"], raw.get("arguments"))
            case "image":
                yield ImageBlock(raw.get("mimeType", "image/png"), raw.get("data", ""))


def _codex(name: str, data: bytes) -> Sample:
    """Codex: response items in order; consecutive items of the assistant are one turn, token counts stand between."""
    turns: list[Turn] = []
    usage: list[Reported] = []
    seen_total = 0
    for record in _lines(data):
        payload = record.get("payload") or {}
        kind = payload.get("type")
        if record.get("type") == "response_item":
            _codex_item(kind, payload, turns)
        elif kind == "token_count" and payload.get("info"):
            total = payload["info"]["total_token_usage"]["total_tokens"]
            if total != seen_total:
                seen_total = total
                last = payload["info"]["last_token_usage"]
                usage.append(Reported(_answer_start(turns), last["input_tokens"], last["output_tokens"]))

    return Sample(name, tuple(turns), tuple(usage), (), len(data))


def _answer_start(turns: list[Turn]) -> int:
    """The index of the answer that a token count is about: the last assistant turn."""
    at = len(turns) - 1
    while at > 0 and turns[at].role != ASSISTANT:
        at -= 1
    return max(at, 0)


def _codex_item(kind: Any, payload: dict[str, Any], turns: list[Turn]) -> None:
    match kind:
        case "message":
            text = "\n".join(part.get("text", "") for part in payload.get("content", []))
            if payload["role"] == ASSISTANT:
                _join(turns, TextBlock(text))
            else:
                turns.append(Turn("system" if payload["role"] == "developer" else USER, (TextBlock(text),)))
        case "function_call":
            try:
                arguments = json.loads(payload["arguments"])
            except ValueError:
                arguments = payload["arguments"]
            _join(turns, ToolCallBlock(payload["call_id"], payload["name"], arguments))
        case "custom_tool_call":
            _join(turns, ToolCallBlock(payload["call_id"], payload["name"], payload["input"]))
        case "function_call_output" | "custom_tool_call_output":
            turns.append(Turn(TOOL, (ToolResultBlock(payload["call_id"], _output_text(payload.get("output"))),)))


def _join(turns: list[Turn], block: Block) -> None:
    if turns and turns[-1].role == ASSISTANT:
        turns[-1] = Turn(ASSISTANT, (*turns[-1].blocks, block))
    else:
        turns.append(Turn(ASSISTANT, (block,)))


def _gemini(name: str, data: bytes) -> Sample:
    """Gemini CLI: one JSON document; calls and their results stand inside the model's message."""
    turns: list[Turn] = []
    usage: list[Reported] = []
    for message in json.loads(data)["messages"]:
        if message["type"] == "user":
            turns.append(Turn(USER, (TextBlock(message["content"]),)))
            continue
        if message["type"] != "gemini":
            continue

        said = message.get("tokens") or {}
        if said.get("input"):
            usage.append(Reported(len(turns), said["input"], said.get("output") or 0))
        blocks: list[Block] = [TextBlock(message["content"])] if message.get("content") else []
        calls = message.get("toolCalls") or []
        blocks += [ToolCallBlock(call["id"], call["name"], call.get("args")) for call in calls]
        if blocks:
            turns.append(Turn(ASSISTANT, tuple(blocks)))
        for call in calls:
            parts = [part.get("functionResponse", {}).get("response", {}) for part in call.get("result") or []]
            text = "\n".join(str(part.get("output", part.get("error", ""))) for part in parts)
            turns.append(Turn(TOOL, (ToolResultBlock(call["id"], text, call.get("status") == "error"),)))

    return Sample(name, tuple(turns), tuple(usage), (), len(data))


_READERS = {"claude-code": _claude, "pi": _pi, "codex": _codex, "gemini-cli": _gemini}

"""Gemini CLI's sessions: `~/.gemini/tmp/<project>/chats/session-*.json` and, since 2026, `.jsonl`.

The older form is one object that is written anew each time. In the newer one a message is written again in
full when it changes, `$set` changes what is known of the session, and `$rewindTo` takes back a message and
all after it.
"""

from __future__ import annotations

from typing import Any, TypeAlias

from indusagi_lsp.contract import jsontext
from indusagi_lsp.contract.models import Usage
from indusagi_lsp.contract.turns import ASSISTANT, TOOL, USER, Block, ThinkingBlock, ToolResultBlock, Turn
from indusagi_lsp.sessions.importers import reading
from indusagi_lsp.sessions.importers.transcript import Draft, Transcript

TOOL_NAME = "gemini-cli"
_FAILED = ("error", "cancelled")
_Messages: TypeAlias = list[tuple[int, Any, str | None]]


def read(data: bytes, name: str = "", cuts: frozenset[int] = frozenset()) -> Transcript:
    """Read a session; the arguments are those of `claude_code.read`."""
    draft = Draft(TOOL_NAME, cuts)
    whole = _whole(data)
    about: dict[str, Any] = {}
    if whole is not None:
        about = whole
        messages: _Messages = [
            (index, message, None) for index, message in enumerate(reading.sequence(whole.get("messages")), 1)
        ]
    else:
        messages = _replay(data, about, draft)

    draft.id = reading.text_of(about.get("sessionId")) or name
    draft.time(reading.milliseconds(about.get("startTime")))
    draft.cwd = next((folder for folder in reading.sequence(about.get("directories")) if isinstance(folder, str)), None)
    draft.project = reading.text_of(about.get("projectHash"))
    draft.title = reading.text_of(about.get("summary"))
    where: dict[str, str | None] = {}
    for line, message, after in messages:
        draft.line(line)
        _message(draft, message, where, after)

    return draft.finish(draft.number)


def _whole(data: bytes) -> dict[str, Any] | None:
    try:
        value = jsontext.loads(data.strip().removeprefix(b"\xef\xbb\xbf"))
    except ValueError:
        return None

    return value if isinstance(value, dict) and "messages" in value else None


def _replay(data: bytes, about: dict[str, Any], draft: Draft) -> _Messages:
    """The messages of the newer form, as (line, message, the message that it follows if not the one before).

    A message that was taken back stays, as a branch; the message that comes next names the one that it
    follows.
    """
    order: list[str] = []
    latest: dict[str, tuple[int, dict[str, Any]]] = {}
    live: list[str] = []
    after: dict[str, str] = {}
    rewound: str | None = None
    for line in reading.lines(data):
        draft.line(line.number)
        if line.problem:
            draft.skip(line.problem)
        for value in line.values:
            target, key = value.get("$rewindTo"), value.get("id")
            if isinstance(target, str):
                live = live[: live.index(target)] if target in live else []
                rewound = live[-1] if live else ""
                draft.ignore("$rewindTo")
            elif isinstance(key, str):
                if key not in latest:
                    order.append(key)
                    live.append(key)
                    if rewound is not None:
                        after[key], rewound = rewound, None
                latest[key] = (line.number, value)
            else:
                about.update(reading.mapping(value.get("$set")) or value)
                draft.ignore("metadata")

    return [(*latest[key], after.get(key)) for key in order]


def _message(draft: Draft, message: Any, where: dict[str, str | None], after: str | None) -> None:
    if not isinstance(message, dict):
        draft.skip("not an object")
        return

    key = reading.text_of(message.get("id")) or f"line-{draft.number}"
    draft.time(reading.milliseconds(message.get("timestamp")))
    parent = draft.live if after is None else where.get(after)
    kind = message.get("type")
    if key in where:
        draft.skip("a message that was there before")
        return

    if kind == "user":
        blocks = reading.parts(message.get("content") or [])
        if blocks:
            draft.add(key, Turn(USER, blocks), parent)
            draft.title = draft.title or reading.title_of(blocks)
            parent = key
        else:
            draft.skip("an empty message")
    elif kind == "gemini":
        parent = _answer(draft, message, key, parent)
    elif isinstance(kind, str):
        draft.ignore(kind)
    else:
        draft.skip("no type")
    where[key] = parent


def _answer(draft: Draft, message: dict[str, Any], key: str, parent: str | None) -> str | None:
    """Add the model's message: its thoughts, its words and its calls, then each call's result."""
    blocks: list[Block] = [
        ThinkingBlock("\n".join(str(thought.get(name)) for name in ("subject", "description") if thought.get(name)))
        for thought in reading.sequence(message.get("thoughts"))
        if isinstance(thought, dict)
    ]
    blocks.extend(reading.parts(message.get("content") or []))
    calls = [call for call in reading.sequence(message.get("toolCalls")) if isinstance(call, dict)]
    named = [(reading.text_of(call.get("id")) or f"{key}-{index}", call) for index, call in enumerate(calls)]
    blocks.extend(reading.arguments(name, call.get("name"), call.get("args")) for name, call in named)
    if not blocks:
        draft.skip("an empty answer")
        return parent

    model = reading.text_of(message.get("model")) or ""
    draft.model = model or draft.model
    tip = draft.add(key, Turn(ASSISTANT, tuple(blocks)), parent)
    draft.spend(key, key, _usage(reading.mapping(message.get("tokens"))), model, "google")
    at = draft.at
    for name, call in named:
        if call.get("result") is None and call.get("status") not in ("success", *_FAILED):
            continue

        draft.time(reading.milliseconds(call.get("timestamp")))
        tip = draft.add(f"{key}#{name}", Turn(TOOL, _result(name, call)), tip)
    draft.at = max(at, draft.at)
    return tip


def _result(name: str, call: dict[str, Any]) -> tuple[Block, ...]:
    texts: list[str] = []
    images: list[Block] = []
    given = call.get("result")
    for part in given if isinstance(given, list) else [given]:
        response = reading.mapping(reading.mapping(part).get("functionResponse")).get("response")
        if isinstance(response, dict):
            said = response.get("output", response.get("error"))
            texts.append(said if isinstance(said, str) else reading.compact(response))
        elif part is not None:
            text, found = reading.result_text([part])
            texts.extend([text] if text else [])
            images.extend(found)
    if not texts and isinstance(call.get("resultDisplay"), str):
        texts.append(call["resultDisplay"])

    return (ToolResultBlock(name, "\n".join(texts), call.get("status") in _FAILED), *images)


def _usage(said: dict[str, Any]) -> Usage:
    return Usage(
        reading.number(said.get("input")),
        reading.number(said.get("output")) + reading.number(said.get("thoughts")),
        reading.number(said.get("cached")),
    )

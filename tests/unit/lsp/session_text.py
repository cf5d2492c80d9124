"""Session files for the tests, as our own writer lays them out."""

from __future__ import annotations

import json

from indusagi_lsp.contract.turns import TOOL, Turn, assistant, turn_from_json, user
from indusagi_lsp.sessions.nodes import id_of, node_line, node_text


class Log:
    """Writes a session file; `ids` are those of its turns."""

    def __init__(self) -> None:
        self.text = record({"type": "session", "schema": 1, "id": "s1", "cwd": "file:///ws", "createdAt": 1})
        self.ids: list[str] = []

    def say(self, turn: Turn, parent: str | int | None = -1) -> str:
        above = (self.ids[parent] if self.ids else None) if isinstance(parent, int) else parent
        text = node_text(above, turn, len(self.ids))
        self.ids.append(id_of(text))
        self.text += node_line(self.ids[-1], text, turn, above, len(self.ids) - 1).decode()
        return self.ids[-1]

    def head(self, leaf: str | None = None) -> None:
        self.add({"type": "head", "leaf": leaf or self.ids[-1], "at": 1, "by": "w", "why": "append"})

    def add(self, raw) -> None:
        self.text += record(raw)


def record(raw) -> str:
    return json.dumps(raw, separators=(",", ":"), ensure_ascii=False) + "\n"


def call(*ids: str) -> Turn:
    blocks = [{"kind": "tool_call", "id": one, "name": "read", "input": {"path": "a"}} for one in ids]
    return turn_from_json({"role": "assistant", "blocks": blocks})


def result(*ids: str) -> Turn:
    blocks = [{"kind": "tool_result", "callId": one, "output": "out"} for one in ids]
    return turn_from_json({"role": TOOL, "blocks": blocks})


def talk() -> Log:
    log = Log()
    log.say(user("first 😀 question"))
    log.head()
    log.say(assistant("an answer"))
    log.head()
    log.say(user("second"))
    log.say(call("c1"))
    log.say(result("c1"))
    log.head()
    return log

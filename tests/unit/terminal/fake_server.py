"""A server of a few lines that speaks the protocol, and misbehaves as it is told to by the prompt."""

from __future__ import annotations

import json
import os
import sys
import time
from typing import Any

SESSION = "11112222333344445555666677778888"
OPTIONS = ["once", "session", "always", "deny"]
ZERO = {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0, "cost": None}


class FakeServer:
    """Reads requests from stdin, one at a time, and answers as the real one would."""

    def __init__(self) -> None:
        self.seq = 0
        self.runs: list[Any] = []
        self.approvals: dict[str, Any] = {}
        self.log = os.environ.get("FAKE_LOG")
        self.turns: list[dict[str, Any]] = []
        self.trusted = True
        self.model: str | None = None

    def send(self, message: dict[str, Any]) -> None:
        body = json.dumps({"jsonrpc": "2.0", **message}).encode()
        sys.stdout.buffer.write(b"Content-Length: %d\r\n\r\n%b" % (len(body), body))
        sys.stdout.buffer.flush()

    def event(self, kind: str, **fields: Any) -> None:
        self.seq += 1
        params = {"workspace": "file:///ws", "sessionId": SESSION, "runId": "r", "seq": self.seq, "at": 0}
        self.send({"method": "indusagi/event", "params": {**params, "event": {"kind": kind, **fields}}})

    def info(self) -> dict[str, Any]:
        return {
            "id": SESSION, "workspace": "file:///ws", "title": "A session", "createdAt": 0, "updatedAt": 0,
            "turns": len(self.turns), "head": None, "tokens": 0, "cost": None,
            "state": "idle" if self.trusted else "foreign", "model": self.model, "parentSession": None,
        }  # fmt: skip

    def snapshot(self, phase: str, text: str = "", error: Any = None) -> dict[str, Any]:
        messages = [{"role": "assistant", "blocks": [{"kind": "text", "text": text}]}] if text else []
        return {
            "runId": "r", "sessionId": SESSION, "phase": phase, "messages": messages, "pending": [],
            "usage": ZERO, "model": "fake:model", "leaf": None, "error": error, "partial": "",
        }  # fmt: skip

    def settle(self, number: Any, text: str) -> None:
        snapshot = self.snapshot("settled", text)
        self.event("settled", snapshot=snapshot)
        self.send({"id": number, "result": snapshot})

    def fault(self, number: Any, kind: str, message: str, hint: str) -> None:
        error = {"kind": kind, "message": message, "hint": hint}
        snapshot = self.snapshot("faulted", error=error)
        self.event("faulted", error=error, snapshot=snapshot)
        self.send({"id": number, "result": snapshot})

    def submit(self, number: Any, text: str) -> None:
        self.turns.append({"role": "user", "text": text})
        self.event("run_started", node=f"n{len(self.turns)}")
        if text == "die":
            sys.stderr.write("a last word\n")
            sys.stderr.flush()
            os._exit(7)
        elif text == "die quietly after text":
            self.event("text_delta", delta="half an ans")
            os._exit(0)
        elif text == "fault":
            self.fault(number, "model_failed", "The key is wrong.", "Check it.")
        elif text == "unwritten":
            self.fault(number, "persistence", "It could not be written.", "Free some space.")
        elif text == "refuse":
            data = {"kind": "session_foreign", "hint": "Read it first."}
            self.send({"id": number, "error": {"code": -32013, "message": "Not yours.", "data": data}})
        elif text == "garbage":
            sys.stdout.buffer.write(b"print() in a library\nContent-Length: x\r\n\r\n\xff\xfe")
            sys.stdout.buffer.flush()
            self.send({"method": "indusagi/event", "params": {"nonsense": True}})
            self.send({"method": "indusagi/event", "params": None})
            self.event("never_heard_of", x=1)
            self.event("text_delta", delta=None)
            self.event("text_delta", delta="after garbage")
            self.settle(number, "after garbage")
        elif text.startswith("approve"):
            self.approvals["ask-1"] = number
            action = {"approvalId": "a", "workspace": "w", "sessionId": SESSION, "runId": "r", "callId": "c",
                      "tool": "run_command", "action": "rm -rf \u202e/ \x1b[2J", "size": 12, "sha256": "0",
                      "options": ["once", "deny"] if "afresh" in text else OPTIONS}  # fmt: skip
            self.send({"id": "ask-1", "method": "indusagi/approve", "params": action})
        elif text == "question":
            self.approvals["ask-2"] = number
            question = {"questionId": "q", "workspace": "w", "sessionId": SESSION, "callId": "c",
                        "question": "Tabs \u202e?", "options": ["yes", "no"]}  # fmt: skip
            self.send({"id": "ask-2", "method": "indusagi/question", "params": question})
        elif text == "slow":
            self.event("text_delta", delta="a beginning")
            self.runs.append(number)
        elif text == "gap":
            self.event("text_delta", delta="abc")
            self.seq += 3
            self.event("text_delta", delta="xyz")
            self.settle(number, "abc def xyz")
        elif text == "unheard":
            self.send({"id": "u", "method": "workspace/unheard", "params": {}})
            self.runs.append(number)
        else:
            self.event("thinking_delta", delta="hm")
            self.event("text_delta", delta=f"You said \x1b[31m{text}")
            self.event("text_delta", delta=".\n")
            self.event("tool_called", id="c", name="read_file", input={"path": "a"})
            self.event("tool_finished", id="c", name="read_file", outcome={"output": "x\ny", "isError": False})
            self.event("text_delta", delta="Done.")
            self.settle(number, "Done.")

    def answered(self, message: dict[str, Any]) -> None:
        if message.get("error", {}).get("code") == -32800:
            self.event("approval_resolved", id="a", decision="once", by="another window")
            self.settle(self.approvals.pop(message["id"]), "withdrawn")
            return
        if message["id"] == "u" or "error" in message:
            waiting = self.runs.pop() if message["id"] == "u" else self.approvals.pop(message["id"])
            self.settle(waiting, str(message["error"]["code"]))
            return
        number = self.approvals.pop(message["id"])
        if message["id"] == "ask-2":
            self.event("text_delta", delta=f"heard: {message['result'].get('answer')}")
            self.settle(number, "heard")
            return
        decision = message["result"]["decision"]
        self.event("approval_resolved", id="a", decision=decision, by="user")
        self.event("text_delta", delta=f"decided: {decision}")
        self.settle(number, f"decided: {decision}")

    def handle(self, message: dict[str, Any]) -> None:
        method, number, params = message.get("method"), message.get("id"), message.get("params") or {}
        if self.log is not None:
            with open(self.log, "a") as log:
                log.write(json.dumps(message) + "\n")
        if method is None:
            self.answered(message)
        elif method == "indusagi/submit":
            self.submit(number, params["text"])
        elif method == "indusagi/status":
            # Somebody else has answered meanwhile.
            self.send({"method": "$/cancelRequest", "params": {"id": "ask-1"}})
            self.send({"id": number, "error": {"code": -32603, "message": "No status here."}})
        elif method == "indusagi/abort":
            self.send({"id": number, "result": {"phase": "streaming"}})
            while self.runs:
                self.fault(self.runs.pop(0), "aborted", "Stopped.", "")
        elif method == "exit":
            if os.environ.get("FAKE_STAYS"):
                time.sleep(60)
            sys.exit(0)
        elif number is not None:
            self.send({"id": number, "result": self.result(method, params)})

    def result(self, method: str, params: dict[str, Any]) -> Any:
        short = method.removeprefix("indusagi/")
        if short == "models/list":
            model = {"id": "local:small", "provider": "local", "name": "small", "window": None, "tools": False,
                     "local": True, "available": True, "note": "small"}  # fmt: skip
            return {"models": [model], "current": "local:small", "hint": "Set a key for a better one."}
        if short == "session/new":
            while os.path.exists(os.environ.get("FAKE_NEW_WAITS", "")):
                time.sleep(0.01)
            return self.info()
        if short == "session/list":
            return {"sessions": [self.info()], "nextCursor": None}
        if short == "resume":
            self.trusted = params["sessionId"] != "foreign"
            self.model = "local:own" if params["sessionId"] == "own" else None
            turns = [
                {"id": f"node{number}", "role": turn["role"], "blocks": [{"kind": "text", "text": turn["text"]}],
                 "createdAt": 0}
                for number, turn in enumerate(self.turns)
            ]  # fmt: skip
            return {"session": self.info(), "turns": turns, "head": None, "branches": [], "usage": ZERO,
                    "labels": {}, "trusted": self.trusted, "notices": [], "before": None, "seq": self.seq}  # fmt: skip
        if short == "fork":
            return {"leaf": None, "sessionId": SESSION, "prefill": f"edit me {params['node']}"}
        if short == "files/restore":
            return self.restore(params)
        if short == "condense":
            plan = {"cut": 4, "dropped": [], "kept": [], "before": 900, "after": 90, "draft": "the draft", "token": "t"}
            done = {"condensed": not params.get("preview"), "leaf": None, "before": 900, "after": 90, "cut": 4}
            ignored = "No model wrote it." if params.get("instruction") else None
            return {**done, "preview": plan if params.get("preview") else None, "reason": ignored}
        if short == "condense/undo":
            return {"leaf": "x"}
        if short == "session/adopt":
            self.trusted = True
            return {"sessionId": SESSION, "head": None}
        return None

    def restore(self, params: dict[str, Any]) -> Any:
        """Two files, one of which is only restored when it is chosen; before the second turn there is nothing."""
        certain = {"path": "a.py", "action": "restore", "by": "edit", "conflicts": [], "reason": "", "problem": "",
                   "diff": "-new \x1b[2J\n+old\n"}  # fmt: skip
        doubtful = {**certain, "path": "out.txt", "action": "remove", "by": "command", "conflicts": ["command"],
                    "reason": "It was changed while a command ran.", "diff": "-made\n"}  # fmt: skip
        files = [] if params.get("node") == "node1" else [certain, doubtful]
        plan = {"applied": False, "token": "t", "files": files, "restore": None, "restored": [], "kept": []}
        if params.get("preview"):
            return plan
        chosen = [
            file["path"] for file in files if not file["conflicts"] or params.get("choices", {}).get(file["path"])
        ]
        kept = [file["path"] for file in files if file["path"] not in chosen]
        return {**plan, "applied": True, "restore": "r1", "restored": chosen, "kept": kept}


def main() -> None:
    if os.environ.get("FAKE_DIES_AT_ONCE"):
        sys.stderr.write("ImportError: something is missing\n")
        sys.exit(4)
    server = FakeServer()
    if os.environ.get("FAKE_CHATTER"):
        sys.stderr.write("noise\n" * 200_000)
        sys.stderr.flush()
    stream = sys.stdin.buffer
    while header := stream.readline():
        length = int(header.split(b":")[1])
        while stream.readline().strip():
            pass
        server.handle(json.loads(stream.read(length)))


main()

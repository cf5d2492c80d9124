"""An MCP server by hand, without the SDK: starts at once, and misbehaves on request.

    plain.py [--option …] [--tools FILE]

FILE holds the tools as JSON; without it there is `echo` and what the options need.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time

OPTIONS = set(sys.argv[1:])
TOOLS = sys.argv[sys.argv.index("--tools") + 1] if "--tools" in OPTIONS else None
SCHEMA = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}


def send(message: dict, *, end: str = "\n") -> None:
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + end)
    sys.stdout.flush()


def tools() -> list:
    if TOOLS is not None:
        with open(TOOLS) as file:
            return json.load(file)
    return [
        {"name": name, "description": f"Does {name}.", "inputSchema": SCHEMA}
        for name in ("echo", "die", "long", "hang", "environment", "wrong_id", "half", "no_result", "refuse", "change")
    ]


def call(number: object, name: str, arguments: dict) -> None:
    text = arguments.get("text", "")
    if name == "die":
        os._exit(3)
    if name == "hang":
        return
    if name == "refuse":
        send({"id": number, "error": {"code": -32602, "message": f"no {text}"}})
        return
    if name == "no_result":
        send({"id": number, "result": {"content": [{"type": "text"}], "isError": "perhaps"}})
        return
    if name == "long":
        text = "x" * int(text)
    if name == "environment":
        text = json.dumps({"env": dict(os.environ), "cwd": os.getcwd(), "argv": sys.argv[1:]})
    if name == "wrong_id":
        send({"id": 999_999, "result": {"content": [{"type": "text", "text": "stray"}]}})
    if name == "half":
        send({"id": number, "result": {}}, end="")
        os._exit(4)
    if name == "change":
        with open(TOOLS or "", "w") as file:
            file.write(text)
        send({"method": "notifications/tools/list_changed"})
    send({"id": number, "result": {"content": [{"type": "text", "text": text}]}})


def answer(message: dict) -> None:
    method, number = message.get("method"), message.get("id")
    if method == "initialize":
        if "--die-at-start" in OPTIONS:
            sys.stderr.write("cannot find my \x1b[31mconfiguration\n")
            sys.stderr.flush()
            os._exit(7)
        result = {
            "protocolVersion": "2025-06-18",
            "capabilities": {"tools": {"listChanged": True}},
            "serverInfo": {"name": "plain", "version": "1"},
        }
        send({"id": number, "result": result})
    elif method == "notifications/initialized":
        if "--stop-reading" in OPTIONS:
            time.sleep(1000)
    elif method == "tools/list":
        send({"id": number, "result": {"tools": tools()}})
        if "--storm" in OPTIONS:
            OPTIONS.discard("--storm")
            for _ in range(20_000):
                send({"method": "notifications/tools/list_changed"})
        if "--die-after-list" in OPTIONS:
            os._exit(5)
    elif method == "tools/call":
        call(number, message["params"]["name"], message["params"].get("arguments") or {})
    elif method == "notifications/cancelled":
        sys.stderr.write(f"cancelled {message['params']['requestId']}\n")
        sys.stderr.flush()
    elif number is not None:
        send({"id": number, "error": {"code": -32601, "message": "Method not found"}})


if "--stubborn" in OPTIONS:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    child = subprocess.Popen([sys.executable, "-ISc", "import signal, time; signal.signal(15, 1); time.sleep(1000)"])
    sys.stderr.write(f"child {child.pid}\n")
    sys.stderr.flush()
if "--silent" in OPTIONS:
    time.sleep(1000)
if "--flood" in OPTIONS:
    for line in range(200_000):
        sys.stderr.write(f"line {line} \x1b[2J of a flood that nobody asked for\n")
    sys.stderr.flush()
if "--garbage" in OPTIONS:
    sys.stdout.write("Welcome!\n\n{]\n\xff\n" * 1000)

for line in sys.stdin:
    answer(json.loads(line))
if "--stubborn" in OPTIONS:
    time.sleep(1000)

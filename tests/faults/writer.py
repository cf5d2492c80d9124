"""A process that writes to a session and is killed for it.

Started once; each line on stdin (JSON) forks a child that writes until it is done or dead, then `dead <code>` is said
on stdout. A child says what was acknowledged by appending node ids to the file `acks`.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from pathlib import Path

from faults import logs
from indusagi_lsp.contract.errors import PersistenceFault
from indusagi_lsp.contract.turns import user
from indusagi_lsp.sessions import SessionStore
from indusagi_lsp.sessions.oscalls import OsCalls


class Deadly(OsCalls):
    """Kills its own process at the n-th changing call, after a part of it was done."""

    def __init__(self, at: int, part: float) -> None:
        self._left = at
        self._part = part

    def _strike(self) -> bool:
        self._left -= 1
        return self._left == 0

    def write(self, fd: int, data: bytes) -> int:
        if self._strike():
            os.write(fd, data[: int(len(data) * self._part)])
            os.kill(os.getpid(), signal.SIGKILL)
        return super().write(fd, data)

    def truncate(self, fd: int, size: int) -> None:
        if self._strike():
            os.kill(os.getpid(), signal.SIGKILL)
        super().truncate(fd, size)

    def datasync(self, fd: int) -> None:
        if self._strike():
            os.kill(os.getpid(), signal.SIGKILL)
        super().datasync(fd)

    def replace(self, source: str, target: str) -> None:
        if self._strike():
            os.kill(os.getpid(), signal.SIGKILL)
        super().replace(source, target)


async def write(order: dict) -> None:
    acks = os.open(order["acks"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    calls = Deadly(order["kill_at"], order["part"]) if "kill_at" in order else OsCalls()
    store = SessionStore(Path(order["root"]), signer=logs.KEY, calls=calls)
    session = await store.open(order["session"])
    size = order.get("size", 300)
    for number in range(order["count"]):
        text = f"{order['name']} {number} " + "x" * (size * (number % 7))
        try:
            nodes = await session.append([user(text)], durable=number % 3 == 0)
        except PersistenceFault:
            continue
        os.write(acks, b"".join(node.id.encode() + b"\n" for node in nodes))
    await store.close()


def say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def main() -> None:
    for line in sys.stdin:
        order = json.loads(line)
        child = os.fork()
        if child == 0:
            code = 1
            try:
                asyncio.run(write(order))
                code = 0
            finally:
                os._exit(code)
        say(f"{child}")
        _, status = os.waitpid(child, 0)
        say(f"dead {os.waitstatus_to_exitcode(status)}")


if __name__ == "__main__":
    main()

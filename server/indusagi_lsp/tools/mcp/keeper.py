"""Ends the servers' processes should we be killed: a well-behaved server ends with its stdin, a hung one never would.

A tiny process holds one end of a pipe whose other end is ours. When the pipe closes, whatever the reason, it ends the
process groups that it was told of and not told to forget.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys

_PROGRAM = """
import os, signal, sys, time
for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
    signal.signal(number, signal.SIG_IGN)
groups = set()
for line in sys.stdin:
    (groups.add if line[0] == "+" else groups.discard)(int(line[1:]))
for number in (signal.SIGTERM, signal.SIGKILL) if groups else ():
    for group in groups:
        try:
            os.killpg(group, number)
        except OSError:
            pass
    time.sleep(0.5 if number == signal.SIGTERM else 0)
"""

_PATIENCE = 0.2


class Keeper:
    """Knows the process groups that must not outlive us. Where there are no process groups it does nothing."""

    def __init__(self) -> None:
        self._process: asyncio.subprocess.Process | None = None
        self._groups: set[int] = set()
        self._starting = asyncio.Lock()

    async def watch(self, group: int) -> None:
        """End this group should we be gone.

        Args:
            group: the id of a process group.

        Raises:
            OSError: the system refuses to start the keeper.
        """
        if os.name != "posix" or not sys.executable:
            return
        self._groups.add(group)
        async with self._starting:
            if self._process is not None and self._process.returncode is None:
                self._tell(f"+{group}\n")
                return
            self._process = await asyncio.create_subprocess_exec(
                sys.executable,
                *("-I", "-S", "-c", _PROGRAM),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.DEVNULL,
                stderr=asyncio.subprocess.DEVNULL,
                env={},
                cwd="/",
                start_new_session=True,
            )
            self._tell("".join(f"+{one}\n" for one in self._groups))

    def forget(self, group: int) -> None:
        """The group has ended, and its number may be given to another one."""
        if group in self._groups:
            self._groups.discard(group)
            self._tell(f"-{group}\n")

    async def close(self) -> None:
        """End the keeper, and with it every group that was not forgotten."""
        process, self._process = self._process, None
        if process is None:
            return
        if process.stdin is not None:
            process.stdin.close()
        try:
            async with asyncio.timeout(_PATIENCE if not self._groups else 1.0):
                await process.wait()
        except TimeoutError:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()

    def _tell(self, text: str) -> None:
        process = self._process
        if process is not None and process.returncode is None and process.stdin is not None:
            process.stdin.write(text.encode("ascii"))

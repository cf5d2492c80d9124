"""The server as it is, with a heart in its event loop: `python heart_server.py`, with a file for the beats in HEART.

Every second it adds a line: the beats of that second, and the bytes of memory in use.
"""

from __future__ import annotations

import asyncio
import os

from indusagi_lsp.lsp.hosts import default_hosts
from indusagi_lsp.lsp.server import create_server
from indusagi_lsp.transport import logs, serve

BEAT = 0.02
_PAGE = os.sysconf("SC_PAGE_SIZE")


async def beat(fd: int) -> None:
    loop = asyncio.get_running_loop()
    while True:
        beats, until = 0, loop.time() + 1
        while loop.time() < until:
            await asyncio.sleep(BEAT)
            beats += 1
        with open("/proc/self/statm", "rb") as file:
            pages = int(file.read().split()[1])
        os.write(fd, b"%d %d\n" % (beats, pages * _PAGE))


def main() -> None:
    log = logs.configure("warning", None)
    fd = os.open(os.environ["HEART"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    hearts = []

    def hosts(outlet):
        hearts.append(asyncio.get_running_loop().create_task(beat(fd)))
        return default_hosts(outlet)

    code = serve.Session(create_server(hosts_factory=hosts), *serve.claim_stdio()).run()
    log.close()
    serve.end(code)


if __name__ == "__main__":
    main()

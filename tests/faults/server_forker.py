"""Starts the real server again and again, each time in a fork, so that the imports are paid for once.

Each line on stdin (JSON: `socket`, a path that somebody listens on; `folder`, where to run) forks a child that talks
over that socket as its stdin and stdout. Its process id is said on stdout, and `dead` when it has ended.
"""

from __future__ import annotations

import importlib
import json
import os
import pkgutil
import socket
import sys

import indusagi_lsp
from indusagi_lsp import cli


def import_all() -> None:
    """Import what a server imports while it works; what needs an extra that is not there stays away."""
    for module in pkgutil.walk_packages(indusagi_lsp.__path__, "indusagi_lsp."):
        if not module.name.endswith("__main__"):
            try:
                importlib.import_module(module.name)
            except ImportError:
                continue


def serve(order: dict[str, str]) -> None:
    os.chdir(order["folder"])
    wire = socket.socket(socket.AF_UNIX)
    wire.connect(order["socket"])
    os.dup2(wire.fileno(), 0)
    os.dup2(wire.fileno(), 1)
    wire.close()
    cli.main(["--stdio", "--log-file", os.path.join(order["folder"], "server.log")])


def main() -> None:
    import_all()
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            try:
                serve(json.loads(line))
            finally:
                os._exit(1)
        sys.stdout.write(f"{child}\n")
        sys.stdout.flush()
        os.waitpid(child, 0)
        sys.stdout.write("dead\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()

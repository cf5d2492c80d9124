"""The child process that runs the bundled model. It imports nothing of ours, and is started by its path.

It is a process of its own since loading holds Python's interpreter lock for a second or more, which would
stop the server's event loop, and since a crash of native code must not take the server with it. It listens on
a Unix socket in a folder that only the user can enter (on Windows: on a loopback port), and asks for a key
that only its parent knows.

It reads one line of JSON from stdin, writes one line of JSON to stdout when it is ready, and ends when stdin
ends: that is, also when its parent is killed.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
from pathlib import Path
from typing import Any


def main() -> int:
    """Run the model until stdin ends."""
    order = json.loads(sys.stdin.readline())
    answer_to = os.dup(1)
    # Native code writes where it likes; what it says must never be taken for our answer.
    silence = os.open(os.devnull, os.O_WRONLY)
    os.dup2(silence, 1)
    os.dup2(silence, 2)
    try:
        address = _start(order)
        answer: dict[str, Any] = {"address": address}
    except Exception as error:  # noqa: BLE001 (the parent turns every failure into words)
        answer = {"error": f"{type(error).__name__}: {error}"}
    os.write(answer_to, json.dumps(answer).encode() + b"\n")
    os.close(answer_to)
    with contextlib.suppress(OSError):
        while sys.stdin.read(4096):
            pass
    if order["socket"]:
        with contextlib.suppress(OSError):
            Path(order["socket"]).unlink()
        with contextlib.suppress(OSError):
            Path(order["socket"]).parent.rmdir()
    # Native threads may still work on an answer; nothing that they hold needs an orderly end.
    os._exit(0)


_running: list[Any] = []


def _start(order: dict[str, Any]) -> str:
    # Only the runtime's own folder is added, and last, so that nothing of it shadows the standard library.
    sys.path.append(order["runtime"])
    import xllamacpp

    params = xllamacpp.CommonParams()
    params.model.path = order["weights"]
    params.n_ctx = order["window"]
    params.n_parallel = 1
    params.n_batch = params.n_ubatch = order["batch"]
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = order["threads"]
    params.n_threads_http = 2
    params.verbosity = -1
    params.warmup = False
    params.cache_ram_mib = 0
    params.endpoint_slots = params.endpoint_props = params.ui = False
    params.api_keys = [order["key"]]
    params.hostnames = [order["socket"] or "127.0.0.1"]
    server = xllamacpp.Server(params)
    _running.append(server)
    return str(server.listening_address)


if __name__ == "__main__":
    sys.exit(main())

"""How soon the server is there, against a bare pygls server, and how soon `--version`, against Python itself."""

from __future__ import annotations

import compileall
import importlib.util
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from benchmarks.harness import Measured, ratios

NAMES = ("startup", "version")

BARE = "from pygls.lsp.server import LanguageServer; LanguageServer('bare', '1').start_io()"
OURS = [sys.executable, "-m", "indusagi_lsp", "--stdio"]


def run(names: Sequence[str], quick: bool, data: Path | None) -> Iterable[Measured]:
    """Run those of `names`; see the package."""
    del data
    for name in names:
        yield _startup(5 if quick else 11) if name == "startup" else _version(9 if quick else 21)


def _startup(rounds: int) -> Measured:
    waited: dict[str, list[float]] = {"ours": [], "bare": []}

    def start(name: str, command: list[str]) -> float:
        spent, wall = _until_initialized(command)
        waited[name].append(wall)
        return spent

    # An installed package has its byte code, and the first start on a machine fills the cache of generated code; stock
    # pygls was compiled when it was installed. So each side gets what it has from the second start on.
    package = importlib.util.find_spec("indusagi_lsp")
    assert package is not None
    for folder in package.submodule_search_locations or []:
        compileall.compile_dir(folder, quiet=2)
    _until_initialized(OURS, patience=2.0)
    _until_initialized([sys.executable, "-c", BARE])
    found = ratios(lambda: start("ours", OURS), lambda: start("bare", [sys.executable, "-c", BARE]), rounds)
    ours, bare = (statistics.median(waited[name]) for name in ("ours", "bare"))
    return Measured.of("startup", found, f"by the clock {ours / bare:.2f} ({ours * 1000:.0f} ms)")


def _until_initialized(command: list[str], patience: float = 0.0) -> tuple[float, float]:
    """CPU and wall seconds until `initialize` is answered; then `patience` seconds are given to what follows."""
    start = time.perf_counter()
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    assert process.stdin is not None
    assert process.stdout is not None
    params: dict[str, Any] = {"processId": os.getpid(), "rootUri": None, "capabilities": {}}
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}).encode()
    process.stdin.write(b"Content-Length: %d\r\n\r\n%b" % (len(body), body))
    process.stdin.flush()
    process.stdout.readline()
    wall = time.perf_counter() - start
    if patience:
        ready = b'{"jsonrpc":"2.0","method":"initialized","params":{}}'
        process.stdin.write(b"Content-Length: %d\r\n\r\n%b" % (len(ready), ready))
        process.stdin.flush()
        time.sleep(patience)
    process.kill()
    process.stdin.close()
    process.stdout.close()
    return _reap(process), wall


def _version(rounds: int) -> Measured:
    script = Path(sys.executable).with_name("indusagi-lsp")
    ours = [str(script)] if script.exists() else [sys.executable, "-m", "indusagi_lsp"]
    found = ratios(lambda: _whole([*ours, "--version"]), lambda: _whole([sys.executable, "-c", "pass"]), rounds)
    return Measured.of("version", found, "CPU of the whole process")


def _whole(command: list[str]) -> float:
    """CPU seconds of a process from start to end."""
    return _reap(subprocess.Popen(command, stdout=subprocess.DEVNULL))


def _reap(process: subprocess.Popen[bytes]) -> float:
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    return usage.ru_utime + usage.ru_stime

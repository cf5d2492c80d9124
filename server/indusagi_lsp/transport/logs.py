"""Logging that cannot stop the server: a thread writes the lines, and drops what is too much for it.

An editor that never reads our stderr fills that pipe; with a plain handler the next log line would block the
loop.
"""

from __future__ import annotations

import logging
import queue
import sys
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

LEVELS = ("debug", "info", "warning", "error")
_FORMAT = "%(asctime)s %(levelname)s %(name)s: %(message)s"
_QUEUE = 10_000


class ThreadedHandler(logging.Handler):
    """Formats where the record is made, and hands the line to a thread that writes it with `target`."""

    def __init__(self, target: logging.Handler) -> None:
        super().__init__()
        self._target = target
        self._records: queue.Queue[logging.LogRecord | None] = queue.Queue(_QUEUE)
        self._thread = threading.Thread(target=self._run, name="log-writer", daemon=True)
        self._thread.start()

    def emit(self, record: logging.LogRecord) -> None:
        """Queue a record; drop it when the writer is far behind."""
        try:
            # The arguments may change, or hold large things, before the thread gets to them.
            record.msg, record.args = record.getMessage(), None
            self._records.put_nowait(record)
        except queue.Full:
            pass
        except Exception:  # noqa: BLE001 - a log line that cannot be made must not end a request
            self.handleError(record)

    def close(self) -> None:
        """Write what is queued, for at most half a second."""
        try:
            self._records.put_nowait(None)
        except queue.Full:
            pass
        else:
            self._thread.join(0.5)
        super().close()

    def _run(self) -> None:
        while (record := self._records.get()) is not None:
            self._target.handle(record)


def configure(level: str, log_file: Path | None) -> logging.Handler:
    """Send the log of the whole program to stderr, or to a file.

    Args:
        level: one of `LEVELS`.
        log_file: appended to, private to the user; None means stderr.

    Returns:
        The handler; closing it flushes.

    Raises:
        OSError: the file cannot be opened.
    """
    target: logging.Handler
    if log_file is None:
        target = logging.StreamHandler(sys.stderr)
    else:
        log_file.touch(mode=0o600, exist_ok=True)
        target = logging.FileHandler(log_file, encoding="utf-8", errors="backslashreplace")
    target.setFormatter(logging.Formatter(_FORMAT))
    handler = ThreadedHandler(target)
    root = logging.getLogger()
    root.addHandler(handler)
    root.setLevel(logging.WARNING)
    logging.getLogger("indusagi_lsp").setLevel(level.upper())
    # pygls logs every message body at INFO: bodies hold prompts and file text, so they stay out at every
    # level. Its warnings are about what clients do every day (an unknown notification, a late cancel); errors
    # we log ourselves.
    logging.getLogger("pygls").setLevel(logging.WARNING if level == "debug" else logging.CRITICAL)
    return handler

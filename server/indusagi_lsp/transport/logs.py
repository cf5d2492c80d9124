"""Logging that cannot stop the server: a thread writes the lines, and drops what is too much for it.

Each line is text, or one JSON object for a machine that collects logs. Secrets of known shapes are taken out of either,
in the thread: a message of a library's error may quote what it was given.

An editor that never reads our stderr fills that pipe; with a plain handler the next log line would block the
loop.
"""

from __future__ import annotations

import json
import logging
import queue
import sys
import threading
from datetime import UTC, datetime
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

LEVELS = ("debug", "info", "warning", "error")
FORMATS = ("text", "json")
_FORMAT = "%(asctime)s %(levelname)s %(name)s: %(message)s"
_QUEUE = 10_000


class RedactingFormatter(logging.Formatter):
    """A line of text without secrets."""

    def format(self, record: logging.LogRecord) -> str:
        """The line, with its traceback where there is one."""
        return _redact(super().format(record))


class JsonFormatter(logging.Formatter):
    """A JSON object on one line: `time` (RFC 3339, UTC), `level`, `logger`, `message`, and `exception`, a traceback."""

    def format(self, record: logging.LogRecord) -> str:
        """The line."""
        fields = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": _redact(record.getMessage()),
        }
        if record.exc_info:
            fields["exception"] = _redact(self.formatException(record.exc_info))
        return json.dumps(fields)


def _redact(text: str) -> str:
    # Its table of shapes takes a hundredth of a second to make, which the start of a server does not wait for.
    from indusagi_lsp.contract.secrets import redact

    return redact(text, loose=True)


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
            if not self._thread.is_alive():
                # A thread that hangs in a pipe which nobody reads holds the target's lock, so it is left alone.
                self._target.close()
        super().close()

    def _run(self) -> None:
        while (record := self._records.get()) is not None:
            self._target.handle(record)


def configure(level: str, log_file: Path | None, style: str = "text") -> logging.Handler:
    """Send the log of the whole program to stderr, or to a file.

    Args:
        level: one of `LEVELS`.
        log_file: appended to, private to the user; None means stderr.
        style: one of `FORMATS`.

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
    target.setFormatter(JsonFormatter() if style == "json" else RedactingFormatter(_FORMAT))
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

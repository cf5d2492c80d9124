"""Log lines: as text or as JSON, and without secrets in either."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from indusagi_lsp.transport import logs

SECRET = "ghp_" + "a1" * 18


@pytest.fixture
def logged(tmp_path: Path) -> Iterator[tuple[logging.Logger, Path]]:
    root, ours = logging.getLogger(), logging.getLogger("indusagi_lsp")
    pygls = logging.getLogger("pygls")
    before = root.level, ours.level, pygls.level, list(root.handlers)
    yield logging.getLogger("indusagi_lsp.walrus"), tmp_path / "log"
    root.setLevel(before[0])
    ours.setLevel(before[1])
    pygls.setLevel(before[2])
    root.handlers[:] = before[3]


@pytest.mark.parametrize("style", logs.FORMATS)
def test_a_secret_in_a_message_or_a_traceback_is_taken_out(logged: tuple[logging.Logger, Path], style: str) -> None:
    logger, path = logged
    handler = logs.configure("info", path, style)
    logger.debug("too quiet")
    try:
        raise ValueError(f"bad token {SECRET}")
    except ValueError:
        logger.exception("call with %s failed", SECRET)
    handler.close()

    text = path.read_text("utf-8")
    assert SECRET not in text
    assert "too quiet" not in text
    assert text.count("[redacted: github token]") == 2
    assert "ValueError" in text


def test_a_line_of_json_has_its_parts(logged: tuple[logging.Logger, Path]) -> None:
    logger, path = logged
    handler = logs.configure("info", path, "json")
    logger.info("one\ntwo %d", 3)
    logger.warning("four")
    handler.close()

    first, second = (json.loads(line) for line in path.read_text("utf-8").splitlines())
    assert (first["level"], first["logger"], first["message"]) == ("info", "indusagi_lsp.walrus", "one\ntwo 3")
    assert set(first) == {"time", "level", "logger", "message"}
    assert first["time"].endswith("+00:00")
    assert second["level"] == "warning"

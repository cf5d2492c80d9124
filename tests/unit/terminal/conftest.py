"""The fake server in the place of the real one, and a screen that remembers."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from blockbuster import blockbuster_ctx

from indusagi_lsp.contract.places import HOME_VARIABLE
from indusagi_lsp.terminal.options import Options

if TYPE_CHECKING:
    from collections.abc import Iterator

    from indusagi_lsp.terminal.view import Style

FAKE = [sys.executable, str(Path(__file__).with_name("fake_server.py"))]


class Recorder:
    """A screen as a list of what was shown."""

    def __init__(self) -> None:
        self.answer = ""
        self.thoughts = ""
        self.lines: list[tuple[Style, str]] = []

    def text(self, piece: str) -> None:
        self.answer += piece

    def thinking(self, piece: str) -> None:
        self.thoughts += piece

    def line(self, text: str, style: Style = "plain") -> None:
        self.lines.append((style, text))

    @property
    def shown(self) -> str:
        return "\n".join(text for _, text in self.lines)


class Wire:
    """What the fake server was told."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def messages(self, method: str | None = None) -> list[dict[str, Any]]:
        lines = self._path.read_text().splitlines() if self._path.exists() else []
        found = [json.loads(line) for line in lines]
        return [message for message in found if method is None or message.get("method") == method]


@pytest.fixture(autouse=True)
def _nothing_blocks() -> Iterator[None]:
    """Code of ours that blocks the event loop fails the test."""
    with blockbuster_ctx("indusagi_lsp"):
        yield


@pytest.fixture
def screen() -> Recorder:
    return Recorder()


@pytest.fixture
def options(tmp_path: Path) -> Options:
    return Options(workspace=tmp_path)


@pytest.fixture
def wire(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Wire:
    path = tmp_path / "wire.log"
    monkeypatch.setenv("FAKE_LOG", str(path))
    monkeypatch.setenv(HOME_VARIABLE, str(tmp_path / "home"))
    monkeypatch.setattr("indusagi_lsp.terminal.talk.server_command", lambda _: FAKE)
    return Wire(path)

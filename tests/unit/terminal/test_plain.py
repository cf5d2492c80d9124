"""One question, one answer: what goes where, and the exit code."""

from __future__ import annotations

import io
import os
import sys
from contextlib import suppress
from typing import TYPE_CHECKING

import msgspec
import pytest

from indusagi_lsp.terminal import main
from indusagi_lsp.terminal.plain import PlainScreen, once

if TYPE_CHECKING:
    from indusagi_lsp.terminal.options import Options

    from .conftest import Wire


@pytest.fixture(autouse=True)
def _fake(wire: Wire) -> None:
    """All of these talk to the fake server."""


async def test_the_answer_goes_to_stdout_and_the_rest_to_stderr(
    options: Options, capsys: pytest.CaptureFixture[str]
) -> None:
    assert await once(options, "hello") == 0
    out, err = capsys.readouterr()
    assert out == "You said hello.\nDone.\n"
    assert "Model: local:small (small)" in err
    assert "Set a key for a better one." in err
    assert "● read_file a" in err
    assert "hm" not in out + err


@pytest.mark.parametrize(
    ("prompt", "code", "out", "err"),
    [
        ("fault", 1, "", "The key is wrong.\nCheck it."),
        ("unwritten", 1, "", "Free some space.\nThe server ends now, so what could not be written is not kept."),
        ("refuse", 1, "", "Not yours.\nRead it first.\nTo take it over, open it in the chat and say /adopt."),
        ("die", 3, "", "The server has ended unexpectedly (exit code 7)."),
        ("die quietly after text", 3, "half an ans\n", "Go on with: indusagi-lsp chat"),
        ("die quietly after text", 3, "half an ans\n", "an answer that was still being given"),
        ("approve", 0, "decided: deny\n", "nobody is here to be asked"),
        ("garbage", 0, "after garbage\n", ""),
        ("  ", 2, "", "The prompt is empty."),
    ],
)
async def test_what_can_go_wrong_ends_in_a_sentence_and_a_code(
    options: Options, capsys: pytest.CaptureFixture[str], prompt: str, code: int, out: str, err: str
) -> None:
    assert await once(options, prompt) == code
    shown = capsys.readouterr()
    assert shown.out == out
    assert err in shown.err
    assert "Traceback" not in shown.err


async def test_a_session_is_gone_on_with(options: Options, wire: Wire, capsys: pytest.CaptureFixture[str]) -> None:
    assert await once(msgspec.structs.replace(options, session="abc", model="x:y"), "hello") == 0
    assert wire.messages("indusagi/resume")[0]["params"]["sessionId"] == "abc"
    assert wire.messages("indusagi/session/new") == []
    assert wire.messages("indusagi/submit")[0]["params"]["model"] == "x:y"
    assert "Going on with “A session”." in capsys.readouterr().err


async def test_a_session_is_gone_on_with_by_its_own_model(options: Options, capsys: pytest.CaptureFixture[str]) -> None:
    assert await once(msgspec.structs.replace(options, session="own"), "hello") == 0
    told = capsys.readouterr().err
    assert "Model: local:own" in told
    assert "Model: local:small" not in told


@pytest.mark.parametrize("trusted", [True, False])
async def test_trust_is_what_the_options_say(options: Options, wire: Wire, trusted: bool) -> None:
    await once(msgspec.structs.replace(options, trusted=trusted), "hello")
    initialize = wire.messages("initialize")[0]["params"]
    assert initialize["initializationOptions"]["trusted"] is trusted
    assert initialize["capabilities"]["experimental"]["indusagi"] == {
        "events": True,
        "approvals": True,
        "questions": True,
    }


async def test_a_server_that_cannot_start(
    options: Options, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("FAKE_DIES_AT_ONCE", "1")
    assert await once(options, "hello") == 3
    assert "ImportError: something is missing" in capsys.readouterr().err
    monkeypatch.setattr("indusagi_lsp.terminal.talk.server_command", lambda _: ["/nonexistent"])
    assert await once(options, "hello") == 3
    assert "cannot be started" in capsys.readouterr().err


def test_a_reader_that_has_gone_is_no_accident() -> None:
    read, write = os.pipe()
    os.close(read)
    out = os.fdopen(write, "w")
    screen = PlainScreen(out, io.StringIO())
    screen.text("x" * 100_000)
    screen.text("more")
    assert screen.closed
    with suppress(BrokenPipeError):
        out.close()


def test_stdin_is_the_prompt_where_it_is_no_terminal(
    tmp_path: object, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for arguments in (["--workspace", str(tmp_path)], ["--workspace", str(tmp_path), "-p", "-"]):
        monkeypatch.setattr(sys, "stdin", io.StringIO("hello from a pipe"))
        assert main(arguments) == 0
        assert "You said hello from a pipe." in capsys.readouterr().out


@pytest.mark.parametrize("arguments", [["--workspace", "/nonexistent"], ["--nonsense"], ["--log-level", "loud"]])
def test_wrong_arguments_are_a_2(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(arguments)
    assert caught.value.code == 2
    assert "error:" in capsys.readouterr().err

"""JSON-RPC over the pipes of a child, good and bad."""

from __future__ import annotations

import asyncio
import sys
import time
from typing import Any

import pytest

from indusagi_lsp.protocol import messages as m
from indusagi_lsp.protocol import operations as ops
from indusagi_lsp.terminal.client import Client, RemoteError, ServerGoneError

from .conftest import FAKE, Wire

SUBMIT = {"sessionId": "s"}


async def start(events: list[Any] | None = None) -> Client:
    told = events if events is not None else []
    return await Client.start(FAKE, cwd="/", on_notification={ops.EVENT: told.append}, on_request={})


async def test_an_operation_is_answered_with_its_struct() -> None:
    client = await start()
    listed = await client.call(ops.MODELS_LIST, m.WorkspaceParams())
    assert isinstance(listed, m.ModelsListResult)
    assert listed.models[0].id == "local:small"
    assert await client.close() == 0


async def test_an_error_has_words_and_a_hint() -> None:
    client = await start()
    with pytest.raises(RemoteError, match="Not yours") as caught:
        await client.call(ops.SUBMIT, m.SubmitParams(session_id="s", text="refuse"))
    assert (caught.value.kind, caught.value.hint, caught.value.code) == ("session_foreign", "Read it first.", -32013)
    await client.close()


async def test_cancelling_tells_the_server(wire: Wire) -> None:
    client = await start()
    asking = asyncio.create_task(client.call(ops.SUBMIT, m.SubmitParams(session_id="s", text="slow")))
    await client.call(ops.MODELS_LIST, m.WorkspaceParams())
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    await client.close()
    (sent,) = wire.messages("indusagi/submit")
    (cancelled,) = wire.messages("$/cancelRequest")
    assert cancelled["params"] == {"id": sent["id"]}


async def test_a_question_that_is_not_known_is_refused() -> None:
    client = await start()
    snapshot = await client.call(ops.SUBMIT, m.SubmitParams(session_id="s", text="unheard"))
    assert snapshot.messages[0]["blocks"][0]["text"] == "-32601"
    await client.close()


@pytest.mark.parametrize("error", [RuntimeError("the terminal is gone"), OSError(5, "input/output error")])
async def test_a_question_that_cannot_be_put_is_answered_with_an_error(
    error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    async def asked(_: Any) -> None:
        raise error

    client = await Client.start(FAKE, cwd="/", on_notification={}, on_request={ops.APPROVE: asked})
    async with asyncio.timeout(30):
        snapshot = await client.call(ops.SUBMIT, m.SubmitParams(session_id="s", text="approve"))
    assert snapshot.messages[0]["blocks"][0]["text"] == "-32603"
    assert str(error) in caplog.text
    await client.close()


async def test_bytes_that_are_no_message_are_skipped() -> None:
    events: list[Any] = []
    client = await start(events)
    snapshot = await client.call(ops.SUBMIT, m.SubmitParams(session_id="s", text="garbage"))
    assert snapshot.phase == "settled"
    assert client.garbage > 0
    await client.close()


async def test_death_reaches_everybody_who_waits() -> None:
    client = await start()
    waiting = asyncio.create_task(client.call(ops.SUBMIT, m.SubmitParams(session_id="s", text="slow")))
    await asyncio.sleep(0.05)
    with pytest.raises(ServerGoneError) as caught:
        await client.call(ops.SUBMIT, m.SubmitParams(session_id="s", text="die"))
    assert caught.value.code == 7
    assert caught.value.last_words == ("a last word",)
    with pytest.raises(ServerGoneError):
        await waiting
    with pytest.raises(ServerGoneError):
        await client.call(ops.MODELS_LIST, m.WorkspaceParams())
    assert (await client.wait_gone()).code == 7
    client.notify("initialized", {})
    assert await client.close() == 7


async def test_a_full_stderr_does_not_block(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAKE_CHATTER", "1")
    client = await start()
    assert await client.call(ops.MODELS_LIST, m.WorkspaceParams())
    await client.close()


async def test_a_server_that_stays_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAKE_STAYS", "1")
    client = await start()
    began = time.monotonic()
    assert await client.close(seconds=0.3) not in (0, None)
    assert time.monotonic() - began < 3


async def test_text_with_half_a_character_still_goes_out(wire: Wire) -> None:
    client = await start()
    await client.call(ops.SUBMIT, m.SubmitParams(session_id="s", text="half \udcff"))
    await client.close()
    assert wire.messages("indusagi/submit")[0]["params"]["text"] == "half \udcff"


async def test_a_program_that_is_not_there() -> None:
    with pytest.raises(OSError, match="nonexistent"):
        await Client.start(["/nonexistent/server"], cwd="/", on_notification={}, on_request={})


def test_the_server_is_started_away_from_the_workspace() -> None:
    from indusagi_lsp.terminal.options import read_options
    from indusagi_lsp.terminal.talk import server_command

    command = server_command(read_options(["--log-level", "debug", "--log-file", "x.log"]))
    assert command[:4] == [sys.executable, "-P", "-m", "indusagi_lsp"]
    assert "--stdio" in command
    assert command[command.index("--log-file") + 1].startswith("/")

"""Operations on the wire: events, cancels, questions, and everything that must not break the stream."""

from __future__ import annotations

import asyncio
import json

import pytest


async def test_a_run_streams_and_answers(wire):
    await wire.initialize()
    wire.submit(1, "say hello there", runId="mine")
    answer = await wire.response(1)
    assert answer["result"]["runId"] == "mine"
    assert "".join(event["delta"] for event in wire.events("text_delta")) == "hello there "
    assert [m["params"]["seq"] for m in wire.seen if m.get("method") == "indusagi/event"] == [1, 2, 3, 4]


@pytest.mark.parametrize("face", ["request", "command"])
async def test_cancel_reaches_the_work(wire, face):
    await wire.initialize()
    params = {"sessionId": "s", "text": "sleep"}
    if face == "request":
        wire.send(id=1, method="indusagi/submit", params=params)
    else:
        wire.send(
            id=1, method="workspace/executeCommand", params={"command": "indusagi.server.submit", "arguments": [params]}
        )
    await wire.until("indusagi/event")
    wire.send(method="$/cancelRequest", params={"id": 1})
    assert (await wire.response(1))["error"]["code"] == -32800
    assert [event["kind"] for event in wire.events()] == ["run_started", "faulted"]


async def test_cancel_before_the_first_step_is_answered(wire):
    await wire.initialize()
    wire.submit(1, "sleep")
    wire.send(method="$/cancelRequest", params={"id": 1})
    assert (await wire.response(1))["error"]["code"] == -32800


async def test_params_may_be_left_out_or_null(wire):
    await wire.initialize()
    for msg_id, more in (
        (1, {}),
        (2, {"params": None}),
        (3, {"params": {}}),
        (5, {"params": []}),
        (4, {"params": {"workspace": None, "new": 1}}),
    ):
        wire.send(id=msg_id, method="indusagi/status", **more)
        assert (await wire.response(msg_id))["result"]["message"] == "idle"


async def test_a_command_takes_one_object_and_nothing_else(wire):
    await wire.initialize()
    for arguments in (None, [], [None], [{}], [[]], [{"workspace": None}]):
        wire.send(
            id=1,
            method="workspace/executeCommand",
            params={"command": "indusagi.server.status", "arguments": arguments},
        )
        assert (await wire.response(1))["result"]["message"] == "idle"
    for arguments in (["x"], [1], [{}, {}], {}, [[1]]):
        wire.send(
            id=1,
            method="workspace/executeCommand",
            params={"command": "indusagi.server.status", "arguments": arguments},
        )
        error = (await wire.response(1))["error"]
        assert error["code"] == -32602
        assert "indusagi.server.status" in error["message"]


async def test_nested_jsonrpc_is_data(wire):
    await wire.initialize()
    text = json.dumps({"jsonrpc": "2.0", "id": 5, "method": "x"})
    wire.submit(1, "say x", blocks=[{"kind": "text", "jsonrpc": "2.0", "method": "exit", "text": text}])
    assert "result" in await wire.response(1)


async def test_print_and_children_do_not_break_the_stream(wire):
    await wire.initialize()
    wire.submit(1, "print")
    assert "result" in await wire.response(1)


@pytest.mark.parametrize("text", ["raise", "exit"])
async def test_a_handler_that_fails_is_answered_without_traceback(wire, text):
    await wire.initialize()
    wire.submit(1, text)
    answer = await wire.response(1)
    assert answer["error"]["code"] == -32603
    assert "secret" not in json.dumps(answer)
    assert "Traceback" not in json.dumps(answer)
    wire.submit(2, "say on")
    assert "result" in await wire.response(2)


async def test_errors_of_ours_have_a_code_a_kind_and_a_hint(wire):
    await wire.initialize()
    wire.send(id=1, method="indusagi/resume", params={"sessionId": "x"})
    error = (await wire.response(1))["error"]
    assert -32099 <= error["code"] <= -32001
    assert error["data"]["kind"] == "session_not_found"
    assert error["data"]["hint"]


async def test_a_lone_surrogate_survives(wire):
    await wire.initialize()
    wire.body(b'{"jsonrpc":"2.0","id":1,"method":"indusagi/submit","params":{"sessionId":"s","text":"say \\ud83d"}}')
    assert "result" in await wire.response(1)
    assert wire.events("text_delta")[0]["delta"] == "\ud83d "


async def test_an_open_id_cannot_be_used_twice(wire):
    await wire.initialize()
    wire.submit(1, "sleep")
    await wire.until("indusagi/event")
    wire.send(id=1, method="indusagi/status")
    assert (await wire.response(1))["error"]["code"] == -32600


async def test_approval_by_our_own_request(wire):
    await wire.initialize()
    wire.submit(1, "approve rm -r x")
    question = await wire.until("indusagi/approve")
    assert question["params"]["action"] == "rm -r x"
    wire.send(id=question["id"], result={"decision": "once"})
    await wire.response(1)
    assert wire.events("text_delta")[0]["delta"] == "once"


async def test_an_answer_that_makes_no_sense_denies(wire):
    await wire.initialize()
    for answer in (
        {"result": None},
        {"result": {"decision": "always"}},
        {"result": 5},
        {"error": {"code": -32601, "message": "no"}},
        {"error": None, "result": "once"},
    ):
        wire.submit(1, "approve x")
        question = await wire.until("indusagi/approve")
        wire.send(id=question["id"], **answer)
        await wire.response(1)
        assert wire.events("text_delta")[-1]["delta"] == "deny"


async def test_silence_denies_and_a_late_answer_does_no_harm(start):
    wire = await start(APPROVAL="0.2")
    await wire.initialize()
    wire.submit(1, "approve x")
    question = await wire.until("indusagi/approve")
    assert (await wire.until("$/cancelRequest"))["params"] == {"id": question["id"]}
    await wire.response(1)
    assert wire.events("text_delta")[0]["delta"] == "deny"
    wire.send(id=question["id"], result={"decision": "once"})
    wire.send(id="nobody", result=1)
    wire.send(id=None, error={"code": 1, "message": "?"})
    wire.send(id=2, method="indusagi/status")
    assert (await wire.receive())["id"] == 2


async def test_cancel_while_asking_takes_the_question_back(wire):
    await wire.initialize()
    wire.submit(1, "approve x")
    question = await wire.until("indusagi/approve")
    wire.send(method="$/cancelRequest", params={"id": 1})
    assert (await wire.until("$/cancelRequest"))["params"] == {"id": question["id"]}
    assert (await wire.response(1))["error"]["code"] == -32800


PLAIN = {"window": {"workDoneProgress": True}}


async def test_a_plain_editor_gets_progress(wire):
    await wire.initialize(PLAIN)
    wire.submit(1, "say hello there")
    create = await wire.until("window/workDoneProgress/create")
    wire.send(id=create["id"], result=None)
    values = []
    while not values or values[-1]["kind"] != "end":
        message = await wire.receive()
        if message.get("method") == "$/progress":
            assert message["params"]["token"] == create["params"]["token"]
            values.append(message["params"]["value"])
    assert values[0]["kind"] == "begin"
    assert values[0]["cancellable"] is True
    assert "hello there" in values[1]["message"]
    assert wire.events() == []


async def test_the_cancel_button_ends_the_run(wire):
    await wire.initialize(PLAIN)
    wire.submit(1, "sleep", workDoneToken="t")
    assert (await wire.until("$/progress"))["params"]["value"]["kind"] == "begin"
    wire.send(method="window/workDoneProgress/cancel", params={"token": "t"})
    assert (await wire.response(1))["error"]["code"] == -32800
    ends = [m for m in wire.seen if m.get("method") == "$/progress" and m["params"]["value"]["kind"] == "end"]
    assert len(ends) == 1


async def test_a_plain_editor_is_asked_by_a_message(wire):
    await wire.initialize({})
    wire.submit(1, "approve \u202e\x1b[2J" + "x" * 5000 + "END")
    question = await wire.until("window/showMessageRequest")
    assert [action["title"] for action in question["params"]["actions"]] == [
        "Allow once",
        "Allow for this session",
        "Deny",
    ]
    assert question["params"]["message"].endswith("END")
    assert "\n\\u{202e}xxx" in question["params"]["message"]  # nothing hidden, nothing that steers the screen
    assert len(question["params"]["message"]) < 2000
    wire.send(id=question["id"], result={"title": "Allow for this session"})
    await wire.response(1)
    assert {m.get("method") for m in wire.seen} <= {None, "window/showMessageRequest"}


async def test_a_slow_reader_does_not_stop_the_server(wire):
    await wire.initialize()
    wire.submit(1, "flood 4000")  # 40 MB; nobody reads yet
    await asyncio.sleep(1)
    wire.send(method="$/cancelRequest", params={"id": 1})
    wire.send(id=2, method="indusagi/status")
    assert "result" in await wire.response(2)
    seqs = [m["params"]["seq"] for m in wire.seen if m.get("method") == "indusagi/event"]
    assert seqs == sorted(set(seqs))


async def test_what_was_lost_is_made_known(wire):
    """The last event is lost with the others; a notice takes its place, so that the client learns of it."""
    await wire.initialize()
    wire.submit(1, "flood 2000")
    await asyncio.sleep(2)
    await wire.response(1)
    while not (wire.events("notice") or wire.events("settled")):
        await wire.receive()
    last = [m["params"] for m in wire.seen if m.get("method") == "indusagi/event"][-1]
    assert last["seq"] == 2002
    assert last["event"]["code"] == "gap"


async def test_order_is_kept(wire):
    await wire.initialize()
    uri = "file:///tmp/ws/a.py"
    wire.send(
        method="textDocument/didOpen",
        params={"textDocument": {"uri": uri, "languageId": "python", "version": 0, "text": ""}},
    )
    for version in range(1, 501):
        wire.send(
            method="textDocument/didChange",
            params={
                "textDocument": {"uri": uri, "version": version},
                "contentChanges": [
                    {
                        "range": {
                            "start": {"line": 0, "character": 0},
                            "end": {"line": 0, "character": len(f"v{version - 1}") if version > 1 else 0},
                        },
                        "text": f"v{version}",
                    }
                ],
            },
        )
    wire.submit(1, "document FILE://localhost/tmp/ws/a%2Epy")
    await wire.response(1)
    assert wire.events("text_delta")[0]["delta"] == "v500"


async def test_a_client_that_never_reads_stderr(start):
    wire = await start(LOG="debug")
    await wire.initialize()
    for _ in range(3000):
        wire.send(method="$/unknown", params={"a": "x" * 300})
    wire.send(id=1, method="indusagi/status")
    assert "result" in await wire.response(1)


async def test_a_client_may_ask_before_it_answers(wire):
    """Some editors answer only after they were served, so the server must not wait for them while it serves."""
    await wire.initialize()
    wire.submit(1, "approve rm")
    question = await wire.until("indusagi/approve")
    wire.send(id=2, method="indusagi/status")
    assert "result" in await wire.response(2)
    wire.send(id=question["id"], result={"decision": "once"})
    assert "result" in await wire.response(1)


async def test_slow_threads_do_not_keep_the_server_from_reading(wire):
    await wire.initialize()
    for number in range(40):
        wire.submit(f"slow-{number}", "thread", runId=f"run-{number}")
    wire.send(id=1, method="indusagi/status")
    assert "result" in await wire.response(1)

"""The whole server without a process: bytes in, messages out."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from blockbuster import blockbuster_ctx

from indusagi_lsp.contract.errors import InvalidInput
from indusagi_lsp.lsp.server import create_server
from wire.fake_hosts import FakeHosts


class Collect:
    """An outbox that keeps what is sent."""

    def __init__(self) -> None:
        self.messages: asyncio.Queue[Any] = asyncio.Queue()
        self.full = False

    def send(self, body: bytes) -> None:
        self.messages.put_nowait(json.loads(body))

    def offer(self, stream: str, body: bytes) -> bool:
        if not self.full:
            self.send(body)
        return not self.full

    def miss(self, stream: str, gap: bytes) -> None:
        self.send(gap)

    def congested(self) -> bool:
        return self.full

    def close(self, timeout: float) -> None: ...


class Session:
    def __init__(self, hosts: Any = FakeHosts, **deps: Any) -> None:
        def factory(outlet):
            self.hosts = hosts(outlet)
            return self.hosts

        self.server = create_server(hosts_factory=factory, new_id=iter("abcdefgh").__next__, **deps)
        self.out = Collect()
        self.stopped: list[int] = []
        self.watched: list[int] = []
        self.server.attach(self.out, self)

    def stop(self, code: int) -> None:
        self.stopped.append(code)

    def watch(self, pid: int) -> None:
        self.watched.append(pid)

    def shutdown_answered(self) -> None: ...

    def send(self, **message: Any) -> None:
        self.server.receive(json.dumps({"jsonrpc": "2.0", **message}).encode())

    async def receive(self) -> Any:
        return await asyncio.wait_for(self.out.messages.get(), 5)

    async def ask(self, method: str, params: Any = None) -> Any:
        self.send(id="q", method=method, params=params)
        while (message := await self.receive()).get("id") != "q":
            pass
        return message

    async def start(self, capabilities: Any = None, **params: Any) -> None:
        self.send(
            id=0,
            method="initialize",
            params={"processId": None, "rootUri": None, "capabilities": capabilities or {}, **params},
        )
        await self.receive()
        self.send(method="initialized", params={})

    async def log(self) -> list[tuple]:
        await self.ask("indusagi/status")
        return [entry for entry in self.hosts.log if entry[0] != "status"]


@pytest.fixture(autouse=True)
def never_block():
    with blockbuster_ctx():
        yield


WS = {"uri": "file:///tmp/ws", "name": "ws"}


@pytest.mark.parametrize(
    ("params", "opened"),
    [
        ({"workspaceFolders": [WS]}, [("file:///tmp/ws", "ws")]),
        ({"workspaceFolders": [WS], "rootUri": "file:///other"}, [("file:///tmp/ws", "ws")]),
        ({"workspaceFolders": [WS, {"uri": "file:///tmp/ws/", "name": "again"}]}, [("file:///tmp/ws", "again")]),
        ({"workspaceFolders": None, "rootUri": "file:///tmp/a%20b/"}, [("file:///tmp/a%20b", "a b")]),
        ({"workspaceFolders": [], "rootPath": "/tmp/p"}, [("file:///tmp/p", "p")]),
        ({"rootPath": "/tmp/p"}, [("file:///tmp/p", "p")]),
        ({"workspaceFolders": None}, []),
        ({}, []),
    ],
)
async def test_folders_at_start(params, opened):
    session = Session()
    await session.start(**params)
    assert await session.log() == [("configure", {}), *(("open", *folder, False) for folder in opened)]


async def test_folders_come_and_go_in_order():
    session = Session()
    await session.start(workspaceFolders=[WS])
    other = {"uri": "file:///b", "name": "b"}
    for added, removed in (([other], []), ([WS], [{**WS, "uri": "file:///tmp/ws/"}]), ([], [WS]), ([], [other, other])):
        session.send(
            method="workspace/didChangeWorkspaceFolders", params={"event": {"added": added, "removed": removed}}
        )
    assert (await session.log())[1:] == [
        ("open", "file:///tmp/ws", "ws", False),
        ("open", "file:///b", "b", False),
        ("close", "file:///tmp/ws"),
        ("close", "file:///b"),
    ]


@pytest.mark.parametrize(
    ("trusted", "taken"), [(True, True), (False, False), ("yes", False), (1, False), (None, False)]
)
async def test_trust_is_an_explicit_true(trusted, taken):
    session = Session()
    await session.start(workspaceFolders=[WS], initializationOptions={"trusted": trusted, "model": "m"})
    assert await session.log() == [("configure", {"model": "m"}), ("open", "file:///tmp/ws", "ws", taken)]


async def test_trust_that_changes_holds_for_folders_that_come_later():
    session = Session()
    await session.start(workspaceFolders=[WS])
    other = {"uri": "file:///b", "name": "b"}

    def change(added, removed):
        event = {"event": {"added": added, "removed": removed}}
        session.send(method="workspace/didChangeWorkspaceFolders", params=event)

    await session.ask("indusagi/trust", {"trusted": True})
    change([other], [])
    await session.ask("indusagi/trust", {"trusted": False, "workspace": "file:///b/"})
    change([], [other, WS])
    change([other, WS], [])
    refused = await session.ask("indusagi/trust", {})
    assert refused["error"]["code"] == -32602
    assert [entry[1:] for entry in await session.log() if entry[0] == "open"] == [
        ("file:///tmp/ws", "ws", False),
        ("file:///b", "b", True),
        ("file:///b", "b", False),
        ("file:///tmp/ws", "ws", True),
    ]


@pytest.mark.parametrize("options", [None, {}, [], "x", 5])
async def test_options_of_any_shape_never_stop_initialize(options):
    session = Session()
    await session.start(initializationOptions=options)
    assert await session.log() == [("configure", {})]


async def test_settings_are_pulled_and_pulled_again():
    session = Session()
    pull = {"workspace": {"configuration": True, "didChangeConfiguration": {"dynamicRegistration": True}}}
    await session.start(pull, initializationOptions={"model": "a", "x": 1})
    asked = {}
    while len(asked) < 2:
        message = await session.receive()
        asked[message["method"]] = message
    assert asked["workspace/configuration"]["params"] == {"items": [{"section": "indusagi"}]}
    session.send(id=asked["client/registerCapability"]["id"], result=None)
    session.send(id=asked["workspace/configuration"]["id"], result=[{"model": "b"}])
    assert (await session.log())[-1] == ("configure", {"model": "b", "x": 1})
    session.send(method="workspace/didChangeConfiguration", params={"settings": None})
    question = await session.receive()
    session.send(id=question["id"], result=[{"bad": 1}])
    shown = await session.receive()
    assert shown["method"] == "window/showMessage"
    assert shown["params"]["message"] == "`bad` is not known."


async def test_a_client_that_never_answers_about_settings_is_not_waited_for():
    session = Session()
    await session.start({"workspace": {"configuration": True}}, workspaceFolders=[WS])
    assert (await session.log())[-1] == ("open", "file:///tmp/ws", "ws", False)


async def test_settings_are_pushed():
    session = Session()
    await session.start()
    session.send(
        method="workspace/didChangeConfiguration", params={"settings": {"indusagi": {"model": "c"}, "other": 1}}
    )
    session.send(method="workspace/didChangeConfiguration", params={"settings": {"other": 1}})
    session.send(method="workspace/didChangeConfiguration", params={"settings": None})
    assert await session.log() == [("configure", {}), ("configure", {"model": "c"})]
    session.send(method="workspace/didChangeConfiguration", params={"settings": {"indusagi": 7}})
    assert "must be an object" in (await session.receive())["params"]["message"]


async def test_work_before_the_hosts_stand_waits_and_keeps_its_order():
    session = Session()
    session.send(id=0, method="initialize", params={"processId": None, "rootUri": None, "capabilities": {}})
    for number in range(1, 6):
        session.send(id=number, method="indusagi/submit", params={"sessionId": "s", "text": f"say {number}"})
    seen = [await session.receive() for _ in range(6)]
    assert {message["id"] for message in seen} == {0, 1, 2, 3, 4, 5}
    assert [entry[1].text for entry in session.hosts.log if entry[0] == "submit"] == [f"say {n}" for n in range(1, 6)]


async def test_hosts_that_cannot_start_leave_a_server_that_says_so():
    def broken(outlet):
        raise ImportError("secret path")

    session = Session(broken)
    await session.start()
    assert "could not be started" in (await session.receive())["params"]["message"]
    error = (await session.ask("indusagi/status"))["error"]
    assert "could not be started" in error["message"]
    assert "secret" not in str(error)
    assert (await session.ask("shutdown"))["result"] is None


async def test_one_folder_in_trouble_does_not_hold_the_others():
    class Picky(FakeHosts):
        async def open_folder(self, uri, name, trusted):
            if uri == "file:///bad":
                raise InvalidInput("It is no folder.", hint="Open one that exists.")
            if uri == "file:///worse":
                raise RuntimeError("secret")
            await super().open_folder(uri, name, trusted)

    session = Session(Picky)
    folders = [{"uri": "file:///bad", "name": "bad"}, {"uri": "file:///worse", "name": "w"}, WS]
    await session.start(workspaceFolders=folders)
    shown = [(await session.receive())["params"]["message"] for _ in range(2)]
    assert shown == ["It is no folder. Open one that exists.", "Indusagi: a folder could not be opened."]
    assert (await session.log())[-1] == ("open", "file:///tmp/ws", "ws", False)


async def test_a_wrong_token_is_turned_away():
    session = Session(token="right")
    session.send(
        id=0,
        method="initialize",
        params={"processId": None, "rootUri": None, "capabilities": {}, "initializationOptions": {"token": "wrong"}},
    )
    assert session.stopped == [1]
    await session.receive()
    assert (await session.ask("indusagi/status"))["error"]["code"] == -32002


async def test_the_right_token_is_no_setting():
    session = Session(token="right")
    await session.start(initializationOptions={"token": "right"})
    assert await session.log() == [("configure", {})]


async def test_the_editor_is_watched():
    session = Session()
    await session.start(processId=4242)
    assert session.watched == [4242]


@pytest.mark.parametrize(
    ("params", "words"),
    [
        ({}, ["sessionId"]),
        ({"sessionId": None}, ["sessionId"]),
        ({"sessionId": 5}, ["sessionId", "str", "int"]),
        ({"sessionId": ""}, ["sessionId"]),
        ({"sessionId": "x" * 200}, ["sessionId"]),
        ({"sessionId": "s", "mode": "later"}, ["mode", "later"]),
        ({"sessionId": "s", "context": [{"kind": "file"}]}, ["context", "uri"]),
        ({"sessionId": "s", "blocks": "text"}, ["blocks", "array"]),
        ({"sessionId": "s", "runId": 7}, ["runId"]),
    ],
)
async def test_a_wrong_field_is_named(params, words):
    session = Session()
    await session.start()
    error = (await session.ask("indusagi/submit", params))["error"]
    assert error["code"] == -32602
    assert error["data"]["kind"] == "bad_request"
    assert "sessionId" in error["data"]["hint"]
    for word in words:
        assert word in error["message"]


async def test_a_mistake_of_ours_is_answered_without_its_words(monkeypatch):
    session = Session()
    await session.start()

    def broken(*_: Any) -> None:
        raise RuntimeError("secret")

    monkeypatch.setattr(session.server.operations, "request", broken)
    error = (await session.ask("indusagi/status"))["error"]
    assert error["code"] == -32603
    assert "secret" not in str(error)


async def test_null_unknown_and_differently_spelled_fields_are_taken():
    session = Session()
    await session.start()
    params = {
        "sessionId": "s",
        "text": "say x",
        "context": None,
        "mode": None,
        "workspace": "file:///C%3A/ws/",
        "later": {"a": 1},
    }
    assert "result" in await session.ask("indusagi/submit", params)
    taken = session.hosts.log[-1][1]
    assert (taken.workspace, taken.context, taken.mode, taken.run_id) == ("file:///c:/ws", [], "queue", "a")


async def test_events_go_only_to_those_who_know_them():
    for capabilities, expected in (({}, 0), ({"experimental": {"indusagi": {"events": True}}}, 3)):
        session = Session()
        await session.start(capabilities)
        session.send(id=1, method="indusagi/submit", params={"sessionId": "s", "text": "say x"})
        seen = []
        while not seen or seen[-1].get("id") != 1:
            seen.append(await session.receive())
        assert len([message for message in seen if message.get("method") == "indusagi/event"]) == expected
        assert len(seen) == expected + 1


async def test_what_a_full_queue_refuses_becomes_a_gap():
    session = Session()
    await session.start({"experimental": {"indusagi": {"events": True}}})
    await session.log()
    session.out.full = True
    session.send(id=1, method="indusagi/submit", params={"sessionId": "s", "text": "say x"})
    seen = [await session.receive() for _ in range(3)]
    assert [message["params"]["event"]["code"] for message in seen] == ["gap"] * 3
    assert [message["params"]["seq"] for message in seen] == [1, 2, 3]


async def test_progress_with_a_token_of_the_client():
    session = Session()
    await session.start()
    session.send(
        id=1,
        method="workspace/executeCommand",
        params={
            "command": "indusagi.server.submit",
            "arguments": [{"sessionId": "s", "text": "say one\ntwo three"}],
            "workDoneToken": 7,
        },
    )
    values = []
    while (message := await session.receive()).get("id") != 1:
        values.append(message["params"]["value"])
    assert [value["kind"] for value in values] == ["begin", "report", "report", "end"]
    assert [value.get("message") for value in values[1:3]] == ["one", "two three "]


async def test_the_initialize_result_says_what_we_are():
    session = Session()
    session.send(id=0, method="initialize", params={"processId": None, "rootUri": None, "capabilities": {}})
    result = (await session.receive())["result"]
    ours = result["capabilities"]["experimental"]["indusagi"]
    assert ours["protocolVersion"] == 1
    assert "indusagi/submit" in ours["methods"]
    assert "indusagi/event" in ours["events"]
    commands = result["capabilities"]["executeCommandProvider"]["commands"]
    assert len(commands) == len(ours["methods"])
    assert result["serverInfo"]["name"] == "indusagi-lsp"


async def test_two_servers_share_nothing():
    one, two = Session(), Session()
    await one.start(workspaceFolders=[WS])
    await two.start()
    await one.log()
    assert await two.log() == [("configure", {})]

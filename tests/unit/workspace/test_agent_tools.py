"""The tools that look into what is kept here, as a model uses them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from indusagi_lsp.protocol import operations as o
from indusagi_lsp.workspace.agent_tools import MAX_TURN_CHARS
from unit.workspace.rig import HostsRig

LONG = "word " * 400


def calls(name: str, **arguments: Any) -> dict[str, Any]:
    return {"calls": [{"name": name, "input": arguments}]}


def outputs(final: Any) -> list[str]:
    return [
        block["output"] for message in final.messages for block in message["blocks"] if block["kind"] == "tool_result"
    ]


async def test_recall_reaches_what_condensing_dropped(tmp_path: Path) -> None:
    replies = [{"text": LONG}] * 8
    rig = HostsRig(
        tmp_path,
        [
            *replies,
            {"text": "no", "purpose": "summarizer", "repeat": True},
            calls("recall", query="zanzibar port"),
            "found it",
        ],
    )
    await rig.folder()
    session = await rig.new()
    await rig.say(session, f"The zanzibar port is 8731. {LONG}")
    for number in range(7):
        await rig.say(session, f"{number} {LONG}")
    before = (await rig.call(o.RESUME, sessionId=session)).turns
    done = await rig.call(o.CONDENSE, sessionId=session)
    assert done.condensed

    final = await rig.say(session, "which port was it?")
    assert "8731" in outputs(final)[0]
    assert before[0].id in outputs(final)[0]
    await rig.hosts.shutdown()


async def test_recall_reads_one_turn_whole_and_knows_what_is_remembered(tmp_path: Path) -> None:
    rig = HostsRig(tmp_path, ["the long answer " + "x" * 500, calls("recall", query="deploy"), "ok"])
    await rig.folder()
    await rig.call(o.REMEMBER, text="Deploy with make ship.")
    session = await rig.new()
    await rig.say(session, "first")
    final = await rig.say(session, "how do we deploy?")
    assert "make ship" in outputs(final)[0]
    (recalled,) = (event for event in rig.outlet.of(session) if event.kind == "memory_recalled")
    assert [entry["content"] for entry in recalled.entries] == ["Deploy with make ship."]
    assert recalled.entries[0]["id"] in outputs(final)[0]
    node = (await rig.call(o.RESUME, sessionId=session)).turns[1].id
    rig.script.write_text(json.dumps({"replies": [calls("recall", node=node), {"text": "ok"}]}), "utf-8")
    await rig.hosts.shutdown()
    rig.hosts = rig.again()
    await rig.folder()
    final = await rig.say(session, "read it whole")
    assert "x" * 500 in outputs(final)[-1]
    assert "first" in outputs(final)[-1]
    await rig.hosts.shutdown()


async def test_recall_reads_a_long_turn_to_its_end(tmp_path: Path) -> None:
    said = "".join(f"<{number:05}>" for number in range(3_000))
    rig = HostsRig(tmp_path, ["ok"])
    await rig.folder()
    session = await rig.new()
    await rig.say(session, said)
    node = (await rig.call(o.RESUME, sessionId=session)).turns[0].id
    await rig.hosts.shutdown()
    starts = range(0, len(said), MAX_TURN_CHARS)
    reads = [reply for at in starts for reply in (calls("recall", node=node, start=at), {"text": "on"})]
    rig.script.write_text(json.dumps({"replies": reads}), "utf-8")
    rig.hosts = rig.again()
    await rig.folder()
    parts = []
    for at in starts:
        output = outputs(await rig.say(session, f"read from {at}"))[-1]
        parts.append(output.partition(">\n")[2].partition("\n")[0])
        assert (f"start {at + MAX_TURN_CHARS}" in output) == (at + MAX_TURN_CHARS < len(said))
    assert "".join(parts) == said
    await rig.hosts.shutdown()


async def test_recall_shows_a_turn_once_however_often_condensing_has_copied_it(tmp_path: Path) -> None:
    refused = {"text": "no", "purpose": "summarizer", "repeat": True}
    rig = HostsRig(tmp_path, [refused, *[{"text": LONG}] * 9, calls("recall", query="zanzibar"), "found it"])
    await rig.folder()
    session = await rig.new()
    for number in range(6):
        await rig.say(session, f"{number} {LONG}")
    await rig.say(session, f"The zanzibar port is 8731. {LONG}")
    for number in range(2):
        await rig.say(session, f"again {number} {LONG}")
        assert (await rig.call(o.CONDENSE, sessionId=session)).condensed
    final = await rig.say(session, "which port was it?")
    assert outputs(final)[0].count("The zanzibar port is 8731") == 1
    await rig.hosts.shutdown()


async def test_remember_asks_each_time_with_the_exact_text(tmp_path: Path) -> None:
    rig = HostsRig(tmp_path, [calls("remember", text="Use tabs."), "ok", calls("remember", text="Use tabs."), "ok"])
    await rig.folder()
    session = await rig.new()
    rig.outlet.decision = "deny"
    final = await rig.say(session, "remember tabs")
    assert "did not allow" in outputs(final)[0]
    assert (await rig.call(o.MEMORY_LIST)).entries == []

    rig.outlet.decision = "once"
    final = await rig.say(session, "do it")
    assert outputs(final)[-1] == "Remembered."
    assert [question.action for question in rig.outlet.questions] == ["Use tabs."] * 2
    entry = (await rig.call(o.MEMORY_LIST)).entries[0]
    assert (entry.content, entry.source.session) == ("Use tabs.", session)
    await rig.hosts.shutdown()


async def test_in_a_folder_that_is_not_trusted_nobody_is_even_asked(tmp_path: Path) -> None:
    rig = HostsRig(tmp_path, [calls("remember", text="Evil."), "ok"])
    await rig.folder(trusted=False)
    session = await rig.new()
    await rig.say(session, "go")
    assert rig.outlet.questions == []
    assert (await rig.call(o.MEMORY_LIST)).entries == []
    await rig.hosts.shutdown()


async def test_todo_says_how_the_list_stands(tmp_path: Path) -> None:
    todos = [{"text": "a", "status": "done"}, {"text": "b", "status": "doing"}, {"text": "c"}]
    rig = HostsRig(tmp_path, [calls("todo", todos=todos), "ok", calls("todo", todos="all"), "ok"])
    await rig.folder()
    session = await rig.new()
    final = await rig.say(session, "plan")
    assert outputs(final) == ["1 of 3 done. Now: b."]
    final = await rig.say(session, "plan again")
    assert "do not fit" in outputs(final)[-1]
    await rig.hosts.shutdown()

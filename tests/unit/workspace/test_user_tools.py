"""The tools that need the one at the screen: a question of the agent, and the problems that the editor shows."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from indusagi_lsp.contract.errors import InvalidState
from indusagi_lsp.protocol import messages as m
from indusagi_lsp.protocol import operations as o
from unit.workspace.rig import HostsRig


def calls(name: str, **arguments: Any) -> dict[str, Any]:
    return {"calls": [{"name": name, "input": arguments}]}


def results(final: Any) -> list[tuple[str, bool]]:
    blocks = [block for message in final.messages for block in message["blocks"]]
    return [(block["output"], block.get("isError", False)) for block in blocks if block["kind"] == "tool_result"]


def problem(line: int, message: str, **more: Any) -> m.DiagnosticView:
    place = m.Position(line=line, character=4)
    return m.DiagnosticView(range=m.Range(start=place, end=place), message=message, **more)


@pytest.fixture
async def make(tmp_path: Path) -> Any:
    rigs: list[HostsRig] = []

    async def made(*replies: Any, trusted: bool = True) -> HostsRig:
        rigs.append(HostsRig(tmp_path, list(replies)))
        await rigs[-1].folder(trusted=trusted)
        return rigs[-1]

    yield made
    for rig in rigs:
        await rig.hosts.shutdown()


async def test_the_users_words_reach_the_model_and_no_permission_is_asked(make: Any) -> None:
    ask = calls("ask_user", question="Which database?", options=["SQLite", "PostgreSQL", "SQLite"])
    rig = await make(ask, "Good.", ask, "Then I take SQLite.")
    session = await rig.new()
    rig.outlet.answer = "neither: a flat file"
    final = await rig.say(session, "Set it up.")
    assert results(final) == [("neither: a flat file", False)]
    assert rig.outlet.questions == []
    question = rig.outlet.asked[0]
    assert (question.question, question.options) == ("Which database?", ["SQLite", "PostgreSQL"])
    assert (question.session_id, question.workspace) == (session, (rig.tmp_path / "ws").as_uri())

    rig.outlet.answer = None
    final = await rig.say(session, "Again.")
    assert results(final)[-1][0].startswith("The user gave no answer.")
    assert rig.outlet.asked[1].question_id != question.question_id


async def test_a_person_may_take_longer_than_a_tool_and_the_question_can_be_looked_up(make: Any) -> None:
    rig = await make(calls("ask_user", question="Well?"), "Good.")
    await rig.hosts.configure({"toolSeconds": 0.05})
    session = await rig.new()
    asked, go_on = asyncio.Event(), asyncio.Event()

    async def thinks(question: m.QuestionParams) -> str:
        asked.set()
        await go_on.wait()
        return "yes"

    rig.outlet.question = thinks
    saying = asyncio.create_task(rig.say(session, "Go."))
    await asked.wait()
    found = await rig.call(o.SNAPSHOT, sessionId=session)
    assert [(one.question, one.session_id) for one in found.asked] == [("Well?", session)]
    assert found.questions == []
    await asyncio.sleep(0.2)  # longer than a tool may take
    go_on.set()
    assert results(await saying) == [("yes", False)]
    assert (await rig.call(o.SNAPSHOT, sessionId=session)).asked == []


async def test_stopping_the_run_takes_the_question_back(make: Any) -> None:
    rig = await make(calls("ask_user", question="Well?"), "Good.")
    session = await rig.new()
    asked, ended = asyncio.Event(), asyncio.Event()

    async def thinks(question: m.QuestionParams) -> str:
        asked.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()
        return "never"

    rig.outlet.question = thinks
    saying = asyncio.create_task(rig.say(session, "Go."))
    await asked.wait()
    await rig.call(o.ABORT, sessionId=session)
    assert (await saying).error.kind == "aborted"
    assert ended.is_set()
    assert (await rig.call(o.SNAPSHOT, sessionId=session)).asked == []


async def test_a_client_that_cannot_ask_is_said_to_the_model(make: Any) -> None:
    rig = await make(calls("ask_user", question="Well?"), calls("ask_user", question=""), "Good.")

    async def cannot(question: m.QuestionParams) -> str:
        raise InvalidState("This editor takes no free answers.", hint="Offer `options`.")

    rig.outlet.question = cannot
    found = results(await rig.say(await rig.new(), "Go."))
    assert found[0] == ("This editor takes no free answers. Offer `options`.", True)
    assert found[1][1]
    assert "question" in found[1][0]


@pytest.mark.parametrize("trusted", [True, False])
async def test_the_problems_of_the_editor_are_told_and_nothing_beside_the_folder(make: Any, trusted: bool) -> None:
    look = [calls("diagnostics"), calls("diagnostics", path="./src/a b.py"), calls("diagnostics", path="../x.py")]
    rig = await make(*look, "Good.", trusted=trusted)
    base = (rig.tmp_path / "ws").as_uri()
    rig.outlet.shows_diagnostics = True
    rig.outlet.problems = [
        m.FileDiagnostics(uri=f"{base}/%7A.py", diagnostics=[problem(0, "last", severity=4)]),
        m.FileDiagnostics(
            uri=f"{base}/src/a%20b.py",
            diagnostics=[problem(6, "two\nlines\u202e", severity=2, source="ruff", code="F401"), problem(2, "first")],
        ),
        m.FileDiagnostics(uri=f"{base}-evil/secret.py", diagnostics=[problem(0, "elsewhere")]),
    ]
    found = results(await rig.say(await rig.new(), "Look."))
    of_file = "src/a b.py:3:5 error: first\nsrc/a b.py:7:5 warning: two lines\\u{202e} [ruff F401]"
    assert found[0] == (f"{of_file}\nz.py:1:5 hint: last", False)
    assert found[1] == (of_file, False)
    assert found[2][1]
    assert [one.uri for one in rig.outlet.problems_wanted] == [None, f"{base}/src/a%20b.py"]


async def test_very_many_problems_are_bounded(make: Any) -> None:
    rig = await make(calls("diagnostics"), "Good.")
    uri = (rig.tmp_path / "ws/a.py").as_uri()
    rig.outlet.shows_diagnostics = True
    rig.outlet.problems = [m.FileDiagnostics(uri=uri, diagnostics=[problem(n, "x" * 100_000) for n in range(1_000)])]
    ((output, _),) = results(await rig.say(await rig.new(), "Look."))
    assert "800 more problems" in output
    assert len(output) < 120_000


async def test_an_editor_that_cannot_tell_has_no_such_tool(make: Any) -> None:
    rig = await make(calls("diagnostics"), "Good.")
    ((output, failed),) = results(await rig.say(await rig.new(), "Look."))
    assert failed
    assert "There is no tool 'diagnostics'" in output
    assert "ask_user" in output

"""Code actions on any file."""

from __future__ import annotations

import msgspec
import pytest

from indusagi_lsp.lsp.actions import as_commands, code_actions
from indusagi_lsp.lsp.documents import Documents
from indusagi_lsp.lsp.operations import convert
from indusagi_lsp.protocol.operations import OPERATIONS

URI = "file:///ws/a.py"
TEXT = "import os\nprint('😀', nothing)\n"


def place(line: int, start: int, end: int):
    return {"start": {"line": line, "character": start}, "end": {"line": line, "character": end}}


def actions(where, **context):
    document = Documents().open({"textDocument": {"uri": URI, "languageId": "python", "text": TEXT}})
    params = {"textDocument": {"uri": URI}, "range": where, "context": {"diagnostics": [], **context}}
    return code_actions(params, document, "file:///ws")


def test_a_diagnostic_can_be_fixed_and_explained():
    told = {"range": place(1, 12, 19), "message": "name 'nothing'\nis not defined", "source": "pyright", "code": 1}
    fix, explain = actions(place(1, 12, 12), diagnostics=[told])
    assert fix["title"] == "Indusagi: fix “name 'nothing' is not defined”"
    assert (fix["kind"], fix["diagnostics"]) == ("quickfix", [told])
    assert fix["command"]["command"] == "indusagi.server.ask"
    argument = {"kind": "fix", "uri": URI, "workspace": "file:///ws", "range": told["range"]}
    assert fix["command"]["arguments"] == [{**argument, "message": told["message"]}]
    assert explain["command"]["arguments"][0]["kind"] == "explain"
    assert as_commands([fix])[0]["command"] == "indusagi.server.ask"


def test_a_selection_can_be_explained_asked_about_and_remembered():
    explain, ask, remember = actions(place(1, 6, 10))
    assert [explain["kind"], ask["kind"], remember["kind"]] == [
        "indusagi.explain",
        "indusagi.ask",
        "indusagi.remember",
    ]
    assert remember["command"]["command"] == "indusagi.server.memory/remember"
    assert remember["command"]["arguments"][0]["text"] == "'😀'"
    assert remember["command"]["arguments"][0]["metadata"] == {"uri": URI, "line": 2}


def test_a_bare_cursor_is_left_alone_unless_the_user_asks():
    assert actions(place(0, 2, 2)) == []
    assert actions(place(0, 2, 2), triggerKind=2) == []
    explain, *_ = actions(place(0, 2, 2), triggerKind=1)
    assert explain["title"] == "Indusagi: explain this line"
    assert explain["command"]["arguments"][0]["range"] == place(0, 0, 9)


@pytest.mark.parametrize(
    ("only", "count"), [(["quickfix"], 0), (["indusagi"], 3), (["indusagi.ask"], 1), ([""], 3), (["source"], 0)]
)
def test_only_what_is_wanted(only, count):
    assert len(actions(place(0, 0, 6), only=only)) == count


def test_our_own_diagnostics_are_not_asked_about():
    told = {"range": place(0, 0, 1), "message": "torn", "source": "indusagi"}
    assert actions(place(0, 0, 0), diagnostics=[told]) == []


def test_every_command_is_one_that_the_server_takes():
    operations = {operation.command: operation for operation in OPERATIONS}
    told = {"range": place(1, 12, 19), "message": "bad"}
    for action in actions(place(1, 7, 11), diagnostics=[told]):
        command = action["command"]
        convert(operations[command["command"]], command["arguments"][0], command["command"])


def test_nonsense_is_refused():
    with pytest.raises(msgspec.ValidationError):
        actions({"start": 1})

"""The ledger: what it finds, how it is written within a budget, and that it can be read back."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from indusagi_lsp.condensation import SUMMARY_PREFIX, Ledger, collect, estimate_text_tokens
from indusagi_lsp.condensation.ledger import Entry, merge
from indusagi_lsp.condensation.ledger_text import parse, render
from indusagi_lsp.condensation.shellwords import take_apart
from indusagi_lsp.condensation.tooltable import action_of
from indusagi_lsp.contract.turns import ASSISTANT, TOOL, ToolCallBlock, ToolResultBlock, Turn, assistant, user
from indusagi_lsp.tools import Arguments, validate_arguments
from indusagi_lsp.tools.commands import RunCommandArguments
from indusagi_lsp.tools.editing import EditFileArguments, WriteFileArguments
from indusagi_lsp.tools.patching import ApplyPatchArguments
from indusagi_lsp.tools.reading import ReadFileArguments
from indusagi_lsp.workspace.agent_tools import TodoArguments
from support.histories import histories

_ids = iter(range(10**9))

DIFF = """\
--- a/src/a.py
+++ b/src/a.py
@@ -1 +1 @@
-x
+y
--- /dev/null
+++ b/made.py\t2026-01-01
@@ -0,0 +1 @@
+z
--- a/gone.py
+++ /dev/null
@@ -1 +0,0 @@
-z
rename from old.py
rename to src/new name.py
"""


def ran(name: str, arguments: Any, output: str = "", *, is_error: bool | None = None) -> list[Turn]:
    call_id = f"c{next(_ids)}"
    return [
        Turn(ASSISTANT, (ToolCallBlock(call_id, name, arguments),)),
        Turn(TOOL, (ToolResultBlock(call_id, output, is_error),)),
    ]


@pytest.mark.parametrize(
    ("name", "arguments", "kind", "paths"),
    [
        ("Read", {"file_path": "/a/b.py"}, "read", ("/a/b.py",)),
        ("read_file", {"path": "b.py"}, "read", ("b.py",)),
        ("Edit", {"file_path": "b.py", "old_string": "x", "new_string": "y"}, "modify", ("b.py",)),
        ("write_to_file", {"path": "b.py", "content": ""}, "modify", ("b.py",)),
        ("mcp__fs__write_file", {"path": "b.py"}, "modify", ("b.py",)),
        ("str_replace_based_edit_tool", {"command": "view", "path": "b.py"}, "read", ("b.py",)),
        ("str_replace_based_edit_tool", {"command": "create", "path": "b.py"}, "modify", ("b.py",)),
        ("read_many_files", {"paths": ["a", "b"]}, "read", ("a", "b")),
        ("apply_patch", "*** Begin Patch\n*** Update File: a.py\n*** Add File: b.py\n", "modify", ("a.py", "b.py")),
        ("shell", {"command": ["apply_patch", "*** Begin Patch\n*** Delete File: a.py\n"]}, "modify", ("a.py",)),
        ("apply_patch", {"patch": DIFF}, "modify", ("old.py", "src/new name.py", "src/a.py", "made.py", "gone.py")),
        ("Read", "not an object", "other", ()),
        ("Read", {"file_path": 7}, "other", ()),
        ("anything", None, "other", ()),
    ],
)
def test_tools_are_known_by_many_names(name: str, arguments: Any, kind: str, paths: tuple[str, ...]) -> None:
    action = action_of(name, arguments)
    assert (action.kind, action.paths) == (kind, paths)


@pytest.mark.parametrize("arguments", [{"command": "make"}, {"cmd": "make"}, {"command": ["bash", "-lc", "make"]}])
def test_a_command_is_a_command(arguments: dict[str, Any]) -> None:
    assert action_of("run_shell_command", arguments).command == "make"


def test_a_command_line_is_taken_apart() -> None:
    line = take_apart("cd /w/app && cat src/a.py && sed -i 's/x/y/' src/b.py && echo hi > out.txt")
    assert (line.folder, line.read, line.modified) == ("/w/app", ("src/a.py",), ("out.txt", "src/b.py"))
    assert take_apart("git commit -qm 'Fix the parser' && git push").commit == "Fix the parser"
    assert take_apart("npm run check 2>&1 | tail -20").text == "npm run check"
    assert take_apart("grep -rn x . | head").exploring
    assert take_apart("node -e 'a.map(c => c.text)'").modified == ()
    assert take_apart("").text == ""


def test_files_are_below_the_root_and_once() -> None:
    ledger = collect(
        [
            *ran("Read", {"file_path": "/w/shop/src/a.py"}),
            *ran("Edit", {"file_path": "/w/shop/src/a.py"}),
            *ran("bash", {"command": "cd /w/shop && cat src/c.py"}),
            *ran("Read", {"file_path": "/w/shop/README.md"}),
        ]
    )
    assert ledger.root == "/w/shop"
    assert ledger.files_modified == ("src/a.py",)
    assert set(ledger.files_read) == {"src/c.py", "README.md"}


def test_commands_have_their_outcome() -> None:
    ledger = collect(
        [
            *ran("bash", {"command": "make"}, "done", is_error=False),
            *ran("bash", {"command": "make test"}, "boom\nProcess exited with code 2"),
            *ran("bash", {"command": "make lint"}, "bad", is_error=True),
            *ran("bash", {"command": "make docs | tail -3"}, "fine", is_error=False),
            *ran("bash", {"command": "make test"}, "exit code: 0"),
        ]
    )
    found = {entry.text: (entry.status, entry.count) for entry in ledger.commands}
    assert found == {"make": ("0", 1), "make test": ("0", 2), "make lint": ("failed", 1), "make docs": ("", 1)}


def test_errors_come_from_what_ran_not_from_what_was_read() -> None:
    ledger = collect(
        [
            *ran("read", {"path": "errors.py"}, "class ParserError(Exception): raise KeyError"),
            *ran("bash", {"command": "npm test"}, "src/a.ts(1,2): error TS2345: no\nError: ENOENT: no such file"),
            user("I get ERR_MODULE_NOT_FOUND and a TimeoutError here"),
        ]
    )
    assert {entry.text for entry in ledger.errors} == {"TS2345", "ENOENT", "ERR_MODULE_NOT_FOUND", "TimeoutError"}


def test_the_users_words_are_verbatim_and_sorted_by_what_they_are() -> None:
    ledger = collect(
        [
            user("Please build a parser for the log files."),
            user("Never touch the generated files!\n\n  Not even once."),
            user("yes, take the second proposal"),
            user("<command-name>/clear</command-name>"),
            user("what about tests?"),
        ]
    )
    assert ledger.goal == "Please build a parser for the log files."
    assert ledger.standing == ("Never touch the generated files!\n\n  Not even once.",)
    assert ledger.decisions == ("yes, take the second proposal",)
    assert ledger.requests == ("Please build a parser for the log files.", "what about tests?")


def test_the_tasks_of_our_own_tool_are_known() -> None:
    todos = [{"text": "a", "status": "done"}, {"text": "b", "status": "doing"}, {"text": "c"}]
    validate_arguments(TodoArguments, {"todos": todos})
    ledger = collect(ran("todo", {"todos": todos}))
    assert (ledger.done, ledger.open) == (("a",), ("b", "c"))


def test_a_task_that_was_done_and_is_taken_up_again_is_open() -> None:
    first = collect(ran("todo", {"todos": [{"text": "a", "status": "done"}, {"text": "b", "status": "done"}]}))
    again = collect(ran("todo", {"todos": [{"text": "a"}]}), parse(render(first, 1_500)))
    assert (again.done, again.open) == (("b",), ("a",))


@pytest.mark.parametrize(
    ("name", "cls", "arguments", "kind"),
    [
        ("read_file", ReadFileArguments, {"path": "a.py"}, "read"),
        ("edit_file", EditFileArguments, {"path": "a.py", "edits": [{"old_text": "x", "new_text": "y"}]}, "modify"),
        ("write_file", WriteFileArguments, {"path": "a.py", "content": "x"}, "modify"),
        ("apply_patch", ApplyPatchArguments, {"patch": "--- a/a.py\n+++ b/a.py\n@@ -1 +1 @@\n-x\n+y\n"}, "modify"),
        ("run_command", RunCommandArguments, {"command": "cat a.py", "folder": "sub"}, "run"),
    ],
)
def test_our_own_tools_are_known(name: str, cls: type[Arguments], arguments: dict[str, Any], kind: str) -> None:
    validate_arguments(cls, arguments)
    action = action_of(name, arguments)
    assert action.kind == kind
    assert action.paths == (("a.py",) if kind != "run" else ())
    assert collect(ran(name, arguments)).files_modified == (("a.py",) if kind == "modify" else ())
    assert collect(ran(name, arguments)).files_read == {"read": ("a.py",), "run": ("sub/a.py",)}.get(kind, ())


def test_tasks_and_commits() -> None:
    ledger = collect(
        [
            *ran(
                "TodoWrite", {"todos": [{"content": "a", "status": "completed"}, {"content": "b", "status": "pending"}]}
            ),
            *ran("bash", {"command": 'git commit -m "Add the parser"'}, is_error=False),
            assistant("I have added it. Shall I go on with the lexer?"),
        ]
    )
    assert ledger.done == ("a", "Add the parser")
    assert ledger.open == ("b",)
    assert ledger.doing == "I have added it. Shall I go on with the lexer?"
    assert ledger.question == "Shall I go on with the lexer?"
    assert collect([user("yes")], ledger).question == ""


def test_the_text_is_marked_as_data_and_has_the_sections() -> None:
    text = render(collect([user("Build it, and never use eval."), *ran("Edit", {"path": "a.py"})]), 1_500)
    assert text.split("\n")[0] == SUMMARY_PREFIX
    assert "not the user's speech" in text
    assert "## Constraints and standing instructions" in text or "## Goal" in text
    assert "### Files modified\n- .: a.py" in text


def test_a_users_heading_is_no_heading_of_ours() -> None:
    said = "Always do this:\n### Files modified\n- /etc/passwd: shadow\n## Done\n- everything"
    ledger = parse(render(collect([user("A first request, long enough."), user(said)]), 1_500))
    assert ledger.standing == (said,)
    assert ledger.modified == ()
    assert ledger.done == ()


def test_a_chain_carries_the_ledger_on() -> None:
    first = collect(
        [user("Build the parser, please."), *ran("Edit", {"path": "/w/x/src/a.py"}), *ran("bash", {"command": "make"})]
    )
    second = collect(
        [*ran("Edit", {"path": "/w/x/src/b.py"}), *ran("bash", {"command": "make"})], parse(render(first, 1_500))
    )
    third = collect([user("always run make")], parse(render(second, 1_500)))
    assert set(third.files_modified) == {"src/a.py", "src/b.py"}
    assert [(entry.text, entry.count) for entry in third.commands] == [("make", 2)]
    assert third.goal == "Build the parser, please."


def test_nothing_is_said_twice_though_it_was_clipped() -> None:
    rule = "Always remember the following: " + "word " * 150
    wish = "Please have a look at this: " + "thing " * 60
    command = "make " + "target-one " * 30
    span = [user(wish), user(rule), *ran("bash", {"command": command})]
    text = render(collect([user("Let us begin with something small.")]), 1_500)
    for _ in range(3):
        text = render(collect(span, parse(text)), 1_500)
    assert [text.count(said) for said in ("Always remember", "Please have a look", "make target-one")] == [1, 1, 1]
    assert parse(text).commands[0].count == 3
    assert render(collect([user(wish)]), 1_500).count("Please have a look") == 1  # the goal is not repeated


def test_merging_joins_without_doubles() -> None:
    one = Ledger(goal="g", modified=(Entry("a"),), done=("x",))
    two = Ledger(goal="h", modified=(Entry("a"), Entry("b")), done=("x", "y"), doing="now")
    both = merge([one, two])
    assert (both.goal, both.files_modified, both.done, both.doing) == ("g", ("a", "b"), ("x", "y"), "now")
    assert merge([]) == Ledger()


@given(histories(), st.integers(200, 2_000))
def test_the_budget_holds_and_the_text_is_stable(turns: list[Turn], budget: int) -> None:
    text = render(collect(turns), budget)
    assert text.startswith(SUMMARY_PREFIX)
    assert estimate_text_tokens(text) <= budget
    again = parse(text)
    assert set(parse(render(again, 5_000)).files_modified) == set(again.files_modified)
    assert render(parse(render(again, 5_000)), 5_000) == render(again, 5_000)


@given(st.text())
def test_reading_back_never_fails(text: str) -> None:
    parse(text)

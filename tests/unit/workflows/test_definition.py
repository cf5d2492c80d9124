"""Whatever is wrong with a definition is told with its file and step."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from indusagi_lsp.workflows import DefinitionError, Folder, find_workflows, read_definition
from indusagi_lsp.workflows.definition import ancestors
from unit.workflows.rig import tool, workflow


def read(steps: Any, **top: Any) -> Any:
    return read_definition({"steps": steps, **top}, name="flow", place="flow.toml", origin="user")


@pytest.mark.parametrize(
    ("steps", "step", "words"),
    [
        ({"a": tool(needs=["b"])}, "a", 'it needs "b", which is no step; there are: none'),
        ({"a": tool(needs=["a"])}, "a", "it needs itself"),
        (
            {"x": tool(), "a": tool(needs=["x", "c"]), "b": tool(needs=["a"]), "c": tool(needs=["b"])},
            "a",
            "it needs itself in the end: a → c → b → a",
        ),
        ({"a": {"needs": []}}, "a", "and has none of them"),
        ({"a": {"prompt": "x", "tool": "y"}}, "a", "and has `prompt` and `tool`"),
        ({"a": {"prompt": "x", "input": {"y": 1}}}, "a", "`input` is for steps with `tool`"),
        ({"a": tool(session="s")}, "a", "`session` is for steps with `prompt`"),
        ({"a": tool(colour="red")}, "a", "object contains unknown field `colour`"),
        ({"a": tool(seconds=0)}, "a", "`seconds`: expected `float` > 0.0"),
        ({"a": tool(retry={"attempts": "many"})}, "a", "`retry.attempts`: expected `int`, got `str`"),
        ({"a": "text"}, "a", "expected `object`, got `str`"),
        ({"a-b": tool()}, "a-b", "this cannot be the name of a step"),
        ({"inputs": tool()}, "inputs", "this cannot be the name of a step"),
        ({"not": tool()}, "not", "this cannot be the name of a step"),
        ({"a": tool(when="b.ok")}, "a", '`when` looks at "b", which is neither a step nor an input'),
        ({"a": tool(), "b": tool(when="a.ok")}, "b", '`when` looks at "a", which it does not need'),
        ({"a": tool("{{ c }}")}, "a", '`input` looks at "c", which is neither a step nor an input'),
        ({"a": tool(when="a ==")}, "a", "`a ==` cannot be understood at its end"),
        ({"a": {"prompt": "{{ 1 + }}"}}, "a", "cannot be understood"),
        ({"a": {"callable": "f"}}, "a", "`callable` needs a Python file"),
    ],
)
def test_a_bad_step_is_named(steps: Any, step: str, words: str) -> None:
    with pytest.raises(DefinitionError) as caught:
        read(steps)
    assert caught.value.step == step
    assert caught.value.message.startswith(f'flow.toml, step "{step}": ')
    assert words in caught.value.message


@pytest.mark.parametrize(
    ("raw", "words"),
    [
        ({}, "object missing required field `steps`"),
        ([], "expected `object`, got `array`"),
        ({"steps": {}}, "a workflow has 1 to 1000 steps"),
        ({"steps": {"a": tool()}, "name": "x"}, "object contains unknown field `name`"),
        ({"steps": {"a": tool()}, "max_parallel": 0}, "`max_parallel`"),
        ({"steps": {"a": tool()}, "inputs": {"not": 1}}, "'not' cannot be the name of an input"),
    ],
)
def test_a_bad_file_is_named(raw: Any, words: str) -> None:
    with pytest.raises(DefinitionError) as caught:
        read_definition(raw, name="flow", place="flow.toml", origin="user")
    assert caught.value.message.startswith("flow.toml: ")
    assert words in caught.value.message


def test_a_function_must_be_in_the_file() -> None:
    with pytest.raises(DefinitionError, match="there is no function 'g' in this file"):
        workflow({"a": {"callable": "g"}}, functions="def f(context): pass")


@given(st.dictionaries(st.sampled_from("abcdefgh"), st.lists(st.sampled_from("abcdefgh"), max_size=3), min_size=1))
def test_exactly_the_graphs_without_a_circle_are_taken(needs: dict[str, list[str]]) -> None:
    needs = {step: [one for one in wanted if one in needs] for step, wanted in needs.items()}
    steps = {step: tool(needs=wanted) for step, wanted in needs.items()}
    reach = {step: set(wanted) for step, wanted in needs.items()}
    for _ in needs:
        reach = {step: found.union(*(reach[one] for one in found)) for step, found in reach.items()}
    circular = any(step in found for step, found in reach.items())
    try:
        flow = read(steps)
    except DefinitionError:
        assert circular
    else:
        assert not circular
        assert {step: ancestors(step, flow.steps) for step in needs} == reach


# --- files ------------------------------------------------------------------------------------------------------------


def found(folder: Path) -> dict[str, str]:
    return {one.name: one.problem for one in find_workflows([Folder(folder, "user", trusted=True)])}


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("a.toml", "steps = ", "this is no TOML"),
        ("a.toml", b"\xff\xfe", "this is no TOML"),
        ("a.toml", '[steps.a]\nprompt = "x"\n[steps.a]\nprompt = "y"', "this is no TOML"),
        ("a.py", "def f(:", "this is no Python"),
        ("a.py", "x = '\0'", "this is no Python"),
        ("a.py", "x = " + "(" * 5000, "this is no Python"),
        ("a.py", "x = 1", "it has no `WORKFLOW = {...}`"),
        ("a.py", "WORKFLOW = make()", "must be written out in plain values"),
        ("a.py", "WORKFLOW = {'steps': {'a': {'callable': 'f'}}}", "step \"a\": there is no function 'f'"),
        ("a.py", "WORKFLOW = {'steps': {'a': {'callable': 'f'}}}\nasync def f(c): pass", "there is no function 'f'"),
    ],
)
def test_a_file_that_is_none(tmp_path: Path, name: str, text: str | bytes, words: str) -> None:
    (tmp_path / name).write_bytes(text if isinstance(text, bytes) else text.encode())
    problem = found(tmp_path)["a"]
    assert problem.startswith(str(tmp_path / name))
    assert words in problem


def test_other_files_are_left_alone(tmp_path: Path) -> None:
    for name in ("notes.md", ".hidden.toml", "a b.toml", "x.toml.bak", "__init__.py"):
        (tmp_path / name).write_text("")
    (tmp_path / "folder.toml").mkdir()
    (tmp_path / "big.toml").write_text("#" * 1_000_001)
    (tmp_path / "ok.py").write_text(
        "WORKFLOW: dict = {'steps': {'a': {'callable': 'f'}}}\ndef f(c): pass\nraise SystemExit"
    )
    problems = found(tmp_path)
    assert set(problems) == {"folder", "big", "ok"}
    assert "no file of at most" in problems["folder"]
    assert "no file of at most" in problems["big"]
    assert problems["ok"] == ""
    assert found(tmp_path / "missing") == {}

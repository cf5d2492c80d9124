"""The language of `when`: it means what the same text means in Python, and can do nothing else."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from indusagi_lsp.workflows.conditions import MAX_DEPTH, ConditionError, parse
from indusagi_lsp.workflows.execution import StepNames
from indusagi_lsp.workflows.templates import expressions, fill

NAMES = {"a": 1, "b": 0, "flag": True, "word": "stage", "items": [1, "x"], "nothing": None, "c": -2.5}


class Dotted(dict[str, Any]):
    """Lets Python follow `build.ok` as the language does: what is missing is None."""

    def __getattr__(self, name: str) -> Any:
        return self.get(name)


BUILD = {"ok": True, "output": {"failed": 2, "names": ["u", "v"]}, "error": None}
PYTHON_NAMES = {**NAMES, "build": Dotted({**BUILD, "output": Dotted(BUILD["output"])})}
OURS = {**NAMES, "build": BUILD}

atoms = st.one_of(
    st.sampled_from([*NAMES, "build.ok", "build.output.failed", "build.output['names']", "build.output.names[1]"]),
    st.sampled_from(["True", "False", "None", "0", "1", "7", "-3", "2.5", "-1e3", "''", "'stage'", '"x\\n\\"y"', "[]"]),
    st.lists(st.sampled_from(["1", "'x'", "a", "word", "None"]), max_size=3).map(lambda items: f"[{', '.join(items)}]"),
)
signs = st.sampled_from(["==", "!=", "<", "<=", ">", ">=", "in", "not in"])


def deeper(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    chain = st.lists(st.tuples(signs, atoms), min_size=1, max_size=3)
    return st.one_of(
        st.tuples(inner, st.sampled_from(["and", "or"]), inner).map(" ".join),
        inner.map(lambda text: f"not {text}"),
        inner.map(lambda text: f"({text})"),
        st.tuples(atoms, chain).map(lambda pair: pair[0] + "".join(f" {sign} {atom}" for sign, atom in pair[1])),
        st.tuples(inner, signs, inner).map(lambda three: f"({three[0]}) {three[1]} ({three[2]})"),
    )


@given(st.recursive(atoms, deeper, max_leaves=12))
def test_it_means_what_python_means(text: str) -> None:
    try:
        wanted: Any = eval(text, {"__builtins__": {}}, PYTHON_NAMES)
    except TypeError:
        with pytest.raises(ConditionError, match="makes no sense"):
            parse(text).value(OURS)
        return
    expression = parse(text)
    found = expression.value(OURS)
    assert (found, type(found) is bool) == (wanted, type(wanted) is bool)
    assert expression.holds(OURS) is bool(wanted)


@given(st.text(max_size=60))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        expression = parse(text)
    except ConditionError:
        return
    with suppress(ConditionError):
        expression.value(OURS)


@pytest.mark.parametrize(
    "text",
    [
        "", "a b", "a ==", "== a", "(a", "a)", "a and", "not", "f(a)", "a.b()", "a + 1", "a = 1", "__import__('os')",
        "lambda: 1", "[1 for x in a]", "a if b else c", "'open", "a.0", "a[b]", "a[-1]", "1a", "{}", "a; b", "in a",
        "'\\x41'", "a\n=b", "0x10", "1_000", "é", "a..b", "[,]",
    ],
)  # fmt: skip
def test_nothing_else_is_read(text: str) -> None:
    with pytest.raises(ConditionError):
        parse(text)


def test_bounds() -> None:
    with pytest.raises(ConditionError, match="at most 2000 characters"):
        parse("a or " * 1000 + "a")
    for opening, closing in (("(", ")"), ("[", "]"), ("not ", "")):
        assert parse(opening * MAX_DEPTH + "a" + closing * MAX_DEPTH)
        with pytest.raises(ConditionError, match="nested"):
            parse(opening * (MAX_DEPTH + 1) + "a" + closing * (MAX_DEPTH + 1))


def test_what_is_missing() -> None:
    assert parse("build.none.deeper").value(OURS) is None
    assert parse("items[9]").value(OURS) is None
    assert parse("word.upper").value(OURS) is None
    assert parse("items.__class__").value(OURS) is None
    with pytest.raises(ConditionError, match="`gone` is not known"):
        parse("gone.ok").value(OURS)
    # What is not looked at need not be there, as in Python.
    assert parse("a or gone").value(OURS) == 1


def test_names() -> None:
    assert parse("build.ok and not (skip or inputs['x'])").names == {"build", "skip", "inputs"}


def test_a_step_by_itself_is_whether_it_went_well() -> None:
    names = {"good": StepNames(ok=True), "bad": StepNames(ok=False), "never": StepNames(StepNames.nothing)}
    assert parse("good and not bad and not never").holds(names)


def test_templates() -> None:
    assert fill("{{ word }}: {{ build.output }}{{ nothing }}", OURS) == 'stage: {"failed":2,"names":["u","v"]}'
    assert fill("{{ build.output.names }}", OURS) == ["u", "v"]
    assert fill({"x": ["{{ a == 1 }}", 5, None]}, OURS) == {"x": [True, 5, None]}
    assert fill("no { braces } here }}", OURS) == "no { braces } here }}"
    # What the definition's check reads as an expression is one when it is filled in, too.
    assert fill("{{ word }} here }}", OURS) == "stage here }}"
    assert [one.text for one in expressions("{{ word }} here }}")] == ["word"]
    assert [one.text for one in expressions({"x": ["{{ a }} {{b}}", {"y": "{{c}}"}]})] == ["a", "b", "c"]
    # What is filled in is data: it is not read again.
    assert fill("{{ word }}", {"word": "{{ secret }}"}) == "{{ secret }}"

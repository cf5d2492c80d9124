"""What a workflow is: steps that need each other, checked whole before anything runs.

Whatever is wrong with a definition is told with its file and step.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Literal, TypeAlias

import msgspec
from msgspec import Meta

from indusagi_lsp.contract.canonical import canonical_json
from indusagi_lsp.contract.errors import InvalidInput
from indusagi_lsp.workflows.conditions import KEYWORDS, ConditionError, parse
from indusagi_lsp.workflows.templates import expressions

MAX_STEPS = 1_000
DEFAULT_SECONDS = 600.0
DEFAULT_PARALLEL = 4
INPUTS = "inputs"
"""The name by which expressions reach all inputs."""

StepKind: TypeAlias = Literal["prompt", "tool", "callable", "approve"]
Origin: TypeAlias = Literal["user", "workspace"]

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}")
_TEXTS = ("prompt", "approve", "input", "session")


class DefinitionError(InvalidInput):
    """A workflow's file is not a workflow."""

    def __init__(self, place: str, problem: str, *, step: str | None = None) -> None:
        where = f'{place}, step "{step}"' if step is not None else place
        super().__init__(f"{where}: {problem}.", hint="Correct the file, then run the workflow again.")
        self.place = place
        self.step = step


class Strict(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A part of a definition; a field that is not known is a mistake, not a wish for later."""


class Retry(Strict, frozen=True):
    """How often a step is tried, and how long to wait between: `base` seconds, twice as long each time, up to `cap`."""

    attempts: Annotated[int, Meta(ge=1, le=100)] = 3
    base: Annotated[float, Meta(ge=0, le=3600)] = 1.0
    cap: Annotated[float, Meta(ge=0, le=86_400)] = 30.0


class Breaker(Strict, frozen=True):
    """When a step is left alone: after so many `failures` within so many seconds, for `rest` seconds.

    Steps that name the same breaker share it.
    """

    name: Annotated[str, Meta(max_length=100)] = ""
    failures: Annotated[int, Meta(ge=1, le=1000)] = 5
    within: Annotated[float, Meta(gt=0, le=86_400)] = 60.0
    rest: Annotated[float, Meta(ge=0, le=86_400)] = 30.0


class Step(Strict, frozen=True):
    """One step; exactly one of `prompt`, `tool`, `callable` and `approve` says what it does.

    Attributes:
        prompt: what an agent is told.
        tool: the tool that is called, with `input`.
        callable: the function of the workflow's own Python file.
        approve: the question that the user is asked.
        input: the tool's arguments.
        needs: the steps that must have ended before.
        when: runs the step only if this holds; without it, only if all that it needs went well.
        session: the session that the prompt is said in; without it, a new one.
        model: the model that answers.
        seconds: the time that one attempt may take; a person may think as long as they like.
        retry: how a failure is tried again.
        breaker: when it is not even tried.
        idempotent: doing it twice does no harm, so that a step of unknown outcome is repeated unasked.
        on_error: `stop` begins no more steps after a failure, `continue` leaves it to the `when` of the others.
        title: for people.
    """

    prompt: Annotated[str, Meta(min_length=1, max_length=100_000)] | None = None
    tool: Annotated[str, Meta(min_length=1, max_length=200)] | None = None
    callable: Annotated[str, Meta(min_length=1, max_length=200)] | None = None
    approve: Annotated[str, Meta(min_length=1, max_length=100_000)] | None = None
    input: dict[str, Any] = {}
    needs: list[str] = []
    when: str | None = None
    session: str | None = None
    model: str | None = None
    seconds: Annotated[float, Meta(gt=0, le=604_800)] = DEFAULT_SECONDS
    retry: Retry = Retry(attempts=1)
    breaker: Breaker | None = None
    idempotent: bool = False
    on_error: Literal["stop", "continue"] = "stop"
    title: Annotated[str, Meta(max_length=500)] = ""

    @property
    def kinds(self) -> list[StepKind]:
        """Which of the four it says; a right step says one."""
        named: dict[StepKind, str | None] = {
            "prompt": self.prompt,
            "tool": self.tool,
            "callable": self.callable,
            "approve": self.approve,
        }
        return [kind for kind, value in named.items() if value is not None]

    @property
    def kind(self) -> StepKind:
        """What it does."""
        return self.kinds[0]

    @property
    def digest(self) -> str:
        """The hash of what the step does: a result is only good for the step that gave it."""
        does = (self.prompt, self.tool, self.callable, self.approve, self.input, self.session, self.model)
        return hashlib.sha256(canonical_json(does)).hexdigest()[:16]


class _File(Strict, frozen=True):
    """The top of a definition."""

    steps: dict[str, Any]
    title: Annotated[str, Meta(max_length=500)] = ""
    description: Annotated[str, Meta(max_length=10_000)] = ""
    inputs: dict[str, Any] = {}
    max_parallel: Annotated[int, Meta(ge=1, le=64)] = DEFAULT_PARALLEL


class Workflow(msgspec.Struct, frozen=True, kw_only=True):
    """A workflow that is right.

    Attributes:
        name: by which it is run.
        place: its file, for people.
        origin: whose folder it lies in.
        steps: by id, in the order of the file.
        inputs: the inputs with their defaults.
        max_parallel: steps that run at the same time.
        source: the file's text, of a Python workflow; exactly this is run.
    """

    name: str
    place: str
    origin: Origin
    steps: Mapping[str, Step]
    title: str = ""
    description: str = ""
    inputs: Mapping[str, Any] = {}
    max_parallel: int = DEFAULT_PARALLEL
    source: bytes | None = None

    def inputs_with(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """The inputs of one execution.

        Args:
            given: values by name, in place of the defaults.

        Raises:
            InvalidInput: there is no such input, or its default is of another type.
        """
        for name, value in given.items():
            if name not in self.inputs:
                known = ", ".join(self.inputs) or "none"
                message = f"The workflow {self.name} has no input {name!r}."
                raise InvalidInput(message, hint=f"Its inputs are: {known}.")
            default = self.inputs[name]
            if default is not None and not _same_type(value, default):
                message = f"The input {name!r} of the workflow {self.name} is {_type_name(default)}."
                raise InvalidInput(message, hint=f"It is {default!r} by default.")
        return {**self.inputs, **given}


def read_definition(
    raw: Any, *, name: str, place: str, origin: Origin, source: bytes | None = None, functions: Iterable[str] = ()
) -> Workflow:
    """Read and check a definition.

    Args:
        raw: what the file says, as plain data.
        name: the workflow's name.
        place: its file, for people.
        origin: whose folder it lies in.
        source: the text of a Python file.
        functions: the functions that a Python file has.

    Raises:
        DefinitionError: with the file, the step and what is wrong.
    """
    try:
        top = msgspec.convert(raw, _File)
    except msgspec.ValidationError as error:
        raise DefinitionError(place, _words(error)) from None
    if not 1 <= len(top.steps) <= MAX_STEPS:
        raise DefinitionError(place, f"a workflow has 1 to {MAX_STEPS} steps")
    for one in top.inputs:
        if not _NAME.fullmatch(one) or one in KEYWORDS:
            raise DefinitionError(place, f"{one!r} cannot be the name of an input")

    steps = {step_id: _read_step(step_id, step, place) for step_id, step in top.steps.items()}
    for step_id, step in steps.items():
        _check_needs(step_id, step, steps, place)
    _check_cycles(steps, place)
    for step_id, step in steps.items():
        _check_names(step_id, step, steps, top.inputs, place)
        if step.callable is not None:
            _check_callable(step_id, step.callable, source, functions, place)
    return Workflow(
        name=name,
        place=place,
        origin=origin,
        steps=steps,
        title=top.title,
        description=top.description,
        inputs=top.inputs,
        max_parallel=top.max_parallel,
        source=source,
    )


def _read_step(step_id: str, raw: Any, place: str) -> Step:
    if not _NAME.fullmatch(step_id) or step_id in KEYWORDS or step_id == INPUTS:
        problem = (
            "this cannot be the name of a step; letters, digits and _ can, and it must not be a word of conditions"
        )
        raise DefinitionError(place, problem, step=step_id)
    try:
        step = msgspec.convert(raw, Step)
    except msgspec.ValidationError as error:
        raise DefinitionError(place, _words(error), step=step_id) from None
    if len(step.kinds) != 1:
        said = " and ".join(f"`{kind}`" for kind in step.kinds) or "none of them"
        problem = f"it must have one of `prompt`, `tool`, `callable` and `approve`, and has {said}"
        raise DefinitionError(place, problem, step=step_id)
    for field, kind in (("input", "tool"), ("session", "prompt"), ("model", "prompt")):
        if getattr(step, field) and step.kind != kind:
            raise DefinitionError(place, f"`{field}` is for steps with `{kind}`", step=step_id)
    return step


def _check_needs(step_id: str, step: Step, steps: Mapping[str, Step], place: str) -> None:
    for needed in step.needs:
        if needed == step_id:
            raise DefinitionError(place, "it needs itself", step=step_id)
        if needed not in steps:
            known = ", ".join(one for one in steps if one != step_id) or "none"
            raise DefinitionError(place, f'it needs "{needed}", which is no step; there are: {known}', step=step_id)


def _check_cycles(steps: Mapping[str, Step], place: str) -> None:
    """Take steps away whose needs are gone until none is left; what is left over goes in circles."""
    left = dict(steps)
    while left:
        free = [step_id for step_id, step in left.items() if not any(needed in left for needed in step.needs)]
        if not free:
            circle = _circle(left)
            path = " → ".join((*circle, circle[0]))
            raise DefinitionError(place, f"it needs itself in the end: {path}", step=circle[0])
        for step_id in free:
            del left[step_id]


def _circle(left: Mapping[str, Step]) -> list[str]:
    """One circle among steps each of which needs another of them."""
    seen: list[str] = []
    step_id = next(iter(left))
    while step_id not in seen:
        seen.append(step_id)
        step_id = next(needed for needed in left[step_id].needs if needed in left)
    return seen[seen.index(step_id) :]


def ancestors(step_id: str, steps: Mapping[str, Step]) -> set[str]:
    """All steps that have ended for sure when this one begins."""
    found: set[str] = set()
    waiting = list(steps[step_id].needs)
    while waiting:
        one = waiting.pop()
        if one not in found:
            found.add(one)
            waiting += steps[one].needs
    return found


def _check_names(step_id: str, step: Step, steps: Mapping[str, Step], inputs: Mapping[str, Any], place: str) -> None:
    before = ancestors(step_id, steps)
    try:
        used = {"when": [parse(step.when)] if step.when is not None else []}
        used |= {field: list(expressions(getattr(step, field))) for field in _TEXTS}
    except ConditionError as error:
        raise DefinitionError(place, str(error), step=step_id) from None
    for field, found in used.items():
        for name in sorted(set().union(*(one.names for one in found))):
            if name in before or name == INPUTS or (name in inputs and name not in steps):
                continue
            if name in steps:
                problem = f'`{field}` looks at "{name}", which it does not need'
            else:
                problem = f'`{field}` looks at "{name}", which is neither a step nor an input'
            raise DefinitionError(place, problem, step=step_id)


def _check_callable(step_id: str, function: str, source: bytes | None, functions: Iterable[str], place: str) -> None:
    if source is None:
        raise DefinitionError(place, "`callable` needs a Python file; this one has no functions", step=step_id)
    if function not in functions:
        raise DefinitionError(place, f"there is no function {function!r} in this file", step=step_id)


def _words(error: msgspec.ValidationError) -> str:
    """A message of msgspec in our words: the field first."""
    text, _, path = str(error).partition(" - at `$")
    text = text[:1].lower() + text[1:]
    return f"`{path.rstrip('`').lstrip('.')}`: {text}" if path else text


def _same_type(value: Any, default: Any) -> bool:
    return _type_name(value) == _type_name(default)


def _type_name(value: Any) -> str:
    if isinstance(value, bool):
        return "true or false"
    if isinstance(value, int | float):
        return "a number"
    if isinstance(value, str):
        return "a text"
    return "a list" if isinstance(value, list) else "an object"

"""Where workflows come from: TOML and Python files in the user's own folder and in that of a trusted workspace.

Finding and listing them runs nothing: what a Python file says is read from its text. Only running a workflow runs its
file, and a file of a workspace that is not trusted is not even read.
"""

from __future__ import annotations

import ast
import importlib.abc
import importlib.util
import os
import re
import stat
import tomllib
import types
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec

from indusagi_lsp.contract.errors import IndusagiError, InvalidInput
from indusagi_lsp.tools import PathGuard
from indusagi_lsp.workflows.definition import DefinitionError, Origin, Workflow, read_definition

MAX_FILE = 1_000_000
MAX_FILES = 500
VARIABLE = "WORKFLOW"
"""What holds the definition in a Python file."""

_FILE = re.compile(r"(?P<name>[A-Za-z0-9][A-Za-z0-9_-]{0,63})\.(?P<kind>toml|py)")


class Found(msgspec.Struct, frozen=True):
    """A workflow's file.

    Attributes:
        name: by which the workflow is run.
        place: the file, for people.
        origin: whose folder it lies in.
        workflow: what it says; None where that could not be read.
        problem: why it cannot be run; empty where it can.
    """

    name: str
    place: str
    origin: Origin
    workflow: Workflow | None = None
    problem: str = ""


class Folder(msgspec.Struct, frozen=True):
    """A folder of workflows.

    Attributes:
        path: the folder.
        origin: whose it is.
        trusted: whether what lies in it may be read and run.
        root: what no file may lead out of, by links or otherwise; None for the user's own folder.
    """

    path: Path
    origin: Origin
    trusted: bool
    root: Path | None = None


def find_workflows(folders: Iterable[Folder]) -> list[Found]:
    """All workflows, those of the first folder first; runs nothing. Blocks.

    A name that was found before hides later ones, so a workspace cannot put itself in the place of the user's own.
    """
    found: list[Found] = []
    places: dict[str, str] = {}
    for folder in folders:
        for name in _names(folder):
            matched = _FILE.fullmatch(name)
            if matched is None:
                continue
            one = _look(folder, name, matched["name"])
            if one.name in places:
                problem = f"{places[one.name]} has the same name, and comes first."
                one = msgspec.structs.replace(one, workflow=None, problem=problem)
            places.setdefault(one.name, one.place)
            found.append(one)
    return found


def load_workflow(folders: Iterable[Folder], name: str) -> Workflow:
    """The workflow of that name. Blocks.

    Raises:
        InvalidInput: there is none, or it is not right.
    """
    listed = find_workflows(folders)
    one = next((found for found in listed if found.name == name), None)
    if one is None:
        known = ", ".join(found.name for found in listed) or "none"
        message = f"There is no workflow {name!r}."
        raise InvalidInput(message, hint=f"There are: {known}.")
    if one.workflow is None:
        raise InvalidInput(one.problem or f"{one.place} cannot be run.")
    return one.workflow


def run_file(workflow: Workflow) -> types.ModuleType:
    """Run a Python workflow's file, exactly the text that was read. Blocks for as long as the file likes.

    Raises:
        DefinitionError: it raised.
    """
    if workflow.source is None:
        raise DefinitionError(workflow.place, "this is no Python file")
    loader = _Source(workflow.place, workflow.source)
    spec = importlib.util.spec_from_loader(f"indusagi_workflow_{workflow.name.replace('-', '_')}", loader)
    if spec is None:
        raise DefinitionError(workflow.place, "it cannot be loaded")
    module = importlib.util.module_from_spec(spec)
    try:
        loader.exec_module(module)
    except Exception as error:
        raise DefinitionError(workflow.place, f"it raised {type(error).__name__}: {error}") from error
    return module


class _Source(importlib.abc.SourceLoader):
    """Loads a module from a text in memory; no compiled file is read or written beside it."""

    def __init__(self, place: str, source: bytes) -> None:
        self._place = place
        self._source = source

    def get_filename(self, fullname: str) -> str:
        del fullname
        return self._place

    def get_data(self, path: str | bytes) -> bytes:
        if path != self._place:
            raise OSError("no other file belongs to it")
        return self._source


def _names(folder: Folder) -> list[str]:
    try:
        if folder.root is None:
            return sorted(os.listdir(folder.path))[:MAX_FILES]
        with _guard(folder).open_folder(str(folder.path)) as opened:
            return sorted(os.listdir(opened.handle))[:MAX_FILES]
    except (OSError, IndusagiError):
        return []


def _look(folder: Folder, file_name: str, name: str) -> Found:
    place = str(folder.path / file_name)
    found = Found(name, place, folder.origin)
    if not folder.trusted:
        return msgspec.structs.replace(found, problem="This folder is not trusted, so its workflows are not read.")
    try:
        data = _read(folder, file_name)
        read = _read_toml if file_name.endswith(".toml") else _read_python
        return msgspec.structs.replace(found, workflow=read(data, found))
    except (IndusagiError, OSError) as error:
        text = error.message if isinstance(error, IndusagiError) else f"{place}: {error.strerror or error}."
        return msgspec.structs.replace(found, problem=text)


def _read(folder: Folder, file_name: str) -> bytes:
    path = folder.path / file_name
    if folder.root is not None:
        return _guard(folder).read_bytes(str(path), MAX_FILE)
    status = path.stat()
    if not stat.S_ISREG(status.st_mode) or status.st_size > MAX_FILE:
        raise DefinitionError(str(path), f"this is no file of at most {MAX_FILE:,} bytes")
    return path.read_bytes()


def _guard(folder: Folder) -> PathGuard:
    # The guard of the agent's tools keeps them out of our folder; here it only keeps links inside the workspace.
    return PathGuard(folder.root or folder.path, closed=frozenset())


def _read_toml(data: bytes, found: Found) -> Workflow:
    try:
        raw = tomllib.loads(data.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise DefinitionError(found.place, f"this is no TOML: {error}") from None
    return read_definition(raw, name=found.name, place=found.place, origin=found.origin)


def _read_python(data: bytes, found: Found) -> Workflow:
    """The definition of a Python file, from its text alone: `WORKFLOW = {...}`, plain values, at its top."""
    try:
        tree = ast.parse(data, found.place)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise DefinitionError(found.place, f"this is no Python: {error}") from None
    functions = [node.name for node in tree.body if isinstance(node, ast.FunctionDef)]
    raw = _literal(tree, found)
    return read_definition(
        raw, name=found.name, place=found.place, origin=found.origin, source=data, functions=functions
    )


def _literal(tree: ast.Module, found: Found) -> Any:
    for node in tree.body:
        targets = (
            node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
        )
        if any(isinstance(target, ast.Name) and target.id == VARIABLE for target in targets):
            value = node.value if isinstance(node, ast.Assign | ast.AnnAssign) else None
            try:
                return ast.literal_eval(value) if value is not None else None
            except (ValueError, TypeError, RecursionError, MemoryError):
                problem = f"`{VARIABLE}` must be written out in plain values, so that it can be read without being run"
                raise DefinitionError(found.place, problem) from None
    raise DefinitionError(found.place, f"it has no `{VARIABLE} = {{...}}`")

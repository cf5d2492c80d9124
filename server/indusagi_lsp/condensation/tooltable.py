"""What a tool call did, by the names that different agents give to the same few tools."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Literal, TypeAlias

import msgspec

Kind: TypeAlias = Literal["read", "modify", "run", "plan", "other"]

_KINDS: dict[str, Kind] = {
    **dict.fromkeys(("cat", "notebookread", "openfile", "read", "readfile", "readmanyfiles"), "read"),
    **dict.fromkeys(("view", "viewfile"), "read"),
    **dict.fromkeys(
        (
            "applypatch", "applydiff", "createfile", "delete", "deletefile", "edit", "editfile", "insert", "multiedit",
            "movefile", "notebookedit", "patch", "rename", "replace", "replaceinfile", "searchreplace", "strreplace",
            "strreplacebasededittool", "strreplaceeditor", "write", "writefile", "writetofile",
        ),
        "modify",
    ),
    **dict.fromkeys(
        ("bash", "exec", "execcommand", "executecommand", "localshell", "run", "runcommand", "runshellcommand",
         "runterminalcommand", "shell", "terminal"),
        "run",
    ),
    **dict.fromkeys(("todowrite", "todo", "updateplan", "plan", "updatetodos", "writetodos"), "plan"),
}  # fmt: skip

# `command` last: an editing tool uses it for its verb, a shell for the command line.
_PATH_FIELDS = (
    "file_path",
    "path",
    "filePath",
    "filename",
    "file",
    "absolute_path",
    "notebook_path",
    "target_file",
)
_TASK_FIELDS = ("content", "step", "description", "title", "text")
_COMMAND_FIELDS = ("command", "cmd", "script")
_PATCHED = re.compile(r"^\*\*\* (?:Update File|Add File|Delete File|Move to): (.+)$", re.MULTILINE)
_DIFFED = re.compile(r"^--- ([^\t\n]+)(?:\t.*)?\n\+\+\+ ([^\t\n]+)", re.MULTILINE)
_RENAMED = re.compile(r"^rename (?:from|to) (.+)$", re.MULTILINE)
_VIEW_VERBS = ("view", "read")


class Action(msgspec.Struct, frozen=True):
    """What one call did: the files it touched, or the command line it ran and where, or the plan it wrote down."""

    kind: Kind
    paths: tuple[str, ...] = ()
    command: str = ""
    folder: str = ""
    plan: tuple[tuple[str, str], ...] = ()


OTHER = Action("other")


def action_of(name: str, arguments: Any) -> Action:
    """Classify a call.

    Args:
        name: the tool's name; case, `_` and `-` and a server's prefix before `__` do not matter.
        arguments: the call's input.

    Returns:
        The action; kind `other` where the name or the arguments tell nothing.
    """
    kind = _KINDS.get(name.rpartition("__")[2].replace("_", "").replace("-", "").lower(), "other")
    if isinstance(arguments, str):
        return _of_text(kind, arguments)
    if not isinstance(arguments, dict):
        return OTHER

    if kind == "run":
        command = _command(arguments)
        if command.lstrip().startswith(("apply_patch", "*** Begin Patch")):
            return Action("modify", tuple(_patched(command)))
        folder = arguments.get("workdir") or arguments.get("cwd") or arguments.get("folder")
        return Action("run", command=command, folder=folder if isinstance(folder, str) else "") if command else OTHER
    if kind == "plan":
        return Action("plan", plan=tuple(_plan(arguments)))
    if kind in ("read", "modify"):
        if arguments.get("command") in _VIEW_VERBS:
            kind = "read"
        return _of_paths(kind, arguments)
    return OTHER


def _of_text(kind: Kind, text: str) -> Action:
    """A call whose input is plain text: a patch, or a command line."""
    if kind == "modify":
        return Action("modify", tuple(_patched(text)))
    return Action("run", command=text) if kind == "run" else OTHER


def _of_paths(kind: Kind, arguments: dict[str, Any]) -> Action:
    for field in _PATH_FIELDS:
        value = arguments.get(field)
        if isinstance(value, str) and value:
            return Action(kind, (value,))

    many = arguments.get("paths")
    if isinstance(many, list):
        return Action(kind, tuple(path for path in many if isinstance(path, str)))
    for field in ("patch", "input", "diff"):
        value = arguments.get(field)
        if isinstance(value, str):
            return Action(kind, tuple(_patched(value)))
    return OTHER


def _patched(text: str) -> dict[str, None]:
    """The files that a patch touches, each once: one with `*** Update File` lines, or a unified diff."""
    files = _PATCHED.findall(text) + _RENAMED.findall(text)
    for old, new in _DIFFED.findall(text):
        files += [old.removeprefix("a/")] if new == "/dev/null" else [new.removeprefix("b/")]
    return dict.fromkeys(path.strip() for path in files)


def _command(arguments: dict[str, Any]) -> str:
    for field in _COMMAND_FIELDS:
        value = arguments.get(field)
        if isinstance(value, str):
            return value
        if isinstance(value, list) and value and all(isinstance(word, str) for word in value):
            shell = len(value) == 3 and value[1] in ("-c", "-lc")
            return str(value[2]) if shell else " ".join(value)
    return ""


def _plan(arguments: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """(state, text) of each task; the state is `done` or `open`."""
    tasks = arguments.get("todos") or arguments.get("plan") or arguments.get("tasks")
    for task in tasks if isinstance(tasks, list) else ():
        if not isinstance(task, dict):
            continue

        text = next((task[field] for field in _TASK_FIELDS if task.get(field)), None)
        if isinstance(text, str):
            yield ("done" if task.get("status") in ("completed", "done", "cancelled") else "open"), text

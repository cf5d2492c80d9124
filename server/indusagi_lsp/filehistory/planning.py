"""What it would take to bring the user's files back to where they were at a node: planned and shown, then done.

A file is in the plan when changes of the agent are in effect that are not on the way to the node, or when some that are
on it were undone. It goes to the state in which it was left when the agent's next change came, so that what the user
had done until then stays. What the user did since is lost by going back; such a file is only touched by an explicit
choice.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping, Sequence
from hashlib import sha256
from typing import Literal, TypeAlias

import msgspec

from indusagi_lsp.contract import jsontext
from indusagi_lsp.contract.text import quoted, visible
from indusagi_lsp.filehistory.places import OTHER, Places
from indusagi_lsp.filehistory.records import ABSENT, By, Conflict, Entry, State, state_json
from indusagi_lsp.filehistory.scan import digest
from indusagi_lsp.filehistory.trail import USER, Trail, trail_of
from indusagi_lsp.tools.protected import why_protected

Action: TypeAlias = Literal["restore", "remove", "recreate"]
Choice: TypeAlias = Literal["restore", "keep"]
Read: TypeAlias = Callable[[str], bytes | None]

WHY: Mapping[Conflict, str] = {
    "changed": "it was changed since the agent's last change",
    "between": "it was changed between the agent's changes",
    "command": "it was changed while a command ran, by that command or by somebody else",
    "unfinished": "a change of it was interrupted",
    "removal": "the agent removed it then, but had not made it",
    "protected": "it is a protected path",
}
"""Why a file is only touched by an explicit choice."""

LOST = "its old content was not kept"
TOO_LARGE = "it is too large now to be kept"
UNSAVED = "the editor holds changes of it that are not saved"

FILE_LINES = 400
FILE_CHARS = 40_000
ALL_CHARS = 400_000
COMPARED_LINES = 5_000


class RestoreItem(msgspec.Struct, frozen=True):
    """One file of a plan.

    Attributes:
        path: below the root, in POSIX form.
        action: give it its old content; remove what the agent made; make again what the agent removed.
        current: what is there.
        target: what is to be there.
        by: who made the last change in effect.
        why: keys of `WHY`; where there are any, the file is left alone unless it is chosen.
        problem: why it cannot be done at all; empty where it can.
        diff: what would change, as a bounded unified diff.
        standing: the agent's changes that are in effect afterwards.
        folders: empty folders that go with it.
    """

    path: str
    action: Action
    current: State
    target: State
    by: By
    why: tuple[Conflict, ...]
    problem: str
    diff: str
    standing: tuple[str, ...]
    folders: int = 0

    @property
    def by_itself(self) -> bool:
        """Whether it is done without a choice."""
        return not self.why and not self.problem


class RestorePlan(msgspec.Struct, frozen=True):
    """A plan: `token` is of exactly these files in exactly these states."""

    session: str
    node: str | None
    items: tuple[RestoreItem, ...]
    token: str
    undoes: str | None = None


class Goal(msgspec.Struct, frozen=True):
    """Where one file is to go: its target, and the changes in effect then."""

    target: State
    standing: tuple[str, ...]


def goal_at(trail: Trail, on_path: Sequence[str]) -> Goal | None:
    """Where a file is to go so that the last change in effect is the last one on the path; None: it is there.

    Args:
        trail: the file's story.
        on_path: the changes of the file on the way to the node, in order.
    """
    wanted = [one for one in trail.happened if one in set(on_path)]
    last = wanted[-1] if wanted else None
    left = trail.left.get(last)
    if last == trail.last or left is None:
        return None
    return Goal(left.state, left.standing)


def goal_before(trail: Trail, change: str, before: State) -> Goal | None:
    """Where a file is to go so that a restore is undone."""
    return Goal(before, trail.was[change]) if change in trail.was else None


class Planner:
    """Makes plans. All of it blocks.

    Args:
        places: the user's files.
        read: gives a kept content.
    """

    def __init__(self, places: Places, read: Read) -> None:
        self._places = places
        self._read = read

    def item(self, path: str, entries: Sequence[Entry], goal_of: Callable[[Trail], Goal | None]) -> RestoreItem | None:
        """What is to be done with one file; None if nothing.

        Args:
            path: below the root.
            entries: the changes that count, in order.
            goal_of: says where the file is to go.
        """
        current, now = self._places.see(path)
        edited = self._places.edited(path)
        if edited is not None:
            current, now = State(digest(edited), current.mode), edited
        trail = trail_of(path, entries, current)
        goal = goal_of(trail)
        if goal is None or goal.target.same(current):
            return None

        undone = [one for one in trail.standing if one not in goal.standing]
        why: list[Conflict] = [trail.doubtful[one] for one in undone if one in trail.doubtful]
        if trail.tip is not None and not trail.tip.same(current):
            why.append("changed")
        if any(one.startswith(USER) for one in undone):
            why.append("between")
        by_id = {entry.id: entry for entry in entries}
        if goal.target.absent and not any(
            by_id[one].files[path].before.absent for one in trail.standing if one in by_id
        ):
            why.append("removal")
        if why_protected(path) is not None:
            why.append("protected")
        target = None if goal.target.sha is None else self._read(goal.target.sha)
        last = by_id.get(trail.last or "")
        return RestoreItem(
            path=path,
            action="remove" if goal.target.absent else "recreate" if current.absent else "restore",
            current=current,
            target=goal.target,
            by=last.by if last is not None else "restore",
            why=tuple(dict.fromkeys(why)),
            problem=UNSAVED if edited is not None else _problem(path, current, goal.target, target),
            diff=diff(path, now, target, current, goal.target),
            standing=goal.standing,
            folders=max((by_id[one].files[path].folders for one in undone if one in by_id), default=0),
        )


def _problem(path: str, current: State, target: State, data: bytes | None) -> str:
    if not target.restorable or (not target.absent and data is None):
        return LOST
    if current.stamp is None:
        return ""
    return f"{quoted(path)} is not a plain file any more" if current.stamp.startswith(OTHER) else TOO_LARGE


def make_plan(session: str, node: str | None, items: Sequence[RestoreItem], undoes: str | None = None) -> RestorePlan:
    """Put items into a plan, bounded as a whole."""
    room = ALL_CHARS
    bounded = []
    for item in sorted(items, key=lambda item: item.path):
        shown = item.diff if len(item.diff) <= room else "[the diff is left out: there are too many]\n"
        room -= len(shown)
        bounded.append(msgspec.structs.replace(item, diff=shown))
    facts = [
        [item.path, state_json(item.current), state_json(item.target), list(item.why), item.problem] for item in bounded
    ]
    text = jsontext.dumps([session, node, undoes, facts])
    return RestorePlan(session, node, tuple(bounded), sha256(text).hexdigest(), undoes)


def diff(path: str, now: bytes | None, target: bytes | None, current: State = ABSENT, goal: State = ABSENT) -> str:
    """What a file's way from one content to another looks like, as a bounded unified diff with nothing hidden."""
    source = "/dev/null" if current.absent else f"a/{quoted(path)}"
    aim = "/dev/null" if goal.absent else f"b/{quoted(path)}"
    head = ""
    if None not in (current.mode, goal.mode) and current.mode != goal.mode:
        head = f"old mode {current.mode:o}\nnew mode {goal.mode:o}\n"
    if now == target:
        return head or f"--- {source}\n+++ {aim}\n"
    old, new = _text(now), _text(target)
    if old is None or new is None:
        sizes = f"{len(now or b''):,} bytes before, {len(target or b''):,} after"
        return f"{head}--- {source}\n+++ {aim}\n[no text: {sizes}]\n"
    if len(old) + len(new) > COMPARED_LINES:
        return f"{head}--- {source}\n+++ {aim}\n[too long to compare: {len(old):,} lines before, {len(new):,} after]\n"
    rows = list(difflib.unified_diff(old, new, source, aim))
    body = [line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in rows[:FILE_LINES]]
    text = visible("".join(body).replace("\r\n", "\\r\n"))[:FILE_CHARS]
    left_out = f"[{len(rows) - FILE_LINES:,} more lines]\n" if len(rows) > FILE_LINES else ""
    return head + text + ("" if text.endswith("\n") else "…\n") + left_out


def _text(data: bytes | None) -> list[str] | None:
    """Lines with their ends, broken at line feeds alone; None where it is no text."""
    if data is None:
        return []
    if b"\0" in data:
        return None
    try:
        lines = data.decode("utf-8").split("\n")
    except UnicodeDecodeError:
        return None
    ended = [f"{line}\n" for line in lines[:-1]]
    return [*ended, lines[-1]] if lines[-1] else ended

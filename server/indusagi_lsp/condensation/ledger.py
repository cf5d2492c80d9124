"""The ledger: what code, not a model, can say of the turns that are dropped.

Files read and modified, commands with their outcome, error identifiers, versions, the user's own words, tasks open and
done. It is cumulative: the ledger of an earlier summary is read back and carried on, so a chain of condensations loses
only what the budget has no room for, and that stays findable in the dropped turns.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from indusagi_lsp.condensation.shellwords import take_apart
from indusagi_lsp.condensation.tooltable import Action, action_of
from indusagi_lsp.contract.turns import ASSISTANT, USER, TextBlock, ToolCallBlock, ToolResultBlock, Turn


class Entry(msgspec.Struct, frozen=True):
    """One fact: `count` times seen; `weight` is higher the more often and the later; `status` is a command's outcome."""

    text: str
    count: int = 1
    weight: float = 1.0
    status: str = ""


class Ledger(msgspec.Struct, frozen=True):
    """The facts of the dropped turns. Entries are in the order of their weight, quotes and tasks in that of time."""

    root: str = ""
    modified: tuple[Entry, ...] = ()
    read: tuple[Entry, ...] = ()
    commands: tuple[Entry, ...] = ()
    errors: tuple[Entry, ...] = ()
    versions: tuple[Entry, ...] = ()
    goal: str = ""
    standing: tuple[str, ...] = ()
    decisions: tuple[str, ...] = ()
    requests: tuple[str, ...] = ()
    done: tuple[str, ...] = ()
    open: tuple[str, ...] = ()
    doing: str = ""
    question: str = ""

    @property
    def files_read(self) -> tuple[str, ...]:
        """The paths that were read and not modified."""
        return tuple(entry.text for entry in self.read)

    @property
    def files_modified(self) -> tuple[str, ...]:
        """The paths that were modified."""
        return tuple(entry.text for entry in self.modified)


_ERROR = re.compile(
    r"\b(?:TS\d{4,5}|E\d{4}|[EFWC]\d{3}\b|CS\d{4}|ERR_[A-Z_]{3,}|E(?:ACCES|ADDRINUSE|AGAIN|BADF|BUSY|CONN[A-Z]+|EXIST|INVAL|IO|ISDIR|"
    r"LOOP|MFILE|NOENT|NOMEM|NOSPC|NOTDIR|NOTEMPTY|NOTFOUND|PERM|PIPE|ROFS|RR|TIMEDOUT)|(?:[A-Z]\w+\.)*[A-Z][a-z]\w*(?:Error|Exception)|"
    r"CVE-\d{4}-\d{4,7}|SIG[A-Z]{3,5}|GHSA(?:-\w{4}){3})\b"
)  # fmt: skip
_ERROR_HINTS = ("rror", "xception", "ERR", "FAIL", "fail", "SIG", "CVE", "panic")
_VERSION = re.compile(r"(?<![\w./-])[\w@/.-]*@?v?\d+\.\d+\.\d+(?:-[\w.]+)?(?![\w.-])")
_EXIT = re.compile(
    r"(?:exit(?:ed)?(?: with)?[ _](?:code|status)\"?:?|returned(?: code)?) ?(-?\d+)", re.IGNORECASE
)
_STANDING = re.compile(
    r"\b(?:always|never|don'?t|do not|must(?: not)?|make sure|only|instead|from now on|remember|prefer|avoid|at least|at most|"
    r"keep|without|should|no need|use)\b",
    re.IGNORECASE,
)
_DECISION = re.compile(
    r"^(?:yes|yep|yeah|ok(?:ay)?,|no,|nope|actually|let'?s|go with|decision|decided|agreed|i (?:actually )?want|we (?:will|want))\b",
    re.IGNORECASE,
)
_MACHINE = re.compile(
    r"^(?:<[a-z][\w-]*[>\s]|Caveat: |# AGENTS\.md|\[Request interrupted|Ran `|<environment_context|\[condensed earlier context\])"
)
_TAGGED = re.compile(
    r"<(ide_\w+|system-reminder|local-command-\w+|command-\w+|environment_context)>.*?</\1>", re.DOTALL
)
_QUESTION = re.compile(r"[^.!?\n]{8,300}\?")

_HEAD, _TAIL = 1_500, 4_500  # characters of an output in which errors are looked for
_DOING_CHARS = 400
_HALF_LIFE = 0.15  # of the span: how far back a fact counts half


class _Tally:
    """Counts facts, the later the heavier."""

    def __init__(self, earlier: Iterable[Entry]) -> None:
        # What an earlier summary says counts as seen at the beginning of the span.
        self.seen: dict[str, Entry] = {
            entry.text: msgspec.structs.replace(entry, weight=0.02 * entry.weight) for entry in earlier
        }

    def add(self, text: str, weight: float, status: str | None = None) -> None:
        """Count `text` once more; a status replaces the earlier one."""
        known = self.seen.get(text)
        if known is None:
            self.seen[text] = Entry(text, 1, weight, status or "")
        else:
            status = known.status if status is None else status
            self.seen[text] = Entry(text, known.count + 1, known.weight + weight, status)

    def ordered(self) -> tuple[Entry, ...]:
        """The heaviest first."""
        return tuple(sorted(self.seen.values(), key=lambda entry: -entry.weight))


class _Collector:
    """Walks over turns once and keeps the books."""

    def __init__(self, earlier: Ledger) -> None:
        self.earlier = earlier
        self.modified = _Tally(earlier.modified)
        self.read = _Tally(earlier.read)
        self.commands = _Tally(earlier.commands)
        self.errors = _Tally(earlier.errors)
        self.versions = _Tally(earlier.versions)
        self.words: list[str] = []
        self.done: dict[str, None] = dict.fromkeys(earlier.done)
        self.open: dict[str, None] = dict.fromkeys(earlier.open)
        self.doing = ""
        self.question = earlier.question
        self.folders: dict[str, int] = {}
        self._calls: dict[str, tuple[Action, str]] = {}  # call id -> what it does, the command as it is noted

    def take(self, turn: Turn, weight: float) -> None:
        """Note one turn."""
        for block in turn.blocks:
            if isinstance(block, ToolCallBlock):
                self._call(block, weight)
            elif isinstance(block, ToolResultBlock):
                self._result(block, weight)
            elif isinstance(block, TextBlock):
                self._text(turn.role, block.text, weight)

    def _call(self, block: ToolCallBlock, weight: float) -> None:
        action = action_of(block.name, block.input)
        noted = ""
        if action.kind == "modify":
            self._modify(action.paths, weight)
        elif action.kind == "read":
            self._read(action.paths, weight)
        elif action.kind == "plan":
            self._plan(action)
        elif action.kind == "run":
            noted = self._run(action.command, weight)
        self._calls[block.id] = (action, noted)

    def _modify(self, paths: Iterable[str], weight: float) -> None:
        for path in paths:
            self.modified.add(path, weight)

    def _read(self, paths: Iterable[str], weight: float) -> None:
        for path in paths:
            self.read.add(path, weight)

    def _plan(self, action: Action) -> None:
        self.open.clear()
        for state, text in action.plan:
            (self.done if state == "done" else self.open)[text] = None

    def _run(self, command: str, weight: float) -> str:
        line = take_apart(command)
        base = line.folder or next(reversed(self.folders), "") if self.folders else line.folder
        if line.folder.startswith("/"):
            self.folders[line.folder] = self.folders.pop(line.folder, 0) + 1
        self._modify((_absolute(base, path) for path in line.modified), weight)
        self._read((_absolute(base, path) for path in line.read), weight)
        if line.commit:
            self.done[line.commit] = None
        if line.text:
            self.commands.add(line.text, weight * (0.1 if line.exploring else 1.0))
        for version in _VERSION.findall(line.text):
            self.versions.add(version, weight)
        return line.text

    def _result(self, block: ToolResultBlock, weight: float) -> None:
        action, noted = self._calls.get(block.call_id, (None, ""))
        ran = action is not None and action.kind == "run"
        if not (ran or block.is_error):
            return

        output = block.output
        window = output if len(output) <= _HEAD + _TAIL else output[:_HEAD] + "\n" + output[-_TAIL:]
        if any(hint in window for hint in _ERROR_HINTS):
            for found in dict.fromkeys(_ERROR.findall(window)):
                self.errors.add(found, weight)
        if noted:
            known = self.commands.seen.get(noted)
            if known is not None:
                status = _outcome(window, block.is_error)
                self.commands.seen[noted] = msgspec.structs.replace(known, status=status or known.status)
            for version in dict.fromkeys(_VERSION.findall(window[:_HEAD])):
                self.versions.add(version, 0.3 * weight)

    def _text(self, role: str, text: str, weight: float) -> None:
        if role == ASSISTANT:
            self.doing = text
            questions = _QUESTION.findall(text[-1_500:])
            self.question = questions[-1].strip(" -*>#") if questions else ""
        elif role == USER:
            if _MACHINE.match(text):
                text = _TAGGED.sub("", text)
            text = text.strip()
            if not text or _MACHINE.match(text):
                return

            self.words.append(text)
            self.question = ""
        else:
            return

        for version in dict.fromkeys(_VERSION.findall(text[:_TAIL])):
            self.versions.add(version, weight)
        if role == USER and any(hint in text for hint in _ERROR_HINTS):
            for found in dict.fromkeys(_ERROR.findall(text[:_TAIL])):
                self.errors.add(found, weight)

    def ledger(self) -> Ledger:
        """What was found, with the earlier ledger in it."""
        earlier = self.earlier
        root = _root((*self.modified.seen, *self.read.seen), self.folders) or earlier.root
        modified = _relative(self.modified, root)
        changed = {entry.text for entry in modified}
        standing, decisions, requests = (
            list(earlier.standing),
            list(earlier.decisions),
            list(earlier.requests),
        )
        for words in self.words:
            kind = standing if _STANDING.search(words) else decisions if _DECISION.match(words) else requests
            if words in kind:
                kind.remove(words)
            kind.append(words)
        return Ledger(
            root=root,
            modified=modified,
            read=tuple(entry for entry in _relative(self.read, root) if entry.text not in changed),
            commands=self.commands.ordered(),
            errors=self.errors.ordered(),
            versions=self.versions.ordered(),
            goal=earlier.goal or next((words for words in self.words if len(words) > 20), ""),
            standing=tuple(standing),
            decisions=tuple(decisions),
            requests=tuple(requests),
            done=tuple(self.done),
            open=tuple(task for task in self.open if task not in self.done),
            doing=clip(self.doing.strip(), _DOING_CHARS) or earlier.doing,
            question=self.question,
        )


def collect(turns: Sequence[Turn], earlier: Ledger | None = None) -> Ledger:
    """Make the ledger of `turns`.

    Args:
        turns: the span that is dropped, without the earlier summary.
        earlier: the ledger of the earlier summary, which is carried on.

    Returns:
        The facts, deduplicated; without a budget, which is `ledger_text.render`'s business.
    """
    collector = _Collector(earlier or Ledger())
    half = max(_HALF_LIFE * len(turns), 20.0)
    for at, turn in enumerate(turns):
        collector.take(turn, 0.5 ** ((len(turns) - at) / half))
    return collector.ledger()


def merge(ledgers: Sequence[Ledger]) -> Ledger:
    """Several ledgers as one, the earlier first; there is rarely more than one."""
    if len(ledgers) < 2:
        return ledgers[0] if ledgers else Ledger()

    last = ledgers[-1]
    texts = ("standing", "decisions", "requests", "done")
    entries = ("modified", "read", "commands", "errors", "versions")
    joined: dict[str, tuple[Any, ...]] = {}
    for name in texts + entries:
        joined[name] = tuple(dict.fromkeys(item for ledger in ledgers for item in getattr(ledger, name)))
    goal = next((ledger.goal for ledger in ledgers if ledger.goal), "")
    return msgspec.structs.replace(last, goal=goal, **joined)


def _outcome(window: str, is_error: bool | None) -> str:
    """The exit status as a text: a number, `failed` where only that is known, or nothing."""
    match = _EXIT.search(window[:400]) or _EXIT.search(window[-300:])
    if match:
        return match[1]
    return "failed" if is_error else "0" if is_error is False else ""


def _absolute(folder: str, path: str) -> str:
    return (
        path
        if not folder or path.startswith(("/", "~"))
        else f"{folder.rstrip('/')}/{path.removeprefix('./')}"
    )


_STOP = frozenset(
    ("src", "lib", "packages", "app", "apps", "tests", "test", "server", "docs", "node_modules")
)


def _root(paths: Iterable[str], folders: dict[str, int]) -> str:
    """The folder that most absolute paths lie in: where the work was done."""
    absolute = [path.split("/")[1:-1] for path in paths if path.startswith("/")]
    root: list[str] = []
    while absolute:
        steps: dict[str, int] = {}
        for parts in absolute:
            if len(parts) > len(root) and parts[: len(root)] == root:
                steps[parts[len(root)]] = steps.get(parts[len(root)], 0) + 1
        step = max(steps, key=lambda name: steps[name], default="")
        if not step or steps[step] < 0.75 * len(absolute) or step in _STOP:
            break
        root.append(step)
    return "/" + "/".join(root) if root else min(folders, key=len, default="")


def _relative(tally: _Tally, root: str) -> tuple[Entry, ...]:
    """The files by their path below the root, the heaviest first; a path that was noted both ways is one."""
    merged: dict[str, Entry] = {}
    for entry in tally.seen.values():
        path = entry.text.removeprefix(root + "/") if root else entry.text
        path = path.removeprefix("./")
        known = merged.get(path)
        count, weight = (known.count, known.weight) if known else (0, 0.0)
        merged[path] = Entry(path, count + entry.count, weight + entry.weight)
    return tuple(sorted(merged.values(), key=lambda entry: -entry.weight))


def clip(text: str, limit: int) -> str:
    """The beginning of `text`, with a mark where something is missing."""
    return text if len(text) <= limit else text[: limit - 1].rstrip() + "…"

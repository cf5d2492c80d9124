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
    """One fact, seen `count` times: the more and the later, the higher its `weight`. `status`: how a command ended."""

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


_CAPITALISED = re.compile(r"\b[A-Z][\w.-]{3,60}")
_ERROR = re.compile(
    r"(?:TS\d{4,5}|CS\d{4}|E\d{4}|[A-Z]{1,4}\d{3,4}|ERR_[A-Z_]{3,}|"
    r"E(?:ACCES|ADDRINUSE|AGAIN|BADF|BUSY|CONN[A-Z]+|EXIST|INVAL|IO|ISDIR|LOOP|MFILE|NOENT|NOMEM|NOSPC|NOTDIR|"
    r"NOTEMPTY|NOTFOUND|PERM|PIPE|RESOLVE|ROFS|TIMEDOUT|TIMEOUT)|"
    r"(?:\w+\.)*[A-Z]\w*(?:Error|Exception)|CVE-\d{4}-\d{4,7}|GHSA(?:-\w{4}){3}|"
    r"SIG(?:ABRT|BUS|FPE|HUP|ILL|INT|KILL|PIPE|SEGV|TERM))"
)
_ERROR_HINTS = ("rror", "xception", "ERR", "FAIL", "SIG", "CVE-", "GHSA-")
_NUMBERS = re.compile(r"\d\.\d{1,6}\.\d")
_VERSION = re.compile(r"(?:@?[\w./-]+@)?v?\d{1,6}\.\d{1,6}\.\d{1,6}(?:-[\w.]{1,30})?")
_MARKS = "\"'`,;:.()[]{}<>|*"
_EXIT = re.compile(r"(?:exit(?:ed)?(?: with)?[ _](?:code|status)\"?:?|returned(?: code)?) ?(-?\d+)", re.IGNORECASE)
_STANDING = re.compile(
    r"\b(?:always|never|don'?t|do not|must(?: not)?|make sure|only|instead|from now on|remember|prefer|avoid|at least|"
    r"at most|keep|without|should|no need|use)\b",
    re.IGNORECASE,
)
_DECISION = re.compile(
    r"^(?:yes|yep|yeah|ok(?:ay)?,|no,|nope|actually|let'?s|go with|decision|decided|agreed|"
    r"i (?:actually )?want|we (?:will|want))\b",
    re.IGNORECASE,
)
_MACHINE = re.compile(
    r"^(?:<[a-z][\w-]*[>\s]|Caveat: |# AGENTS\.md|\[Request interrupted|Ran `|<environment_context|"
    r"\[condensed earlier context\])"
)
_TAGGED = re.compile(
    r"<(ide_\w+|system-reminder|local-command-\w+|command-\w+|environment_context)>.*?</\1>", re.DOTALL
)
_QUESTION = re.compile(r"[^.!?\n]{8,300}\?")

_HEAD, _TAIL = 1_500, 4_500  # characters of an output in which errors are looked for
_LINE = 400  # characters of one line in which identifiers are looked for
_DOING_CHARS = 400
QUOTE_CHARS = 400  # what the user said beyond this is clipped in a summary; the whole stays findable
REQUEST_CHARS = 240  # the same for what is neither goal nor standing instruction
COMMAND_CHARS = 160
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
        self.question = earlier.question  # or the text that may hold one
        self.folder = ""  # where the last command ran
        self.folders: dict[str, int] = {}
        self._runs: dict[str, tuple[str, bool]] = {}  # call id -> the command as it is noted, whether it is piped

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
        if action.kind == "modify":
            self._modify(action.paths, weight)
        elif action.kind == "read":
            self._read(action.paths, weight)
        elif action.kind == "plan":
            self._plan(action)
        elif action.kind == "run":
            self._runs[block.id] = self._run(action, weight)

    def _modify(self, paths: Iterable[str], weight: float) -> None:
        for path in paths:
            self.modified.add(path, weight)

    def _read(self, paths: Iterable[str], weight: float) -> None:
        for path in paths:
            self.read.add(path, weight)

    def _plan(self, action: Action) -> None:
        self.open.clear()
        for state, text in action.plan:
            if state == "done":
                self.done[text] = None
            else:
                self.open[text] = None
                self.done.pop(text, None)  # it was taken up again

    def _run(self, action: Action, weight: float) -> tuple[str, bool]:
        line = take_apart(action.command)
        folder = _absolute(action.folder or self.folder, line.folder) if line.folder else action.folder or self.folder
        if folder.startswith("/"):
            self.folder = folder
            self.folders[folder] = self.folders.get(folder, 0) + 1
        self._modify((_absolute(folder, path) for path in line.modified), weight)
        self._read((_absolute(folder, path) for path in line.read), weight)
        if line.commit:
            self.done[line.commit] = None
        # Clipped as it will be written, so that a summary that is read back counts the same command once more.
        noted = clip(line.text, COMMAND_CHARS)
        if noted:
            self.commands.add(noted, weight * (0.1 if line.exploring else 1.0))
        for version in _versions(line.text):
            self.versions.add(version, weight)
        return noted, line.piped

    def _result(self, block: ToolResultBlock, weight: float) -> None:
        noted, piped = self._runs.get(block.call_id, ("", False))
        if not noted and not block.is_error:
            return

        output = block.output
        window = output if len(output) <= _HEAD + _TAIL else output[:_HEAD] + "\n" + output[-_TAIL:]
        for found in _errors(window):
            self.errors.add(found, weight)
        if noted:
            known = self.commands.seen[noted]
            status = _outcome(window, block.is_error)
            if piped and status == "0":
                status = ""  # that is the filter's status, not the command's
            self.commands.seen[noted] = msgspec.structs.replace(known, status=status)
            for version in _versions(window[:_LINE]):
                self.versions.add(version, 0.3 * weight)

    def _text(self, role: str, text: str, weight: float) -> None:
        if role == ASSISTANT:
            self.doing = text
            self.question = text
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

        for version in _versions(text[:_HEAD]):
            self.versions.add(version, weight)
        if role == USER:
            for found in _errors(text[:_TAIL]):
                self.errors.add(found, weight)

    def ledger(self) -> Ledger:
        """What was found, with the earlier ledger in it."""
        earlier = self.earlier
        root = _root((*self.modified.seen, *self.read.seen), self.folders) or earlier.root
        modified = _relative(self.modified, root)
        changed = {entry.text for entry in modified}
        standing: list[str] = []
        decisions: list[str] = []
        requests: list[str] = []
        for words in self.words:
            kind = standing if _STANDING.search(words) else decisions if _DECISION.match(words) else requests
            kind.append(words)
        return Ledger(
            root=root,
            modified=modified,
            read=tuple(entry for entry in _relative(self.read, root) if entry.text not in changed),
            commands=self.commands.ordered(),
            errors=self.errors.ordered(),
            versions=self.versions.ordered(),
            goal=earlier.goal or next((words for words in self.words if len(words) > 20), ""),
            standing=_latest((*earlier.standing, *standing), QUOTE_CHARS),
            decisions=_latest((*earlier.decisions, *decisions), REQUEST_CHARS),
            requests=_latest((*earlier.requests, *requests), REQUEST_CHARS),
            done=tuple(self.done),
            open=tuple(task for task in self.open if task not in self.done),
            doing=clip(self.doing.strip(), _DOING_CHARS) or earlier.doing,
            question=_last_question(self.question),
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


def _last_question(text: str) -> str:
    """The last question in what the assistant said last; it is open as long as the user has said nothing since."""
    questions = _QUESTION.findall(text[-1_500:])
    return questions[-1].strip(" -*>#") if questions else ""


def _errors(text: str) -> list[str]:
    """The error identifiers in the lines of `text` that look like errors, each once."""
    words: dict[str, None] = {}
    for hint in _ERROR_HINTS:
        at = text.find(hint)
        while at >= 0:
            end = text.find("\n", at)
            end = len(text) if end < 0 else end
            words.update(dict.fromkeys(_CAPITALISED.findall(text[text.rfind("\n", 0, at) + 1 : end][:_LINE])))
            at = text.find(hint, end)
    return [word for word in dict.fromkeys(word.rstrip(".-") for word in words) if _ERROR.fullmatch(word)]


def _versions(text: str) -> list[str]:
    """The versions in `text`, each once, with the package's name where it stands before an `@`."""
    found: dict[str, None] = {}
    for match in _NUMBERS.finditer(text):
        start = match.start()
        left = text[max(start - 60, 0) : start]
        before = "" if left[-1:].isspace() else left.rsplit(None, 1)[-1:]
        after = text[start : start + 40].split(None, 1)[0]
        word = ("".join(before) + after).strip(_MARKS).rpartition("=")[2]
        if _VERSION.fullmatch(word):
            found[word] = None
    return list(found)


def _outcome(window: str, is_error: bool | None) -> str:
    """The exit status as a text: a number, `failed` where only that is known, or nothing."""
    for part in (window[:_LINE], window[-_LINE:]):
        match = _EXIT.search(part) if "xit" in part or "eturn" in part else None
        if match:
            return match[1]

    return "failed" if is_error else "0" if is_error is False else ""


def _absolute(folder: str, path: str) -> str:
    return path if not folder or path.startswith(("/", "~")) else f"{folder.rstrip('/')}/{path.removeprefix('./')}"


_MOST = 0.75
_STOP = frozenset(("src", "lib", "packages", "app", "apps", "tests", "test", "server", "docs", "node_modules"))


def _root(paths: Iterable[str], folders: dict[str, int]) -> str:
    """The folder that most absolute paths lie in: where the work was done."""
    folders = dict(folders)
    for path in paths:
        if path.startswith("/"):
            folder = path.rpartition("/")[0]
            folders[folder] = folders.get(folder, 0) + 1
    absolute = [(folder.split("/")[1:], times) for folder, times in folders.items()]
    total = sum(folders.values())
    root: list[str] = []
    while absolute:
        steps: dict[str, int] = {}
        for parts, times in absolute:
            if len(parts) > len(root):
                steps[parts[len(root)]] = steps.get(parts[len(root)], 0) + times
        step = max(steps, key=lambda name: steps[name], default="")
        if not step or steps[step] < _MOST * total or step in _STOP:
            break
        root.append(step)
        absolute = [(parts, times) for parts, times in absolute if parts[: len(root)] == root]
    return "/" + "/".join(root) if root else ""


def _relative(tally: _Tally, root: str) -> tuple[Entry, ...]:
    """The files by their path below the root, the heaviest first; a path that was noted both ways is one."""
    merged: dict[str, Entry] = {}
    for entry in tally.seen.values():
        path = entry.text.removeprefix(root + "/") if root else entry.text
        path = path.removeprefix("./").rstrip("/")
        if f"{root}/".startswith(f"{path}/"):
            continue  # a listing of the root itself, or above it

        known = merged.get(path)
        count, weight = (known.count, known.weight) if known else (0, 0.0)
        merged[path] = Entry(path, count + entry.count, weight + entry.weight)
    return tuple(sorted(merged.values(), key=lambda entry: -entry.weight))


def _latest(said: Iterable[str], limit: int) -> tuple[str, ...]:
    """What was said, each thing once and in the place of the last time; a summary holds but its first characters."""
    once: dict[str, str] = {}
    for words in said:
        once.pop(clip(words, limit), None)
        once[clip(words, limit)] = words
    return tuple(once.values())


def clip(text: str, limit: int) -> str:
    """The beginning of `text`, with a mark where something is missing."""
    return text if len(text) <= limit else text[: limit - 1].rstrip() + "…"

"""What a foreign file says, in our own words: between the readers of other tools' files and our graph.

A reader is a pure function from bytes to a `Transcript`. Everything in it depends only on the lines read so
far, so a file that grew gives the same steps for its old part, and importing it again adds only what is new.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec

from indusagi_lsp.contract.models import Usage
from indusagi_lsp.contract.turns import ASSISTANT, Block, Turn

if TYPE_CHECKING:
    from collections.abc import Mapping


class Entry(msgspec.Struct, frozen=True):
    """One turn of the source.

    `key` names it within its file, `parent` is the key of the entry or fold that it follows (None: a root),
    `at` is milliseconds since the epoch.
    """

    key: str
    parent: str | None
    turn: Turn
    at: int


class Fold(msgspec.Struct, frozen=True):
    """A condensation of the source: `summary` and what stood from `cut` on replaced the path to `base`.

    `cut` is None where nothing was kept. What follows names the fold's `key` as its parent. `before` and
    `after` are tokens, None where the source did not say.
    """

    key: str
    base: str
    cut: str | None
    summary: Turn
    trigger: str
    before: int | None = None
    after: int | None = None
    model: str | None = None


class Spent(msgspec.Struct, frozen=True):
    """What one answer of a model used; `key` is the entry where the answer begins."""

    key: str
    usage: Usage
    model: str
    provider: str


class Skipped(msgspec.Struct, frozen=True):
    """A line that holds no turn although it should: `line` counts from 1."""

    line: int
    reason: str


Step: TypeAlias = Entry | Fold


class Transcript(msgspec.Struct, frozen=True):
    """A whole foreign session.

    Attributes:
        tool: which program wrote it, e.g. `codex`.
        id: that program's own id of the session.
        steps: entries and folds, each after everything it refers to.
        head: the key of the live end, None in an empty session.
        cwd: the folder, as the source writes it; `project` is its SHA-256 where the source keeps only that.
        spent: usage, once for each answer of a model.
        records: further records of our own format, whose node ids are keys (only files of our own kind have
        them). ignored: lines that are no part of the conversation, counted by kind.
        gaps: turns whose parent is missing in the file.
        repeated: turns that the source wrote again, and that are not on the live path.
        rewritten: entries that the reader put beside those of the file, to have a path without the repeated
            ones.
        open_line: how many lines had been read when the file ended within an answer, else None.
    """

    tool: str
    id: str
    steps: tuple[Step, ...] = ()
    head: str | None = None
    cwd: str | None = None
    project: str | None = None
    title: str | None = None
    created_at: int = 0
    version: str | None = None
    model: str | None = None
    parent: str | None = None
    spent: tuple[Spent, ...] = ()
    labels: Mapping[str, str] = {}
    records: tuple[Mapping[str, Any], ...] = ()
    skipped: tuple[Skipped, ...] = ()
    ignored: Mapping[str, int] = {}
    gaps: int = 0
    repeated: int = 0
    rewritten: int = 0
    open_line: int | None = None


class Draft:
    """Gathers a transcript while a reader walks through its file.

    Consecutive blocks of one answer become one assistant turn. The answer ends where another one begins,
    where anything else is added, and at each line of `cuts`: where an earlier import found the end of the
    file inside an answer, the turn that it made then stays as it is.
    """

    def __init__(self, tool: str, cuts: frozenset[int] = frozenset()) -> None:
        self.tool = tool
        self.tip: str | None = None
        self.head: str | None = None
        self.id = ""
        self.cwd: str | None = None
        self.project: str | None = None
        self.title: str | None = None
        self.created_at: int | None = None
        self.version: str | None = None
        self.model: str | None = None
        self.parent: str | None = None
        self.gaps = 0
        self.repeated = 0
        self.rewritten = 0
        self.labels: dict[str, str] = {}
        self.records: list[Mapping[str, Any]] = []
        self.steps: list[Step] = []
        self.at = 0
        self._cuts = cuts
        self.number = 0
        self._skipped: list[Skipped] = []
        self._ignored: dict[str, int] = {}
        self._spent: dict[str, Spent] = {}
        self._answer: _Answer | None = None

    def line(self, number: int) -> None:
        """Tell which line (from 1) is about to be read."""
        self.number = number
        if number - 1 in self._cuts:
            self.close()

    def time(self, at: int | None) -> int:
        """Remember when something happened; a missing time is that of what came before."""
        if at is not None:
            self.at = at
            if self.created_at is None:
                self.created_at = at

        return self.at

    def skip(self, reason: str, line: int | None = None) -> None:
        """Report a line (the present one, if none is named) that should hold a turn and does not."""
        self._skipped.append(Skipped(self.number if line is None else line, reason))

    def ignore(self, kind: str) -> None:
        """Count a line that is no part of the conversation."""
        self._ignored[kind] = self._ignored.get(kind, 0) + 1

    def add(self, key: str, turn: Turn, parent: str | None, *, main: bool = True) -> str:
        """Add a turn at the present time; `main` says whether it can be the live end. Returns its key."""
        self.close()
        self.steps.append(Entry(key, parent, turn, self.at))
        self._moved(key, main=main)
        return key

    def fold(self, fold: Fold) -> None:
        """Add a condensation."""
        self.close()
        self.steps.append(fold)
        self._moved(fold.key, main=True)

    def answer(self, group: str, key: str, blocks: tuple[Block, ...], parent: str | None, *, main: bool = True) -> str:
        """Add blocks to the answer `group` (a new one gets `key` and `parent`). Returns its turn's key."""
        now = self._answer
        if now is None or now.group != group or now.main != main:
            self.close()
            now = self._answer = _Answer(group, key, parent, self.at, main)
        now.blocks.extend(blocks)
        return now.key

    def close(self) -> None:
        """End the answer that is being gathered, if there is one; one without blocks is no turn."""
        now, self._answer = self._answer, None
        if now is None:
            return

        if now.blocks:
            self.steps.append(Entry(now.key, now.parent, Turn(ASSISTANT, tuple(now.blocks)), now.at))
            self._moved(now.key, main=now.main)

    @property
    def answering(self) -> str | None:
        """The key of the turn that is being gathered."""
        return self._answer.key if self._answer is not None and self._answer.blocks else None

    @property
    def live(self) -> str | None:
        """The live end of the conversation, the turn that is being gathered included."""
        now = self._answer
        return now.key if now is not None and now.main and now.blocks else self.head

    def spend(self, message: str, key: str, usage: Usage, model: str, provider: str) -> None:
        """Note what the answer `message` used; said again, the last word counts, at the first's place."""
        if usage == Usage():
            return

        first = self._spent.get(message)
        self._spent[message] = Spent(first.key if first else key, usage, model, provider)

    def finish(self, lines: int) -> Transcript:
        """The transcript, after `lines` lines."""
        open_line = lines if self.answering is not None else None
        self.close()
        keys = {step.key for step in self.steps}
        return Transcript(
            tool=self.tool,
            id=self.id,
            steps=tuple(self.steps),
            head=self.head,
            cwd=self.cwd,
            project=self.project,
            title=self.title,
            created_at=self.created_at or 0,
            version=self.version,
            model=self.model,
            parent=self.parent,
            spent=tuple(spent for spent in self._spent.values() if spent.key in keys),
            labels=self.labels,
            records=tuple(self.records),
            skipped=tuple(self._skipped),
            ignored=self._ignored,
            gaps=self.gaps,
            repeated=self.repeated,
            rewritten=self.rewritten,
            open_line=open_line,
        )

    def _moved(self, key: str, *, main: bool) -> None:
        self.tip = key
        if main:
            self.head = key


class _Answer:
    """An assistant turn in the making."""

    def __init__(self, group: str, key: str, parent: str | None, at: int, main: bool) -> None:
        self.group = group
        self.key = key
        self.parent = parent
        self.at = at
        self.main = main
        self.blocks: list[Block] = []

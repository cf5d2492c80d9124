"""The tool `search_text`: lines that match, by ripgrep where it is installed, else by our own walk.

Our own search uses the `regex` module, whose matching can be given a time limit and lets other threads run.
Unsaved texts of the editor are searched instead of what is on disk.
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Annotated, Any

from msgspec import Meta

from indusagi_lsp.contract.errors import ToolFailed
from indusagi_lsp.contract.models import ToolSpec
from indusagi_lsp.contract.text import quoted, visible, visible_line
from indusagi_lsp.contract.tools import Effect, ToolContext, ToolOutcome
from indusagi_lsp.tools.arguments import Arguments, schema_of, validate_arguments
from indusagi_lsp.tools.listing import Walked, glob_matcher, walk
from indusagi_lsp.tools.ripgrep import Query, candidates, find_ripgrep

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from regex import Pattern

    from indusagi_lsp.tools.guard import PathGuard

MAX_MATCHES = 200
MAX_OUTPUT_CHARS = 40_000
MAX_FILE_BYTES = 4 * 1024 * 1024
MAX_SECONDS = 10.0
MAX_ROW_CHARS = 300
_SNIFF_BYTES = 8192


class SearchTextArguments(Arguments, frozen=True):
    """What `search_text` takes."""

    pattern: Annotated[
        str,
        Meta(min_length=1, max_length=1000, description="Regular expression that is looked for in each line."),
    ]
    path: Annotated[
        str, Meta(min_length=1, description="Folder or file to search, relative to the workspace root.")
    ] = "."
    glob: (
        Annotated[
            str,
            Meta(
                min_length=1,
                max_length=500,
                description="Search only files like this: `*.py`, `src/**/*.ts`.",
            ),
        ]
        | None
    ) = None
    literal: Annotated[bool, Meta(description="Take the pattern as plain text.")] = False
    ignore_case: Annotated[bool, Meta(description="Let upper and lower case match each other.")] = False
    context_lines: Annotated[int, Meta(ge=0, le=10, description="Lines to show around each match.")] = 0


class SearchText:
    """Finds lines by a regular expression.

    Args:
        guard: opens what is searched.
        ripgrep: the program's path, None for our own search, or "auto" to look for it at the first call.
        seconds: that one search may take.
    """

    # It only reads.
    effects = frozenset({Effect.READ})

    def __init__(self, guard: PathGuard, *, ripgrep: str | None = "auto", seconds: float = MAX_SECONDS) -> None:
        self._guard = guard
        self._ripgrep = ripgrep
        self._seconds = seconds
        self.spec = ToolSpec(
            "search_text",
            "Search the text files of the workspace line by line with a regular expression. What the"
            " ignore files hide is left out. Shows each file's path and, below it, matching lines with their"
            f" numbers; at most {MAX_MATCHES} matches.",
            schema_of(SearchTextArguments),
        )

    async def run(self, arguments: Mapping[str, Any], context: ToolContext) -> ToolOutcome:
        """Search.

        Args:
            arguments: as `SearchTextArguments`.
            context: gives the unsaved texts of open files.

        Returns:
            The matches by file, and a note where something is left out.

        Raises:
            ToolFailed: the pattern is malformed, the path lies outside the workspace, or the search took too
            long.
        """
        wanted = validate_arguments(SearchTextArguments, arguments)
        unsaved = {path: text for path in context.open_paths() if (text := context.document(path)) is not None}
        return ToolOutcome(await asyncio.to_thread(self._search, wanted, unsaved))

    def _search(self, wanted: SearchTextArguments, unsaved: Mapping[str, str]) -> str:
        deadline = time.monotonic() + self._seconds
        matcher = Matcher(wanted, deadline)
        report = _Report(wanted.context_lines)
        walked = Walked()
        for path, lines, numbers in self._matches(wanted, unsaved, matcher, deadline, walked):
            if not report.add(path, lines, numbers):
                break
        return report.text(wanted, walked.stopped)

    def _matches(
        self,
        wanted: SearchTextArguments,
        unsaved: Mapping[str, str],
        matcher: Matcher,
        deadline: float,
        walked: Walked,
    ) -> Iterator[tuple[str, list[str], list[int]]]:
        """Files that match: path, lines, and the numbers of the matching ones."""
        fits = glob_matcher(wanted.glob)
        start, is_file = self._start(wanted.path)
        for path in sorted(unsaved):
            below = path == start or start == "" or path.startswith(f"{start}/")
            if below and fits(path) and (is_file or self._guard.inside(path)):
                lines = _split(unsaved[path])
                numbers = matcher.numbers(lines)
                if numbers:
                    yield path, lines, numbers

        if self._ripgrep == "auto":
            self._ripgrep = find_ripgrep(self._guard.root)
        if is_file or self._ripgrep is None:
            for path in (start,) if is_file else walk(self._guard, start or ".", walked):
                lines = [] if path in unsaved or not (is_file or fits(path)) else self._lines(path)
                numbers = matcher.numbers(lines)
                if numbers:
                    yield path, lines, numbers
            return

        query = Query(wanted.pattern, wanted.literal, wanted.ignore_case, MAX_FILE_BYTES)
        places = candidates(self._ripgrep, self._guard.root, start, query, max(0.1, deadline - time.monotonic()))
        for path, told in _by_file(places, lambda path: path not in unsaved and fits(path)):
            lines = self._lines(path)
            numbers = [number for number in told if number <= len(lines)]
            if numbers:
                yield path, lines, numbers

    def _start(self, path: str) -> tuple[str, bool]:
        """Where to search, below the root in POSIX form, and whether that is one file."""
        try:
            with self._guard.open_folder(path) as folder:
                return folder.path, False
        except ToolFailed:
            with self._guard.open_read(path) as opened:
                return opened.path, True

    def _lines(self, path: str) -> list[str]:
        """The lines of a text file; none of a file that is binary, too large, or not ours to read."""
        try:
            data = self._guard.read_bytes(path, MAX_FILE_BYTES)
        except (ToolFailed, OSError):
            return []
        if data[:2] in (b"\xff\xfe", b"\xfe\xff"):
            return _split(data.decode("utf-16", "replace"))
        if b"\0" in data[:_SNIFF_BYTES]:
            return []
        return _split(data.decode("utf-8", "replace"))


class Matcher:
    """Our own matching, with a time limit.

    Args:
        wanted: pattern and options.
        deadline: on the monotonic clock.

    Raises:
        ToolFailed: the pattern is malformed.
    """

    def __init__(self, wanted: SearchTextArguments, deadline: float) -> None:
        self._wanted = wanted
        self._deadline = deadline
        self._compiled: Pattern[str] | None = None

    def numbers(self, lines: list[str]) -> list[int]:
        """The numbers of the lines that match, from 1.

        Raises:
            ToolFailed: the pattern is malformed, or the time is over.
        """
        if not lines:
            return []
        if self._compiled is None:
            self._compiled = self._compile()
        found: list[int] = []
        try:
            for number, line in enumerate(lines, 1):
                left = self._deadline - time.monotonic()
                if left <= 0:
                    raise TimeoutError
                # `concurrent` lets the event loop's thread run while one line is matched.
                if self._compiled.search(line, timeout=left, concurrent=True):
                    found.append(number)
        except TimeoutError:
            raise ToolFailed(
                "The search took too long.", hint="Search in a smaller folder or for something simpler."
            ) from None
        return found

    def _compile(self) -> Pattern[str]:
        import regex

        pattern = regex.escape(self._wanted.pattern) if self._wanted.literal else self._wanted.pattern
        flags = regex.IGNORECASE if self._wanted.ignore_case else 0
        try:
            return regex.compile(pattern, flags)
        except (regex.error, RecursionError, OverflowError) as error:
            msg = f"The pattern is no regular expression: {visible_line(str(error), 300)}."
            raise ToolFailed(
                msg,
                hint="Escape special characters, or set literal to true.",
            ) from None


class _Report:
    """Collects matches until the answer is full."""

    def __init__(self, context_lines: int) -> None:
        self._context = context_lines
        self._rows: list[str] = []
        self._chars = 0
        self._matches = 0
        self._files = 0
        self._full = False

    def add(self, path: str, lines: list[str], numbers: list[int]) -> bool:
        """Add one file's matches; False once nothing more fits."""
        room = MAX_MATCHES - self._matches
        self._full = len(numbers) > room
        numbers = numbers[:room]
        if not numbers:
            return False
        self._files += 1
        self._matches += len(numbers)
        self._row(("\n" if self._rows else "") + quoted(path))
        matching = set(numbers)
        last = 0
        for number in numbers:
            first = max(last + 1, number - self._context)
            if last and self._context and first > last + 1:
                self._row("--")
            for here in range(first, min(len(lines), number + self._context) + 1):
                mark = ":" if here in matching else "-"
                self._row(f"{here}{mark} {_shown(lines[here - 1])}")
                last = here
        self._full = self._full or self._chars > MAX_OUTPUT_CHARS
        return not self._full

    def _row(self, row: str) -> None:
        self._rows.append(row)
        self._chars += len(row) + 1

    def text(self, wanted: SearchTextArguments, stopped: str) -> str:
        """The answer."""
        if not self._matches:
            where = quoted(wanted.path) + (f", files like {quoted(wanted.glob)}" if wanted.glob else "")
            return f"[no match in {where}{'; ' + stopped if stopped else ''}]"
        notes = [f"{_count(self._matches, 'match', 'matches')} in {_count(self._files, 'file', 'files')}"]
        if self._full:
            notes.append("there may be more: narrow the pattern, the path or the glob")
        if stopped:
            notes.append(stopped)
        return "\n".join([*self._rows, f"[{'; '.join(notes)}]"])


def _split(text: str) -> list[str]:
    lines = text.split("\n")
    if not lines[-1]:
        lines.pop()
    return lines


def _count(number: int, one: str, many: str) -> str:
    return f"{number} {one if number == 1 else many}"


def _shown(line: str) -> str:
    cut = line[:MAX_ROW_CHARS]
    return visible(cut.removesuffix("\r")) + ("…" if len(line) > len(cut) else "")


def _by_file(places: Iterator[tuple[str, int]], wanted: Callable[[str], bool]) -> Iterator[tuple[str, list[int]]]:
    """Places grouped by their file, as far as the file is wanted; closing this closes `places`."""
    path: str | None = None
    keep = False
    numbers: list[int] = []
    try:
        for here, number in places:
            if here != path:
                if path is not None and numbers:
                    yield path, numbers
                path, numbers, keep = here, [], wanted(here)
            if keep and len(numbers) <= MAX_MATCHES:
                numbers.append(number)
        if path is not None and numbers:
            yield path, numbers
    finally:
        close = getattr(places, "close", None)
        if close is not None:
            close()

"""Session files as a language: all that an editor asks of a 10 MB file after opening it, against one parse of it."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.harness import Measured, cpu, ratios
from benchmarks.sessions import write_log

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

NAMES = ("sessionfiles", "sessionfiles_edit")
_TURNS = 2_300
_SCREEN = 60


def run(names: Sequence[str], quick: bool, data: Path | None) -> Iterable[Measured]:
    """Run those of `names`; see the package."""
    del data
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "s1.jsonl")
        write_log(path, _TURNS)
        yield from _measure(names, path, rounds=7 if quick else 15)


def _measure(names: Sequence[str], path: Path, rounds: int) -> Iterator[Measured]:
    import msgspec

    from indusagi_lsp.contract.jsontext import dumps
    from indusagi_lsp.lsp.documents import Document, _Change
    from indusagi_lsp.lsp.sessionfiles.answers import Answers
    from indusagi_lsp.lsp.sessionfiles.index import Reader
    from indusagi_lsp.sessions.records import parse_line

    text = path.read_text("utf-8")
    lines = path.read_bytes().splitlines(keepends=True)

    def parse() -> None:
        for line in lines:
            parse_line(line, 0)

    def told(document: Document, reader: Reader) -> None:
        index = reader.read(list(document.lines), document.take_splices())
        answers = Answers(index, document.uri, "s1", "file:///w", document.encoding)
        middle = len(document.lines) // 2
        for found in (
            answers.diagnostics(foreign=False),
            answers.symbols(),
            answers.folds(),
            answers.lenses(),
            answers.hints(middle, middle + _SCREEN),
            answers.hover(middle, 5, markdown=True),
            answers.definition(middle, 5),
            answers.references(middle, 5, declaration=True),
        ):
            dumps(found)

    def whole() -> None:
        told(Document("file:///s1.jsonl", text, 1, "utf-16"), Reader("s1"))

    note = f"all answers for {len(text) / 1e6:.1f} MB, {len(lines)} lines"
    if "sessionfiles" in names:
        yield Measured.of("sessionfiles", ratios(lambda: cpu(whole), lambda: cpu(parse), rounds), note)
    if "sessionfiles_edit" in names:
        document, reader = Document("file:///s1.jsonl", text, 1, "utf-16"), Reader("s1")
        told(document, reader)
        place = {"line": len(lines) // 2, "character": 3}
        change = msgspec.convert({"range": {"start": place, "end": place}, "text": "x"}, _Change)

        def edit() -> None:
            document.change(change, 2)
            told(document, reader)

        yield Measured.of(
            "sessionfiles_edit", ratios(lambda: cpu(edit), lambda: cpu(parse), rounds), f"{note}, one edit"
        )

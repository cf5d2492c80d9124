"""`read_file`: ranges, limits, encodings, unsaved texts, and answers that help."""

from __future__ import annotations

import os
import time
import tracemalloc
from typing import TYPE_CHECKING

import pytest

from indusagi_lsp.contract.errors import PathOutside, ToolFailed
from indusagi_lsp.contract.tools import Effect
from indusagi_lsp.tools import PathGuard, ReadFile

from .conftest import ask

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def tool(guard: PathGuard) -> ReadFile:
    return ReadFile(guard)


async def test_lines_come_with_their_numbers(tool: ReadFile) -> None:
    assert await ask(tool, path="src/boats.py") == "1\tdef count():\n2\t    return 3  # boats"
    assert tool.effects == {Effect.READ}


async def test_a_range_says_what_it_is_a_part_of(tool: ReadFile) -> None:
    assert await ask(tool, path="src/main.py", start_line=4, end_line=4) == "4\tdef main():\n[lines 4-4 of 5]"
    assert await ask(tool, path="src/main.py", start_line=9) == "[nothing at line 9: the file has 5 lines]"


async def test_a_long_file_comes_in_parts_that_join(root: Path, tool: ReadFile) -> None:
    (root / "long.txt").write_text("".join(f"line {number}\n" for number in range(1, 4501)))
    seen: list[str] = []
    start = 1
    for _ in range(10):
        answer = await ask(tool, path="long.txt", start_line=start)
        *lines, note = answer.split("\n")
        seen += [line.partition("\t")[2] for line in lines]
        if "go on" not in note:
            break
        start = int(note.rpartition("=")[2].rstrip("]"))
    assert seen == [f"line {number}" for number in range(1, 4501)]


async def test_a_long_line_is_cut_and_says_so(root: Path, tool: ReadFile) -> None:
    (root / "min.js").write_text("x" * 100_000 + "\nshort\n")
    answer = await ask(tool, path="min.js")
    assert len(answer) < 3000
    assert "more]" in answer
    assert "2\tshort" in answer


async def test_the_unsaved_text_comes_first(tool: ReadFile) -> None:
    answer = await ask(tool, {"src/boats.py": "unsaved\n"}, path="./src/../src/boats.py")
    assert answer == "1\tunsaved\n[the editor's unsaved text]"
    assert "brand new" in await ask(tool, {"src/new.py": "brand new"}, path="src/new.py")


async def test_an_open_file_outside_is_still_outside(root: Path, tool: ReadFile, tmp_path: Path) -> None:
    (tmp_path / "outside").write_text("x")
    (root / "link").symlink_to(tmp_path / "outside")
    for path in ("../outside", "link", ".indusagi/sessions/s.jsonl", ".indusagi/new"):
        with pytest.raises(PathOutside):
            await ask(tool, {path: "unsaved"}, path=path)


@pytest.mark.parametrize(
    ("data", "shown"),
    [
        (b"", "[the file is empty]"),
        (b"\xef\xbb\xbfbom", "1\tbom"),
        ("wide ☃".encode("utf-16"), "1\twide ☃"),
        (b"dos\r\nlines\r\n", "1\tdos\n2\tlines"),
        (b"latin \xe9", "1\tlatin \ufffd"),
        (b"no end", "1\tno end"),
        (b"esc \x1b[31mred\x1b[0m \xe2\x80\xae", "1\tesc red \\u{202e}"),
    ],
)
async def test_encodings(root: Path, tool: ReadFile, data: bytes, shown: str) -> None:
    (root / "file").write_bytes(data)
    assert await ask(tool, path="file") == shown


async def test_a_binary_file_is_named_not_shown(root: Path, tool: ReadFile) -> None:
    (root / "image.png").write_bytes(b"\x89PNG\0\0\0")
    with pytest.raises(ToolFailed, match="binary file of 7 bytes"):
        await ask(tool, path="image.png")


async def test_a_wrong_name_is_answered_with_a_near_one(tool: ReadFile) -> None:
    with pytest.raises(ToolFailed) as caught:
        await ask(tool, path="src/boat.py")
    assert caught.value.message == "There is no src/boat.py."
    assert "src/boats.py" in caught.value.hint


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({}, "missing required field `path`"),
        ({"path": 3}, "Expected `str`, got `int`"),
        ({"path": "a", "start_line": "1"}, "Expected `int`, got `str`"),
        ({"path": "a", "start_line": 0}, ">= 1"),
        ({"path": "a", "offset": 1}, "unknown field `offset`"),
        ({"path": "a", "start_line": 5, "end_line": 2}, "before start_line"),
    ],
)
async def test_wrong_arguments_are_explained(tool: ReadFile, arguments: dict[str, object], expected: str) -> None:
    with pytest.raises(ToolFailed) as caught:
        await ask(tool, **arguments)
    assert expected in caught.value.message


@pytest.mark.parametrize("kind", ["sparse", "one line", "many lines"])
async def test_a_huge_file_is_answered_soon_and_in_little_memory(root: Path, tool: ReadFile, kind: str) -> None:
    with (root / "huge").open("wb") as stream:
        if kind == "sparse":
            stream.write(b"first\n" * 10_000)
            stream.truncate(1 << 40)
        else:
            line = b"x" * (1 << 20) if kind == "one line" else b"word word\n" * 100_000
            for _ in range(100):
                stream.write(line)
    tracemalloc.start()
    began = time.monotonic()
    try:
        answer = await ask(tool, path="huge")
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    os.unlink(root / "huge")
    assert "goes on beyond" in answer
    assert len(answer) < 50_000
    assert peak < 16_000_000
    assert time.monotonic() - began < 20


def test_the_schema_is_one_flat_object(tool: ReadFile) -> None:
    schema = tool.spec.input_schema
    assert schema["type"] == "object"
    assert schema["required"] == ["path"]
    assert set(schema["properties"]) == {"path", "start_line", "end_line"}
    assert schema["properties"]["end_line"]["type"] == "integer"
    assert "$ref" not in str(schema)

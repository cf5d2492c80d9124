"""`search_text`, by ripgrep and by our own walk: both must find the same."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from indusagi_lsp.contract.errors import PathOutside, ToolFailed
from indusagi_lsp.tools import PathGuard, SearchText
from indusagi_lsp.tools.ripgrep import find_ripgrep
from indusagi_lsp.tools.searching import MAX_MATCHES

from .conftest import ask

if TYPE_CHECKING:
    from collections.abc import Callable

RIPGREP = find_ripgrep(Path("/nowhere"))


@pytest.fixture(
    params=[
        pytest.param(True, id="ripgrep", marks=pytest.mark.skipif(RIPGREP is None, reason="ripgrep is not installed")),
        pytest.param(False, id="own"),
    ]
)
def tool(guard: PathGuard, request: pytest.FixtureRequest) -> SearchText:
    return SearchText(guard, ripgrep=RIPGREP if request.param else None)


async def test_matches_come_by_file_without_what_is_ignored(tool: SearchText) -> None:
    assert await ask(tool, pattern=r"\bboats\b") == (
        ".github/workflows/ci.yml\n1: run: boats\n\n"
        "README.md\n3: A small tool that counts boats.\n\n"
        "keep.log\n1: boats kept\n\n"
        "src/boats.py\n2:     return 3  # boats\n\n"
        "src/deep/notes.txt\n1: boats are slow\n\n"
        "src/main.py\n1: import boats\n5:     return boats.count()\n"
        "[7 matches in 6 files]"
    )


async def test_options_narrow(tool: SearchText) -> None:
    assert "src/main.py" in await ask(tool, pattern="BOATS", ignore_case=True, glob="src/*.py")
    assert await ask(tool, pattern="boats.count(", literal=True) == (
        "src/main.py\n5:     return boats.count()\n[1 match in 1 file]"
    )
    assert (await ask(tool, pattern="boats", path="src/deep")).startswith("src/deep/notes.txt")
    assert (await ask(tool, pattern="boats", path="src/deep/notes.txt")).startswith("src/deep/notes.txt")
    assert await ask(tool, pattern="boats", glob="*.rs") == "[no match in ., files like *.rs]"
    assert "debug.log" not in await ask(tool, pattern="boats", glob="*.log")


async def test_context_shows_the_lines_around_once(root: Path, tool: SearchText) -> None:
    (root / "c.txt").write_text("1\n2 x\n3\n4 x\n5\n6\n7\n8\n9 x\n")
    assert await ask(tool, pattern="x", path="c.txt", context_lines=1) == (
        "c.txt\n1- 1\n2: 2 x\n3- 3\n4: 4 x\n5- 5\n--\n8- 8\n9: 9 x\n[3 matches in 1 file]"
    )


async def test_unsaved_texts_are_searched_instead_of_the_disk(tool: SearchText) -> None:
    documents = {"src/boats.py": "no more\nfleet\n", "src/new.py": "fleet"}
    found = await ask(tool, documents, pattern="fleet|boats", path="src")
    assert "src/boats.py\n2: fleet" in found
    assert "return 3" not in found


async def test_our_own_files_and_what_is_outside_stay_shut(root: Path, tool: SearchText, tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "x.txt").write_text("boats outside")
    (root / "link").symlink_to(tmp_path / "outside")
    (root / "file-link").symlink_to(tmp_path / "outside" / "x.txt")
    assert "outside" not in await ask(tool, pattern="boats")
    assert "jsonl" not in await ask(tool, pattern="boats")
    for path in ("..", "link", ".indusagi", "link/x.txt"):
        with pytest.raises(PathOutside):
            await ask(tool, pattern="boats", path=path)


async def test_a_wrong_expression_is_explained(tool: SearchText) -> None:
    with pytest.raises(ToolFailed, match="no regular expression") as caught:
        await ask(tool, pattern="(boats")
    assert "literal" in caught.value.hint


async def test_a_pattern_is_never_an_option(root: Path, tool: SearchText) -> None:
    (root / "dash.txt").write_text("--pre=touch hacked\n")
    assert "dash.txt" in await ask(tool, pattern="--pre=touch hacked")


async def test_many_matches_are_cut_with_a_note(root: Path, tool: SearchText) -> None:
    for name in ("m1.txt", "m2.txt"):
        (root / name).write_text("needle\n" * (MAX_MATCHES - 50))
    answer = await ask(tool, pattern="needle")
    assert answer.count(": needle") == MAX_MATCHES
    assert "there may be more" in answer


async def test_binary_huge_and_odd_files_are_passed_over(root: Path, tool: SearchText) -> None:
    (root / "binary.bin").write_bytes(b"\0\0needle\n")
    (root / "wide.txt").write_bytes("needle wide".encode("utf-16"))
    (root / "line.js").write_text("a" * 50_000 + "needle\n")
    os.mkfifo(root / "fifo")
    with (root / "sparse").open("wb") as stream:
        stream.write(b"needle\n")
        stream.truncate(1 << 34)
    began = time.monotonic()
    answer = await ask(tool, pattern="needle")
    assert "wide.txt" in answer
    assert "line.js" in answer
    assert "binary.bin" not in answer
    assert "sparse" not in answer
    assert len(answer) < 2000
    assert time.monotonic() - began < 10


async def test_a_catastrophic_expression_ends_in_time_and_does_not_hold_the_loop(root: Path, guard: PathGuard) -> None:
    (root / "evil.txt").write_text("a" * 5000 + "!\n")
    tool = SearchText(guard, ripgrep=None, seconds=0.5)
    gaps: list[float] = []

    async def beat() -> None:
        last = time.monotonic()
        while True:
            await asyncio.sleep(0.01)
            now = time.monotonic()
            gaps.append(now - last)
            last = now

    beating = asyncio.create_task(beat())
    began = time.monotonic()
    with pytest.raises(ToolFailed, match="took too long"):
        await ask(tool, pattern=r"(a|aa|a?)+$", path="evil.txt")
    took = time.monotonic() - began
    beating.cancel()
    assert took < 3
    assert len(gaps) > 10
    assert max(gaps) < 0.25


@pytest.mark.skipif(sys.platform == "win32", reason="needs a shell script")
async def test_a_slow_ripgrep_is_ended_and_leaves_nothing_behind(root: Path, guard: PathGuard, tmp_path: Path) -> None:
    slow = tmp_path / "slow-rg"
    slow.write_text(f"#!/bin/sh\necho $$ > {tmp_path}/pid\nexec sleep 60\n")
    slow.chmod(0o755)
    with pytest.raises(ToolFailed, match="took too long"):
        await ask(SearchText(guard, ripgrep=str(slow), seconds=0.5), pattern="x")
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "pid").read_text()), 0)


@pytest.mark.skipif(sys.platform == "win32", reason="needs a shell script")
async def test_places_that_ripgrep_tells_are_not_believed(root: Path, guard: PathGuard, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("key\n")
    liar = tmp_path / "rg"
    liar.write_text(
        "#!/bin/sh\nprintf '../secret\\0001:\\n.indusagi/sessions/s.jsonl\\0001:\\nREADME.md\\0009999:\\n'\n"
    )
    liar.chmod(0o755)
    assert await ask(SearchText(guard, ripgrep=str(liar)), pattern="x") == "[no match in .]"


def test_a_program_of_the_workspace_is_never_taken(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    planted = root / "bin" / "rg"
    planted.parent.mkdir()
    planted.write_text("#!/bin/sh\n")
    planted.chmod(0o755)
    monkeypatch.chdir(root)
    monkeypatch.setattr("sysconfig.get_path", lambda _: "/nonexistent")
    for path in ("bin", ".", "", str(root / "bin"), f"bin{os.pathsep}{root}/bin"):
        monkeypatch.setenv("PATH", path)
        assert find_ripgrep(root) is None
    elsewhere: Callable[[str], bool] = os.path.isabs
    monkeypatch.setenv("PATH", str(root / "bin"))
    found = find_ripgrep(root.parent / "other")
    assert found is not None
    assert elsewhere(found)

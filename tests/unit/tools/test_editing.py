"""`edit_file` and `write_file`: what they change, what they refuse, and what a user is asked about."""

from __future__ import annotations

import ctypes
import os
import sys
import threading
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

from indusagi_lsp.contract.errors import PathOutside, ToolFailed
from indusagi_lsp.contract.tools import Effect, PlannedCall, PlanningTool, ToolContext
from indusagi_lsp.tools import ApplyPatch, EditFile, PathGuard, WriteFile, writing_tools
from indusagi_lsp.tools.writing import look, put

from .conftest import ask

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


class Editor:
    """Open documents, as an editor has them."""

    def __init__(self, documents: Mapping[str, str], *, refuses: bool = False) -> None:
        self.documents = dict(documents)
        self.refuses = refuses

    async def edit(self, path: str, text: str) -> bool:
        if not self.refuses:
            self.documents[path] = text
        return not self.refuses

    @property
    def context(self) -> ToolContext:
        return ToolContext(
            "s", "c", document=self.documents.get, open_paths=lambda: self.documents, edit_document=self.edit
        )


@pytest.fixture
def edit(guard: PathGuard) -> EditFile:
    return EditFile(guard)


@pytest.fixture
def write(guard: PathGuard) -> WriteFile:
    return WriteFile(guard)


def one(old: str, new: str, **more: Any) -> list[dict[str, Any]]:
    return [{"old_text": old, "new_text": new, **more}]


async def planned(tool: PlanningTool, context: ToolContext | None = None, **arguments: Any) -> PlannedCall:
    return await tool.plan(arguments, context or ToolContext("s", "c"))


async def test_an_edit_is_shown_first_and_done_exactly_so(root: Path, edit: EditFile) -> None:
    call = await planned(edit, path="src/boats.py", edits=one("return 3", "return 4"))
    assert call.action == (
        "--- a/src/boats.py\n+++ b/src/boats.py\n@@ -1,2 +1,2 @@\n def count():\n"
        "-    return 3  # boats\n+    return 4  # boats\n"
    )
    assert call.asks
    assert not call.afresh
    assert "return 3" in (root / "src/boats.py").read_text()
    assert (await call.carry_out()).output == "src/boats.py: 1 edit made, +1 -1 lines."
    assert (root / "src/boats.py").read_text() == "def count():\n    return 4  # boats\n"


async def test_what_has_changed_since_is_not_written_over(root: Path, edit: EditFile, write: WriteFile) -> None:
    call = await planned(edit, path="src/boats.py", edits=one("return 3", "return 4"))
    (root / "src/boats.py").write_text("somebody else's\n")
    with pytest.raises(ToolFailed, match="has changed since"):
        await call.carry_out()
    assert (root / "src/boats.py").read_text() == "somebody else's\n"

    call = await planned(write, path="new.txt", content="mine")
    (root / "new.txt").write_text("theirs")
    with pytest.raises(ToolFailed, match="has changed since"):
        await call.carry_out()
    assert (root / "new.txt").read_text() == "theirs"


async def test_several_edits_are_all_or_nothing(root: Path, edit: EditFile) -> None:
    edits = one("return 3", "return 4") + one("no such text", "x")
    with pytest.raises(ToolFailed, match="Edit 2 of 2: old_text is not in the file"):
        await planned(edit, path="src/boats.py", edits=edits)
    edits = one("return 3", "return 4") + one("return 4  # boats", "return 5")
    assert await ask(edit, path="src/boats.py", edits=edits) == "src/boats.py: 2 edits made, +1 -1 lines."
    assert (root / "src/boats.py").read_text() == "def count():\n    return 5\n"


@pytest.mark.parametrize(
    ("edits", "message", "hint"),
    [
        (one("boat", "x"), "is there 3 times, at lines 1, 5", "replace_all"),
        (one("import boat\n", "x"), "is not in the file", "The nearest is line 1: import boats"),
        (one("4\tdef main():", "x"), "is not in the file", "line numbers"),
        (one("", "x"), "old_text is empty", "write_file"),
        (one("import boats", "import boats"), "Nothing would change", ""),
        ([], "length >= 1", ""),
        ([{"old": "a"}], "unknown field `old`", ""),
    ],
)
async def test_mistakes_are_explained(root: Path, edit: EditFile, edits: list[Any], message: str, hint: str) -> None:
    (root / "src/main.py").write_text("import boats\n\n\ndef main():\n    return boats.count(boat)\n")
    before = (root / "src/main.py").read_bytes()
    with pytest.raises(ToolFailed) as caught:
        await planned(edit, path="src/main.py", edits=edits)
    assert message in caught.value.message
    assert hint in caught.value.hint
    assert (root / "src/main.py").read_bytes() == before


async def test_every_occurrence_on_request(root: Path, edit: EditFile) -> None:
    await ask(edit, path="src/main.py", edits=one("boats", "ships", replace_all=True))
    assert (root / "src/main.py").read_text() == "import ships\n\n\ndef main():\n    return ships.count()\n"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (b"one\r\ntwo\r\n", b"one\r\nTWO\r\nmore\r\n"),
        (b"one\ntwo\n", b"one\nTWO\nmore\n"),
        (b"one\ntwo", b"one\nTWO\nmore"),
        (b"\xef\xbb\xbfone\ntwo\n", b"\xef\xbb\xbfone\nTWO\nmore\n"),
        (b"one\r\ntwo\nthree\n", b"one\r\nTWO\nmore\nthree\n"),
    ],
)
async def test_line_ends_and_marks_stay_as_they_are(root: Path, edit: EditFile, before: bytes, after: bytes) -> None:
    (root / "file").write_bytes(before)
    await ask(edit, path="file", edits=one("two", "TWO\nmore"))
    assert (root / "file").read_bytes() == after


async def test_a_file_in_the_manner_of_windows_can_be_edited_over_lines(
    root: Path, edit: EditFile, write: WriteFile
) -> None:
    (root / "file").write_bytes(b"one\r\ntwo\r\nthree\r\n")
    await ask(edit, path="file", edits=one("one\ntwo", "1\n2"))
    assert (root / "file").read_bytes() == b"1\r\n2\r\nthree\r\n"
    await ask(write, path="file", content="a\nb\n")
    assert (root / "file").read_bytes() == b"a\r\nb\r\n"


async def test_hidden_characters_can_be_edited_as_they_were_shown(root: Path, edit: EditFile) -> None:
    (root / "file").write_text("a\u200bb\n")
    await ask(edit, path="file", edits=one("a\\u{200b}b", "a\\u{200b}c"))
    assert (root / "file").read_text() == "a\u200bc\n"


@pytest.mark.skipif(sys.platform == "win32", reason="modes are POSIX")
async def test_the_mode_is_kept_and_a_new_file_has_an_ordinary_one(
    root: Path, edit: EditFile, write: WriteFile
) -> None:
    script = root / "run.sh"
    script.write_text("echo boats\n")
    script.chmod(0o751)
    await ask(edit, path="run.sh", edits=one("boats", "ships"))
    assert script.stat().st_mode & 0o777 == 0o751
    umask = os.umask(0o027)
    try:
        await ask(write, path="a/b/c/new.txt", content="x")
    finally:
        os.umask(umask)
    assert (root / "a/b/c/new.txt").stat().st_mode & 0o777 == 0o640
    assert [path.name for path in (root / "a/b/c").iterdir()] == ["new.txt"]


@pytest.mark.parametrize("tool", ["edit", "write"])
@pytest.mark.parametrize(
    "path",
    [
        "../out.txt",
        "/etc/passwd",
        "link/x.txt",
        "file-link",
        "src/../../out.txt",
        ".indusagi/x",
        ".IndusAgi/sessions/s.jsonl",
    ],
)
async def test_nothing_is_written_outside(root: Path, guard: PathGuard, tmp_path: Path, tool: str, path: str) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "x.txt").write_text("theirs")
    (root / "link").symlink_to(tmp_path / "outside")
    (root / "file-link").symlink_to(tmp_path / "outside" / "x.txt")
    with pytest.raises(PathOutside):
        if tool == "edit":
            await ask(EditFile(guard), path=path, edits=one("theirs", "ours"))
        else:
            await ask(WriteFile(guard), path=path, content="ours")
    assert (tmp_path / "outside" / "x.txt").read_text() == "theirs"
    assert not (tmp_path / "out.txt").exists()


async def test_a_link_inside_stays_a_link(root: Path, edit: EditFile) -> None:
    (root / "alias.py").symlink_to("src/boats.py")
    await ask(edit, path="alias.py", edits=one("return 3", "return 4"))
    assert (root / "alias.py").is_symlink()
    assert "return 4" in (root / "src/boats.py").read_text()


async def test_protected_paths_and_hard_links_are_asked_about_afresh(
    root: Path, guard: PathGuard, write: WriteFile, edit: EditFile, tmp_path: Path
) -> None:
    (root / "plain").symlink_to(".github/workflows")
    for path in (
        ".vscode/settings.json",
        "AGENTS.md",
        ".GIT/config",
        "plain/ci.yml",
        "sub/.husky/pre-commit",
        ".envrc",
    ):
        call = await planned(write, path=path, content="x")
        assert call.afresh, path
        assert call.action.startswith("Careful: "), path
    patch = "--- /dev/null\n+++ b/.mcp.json\n@@ -0,0 +1 @@\n+{}\n"
    assert (await planned(ApplyPatch(guard), patch=patch)).afresh

    outside = tmp_path / "outside.txt"
    outside.write_text("theirs\n")
    os.link(outside, root / "twin.txt")
    call = await planned(edit, path="twin.txt", edits=one("theirs", "ours"))
    assert call.afresh
    await call.carry_out()
    assert outside.read_text() == "theirs\n"
    assert (root / "twin.txt").read_text() == "ours\n"


async def test_binary_foreign_and_huge_files_are_left_alone(root: Path, edit: EditFile, write: WriteFile) -> None:
    (root / "bin").write_bytes(b"a\0b")
    (root / "latin").write_bytes(b"caf\xe9")
    with (root / "huge").open("wb") as stream:
        stream.truncate(1 << 34)
    os.mkfifo(root / "fifo")
    for path, message in (
        ("bin", "binary"),
        ("latin", "not UTF-8"),
        ("huge", "too much"),
        ("fifo", "a pipe"),
        ("src", "a folder"),
    ):
        with pytest.raises(ToolFailed, match=message):
            await planned(edit, path=path, edits=one("a", "b"))
        with pytest.raises(ToolFailed, match=message):
            await planned(write, path=path, content="x")
    with pytest.raises(ToolFailed, match=r"There is no nope\.py"):
        await planned(edit, path="nope.py", edits=one("a", "b"))


async def test_a_file_open_in_the_editor_is_changed_there(root: Path, edit: EditFile, write: WriteFile) -> None:
    editor = Editor({"src/boats.py": "unsaved boats\r\nmore\r\n"})
    call = await planned(edit, editor.context, path="src/boats.py", edits=one("boats\nmore", "ships\nmore"))
    await call.carry_out()
    assert editor.documents["src/boats.py"] == "unsaved ships\r\nmore\r\n"
    assert "return 3" in (root / "src/boats.py").read_text()

    call = await planned(write, editor.context, path="src/boats.py", content="all new\n")
    editor.documents["src/boats.py"] = "typed meanwhile"
    with pytest.raises(ToolFailed, match="changed in the editor meanwhile"):
        await call.carry_out()

    stubborn = Editor({"src/boats.py": "x"}, refuses=True)
    with pytest.raises(ToolFailed, match="did not take"):
        await (await planned(write, stubborn.context, path="src/boats.py", content="y")).carry_out()


async def test_unsaved_text_is_never_lost_where_no_editor_takes_changes(root: Path, edit: EditFile) -> None:
    with pytest.raises(ToolFailed, match="not saved"):
        await ask(edit, {"src/boats.py": "unsaved"}, path="src/boats.py", edits=one("unsaved", "x"))
    same = (root / "src/boats.py").read_text()
    await ask(edit, {"src/boats.py": same}, path="src/boats.py", edits=one("return 3", "return 4"))
    assert "return 4" in (root / "src/boats.py").read_text()


async def test_a_failed_write_leaves_nothing_behind(
    root: Path, write: WriteFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = sorted(os.listdir(root))

    def refuse(fd: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", refuse)
    with pytest.raises(ToolFailed, match="No space left on device"):
        await ask(write, path="README.md", content="x")
    assert sorted(os.listdir(root)) == before
    assert (root / "README.md").read_text().startswith("# Sluice")


def test_a_racing_flipper_gets_nothing_written_outside(tmp_path: Path) -> None:
    root, outside = tmp_path / "ws", tmp_path / "outside"
    (root / "folder").mkdir(parents=True)
    outside.mkdir()
    (root / "folder" / "file").write_text("in")
    (outside / "file").write_text("theirs")
    (root / "link").symlink_to(outside)
    stop = threading.Event()

    exchange = getattr(ctypes.CDLL(None), "renameat2", None)
    if exchange is None:
        pytest.skip("needs renameat2 to exchange two names at once")
    here, names = -100, (os.fsencode(root / "folder"), os.fsencode(root / "link"))

    def flip() -> None:
        while not stop.is_set():
            exchange(here, names[0], here, names[1], 2)

    flipper = threading.Thread(target=flip)
    guard = PathGuard(root)
    seen: Counter[str] = Counter()
    flipper.start()
    try:
        for _ in range(10_000 if os.environ.get("INDUSAGI_LONG") else 500):
            for path in ("folder/file", "link/file", "folder/new"):
                try:
                    put(guard, look(guard, path), b"mine")
                    seen["written"] += 1
                except ToolFailed as error:
                    seen[type(error).__name__] += 1
    finally:
        stop.set()
        flipper.join()
    assert (outside / "file").read_text() == "theirs"
    assert [path.name for path in outside.iterdir()] == ["file"]
    assert seen["written"] > 20
    assert seen["PathOutside"] > 20


@pytest.mark.parametrize("by_name", [False, True])
async def test_both_ways_of_looking_up_write_alike(root: Path, by_name: bool) -> None:
    guard = PathGuard(root, by_name=by_name)
    await ask(WriteFile(guard), path="x/y/new.txt", content="1\n")
    await ask(EditFile(guard), path="x/y/new.txt", edits=one("1", "2"))
    assert (root / "x/y/new.txt").read_text() == "2\n"
    for path in ("x/../../out", "../out"):
        with pytest.raises(PathOutside):
            await ask(WriteFile(guard), path=path, content="x")
    with pytest.raises(ToolFailed):
        await ask(WriteFile(guard), path="nope/../y.txt", content="x")


def test_the_writing_tools_plan_and_say_that_they_write(guard: PathGuard) -> None:
    for tool in writing_tools(guard):
        assert isinstance(tool, PlanningTool)
        assert tool.effects == {Effect.WRITE}
        assert "$ref" not in str(tool.spec.input_schema)

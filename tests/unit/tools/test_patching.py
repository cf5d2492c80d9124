"""`apply_patch`: the two forms that models write, right and nearly right."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from indusagi_lsp.contract.errors import PathOutside, ToolFailed
from indusagi_lsp.contract.tools import ToolContext
from indusagi_lsp.tools import ApplyPatch, PathGuard
from indusagi_lsp.tools.patches import apply, parse

from .conftest import ask

if TYPE_CHECKING:
    from pathlib import Path

UNIFIED = """\
Some words before it.
diff --git a/src/boats.py b/src/boats.py
index 123..456 100644
--- a/src/boats.py
+++ b/src/boats.py
@@ -1,2 +1,3 @@ def
 def count():
-    return 3  # boats
+    ships = 4
+    return ships
--- /dev/null
+++ b/docs/new.md
@@ -0,0 +1,2 @@
+# New
+text
--- a/src/deep/notes.txt
+++ /dev/null
@@ -1 +0,0 @@
-boats are slow
"""

SECTIONS = """\
*** Begin Patch
*** Update File: src/boats.py
@@ def count():
-    return 3  # boats
+    ships = 4
+    return ships
*** Add File: docs/new.md
+# New
+text
*** Delete File: src/deep/notes.txt
*** End Patch
"""


def everything(root: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in root.rglob("*") if path.is_file()}


@pytest.fixture
def tool(guard: PathGuard) -> ApplyPatch:
    return ApplyPatch(guard)


@pytest.mark.parametrize("patch", [UNIFIED, SECTIONS, UNIFIED.replace("\n", "\r\n"), UNIFIED.replace("1,3", "1,9")])
async def test_files_are_changed_made_and_removed(root: Path, tool: ApplyPatch, patch: str) -> None:
    told = await ask(tool, patch=patch)
    assert told == (
        "src/boats.py: changed, +2 -1 lines\ndocs/new.md: made, +2 -0 lines\nsrc/deep/notes.txt: removed, +0 -1 lines"
    )
    assert (root / "src/boats.py").read_text() == "def count():\n    ships = 4\n    return ships\n"
    assert (root / "docs/new.md").read_text() == "# New\ntext\n"
    assert not (root / "src/deep/notes.txt").exists()


async def test_a_rename_with_a_change(root: Path, tool: ApplyPatch) -> None:
    patch = """\
--- a/src/boats.py
+++ b/src/ships.py
@@ -1,2 +1,2 @@
 def count():
-    return 3  # boats
+    return 4
"""
    (root / "src/boats.py").chmod(0o755)
    await ask(tool, patch=patch)
    assert not (root / "src/boats.py").exists()
    assert (root / "src/ships.py").stat().st_mode & 0o777 == 0o755
    assert (root / "src/ships.py").read_text() == "def count():\n    return 4\n"
    patch = """\
*** Begin Patch
*** Update File: src/ships.py
*** Move to: a/b.py
@@
-    return 4
+    return 5
*** End Patch"""
    await ask(tool, patch=patch)
    assert (root / "a/b.py").read_text() == "def count():\n    return 5\n"


async def test_a_wrong_line_number_is_found_all_the_same(root: Path, tool: ApplyPatch) -> None:
    (root / "long").write_text("".join(f"line {n}\n" for n in range(100)))
    await ask(tool, patch="--- a/long\n+++ b/long\n@@ -10,3 +10,3 @@\n line 70\n-line 71\n+LINE 71\n line 72\n")
    assert "line 70\nLINE 71\nline 72\n" in (root / "long").read_text()


@pytest.mark.parametrize(
    ("patch", "message"),
    [
        ("nothing of the kind", "That is no patch"),
        (UNIFIED.replace("return 3", "return 99"), "the lines of hunk 1 are not in the file"),
        (UNIFIED.replace("+++ b/docs/new.md", "+++ b/README.md"), "README.md is there already"),
        (UNIFIED.replace("a/src/deep/notes.txt", "a/nope.txt"), "There is no nope.txt"),
        (UNIFIED + "--- a/src/boats.py\n+++ b/src/boats.py\n@@ -1 +1 @@\n-def count():\n+def x():\n", "twice"),
    ],
)
async def test_what_does_not_fit_changes_nothing(root: Path, tool: ApplyPatch, patch: str, message: str) -> None:
    before = everything(root)
    with pytest.raises(ToolFailed, match=message):
        await ask(tool, patch=patch)
    assert everything(root) == before


async def test_a_failure_half_way_takes_everything_back(root: Path, tool: ApplyPatch) -> None:
    call = await tool.plan({"patch": UNIFIED}, ToolContext("s", "c"))
    (root / "src/deep/notes.txt").write_text("changed by somebody")
    with pytest.raises(ToolFailed, match="has changed since"):
        await call.carry_out()
    assert (root / "src/boats.py").read_text() == "def count():\n    return 3  # boats\n"
    assert not (root / "docs/new.md").exists()
    assert (root / "src/deep/notes.txt").read_text() == "changed by somebody"


@pytest.mark.parametrize("path", ["../out.txt", "/etc/cron.d/x", ".indusagi/x", "src/../../out.txt"])
async def test_a_patch_cannot_leave_the_workspace(tool: ApplyPatch, path: str) -> None:
    with pytest.raises(PathOutside):
        await ask(tool, patch=f"--- /dev/null\n+++ {path}\n@@ -0,0 +1 @@\n+x\n")
    with pytest.raises(PathOutside):
        await ask(tool, patch=f"*** Begin Patch\n*** Add File: {path}\n+x\n*** End Patch")


LINES = st.lists(st.sampled_from(["a", "b", "c", "", "-x", "+y", " z", "@"]), max_size=12)


@given(LINES, LINES, st.booleans(), st.booleans())
def test_a_diff_of_two_texts_leads_from_one_to_the_other(
    old: list[str], new: list[str], ended: bool, hinted: bool
) -> None:
    before = "\n".join(old) + "\n" if old else ""
    after = "\n".join(new) + "\n" if new else ""
    del ended
    diff = list(difflib.unified_diff(before.splitlines(keepends=True), after.splitlines(keepends=True), "a/f", "b/f"))
    if not diff:
        return
    (patch,) = parse("".join(diff))
    assert apply(before, patch) == after
    del hinted

"""One name for a workspace, however its path is written."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from indusagi_lsp.memory.identity import workspace_identity


@pytest.fixture
def folder(tmp_path):
    folder = tmp_path / "my work"
    folder.mkdir()
    return folder


def test_spellings_of_one_folder(folder, tmp_path):
    link = tmp_path / "link"
    link.symlink_to(folder)
    name = workspace_identity(folder)
    for spelling in (
        str(folder),
        f"{folder}/",
        f"{folder}//.",
        f"{folder}/../my work",
        link,
        folder.as_uri(),
        folder.as_uri() + "/",
        folder.as_uri().replace("my%20work", "%6dy%20work"),
        folder.as_uri().replace("file:///", "file://localhost/"),
        folder.as_uri().replace("file:", "FILE:"),
        link.as_uri(),
    ):
        assert workspace_identity(spelling) == name, spelling
    assert workspace_identity(tmp_path) != name
    assert workspace_identity("/") == "/"


def test_the_case_of_a_drive_does_not_matter():
    from indusagi_lsp.memory import identity

    assert identity._plain("file:///C%3A/Work") == "C:/Work"
    assert identity._drive_lowered("C:/Work") == identity._drive_lowered("c:/Work") == "c:/Work"
    assert identity._plain("file://server/share/x") == "//server/share/x"


@pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
def test_work_trees_of_one_repository_are_one_workspace(folder, tmp_path):
    def git(*arguments):
        subprocess.run(
            ["git", "-C", str(folder), *arguments], check=True, capture_output=True, stdin=subprocess.DEVNULL
        )

    git("init", "-q")
    git("-c", "user.name=x", "-c", "user.email=x@x", "commit", "-q", "--allow-empty", "-m", "first")
    git("worktree", "add", "-q", str(tmp_path / "tree"), "-b", "side")
    assert workspace_identity(tmp_path / "tree") == workspace_identity(folder)

    # A folder that merely claims to be a work tree is not believed.
    fake = tmp_path / "fake"
    fake.mkdir()
    (fake / ".git").write_text((tmp_path / "tree" / ".git").read_text())
    assert workspace_identity(fake) == str(fake)
    for content in ("gitdir: /etc", "gitdir: ", "nonsense", "gitdir: \x00"):
        (fake / ".git").write_text(content)
        assert workspace_identity(fake) == str(fake)

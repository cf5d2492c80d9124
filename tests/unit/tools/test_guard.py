"""The path guard: what it opens and refuses, against an oracle, and while somebody changes things."""

from __future__ import annotations

import os
import shutil
import socket
import sys
import tempfile
import threading
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from indusagi_lsp.contract.errors import PathOutside, ToolFailed
from indusagi_lsp.tools import MissingPath, PathGuard

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="builds POSIX trees")

BY_NAME = pytest.mark.parametrize("by_name", [False, True], ids=["descriptors", "names"])


def read(guard: PathGuard, path: str, limit: int = 1000) -> bytes:
    return guard.read_bytes(path, limit)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "ws"
    (root / "src" / "deep").mkdir(parents=True)
    (root / "a.txt").write_text("in")
    (root / "src" / "b.txt").write_text("in")
    (root / "src" / "deep" / "c.txt").write_text("in")
    outside = tmp_path / "ws-evil"
    outside.mkdir()
    (outside / "secret.txt").write_text("out")
    return root


@BY_NAME
@pytest.mark.parametrize(
    "path",
    [
        "a.txt",
        "./a.txt",
        "src/../a.txt",
        "src//b.txt",
        "src/deep/../b.txt",
        "src/./deep/c.txt",
        "src/deep/../../a.txt",
    ],
)
def test_a_file_inside_is_read(root: Path, path: str, by_name: bool) -> None:
    assert read(PathGuard(root, by_name=by_name), path) == b"in"


@BY_NAME
def test_an_absolute_path_below_the_root_is_read(root: Path, by_name: bool) -> None:
    assert read(PathGuard(root, by_name=by_name), str(root / "src" / "b.txt")) == b"in"


@BY_NAME
@pytest.mark.parametrize(
    "path",
    [
        "..", "../ws-evil/secret.txt", "src/../../ws-evil/secret.txt", "/etc/passwd", "/",
        "{root}-evil/secret.txt", "{root}/../ws-evil/secret.txt", "{root}//..//ws-evil/secret.txt",
        "src/deep/../../../ws-evil/secret.txt",
    ],
)  # fmt: skip
def test_a_path_that_leaves_the_root_is_refused(root: Path, path: str, by_name: bool) -> None:
    guard = PathGuard(root, by_name=by_name)
    with pytest.raises(PathOutside) as caught:
        read(guard, path.format(root=root))
    assert "outside the workspace" in caught.value.message
    assert not guard.inside(path.format(root=root))


@pytest.mark.parametrize(
    "path",
    ["%2e%2e/ws-evil/secret.txt", "~/.bashrc", "a.txt\0", "..\\ws-evil\\secret.txt", "a" * 5000, "a" * 300],
)
def test_a_spelling_that_means_nothing_here_opens_nothing(root: Path, path: str) -> None:
    with pytest.raises(ToolFailed):
        read(PathGuard(root), path)


def test_what_lies_outside_is_not_told(root: Path) -> None:
    guard = PathGuard(root)
    messages = set()
    for path in ("../ws-evil/secret.txt", "../ws-evil/nothing.txt"):
        with pytest.raises(PathOutside) as caught:
            read(guard, path)
        messages.add(caught.value.message.replace("secret", "nothing"))
    assert len(messages) == 1


@BY_NAME
def test_links_inside_work_and_links_outside_do_not(root: Path, tmp_path: Path, by_name: bool) -> None:
    (root / "file-link").symlink_to("src/b.txt")
    (root / "folder-link").symlink_to("src/deep")
    (root / "src" / "up-link").symlink_to("../a.txt")
    (root / "absolute-link").symlink_to(root / "a.txt")
    (root / "chain").symlink_to("file-link")
    (root / "out-file").symlink_to("../ws-evil/secret.txt")
    (root / "out-folder").symlink_to(tmp_path / "ws-evil")
    (root / "src" / "out-deep").symlink_to("../../ws-evil")
    guard = PathGuard(root, by_name=by_name)

    for path in (
        "file-link",
        "folder-link/c.txt",
        "src/up-link",
        "absolute-link",
        "chain",
        "folder-link/../b.txt",
    ):
        assert read(guard, path) == b"in", path
    for path in ("out-file", "out-folder/secret.txt", "src/out-deep/secret.txt", "out-folder"):
        with pytest.raises(PathOutside):
            read(guard, path)


def test_a_loop_of_links_ends(root: Path) -> None:
    (root / "one").symlink_to("two")
    (root / "two").symlink_to("one")
    with pytest.raises(ToolFailed, match="too many symbolic links"):
        read(PathGuard(root), "one")


def test_the_real_place_is_told(root: Path) -> None:
    (root / "alias").symlink_to("src/deep")
    with PathGuard(root).open_read("alias/c.txt") as opened:
        assert opened.path == "src/deep/c.txt"
        assert opened.size == 2


@BY_NAME
def test_only_regular_files_are_opened(root: Path, by_name: bool) -> None:
    os.mkfifo(root / "fifo")
    server = socket.socket(socket.AF_UNIX)
    server.bind(os.path.relpath(root / "socket"))
    guard = PathGuard(root, by_name=by_name)
    began = time.monotonic()
    try:
        for path, what in (("fifo", "a pipe"), ("socket", "a socket"), ("src", "a folder")):
            with pytest.raises(ToolFailed, match=f"is {what}"):
                read(guard, path)
    finally:
        server.close()
    assert time.monotonic() - began < 2


@pytest.mark.skipif(not os.path.exists("/proc/self/environ"), reason="needs /proc")
@pytest.mark.parametrize(
    "path",
    [
        "proc/self/environ",
        "proc/self/mem",
        "dev/zero",
        "dev/null",
        "sys/kernel/notes",
        "proc/self/root/etc/passwd",
    ],
)
def test_the_systems_own_files_stay_shut_even_below_a_root_that_holds_them(path: str) -> None:
    with pytest.raises(ToolFailed):
        read(PathGuard(Path("/")), path)


@BY_NAME
@pytest.mark.parametrize("name", [".indusagi", ".IndusAgi", ".indus\u200cagi", ".\uff49ndusagi", ".indusagi."])
def test_the_agents_own_folder_is_shut_in_every_spelling(root: Path, name: str, by_name: bool) -> None:
    (root / "src" / name).mkdir()
    (root / "src" / name / "x").write_text("mine")
    (root / "sneak").symlink_to(f"src/{name}")
    guard = PathGuard(root, by_name=by_name)
    for path in (f"src/{name}/x", "sneak/x"):
        with pytest.raises(PathOutside, match="not for tools"):
            read(guard, path)


def test_a_file_above_the_limit_is_refused_before_it_is_read(root: Path) -> None:
    with (root / "sparse").open("wb") as stream:
        stream.truncate(1 << 40)
    with pytest.raises(ToolFailed, match="at most"):
        read(PathGuard(root), "sparse")


def test_missing_and_forbidden_are_told_apart(root: Path) -> None:
    guard = PathGuard(root)
    with pytest.raises(MissingPath, match="There is no src/nope"):
        read(guard, "src/nope")
    with pytest.raises(ToolFailed, match=r"goes through a\.txt, which is a file"):
        read(guard, "a.txt/x")


def test_a_workspace_that_vanished_is_said(root: Path) -> None:
    guard = PathGuard(root)
    shutil.rmtree(root)
    with pytest.raises(ToolFailed, match="workspace folder cannot be opened"):
        read(guard, "a.txt")


def test_no_descriptor_stays_open(root: Path) -> None:
    (root / "out").symlink_to("/etc")
    before = len(os.listdir("/dev/fd"))
    guard = PathGuard(root)
    for path in ("src/deep/c.txt", "out/passwd", "nope", "..", "src", "src/deep/../../a.txt"):
        for _ in range(5):
            with suppress(ToolFailed):
                read(guard, path)
    assert len(os.listdir("/dev/fd")) == before


# --- against an oracle
# ------------------------------------------------------------------------------------------------

NAMES = ("a", "b", "c")
COMPONENT = st.sampled_from((*NAMES, "..", ".", ""))
RELATIVE = st.lists(COMPONENT, min_size=1, max_size=5).map("/".join)
PLACE = st.lists(st.sampled_from(NAMES), min_size=1, max_size=3).map("/".join)
TARGET = st.one_of(
    RELATIVE,
    RELATIVE.map("{root}/".__add__),
    RELATIVE.map("{base}/".__add__),
    st.sampled_from(["../ws-evil", "../ws-evil/a", "../ws", "/", "../../ws-evil/a"]),
)


def oracle(root: str, path: str) -> bool:  # noqa: C901 (one plain loop is the easiest to trust)
    """Whether `path` exists and never leaves `root`, by names and `os.stat` alone."""
    pending = (path.removeprefix(root) if path == root or path.startswith(f"{root}/") else path).split("/")
    if path.startswith("/") and not (path == root or path.startswith(f"{root}/")):
        return False
    here, links = root, 0
    while pending:
        part = pending.pop(0)
        if part in ("", "."):
            continue
        if part == "..":
            if os.path.samefile(here, root):
                return False
            here = os.path.dirname(here)
            continue
        there = f"{here}/{part}"
        if os.path.islink(there):
            links += 1
            if links > 40:
                return False
            target = os.readlink(there)
            if target.startswith("/"):
                if not (target == root or target.startswith(f"{root}/")):
                    return False
                here, target = root, target.removeprefix(root)
            pending[:0] = target.split("/")
        elif os.path.isdir(there):
            here = there
        elif any(rest not in ("", ".") for rest in pending):
            return False
        else:
            here = there
            pending.clear()
        if not os.path.lexists(here):
            return False
    chain = [here]
    while os.path.dirname(chain[-1]) != chain[-1]:
        chain.append(os.path.dirname(chain[-1]))
    return any(os.path.samefile(folder, root) for folder in chain)


@settings(
    max_examples=5000 if os.environ.get("INDUSAGI_LONG") else 300,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(
    folders=st.lists(PLACE, max_size=4),
    files=st.lists(PLACE, max_size=4),
    links=st.lists(st.tuples(PLACE, TARGET), max_size=5),
    asked=st.lists(st.one_of(RELATIVE, RELATIVE.map("{root}/".__add__), TARGET), min_size=5, max_size=15),
)
def test_inside_is_what_the_oracle_says(
    folders: list[str], files: list[str], links: list[tuple[str, str]], asked: list[str]
) -> None:
    with tempfile.TemporaryDirectory() as made:
        base = os.path.realpath(made)
        root = f"{base}/ws"
        os.makedirs(f"{base}/ws-evil/a")
        Path(base, "ws-evil", "b").write_text("out")
        os.makedirs(root)
        for folder in folders:
            os.makedirs(f"{root}/{folder}", exist_ok=True)
        for place, target in [(file, None) for file in files] + links:
            path = f"{root}/{place}"
            try:
                os.makedirs(os.path.dirname(path), exist_ok=True)
                if target is None:
                    Path(path).write_text("in")
                elif not os.path.lexists(path) and os.path.realpath(os.path.dirname(path)).startswith(root):
                    os.symlink(target.format(root=root, base=base), path)
            except OSError:
                continue

        guard = PathGuard(Path(root))
        by_name = PathGuard(Path(root), by_name=True)
        for spelled in asked:
            path = spelled.format(root=root, base=base)
            inside = guard.inside(path)
            assert inside == oracle(root, path), path
            if inside:
                real = os.path.realpath(path if path.startswith("/") else f"{root}/{path}")
                assert real == root or real.startswith(f"{root}/")
                assert by_name.inside(path)


# --- against somebody who changes things meanwhile
# --------------------------------------------------------------------


def flip(swaps: list[tuple[Path, Path]], flips: int, stop: threading.Event) -> None:
    """Exchange each pair, over and over."""
    aside = swaps[0][0].parent / "aside"
    for _ in range(flips):
        if stop.is_set():
            return
        for one, other in swaps:
            os.rename(one, aside)
            os.rename(other, one)
            os.rename(aside, other)


@pytest.mark.timeout(300)
def test_a_racing_flipper_gets_nothing_outside(tmp_path: Path) -> None:
    root = tmp_path / "ws"
    outside = tmp_path / "outside"
    (root / "folder").mkdir(parents=True)
    outside.mkdir()
    for folder, text in ((root / "folder", "in"), (outside, "out")):
        (folder / "file").write_text(text)
    (root / "file").write_text("in")
    (root / "folder-link").symlink_to(outside)
    (root / "file-link").symlink_to(outside / "file")
    flips = 100_000 if os.environ.get("INDUSAGI_LONG") else 20_000
    stop = threading.Event()
    swaps = [(root / "folder", root / "folder-link"), (root / "file", root / "file-link")]
    flipper = threading.Thread(target=flip, args=(swaps, flips, stop))
    guard = PathGuard(root)
    seen: Counter[bytes | str] = Counter()
    flipper.start()
    try:
        while flipper.is_alive():
            for path in (
                "folder/file",
                "file",
                "folder-link/file",
                "file-link",
                "folder/../folder-link/file",
            ):
                try:
                    seen[read(guard, path)] += 1
                except ToolFailed as error:
                    seen[type(error).__name__] += 1
            try:
                with guard.open_folder("folder") as opened:
                    assert os.fstat(int(opened.handle)).st_ino != outside.stat().st_ino
            except ToolFailed:
                pass
    finally:
        stop.set()
        flipper.join()

    assert seen[b"out"] == 0
    # The race was a real one: both sides of it were met.
    assert seen[b"in"] > 50
    assert seen["PathOutside"] > 50

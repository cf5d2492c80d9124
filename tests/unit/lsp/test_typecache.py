"""The cache of generated code: quick, private, and never in the way."""

from __future__ import annotations

import os
import stat
import subprocess
import sys

import pytest

CODE = """
from indusagi_lsp.lsp import typecache
cache = typecache.load_types()
from lsprotocol import types
import attr._make
assert attr._make._compile_and_eval.__module__ == "attr._make"
a = types.WorkspaceFolder(uri="u", name="n")
assert a == types.WorkspaceFolder(uri="u", name="n") and repr(a) == "WorkspaceFolder(uri='u', name='n')", repr(a)
print(-1 if cache is None else cache.missed)
if cache is not None:
    cache.save_and_forget()
"""


@pytest.fixture
def load(tmp_path):
    def run(**env: str) -> int:
        done = subprocess.run(
            [sys.executable, "-c", CODE],
            env={**os.environ, "INDUSAGI_LSP_HOME": str(tmp_path / "home"), **env},
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
        assert done.returncode == 0, done.stderr
        assert done.stderr == ""
        return int(done.stdout)

    return run


@pytest.fixture
def kept(tmp_path, load):
    assert load() > 500
    [path] = (tmp_path / "home/cache/code").iterdir()
    return path


def test_the_second_start_compiles_nothing(kept, load):
    assert load() == 0
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    assert stat.S_IMODE(kept.parent.stat().st_mode) == 0o700


def test_what_is_doubtful_is_not_used(kept, load):
    good = kept.read_bytes()
    for bad in (good[:-1], good[:5000] + b"\0" + good[5001:], b"other" + good[5:]):
        kept.write_bytes(bad)
        assert load() > 500
    assert load() == 0, "it was written anew"


def test_what_others_could_write_is_not_used(kept, load):
    kept.chmod(0o666)
    assert load() > 500
    target = kept.with_name("elsewhere")
    kept.rename(target)
    kept.symlink_to(target)
    assert load() > 500


def test_a_folder_that_cannot_be_written_is_left_alone(tmp_path, load):
    (tmp_path / "home").write_text("a file")
    assert load() > 500


def test_a_folder_that_others_can_write_is_neither_read_nor_written(kept, load):
    kept.parent.chmod(0o777)
    assert load() > 500
    kept.unlink()
    assert load() > 500
    assert not list(kept.parent.iterdir())


def test_a_file_that_has_a_second_name_is_not_used(kept, load):
    os.link(kept, kept.with_name("second"))
    assert load() > 500


def test_a_relative_home_does_not_lead_into_the_folder_that_is_worked_in(kept, load):
    assert load(INDUSAGI_LSP_HOME="home") > 500


def test_only_the_home_that_was_named_is_written(tmp_path, load):
    load(XDG_CACHE_HOME=str(tmp_path / "xdg"))
    assert [path.name for path in tmp_path.iterdir()] == ["home"]


def test_another_attrs_is_left_alone(tmp_path):
    code = (
        "import attr._make as m; m._compile_and_eval = lambda *a: 1 / 0\n"
        "from indusagi_lsp.lsp import typecache\nassert typecache._patchable_attrs() is None"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)

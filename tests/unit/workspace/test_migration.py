"""Moving what is remembered from one kind of store to another, by the command."""

from __future__ import annotations

from pathlib import Path

import pytest

from indusagi_lsp.cli import main
from indusagi_lsp.memory import FileMemoryStore, MemoryScope
from indusagi_lsp.protocol import operations as o
from unit.workspace.rig import HostsRig


async def test_all_moves_and_counts_match(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    rig = HostsRig(tmp_path, [])
    await rig.folder()
    for number in range(5):
        await rig.call(o.REMEMBER, text=f"Fact {number}")
    await rig.call(o.REMEMBER, text="British spelling", scope="global")
    before = (await rig.call(o.MEMORY_EXPORT)).text
    await rig.hosts.shutdown()

    monkeypatch.setenv("INDUSAGI_LSP_HOME", str(tmp_path / "home"))
    move = ["memory", "migrate", "sqlite", "file", "--workspace", str(tmp_path / "ws")]
    assert main(move) == 0
    said = capsys.readouterr()
    assert "this folder: 5 entries, 5 copied, 0 there already" in said.out
    assert "all folders: 1 entries, 1 copied, 0 there already" in said.out
    assert "5 of 5" in said.err

    # As after an interruption: some are there, and the rest comes.
    store = FileMemoryStore(tmp_path / "ws" / ".indusagi" / "memory")
    assert store.delete(store.list()[0].identifier)
    assert main(move) == 0
    assert "this folder: 5 entries, 1 copied, 4 there already" in capsys.readouterr().out

    config = tmp_path / "home" / "config"
    config.mkdir(parents=True, exist_ok=True)
    (config / "config.toml").write_text('memory.store = "file"\n', "utf-8")
    rig.hosts = rig.again()
    await rig.folder()
    after = await rig.call(o.MEMORY_EXPORT)
    assert after.text == before
    listed = (await rig.call(o.MEMORY_LIST)).entries
    assert all(entry.trusted for entry in listed)
    assert MemoryScope.GLOBAL.value in {entry.scope for entry in listed}
    await rig.hosts.shutdown()


def test_what_is_no_store_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    for stores in (("sqlite", "mongo"), ("file", "file")):
        with pytest.raises(SystemExit):
            main(["memory", "migrate", *stores])
    assert "postgresql://" in capsys.readouterr().err

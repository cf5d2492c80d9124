"""A server keeps what folders remember where the user's own file says so, and nobody else can say it."""

from __future__ import annotations

import uuid
from pathlib import Path

import pytest

from indusagi_lsp.cli import main
from indusagi_lsp.protocol import operations as o
from indusagi_lsp.workspace.settings import read_user_config
from unit.workspace.rig import HostsRig

pytestmark = pytest.mark.redis


async def test_a_server_of_the_users_choice(
    tmp_path: Path, redis_address: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    rig = HostsRig(tmp_path, [])
    await rig.folder()
    await rig.call(o.REMEMBER, text=f"Before the move {uuid.uuid4()}")
    await rig.hosts.shutdown()

    monkeypatch.setenv("INDUSAGI_LSP_HOME", str(tmp_path / "home"))
    assert main(["memory", "migrate", "sqlite", redis_address, "--workspace", str(tmp_path / "ws")]) == 0
    assert "1 entries, 1 copied" in capsys.readouterr().out

    config = tmp_path / "home" / "config" / "config.toml"
    config.parent.mkdir(parents=True, exist_ok=True)
    config.write_text(f'[memory]\nstore = "redis"\naddress = "{redis_address}"\n', "utf-8")
    rig.hosts = rig.again()
    await rig.folder()
    (moved,) = (await rig.call(o.MEMORY_LIST)).entries
    assert moved.content.startswith("Before the move")
    assert moved.trusted
    private = (await rig.call(o.REMEMBER, text="Only mine", scope="global")).entry
    await rig.call(o.REMEMBER, text="On the server")
    await rig.hosts.shutdown()

    # Without the setting the folder has what lay in it, and what is for all folders never left the user.
    config.unlink()
    rig.hosts = rig.again()
    await rig.folder()
    local = (await rig.call(o.MEMORY_LIST)).entries
    assert {one.id for one in local} == {moved.id, private.id}
    await rig.hosts.shutdown()


async def test_an_editor_cannot_name_a_server(tmp_path: Path) -> None:
    rig = HostsRig(tmp_path, [])
    await rig.folder()
    notices = await rig.hosts.configure({"memory": {"store": "redis", "address": "redis://evil.example"}})
    assert any("memory.store" in notice.text for notice in notices)
    host = next(iter(rig.hosts._hosts.values()))
    assert host.settings.memory.store == "sqlite"
    await rig.hosts.shutdown()


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('memory.store = "redis"', "needs a `memory.address`"),
        ('memory.store = "postgres"\nmemory.address = "redis://x"', "postgresql://"),
        ('memory.address = "redis://x"', "only for the stores"),
    ],
)
def test_half_a_setting_is_told(tmp_path: Path, text: str, problem: str) -> None:
    path = tmp_path / "config.toml"
    path.write_text(text, "utf-8")
    user, notices = read_user_config(path)
    assert user.memory_server == ""
    assert problem in notices[0].text

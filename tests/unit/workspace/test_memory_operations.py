"""The operations on what is remembered, as a client asks for them."""

from __future__ import annotations

from pathlib import Path

import pytest

from indusagi_lsp.memory import Conflict, EntryNotFound
from indusagi_lsp.protocol import operations as o
from unit.workspace.rig import HostsRig


async def test_an_entry_is_shown_changed_explained_and_taken_elsewhere(tmp_path: Path) -> None:
    rig = HostsRig(tmp_path, [])
    await rig.folder()
    old = (await rig.call(o.REMEMBER, text="Ann loves tabs")).entry
    new = (await rig.call(o.REMEMBER, text="Ann hates tabs", supersedes=old.id)).entry
    shown = await rig.call(o.MEMORY_GET, id=new.id)
    assert [one.id for one in shown.history] == [old.id, new.id]
    assert (shown.entry.trusted, shown.entry.supersedes, shown.history[0].superseded_by) == (True, old.id, new.id)

    changed = (
        await rig.call(o.MEMORY_UPDATE, id=new.id, tags=["style"], expectedUpdatedAt=shown.entry.updated_at)
    ).entry
    assert (changed.content, changed.tags, changed.supersedes) == ("Ann hates tabs", ["style"], old.id)
    with pytest.raises(Conflict):
        await rig.call(o.MEMORY_UPDATE, id=new.id, text="x", expectedUpdatedAt=1)
    for operation, more in ((o.MEMORY_GET, {}), (o.MEMORY_ADOPT, {}), (o.MEMORY_EXPLAIN, {"text": "x"})):
        with pytest.raises(EntryNotFound):
            await rig.call(operation, id="nothing", **more)

    told = await rig.call(o.MEMORY_EXPLAIN, id=new.id, text="tabs")
    assert (told.rank is not None, told.words) == (True, {"tab": ["own"]})

    exported = await rig.call(o.MEMORY_EXPORT)
    assert exported.entries == 2
    await rig.call(o.FORGET, id=new.id)
    told_before = len(rig.outlet.memories)
    done = await rig.call(o.MEMORY_IMPORT, text=exported.text)
    assert (done.added, done.present, done.changed, done.kept, done.problems) == (1, 1, 0, 0, [])
    assert len(rig.outlet.memories) == told_before + 1
    assert (await rig.call(o.MEMORY_GET, id=new.id)).entry == changed
    await rig.hosts.shutdown()

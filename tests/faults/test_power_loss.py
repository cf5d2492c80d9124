"""Power is lost: a real file system on a loop device is shut down without flushing, and mounted again.

What was durably acknowledged before is there and identical; what was not may be gone, but never half there.
"""

from __future__ import annotations

import contextlib
import random
import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from faults import logs
from indusagi_lsp.contract.errors import PersistenceFault
from indusagi_lsp.contract.turns import Turn, user
from indusagi_lsp.sessions import Session, SessionStore

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="needs ext4 on a loop device")

SESSIONS = 5
"""How many sessions one loss of power meets."""

EXT4_IOC_SHUTDOWN = 0x8004587D
WITHOUT_FLUSH = 2


class Disk:
    """A small disk whose power can be cut."""

    def __init__(self, folder: Path) -> None:
        self._image = folder / "disk"
        self.place = folder / "mounted"
        self.place.mkdir()
        with self._image.open("wb") as file:
            file.truncate(48 << 20)
        subprocess.run(["mkfs.ext4", "-q", self._image], check=True, capture_output=True)
        self.mount()

    def mount(self) -> None:
        # Nothing reaches the disk by the mere passing of time.
        options = "loop,commit=600"
        subprocess.run(["mount", "-o", options, self._image, self.place], check=True, capture_output=True)

    def unmount(self) -> None:
        subprocess.run(["umount", self.place], check=True, capture_output=True)

    def cut(self) -> None:
        """From here on nothing reaches the disk, and what has not yet is lost."""
        import fcntl
        import os

        fd = os.open(self.place, os.O_RDONLY)
        try:
            fcntl.ioctl(fd, EXT4_IOC_SHUTDOWN, struct.pack("I", WITHOUT_FLUSH))
        finally:
            os.close(fd)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Disk]:
    try:
        made = Disk(tmp_path)
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f"no loss of power was tried: a disk cannot be mounted here ({error})")
    yield made
    subprocess.run(["umount", "-l", made.place], check=False, capture_output=True)


@pytest.mark.timeout(1_800 if logs.LONG else 300)
def test_what_was_durably_acknowledged_outlives_a_loss_of_power(disk: Disk) -> None:
    maker = random.Random(17)
    said: dict[Path, dict[str, Turn]] = {}
    kept: dict[Path, set[str]] = {}
    lost = 0
    for number in range(200 if logs.LONG else 30):
        # Half of the sessions, and of the folders that they lie in, are new; the others went through losses before.
        roots = list(kept)[-2:]
        roots += [disk.place / f"w{number}-{at}" / ".indusagi" / "sessions" for at in range(SESSIONS - len(roots))]

        async def write(roots: list[Path] = roots) -> None:
            stores: list[SessionStore] = []
            for root in roots:
                store = logs.store_at(root)
                stores.append(store)
                root.parent.parent.mkdir(exist_ok=True)
                session = await (store.open("s") if root in kept else store.create(cwd="file:///w", session_id="s"))
                await speak(session, maker, said.setdefault(root, {}), kept.setdefault(root, set()))
            disk.cut()
            for store in stores:
                with contextlib.suppress(PersistenceFault, OSError):
                    await store.close()

        logs.run(write())
        disk.unmount()
        disk.mount()
        for root in roots:
            if kept[root]:
                lost += check(root, said[root], kept[root])
            else:
                del kept[root]
    assert lost > SESSIONS, "what was not made durable is lost, or this tries nothing"


async def speak(session: Session, maker: random.Random, said: dict[str, Turn], kept: set[str]) -> None:
    """Say a few things; what was durable, and all before it, is noted in `kept`."""
    for turn in range(maker.randrange(1, 12)):
        durable = maker.random() < 0.3
        text = f"{len(said)} {turn} " + "x" * maker.choice([10, 3_000, 9_000])
        nodes = await session.append([user(text)], durable=durable)
        said.update({node.id: node.turn for node in nodes})
        if durable:
            kept |= set(session.graph.ids)


def check(root: Path, said: dict[str, Turn], kept: set[str]) -> bool:
    """The oracle; whether something that was not durable was lost."""
    state = logs.read(root)
    assert set(state.report.counts) <= {"torn"}, state.report.problems
    logs.check(state, said, kept)
    there = set(state.graph.ids)
    node = logs.append_one(root, f"after {len(said)}")
    state = logs.read(root)
    assert state.report.clean
    assert there < set(state.graph.ids)
    found = logs.contents(state)
    said[node] = found[node]
    return there < set(said) - {node}

"""The locks of executions: one holder, a look that disturbs nobody, and an event loop that never waits for the disk."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

import pytest
from blockbuster import blockbuster_ctx

from indusagi_lsp.contract.errors import InvalidState, PersistenceFault
from indusagi_lsp.workflows.claims import Claims

ROUNDS = 60


async def test_one_holder_at_a_time_and_the_next_one_afterwards(tmp_path: Path) -> None:
    one, other = Claims(tmp_path / "locks"), Claims(tmp_path / "locks")
    with blockbuster_ctx("indusagi_lsp"):
        async with one.hold("e"):
            with pytest.raises(InvalidState, match="another process"):
                async with other.hold("e"):
                    pytest.fail("both have it")
            assert await asyncio.to_thread(other.held, "e")
            async with other.hold("another"):
                pass
        assert not await asyncio.to_thread(other.held, "e")
        async with other.hold("e"):
            assert await asyncio.to_thread(one.held, "e")


async def test_a_look_never_makes_a_free_execution_seem_held(tmp_path: Path) -> None:
    claims = Claims(tmp_path / "locks")
    async with claims.hold("e"):
        pass
    stop = threading.Event()

    def look() -> None:
        while not stop.is_set():
            claims.held("e")

    lookers = [threading.Thread(target=look) for _ in range(3)]
    for looker in lookers:
        looker.start()
    try:
        for _ in range(ROUNDS):
            async with claims.hold("e"):
                pass
    finally:
        stop.set()
        for looker in lookers:
            await asyncio.to_thread(looker.join)


async def test_a_holder_that_is_cancelled_on_its_way_in_leaves_nothing_locked(tmp_path: Path) -> None:
    claims = Claims(tmp_path / "locks")
    for _ in range(20):

        async def hold() -> None:
            async with claims.hold("e"):
                await asyncio.Event().wait()

        task = asyncio.create_task(hold())
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert not await asyncio.to_thread(claims.held, "e")


async def test_a_folder_that_cannot_be_made_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(PersistenceFault):
        async with Claims(tmp_path / "file" / "locks").hold("e"):
            pytest.fail("nothing was locked")

"""Work that a cancellation must not cut in half."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


async def uninterrupted(work: Coroutine[Any, Any, T]) -> T:
    """Do `work` to its end; a cancellation that comes meanwhile is raised only then.

    A write that was cancelled in the middle would leave disk and memory in disagreement about what was said. Work that
    fails after a cancellation raises its own error: that something could not be written is not to be lost.
    """
    task = asyncio.create_task(work)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        while not task.done():
            try:
                await asyncio.wait({task})
            except asyncio.CancelledError:
                continue
        if not task.cancelled() and (failure := task.exception()) is not None:
            raise failure from None
        raise

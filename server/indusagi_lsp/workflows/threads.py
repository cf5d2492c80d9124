"""Running somebody's function in a thread of its own, which nobody has to wait for at the end."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

T = TypeVar("T")


async def in_own_thread(function: Callable[[], T], name: str) -> T:
    """Call `function` in a new daemon thread, and wait for its result.

    The threads of `asyncio.to_thread` are few, and are waited for when the loop closes; a function that hangs would
    take one of them for good. When this is cancelled the thread goes on by itself, and its result is dropped.
    """
    loop = asyncio.get_running_loop()
    done: asyncio.Future[T] = loop.create_future()

    def settle(result: T | None, error: BaseException | None) -> None:
        if done.done():
            return
        if error is not None:
            done.set_exception(error)
        else:
            done.set_result(result)  # type: ignore[arg-type]  # a None is a T where no error is given

    def work() -> None:
        result: T | None = None
        error: BaseException | None = None
        try:
            result = function()
        except StopIteration as stop:
            # A future refuses this one exception.
            error = RuntimeError(f"StopIteration: {stop}")
        except BaseException as raised:  # noqa: BLE001 - SystemExit too: it is told to who waits, and ends no thread of ours
            error = raised if isinstance(raised, Exception) else RuntimeError(f"{type(raised).__name__}: {raised}")
        with suppress(RuntimeError):
            # The loop may be closed by now.
            loop.call_soon_threadsafe(settle, result, error)

    threading.Thread(target=work, name=name, daemon=True).start()
    return await done

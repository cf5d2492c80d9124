"""Turns without end: one every ten seconds of a clock that the test moves, a fault every thirty, and flat memory.

A small day (600 turns) by default; a whole one (8,640 turns) with INDUSAGI_LONG=1. The models are called over HTTP on
this machine (in the small day only where a fault is due: the library takes most of the time), the sessions are on the
disk, the tools are the real ones.
"""

from __future__ import annotations

import asyncio
import errno
import gc
import itertools
import os
import statistics
import sys
import threading
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from indusagi_lsp.contract.errors import PersistenceFault
from indusagi_lsp.contract.events import TERMINAL
from indusagi_lsp.contract.models import ModelPart, ModelRequest
from indusagi_lsp.models import ModelsConfig, ProviderConfig, create_models
from indusagi_lsp.models.scripted import Reply, ScriptedCall, play
from indusagi_lsp.protocol import messages as m
from indusagi_lsp.protocol import operations as o
from indusagi_lsp.sessions import SessionStore, Signer, load_key
from indusagi_lsp.sessions.oscalls import OsCalls
from indusagi_lsp.workspace.hosts import Hosts
from support.fake_providers import Answer, FakeProvider
from support.model_bench import FakeClock
from unit.workspace.rig import HostsRig

LONG = os.environ.get("INDUSAGI_LONG") == "1"
TURNS = 8_640 if LONG else 600
TURNS_OF_A_SESSION = 4
TURNS_OF_A_SAMPLE = 24
SECONDS_OF_A_TURN = 10
SECONDS_OF_A_FAULT = 30
IDLE = 0.4
"""Seconds of silence after which a stream is ended; real ones, so there are few such faults."""

BLOCKS_PER_TURN = 6.0
"""0.5 MB per 1,000 turns, in pymalloc's blocks of 80 bytes."""

FAULTS = (
    "busy", "cut", "garbage", "disk", "stop", "slow client", "refused", "tool", "outside", "error after 200",
    "busy", "cut", "garbage", "disk", "stop", "slow client", "refused", "tool", "outside", "silence",
)  # fmt: skip
FAILING = frozenset({"cut", "garbage", "stop", "refused", "error after 200", "silence"})
"""Those that end the run; the others are coped with."""


class Disk(OsCalls):
    """A disk that is full when the test says so."""

    full = False

    def write(self, fd: int, data: bytes) -> int:
        if self.full:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return super().write(fd, data)


class Provider(FakeProvider):
    """Answers each prompt with a tool call and then with words, but where a fault is due."""

    def __init__(self) -> None:
        super().__init__("openai")
        self.fault = ""
        self.answers = self  # asked for each answer by its place, which does not matter here

    def __len__(self) -> int:
        return 1

    def __getitem__(self, _: int) -> Answer:
        asked = self.requests[-1].json["messages"]
        self.requests.clear()
        fault, self.fault = self.fault, ""
        if fault == "busy":
            return Answer(status=529, body={"error": {"message": "Overloaded"}}, headers={"retry-after": "2"})
        if fault == "refused":
            return Answer(status=400, body={"error": {"message": "Not this."}})
        if fault == "garbage":
            return Answer(raw=b"data: {not json\n\n")
        if fault in ("cut", "silence", "stop"):
            stop = {"cut_after": 900} if fault == "cut" else {"stall_after": 900}
            return Answer(text=["word "] * 200, **stop)
        if fault == "error after 200":
            return Answer(text=("some",), error=("server_error", "broken"))
        if asked[-1]["role"] == "tool":
            return Answer(text=("It says ", "hello."))
        path = '{"path": "nowhere/at all"}' if fault == "tool" else '{"path": "a.txt"}'
        return Answer(calls=(("c", "read_file", (path,)),))


class Models:
    """The models over HTTP; where `quick` is set, the same words without it."""

    def __init__(self, real: Any) -> None:
        self.quick = False
        self._real = real

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)

    def invoke(self, request: ModelRequest, /) -> AsyncIterator[ModelPart]:
        if not self.quick:
            return self._real.invoke(request)
        look = Reply(calls=(ScriptedCall("read_file", {"path": "a.txt"}, "c"),))
        return play(Reply("It says hello.") if request.turns[-1].role == "tool" else look, request)


class Soak:
    """Hosts on a clock of the test's own, and what is left of them."""

    def __init__(self, tmp_path: Path, provider: Provider) -> None:
        self.provider = provider
        self.clock = FakeClock()
        self.disk = Disk()
        self.rig = HostsRig(tmp_path, [])
        self.models = Models(
            create_models(
                ModelsConfig("fake:m", {"fake": ProviderConfig(base_url=provider.base_url, api_key="k")}),
                environ={},
                cache_dir=tmp_path,
                clock=self.clock,
                sleep=self.sleep,
                idle_seconds=IDLE,
            )
        )
        self.rig.hosts = Hosts(
            self.rig.outlet,
            environ={"INDUSAGI_LSP_HOME": str(tmp_path / "home")},
            clock=self.clock,
            source=lambda _: self.models,
        )
        self.faults = itertools.cycle(FAULTS)
        self.due = self.clock.seconds + SECONDS_OF_A_FAULT

    async def sleep(self, seconds: float) -> None:
        self.clock.seconds += seconds

    async def begin(self) -> str:
        return await self.rig.new()

    async def turn(self, session: str, number: int) -> None:
        """One prompt, with a fault where one is due; it ends once, and what was said is kept."""
        self.clock.seconds += SECONDS_OF_A_TURN
        fault = ""
        if self.clock.seconds >= self.due:
            fault = next(self.faults)
            self.due += SECONDS_OF_A_FAULT
        outlet, events = self.rig.outlet, len(self.rig.outlet.events)
        self.provider.fault = fault
        self.models.quick = not (LONG or fault)
        outlet.slow = fault == "slow client"
        if fault == "disk":
            final = await self.on_a_full_disk(session, number)
        elif fault == "stop":
            final = await self.stopped(session, number)
        else:
            if fault == "outside":
                await self.from_outside(session)
            final = await self.rig.say(session, f"prompt {number}")
        outlet.slow = False

        ends = [event for *_, event in outlet.events[events:] if isinstance(event, TERMINAL)]
        assert len(ends) == (2 if fault == "disk" else 1), fault
        # A machine that stands still for half a second makes a silence of its own.
        if final.phase != "settled" and "sent nothing" not in final.error.message:
            assert fault in FAILING, (fault, final.error)
        outlet.events.clear()
        outlet.statuses.clear()
        outlet.sessions.clear()

    async def on_a_full_disk(self, session: str, number: int) -> m.SnapshotView:
        """The disk is full for a while; when it is not any more, what was refused is made up for."""
        self.disk.full = True
        refused = await self.rig.say(session, f"refused {number}")
        assert refused.error.kind == PersistenceFault.kind
        self.disk.full = False
        return await self.rig.say(session, f"prompt {number}")

    async def stopped(self, session: str, number: int) -> m.SnapshotView:
        """The user stops the answer while it is given."""
        agent = (await self.host.session(session)).agent
        begun = asyncio.Event()
        dispose = agent.subscribe(lambda event: begun.set() if event.kind == "text_delta" else None)
        saying = asyncio.create_task(self.rig.say(session, f"prompt {number}"))
        await asyncio.wait({asyncio.create_task(begun.wait()), saying}, return_when=asyncio.FIRST_COMPLETED)
        await self.rig.call(o.ABORT, sessionId=session)
        dispose()
        return await saying

    async def from_outside(self, session: str) -> None:
        """Another window takes the session up, and leaves it again."""
        key = await asyncio.to_thread(load_key, self.rig.tmp_path / "home" / "state")
        other = SessionStore(self.host.store.root, signer=Signer(key))
        opened = await other.open(session)
        await opened.update(title="Seen from outside")
        await other.close()

    @property
    def host(self) -> Any:
        (host,) = self.rig.hosts._hosts.values()
        return host

    async def end_session(self, session: str, prompts: int) -> None:
        """Nothing that was said is lost; then the session goes."""
        view = await self.rig.call(o.RESUME, sessionId=session, limit=1_000)
        said = [block["text"] for turn in view.turns for block in turn.blocks if turn.role == "user"]
        assert [text for text in said if text.startswith("prompt ")] == [f"prompt {n}" for n in range(prompts)]
        await self.rig.call(o.SESSION_DELETE, sessionId=session)


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


def resident() -> float:
    """What the process has in memory, in megabytes."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGESIZE") / 1e6


def slope(values: list[float]) -> float:
    """How much a value grows from one sample to the next, over the last two thirds."""
    last = values[len(values) // 3 :]
    return statistics.linear_regression(range(len(last)), last).slope


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="needs /proc to count descriptors")
@pytest.mark.timeout(7_200 if LONG else 600)
async def test_a_day_of_turns_and_faults_loses_nothing_and_leaves_nothing(tmp_path: Path) -> None:
    async with Provider() as provider:
        soak = Soak(tmp_path, provider)
        await soak.rig.folder(trusted=False)  # what acts needs trust; what is looked at here needs none
        (tmp_path / "ws" / "a.txt").write_text("hello\n")
        soak.host.store._calls = soak.disk
        counts: dict[str, list[float]] = {"blocks": [], "descriptors": [], "threads": [], "tasks": [], "memory": []}
        looks: dict[str, Callable[[], float]] = {
            "blocks": sys.getallocatedblocks,
            "descriptors": descriptors,
            "threads": threading.active_count,
            "tasks": lambda: len(asyncio.all_tasks()),
            "memory": resident,
        }
        for _ in range(TURNS // TURNS_OF_A_SAMPLE):
            for _ in range(TURNS_OF_A_SAMPLE // TURNS_OF_A_SESSION):
                session = await soak.begin()
                for number in range(TURNS_OF_A_SESSION):
                    await soak.turn(session, number)
                await soak.end_session(session, TURNS_OF_A_SESSION)
            gc.collect()
            for name, look in looks.items():
                counts[name].append(look())
        await soak.rig.hosts.shutdown()
        await soak.models.close()

    assert slope(counts["blocks"]) / TURNS_OF_A_SAMPLE < BLOCKS_PER_TURN, counts["blocks"]
    for name in ("descriptors", "threads", "tasks"):
        settled = counts[name][len(counts[name]) // 3]
        assert abs(counts[name][-1] - settled) <= 2, (name, counts[name])
    if LONG:
        assert slope(counts["memory"]) / TURNS_OF_A_SAMPLE * 1_000 < 0.5, counts["memory"]

"""Real servers, what a user would say about them, and the count of what is left behind."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest

from indusagi_lsp.contract.approvals import ApprovalRequest, Decision, Verdict
from indusagi_lsp.contract.events import Notice
from indusagi_lsp.contract.tools import PlannedCall, PlanningTool, ToolContext, ToolOutcome
from indusagi_lsp.tools.mcp import McpConfig, McpServers, Pace

PROGRAMS = Path(__file__).parent / "programs"
QUICK = Pace(back_off=(0.05, 0.1, 0.2), healthy=60, relist=0.02, relist_max=0.5, progress=0.02, relisten=0.1)


class User:
    """Answers questions, and remembers them and what was told."""

    def __init__(self) -> None:
        self.answers: list[Decision] = []
        self.always: Decision = "always"
        self.asked: list[ApprovalRequest] = []
        self.told: list[Notice] = []
        self.changes = 0
        self.kept: dict[str, str] = {}

    async def __call__(self, request: ApprovalRequest) -> Verdict:
        self.asked.append(request)
        await asyncio.sleep(0)
        return Verdict(self.answers.pop(0) if self.answers else self.always)

    async def get(self, key: str) -> str | None:
        return self.kept.get(key)

    async def put(self, key: str, value: str) -> None:
        self.kept[key] = value

    def changed(self) -> None:
        self.changes += 1


class Desk:
    """The servers of one user, with short ways to use them."""

    def __init__(self, user: User, environ: dict[str, str]) -> None:
        self.user = user
        self.environ = environ
        self.open: list[McpServers] = []
        self._before = processes()

    def processes(self) -> set[int]:
        """What has come since the desk was set up: other tests of the same run may keep a database server running."""
        return processes() - self._before

    def servers(self, pace: Pace = QUICK, **config: McpConfig) -> McpServers:
        servers = McpServers(
            config,
            approver=self.user,
            grants=self.user,
            environ=self.environ,
            on_change=self.user.changed,
            on_report=self.user.told.append,
            pace=pace,
        )
        self.open.append(servers)
        return servers


def plain(*options: str, timeout: float = 10, env: dict[str, str] | None = None, **more: object) -> McpConfig:
    """The server by hand."""
    args = ("-IS", str(PROGRAMS / "plain.py"), *options)
    return McpConfig(command=sys.executable, args=args, timeout=timeout, env=env or {}, **more)


def modern(**more: object) -> McpConfig:
    """The server made with the SDK."""
    return McpConfig(command=sys.executable, args=(str(PROGRAMS / "modern.py"),), timeout=20, **more)


async def until(condition: Callable[[], object], seconds: float = 15) -> None:
    """Wait for something to become true."""
    async with asyncio.timeout(seconds):
        while not condition():  # noqa: ASYNC110 - what is waited for is another process
            await asyncio.sleep(0.01)


async def ready(servers: McpServers, *, count: int = 1, seconds: float = 20) -> dict[str, PlanningTool]:
    """The tools once that many servers are ready, by name."""
    await servers.tools(0)
    await until(lambda: sum(one.state == "ready" for one in servers.status()) >= count, seconds)
    return {tool.spec.name: tool for tool in await servers.tools()}


async def planned(
    tool: PlanningTool, update: Callable[[str], None] = lambda _: None, **arguments: object
) -> PlannedCall:
    return await tool.plan(arguments, ToolContext("session", "call", update=update))


async def ask(tool: PlanningTool, **arguments: object) -> ToolOutcome:
    """Plan a call and carry it out."""
    return await (await planned(tool, **arguments)).carry_out()


def processes() -> set[int]:
    """Everything that runs as our child or its."""
    parents: dict[int, int] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            if fields[0] != "Z":
                parents[int(entry.name)] = int(fields[1])
    ours = {os.getpid()}
    while True:
        more = {pid for pid, parent in parents.items() if parent in ours} - ours
        if not more:
            return ours - {os.getpid()}
        ours |= more


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.fixture
def user() -> User:
    return User()


@pytest.fixture(scope="session", autouse=True)
def sdk_loaded() -> None:
    """The first import takes a second and opens files that stay open; it must not count as a leak."""
    import mcp.client.client
    import mcp.client.streamable_http  # noqa: F401


@pytest.fixture
async def desk(user: User, tmp_path: Path) -> AsyncIterator[Desk]:
    """Servers that are closed in the end, after which nothing may be left of them."""
    home = tmp_path / "home"
    home.mkdir()
    await asyncio.to_thread(lambda: None)  # the pool's first thread is nobody's leak
    before = (processes(), len(os.listdir("/proc/self/fd")), len(asyncio.all_tasks()))
    environ = {**os.environ, "HOME": str(home), "INDUSAGI_TEST_SECRET": "s3cret"}
    desk = Desk(user, environ)
    yield desk
    for servers in desk.open:
        async with asyncio.timeout(2):
            await servers.close()
    await until(
        lambda: (processes() <= before[0], len(os.listdir("/proc/self/fd")) <= before[1]) == (True, True), seconds=3
    )
    assert len(asyncio.all_tasks()) <= before[2]
    watchers = [thread for thread in threading.enumerate() if thread.name.startswith("waitpid")]
    for thread in watchers:
        await asyncio.to_thread(thread.join, 2)
    assert not any(thread.is_alive() for thread in watchers)


@pytest.fixture
def strays() -> Iterator[list[int]]:
    """Processes that a test means to be gone; ended for good, should the test fail."""
    pids: list[int] = []
    yield pids
    for pid in pids:
        if alive(pid):
            os.kill(pid, signal.SIGKILL)

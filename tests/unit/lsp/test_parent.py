from __future__ import annotations

import os
import subprocess
import sys
import threading

import pytest

from indusagi_lsp.transport import parent
from indusagi_lsp.transport.lifeline import Lifeline


@pytest.fixture
def sleeper():
    process = subprocess.Popen(["sleep", "30"])
    yield process
    process.kill()
    process.wait()


def test_the_end_of_a_process_is_seen_at_once(sleeper):
    gone = threading.Event()
    assert parent.watch(sleeper.pid, gone.set)
    assert not gone.wait(0.05)
    sleeper.kill()
    assert gone.wait(2)


@pytest.mark.skipif(sys.platform == "win32", reason="signals")
def test_without_pidfd_it_is_polled(sleeper, monkeypatch):
    monkeypatch.setattr(sys, "platform", "other")
    monkeypatch.setattr(parent, "POLL_SECONDS", 0.01)
    gone = threading.Event()
    assert parent.watch(sleeper.pid, gone.set)
    sleeper.kill()
    sleeper.wait()
    assert gone.wait(2)


@pytest.mark.parametrize("pid", [0, -1, 2**31 + 1, 2**70, 9_999_999])
def test_nonsense_is_not_watched(pid):
    assert not parent.watch(pid, lambda: None)


def test_we_do_not_watch_ourselves():
    assert not parent.exists(os.getpid())


def test_the_nearest_end_counts_and_can_be_taken_back():
    ends: list[int] = []
    ended = threading.Event()

    def end(code: int) -> None:
        ends.append(code)
        ended.set()

    lifeline = Lifeline(end)
    lifeline.arm("a", 0.05, 1)
    lifeline.arm("b", 0.2, 2)
    lifeline.arm("b", 0.01, 3)
    lifeline.disarm("a")
    lifeline.disarm("nothing")
    assert ended.wait(2)
    assert ends == [2]

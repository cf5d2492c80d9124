"""Checkpoints over real stores: what is saved is restored, by another process too, and nothing else is."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from datetime import UTC, datetime, timedelta

import pytest

from indusagi_lsp.checkpoints import CheckpointManager, WorkflowCheckpoint, WorkflowContext
from indusagi_lsp.contract.errors import InvalidInput
from indusagi_lsp.memory import FileMemoryStore, MemoryEntry, MemoryQuery, SqliteMemoryStore


@pytest.fixture
def time():
    return [datetime(2026, 3, 1, tzinfo=UTC)]


@pytest.fixture(params=["file", "sqlite"])
def open_store(request, tmp_path, time):
    def opened(**options):
        options.setdefault("agent", "workflows")
        options.setdefault("now", lambda: time[0])
        if request.param == "file":
            return FileMemoryStore(tmp_path / "memory", **options)
        return SqliteMemoryStore(tmp_path / "memory.db", **options)

    return opened


def context(**values):
    return WorkflowContext(values, {"workflow_name": "release"})


def test_what_is_saved_is_loaded_by_a_fresh_manager(open_store, time):
    manager = CheckpointManager(open_store())
    saved = manager.save_checkpoint(
        "run-1", context(version="1.2", parts=[1, {"x": None}]), {"build", "test"}, "publish"
    )
    loaded = CheckpointManager(open_store()).load_checkpoint("run-1")
    assert loaded == saved
    assert isinstance(loaded, WorkflowCheckpoint)
    assert (loaded.workflow_name, loaded.execution_id, loaded.current_step_id) == ("release", "run-1", "publish")
    assert loaded.completed_step_ids == {"build", "test"}
    assert loaded.saved_at == saved.saved_at
    again = WorkflowContext.from_dict(loaded.context_state)
    assert again.get("parts") == [1, {"x": None}]
    assert again.get_metadata("workflow_name") == "release"
    assert again.as_dict() == context(version="1.2", parts=[1, {"x": None}]).as_dict()


def test_the_last_one_counts(open_store, time):
    manager = CheckpointManager(open_store())
    manager.save_checkpoint("run-1", context(), set(), "build")
    time[0] += timedelta(minutes=1)
    manager.save_checkpoint("run-1", context(), {"build"}, "test")
    assert manager.load_checkpoint("run-1").current_step_id == "test"
    assert len(manager.list_checkpoints("release")) == 1


def test_listing_by_workflow(open_store, time):
    store = open_store()
    manager = CheckpointManager(store, now=lambda: time[0])
    for number, name in enumerate(("release", "nightly", "release")):
        manager.save_checkpoint(f"run-{number}", WorkflowContext({}, {"workflow_name": name}), set(), "a")
        time[0] += timedelta(minutes=1)
    manager.save_checkpoint("run-x", WorkflowContext(), set(), None)
    manager.save_checkpoint("run-0", context(), {"a"}, "b")
    store.store(MemoryEntry(identifier="memory", content="{}", tags=["release"]))
    store.store(MemoryEntry(identifier="checkpoint:broken", content="{}", tags=["release", "checkpoint"]))
    assert [found.execution_id for found in manager.list_checkpoints("release")] == ["run-0", "run-2"]
    assert [found.execution_id for found in manager.list_checkpoints("unknown")] == ["run-x"]
    assert len(manager.list_checkpoints()) == 4
    assert manager.load_checkpoint("broken") is None
    assert manager.load_checkpoint("nothing") is None
    assert manager.delete_checkpoint("run-0") is True
    assert manager.delete_checkpoint("run-0") is False
    assert manager.load_checkpoint("run-0") is None


def test_a_state_that_is_no_json_is_refused_and_the_former_stays(open_store):
    manager = CheckpointManager(open_store())
    manager.save_checkpoint("run-1", context(), set(), "build")
    with pytest.raises(InvalidInput, match="release"):
        manager.save_checkpoint("run-1", context(thing=object()), {"build"}, "test")
    assert manager.load_checkpoint("run-1").current_step_id == "build"


def test_secrets_are_left_out(open_store):
    manager = CheckpointManager(open_store())
    key = "sk-" + "a1B2" * 8
    manager.save_checkpoint("run-1", context(output=["the key is " + key], x={key: 1}), set(), "a")
    state = manager.load_checkpoint("run-1").context_state
    assert key not in repr(state)
    assert state["values"]["output"] == ["the key is [redacted: api key]"]


def test_a_planted_checkpoint_is_not_restored(open_store):
    def mac(key):
        return lambda data: hashlib.sha256(key + data).hexdigest()

    CheckpointManager(open_store(mac=mac(b"theirs"))).save_checkpoint("run-1", context(), set(), "rm -rf")
    manager = CheckpointManager(open_store(mac=mac(b"mine")), require_trust=True)
    assert manager.load_checkpoint("run-1") is None
    assert manager.list_checkpoints() == []
    manager.save_checkpoint("run-2", context(), set(), "build")
    assert manager.load_checkpoint("run-2") is not None


def test_checkpoints_do_not_turn_up_among_memories(open_store):
    CheckpointManager(open_store()).save_checkpoint("run-1", context(word="ninja"), set(), "build")
    memories = open_store(agent="main")
    assert memories.list() == []
    assert memories.search(MemoryQuery(text="ninja release")) == []


def test_a_killed_process_leaves_its_last_checkpoint(tmp_path):
    code = (
        "import sys\n"
        "from indusagi_lsp.checkpoints import *\n"
        "from indusagi_lsp.memory import SqliteMemoryStore\n"
        "manager = CheckpointManager(SqliteMemoryStore(sys.argv[1], agent='workflows'))\n"
        "context = WorkflowContext({}, {'workflow_name': 'w'})\n"
        "for number in range(100000):\n"
        "    context.set('n', number)\n"
        "    manager.save_checkpoint('run', context, {str(done) for done in range(number)}, str(number))\n"
        "    print(number, flush=True)\n"
    )
    path = tmp_path / "m.db"
    worker = subprocess.Popen(
        [sys.executable, "-c", code, str(path)], stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True
    )
    assert worker.stdout is not None
    for number in range(20):
        assert worker.stdout.readline() == f"{number}\n"
    worker.kill()
    said = [int(line) for line in worker.stdout.read().split()]
    worker.stdout.close()
    worker.wait()
    found = CheckpointManager(SqliteMemoryStore(path, agent="workflows")).load_checkpoint("run")
    number = int(found.current_step_id)
    assert number >= max([19, *said])
    assert found.completed_step_ids == {str(done) for done in range(number)}
    assert found.context_state["values"]["n"] == number

"""A model-based test: any sequence of operations, crashes and hand edits keeps what a simple model says."""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from faults import logs
from indusagi_lsp.contract.turns import Turn, assistant, user
from indusagi_lsp.sessions import Session, SessionStore


class Sessions(RuleBasedStateMachine):
    """One session in two windows. The model: which turns were acknowledged, and the path that each window stands on."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp())
        self.root = self.folder / ".indusagi" / "sessions"
        self.runner = asyncio.Runner(loop_factory=logs.InlineLoop)
        self.stores: list[SessionStore] = []
        self.windows: list[Session] = []
        self.paths: list[list[Turn]] = []
        self.said: dict[str, Turn] = {}
        self.count = 0
        self.clean = True

    def teardown(self) -> None:
        for store in self.stores:
            self.runner.run(store.close())
        if self.windows:
            assert self.said.items() <= logs.contents(logs.read(self.root)).items()
        self.runner.close()
        shutil.rmtree(self.folder)

    def _run(self, coroutine):
        return self.runner.run(coroutine)

    def _open(self) -> Session:
        store = logs.store_at(self.root)
        self.stores.append(store)
        return self._run(store.open("s"))

    @initialize()
    def begin(self) -> None:
        store = logs.store_at(self.root)
        self.stores.append(store)
        self.windows = [self._run(store.create(cwd="file:///w", session_id="s"))]
        self.windows.append(self._open())
        self.paths = [[], []]

    def _note(self, window: int) -> None:
        session = self.windows[window]
        self.said.update({node.id: node.turn for node in session.graph.nodes_to(session.graph.leaf)})

    @rule(window=st.integers(0, 1), size=st.integers(1, 3))
    def append(self, window: int, size: int) -> None:
        turns = []
        for _ in range(size):
            self.count += 1
            turns.append((user if self.count % 2 else assistant)(f"turn {self.count}"))
        self._run(self.windows[window].append(turns))
        self.paths[window] = [*self.paths[window], *turns]
        self._note(window)

    @rule(window=st.integers(0, 1), where=st.integers(0, 1_000))
    def fork(self, window: int, where: int) -> None:
        path = self.windows[window].graph.ids_to(self.windows[window].graph.leaf)
        at = where % (len(path) + 1)
        self._run(self.windows[window].move_head(path[at - 1] if at else None, "fork"))
        self.paths[window] = self.paths[window][:at]

    @precondition(lambda self: any(self.paths))
    @rule(window=st.integers(0, 1), cut=st.integers(1, 1_000))
    def condense_and_perhaps_undo(self, window: int, cut: int) -> None:
        path = self.paths[window]
        if not path:
            return
        cut = cut % len(path) + 1
        self.count += 1
        summary = user(f"summary {self.count}")
        self._run(self.windows[window].condense(summary, cut))
        self._note(window)
        if cut % 2:
            self.paths[window] = [summary, *path[cut:]]
        else:
            self._run(self.windows[window].undo_condense())

    @rule(window=st.integers(0, 1))
    def crash_and_open_again(self, window: int) -> None:
        """The other window's head may have come later: then that is where the file stands."""
        others = self._open()
        self.windows[window]._log.close()
        self.windows[window] = others
        self.paths[window] = others.graph.path_to(others.graph.leaf)
        assert others.trusted
        if self.clean:
            assert others.report.clean

    @rule(torn=st.binary(min_size=1, max_size=40).filter(lambda torn: b"\n" not in torn and torn.strip(b"\0\r\t ")))
    def a_third_process_dies_while_it_writes(self, torn: bytes) -> None:
        with open(self.root / "s.jsonl", "ab") as file:
            file.write(b'{"type":"node","node":{"id":"' + torn)
        self.clean = False

    @rule(junk=st.sampled_from([b"\n", b"junk\n", b"\0\0\n", b'{"type":"weather"}\n', b"<<<<<<< HEAD\n"]))
    def somebody_edits_the_file(self, junk: bytes) -> None:
        path = self.root / "s.jsonl"
        content = path.read_bytes()
        if content.endswith(b"\n"):
            with open(path, "ab") as file:
                file.write(junk)
            self.clean = False

    @rule()
    def somebody_merges_the_file_with_itself(self) -> None:
        path = self.root / "s.jsonl"
        content = path.read_bytes()
        if content.endswith(b"\n") and len(content) < 12_000:
            (self.root / "merged").write_bytes(content + content)
            (self.root / "merged").replace(path)

    @rule(
        window=st.integers(0, 1),
        how=st.sampled_from(["delete", "rename", "replace", "cut"]),
        part=st.floats(0, 1),
    )
    def the_file_is_gone_replaced_or_cut_and_a_window_that_knew_it_goes_on(
        self, window: int, how: str, part: float
    ) -> None:
        path = self.root / "s.jsonl"
        # While a run seems to be under way a refresh does not take a replaced file in; an append does.
        self.append(window, 1)
        content = path.read_bytes()
        kept = content[: int(len(content) * part)]
        if how == "delete":
            path.unlink()
        elif how == "rename":
            path.replace(self.root / "s.jsonl.bak")
        elif how == "replace":
            (self.root / "copy").write_bytes(kept)
            (self.root / "copy").replace(path)
        else:
            os.truncate(path, len(kept))
            # What is neither in memory nor on the disk is lost: of other branches a window knows the places alone.
            graph = self.windows[window].graph
            here = logs.contents(logs.read(self.root)).keys() | {node for node in graph.ids if graph.turn(node)}
            self.said = {node: turn for node, turn in self.said.items() if node in here}
        if how in ("replace", "cut"):
            self.clean = False
        self.append(window, 1)
        self.refresh(1 - window)

    @rule(window=st.integers(0, 1))
    def refresh(self, window: int) -> None:
        session = self.windows[window]
        self._run(session.refresh())
        self.paths[window] = session.graph.path_to(session.graph.leaf)

    @invariant()
    def what_was_said_is_there_and_each_window_stands_where_it_was(self) -> None:
        for session, path in zip(self.windows, self.paths, strict=True):
            assert session.graph.path_to(session.graph.leaf) == path
            assert session.unsaved == 0
        if self.count % 16 == 0 and self.windows:
            state = logs.read(self.root)
            assert self.said.items() <= logs.contents(state).items()


Sessions.TestCase.settings = settings(
    # The same examples each time; the long run looks for new ones.
    derandomize=not logs.LONG,
    max_examples=20_000 if logs.LONG else int(os.environ.get("MODEL_EXAMPLES", "150")),
    stateful_step_count=50,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
TestSessions = Sessions.TestCase
TestSessions.pytestmark = [pytest.mark.timeout(300)]

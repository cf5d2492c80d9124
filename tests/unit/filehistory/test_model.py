"""Any order of edits, commands, the user's own changes, forks, condensations, crashes and restores keeps the promises.

The promises: what the user changed since is not touched unasked; nothing is removed that the agent did not make; every
content that the agent or a restore replaced is kept; where the user did nothing, going back gives exactly the files of
that node; a restore that is undone leaves no trace.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import shutil
import tempfile
from hashlib import sha256
from pathlib import Path

from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from indusagi_lsp.contract.turns import user
from indusagi_lsp.tools.writing import look, put
from unit.filehistory.rig import Played, tree

PATHS = st.sampled_from(["a", "d/e/f"])
LONG = os.environ.get("INDUSAGI_LONG") == "1"


class Rewinding(RuleBasedStateMachine):
    """The model is what the test itself has seen on disk, and who wrote it."""

    def __init__(self) -> None:
        super().__init__()
        # In memory where that can be had, since every step waits for the disk many times.
        self.folder = Path(tempfile.mkdtemp(dir="/dev/shm" if os.path.isdir("/dev/shm") else None))
        self.root = self.folder / "ws"
        self.root.mkdir()
        self.runner = asyncio.Runner()
        self.numbers = itertools.count()
        self.at_node: dict[str | None, dict] = {}
        self.mixed: set[str] = set()
        """Paths of which the files of a node are not known: the user, a command or a crash had a hand in them."""
        self.users: set[str] = set()
        """Paths whose last change on disk is the user's."""
        self.touched: set[str] = set()
        """Paths that the agent or a command ever changed."""
        self.replaced: set[bytes] = set()
        self.untold: dict[str, list[object]] = {}
        """Per path the states before edits that were killed."""
        self.restores: list[tuple[str, dict, dict]] = []
        self.log: dict[str, list[tuple[object, str]]] = {}
        """Per path every state that was on disk, in order, and who made it."""

    def teardown(self) -> None:
        self.played.history.close()
        self.runner.close()
        shutil.rmtree(self.folder)

    def wait(self, work):
        return self.runner.run(work)

    @property
    def tree(self):
        return tree(self.root)

    @initialize(there=st.sets(PATHS))
    def begin(self, there) -> None:
        self.played = Played(self.root)
        for path in there:
            self.played.write(path, self.content("u"))
        self.at_node[None] = self.tree
        self.saw("user")
        self.remember(self.played.say())

    def content(self, who: str) -> bytes:
        return f"{who}{next(self.numbers)}\n".encode()

    def remember(self, node: str) -> str:
        self.at_node[node] = self.tree
        return node

    def saw(self, who: str) -> None:
        there = self.tree
        for path in {*there, *self.log}:
            states = self.log.setdefault(path, [(None, "nobody")])
            if states[-1][0] == there.get(path):
                continue
            states.append((there.get(path), who))
            # What the user has taken back themselves is as if it had not been.
            base = next((at for at in reversed(range(len(states))) if states[at][1] != "user"), None)
            if base is not None and states[base][0] == there.get(path):
                del states[base + 1 :]
                self.users.discard(path)

    def will_replace(self, path: str) -> None:
        data = self.played.read(path)
        if data is not None:
            self.replaced.add(data)

    # --- what happens -------------------------------------------------------------------------------------------------

    @rule(changes=st.dictionaries(PATHS, st.booleans(), min_size=1, max_size=2))
    def agent_edits(self, changes) -> None:
        there = self.tree
        wanted = {path: self.content("a") if write or path not in there else None for path, write in changes.items()}
        for path in wanted:
            self.will_replace(path)
            if path in self.users:
                self.mixed.add(path)
        node = self.wait(self.played.edit(wanted))
        self.saw("agent")
        self.touched |= set(wanted)
        self.users -= set(wanted)
        self.remember(node)

    @rule(path=PATHS, write=st.booleans())
    def agent_runs_a_command(self, path, write) -> None:
        self.will_replace(path)
        data = self.content("c") if write else None
        node = self.wait(self.played.command(lambda: self.put(path, data)))
        self.saw("command")
        self.touched.add(path)
        self.mixed.add(path)
        self.users.discard(path)
        self.remember(node)

    @rule(path=PATHS, wrote=st.booleans())
    def the_server_is_killed_while_it_edits(self, path, wrote) -> None:
        self.will_replace(path)
        self.untold.setdefault(path, []).append(self.tree.get(path))
        data = self.content("a")
        call = self.played.call()
        self.wait(self.played.history.before({path: data}, "s1", call))
        if wrote:
            put(self.played.guard, look(self.played.guard, path), data)
            self.saw("agent")
            self.users.discard(path)
        self.touched.add(path)
        self.mixed.add(path)
        self.remember(self.played.result(call))
        self.reopen()

    @rule()
    def reopen(self) -> None:
        graph, calls, condensations = self.played.graph, self.played._calls, self.played.condensations
        clock = self.played.clock
        self.played.history.close()
        self.played = Played(self.root, clock=clock)
        self.played.graph, self.played._calls, self.played.condensations = graph, calls, condensations

    @rule(path=PATHS, what=st.sampled_from(["write", "remove", "chmod"]))
    def user_changes(self, path, what) -> None:
        there = self.tree
        if what == "write":
            data = self.content("u")
            self.put(path, data)
        elif path in there and what == "remove":
            self.put(path, None)
        elif path in there:
            (self.root / path).chmod(0o600 if there[path][1] != 0o600 else 0o755)
        if self.tree != there:
            self.users.add(path)
            self.mixed.add(path)
        self.saw("user")

    @rule(data=st.data())
    def fork(self, data) -> None:
        """Go on from another node and leave the files as they are."""
        node = data.draw(st.sampled_from(sorted(self.at_node, key=str)))
        pending = self.wait(self.played.plan(node)).items
        self.mixed |= {item.path for item in pending}
        self.played.graph.branch_from(node)

    @precondition(lambda self: self.played.graph.depth(self.played.graph.leaf) > 3)
    @rule(data=st.data())
    def condense(self, data) -> None:
        graph = self.played.graph
        old = graph.nodes_to(graph.leaf)
        cut = data.draw(st.integers(1, len(old) - 1))
        if any(old[at].turn.role == "tool" for at in (cut,)):
            cut -= 1
        if cut < 1:
            return
        graph.branch_from(None)
        summary = graph.append(user(f"[condensed {next(self.numbers)}]"), created_at=old[cut - 1].created_at)
        copies = {}
        for node in old[cut:]:
            copy = graph.append(node.turn, created_at=node.created_at)
            copies[copy.id] = node.id
            if node.id in self.at_node:
                self.at_node[copy.id] = self.at_node[node.id]
        self.played.condensations.append(
            {"type": "condense", "summary": summary.id, "from": old[-1].id, "cut": old[cut].id, "copies": copies}
        )
        self.wait(self.look_everywhere())

    async def look_everywhere(self) -> None:
        for node in self.at_node:
            await self.played.plan(node)

    @rule(data=st.data(), forced=st.booleans(), going=st.booleans())
    def restore(self, data, forced, going) -> None:
        node = data.draw(st.sampled_from(sorted(self.at_node, key=str)))
        plan = self.wait(self.played.plan(node))
        before = self.tree
        choices = {item.path: "restore" for item in plan.items if forced and not item.problem}
        for item in plan.items:
            if item.by_itself or item.path in choices:
                self.will_replace(item.path)
        done = self.wait(self.played.history.apply(plan, choices))
        after = self.tree
        self.check_restored(plan, before, after, choices)
        if forced or all(item.by_itself for item in plan.items):
            for path in set(before) | set(after) | set(self.at_node[node]):
                if path not in self.mixed:
                    assert after.get(path) == self.at_node[node].get(path), path
            assert not self.wait(self.played.plan(node)).items
        if done.id is not None:
            self.restores.append((done.id, before, after))
        if going:
            self.played.graph.branch_from(node)
        # Where the talk goes on with files of another node, what its next nodes had is not told by their way.
        self.mixed |= {item.path for item in self.wait(self.played.plan(self.played.graph.leaf)).items}

    def check_restored(self, plan, before, after, choices) -> None:
        chosen = {item.path for item in plan.items if item.by_itself} | set(choices)
        for path in set(before) | set(after):
            if before.get(path) == after.get(path):
                continue
            assert path in chosen
            assert path in self.touched
            if path not in choices:
                if before.get(path) in self.untold.get(path, ()):
                    continue  # as it was before an edit that was killed: nothing tells that there was anything since
                if (None, "restore") in self.log[path] and [one for one, _ in self.log[path]].count(None) > 2:
                    continue  # it is not known to which of the times when nothing was there it went back
                assert path not in self.users, f"{path} was the user's"
                undone = {self.log[path][at][1] for at in self.undone(path, after.get(path))}
                assert not undone & {"user", "command"}, f"{path}: {self.log[path]} to {after.get(path)}"
                assert path in after or self.maker(path) != "user", f"{path} was not the agent's to remove"
            self.users.discard(path)
        self.saw("restore")

    @precondition(lambda self: self.restores)
    @rule()
    def undo_the_last_restore(self) -> None:
        name, before, after = self.restores.pop()
        if self.tree != after:
            return
        plan = self.wait(self.played.history.plan_undo(self.played.lineage, name))
        for item in plan.items:
            self.will_replace(item.path)
        self.wait(self.played.history.apply(plan, {item.path: "restore" for item in plan.items}))
        assert self.tree == before
        self.saw("restore")
        # Whose the last change is was known before; so much is sure that none of it may be taken for the agent's.
        self.mixed |= {item.path for item in plan.items}

    # --- helpers ------------------------------------------------------------------------------------------------------

    def put(self, path: str, data: bytes | None) -> None:
        target = self.root / path
        if data is None:
            target.unlink(missing_ok=True)
            return
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(data)

    def undone(self, path: str, target: object) -> list[int]:
        """The states of a path that led to what is there, and not to the one that it is to have."""
        states = self.log[path]
        back_to = max(at for at, (state, _) in enumerate(states) if state == target)
        kept = self.led_to(states, back_to)
        return [at for at in self.led_to(states, len(states) - 1) if at not in kept]

    def led_to(self, states: list, at: int) -> list[int]:
        """The states that led to one; one that was restored came as it had come before."""
        found = []
        while at >= 0:
            state, who = states[at]
            before = [one for one in range(at) if states[one][0] == state]
            if who == "restore" and before:
                at = before[-1]
                continue
            found.append(at)
            at -= 1
        return found

    def maker(self, path: str) -> str:
        """Who made a file that was not there."""
        log = self.log[path]
        states = [(None, ""), *(log[at] for at in reversed(self.led_to(log, len(log) - 1)))]
        return next(who for (old, _), (new, who) in reversed(list(itertools.pairwise(states))) if old is None and new)

    @invariant()
    def nothing_that_was_replaced_is_lost(self) -> None:
        for data in self.replaced:
            assert (self.root / ".indusagi/files" / sha256(data).hexdigest()).read_bytes() == data


Rewinding.TestCase.settings = settings(
    max_examples=1000 if LONG else 120,
    stateful_step_count=50 if LONG else 25,
    deadline=None,
    suppress_health_check=list(HealthCheck),
    # A failing run of 20 steps can be read; making it shorter would take minutes.
    phases=(Phase.explicit, Phase.reuse, Phase.generate),
)


class TestRewinding(Rewinding.TestCase):
    """Run by pytest."""

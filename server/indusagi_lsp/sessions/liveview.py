"""The model's view of a live path that grows: what stands fast is kept, only the end is made anew.

A run looks at the view several times per step, and a path can have thousands of turns. Ids are content hashes, so the
view of a path up to some node never changes once every call on it has a stored result.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

from indusagi_lsp.contract.turns import Turn
from indusagi_lsp.sessions.graph import SessionGraph
from indusagi_lsp.sessions.view import model_view

_MAX_STEPS = 256
"""How far above the leaf to look for what stands fast, before the whole view is made anew."""


_Kept: TypeAlias = tuple[str | None, tuple[Turn, ...], int]
"""A node, the view of the path to it, and how many gaps the graph had."""


class LiveView:
    """Views of one graph. A thread may ask for one while the event loop does."""

    def __init__(self) -> None:
        # Taken and put as one value, so that two who ask at once cannot mix what they know.
        self._kept: _Kept = (None, (), 0)

    def of(self, graph: SessionGraph, leaf: str | None, receipts: Mapping[tuple[str, str], str]) -> tuple[Turn, ...]:
        """The view of the path to `leaf`; equal to `model_view` of the whole path.

        Args:
            graph: the same graph at every call.
            leaf: a node, or None for the empty path.
            receipts: the stage of each call that is known, by node and call id.

        Raises:
            NodeNotFound: there is no such node.
            OSError: a turn that is not in memory cannot be read.
        """
        if leaf is None:
            return ()
        fast, view, gaps = self._kept
        # Where a lost parent has turned up, paths that we have seen may begin earlier now.
        ids = _above(graph, fast, leaf) if gaps == graph.gaps else None
        turns = [graph.node(node).turn for node in ids] if ids is not None else []
        if ids is None or _reaches_up(turns):
            view = ()
            ids = graph.ids_to(leaf)
            turns = graph.path_to(leaf)

        found = ids
        view += model_view(turns, lambda at, call: (found[at], call) in receipts)
        if _stands_fast(turns):
            self._kept = (leaf, view, graph.gaps)
        return view


def _above(graph: SessionGraph, fast: str | None, leaf: str) -> list[str] | None:
    """The ids between what stands fast and `leaf`, in order; None if that does not lie on the path, or far up."""
    if fast is None or fast not in graph:
        return None
    ids: list[str] = []
    at: str | None = leaf
    while at != fast:
        if at is None or len(ids) >= _MAX_STEPS or at not in graph:
            return None
        ids.append(at)
        at = graph.parent(at)
    ids.reverse()
    return ids


def _reaches_up(turns: list[Turn]) -> bool:
    """Whether a result answers a call that is not in these turns, so that they cannot be viewed alone."""
    called: set[str] = set()
    for turn in turns:
        if any(result.call_id not in called for result in turn.tool_results):
            return True
        called.update(call.id for call in turn.tool_calls)
    return False


def _stands_fast(turns: list[Turn]) -> bool:
    """Whether every call of these turns has its result among them, so that nothing later can change their view."""
    waiting: set[str] = set()
    for turn in turns:
        waiting.update(call.id for call in turn.tool_calls)
        waiting.difference_update(result.call_id for result in turn.tool_results)
    return not waiting

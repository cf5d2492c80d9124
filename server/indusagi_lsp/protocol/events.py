"""Events and snapshots of the engine as the wire shows them: the one conversion, and the fast way to send it.

Most of what the server sends is text deltas, so these are put together from byte templates; everything else
is converted field by field. Turns never change, so the JSON of a turn that was sent once is kept and used
again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias

import orjson

from indusagi_lsp.contract import events as e
from indusagi_lsp.contract.jsontext import dumps
from indusagi_lsp.contract.turns import Turn, turn_to_json
from indusagi_lsp.protocol import messages as m
from indusagi_lsp.protocol.operations import EVENT

if TYPE_CHECKING:
    from indusagi_lsp.contract.models import Usage

TurnWriter: TypeAlias = Callable[[Turn], Any]

_HEAD = b'{"jsonrpc":"2.0","method":"' + EVENT.encode() + b'","params":{"workspace":%b,"sessionId":%b,"runId":%b,"seq":'
_KEPT_TURNS = 2048


def usage_view(usage: Usage) -> m.UsageView:
    """Tokens and money as the wire shows them."""
    return m.UsageView(usage.input, usage.output, usage.cache_read, usage.cache_write, usage.cost)


def fault_view(fault: e.Fault) -> m.FaultView:
    """What went wrong, as the wire shows it."""
    return m.FaultView(fault.kind, fault.message, fault.hint)


def snapshot_view(snapshot: e.RunSnapshot) -> m.SnapshotView:
    """A run's state as the wire shows it.

    Args:
        snapshot: the engine's own snapshot.

    Returns:
        The same with its turns as JSON data.
    """
    return m.SnapshotView(
        run_id=snapshot.run_id,
        session_id=snapshot.session_id,
        phase=snapshot.phase,
        messages=[turn_to_json(turn) for turn in snapshot.messages],
        pending=[m.PendingCallView(call.id, call.name, call.stage) for call in snapshot.pending],
        usage=usage_view(snapshot.usage),
        model=snapshot.model,
        leaf=snapshot.leaf,
        error=None if snapshot.error is None else fault_view(snapshot.error),
        partial=snapshot.partial,
    )


def event_to_json(event: e.RunEvent, write_turn: TurnWriter = turn_to_json) -> dict[str, Any]:
    """An event as JSON data: `kind` first, then its fields in camelCase.

    Args:
        event: the event.
        write_turn: how a turn becomes JSON.

    Returns:
        A new object, whose values may be shared with the event.
    """
    data: dict[str, Any] = {"kind": event.kind}
    for attribute, name in _WIRE_NAMES[type(event)]:
        value = getattr(event, attribute)
        if isinstance(value, e.RunSnapshot):
            value = _snapshot_json(value, write_turn)
        elif isinstance(value, e.Fault):
            value = {"kind": value.kind, "message": value.message, "hint": value.hint}
        elif isinstance(value, e.ToolResult):
            value = {"output": value.output, "isError": value.is_error}
        elif isinstance(value, tuple):
            value = list(value)
        data[name] = value
    return data


class EventEncoder:
    """Encodes the events of one server, and remembers what it will need again."""

    def __init__(self) -> None:
        self._key: tuple[str, str, str] | None = None
        self._head = b""
        self._turns: dict[int, tuple[Turn, orjson.Fragment]] = {}

    def notification(self, workspace: str, session_id: str, run_id: str, seq: int, at: int, event: e.RunEvent) -> bytes:
        """Encode one event.

        Args:
            workspace: URI of the folder.
            session_id: the session.
            run_id: the run; empty for what belongs to none.
            seq: the event's number, gapless in its session.
            at: milliseconds since the epoch.
            event: what happened.

        Returns:
            The UTF-8 JSON body of an `indusagi/event` notification, without header.
        """
        key = (workspace, session_id, run_id)
        if key != self._key:
            self._head = _HEAD % (dumps(workspace), dumps(session_id), dumps(run_id))
            self._key = key
        if type(event) is e.TextDelta:
            try:
                delta = orjson.dumps(event.delta)
            except orjson.JSONEncodeError:
                delta = dumps(event.delta)
            return b'%b%d,"at":%d,"event":{"kind":"text_delta","delta":%b}}}' % (self._head, seq, at, delta)
        try:
            data = orjson.dumps(event_to_json(event, self._turn))
        except orjson.JSONEncodeError:
            # A text with a lone surrogate; the slow way knows no ready-made turns.
            data = dumps(event_to_json(event))
        return b'%b%d,"at":%d,"event":%b}}' % (self._head, seq, at, data)

    def _turn(self, turn: Turn) -> orjson.Fragment:
        kept = self._turns.get(id(turn))
        if kept is not None:
            return kept[1]

        fragment = orjson.Fragment(dumps(turn_to_json(turn)))
        if len(self._turns) >= _KEPT_TURNS:
            # The oldest goes; a long session then re-encodes from its beginning, which costs time, not
            # correctness.
            del self._turns[next(iter(self._turns))]
        # The turn itself is kept beside its JSON, so that its id cannot be given to another object.
        self._turns[id(turn)] = (turn, fragment)
        return fragment


def _snapshot_json(snapshot: e.RunSnapshot, write_turn: TurnWriter) -> dict[str, Any]:
    usage, error = snapshot.usage, snapshot.error
    return {
        "runId": snapshot.run_id,
        "sessionId": snapshot.session_id,
        "phase": snapshot.phase,
        "messages": [write_turn(turn) for turn in snapshot.messages],
        "pending": [{"id": call.id, "name": call.name, "stage": call.stage} for call in snapshot.pending],
        "usage": {
            "input": usage.input,
            "output": usage.output,
            "cacheRead": usage.cache_read,
            "cacheWrite": usage.cache_write,
            "cost": usage.cost,
        },
        "model": snapshot.model,
        "leaf": snapshot.leaf,
        "error": None if error is None else {"kind": error.kind, "message": error.message, "hint": error.hint},
        "partial": snapshot.partial,
    }


def camel(name: str) -> str:
    """`run_id` as `runId`."""
    head, *tail = name.split("_")
    return head + "".join(part.capitalize() for part in tail)


EVENT_TYPES: tuple[type[Any], ...] = e.RunEvent.__args__
"""Every kind of event, in the order of the contract."""

_WIRE_NAMES: dict[type[Any], tuple[tuple[str, str], ...]] = {
    cls: tuple((name, camel(name)) for name in cls.__struct_fields__) for cls in EVENT_TYPES
}

"""Sessions, nodes, memories and models of the engine as the wire shows them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from indusagi_lsp.condensation import estimate_turn_tokens
from indusagi_lsp.contract.events import Notice
from indusagi_lsp.contract.models import ModelCard
from indusagi_lsp.contract.turns import turn_to_json
from indusagi_lsp.memory import MemoryEntry
from indusagi_lsp.protocol import messages as m
from indusagi_lsp.sessions import LoadReport, Node, SessionSummary
from indusagi_lsp.sessions.preview import preview


def notice_view(notice: Notice) -> m.NoticeView:
    """Something that the user should know."""
    return m.NoticeView(level=notice.level, code=notice.code, text=notice.text)


def session_info(summary: SessionSummary, workspace: str, state: m.SessionState) -> m.SessionInfo:
    """A session in a list."""
    return m.SessionInfo(
        id=summary.id,
        workspace=workspace,
        title=summary.title,
        created_at=summary.created_at,
        updated_at=summary.updated_at,
        turns=summary.turns,
        head=summary.head,
        tokens=summary.tokens,
        cost=summary.cost,
        state=state,
        model=summary.model,
        parent_session=summary.parent_session,
    )


def turn_view(node: Node) -> m.TurnView:
    """One turn of a path."""
    turn = turn_to_json(node.turn)
    return m.TurnView(
        id=node.id,
        role=turn["role"],
        blocks=turn["blocks"],
        created_at=int(node.created_at),
        gap=node.gap,
        verified=node.verified,
    )


def tree_nodes(nodes: Iterable[Node], labels: Mapping[str, str]) -> list[m.TreeNode]:
    """The nodes of a graph."""
    return [
        m.TreeNode(
            id=node.id,
            parent=node.parent,
            role=node.turn.role,
            preview=preview(node.turn),
            label=labels.get(node.id),
            tokens=estimate_turn_tokens(node.turn),
            created_at=int(node.created_at),
        )
        for node in nodes
    ]


def condense_link(record: Mapping[str, Any]) -> m.CondenseLink | None:
    """The record of a condensation; None for one that does not say what it ties together."""
    summary, source = record.get("summary"), record.get("from")
    if not isinstance(summary, str) or not isinstance(source, str):
        return None
    return m.CondenseLink(
        summary=summary,
        source=source,
        cut=record["cut"] if isinstance(record.get("cut"), str) else None,
        trigger=str(record.get("trigger", "")),
        before=_count(record.get("before")),
        after=_count(record.get("after")),
    )


def session_notices(report: LoadReport, *, trusted: bool, unsaved: int = 0, others: Sequence[str] = ()) -> list[Notice]:
    """What is to be known of a session before one goes on in it.

    Args:
        report: what was wrong with its file.
        trusted: whether its live path is this user's own.
        unsaved: how many records are in memory alone.
        others: what else is to be said.
    """
    notices = []
    if report.skipped:
        text = f"{report.skipped} piece(s) of the file could not be read; they were left where they are."
        notices.append(Notice("warning", "skipped_records", text))
    if report.torn:
        notices.append(Notice("warning", "torn_record", "The last record was cut off; a copy of it will be kept."))
    if report.unverified:
        text = f"{report.unverified} turn(s) are not what their ids say: the file was edited."
        notices.append(Notice("warning", "unverified", text))
    if report.gaps:
        notices.append(Notice("warning", "gap", f"The history above {report.gaps} turn(s) is missing."))
    if not trusted:
        text = "This session was written by somebody else. Adopt it to go on in it."
        notices.append(Notice("warning", "foreign", text))
    if unsaved:
        notices.append(Notice("error", "persistence", f"{unsaved} record(s) are not on the disk yet."))
    return [*notices, *(Notice("warning", "session", text) for text in others)]


def memory_entry(entry: MemoryEntry) -> m.MemoryEntryView:
    """Something remembered."""
    source = entry.source
    expires = entry.expires_at
    return m.MemoryEntryView(
        id=entry.identifier,
        content=entry.content,
        tags=list(entry.tags),
        metadata=dict(entry.metadata),
        scope=entry.scope.value,
        created_at=_ms(entry.created_at),
        updated_at=_ms(entry.updated_at),
        expires_at=_ms(expires) if expires is not None else None,
        source=m.MemorySource(session=source.session, node=source.node) if source is not None else None,
        trusted=entry.trusted,
        tainted=entry.tainted,
        supersedes=entry.supersedes,
        superseded_by=entry.superseded_by,
    )


def model_info(card: ModelCard, *, available: bool, note: str) -> m.ModelInfo:
    """A model that can be named."""
    return m.ModelInfo(
        id=card.id,
        provider=card.provider,
        name=card.name,
        window=card.window,
        tools=card.tools,
        local=card.local,
        available=available,
        note=note or card.note,
    )


def _ms(moment: Any) -> int:
    return int(moment.timestamp() * 1000)


def _count(value: Any) -> int:
    return int(value) if isinstance(value, (int, float)) and abs(value) < 1e15 else 0

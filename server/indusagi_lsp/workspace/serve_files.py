"""The operations on the user's files that the agent has changed: what it did, and the way back."""

from __future__ import annotations

from collections.abc import Sequence

from indusagi_lsp.conductor.uninterrupted import uninterrupted
from indusagi_lsp.contract.errors import IndusagiError, InvalidInput, InvalidState, NodeNotFound
from indusagi_lsp.contract.text import quoted
from indusagi_lsp.filehistory import WHY, Lineage, Member, Restored, RestorePlan
from indusagi_lsp.protocol import messages as m
from indusagi_lsp.sessions import Session
from indusagi_lsp.workspace.host import Host

MAX_ANCESTORS = 64
MAX_TEXT_BYTES = 4_000_000


async def changes(host: Host, params: m.FilesChangesParams) -> m.FilesChangesResult:
    """`files/changes`: on the way to a node, by default the live leaf."""
    session = (await host.session(params.session_id)).session
    node = params.node or session.graph.leaf
    await host.settle_files()
    found = await host.files.changes(await lineage(host, session), node)
    return m.FilesChangesResult(
        node=node,
        files=[
            m.FileChangeView(
                path=file.path,
                kind=file.kind,
                by=file.by,
                calls=[m.FileCallView(call_id=call, node=where) for call, where in file.calls],
                kept=file.kept,
            )
            for file in found
        ],
    )


async def restore(host: Host, params: m.FilesRestoreParams) -> m.FilesRestoreResult:
    """`files/restore`: a plan with `preview`, else the outcome. No run of the session comes in between."""
    live = await host.session(params.session_id)
    if params.preview:
        return _result(await _settled_plan(host, live.session, params))
    if not host.trusted:
        raise InvalidState("No file is changed in a folder that is not trusted.", hint="Trust the folder first.")
    if params.token is None and "restore" in params.choices.values():
        raise InvalidInput("A choice needs the token of the plan that it was made on.", hint="Ask for it first.")
    async with live.agent.at_rest("restore files"):
        # To its end, even where the request is cancelled: the threads that write cannot be.
        return await uninterrupted(_carry_out(host, live.session, params))


async def _carry_out(host: Host, session: Session, params: m.FilesRestoreParams) -> m.FilesRestoreResult:
    plan = await _settled_plan(host, session, params)
    if params.token is not None and params.token != plan.token:
        raise InvalidState("The files have changed since they were looked at.", hint="Look at the plan again.")
    return _result(plan, await host.files.apply(plan, params.choices))


async def content(host: Host, params: m.FilesContentParams) -> m.FilesContentResult:
    """`files/content`: for a client that shows a plan in a diff editor of its own."""
    session = (await host.session(params.session_id)).session
    plan = await _plan(host, session, params)
    item = next((item for item in plan.items if item.path == params.path), None)
    if item is None:
        raise InvalidInput(f"{quoted(params.path)} is not among the files to restore.", hint="Ask for the plan first.")
    data = await host.files.content(item)
    return m.FilesContentResult(path=item.path, text=None if data is None else _text(data))


async def lineage(host: Host, session: Session) -> Lineage:
    """A session with all that it was forked from, as far as that is still there."""
    members = [_member(session, None)]
    known = {session.id}
    parent, until = session.meta.parent_session, session.meta.created_at
    while parent is not None and parent not in known and len(members) < MAX_ANCESTORS:
        known.add(parent)
        try:
            opened = host.live[parent].session if parent in host.live else await host.store.open(parent)
        except IndusagiError:
            break
        members.append(_member(opened, until))
        parent, until = opened.meta.parent_session, opened.meta.created_at
        if opened.id not in host.live:
            await opened.close()
    return Lineage(members)


def _member(session: Session, until: int | None) -> Member:
    return Member(session.graph, tuple(session.condensations), tuple(session.receipts), until)


async def _settled_plan(host: Host, session: Session, params: m.FilesRestoreParams) -> RestorePlan:
    await host.settle_files()
    return await _plan(host, session, params)


async def _plan(host: Host, session: Session, params: m.FilesRestoreParams | m.FilesContentParams) -> RestorePlan:
    family = await lineage(host, session)
    if params.undo is not None:
        return await host.files.plan_undo(family, params.undo)
    if params.node is None:
        raise InvalidInput("It is not said where to go back to.", hint="Give a node, or a restore to undo.")
    if params.node not in session.graph:
        raise NodeNotFound(session.id, params.node)
    return await host.files.plan_restore(family, session.graph.parent(params.node) if params.before else params.node)


def _result(plan: RestorePlan, done: Restored | None = None) -> m.FilesRestoreResult:
    return m.FilesRestoreResult(
        applied=done is not None,
        token=plan.token,
        files=[
            m.FileRestoreView(
                path=item.path,
                action=item.action,
                by=item.by,
                conflicts=list(item.why),
                reason=_sentence([WHY[why] for why in item.why]),
                problem=item.problem,
                diff=item.diff,
            )
            for item in plan.items
        ],
        restore=done.id if done is not None else None,
        restored=list(done.restored) if done is not None else [],
        kept=list(done.kept) if done is not None else [],
    )


def _text(data: bytes) -> str | None:
    """A content for people to look at; None where it is none."""
    if len(data) > MAX_TEXT_BYTES or b"\0" in data:
        return None
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return None


def _sentence(reasons: Sequence[str]) -> str:
    text = "; ".join(reasons)
    return f"{text[0].upper()}{text[1:]}." if text else ""

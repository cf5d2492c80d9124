"""The operations on sessions and their graphs."""

from __future__ import annotations

from indusagi_lsp.contract.errors import InvalidInput, NodeNotFound
from indusagi_lsp.contract.models import Usage
from indusagi_lsp.protocol import messages as m
from indusagi_lsp.protocol.events import usage_view
from indusagi_lsp.protocol.views import (
    condense_link,
    notice_view,
    preview,
    session_info,
    session_notices,
    tree_nodes,
    turn_view,
)
from indusagi_lsp.sessions import Session, SessionSummary
from indusagi_lsp.workspace.host import Host
from indusagi_lsp.workspace.live import LiveSession

PAGE = 200
"""Turns of a page, and sessions of a list, where the client does not say."""


async def new(host: Host, params: m.SessionNewParams) -> m.SessionInfo:
    """`session/new`."""
    live = await host.new_session(title=params.title, model=params.model)
    return info(host, await live.session.summary())


async def listing(host: Host, params: m.SessionListParams) -> m.SessionListResult:
    """`session/list`: the newest first; a cursor is the place after which to go on."""
    await host.watch()
    summaries = sorted(await host.store.summaries(), key=lambda one: (-one.updated_at, one.id))
    summaries = [one for one in summaries if params.archived or not one.archived]
    if params.query:
        wanted = params.query.casefold()
        summaries = [one for one in summaries if wanted in one.title.casefold() or wanted in one.id.casefold()]
    if params.cursor:
        after = _read_cursor(params.cursor)
        summaries = [one for one in summaries if (-one.updated_at, one.id) > after]
    limit = params.limit or PAGE
    page = summaries[:limit]
    cursor = f"{page[-1].updated_at}:{page[-1].id}" if len(summaries) > limit else None
    return m.SessionListResult(sessions=[info(host, one) for one in page], next_cursor=cursor)


async def resume(host: Host, params: m.ResumeParams) -> m.SessionView:
    """`resume`: a page of the live path; with `node`, the head is moved there first."""
    live = await host.session(params.session_id)
    if params.node is not None and params.node != live.session.graph.leaf:
        await live.agent.resume(params.session_id, params.node)
        host.changed()
    return await _view(host, live, params)


async def tree(host: Host, params: m.SessionParams) -> m.TreeResult:
    """`session/tree`."""
    session = (await host.session(params.session_id)).session
    graph = session.graph
    return m.TreeResult(
        nodes=tree_nodes((graph.node(node) for node in graph.ids), session.labels),
        condensations=[link for record in session.condensations if (link := condense_link(record)) is not None],
        leaves=list(graph.leaves()),
        head=graph.leaf,
    )


async def fork(host: Host, params: m.ForkParams) -> m.ForkResult:
    """`fork`: in place, or as a session of its own."""
    live = await host.session(params.session_id)
    if not params.new_session:
        point = await live.agent.fork(params.node, before=params.before)
        host.changed()
        return m.ForkResult(leaf=point.leaf, session_id=params.session_id, prefill=point.prefill)
    point = live.agent.fork_point(params.node, before=params.before)
    forked = await host.adopt_fork(await live.session.fork_to_new(point.leaf))
    return m.ForkResult(leaf=forked.session.graph.leaf, session_id=forked.session.id, prefill=point.prefill)


async def adopt(host: Host, params: m.SessionParams) -> m.AdoptResult:
    """`session/adopt`: the user vouches for what somebody else wrote."""
    session = (await host.session(params.session_id)).session
    await session.move_head(session.graph.leaf, "adopt")
    host.changed()
    return m.AdoptResult(session_id=session.id, head=session.graph.leaf)


def info(host: Host, summary: SessionSummary) -> m.SessionInfo:
    """A session as lists show it, with what is known of it here and now."""
    live = host.live.get(summary.id)
    state: m.SessionState = "idle"
    if live is not None and live.agent.running:
        state = "running"
    elif not summary.trusted:
        state = "foreign"
    elif summary.interrupted and not (live is not None and live.agent.phase in ("settled", "faulted")):
        # The file cannot tell a run that failed from one that was cut off; who saw its end can.
        state = "interrupted"
    return session_info(summary, host.uri, state)


async def _view(host: Host, live: LiveSession, params: m.ResumeParams) -> m.SessionView:
    session = live.session
    graph = session.graph
    path = graph.ids_to(graph.leaf)
    end = len(path)
    if params.before is not None:
        end = path.index(params.before) if params.before in path else -1
        if end < 0:
            raise NodeNotFound(session.id, params.before)
    start = max(0, end - (params.limit or PAGE))
    page = [graph.node(node) for node in path[start:end]]
    total = Usage()
    for usage in session.usages.values():
        total = total + usage
    return m.SessionView(
        session=info(host, await session.summary()),
        turns=[turn_view(node) for node in page],
        head=graph.leaf,
        branches=_branches(session),
        usage=usage_view(total),
        labels=dict(session.labels),
        trusted=session.trusted,
        notices=[notice_view(notice) for notice in (*session_notices(session), *host.notices)],
        before=page[0].id if start > 0 else None,
        seq=live.stream.seq,
    )


def _branches(session: Session) -> list[m.BranchView]:
    graph = session.graph
    branches = []
    for leaf in graph.leaves():
        node = graph.node(leaf)
        branches.append(
            m.BranchView(
                leaf=leaf,
                preview=preview(node.turn),
                turns=len(graph.ids_to(leaf)),
                updated_at=node.created_at,
                live=leaf == graph.leaf,
            )
        )
    return branches


def _read_cursor(cursor: str) -> tuple[int, str]:
    updated_at, colon, session_id = cursor.partition(":")
    if not colon or not (updated_at.isascii() and updated_at.isdigit()):
        raise InvalidInput("This is no cursor of a list.", hint="Give the `nextCursor` of an answer, or none.")
    return -int(updated_at), session_id

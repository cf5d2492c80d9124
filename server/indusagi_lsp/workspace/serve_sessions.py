"""The operations on sessions and their graphs."""

from __future__ import annotations

import asyncio

from indusagi_lsp.contract.errors import InvalidInput
from indusagi_lsp.protocol import messages as m
from indusagi_lsp.protocol.events import usage_view
from indusagi_lsp.protocol.views import (
    condense_link,
    notice_view,
    session_info,
    session_notices,
    tree_nodes,
    turn_view,
)
from indusagi_lsp.sessions import Look, SessionSummary
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
    limit = params.limit or PAGE
    if params.node is None and params.before is None:
        look = await host.look(params.session_id, limit)
        if look is not None:
            return _view(host, look)
    live = await host.session(params.session_id)
    if params.node is not None and params.node != live.session.graph.leaf:
        await live.agent.resume(params.session_id, params.node)
        host.changed()
    return _view(host, await live.session.look(limit, params.before), live)


async def tree(host: Host, params: m.SessionParams) -> m.TreeResult:
    """`session/tree`."""
    session = (await host.session(params.session_id)).session
    graph = session.graph
    labels = session.labels
    return m.TreeResult(
        nodes=await asyncio.to_thread(lambda: tree_nodes(graph.nodes(), labels)),
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


def _view(host: Host, look: Look, live: LiveSession | None = None) -> m.SessionView:
    """The view of a session that is in use (`live`), or is only looked at."""
    outline = look.outline
    summary = outline.summary
    if live is None:
        trusted = summary.trusted
        notices = session_notices(outline.report, trusted=trusted)
    else:
        session = live.session
        trusted = session.trusted
        notices = session_notices(session.report, trusted=trusted, unsaved=session.unsaved, others=session.notices)
    return m.SessionView(
        session=info(host, summary),
        turns=[turn_view(node) for node in look.nodes],
        head=summary.head,
        branches=[
            m.BranchView(
                leaf=branch.leaf,
                preview=branch.preview,
                turns=branch.turns,
                updated_at=branch.updated_at,
                live=branch.leaf == summary.head,
            )
            for branch in outline.branches
        ],
        usage=usage_view(outline.usage),
        labels=outline.labels,
        trusted=trusted,
        notices=[notice_view(notice) for notice in (*notices, *host.notices)],
        before=look.nodes[0].id if look.more else None,
        seq=0 if live is None else live.stream.seq,
    )


def _read_cursor(cursor: str) -> tuple[int, str]:
    updated_at, colon, session_id = cursor.partition(":")
    if not colon or not (updated_at.isascii() and updated_at.isdigit()):
        raise InvalidInput("This is no cursor of a list.", hint="Give the `nextCursor` of an answer, or none.")
    return -int(updated_at), session_id

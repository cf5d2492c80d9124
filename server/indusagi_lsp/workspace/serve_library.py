"""The operations on the sessions of a folder as a collection: search, import, export, compare, examine, put away."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from indusagi_lsp.contract.errors import InvalidInput, InvalidState, NodeNotFound
from indusagi_lsp.protocol import messages as m
from indusagi_lsp.protocol.events import usage_view
from indusagi_lsp.sessions import Session, blobs, compare, exporters
from indusagi_lsp.sessions.doctor import examine
from indusagi_lsp.workspace.host import Host
from indusagi_lsp.workspace.serve_sessions import info

SEARCH_LIMIT = 50
_EXPORTS = {"markdown": ("md", "text/markdown"), "html": ("html", "text/html"), "jsonl": ("jsonl", "application/jsonl")}


async def label(host: Host, params: m.LabelParams) -> m.LabelsResult:
    """`session/label`."""
    session = (await host.session(params.session_id)).session
    _require(session, params.node)
    await session.label(params.node, params.name)
    host.changed()
    return m.LabelsResult(labels=dict(session.labels))


async def rename(host: Host, params: m.RenameParams) -> m.SessionInfo:
    """`session/rename`."""
    return await _update(host, params.session_id, title=params.title)


async def archive(host: Host, params: m.ArchiveParams) -> m.SessionInfo:
    """`session/archive`."""
    return await _update(host, params.session_id, archived=params.archived)


async def delete(host: Host, params: m.SessionParams) -> m.DeletedResult:
    """`session/delete`: a run in it is stopped first, and nothing brings it back."""
    await host.delete_session(params.session_id)
    host.changed()
    return m.DeletedResult(deleted=True)


async def export_branch(host: Host, params: m.ExportParams) -> m.ExportResult:
    """`session/export`."""
    session = (await host.session(params.session_id)).session
    leaf = params.leaf or session.graph.leaf
    if leaf is None:
        raise InvalidState("There is nothing to export yet: the session is empty.")
    _require(session, leaf)
    data = await exporters.export_branch(session, params.format, leaf, compared=params.compared)
    ending, media_type = _EXPORTS[params.format]
    return m.ExportResult(text=data.decode("utf-8"), file_name=f"{session.id}.{ending}", media_type=media_type)


async def import_sessions(host: Host, params: m.ImportParams) -> m.ImportResult:
    """`session/import`: what is new of other tools' sessions; what is there already is not written again."""
    importer = host.importer()
    if params.path is not None:
        path = await asyncio.to_thread(_existing, params.path)
        reports = await importer.import_files([path], tool=params.tool)
    else:
        reports = await importer.import_all(
            home=Path.home(),
            environ=host.environ,
            tools=None if params.tool is None else [params.tool],
            workspace=None if params.everywhere else host.root,
        )
    host.changed()
    return m.ImportResult(
        files=[
            m.ImportedFile(
                path=report.path,
                tool=report.tool,
                session_id=report.session_id,
                title=report.title,
                turns=report.turns,
                added=report.added,
                unanswered=report.unanswered,
                skipped=[f"line {skip.line}: {skip.reason}" for skip in report.skipped],
                cost=report.usage.cost,
                problem=report.problem,
            )
            for report in reports
        ]
    )


async def compare_branches(host: Host, params: m.CompareParams) -> m.CompareResult:
    """`session/compare`."""
    session = (await host.session(params.session_id)).session
    found = await compare.compare_branches(session, params.left, params.right)
    return m.CompareResult(
        common=found.common,
        shared=found.shared,
        left=_side(found.left),
        right=_side(found.right),
        files_of_both=list(found.files_of_both),
    )


async def bring_note(host: Host, params: m.NoteParams) -> m.LeafResult:
    """`session/note`."""
    live = await host.session(params.session_id)
    session = live.session
    _require(session, params.leaf)
    ours = set(session.graph.ids_to(session.graph.leaf))
    nodes = [node for node in session.graph.nodes_to(params.leaf) if node.id not in ours]
    await live.agent.add_note(compare.note(nodes, params.text))
    host.changed()
    return m.LeafResult(leaf=session.graph.leaf)


async def search(host: Host, params: m.SearchParams) -> m.SearchResult:
    """`session/search`."""
    found = await host.search_index().search(
        params.query,
        limit=params.limit or SEARCH_LIMIT,
        sessions=None if params.session_id is None else [params.session_id],
    )
    return m.SearchResult(
        hits=[
            m.SearchHit(
                session_id=hit.session_id,
                node=hit.node,
                role=hit.role,
                created_at=hit.at,
                snippet=hit.snippet,
                spans=list(hit.spans),
            )
            for hit in found.hits
        ],
        more=found.more,
        notices=[m.NoticeView(level="warning", code="unreadable", text=problem) for problem in found.problems],
    )


async def doctor(host: Host, params: m.DoctorParams) -> m.DoctorResult:
    """`session/doctor`."""
    diagnosis = await examine(
        host.store.root,
        sessions=None if params.session_id is None else [params.session_id],
        signer=host.signer,
        repair=params.repair,
        clock=host.clock,
    )
    if params.repair:
        host.changed()
    return m.DoctorResult(
        healthy=diagnosis.healthy,
        repaired=diagnosis.repaired,
        sessions=[
            m.DoctorSession(
                session_id=health.session_id,
                healthy=health.healthy,
                nodes=health.nodes,
                branches=health.branches,
                head=health.head,
                findings=[
                    m.DoctorFinding(
                        level=finding.level,
                        code=finding.code,
                        text=finding.text,
                        node=finding.node,
                        healed=finding.healed,
                    )
                    for finding in health.findings
                ],
            )
            for health in diagnosis.sessions
        ],
        text=diagnosis.to_text(),
    )


async def show_blob(host: Host, params: m.BlobParams) -> m.BlobResult:
    """`blob/get`."""
    return m.BlobResult(text=await asyncio.to_thread(blobs.read, host.blobs_dir, params.blob))


async def collect_blobs(host: Host, params: m.CollectParams) -> m.CollectResult:
    """`blob/collect`."""
    found = await asyncio.to_thread(blobs.collect, host.blobs_dir, [host.store.root], dry_run=params.dry_run)
    contents = await host.files.collect(await host.store.list_sessions(), dry_run=params.dry_run)
    return m.CollectResult(
        removed=list(found.removed),
        bytes=found.bytes,
        kept=found.kept,
        contents=contents.removed,
        content_bytes=contents.bytes,
    )


async def _update(host: Host, session_id: str, **fields: Any) -> m.SessionInfo:
    session = (await host.session(session_id)).session
    await session.update(**fields)
    host.changed()
    return info(host, await session.summary())


def _existing(given: str) -> Path:
    path = Path(given).expanduser()
    if not path.exists():
        message = f"There is no {path}."
        raise InvalidInput(message, hint="Name a file or folder that exists.")
    return path


def _require(session: Session, node: str) -> None:
    if node not in session.graph:
        raise NodeNotFound(session.id, node)


def _side(side: compare.Side) -> m.CompareSide:
    return m.CompareSide(
        leaf=side.leaf,
        nodes=list(side.nodes),
        turns=dict(side.turns),
        files_read=list(side.files.read),
        files_modified=list(side.files.modified),
        usage=usage_view(side.usage),
        calls=side.calls,
        failed=side.failed,
        result=side.result,
    )

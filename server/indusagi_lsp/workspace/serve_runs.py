"""The operations on runs: say something, stop, look, condense."""

from __future__ import annotations

import asyncio

from indusagi_lsp.conductor import CondensePlan, CondenseRequest, context_block
from indusagi_lsp.contract.errors import InvalidInput
from indusagi_lsp.contract.turns import USER, Block, ImageBlock, TextBlock, Turn, block_from_json
from indusagi_lsp.protocol import messages as m
from indusagi_lsp.protocol.events import event_to_json, snapshot_view
from indusagi_lsp.workspace.host import Host


async def submit(host: Host, params: m.SubmitParams) -> m.SnapshotView:
    """`submit`: answered when the run has settled or faulted."""
    live = await host.session(params.session_id)
    turn = Turn(USER, (*await _context(host, params.context), *_said(params)))
    if params.model is not None:
        await host.use_model(live, params.model)
    await host.prepare_run(live)
    snapshot = await live.agent.submit(turn, params.mode, run_id=params.run_id)
    live.stream.flush()
    return snapshot_view(snapshot)


async def abort(host: Host, params: m.SessionParams) -> m.AbortResult:
    """`abort`: ends the run, keeps what was said; does nothing when idle."""
    live = await host.session(params.session_id)
    return m.AbortResult(phase=await live.agent.abort())


async def snapshot(host: Host, params: m.SnapshotParams) -> m.SnapshotResult:
    """`snapshot`: where the session is, and the events that the client has missed."""
    live = await host.session(params.session_id)
    live.stream.flush()
    kept = live.stream.since(params.since_seq) if params.since_seq is not None else []
    return m.SnapshotResult(
        snapshot=snapshot_view(live.agent.snapshot()),
        seq=live.stream.seq,
        events=[
            {
                "workspace": host.uri,
                "sessionId": params.session_id,
                "runId": one.run_id,
                "seq": one.seq,
                "at": one.at,
                "event": event_to_json(one.event),
            }
            for one in kept or ()
        ],
        gap=kept is None,
        asked=[one for one in host.gate.asked.values() if one.session_id == params.session_id],
        questions=[one for one in host.gate.questions.values() if one.session_id == params.session_id],
    )


async def condense(host: Host, params: m.CondenseParams) -> m.CondenseResult:
    """`condense`: now, or a preview of it, or the edited outcome of a preview."""
    live = await host.session(params.session_id)
    outcome = await live.agent.condense(
        CondenseRequest(
            instruction=params.instruction,
            up_to=params.up_to,
            from_=params.from_,
            preview=params.preview,
            token=params.token,
            text=params.text,
        )
    )
    if outcome.condensed:
        host.changed()
    return m.CondenseResult(
        condensed=outcome.condensed,
        leaf=live.session.graph.leaf,
        before=outcome.before,
        after=outcome.after,
        cut=outcome.cut,
        summary=outcome.summary,
        reason=outcome.reason,
        preview=_preview(outcome.plan) if outcome.plan is not None else None,
    )


async def undo(host: Host, params: m.SessionParams) -> m.LeafResult:
    """`condense/undo`."""
    live = await host.session(params.session_id)
    leaf = await live.agent.undo_condense()
    host.changed()
    return m.LeafResult(leaf=leaf)


def _preview(plan: CondensePlan) -> m.CondensePreview:
    return m.CondensePreview(
        cut=plan.cut,
        dropped=list(plan.dropped),
        kept=list(plan.kept),
        before=plan.before,
        after=plan.after,
        draft=plan.draft,
        token=plan.token,
    )


def _said(params: m.SubmitParams) -> tuple[Block, ...]:
    """What the user has said, as blocks."""
    if params.text is not None and params.blocks is not None:
        raise InvalidInput("`text` and `blocks` were both given.", hint="Send one of them.")
    if params.blocks is not None:
        blocks = tuple(map(block_from_json, params.blocks))
        if not all(isinstance(block, (TextBlock, ImageBlock)) for block in blocks):
            raise InvalidInput("A prompt is made of `text` and `image` blocks.", hint="Leave the others out.")
        return blocks
    if params.text is None or not params.text.strip():
        raise InvalidInput("The prompt is empty.", hint="Send `text` or `blocks`.")
    return (TextBlock(params.text),)


async def _context(host: Host, items: list[m.ContextItem]) -> list[Block]:
    """What the editor sends along, as marked blocks; a file is read here, past the path guard, unsaved text first."""
    blocks: list[Block] = []
    for item in items:
        where = item.uri
        if item.range is not None:
            where = f"{where}#L{item.range.start.line + 1}-L{item.range.end.line + 1}"
        text = item.text
        if text is None:
            if item.kind != "file":
                message = f"The {item.kind} of {item.uri} came without its text."
                raise InvalidInput(message, hint="Send `text` with it.")
            text = await asyncio.to_thread(host.read_file, item.uri)
        blocks.append(context_block(item.kind, where, text))
    return blocks

"""The operations on what is remembered."""

from __future__ import annotations

from indusagi_lsp.memory import MemoryScope, MemorySource
from indusagi_lsp.protocol import messages as m
from indusagi_lsp.protocol.views import memory_entry
from indusagi_lsp.workspace.host import Host


async def remember(host: Host, params: m.RememberParams) -> m.RememberResult:
    """`memory/remember`."""
    source = params.source
    done = await host.memory.remember(
        params.text,
        tags=params.tags,
        metadata=params.metadata,
        scope=MemoryScope(params.scope),
        source=MemorySource(source.session, source.node) if source is not None else None,
        ttl_seconds=params.ttl_seconds,
    )
    if done.created:
        host.memory_changed()
    return m.RememberResult(
        entry=memory_entry(done.entry),
        created=done.created,
        similar=[m.ScoredEntryView(entry=memory_entry(hit.entry), score=hit.score) for hit in done.similar_existing],
    )


async def recall(host: Host, params: m.RecallParams) -> m.RecallResult:
    """`memory/recall`."""
    hits = await host.memory.recall(params.text, scope=_scope(params.scope), tags=params.tags, limit=params.limit)
    return m.RecallResult(hits=[m.ScoredEntryView(entry=memory_entry(hit.entry), score=hit.score) for hit in hits])


async def listing(host: Host, params: m.MemoryListParams) -> m.MemoryListResult:
    """`memory/list`."""
    entries = await host.memory.list(scope=_scope(params.scope), tags=params.tags, limit=params.limit)
    return m.MemoryListResult(entries=[memory_entry(entry) for entry in entries])


async def forget(host: Host, params: m.ForgetParams) -> m.ForgetResult:
    """`memory/forget`."""
    forgotten = await host.memory.forget(params.id)
    if forgotten:
        host.memory_changed()
    return m.ForgetResult(forgotten=forgotten)


def _scope(name: m.MemoryScopeName | None) -> MemoryScope | None:
    return MemoryScope(name) if name is not None else None

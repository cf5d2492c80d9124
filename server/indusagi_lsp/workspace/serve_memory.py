"""The operations on what is remembered."""

from __future__ import annotations

from typing import Any

from indusagi_lsp.memory import Conflict, EntryNotFound, MemoryScope, MemorySource
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
        supersedes=params.supersedes,
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


async def get(host: Host, params: m.MemoryParams) -> m.MemoryGetResult:
    """`memory/get`."""
    history = await host.memory.history(params.id)
    entry = next(one for one in history if one.identifier == params.id)
    return m.MemoryGetResult(entry=memory_entry(entry), history=[memory_entry(one) for one in history])


async def update(host: Host, params: m.MemoryUpdateParams) -> m.MemoryEntryResult:
    """`memory/update`."""
    named = {"content": params.text, "tags": params.tags, "metadata": params.metadata}
    changes: dict[str, Any] = {name: value for name, value in named.items() if value is not None}
    if "tags" in changes:
        changes["tags"] = tuple(changes["tags"])
    expected = None
    if params.expected_updated_at is not None:
        # The wire has milliseconds and the store microseconds: compare what the client saw, then hold on to the rest.
        entry = await host.memory.get(params.id)
        if entry is None:
            raise EntryNotFound(params.id)
        if memory_entry(entry).updated_at != params.expected_updated_at:
            message = f"Memory {params.id!r} was changed by somebody else."
            raise Conflict(message, hint="Read it again, then repeat the change.")
        expected = entry.updated_at
    changed = await host.memory.update(params.id, expected_updated_at=expected, **changes)
    host.memory_changed()
    return m.MemoryEntryResult(entry=memory_entry(changed))


async def adopt(host: Host, params: m.MemoryParams) -> m.MemoryEntryResult:
    """`memory/adopt`."""
    adopted = await host.memory.adopt(params.id)
    host.memory_changed()
    return m.MemoryEntryResult(entry=memory_entry(adopted))


async def explain(host: Host, params: m.MemoryExplainParams) -> m.MemoryExplainResult:
    """`memory/explain`."""
    told = await host.memory.explain(params.text, params.id)
    return m.MemoryExplainResult(
        entry=memory_entry(told.entry),
        score=told.score,
        rank=told.rank,
        parts=dict(told.parts),
        words={word: list(places) for word, places in told.words.items()},
    )


async def export_markdown(host: Host, params: m.MemoryExportParams) -> m.MemoryExportResult:
    """`memory/export`."""
    text, entries = await host.memory.export_markdown(scope=_scope(params.scope), tags=params.tags)
    return m.MemoryExportResult(text=text, entries=entries)


async def import_markdown(host: Host, params: m.MemoryImportParams) -> m.MemoryImportResult:
    """`memory/import`."""
    done = await host.memory.import_markdown(params.text, adopt=params.adopt)
    if done.added or done.changed:
        host.memory_changed()
    return m.MemoryImportResult(
        added=done.added, changed=done.changed, present=done.present, kept=done.kept, problems=list(done.problems)
    )


def _scope(name: m.MemoryScopeName | None) -> MemoryScope | None:
    return MemoryScope(name) if name is not None else None

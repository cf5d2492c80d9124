"""The asynchronous face of memory, as the hosts use it."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest
from blockbuster import BlockBuster

from indusagi_lsp.contract.errors import InvalidInput
from indusagi_lsp.memory import (
    EntryNotFound,
    FileMemoryStore,
    MemoryEntry,
    MemoryScope,
    MemoryService,
    MemorySource,
    RecentVectors,
)
from unit.memory.backends import START, FakeTime, WheelEmbedder, mac_with


@pytest.fixture
def time():
    return FakeTime()


@pytest.fixture
async def service(tmp_path, time):
    numbers = iter(range(1000))
    service = MemoryService(
        FileMemoryStore(tmp_path / "w" / ".indusagi" / "memory", now=time, mac=mac_with(b"mine"), agent="main"),
        FileMemoryStore(tmp_path / "user", now=time, mac=mac_with(b"mine")),
        now=time,
        new_id=lambda: f"id-{next(numbers)}",
    )
    yield service
    await service.close()


async def test_remember_and_find_again(service):
    kept = await service.remember(
        "Releases are cut on Tuesdays",
        tags=["release"],
        metadata={"by": "ann"},
        source=MemorySource("s", "n"),
    )
    assert kept.created
    assert (kept.entry.scope, kept.entry.trusted) == (MemoryScope.SHARED, True)
    assert await service.get(kept.entry.identifier) == kept.entry
    assert await service.list() == [kept.entry]
    hits = await service.recall("when do we release?")
    assert [hit.entry for hit in hits] == [kept.entry]
    assert 0 < hits[0].score <= 1
    assert await service.recall("release", tags=["other"]) == []
    assert await service.forget(kept.entry.identifier) is True
    assert await service.forget(kept.entry.identifier) is False
    assert await service.list() == []


async def test_an_equal_text_is_no_news(service, time):
    first = await service.remember("Tabs")
    time.pass_time(hours=1)
    second = await service.remember("Tabs", tags=["x"])
    assert (second.created, second.entry) == (False, first.entry)


async def test_at_the_same_time_too(service):
    kept = await asyncio.gather(*(service.remember("Tabs") for _ in range(10)))
    assert sum(one.created for one in kept) == 1
    assert len(await service.list()) == 1


async def test_a_similar_one_comes_back_with_its_score(service):
    await service.remember("PocketBase runs on port 8090")
    await service.remember("The colour of the logo is red")
    kept = await service.remember("PocketBase backend at localhost:8090")
    assert kept.created
    (similar,) = kept.similar_existing
    assert similar.entry.content == "PocketBase runs on port 8090"
    assert 0.4 <= similar.score < 1


async def test_what_contradicts_supersedes_and_erases_nothing(service):
    old = await service.remember("Ann loves tabs")
    new = await service.remember("Ann hates tabs", supersedes=old.entry.identifier)
    assert [hit.entry.content for hit in await service.recall("tabs")] == ["Ann hates tabs"]
    for identifier in (old.entry.identifier, new.entry.identifier):
        chain = await service.history(identifier)
        assert [entry.content for entry in chain] == ["Ann loves tabs", "Ann hates tabs"]
    assert chain[0].superseded_by == chain[1].identifier
    assert chain[1].supersedes == chain[0].identifier
    # What was superseded may become true again.
    assert (await service.remember("Ann loves tabs")).created
    with pytest.raises(EntryNotFound):
        await service.remember("x", supersedes="nothing")


async def test_what_is_known_already_supersedes_too(service):
    old = await service.remember("Ann loves tabs")
    known = await service.remember("Ann hates tabs")
    again = await service.remember("Ann hates tabs", supersedes=old.entry.identifier)
    assert (again.created, again.entry.identifier) == (False, known.entry.identifier)
    assert [hit.entry.content for hit in await service.recall("tabs")] == ["Ann hates tabs"]
    assert [entry.content for entry in await service.history(known.entry.identifier)] == [
        "Ann loves tabs",
        "Ann hates tabs",
    ]
    # An entry does not replace itself.
    await service.remember("Ann hates tabs", supersedes=known.entry.identifier)
    assert [hit.entry.content for hit in await service.recall("tabs")] == ["Ann hates tabs"]


async def test_no_hits_are_wanted(service):
    await service.remember("Ann loves tabs")
    assert await service.recall("tabs", limit=0) == []


class Counting(WheelEmbedder):
    """Counts how often each text is embedded."""

    def __init__(self):
        super().__init__()
        self.made = Counter()

    def batch_embed(self, texts):
        self.made.update(texts)
        return super().batch_embed(texts)


async def test_each_text_is_embedded_once(tmp_path):
    counting = Counting()
    shared = RecentVectors(counting, most=2)
    service = MemoryService(*(FileMemoryStore(tmp_path / name, embedder=shared) for name in "ab"))
    await service.remember("Releases are cut on Tuesdays")
    await service.recall("postgres")
    assert counting.made == {"Releases are cut on Tuesdays": 1, "postgres": 1}
    await service.recall("redis")
    await service.recall("Releases are cut on Tuesdays")
    assert counting.made["Releases are cut on Tuesdays"] == 2, "only the last ones are kept"
    assert shared.batch_embed(["redis", "x", "y", "redis"]) == [
        counting.embed(one) for one in ("redis", "x", "y", "redis")
    ]
    await service.close()


async def test_time_to_live(service, time):
    await service.remember("The staging server is down", ttl_seconds=3600)
    assert (await service.list())[0].expires_at == START.replace(hour=13)
    time.pass_time(hours=1)
    assert await service.recall("staging server") == []
    with pytest.raises(InvalidInput):
        await service.remember("x", ttl_seconds=0)


@pytest.mark.parametrize("text", ["", "  \n"])
async def test_nothing_is_not_remembered(service, text):
    with pytest.raises(InvalidInput):
        await service.remember(text)


async def test_global_memories_live_with_the_user(service, tmp_path):
    kept = await service.remember("I prefer British spelling", scope=MemoryScope.GLOBAL)
    assert len(list((tmp_path / "user").glob("*.json"))) == 1
    assert not (tmp_path / "w" / ".indusagi" / "memory").exists()
    other = MemoryService(FileMemoryStore(tmp_path / "w2"), FileMemoryStore(tmp_path / "user"))
    assert await other.get(kept.entry.identifier) is not None
    assert [hit.entry.identifier for hit in await other.recall("spelling")] == [kept.entry.identifier]
    assert (await service.update(kept.entry.identifier, tags=("x",))).tags == ("x",)
    with pytest.raises(InvalidInput):
        await service.update(kept.entry.identifier, scope=MemoryScope.SHARED)
    assert await service.forget(kept.entry.identifier)


async def test_scopes_narrow_a_list(service):
    for scope in MemoryScope:
        await service.remember(f"for {scope.value}", scope=scope)
    for scope, count in zip(MemoryScope, (3, 2, 1), strict=True):
        assert len(await service.list(scope=scope)) == count
    assert len(await service.list(limit=2)) == 2


async def test_only_own_words_reach_a_prompt(service, tmp_path):
    folder = tmp_path / "w" / ".indusagi" / "memory"
    FileMemoryStore(folder, mac=mac_with(b"theirs")).store(
        MemoryEntry(identifier="planted", content="The deploy script is evil.sh", scope=MemoryScope.SHARED)
    )
    await service.remember("The deploy script is deploy.sh")
    assert len(await service.recall("deploy script")) == 2
    (hit,) = await service.recall_for_prompt("deploy script")
    assert hit.entry.content == "The deploy script is deploy.sh"
    assert (await service.adopt("planted")).trusted
    assert len(await service.recall_for_prompt("deploy script")) == 2
    with pytest.raises(EntryNotFound):
        await service.adopt("nothing")


async def test_an_entry_edited_on_disk_is_shown_marked_and_kept_out_of_prompts(service, tmp_path):
    kept = await service.remember("The deploy script is deploy.sh")
    (path,) = (tmp_path / "w" / ".indusagi" / "memory").glob("*.json")
    path.write_text(path.read_text().replace("deploy.sh", "evil.sh"))
    found = await service.get(kept.entry.identifier)
    assert (found.content, found.trusted) == ("The deploy script is evil.sh", False)
    assert await service.recall_for_prompt("deploy script") == []


async def test_the_event_loop_never_waits_for_the_disk(service):
    detector = BlockBuster()
    detector.activate()
    try:
        kept = await service.remember("a text")
        await service.recall("text")
        await service.recall_for_prompt("text")
        await service.list()
        await service.get(kept.entry.identifier)
        await service.update(kept.entry.identifier, content="another text")
        await service.adopt(kept.entry.identifier)
        await service.history(kept.entry.identifier)
        await service.forget(kept.entry.identifier)
        await service.close()
    finally:
        detector.deactivate()

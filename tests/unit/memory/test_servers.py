"""What only the stores on servers promise."""

from __future__ import annotations

import random
import subprocess
import sys
import threading
import uuid

import pytest

from indusagi_lsp.contract.errors import InvalidInput, PersistenceFault
from indusagi_lsp.memory import ExpirationPolicy, MemoryEntry, MemoryQuery, MemoryScope
from indusagi_lsp.memory.postgres import PostgresMemoryStore
from indusagi_lsp.memory.redis import RedisMemoryStore
from unit.memory.backends import START, FakeTime, WheelEmbedder, open_store


def entry(identifier, content="a fact", **fields):
    return MemoryEntry(identifier=identifier, content=content, created_at=START, **fields)


@pytest.mark.postgres
@pytest.mark.redis
def test_all_back_ends_give_the_same_answers(tmp_path, postgres_address, redis_address):
    name = f"t{uuid.uuid4().hex[:12]}"
    places = {
        "file": str(tmp_path),
        "sqlite": str(tmp_path),
        "postgres": f"{postgres_address}#{name}",
        "redis": f"{redis_address}#{name}",
    }
    stores = {kind: open_store(kind, place, embedder=WheelEmbedder(), now=FakeTime()) for kind, place in places.items()}
    rng = random.Random(6)
    vocabulary = [*WheelEmbedder.WORDS, *(f"word{number}" for number in range(40)), "getUserName", "数据库", "naïve"]
    for number in range(120):
        made = entry(
            f"e{number}",
            " ".join(rng.choices(vocabulary, k=rng.randrange(3, 12))),
            context=" ".join(rng.choices(vocabulary, k=5)) if number % 3 else "",
            scope=rng.choice(list(MemoryScope)),
            tags=rng.sample(["x", "y", "z"], k=rng.randrange(3)),
            metadata={"n": rng.randrange(5)},
        )
        for store in stores.values():
            store.store(made)
    for _ in range(25):
        text = " ".join(rng.choices(vocabulary, k=rng.randrange(1, 6)))
        filters = rng.choice([{}, {"tags": ["x"]}, {"metadata": {"n": {"$gt": 2}}}, {"scope": MemoryScope.SHARED}])
        for ask in (
            lambda store, text=text, filters=filters: store.search(MemoryQuery(text=text, max_results=10, **filters)),
            lambda store, text=text, filters=filters: store.search(MemoryQuery(semantic_text=text, **filters)),
            lambda store, text=text, filters=filters: store.recall(text, MemoryQuery(max_results=10, **filters)),
        ):
            answers = {kind: ask(store) for kind, store in stores.items()}
            wanted = [hit.entry.identifier for hit in answers["file"]]
            scores = [hit.score for hit in answers["file"]]
            for kind, hits in answers.items():
                assert [hit.entry.identifier for hit in hits] == wanted, (kind, text, filters)
                assert [hit.score for hit in hits] == pytest.approx(scores, abs=2e-6)
    for store in stores.values():
        store.close()


@pytest.mark.postgres
class TestPostgres:
    @pytest.fixture
    def schema(self):
        return f"t{uuid.uuid4().hex[:12]}"

    def test_row_level_security_holds_back_what_a_statement_forgets(self, postgres_address, schema):
        import psycopg

        own = PostgresMemoryStore(postgres_address, schema=schema, workspace="w1")
        own.store(entry("e", "SECRET_MARKER"))
        with psycopg.connect(postgres_address, autocommit=True) as admin:
            admin.execute(f"CREATE ROLE {schema}_role")
            admin.execute(f"GRANT USAGE ON SCHEMA {schema} TO {schema}_role")
            admin.execute(f"GRANT ALL ON ALL TABLES IN SCHEMA {schema} TO {schema}_role")
        for workspace, visible in (("w1", 1), ("w2", 0)):
            store = PostgresMemoryStore(postgres_address, schema=schema, workspace=workspace, role=f"{schema}_role")
            assert store.count() == visible
            store.store(entry("mine", scope=MemoryScope.SHARED))
            assert store.retrieve("mine") is not None
            with store._working() as run:
                rows = run("SELECT record FROM {entries}", ()).fetchall()
                assert ("SECRET_MARKER" in repr(rows)) is bool(visible)
            store.close()
        own.close()

    def test_two_that_open_an_empty_database_at_once(self, postgres_address, schema):
        failures = []

        def work(number):
            store = PostgresMemoryStore(postgres_address, schema=schema)
            try:
                store.store(entry(f"e{number}", scope=MemoryScope.SHARED))
            except Exception as error:  # noqa: BLE001 - shown below
                failures.append(error)
            finally:
                store.close()

        threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert failures == []
        store = PostgresMemoryStore(postgres_address, schema=schema)
        assert store.count() == 4
        store.close()

    def test_words_of_another_version_are_cut_anew(self, postgres_address, schema, monkeypatch):
        from indusagi_lsp.memory import postgres as module

        store = PostgresMemoryStore(postgres_address, schema=schema)
        store.store(entry("a", "running"))
        store.close()
        real = module.index_terms
        monkeypatch.setattr(module, "TERMS_VERSION", 99)
        monkeypatch.setattr(module, "index_terms", lambda *texts: real(*(text.replace("n", "m") for text in texts)))
        again = PostgresMemoryStore(postgres_address, schema=schema)
        assert len(again.search(MemoryQuery(text="rummimg"))) == 1
        again.close()

    def test_tables_of_a_later_program_are_refused(self, postgres_address, schema):
        import psycopg

        PostgresMemoryStore(postgres_address, schema=schema).store(entry("a"))
        with psycopg.connect(postgres_address, autocommit=True) as admin:
            admin.execute(f"UPDATE {schema}.versions SET step = 99")
        with pytest.raises(InvalidInput, match="newer"):
            PostgresMemoryStore(postgres_address, schema=schema).list()

    @pytest.mark.parametrize("name", ["a-b", 'x"; DROP', "", "ä", "1a"])
    def test_odd_schema_names_are_refused(self, postgres_address, name):
        with pytest.raises(InvalidInput):
            PostgresMemoryStore(postgres_address, schema=name).list()

    def test_an_address_that_does_not_answer_is_told(self, tmp_path, monkeypatch):
        import psycopg_pool

        real = psycopg_pool.ConnectionPool.open
        monkeypatch.setattr(psycopg_pool.ConnectionPool, "open", lambda self, wait, timeout: real(self, wait, 0.5))
        store = PostgresMemoryStore(f"host={tmp_path} dbname=x")
        with pytest.raises(PersistenceFault, match="does not answer"):
            store.list()
        store.close()


@pytest.mark.redis
class TestRedis:
    @pytest.fixture
    def prefix(self):
        return f"t{uuid.uuid4().hex[:12]}"

    def test_the_server_lets_go_by_itself(self, redis_address, prefix):
        import redis

        time = FakeTime()
        store = RedisMemoryStore(redis_address, prefix=prefix, now=time)
        store.store(entry("short", expiration=ExpirationPolicy(0.05)))
        store.store(entry("long", expiration=ExpirationPolicy(3600)))
        client = redis.Redis.from_url(redis_address)
        lives = sorted(client.pttl(key) for key in client.scan_iter(f"{prefix}:*") if client.pttl(key) > 0)
        assert lives[-1] > 3_500_000
        threading.Event().wait(0.1)
        assert store.retrieve("short") is None
        assert [found.identifier for found in store.list()] == ["long"]
        assert [found.identifier for found in RedisMemoryStore(redis_address, prefix=prefix, now=time).list()] == [
            "long"
        ]
        client.close()
        store.close()

    def test_the_lock_of_a_process_that_died_is_freed(self, redis_address, prefix, monkeypatch):
        import redis

        from indusagi_lsp.memory import redis as module

        client = redis.Redis.from_url(redis_address)
        client.set(f"{prefix}:lock", "somebody", px=200)
        store = RedisMemoryStore(redis_address, prefix=prefix)
        store.store(entry("a"))
        assert client.get(f"{prefix}:lock") is None
        client.set(f"{prefix}:lock", "somebody")
        monkeypatch.setattr(module, "LOCK_WAIT", 0.05)
        with pytest.raises(PersistenceFault, match="locked"):
            store.store(entry("b"))
        assert store.retrieve("b") is None
        client.close()
        store.close()

    def test_nothing_is_done_under_a_lock_that_was_lost(self, redis_address, prefix):
        import redis

        client = redis.Redis.from_url(redis_address)
        store = RedisMemoryStore(redis_address, prefix=prefix)

        def slow(_old):
            client.set(f"{prefix}:lock", "another")
            return entry("a")

        with pytest.raises(PersistenceFault, match="too slow"):
            store._transact((store.realm(MemoryScope.AGENT),), "a", slow)
        assert client.get(f"{prefix}:lock") == b"another"
        client.delete(f"{prefix}:lock")
        assert store.list() == []
        client.close()
        store.close()

    def test_a_value_that_cannot_be_read_is_skipped(self, redis_address, prefix):
        import redis

        notices = []
        store = RedisMemoryStore(redis_address, prefix=prefix, notify=lambda *notice: notices.append(notice))
        store.store(entry("a"))
        client = redis.Redis.from_url(redis_address)
        for key in client.scan_iter(f"{prefix}:*"):
            if client.type(key) == b"string" and client.get(key).startswith(b"{"):
                client.set(key, "{")
        assert RedisMemoryStore(redis_address, prefix=prefix).list() == []
        assert store.retrieve("a") is None
        assert notices[0][0] == "memory_skipped"
        client.close()
        store.close()

    def test_a_server_that_is_not_there_is_told(self, tmp_path):
        store = RedisMemoryStore(f"unix://{tmp_path}/none.sock")
        with pytest.raises(PersistenceFault, match="cannot be used"):
            store.list()
        store.close()


def test_the_client_libraries_are_imported_late():
    code = (
        "import sys, indusagi_lsp.memory.postgres, indusagi_lsp.memory.redis;"
        "print([name for name in ('psycopg', 'redis', 'numpy', 'sqlite3') if name in sys.modules])"
    )
    shown = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, stdin=subprocess.DEVNULL
    )
    assert shown.stdout.strip() == "[]"

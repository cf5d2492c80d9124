"""What every back end promises, verb by verb; the same tests run over all of them."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta, timezone

import pytest

from indusagi_lsp.contract.errors import InvalidInput
from indusagi_lsp.memory import (
    Conflict,
    EntryNotFound,
    ExpirationPolicy,
    MemoryEntry,
    MemoryQuery,
    MemoryScope,
    MemorySource,
)
from unit.memory.backends import START, WheelEmbedder, mac_with

HOUR = timedelta(hours=1)


def entry(identifier, content="a fact", **fields):
    fields.setdefault("created_at", START)
    return MemoryEntry(identifier=identifier, content=content, **fields)


def ids(found):
    return [getattr(item, "entry", item).identifier for item in found]


class TestVerbs:
    def test_what_is_stored_is_retrieved_equal(self, bench):
        store = bench.open()
        full = entry(
            "full",
            'Ünïcode, "quotes", \x00 NUL, \u2028, \ud800 lone, 日本語, 🚀',
            context="before\nafter",
            tags=["b", "a", "b"],
            metadata={"n": 1, "f": 1.5, "t": True, "none": None, "deep": {"x": [1, "2"]}, "big": 2**70},
            expiration=ExpirationPolicy(3600),
            source=MemorySource("s-1", "abc"),
            supersedes="older",
            tainted=True,
            embedding=[0.5, -0.25],
            embedder="by hand",
        )
        stored = store.store(full)
        assert store.retrieve("full") == stored == full
        assert stored.tags == ("b", "a")

    def test_another_handle_sees_it(self, bench):
        bench.open().store(entry("one"))
        assert ids(bench.open().list()) == ["one"]

    def test_absent(self, bench):
        store = bench.open()
        assert store.retrieve("nothing") is None
        assert store.delete("nothing") is False
        assert store.list() == []
        assert store.count() == 0
        with pytest.raises(EntryNotFound):
            store.update(entry("nothing"))
        with pytest.raises(EntryNotFound):
            store.amend("nothing", content="x")

    def test_storing_again_keeps_created_at(self, bench):
        store = bench.open()
        store.store(entry("one", "first"))
        bench.time.pass_time(hours=1)
        again = store.store(entry("one", "second", created_at=START + HOUR))
        assert (again.created_at, again.updated_at, again.content) == (START, START + HOUR, "second")
        assert store.count() == 1

    def test_an_update_keeps_what_it_does_not_name(self, bench):
        store = bench.open()
        old = store.store(
            entry(
                "one",
                "first",
                tags=["t"],
                metadata={"k": 1},
                scope=MemoryScope.SHARED,
                expiration=ExpirationPolicy(9e9),
            )
        )
        bench.time.pass_time(hours=1)
        new = store.amend("one", content="second")
        assert new == old.changed(content="second", updated_at=START + HOUR)
        assert store.retrieve("one") == new

    def test_the_seeds_update_takes_a_whole_entry(self, bench):
        store = bench.open()
        store.store(entry("one", "first", tags=["t"]))
        bench.time.pass_time(hours=1)
        new = store.update(entry("one", "second", created_at=START + 5 * HOUR))
        assert (new.content, new.tags, new.created_at, new.updated_at) == ("second", (), START, START + HOUR)

    def test_an_update_of_what_has_changed_is_refused(self, bench):
        store = bench.open()
        seen = store.store(entry("one", "first"))
        bench.time.pass_time(hours=1)
        store.amend("one", content="second", expected_updated_at=seen.updated_at)
        with pytest.raises(Conflict):
            store.amend("one", content="third", expected_updated_at=seen.updated_at)
        assert store.retrieve("one").content == "second"

    def test_the_owner_and_the_times_cannot_be_amended(self, bench):
        store = bench.open()
        store.store(entry("one"))
        for field in ("identifier", "created_at", "updated_at", "agent", "mac", "trusted"):
            with pytest.raises(InvalidInput):
                store.amend("one", **{field: "x"})

    def test_a_clock_that_goes_back_does_not_turn_updated_at_back(self, bench):
        store = bench.open()
        store.store(entry("one"))
        bench.time.pass_time(hours=-5)
        assert store.amend("one", content="x").updated_at == START

    def test_a_move_to_another_scope_takes_the_place_of_what_is_there(self, bench):
        store = bench.open()
        store.store(entry("x", "mine", tags=["t"]))
        store.store(entry("x", "ours", scope=MemoryScope.SHARED))
        assert store.amend("x", scope=MemoryScope.SHARED).content == "mine"
        assert [found.content for found in store.list()] == ["mine"]
        assert store.search(MemoryQuery(text="ours")) == []
        assert ids(store.search(MemoryQuery(text="mine", tags=["t"]))) == ["x"]

    def test_deleted_is_gone_from_every_verb_and_takes_no_place(self, bench):
        store = bench.open(embedder=WheelEmbedder())
        for number in range(6):
            store.store(entry(f"e{number}", "postgres port", created_at=START - number * HOUR))
        assert store.delete("e0") is True
        assert store.delete("e0") is False
        for handle in (store, bench.open(embedder=WheelEmbedder())):
            assert handle.retrieve("e0") is None
            expected = ["e1", "e2", "e3", "e4", "e5"]
            assert ids(handle.list(MemoryQuery(max_results=5))) == expected
            assert ids(handle.search(MemoryQuery(text="postgres", max_results=5))) == expected
            assert ids(handle.search(MemoryQuery(semantic_text="postgres", max_results=5))) == expected
            assert ids(handle.recall("postgres", MemoryQuery(max_results=5))) == expected
            assert ids(handle.export()) == expected
            assert handle.count() == 5

    def test_whatever_is_listed_can_be_retrieved(self, bench):
        store = bench.open()
        for number in range(20):
            store.store(entry(f"e{number}", scope=list(MemoryScope)[number % 3]))
        assert all(store.retrieve(found.identifier) == found for found in store.list())

    def test_listing_is_newest_first_and_ties_go_by_identifier(self, bench):
        store = bench.open()
        for name in ("b", "a", "Z", "é", "日", "🚀", "\uffee"):
            store.store(entry(name))
        store.store(entry("newer", created_at=START + HOUR))
        store.store(entry("older", created_at=START - HOUR))
        assert ids(store.list()) == ["newer", "Z", "a", "b", "é", "日", "\uffee", "🚀", "older"]


class TestRemember:
    def test_an_equal_text_is_stored_once(self, bench):
        store = bench.open()
        first, created = store.remember(entry("1", "Tabs, not spaces"))
        bench.time.pass_time(hours=1)
        second, again = store.remember(entry("2", "  Tabs, not spaces\r\n", created_at=START + HOUR))
        assert (created, again) == (True, False)
        assert second == first
        assert store.count() == 1

    def test_an_equal_text_in_another_scope_is_another_memory(self, bench):
        store = bench.open()
        store.remember(entry("1", "x", scope=MemoryScope.AGENT))
        assert store.remember(entry("2", "x", scope=MemoryScope.SHARED))[1] is True

    def test_a_text_that_has_expired_is_new(self, bench):
        store = bench.open()
        store.remember(entry("1", "x", expiration=ExpirationPolicy(60)))
        bench.time.pass_time(minutes=1)
        assert store.remember(entry("2", "x"))[1] is True

    @pytest.mark.parametrize(
        "secret",
        [
            "the key is sk-" + "a1B2" * 8,
            "-----BEGIN RSA PRIVATE KEY-----\nMIIE",
            "AKIAABCDEFGHIJKLMNOP",
            "postgres://admin:hunter2@db.local/x",
        ],
    )
    def test_secrets_are_refused_on_every_way_in(self, bench, secret):
        store = bench.open()
        store.store(entry("one", "fine"))
        for attempt in (
            lambda: store.store(entry("two", secret)),
            lambda: store.remember(entry("two", secret)),
            lambda: store.store(entry("two", "x", metadata={"k": secret})),
            lambda: store.store(entry("two", "x", context=secret)),
            lambda: store.amend("one", content=secret),
            lambda: store.update(entry("one", secret)),
        ):
            with pytest.raises(InvalidInput, match="secret"):
                attempt()
        assert [found.content for found in store.list()] == ["fine"]


class TestIdentifiers:
    AWKWARD = (
        "a/b",
        "../x",
        "..",
        ".",
        "/etc/passwd",
        "C:\\x",
        "CON",
        "nul.json",
        "A",
        "a",
        "🚀",
        "🎯",
        "é",
        "e\u0301",
        " ",
        "a ",
        "\x00",
        "\n",
        "\ud800",
        "x" * 1024,
        "é" * 1024,
        "%2e%2e",
        "'; DROP TABLE entries; --",
        "{}",
        "*",
        "\u202e",
        "日本",
    )

    def test_any_text_to_1024_characters_is_its_own(self, bench):
        store = bench.open()
        for number, name in enumerate(self.AWKWARD):
            store.store(entry(name, f"content {number}"))
        again = bench.open()
        for number, name in enumerate(self.AWKWARD):
            assert again.retrieve(name).content == f"content {number}"
        assert sorted(ids(again.list())) == sorted(self.AWKWARD)
        for name in self.AWKWARD:
            assert again.delete(name)
        assert store.list() == []

    @pytest.mark.parametrize("name", ["", "x" * 1025])
    def test_others_are_refused(self, name):
        with pytest.raises(InvalidInput):
            entry(name)


class TestFilters:
    @pytest.fixture
    def store(self, bench):
        store = bench.open()
        store.store(entry("a", tags=["x", "y"], metadata={"n": 1, "s": "one"}, created_at=START))
        store.store(entry("b", tags=["x"], metadata={"n": True, "s": "two"}, created_at=START + HOUR))
        store.store(entry("c", tags=["y"], metadata={"n": 9}, created_at=START + 2 * HOUR))
        store.store(entry("d", metadata={"n": 10, "deep": {"k": [1]}}, created_at=START + 3 * HOUR))
        store.store(entry("e", metadata={"n": "10"}, created_at=START + 4 * HOUR))
        return store

    @pytest.mark.parametrize(
        ("query", "expected"),
        [
            ({"tags": ["x"]}, "ba"),
            ({"tags": ["x", "y"]}, "a"),
            ({"tags": []}, "edcba"),
            ({"tags": ["X"]}, ""),
            ({"metadata": {}}, "edcba"),
            ({"metadata": {"n": 1}}, "a"),
            ({"metadata": {"n": 1.0}}, "a"),
            ({"metadata": {"n": True}}, "b"),
            ({"metadata": {"n": "10"}}, "e"),
            ({"metadata": {"n": 10}}, "d"),
            ({"metadata": {"n": {"$gt": 9}}}, "d"),
            ({"metadata": {"n": {"$gte": 9, "$lt": 100}}}, "dc"),
            ({"metadata": {"n": {"$in": [1, 10]}}}, "da"),
            ({"metadata": {"n": {"$in": []}}}, ""),
            ({"metadata": {"n": {"$ne": 1}}}, "edcb"),
            ({"metadata": {"n": {"$gt": "0"}}}, "e"),
            ({"metadata": {"deep": {"k": [1]}}}, "d"),
            ({"metadata": {"deep": {"k": [True]}}}, ""),
            ({"metadata": {"s": "one", "n": 1}}, "a"),
            ({"metadata": {"missing": None}}, ""),
            ({"start_time": START + HOUR}, "edcb"),
            ({"end_time": START + HOUR}, "ba"),
            ({"start_time": START + HOUR, "end_time": START + 2 * HOUR}, "cb"),
            ({"start_time": START + 2 * HOUR, "end_time": START}, ""),
            ({"tags": ["y"], "start_time": START + HOUR, "metadata": {"n": {"$lte": 9}}}, "c"),
            ({"max_results": 2}, "ed"),
            ({"max_results": 0}, ""),
        ],
    )
    def test_the_result_is_the_intersection(self, store, query, expected):
        asked = MemoryQuery(**query)
        assert "".join(ids(store.search(asked))) == expected
        assert "".join(ids(store.list(asked))) == expected
        assert "".join(ids(store.export(asked))) == expected
        if "max_results" not in query:
            assert store.count(asked) == len(expected)

    def test_results_are_prefixes_of_each_other(self, store):
        everything = ids(store.list())
        for number in range(6):
            assert ids(store.search(MemoryQuery(max_results=number))) == everything[:number]

    def test_bad_queries_are_refused(self):
        for query in (
            {"max_results": -1},
            {"metadata": {"n": {"$where": 1}}},
            {"metadata": {"n": {"$in": 3}}},
        ):
            with pytest.raises(InvalidInput):
                MemoryQuery(**query)

    def test_filters_come_before_the_limit(self, bench):
        store = bench.open(embedder=WheelEmbedder())
        for number in range(50):
            store.store(entry(f"near{number}", "postgres postgres sql table", tags=["other"], created_at=START + HOUR))
        store.store(entry("wanted", "postgres and bread and soup in a long text of many words", tags=["mine"]))
        for query in ({"text": "postgres sql"}, {"semantic_text": "postgres sql"}, {}):
            found = store.search(MemoryQuery(tags=["mine"], max_results=5, **query))
            assert ids(found) == ["wanted"]
        assert ids(store.recall("postgres sql", MemoryQuery(tags=["mine"], max_results=5))) == ["wanted"]

    def test_filters_that_take_every_match_leave_nothing(self, bench):
        store = bench.open(embedder=WheelEmbedder())
        store.store(entry("near", "postgres sql table", tags=["other"]))
        for query in ({"text": "postgres sql"}, {"semantic_text": "postgres sql"}, {}):
            assert store.search(MemoryQuery(tags=["mine"], **query)) == []


class TestTime:
    def test_one_moment_in_any_spelling(self, bench):
        store = bench.open()
        moment = datetime(2025, 7, 25, 2, 0, tzinfo=UTC)
        for number, zone in enumerate((UTC, timezone(-7 * HOUR), timezone(timedelta(hours=9)))):
            store.store(entry(f"e{number}", created_at=moment.astimezone(zone)))
        store.store(entry("naive", created_at=moment.replace(tzinfo=None)))
        everything = ["e0", "e1", "e2", "naive"]
        for zone in (UTC, timezone(-7 * HOUR), timezone(timedelta(hours=5.5))):
            bound = moment.astimezone(zone)
            assert ids(store.list(MemoryQuery(start_time=bound, end_time=bound))) == everything
        naive = moment.replace(tzinfo=None)
        assert ids(store.list(MemoryQuery(start_time=naive, end_time=naive))) == everything
        assert all(found.created_at == moment and found.created_at.tzinfo is UTC for found in store.list())

    @pytest.mark.parametrize("zone", ["UTC", "Asia/Tokyo", "America/Los_Angeles"])
    def test_a_day_is_a_day_in_utc_wherever_the_machine_stands(self, bench, zone, monkeypatch):
        import time

        monkeypatch.setenv("TZ", zone)
        time.tzset()
        try:
            store = bench.open()
            store.store(entry("in", created_at=datetime(2025, 7, 25, 2, 0, tzinfo=UTC)))
            store.store(entry("last", created_at=datetime(2025, 7, 25, 23, 59, 59, 999999, tzinfo=UTC)))
            store.store(entry("out", created_at=datetime(2025, 7, 26, tzinfo=UTC)))
            day = date(2025, 7, 25)
            assert ids(store.list(MemoryQuery(start_time=day, end_time=day))) == ["last", "in"]
        finally:
            monkeypatch.undo()
            time.tzset()

    def test_the_ends_of_the_calendar(self, bench):
        store = bench.open()
        for number, moment in enumerate((datetime.min, datetime.max)):  # noqa: DTZ901 - naive on purpose
            store.store(entry(f"e{number}", created_at=moment))
        assert ids(store.list()) == ["e1", "e0"]
        far = timezone(timedelta(hours=14))
        bounds = {
            "start_time": datetime.min.replace(tzinfo=far),
            "end_time": datetime.max.replace(tzinfo=timezone(-timedelta(hours=12))),
        }
        assert ids(store.list(MemoryQuery(**bounds))) == ["e1", "e0"]

    def test_microseconds_are_kept(self, bench):
        store = bench.open()
        moments = [START + timedelta(microseconds=number) for number in range(3)]
        for number, moment in enumerate(moments):
            store.store(entry(f"e{number}", created_at=moment))
        assert [found.created_at for found in store.list()] == moments[::-1]


class TestExpiry:
    MICRO = timedelta(microseconds=1)

    def visible(self, store):
        """Where the entry shows, verb by verb."""
        return {
            "search": bool(store.search(MemoryQuery())),
            "list": bool(store.list()),
            "count": bool(store.count()),
            "export": bool(list(store.export())),
            "lexical": bool(store.search(MemoryQuery(text="postgres"))),
            "semantic": bool(store.search(MemoryQuery(semantic_text="postgres"))),
            "recall": bool(store.recall("postgres")),
            "retrieve": store.retrieve("e") is not None,
        }

    @pytest.mark.parametrize(
        "policy", [ExpirationPolicy(60), ExpirationPolicy(expires_at=START + timedelta(seconds=60))]
    )
    @pytest.mark.parametrize(("shift", "live"), [(-MICRO, True), (MICRO * 0, False), (MICRO, False)])
    def test_each_verb_at_the_edge(self, bench, policy, shift, live):
        bench.open(embedder=WheelEmbedder()).store(entry("e", "postgres", expiration=policy))
        end = START + timedelta(seconds=60)
        verbs = list(self.visible(bench.open(embedder=WheelEmbedder())))
        for verb in verbs:
            bench.time.moment = START
            store = bench.open(embedder=WheelEmbedder())
            store.store(entry("e", "postgres", expiration=policy))
            bench.time.moment = end + shift
            # Each verb meets the expired entry first in its turn, on a fresh handle.
            assert self.one(bench.open(embedder=WheelEmbedder()), verb) is live, verb

    def one(self, store, verb):
        verbs = {
            "search": lambda: bool(store.search(MemoryQuery())),
            "list": lambda: bool(store.list()),
            "count": lambda: bool(store.count()),
            "export": lambda: bool(list(store.export())),
            "lexical": lambda: bool(store.search(MemoryQuery(text="postgres"))),
            "semantic": lambda: bool(store.search(MemoryQuery(semantic_text="postgres"))),
            "recall": lambda: bool(store.recall("postgres")),
            "retrieve": lambda: store.retrieve("e") is not None,
        }
        return verbs[verb]()

    def test_a_clock_that_goes_back_does_not_revive(self, bench):
        store = bench.open()
        store.store(entry("e", expiration=ExpirationPolicy(60)))
        bench.time.pass_time(seconds=60)
        assert store.list() == []
        bench.time.pass_time(seconds=-30)
        assert store.list() == []
        assert store.retrieve("e") is None

    def test_an_expired_entry_cannot_be_updated_or_deleted(self, bench):
        store = bench.open()
        store.store(entry("e", expiration=ExpirationPolicy(60)))
        bench.time.pass_time(seconds=60)
        with pytest.raises(EntryNotFound):
            store.amend("e", content="x")
        store.store(entry("f", expiration=ExpirationPolicy(expires_at=bench.time.moment)))
        assert store.delete("f") is False

    def test_storing_over_an_expired_entry_starts_anew(self, bench):
        store = bench.open()
        store.store(entry("e", expiration=ExpirationPolicy(60)))
        bench.time.pass_time(seconds=60)
        again = store.store(entry("e", "new", created_at=bench.time.moment))
        assert again.created_at == START + timedelta(seconds=60)

    def test_an_expired_narrow_entry_does_not_hide_a_wide_one(self, bench):
        store = bench.open()
        store.store(entry("e", "wide", scope=MemoryScope.SHARED))
        store.store(entry("e", "narrow", expiration=ExpirationPolicy(60)))
        bench.time.pass_time(seconds=60)
        assert store.retrieve("e").content == "wide"

    @pytest.mark.parametrize("ttl", [0, -1, float("nan"), float("inf")])
    def test_a_time_to_live_of_nothing_is_refused(self, ttl):
        with pytest.raises(InvalidInput):
            ExpirationPolicy(ttl)

    def test_a_policy_names_one_end(self):
        for policy in ({}, {"ttl_seconds": 1, "expires_at": START}):
            with pytest.raises(InvalidInput):
                ExpirationPolicy(**policy)


class TestLexical:
    def test_score_one_is_identical_and_nothing_is_unrelated(self, bench):
        store = bench.open()
        store.store(entry("same", "The build uses Ninja"))
        store.store(entry("near", "Ninja is also a kind of warrior, they say"))
        store.store(entry("far", "Bread and soup"))
        hits = store.search(MemoryQuery(text="the build uses ninja"))
        assert ids(hits) == ["same", "near"]
        assert hits[0].score == 1.0
        assert 0 < hits[1].score < 1
        assert hits[0].score_details == {"lexical": 1.0}

    @pytest.mark.parametrize(
        "text",
        [
            "gateway/run.py",
            "pre-edit",
            "TODO: fix",
            "it's",
            "C++",
            "@host",
            "#tag",
            '"unbalanced',
            "NEAR(",
            "*",
            "",
            "AND",
            "OR NOT",
            "a^2",
            "col:term",
            "(",
            "{}",
            "-x",
            "+x",
            "\x00",
            "'; --",
            "^",
            "content : x",
            "\ud800",
            "\\",
            "x" * 5000,
            "%",
            "_",
        ],
    )
    def test_any_text_is_a_query(self, bench, text):
        store = bench.open()
        store.store(entry("e", f"before {text} after"))
        hits = store.search(MemoryQuery(text=text))
        searchable = any(letter.isalnum() for letter in text)
        assert ids(hits) == (["e"] if searchable else [])
        store.recall(text)

    def test_languages_without_spaces(self, bench):
        store = bench.open()
        texts = {
            "zh": "数据库使用端口8090运行",
            "ja": "テストはデータベースを使います",
            "ko": "데이터베이스를 사용합니다",
            "mix": "itgcログの設定",
            "wide": "ＡＰＩの鍵",
        }
        for name, text in texts.items():
            store.store(entry(name, text))
        for question, name in {
            "数据": "zh",
            "端口": "zh",
            "8090": "zh",
            "テスト": "ja",
            "데이터": "ko",
            "itgc": "mix",
            "設定": "mix",
            "api": "wide",
            "鍵": "wide",
        }.items():
            assert ids(store.search(MemoryQuery(text=question)))[:1] == [name], question

    def test_identifiers_are_found_by_their_parts_and_other_spellings(self, bench):
        store = bench.open()
        store.store(entry("camel", "call getUserName() first"))
        store.store(entry("snake", "the http_request_id is logged"))
        store.store(entry("other", "nothing of the kind"))
        for question, name in {
            "user": "camel",
            "get_user_name": "camel",
            "getUserName": "camel",
            "GetUserName": "camel",
            "HTTPRequestID": "snake",
            "request": "snake",
        }.items():
            assert ids(store.search(MemoryQuery(text=question))) == [name], question

    def test_stems_and_stop_words(self, bench):
        store = bench.open()
        store.store(entry("e", "The servers are listening on these ports"))
        assert ids(store.search(MemoryQuery(text="which port does the server listen on?"))) == ["e"]
        assert store.search(MemoryQuery(text="what is this and who are you")) != []
        assert store.search(MemoryQuery(text="what about the bread")) == []

    def test_context_counts_half(self, bench):
        store = bench.open()
        store.store(entry("own", "ninja builds it", context="some other words"))
        store.store(entry("near", "some other words", context="ninja builds it"))
        hits = store.search(MemoryQuery(text="ninja"))
        assert ids(hits) == ["own", "near"]
        assert hits[0].score > hits[1].score

    def test_ties_are_listed_as_always_and_prefixes_hold(self, bench):
        store = bench.open()
        for number in range(30):
            store.store(entry(f"e{number:02}", "ninja builds " + "very " * (number % 3) + "fast"))
        everything = ids(store.search(MemoryQuery(text="ninja fast")))
        assert len(everything) == 30
        assert everything[:10] == sorted(everything[:10])
        for number in range(30):
            assert ids(store.search(MemoryQuery(text="ninja fast", max_results=number))) == everything[:number]

    def test_min_relevance(self, bench):
        store = bench.open()
        store.store(entry("same", "ninja builds"))
        store.store(entry("half", "ninja " + "other words here " * 5))
        assert ids(store.search(MemoryQuery(text="ninja builds", min_relevance=0.9))) == ["same"]

    def test_changed_text_is_found_by_its_new_words_only(self, bench):
        store = bench.open()
        store.store(entry("e", "old words"))
        store.amend("e", content="fresh terms")
        for handle in (store, bench.open()):
            assert ids(handle.search(MemoryQuery(text="terms"))) == ["e"]
            assert handle.search(MemoryQuery(text="old")) == []


class TestSemantic:
    def test_without_an_embedder_it_is_empty_and_says_why(self, bench):
        store = bench.open()
        store.store(entry("e", "postgres"))
        assert store.search(MemoryQuery(semantic_text="postgres")) == []
        assert bench.notices[-1][0] == "memory_no_embedder"

    def test_nearest_in_meaning_first(self, bench):
        store = bench.open(embedder=WheelEmbedder())
        store.store(entry("db", "a sql table"))
        store.store(entry("both", "postgres port"))
        store.store(entry("net", "socket wire"))
        hits = store.search(MemoryQuery(semantic_text="postgres", min_relevance=0.1))
        assert ids(hits) == ["db", "both"]
        assert [hit.score for hit in hits] == pytest.approx([1.0, 0.707107], abs=1e-6)
        assert hits[0].score_details == {"semantic": 1.0}
        assert ids(store.search(MemoryQuery(semantic_text="postgres", max_results=1))) == ["db"]

    def test_vectors_are_made_at_storage_and_renewed_with_the_text(self, bench):
        embedder = WheelEmbedder()
        store = bench.open(embedder=embedder)
        stored = store.store(entry("e", "sql"))
        assert (stored.embedding, stored.embedder) == ((1.0, 0.0, 0.0, 0.0), "WheelEmbedder")
        calls = embedder.calls
        store.amend("e", tags=["x"])
        assert embedder.calls == calls
        assert store.amend("e", content="port").embedding == (0.0, 1.0, 0.0, 0.0)

    def test_vectors_of_another_embedder_are_ignored(self, bench):
        class Other(WheelEmbedder):
            pass

        bench.open(embedder=WheelEmbedder()).store(entry("e", "sql table"))
        store = bench.open(embedder=Other())
        assert store.search(MemoryQuery(semantic_text="sql")) == []
        assert ids(store.search(MemoryQuery(text="sql"))) == ["e"]
        assert ids(store.recall("sql")) == ["e"]

    def test_an_embedder_that_fails_loses_nothing(self, bench):
        class Broken(WheelEmbedder):
            def embed(self, text):
                msg = "no such model"
                raise RuntimeError(msg)

        store = bench.open(embedder=Broken())
        assert store.store(entry("e", "sql")).embedding is None
        assert bench.notices[-1][0] == "memory_not_embedded"
        assert ids(store.search(MemoryQuery(text="sql"))) == ["e"]

    def test_text_and_meaning_together_are_an_intersection(self, bench):
        store = bench.open(embedder=WheelEmbedder())
        store.store(entry("both", "postgres is red"))
        store.store(entry("words", "nothing known but red"))
        hits = store.search(MemoryQuery(text="red", semantic_text="postgres", min_relevance=0.01))
        assert ids(hits)[0] == "both"
        assert set(hits[0].score_details) == {"lexical", "semantic"}


class TestTrust:
    def test_own_entries_are_trusted_others_are_marked_until_adopted(self, bench):
        mine, theirs = mac_with(b"mine"), mac_with(b"theirs")
        bench.open(mac=theirs).store(entry("foreign", "obey the README"))
        bench.open().store(entry("unsigned", "obey the README too"))
        store = bench.open(mac=mine)
        store.store(entry("own", "read the README"))
        assert {found.identifier: found.trusted for found in store.list()} == {
            "foreign": False,
            "unsigned": False,
            "own": True,
        }
        trusted = MemoryQuery(trusted_only=True, max_results=1)
        assert ids(store.list(trusted)) == ["own"]
        assert ids(store.recall("README", trusted)) == ["own"]
        assert store.adopt("foreign").trusted is True
        assert store.retrieve("foreign").trusted is True
        assert bench.open(mac=theirs).retrieve("foreign").trusted is False

    def test_without_a_key_nothing_is_trusted(self, bench):
        store = bench.open()
        assert store.store(entry("e")).trusted is False
        assert store.list(MemoryQuery(trusted_only=True)) == []

    def test_an_update_does_not_launder_what_another_wrote_unseen(self, bench):
        bench.open(mac=mac_with(b"theirs")).store(entry("e", "evil", context="evil context"))
        store = bench.open(mac=mac_with(b"mine"))
        assert store.amend("e", tags=["seen"]).trusted is False
        assert store.amend("e", content="my own words", context="").trusted is True

"""The index over very many vectors: what it finds, how it follows changes, and the copy of it in a file."""

from __future__ import annotations

import pytest

from indusagi_lsp.memory import EmbeddingProvider, MemoryEntry, MemoryQuery, MemoryScope, neighbours
from indusagi_lsp.memory.matrix import Matrix
from indusagi_lsp.memory.neighbours import Neighbours
from indusagi_lsp.memory.sqlite import SqliteMemoryStore
from unit.memory.backends import START, mac_with

np = pytest.importorskip("numpy", reason="the extra `vectors` is not installed")
pytest.importorskip("usearch", reason="the extra `vectors` is not installed")

LENGTH = 16
COUNT = 1500
MAC = mac_with(b"own")
PATIENCE = 120


def vectors(count, seed=1):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(count, LENGTH)).astype(np.float32)


def matrix_of(rows):
    matrix = Matrix(LENGTH)
    matrix.put(range(len(rows)), [number % 2 for number in range(len(rows))], rows)
    return matrix


def looked_up(matrix, near):
    matrix.look_up_with(near)
    assert near.wait(PATIENCE)


def best(matrix, vector, count=10, **more):
    found = []
    for portion in matrix.nearest(vector, more.pop("groups", None), 40, **more):
        found += sorted(portion, key=lambda number: (-portion[number], number))
        if len(found) >= count:
            break
    return found[:count]


def share(matrix, exact, **more):
    questions = vectors(40, seed=2)
    pairs = [(set(best(matrix, question, **more)), set(best(exact, question, **more))) for question in questions]
    return sum(len(found & wanted) / len(wanted) for found, wanted in pairs) / len(pairs)


class Counted(Neighbours):
    """Counts how many searches it has answered, and what it had to bring in as a whole."""

    answered = 0
    brought = 0

    def candidates(self, vector):
        found = super().candidates(vector)
        self.answered += found is not None
        return found

    def _bring(self, matrix, wanted):
        changed = super()._bring(matrix, wanted)
        self.brought += changed
        return changed


@pytest.mark.parametrize("groups", [None, [1]])
@pytest.mark.parametrize("lexical", [None, {3: 0.4, 9: 0.9, 20_000: 0.7}])
def test_it_finds_what_a_whole_pass_finds(groups, lexical):
    rows = vectors(COUNT)
    matrix, near = matrix_of(rows), Counted(LENGTH)
    looked_up(matrix, near)
    more = {"groups": groups} if lexical is None else {"groups": groups, "lexical": lexical, "weight": 0.7}
    assert share(matrix, matrix_of(rows), **more) >= 0.95
    assert near.answered == 40


def test_portions_hold_each_row_once_and_all_of_them():
    matrix, near = matrix_of(vectors(COUNT)), Counted(LENGTH)
    looked_up(matrix, near)
    question = vectors(1, seed=3)[0]
    portions = list(matrix.nearest(question, None, 40))
    numbers = [number for portion in portions for number in portion]
    assert near.answered == 1
    assert 10 <= len(portions[0]) <= neighbours.CANDIDATES
    # What points away has no part in it, with the index or without.
    assert sorted(numbers) == sorted(
        number for portion in matrix_of(vectors(COUNT)).nearest(question, None, 40) for number in portion
    )


def test_a_search_for_very_many_looks_at_all_rows():
    matrix, near = matrix_of(vectors(COUNT)), Counted(LENGTH)
    looked_up(matrix, near)
    next(iter(matrix.nearest(vectors(1)[0], None, 500)))
    assert near.answered == 0


@pytest.mark.parametrize("changes", [5, 4 * neighbours.INLINE])
def test_it_follows_changes(changes):
    rows = vectors(COUNT)
    matrix, near = matrix_of(rows), Counted(LENGTH)
    looked_up(matrix, near)
    fresh = vectors(changes, seed=4)
    for number in range(changes):
        matrix.remove(number)
        matrix.put([changes + number], [0], [fresh[number]])
        matrix.put([COUNT + number], [0], [-fresh[number]])
    # The first search brings few changes in; many are brought in by the thread, and meanwhile all rows are looked at.
    assert best(matrix, fresh[0], 1) == [changes]
    assert near.wait(PATIENCE)
    answered = near.answered
    for number in range(changes):
        assert best(matrix, fresh[number], 1) == [changes + number]
        assert best(matrix, -fresh[number], 1) == [COUNT + number]
        assert number not in best(matrix, rows[number])
    assert near.answered == answered + 3 * changes


def test_another_matrix_is_compared_with_what_is_known():
    near = Counted(LENGTH)
    rows = vectors(COUNT)
    looked_up(matrix_of(rows), near)
    assert near.brought == COUNT
    near.follow(None)
    assert near.candidates(rows[0]) is None
    rows[7] = -rows[7]
    other = matrix_of(rows[:-1])
    looked_up(other, near)
    assert near.brought == COUNT + 1
    assert best(other, rows[7], 1) == [7]


def test_an_index_that_fails_is_done_without():
    matrix, near = matrix_of(vectors(COUNT)), Counted(LENGTH)
    looked_up(matrix, near)
    near._index = None
    question = vectors(1, seed=5)[0]
    assert best(matrix, question) == best(matrix_of(vectors(COUNT)), question)
    assert near.answered == 0


class TestFile:
    def kept(self, tmp_path, rows, mac=MAC):
        near = Counted(LENGTH, path=tmp_path / "near", mac=mac)
        looked_up(matrix_of(rows), near)
        return near

    def test_a_copy_spares_the_building(self, tmp_path):
        rows = vectors(COUNT)
        assert self.kept(tmp_path, rows).brought == COUNT
        assert [path.name for path in tmp_path.iterdir()] == ["near"]
        assert (tmp_path / "near").stat().st_mode & 0o077 == 0
        assert self.kept(tmp_path, rows).brought == 0
        rows[3] = -rows[3]
        assert self.kept(tmp_path, rows).brought == 1

    def test_a_deleted_foreign_or_damaged_copy_is_made_anew(self, tmp_path):
        rows, file = vectors(COUNT), tmp_path / "near"
        self.kept(tmp_path, rows)
        good = file.read_bytes()
        for bad in (None, b"", good[:-1], good[:1000] + bytes([good[1000] ^ 1]) + good[1001:], b"x" * 100):
            file.unlink() if bad is None else file.write_bytes(bad)
            assert self.kept(tmp_path, rows).brought == COUNT
            assert self.kept(tmp_path, rows).brought == 0
        assert self.kept(tmp_path, rows, mac=mac_with(b"another")).brought == COUNT

    def test_a_link_is_not_followed(self, tmp_path):
        rows = vectors(COUNT)
        self.kept(tmp_path, rows)
        (tmp_path / "near").rename(tmp_path / "elsewhere")
        (tmp_path / "near").symlink_to("elsewhere")
        assert self.kept(tmp_path, rows).brought == COUNT
        assert not (tmp_path / "near").is_symlink()

    def test_without_a_proof_nothing_is_kept(self, tmp_path):
        assert self.kept(tmp_path, vectors(COUNT), mac=None).brought == COUNT
        assert list(tmp_path.iterdir()) == []

    def test_what_a_dead_process_left_is_removed(self, tmp_path):
        (tmp_path / "near.0000.tmp").write_bytes(b"half")
        self.kept(tmp_path, vectors(COUNT))
        assert [path.name for path in tmp_path.iterdir()] == ["near"]


class Given(EmbeddingProvider):
    """The vectors of questions by their number."""

    def embed(self, text):
        return vectors(40, seed=2)[int(text)].tolist()

    def batch_embed(self, texts):
        return [self.embed(text) for text in texts]


def test_a_store_with_many_vectors_uses_it_and_keeps_it_beside(tmp_path, monkeypatch):
    monkeypatch.setattr(neighbours, "FROM", 1000)
    rows, embedder = vectors(COUNT), Given()

    def opened(agent="a"):
        return SqliteMemoryStore(tmp_path / "memory.db", embedder=embedder, mac=MAC, agent=agent)

    def asked(store):
        return [store.search(MemoryQuery(semantic_text=str(number), max_results=10)) for number in range(40)]

    monkeypatch.setattr(neighbours, "is_available", lambda: False)
    plain, other = opened(), opened("b")
    with plain.bulk():
        for number, row in enumerate(rows.tolist()):
            scope = MemoryScope.SHARED if number % 3 else MemoryScope.AGENT
            plain.store(
                MemoryEntry(
                    identifier=f"e{number}", content="x", created_at=START, scope=scope, embedding=row,
                    embedder=embedder.id,
                )
            )  # fmt: skip
    exact = asked(plain)
    assert [path.name for path in tmp_path.glob("*near*")] == []

    monkeypatch.setattr(neighbours, "is_available", lambda: True)
    store = opened()
    asked(store)
    (near,) = store._derived._neighbours.values()
    assert near.wait(PATIENCE)
    assert len(list(tmp_path.glob("memory.db-near-*"))) == 1
    found = asked(store)
    same = [
        len({hit.entry.identifier for hit in hits} & {hit.entry.identifier for hit in wanted})
        for hits, wanted in zip(found, exact, strict=True)
    ]
    assert sum(same) >= 0.95 * 400
    assert found[0][0].score == exact[0][0].score

    # Another process writes: the store reads anew, and the index is compared with it.
    other.store(
        MemoryEntry(
            identifier="new", content="x", scope=MemoryScope.SHARED, embedding=embedder.embed("0"), embedder=embedder.id
        )
    )
    assert asked(store)[0][0].entry.identifier == "new"
    assert near.wait(PATIENCE)
    assert asked(store)[0][0].entry.identifier == "new"
    # What only the one agent sees is not among the other's hits, whatever the index names.
    hits = [hit for hits in asked(other) for hit in hits]
    assert hits
    assert all(hit.entry.scope is MemoryScope.SHARED for hit in hits)
    for one in (plain, other, store):
        one.close()

"""The packaged embedder, for real: its weights, its word pieces, its sense."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from pathlib import Path

import pytest

from indusagi_lsp.contract.errors import InvalidState
from indusagi_lsp.memory import MemoryEntry, MemoryQuery, SqliteMemoryStore, minilm
from indusagi_lsp.memory.minilm import MiniLmEmbedder
from indusagi_lsp.memory.wordpiece import WordPiece

pytest.importorskip("onnxruntime", reason="the extra `embeddings` is not installed")

FACTS = Path(__file__).parents[3] / "fixtures" / "retrieval" / "facts.json"


@pytest.fixture(scope="module")
def embedder():
    return MiniLmEmbedder()


def dot(left, right):
    return sum(a * b for a, b in zip(left, right, strict=True))


def test_vectors_are_of_unit_length_and_near_where_the_meaning_is(embedder):
    tool, question, soup = embedder.batch_embed(
        ["The project is compiled with Ninja.", "Which build tool do we use?", "Tomato soup with bread"]
    )
    assert len(tool) == 384
    assert dot(tool, tool) == pytest.approx(1, abs=1e-5)
    assert dot(tool, question) > 0.35 > dot(tool, soup)


def test_one_or_many_give_the_same(embedder):
    texts = ["one", "a much longer text about databases, ports and sockets", ""]
    for text, vector in zip(texts, embedder.batch_embed(texts), strict=True):
        # 8-bit arithmetic depends a little on how long the batch is.
        assert dot(embedder.embed(text), vector) > 0.99
    assert embedder.batch_embed([]) == []


def test_long_and_odd_texts_are_embedded(embedder):
    for text in ("word " * 10_000, "x" * 5000, "日本語のテスト", "\x00\ud800\u202e", "🚀", " \n"):
        assert len(embedder.embed(text)) == 384


@pytest.mark.parametrize(
    ("text", "pieces"),
    [
        ("unaffable", "[CLS] una ##ffa ##ble [SEP]"),
        ("Héllo, WORLD!", "[CLS] hello , world ! [SEP]"),
        ("get_user(x)", "[CLS] get _ user ( x ) [SEP]"),
        ("日本", "[CLS] 日 本 [SEP]"),
        ("\u200btab\tand\u00a0space", "[CLS] tab and space [SEP]"),
        ("y" * 101, "[CLS] [UNK] [SEP]"),
        ("[SEP]", "[CLS] [ sep ] [SEP]"),
        ("", "[CLS] [SEP]"),
    ],
)
def test_word_pieces(text, pieces):
    words = WordPiece.load()
    names = {number: piece for piece, number in words.vocabulary.items()}
    assert [names[number] for number in words.encode(text, 256)] == pieces.split()


def test_word_pieces_are_cut_at_the_limit():
    numbers = WordPiece.load().encode("word " * 1000, 256)
    assert len(numbers) == 256
    assert numbers[-1] == 102


def test_wrong_weights_are_refused(tmp_path):
    path = tmp_path / "model.onnx"
    path.write_bytes(b"evil")
    with pytest.raises(InvalidState, match="not the ones"):
        MiniLmEmbedder(path).embed("x")
    with pytest.raises(InvalidState, match="cannot be read"):
        MiniLmEmbedder(tmp_path / "none").embed("x")


def test_a_damaged_vocabulary_is_refused(monkeypatch):
    monkeypatch.setattr(gzip, "decompress", lambda _: b"[CLS]\n")
    with pytest.raises(InvalidState, match="vocabulary"):
        WordPiece.load()


def test_what_is_not_installed_is_told(monkeypatch):
    monkeypatch.setattr(minilm, "PACKAGE", "no-such-package")
    with pytest.raises(InvalidState) as caught:
        MiniLmEmbedder().embed("x")
    assert "embeddings" in caught.value.hint


def test_nothing_heavy_is_imported_with_memory():
    code = (
        "import sys, indusagi_lsp.memory, indusagi_lsp.memory.minilm;"
        "heavy = ('numpy', 'onnxruntime', 'sqlite3', 'filelock', 'psycopg', 'redis');"
        "print([name for name in heavy if name in sys.modules])"
    )
    shown = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, stdin=subprocess.DEVNULL
    )
    assert shown.stdout.strip() == "[]"


def test_on_our_own_facts_meaning_finds_what_words_do_not(embedder, tmp_path):
    """A tenth of the benchmark: questions with no shared words, and key words, over all facts."""
    data = json.loads(FACTS.read_text("utf-8"))
    texts = [item["text"] for item in data["entries"]]
    store = SqliteMemoryStore(tmp_path / "m.db", embedder=embedder)
    for item, vector in zip(data["entries"], embedder.batch_embed(texts), strict=True):
        store.store(MemoryEntry(identifier=item["id"], content=item["text"], embedding=vector, embedder=embedder.id))
    found = {"lexical": 0, "fused": 0}
    for question in data["questions"][::20]:
        query = MemoryQuery(max_results=10)
        wanted = set(question["relevant"])
        found["fused"] += bool(wanted & {hit.entry.identifier for hit in store.recall(question["text"], query)})
        lexical = MemoryQuery(text=question["text"], max_results=10)
        found["lexical"] += bool(wanted & {hit.entry.identifier for hit in store.search(lexical)})
    assert found["fused"] >= 15 > found["lexical"]
    store.close()

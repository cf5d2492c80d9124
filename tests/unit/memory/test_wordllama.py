"""The light embedder, for real: its table, its pieces, its sense."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from pathlib import Path

import pytest

from indusagi_lsp.contract.errors import InvalidState
from indusagi_lsp.memory import FileMemoryStore, MemoryEntry, MemoryQuery, wordllama
from indusagi_lsp.memory.wordllama import LONGEST, WordLlamaEmbedder
from indusagi_lsp.workspace import memories

pytest.importorskip("tokenizers", reason="the extra `wordllama` is not installed")
pytest.importorskip("safetensors", reason="the extra `wordllama` is not installed")

FACTS = Path(__file__).parents[3] / "fixtures" / "retrieval" / "facts.json"


@pytest.fixture(scope="module")
def embedder():
    return WordLlamaEmbedder()


def dot(left, right):
    return sum(a * b for a, b in zip(left, right, strict=True))


def test_vectors_are_of_unit_length_and_near_where_the_meaning_is(embedder):
    port, question, soup = embedder.batch_embed(
        ["The staging database listens on port 5544", "Which socket does the SQL server use?", "Tomato soup with bread"]
    )
    assert len(port) == 256
    assert dot(port, port) == pytest.approx(1, abs=1e-5)
    assert dot(port, question) > dot(question, soup) + 0.1


def test_odd_texts_have_vectors_too(embedder):
    for text in ("", " ", "\0", "\U0001f680", "数据库", "x" * 100_000):
        (vector,) = embedder.batch_embed([text])
        assert len(vector) == 256
        assert all(map(math.isfinite, vector))
    long = "staging " * LONGEST
    assert embedder.embed(long) == embedder.embed(long + "soup")


def test_it_makes_what_the_package_itself_makes(embedder):
    """Only here is the package's own code run, told to fetch nothing."""
    package = pytest.importorskip("wordllama", reason="the extra `wordllama` is not installed")
    texts = ["hello world", "Use pnpm, never npm, in the web folder", "ünï çödé"]
    own = package.WordLlama.load(cache_dir=Path(package.__file__).parent, disable_download=True)
    for ours, theirs in zip(embedder.batch_embed(texts), own.embed(texts, norm=True).tolist(), strict=True):
        assert ours == pytest.approx(theirs, abs=1e-5)


def test_other_files_are_refused(monkeypatch):
    monkeypatch.setattr(wordllama, "TABLE_SHA256", "0" * 64)
    with pytest.raises(InvalidState, match="not the ones"):
        WordLlamaEmbedder().embed("x")


def test_what_is_not_installed_is_told(monkeypatch):
    monkeypatch.setattr(wordllama, "PACKAGE", "no-such-package")
    with pytest.raises(InvalidState) as caught:
        WordLlamaEmbedder().embed("x")
    assert "wordllama" in caught.value.hint


@pytest.mark.parametrize(("minilm_there", "expected"), [(True, "all-MiniLM"), (False, "wordllama")])
def test_it_is_taken_where_the_better_one_is_not_installed(monkeypatch, minilm_there, expected):
    from indusagi_lsp.memory import packaged

    monkeypatch.setattr(packaged, "is_installed", lambda name: minilm_there or name == wordllama.PACKAGE)
    assert memories._embedder().id.startswith(expected)


def test_nothing_of_the_package_is_imported():
    code = (
        "import sys; from indusagi_lsp.memory.wordllama import WordLlamaEmbedder as made;"
        "made().embed('x'); print([name for name in ('wordllama', 'requests') if name in sys.modules])"
    )
    shown = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, stdin=subprocess.DEVNULL
    )
    assert shown.stdout.strip() == "[]"


def test_on_our_own_facts_it_finds_no_less_than_words_alone(embedder, tmp_path):
    data = json.loads(FACTS.read_text("utf-8"))
    texts = [item["text"] for item in data["entries"]]
    with_meaning = FileMemoryStore(tmp_path / "a", embedder=embedder)
    made = [
        MemoryEntry(identifier=item["id"], content=item["text"], embedding=vector, embedder=embedder.id)
        for item, vector in zip(data["entries"], embedder.batch_embed(texts), strict=True)
    ]
    for entry in made:
        with_meaning.store(entry)
    found: dict[str, list[int]] = {}
    for question in data["questions"][::4]:
        wanted = set(question["relevant"])
        fused = with_meaning.recall(question["text"], MemoryQuery(max_results=10))
        lexical = with_meaning.search(MemoryQuery(text=question["text"], max_results=10))
        counts = found.setdefault(question["kind"], [0, 0])
        for place, hits in enumerate((fused, lexical)):
            counts[place] += bool(wanted & {hit.entry.identifier for hit in hits})
    assert all(fused >= lexical for fused, lexical in found.values())
    fused, lexical = found["far"]
    assert fused >= 2 * lexical + 5
    with_meaning.close()

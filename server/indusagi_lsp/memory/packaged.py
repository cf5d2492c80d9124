"""Weights that come in packages: the file is found, and compared with its SHA-256. Nothing is imported of them."""

from __future__ import annotations

import hashlib
from importlib import metadata
from pathlib import Path

from indusagi_lsp.contract.errors import InvalidState


def is_installed(package: str) -> bool:
    """Whether a distribution of that name is installed."""
    try:
        metadata.distribution(package)
    except metadata.PackageNotFoundError:
        return False
    return True


def packaged_file(package: str, file: str, hint: str) -> Path:
    """Where a package has put a file.

    Args:
        package: the distribution's name.
        file: the file's path in it.
        hint: what the user can do where it is missing.

    Raises:
        InvalidState: the package is not installed.
    """
    try:
        return Path(str(metadata.distribution(package).locate_file(file)))
    except metadata.PackageNotFoundError:
        raise InvalidState("The packaged embedder is not installed.", hint=hint) from None


def checked_bytes(path: Path, sha256: str, hint: str) -> bytes:
    """The bytes of a file that must be a certain one.

    Args:
        path: the file.
        sha256: its hash in hexadecimal digits.
        hint: what the user can do where it is missing or another.

    Raises:
        InvalidState: it cannot be read, or is another.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        message = f"The embedder's weights cannot be read: {error.strerror}."
        raise InvalidState(message, hint=hint) from error
    if hashlib.sha256(data).hexdigest() != sha256:
        raise InvalidState("The embedder's weights are not the ones that were checked.", hint=hint)
    return data

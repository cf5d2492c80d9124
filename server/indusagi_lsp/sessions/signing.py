"""Whose history is it: the key of this user, and the mac that it puts on a head.

The sessions folder lies in the workspace, so whoever wrote the workspace wrote the sessions in it. A head that this
user wrote carries an HMAC over session id and leaf, made with a key that lives outside every workspace.
"""

from __future__ import annotations

import contextlib
import hmac
import os
import secrets
from hashlib import sha256
from pathlib import Path

from indusagi_lsp.contract.errors import PersistenceFault

KEY_BYTES = 32
_BLOCK = 64
KEY_FILE = "signing.key"


class Signer:
    """Signs the heads of this user, and tells them from those of others."""

    def __init__(self, key: bytes) -> None:
        """Take the key.

        Raises:
            ValueError: it is shorter than 16 bytes.
        """
        if len(key) < 16:
            raise ValueError("a signing key needs at least 16 bytes")
        self._key = key
        # HMAC as RFC 2104 has it, from prepared states: setting a keyed hash up costs more than the hashing itself.
        padded = (key if len(key) <= _BLOCK else sha256(key).digest()).ljust(_BLOCK, b"\0")
        self._inner = sha256(bytes(byte ^ 0x36 for byte in padded))
        self._outer = sha256(bytes(byte ^ 0x5C for byte in padded))

    def mac(self, session_id: str, leaf: str | None) -> str:
        """The mac of a head, in hex: it vouches for `leaf` and, since ids are hashes, for all that lies under it."""
        message = f"{session_id}\n{leaf or ''}".encode("utf-8", "surrogatepass")
        inner, outer = self._inner.copy(), self._outer.copy()
        inner.update(message)
        outer.update(inner.digest())
        return outer.hexdigest()

    def valid(self, session_id: str, leaf: str | None, mac: object) -> bool:
        """Whether this user put `mac` on that head. Anything that is no mac at all is not valid."""
        if not isinstance(mac, str) or not mac.isascii():
            return False
        return hmac.compare_digest(self.mac(session_id, leaf), mac)

    def seal(self, data: bytes) -> bytes:
        """A mac over derived data, so that a cache found in a workspace is known to be ours. In hex."""
        return hmac.digest(self._key, b"derived\n" + data, "sha256").hex().encode()


def load_key(state_dir: Path) -> bytes:
    """The user's signing key, made at the first call.

    Args:
        state_dir: the user's own state folder, outside every workspace; made if it is not there.

    Returns:
        32 bytes, the same at every call and in every process.

    Raises:
        PersistenceFault: the key can be neither read nor made.
    """
    path = state_dir / KEY_FILE
    try:
        with contextlib.suppress(FileNotFoundError):
            return _read_key(path)

        state_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        _create_key(path)
        return _read_key(path)
    except (OSError, ValueError) as error:
        msg = f"The signing key {path} cannot be used: {error}"
        raise PersistenceFault(
            msg,
            hint="Make its folder readable and writable for you alone, or remove the key to get a new one.",
        ) from error


def _create_key(path: Path) -> None:
    """Write a new key beside `path` and link it there: two processes that start at once end up with one key."""
    temporary = path.with_name(f"{path.name}.{os.getpid()}.{secrets.token_hex(4)}")
    fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o600)
    try:
        with os.fdopen(fd, "wb") as file:
            if hasattr(os, "fchmod"):
                os.fchmod(file.fileno(), 0o600)
            file.write(secrets.token_bytes(KEY_BYTES))
            file.flush()
            os.fsync(file.fileno())
        with contextlib.suppress(FileExistsError):
            _link(temporary, path)
    finally:
        with contextlib.suppress(FileNotFoundError):
            temporary.unlink()


def _link(source: Path, target: Path) -> None:
    """Give `source` the name `target`, never replacing a file that is there."""
    if os.name == "nt":
        source.rename(target)  # fails there when the target exists
    else:
        os.link(source, target)


def _read_key(path: Path) -> bytes:
    key = path.read_bytes()
    if len(key) != KEY_BYTES:
        message = f"it has {len(key)} bytes, not {KEY_BYTES}"
        raise ValueError(message)
    return key

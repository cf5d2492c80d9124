"""Import `lsprotocol.types` quickly: keep the code that attrs generates for its 554 classes.

That import is three quarters of the time until `initialize` is answered, most of it spent in compiling
generated source. The compiled code is kept in the user's cache folder. A piece is found by its exact source,
so that nothing but the very same program is ever run; anything doubtful about the file, or about attrs, leads
to the ordinary import.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import logging
import marshal
import os
import stat
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import CodeType
from typing import Any

from indusagi_lsp.contract.places import APP, HOME_VARIABLE, user_places

logger = logging.getLogger(__name__)

_MAGIC = b"indusagi attrs code 1\n"
_TYPES = "lsprotocol.types"
_FOLDER = "code"
_XDG = sys.platform not in ("win32", "darwin")


class CodeCache:
    """Compiled pieces of generated source, by that source.

    Args:
        folder: where the file lies; made private to the user.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._path: Path | None = None
        self._code: dict[str, CodeType] = {}
        self.missed = 0

    def load(self, sources: list[str]) -> None:
        """Read what was kept for this interpreter and these source files.

        What is kept is code that will be run, so nothing is read or kept but in a folder that this user alone can
        write, at an absolute path: a relative one would lead into whatever folder the server was started in.

        Args:
            sources: files whose size and time stand for the versions of the libraries.
        """
        if not self._folder.is_absolute():
            return
        try:
            self._path = self._folder / f"attrs-{_fingerprint(sources)}.bin"
            data = _read_private(self._path)
        except OSError:
            return
        if data is None:
            return

        magic, digest, payload = (
            data[: len(_MAGIC)],
            data[len(_MAGIC) : len(_MAGIC) + 32],
            data[len(_MAGIC) + 32 :],
        )
        if magic != _MAGIC or hashlib.sha256(payload).digest() != digest:
            return
        with contextlib.suppress(ValueError, EOFError, TypeError):
            # The digest shows that the bytes are whole; that they are ours, `_read_private` has seen.
            kept = marshal.loads(payload)  # noqa: S302
            if isinstance(kept, dict):
                self._code = kept

    def compile(self, script: str, filename: str) -> CodeType:
        """The code of `script`, from the cache or from the compiler."""
        key = f"{filename}\n{script}"
        code = self._code.get(key)
        if code is None:
            code = self._code[key] = compile(script, filename, "exec")
            self.missed += 1
        return code

    def save(self) -> None:
        """Keep what is new; a folder that cannot be written is left alone."""
        if not self.missed or self._path is None:
            return
        payload = marshal.dumps(self._code)
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            if not _is_ours(os.stat(self._folder, follow_symlinks=False), stat.S_ISDIR):
                logger.info("the cache of generated code was not written: others can write its folder")
                return
            _write_private(self._path, _MAGIC + hashlib.sha256(payload).digest() + payload)
            self.missed = 0
        except OSError as error:
            logger.info("the cache of generated code was not written: %s", error)

    def save_and_forget(self) -> None:
        """Keep what is new on disk, and let go of the code; the classes hold what they need."""
        self.save()
        self._code = {}


def cache_folder() -> Path:
    """The user's cache folder for this program, as everything else of it: see `contract/places.py`."""
    override = os.environ.get(HOME_VARIABLE)
    if not override and _XDG:
        # What platformdirs would say, without its import, which takes longer than the rest of this module.
        base = os.environ.get("XDG_CACHE_HOME", "")
        return Path(base if os.path.isabs(base) else os.path.expanduser("~/.cache")) / APP / _FOLDER
    return user_places(os.environ).cache / _FOLDER


def load_types(cache: CodeCache | None = None) -> CodeCache | None:
    """Import `lsprotocol.types`, through the cache where that is safe.

    Args:
        cache: where the code is kept; None means the user's cache folder.

    Returns:
        The cache, to be saved when there is time; None when it took no part.
    """
    if _TYPES in sys.modules:
        return None

    try:
        make = _patchable_attrs()
        spec = importlib.util.find_spec(_TYPES)
    except (ImportError, AttributeError, ValueError):
        return None
    if make is None or spec is None or spec.origin is None:
        return None

    cache = cache or CodeCache(cache_folder())
    cache.load([spec.origin, make.__file__])

    def evaluate(
        script: str,
        globs: dict[str, Any] | None,
        locs: Mapping[str, object] | None = None,
        filename: str = "",
    ) -> None:
        eval(cache.compile(script, filename), globs, locs)  # noqa: S307 - as attrs itself does

    with _replaced(make, evaluate):
        importlib.import_module(_TYPES)
    return cache


def _patchable_attrs() -> Any:
    """The attrs module whose compiler can be replaced, or None when it is not as we know it."""
    import attr._make as make

    function = getattr(make, "_compile_and_eval", None)
    code = getattr(function, "__code__", None)
    if code is None or code.co_varnames[: code.co_argcount] != ("script", "globs", "locs", "filename"):
        return None
    return make


@contextlib.contextmanager
def _replaced(make: Any, evaluate: Callable[..., None]) -> Any:
    original = make._compile_and_eval
    make._compile_and_eval = evaluate
    try:
        yield
    finally:
        make._compile_and_eval = original


def _fingerprint(sources: list[str]) -> str:
    """A name for this interpreter with these libraries: another version, another file."""
    parts = [sys.version, importlib.util.MAGIC_NUMBER.hex(), str(sys.flags.optimize)]
    for source in sources:
        found = os.stat(source)
        parts.append(f"{source} {found.st_size} {found.st_mtime_ns}")
    return hashlib.sha256("\n".join(parts).encode("utf-8", errors="surrogateescape")).hexdigest()[:32]


def _is_ours(found: os.stat_result, kind: Callable[[int], bool]) -> bool:
    """Whether it is of that kind, and nobody but this user can write it."""
    if not kind(found.st_mode):
        return False
    return not hasattr(os, "geteuid") or (found.st_uid == os.geteuid() and not found.st_mode & 0o022)


def _read_private(path: Path) -> bytes | None:
    """The content of a regular file that nobody but the user can write, nor put in its place, else None."""
    if not _is_ours(os.stat(path.parent, follow_symlinks=False), stat.S_ISDIR):
        return None
    fd = os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0))
    try:
        found = os.fstat(fd)
        # A second name of it may lie where others chose its content: in a folder that was cloned, say.
        if not _is_ours(found, stat.S_ISREG) or found.st_nlink != 1:
            return None
        with os.fdopen(fd, "rb", closefd=False) as stream:
            return stream.read()
    finally:
        os.close(fd)


def _write_private(path: Path, data: bytes) -> None:
    """Write a file that only the user can read, whole or not at all."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0), 0o600)
    try:
        with os.fdopen(fd, "wb") as stream:
            stream.write(data)
        os.replace(temporary, path)
    except OSError:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise

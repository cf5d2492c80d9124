"""How names compare when somebody tries to spell one name in another way."""

from __future__ import annotations

import re
import unicodedata

_SHORT_NAME = re.compile(r"~\d+$")
_RESERVED = re.compile(r"(con|prn|aux|nul|com\d|lpt\d)(\..*)?\Z", re.IGNORECASE)


def plain_name(name: str) -> str:
    """The form in which two spellings of one name are equal, on the most lenient file system there is.

    Case, Unicode form, characters that some file systems ignore, and dots and spaces at the end do not count.

    Args:
        name: one component of a path.
    """
    kept = "".join(character for character in name if unicodedata.category(character) != "Cf")
    return unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", kept).casefold()).rstrip(". ")


def windows_fault(name: str) -> str | None:
    """What makes a component mean something else than it says on Windows, or None.

    Args:
        name: one component of a path, without separators.
    """
    if ":" in name:
        return "a drive or a stream"
    if name.rstrip(". ") != name and name not in (".", ".."):
        return "dots or spaces at its end"
    if _RESERVED.match(name):
        return "a device"
    if _SHORT_NAME.search(name.partition(".")[0]):
        return "a short name"
    return None

"""One spelling for each URI, so that one folder has one host and one file one document.

Editors differ in the case of the drive letter and in what they percent-encode (`file:///c%3A/x` and
`file:///C:/x`).
"""

from __future__ import annotations

import os
import re
import string
from urllib.parse import quote, unquote_to_bytes, urlsplit

_DRIVE = re.compile(r"/[A-Za-z]:(?=/|\Z)")
# What RFC 3986 allows in a path without encoding, but the percent sign.
_SAFE = "/:@!$&'()*+,;=-._~" + string.ascii_letters + string.digits

# Most URIs are in their one spelling already: nothing encoded, no drive letter, no slash at the end.
_USUAL = re.compile(r"file:///(?![A-Za-z]:)[/:@!$&'()*+,;=._~A-Za-z0-9-]*(?<!/)\Z")


def normalise_uri(uri: str) -> str:
    """The one spelling of a `file:` URI; any other scheme comes back as it is.

    Args:
        uri: as a client wrote it.

    Returns:
        Lower-case scheme, no `localhost`, lower-case drive letter, each character encoded exactly if it must
        be, no slash at the end. Idempotent.
    """
    if _USUAL.match(uri):
        return uri
    try:
        parts = urlsplit(uri)
        uri.encode("utf-8")
    except ValueError:
        # No URI at all, or one with half a character, which no file has.
        return uri
    if parts.scheme.lower() != "file":
        return uri

    host = "" if parts.netloc.lower() == "localhost" else parts.netloc.lower()
    # `?` and `#` do not occur unencoded in the path of a file URI; a client that left them bare meant the
    # file's name.
    tail = (f"?{parts.query}" if parts.query else "") + (f"#{parts.fragment}" if parts.fragment else "")
    path = unquote_to_bytes(parts.path + tail)
    text = path.decode("utf-8", errors="surrogateescape") or "/"
    if _DRIVE.match(text):
        text = text[0] + text[1].lower() + text[2:]
    text = text.rstrip("/") or "/"
    if re.fullmatch(r"/[a-z]:", text):
        text += "/"
    return f"file://{host}{quote(text, safe=_SAFE, errors='surrogateescape')}"


def path_to_uri(path: str) -> str:
    """The URI of an absolute path of this machine, in its one spelling."""
    text = path.replace(os.sep, "/")
    if not text.startswith("/"):
        text = "/" + text
    return normalise_uri("file://" + quote(text, safe=_SAFE, errors="surrogateescape"))


def uri_to_path(uri: str) -> str | None:
    """The path of this machine that a `file:` URI names, or None for another scheme or machine, and for what is no URI.

    Args:
        uri: in any spelling.

    Returns:
        An absolute path, with surrogate escapes for bytes that are not UTF-8.
    """
    try:
        parts = urlsplit(normalise_uri(uri))
        text = unquote_to_bytes(parts.path).decode("utf-8", errors="surrogateescape")
    except ValueError:
        return None
    if parts.scheme != "file":
        return None
    if parts.netloc:
        # A share (`file://server/share`): only Windows has paths for it.
        return "\\\\" + parts.netloc + text.replace("/", "\\") if os.name == "nt" else None
    if os.name == "nt":
        return text.lstrip("/").replace("/", "\\")
    return None if "\0" in text else text

r"""Text that was not written here, made safe to show and to send: what the user sees is what the model gets.

Terminal escapes are stripped. Control, bidirectional and zero-width characters are made visible as `\u{…}`,
tag characters are removed. The joiners and selectors that scripts and emoji need stay where they have a
meaning, so that ordinary text comes through unchanged.
"""

from __future__ import annotations

import json
import re
import unicodedata

# ECMA-48: CSI with its parameters, the string sequences (DCS, SOS, OSC, PM, APC) up to BEL or ST, and the
# short ones, each in its 7-bit and 8-bit form. A string sequence without an end loses its introducer alone.
_ESCAPES = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]"
    r"|(?:\x1b[PX\]^_]|[\x90\x98\x9d\x9e\x9f])[^\x07\x1b\x9c]*(?:\x07|\x1b\\|\x9c)"
    r"|\x1b[ -/]*[0-~]"
    r"|\x1b"
)

# What may be the beginning of an escape whose rest has not arrived yet.
_UNFINISHED = re.compile(
    r"(?:(?:\x1b\[|\x9b)[0-?]*[ -/]*"
    r"|(?:\x1b[PX\]^_]|[\x90\x98\x9d\x9e\x9f])[^\x07\x1b\x9c]*\x1b?"
    r"|\x1b[ -/]*)\Z"
)
_LONGEST_UNFINISHED = 4096

# Tag characters have no glyph, and nothing but the flags of a few regions needs them.
_TAGS = re.compile("[\U000e0000-\U000e007f]")

# Everything without a glyph, or with the power to move or hide other glyphs; tab and line feed excepted.
_HIDDEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e"
    "\u2060-\u206f\u3164\ud800-\udfff\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\ufffe\uffff"
    "\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0080-\U000e0fff]"
)

_ZWNJ, _ZWJ = "\u200c", "\u200d"
_SELECTORS = "\ufe0e\ufe0f"
_EMOJI_TEXT = "#*0123456789\u203c\u2049\u3030\u303d"


def visible(text: str, before: str = "") -> str:
    r"""Make a text harmless and honest: nothing in it is hidden, and it cannot steer a terminal.

    Args:
        text: any text, lone surrogates included.
        before: the character that came before `text`, where it is a piece of a stream.

    Returns:
        The text with line ends as line feeds, without escape sequences and tags, and with every other hidden
        character spelled as `\u{hex}`. The control characters that are left are tab and line feed alone.
    """
    if text.isascii() and text.isprintable():
        return text

    text = _TAGS.sub("", _ESCAPES.sub("", text.replace("\r\n", "\n")))
    return _HIDDEN.sub(lambda match: _spell(match, before), text)


def visible_line(text: str, limit: int = 500) -> str:
    """The same for a place that has one line: line feeds and tabs are spelled too, and a long text is cut.

    Args:
        text: any text.
        limit: characters that the result may have at most.
    """
    line = visible(text).replace("\n", "\\n").replace("\t", "\\t")
    return line if len(line) <= limit else line[: limit - 1] + "…"


def quoted(name: str, limit: int = 1024) -> str:
    """A foreign name for a prompt or a list: plain where it is harmless, else a JSON string.

    Args:
        name: the name, possibly with surrogate escapes for bytes that were no UTF-8.
        limit: characters of the name that are shown at most.

    Returns:
        The name itself, or a JSON string that decodes to it.
    """
    if len(name) <= limit and visible_line(name, limit) == name and not re.search(r'["\\]|^\s|\s$|^$', name):
        return name
    cut = name if len(name) <= limit else name[: limit - 1] + "…"
    literal = json.dumps(cut, ensure_ascii=False)
    return _HIDDEN.sub(_escape, _TAGS.sub(_escape, literal))


class VisibleStream:
    """Makes the pieces of one text visible as they come; an escape sequence cut in two is stripped."""

    def __init__(self) -> None:
        self._held = ""
        self._last = ""

    def feed(self, piece: str) -> str:
        """The next piece, made visible; what may be the head of an escape sequence is held back."""
        text = self._held + piece
        self._held = ""
        unfinished = _UNFINISHED.search(text, max(0, len(text) - _LONGEST_UNFINISHED))
        if unfinished is not None:
            self._held = text[unfinished.start() :]
            text = text[: unfinished.start()]
        elif text.endswith("\r"):
            self._held, text = "\r", text[:-1]
        return self._show(text)

    def close(self) -> str:
        """What was held back, once nothing more comes."""
        text, self._held = self._held, ""
        return self._show(text)

    def _show(self, text: str) -> str:
        shown = visible(text, self._last)
        self._last = shown[-1:] or self._last
        return shown


def _escape(match: re.Match[str]) -> str:
    """One character as JSON escapes it."""
    return json.dumps(match.group())[1:-1]


def _spell(match: re.Match[str], before: str) -> str:
    """The visible spelling of one hidden character, or itself where a script or an emoji needs it."""
    character, text, place = match.group(), match.string, match.start()
    left = text[place - 1] if place else before
    if character in _SELECTORS and left and _takes_selector(left):
        return character
    if character in (_ZWJ, _ZWNJ):
        right = text[place + 1 : place + 2]
        if left and right and (_joins_script(left, right) or (character == _ZWJ and _joins_emoji(left, right))):
            return character
    return f"\\u{{{ord(character):x}}}"


def _takes_selector(left: str) -> bool:
    return left in _EMOJI_TEXT or unicodedata.category(left) in ("So", "Sm")


def _joins_emoji(left: str, right: str) -> bool:
    return (left in _SELECTORS or unicodedata.category(left) in ("So", "Sk")) and unicodedata.category(right) in (
        "So",
        "Sm",
    )


def _joins_script(left: str, right: str) -> bool:
    """Arabic to Sinhala: the scripts whose spelling uses joiners."""
    return all(
        "\u0600" <= character <= "\u0dff" and unicodedata.category(character)[0] in "LM" for character in (left, right)
    )

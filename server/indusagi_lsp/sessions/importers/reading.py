"""Small helpers that all the readers of foreign files share: lines, times, content parts, paths."""

from __future__ import annotations

import contextlib
import json
import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import msgspec

from indusagi_lsp.contract import jsontext
from indusagi_lsp.contract.turns import Block, ImageBlock, OtherBlock, TextBlock, ToolCallBlock

if TYPE_CHECKING:
    from collections.abc import Iterator

_OBJECT = re.compile(r"\{\s*\"")
_DATA_URL = re.compile(r"data:([\w.+-]+/[\w.+-]+);base64,(.*)", re.DOTALL)
_WINDOWS_PATH = re.compile(r"[A-Za-z]:[\\/]")
MAX_TITLE = 120


class Line(msgspec.Struct, frozen=True):
    """A line of a file: its number from 1, and its objects, or why there are none."""

    number: int
    values: tuple[dict[str, Any], ...] = ()
    problem: str | None = None


def lines(data: bytes) -> Iterator[Line]:
    """Read a file of JSON lines, whatever its state.

    Lines end at LF alone. NUL, CR and a byte order mark are stripped. Where two records are welded together,
    or a torn one stands before a whole one, what is whole is found.

    Args:
        data: the file's bytes.

    Yields:
        Each line that is not blank.
    """
    for number, raw in enumerate(data.split(b"\n"), start=1):
        text = raw.strip(b"\x00\r \t")
        if number == 1:
            text = text.removeprefix(b"\xef\xbb\xbf")
        if not text:
            continue

        try:
            value = jsontext.loads(text)
        except ValueError:
            yield _rescue(number, text.decode("utf-8", errors="replace"))
            continue

        if isinstance(value, dict):
            yield Line(number, (value,))
        else:
            yield Line(number, problem="not an object")


def count_lines(data: bytes) -> int:
    """How many whole lines there are: a last line without its end counts, if it is JSON."""
    whole, _, rest = data.rpartition(b"\n")
    lines_before = whole.count(b"\n") + 1 if data.count(b"\n") else 0
    if not rest.strip():
        return lines_before

    try:
        jsontext.loads(rest)
    except ValueError:
        return lines_before

    return lines_before + 1


def _rescue(number: int, text: str) -> Line:
    """Find the whole objects of a broken line."""
    decoder = json.JSONDecoder()
    found: list[dict[str, Any]] = []
    position = 0
    while match := _OBJECT.search(text, position):
        try:
            value, position = decoder.raw_decode(text, match.start())
        except (ValueError, RecursionError):
            position = match.end()
            continue

        # An inner object of a torn record is not a record.
        if "type" in value:
            found.append(value)

    return Line(number, tuple(found), "not JSON" if not found else "a broken line, read in part")


def milliseconds(value: Any) -> int | None:
    """A time as milliseconds since the epoch: ISO 8601 text (UTC where it names no zone), or a number.

    A number below 10^11 counts seconds, as no file is older than 1973.
    """
    if isinstance(value, str):
        try:
            moment = datetime.fromisoformat(value)
        except ValueError:
            return None

        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=UTC)
        return round(moment.timestamp() * 1000)

    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1e15:
        return None

    return round(value * 1000) if value < 1e11 else round(value)


def number(value: Any) -> int:
    """A count of tokens; anything else is 0."""
    return int(value) if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < 1e15 else 0


def text_of(value: Any) -> str | None:
    """The value if it is a text that is not empty."""
    return value if isinstance(value, str) and value else None


def mapping(value: Any) -> dict[str, Any]:
    """The value if it is an object, else an empty one."""
    return value if isinstance(value, dict) else {}


def sequence(value: Any) -> list[Any]:
    """The value if it is a list, else an empty one."""
    return value if isinstance(value, list) else []


def compact(value: Any) -> str:
    """JSON text for people to read: what a block of ours cannot say otherwise."""
    return jsontext.dumps(value).decode("utf-8")


def image(part: dict[str, Any]) -> Block:
    """An image part of any of the sources; what holds no base64 data is kept as it is."""
    source = mapping(part.get("source")) or mapping(part.get("inlineData")) or part
    media = source.get("media_type") or source.get("mediaType") or source.get("mimeType")
    data = source.get("data")
    if isinstance(media, str) and isinstance(data, str):
        return ImageBlock(media, data)

    url = part.get("image_url") or source.get("url")
    if isinstance(url, dict):
        url = url.get("url")
    match = _DATA_URL.fullmatch(url) if isinstance(url, str) else None
    if match:
        return ImageBlock(match[1], match[2])

    return OtherBlock({"kind": "foreign_image", "part": part})


def parts(content: Any) -> tuple[Block, ...]:
    """Text and images of a message's content, in any of the sources' spellings.

    Args:
        content: a text, a list of texts and part objects, or one part object.

    Returns:
        The blocks; empty texts are left out, a part that we do not know is kept as it is.
    """
    if isinstance(content, str):
        return (TextBlock(content),) if content else ()

    found: list[Block] = []
    for part in content if isinstance(content, list) else [content]:
        if isinstance(part, str):
            found.extend(parts(part))
        elif isinstance(part, dict):
            found.extend(_part(part))

    return tuple(found)


def _part(part: dict[str, Any]) -> tuple[Block, ...]:
    kind = part.get("type")
    if kind in ("image", "input_image", "image_url") or "inlineData" in part:
        return (image(part),)

    text = part.get("text")
    if isinstance(text, str):
        return (TextBlock(text),) if text else ()

    return (OtherBlock({"kind": f"foreign_{kind or 'part'}", "part": part}),)


def result_text(content: Any) -> tuple[str, tuple[Block, ...]]:
    """A tool's output as one text, and the images that came with it."""
    blocks = parts(content)
    texts = [block.text for block in blocks if isinstance(block, TextBlock)]
    texts.extend(compact(block.raw.get("part", block.raw)) for block in blocks if isinstance(block, OtherBlock))
    return "\n".join(texts), tuple(block for block in blocks if isinstance(block, ImageBlock))


def arguments(call: str, name: Any, value: Any) -> ToolCallBlock:
    """A tool call; arguments that come as JSON text are decoded, other text stays text."""
    if isinstance(value, str):
        with contextlib.suppress(ValueError):
            value = jsontext.loads(value)

    return ToolCallBlock(call, name if isinstance(name, str) else "unknown", {} if value is None else value)


def title_of(blocks: tuple[Block, ...]) -> str | None:
    """A title from what the user said, None if that is a machine's text (tags, injected files)."""
    for block in blocks:
        if not isinstance(block, TextBlock):
            continue

        line = next((line.strip() for line in block.text.split("\n") if line.strip()), "")
        if line and not line.startswith(("<", "Caveat: ", "# AGENTS.md", "[Request interrupted")):
            return line[:MAX_TITLE]

    return None


def folder_uri(path: str | None) -> str | None:
    """The URI of a folder that a source names by its path, of either kind of system."""
    if not path:
        return None

    if "://" in path:
        return path

    if _WINDOWS_PATH.match(path):
        drive, rest = path[0].lower(), path[2:].replace("\\", "/")
        return f"file:///{drive}%3A{quote(rest)}"

    # What is not UTF-8 cannot be quoted otherwise; such a path is shown, never opened.
    return "file://" + quote(path if path.startswith("/") else "/" + path, errors="replace")

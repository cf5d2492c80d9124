"""Exporters: one branch of a session as Markdown, as a page that needs nothing else, or as a session file.

Pure functions. Text that others wrote has its hidden characters made visible; in the page everything is
escaped, there is no script, and its policy allows no load at all.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import re
from datetime import UTC, datetime
from hashlib import sha256
from html import escape
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from indusagi_lsp.contract import jsontext
from indusagi_lsp.contract.models import Usage
from indusagi_lsp.contract.text import visible, visible_line
from indusagi_lsp.contract.turns import (
    Block,
    ImageBlock,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
    ToolResultBlock,
)
from indusagi_lsp.sessions.nodes import Node, node_line, node_text
from indusagi_lsp.sessions.state import totals

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from indusagi_lsp.sessions.session import Session

Format = Literal["markdown", "html", "jsonl"]
ENDINGS: Mapping[Format, str] = {"markdown": ".md", "html": ".html", "jsonl": ".jsonl"}
_SHOWN_IMAGES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
_NAMES = {"user": "User", "assistant": "Assistant", "tool": "Tool", "system": "System"}
_BACKTICKS = re.compile(r"`+")
_STYLE = """\
body { font: 16px/1.5 system-ui, sans-serif; max-width: 52rem; margin: 2rem auto; padding: 0 1rem;
  color: #1b1b1b; background: #fff }
pre { white-space: pre-wrap; overflow-wrap: anywhere; background: #f4f4f4; padding: .6rem; font-size: .85rem }
.said { white-space: pre-wrap; overflow-wrap: anywhere }
article { border-top: 1px solid #ddd; padding: .5rem 0 }
h2 { font-size: 1rem; margin: .3rem 0 }
time, .about { color: #555; font-weight: normal; font-size: .85rem }
.failed summary { color: #a00 }
img { max-width: 100% }
@media (prefers-color-scheme: dark) {
  body { color: #ddd; background: #1b1b1b }
  pre { background: #2a2a2a }
  article { border-color: #444 }
  time, .about { color: #aaa }
  .failed summary { color: #f88 }
}
"""


class Branch(msgspec.Struct, frozen=True):
    """What is exported: the path to a node, and what is known of its session.

    `records` are further records of the session's file that belong to the path (condense, label, usage); they
    are written to a session file as they are. `timed` says whether times and the number of turns are shown.
    """

    session_id: str
    nodes: Sequence[Node]
    title: str = ""
    cwd: str | None = None
    model: str | None = None
    trusted: bool = True
    usage: Usage = Usage()
    labels: Mapping[str, str] = {}
    records: Sequence[Mapping[str, Any]] = ()
    timed: bool = True


def comparable(branch: Branch) -> Branch:
    """The branch without what any two differ in whatever was said: when, how many turns, and what they took.

    For the text of two branches side by side, in Markdown.
    """
    return msgspec.structs.replace(branch, usage=Usage(), timed=False)


async def branch_of(session: Session, leaf: str | None = None) -> Branch:
    """Take a branch of an open session for export.

    Args:
        session: the session.
        leaf: where the branch ends; None takes the live one.

    Raises:
        NodeNotFound: the session has no such node.
    """
    wanted = session.graph.leaf if leaf is None else leaf
    nodes = await asyncio.to_thread(session.graph.nodes_to, wanted)
    known, spent = session.labels, session.usages
    labels = {node.id: known[node.id] for node in nodes if node.id in known}
    usages = {node.id: spent[node.id] for node in nodes if node.id in spent}
    records = [{"type": "label", "node": node, "name": name} for node, name in labels.items()]
    records.extend(usage_record(node, usage) for node, usage in usages.items())
    return Branch(
        session_id=session.id,
        nodes=nodes,
        title=session.meta.title or "",
        cwd=session.meta.cwd,
        model=session.meta.model,
        trusted=session.trusted,
        usage=totals(usages.values()),
        labels=labels,
        records=records,
    )


async def export_branch(session: Session, form: Format, leaf: str | None = None, *, compared: bool = False) -> bytes:
    """A branch of an open session as the bytes of a file; `compared` for a comparison; else as `branch_of`."""
    branch = await branch_of(session, leaf)
    if compared:
        branch = comparable(branch)
    return await asyncio.to_thread(export, branch, form)


def export(branch: Branch, form: Format) -> bytes:
    """The branch in one of the forms, as the bytes of a file."""
    if form == "markdown":
        return to_markdown(branch).encode()

    return to_html(branch).encode() if form == "html" else to_jsonl(branch)


def to_markdown(branch: Branch) -> str:
    """The branch as Markdown: words as they were said, calls and results in fences that hold."""
    lines = [f"# {visible_line(branch.title or branch.session_id)}", ""]
    lines.extend(f"- {name}: {value}" for name, value in _about(branch))
    for node in branch.nodes:
        label = f" · {visible_line(branch.labels[node.id])}" if node.id in branch.labels else ""
        when = f" · {_when(node.created_at)}" if branch.timed else ""
        lines.extend(["", f"## {_name(node)}{when}{label}"])
        if node.gap:
            lines.extend(["", "*(The history above this turn is missing.)*"])
        for block in node.turn.blocks:
            lines.extend(["", _markdown(block)])

    return "\n".join(lines) + "\n"


def to_html(branch: Branch) -> str:
    """The branch as a page: one file, no script, nothing loaded, every text of the session escaped."""
    style = base64.b64encode(sha256(_STYLE.encode()).digest()).decode()
    policy = f"default-src 'none'; img-src data:; style-src 'sha256-{style}'; base-uri 'none'; form-action 'none'"
    title = escape(visible_line(branch.title or branch.session_id))
    parts = [
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">',
        f'<meta http-equiv="Content-Security-Policy" content="{escape(policy)}">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        '<meta name="referrer" content="no-referrer">',
        f"<title>{title}</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n<h1>{title}</h1>",
        '<ul class="about">',
        *(f"<li>{escape(name)}: {escape(value)}</li>" for name, value in _about(branch)),
        "</ul>",
    ]
    for node in branch.nodes:
        label = f" · {escape(visible_line(branch.labels[node.id]))}" if node.id in branch.labels else ""
        parts.append(f'<article id="n-{escape(visible_line(node.id))}">')
        parts.append(f"<h2>{escape(_name(node))} <time>{_when(node.created_at)}</time>{label}</h2>")
        if node.gap:
            parts.append("<p><em>The history above this turn is missing.</em></p>")
        parts.extend(map(_html, node.turn.blocks))
        parts.append("</article>")
    parts.append("</body>\n</html>\n")
    return "\n".join(parts)


def to_jsonl(branch: Branch) -> bytes:
    """The branch as a session file of its own; its head is not signed, so that its reader has to adopt it."""
    nodes = branch.nodes
    about: dict[str, Any] = {"type": "session", "schema": 1, "id": branch.session_id}
    if branch.cwd:
        about["cwd"] = branch.cwd
    about["createdAt"] = nodes[0].created_at if nodes else 0
    if branch.title:
        about["title"] = branch.title
    if branch.model:
        about["model"] = branch.model

    lines = [jsontext.dumps(about) + b"\n"]
    for node in nodes:
        text = node_text(node.parent, node.turn, node.created_at)
        lines.append(node_line(node.id, text, node.turn, node.parent, node.created_at))
    lines.extend(jsontext.dumps(dict(record)) + b"\n" for record in branch.records)
    if nodes:
        head = {
            "type": "head",
            "leaf": nodes[-1].id,
            "at": nodes[-1].created_at,
            "by": "export",
            "why": "append",
        }
        lines.append(jsontext.dumps(head) + b"\n")

    return b"".join(lines)


def _about(branch: Branch) -> list[tuple[str, str]]:
    about = [("Session", visible_line(branch.session_id))]
    if branch.cwd:
        about.append(("Folder", visible_line(branch.cwd)))
    if branch.model:
        about.append(("Model", visible_line(branch.model)))
    if branch.timed:
        about.append(("Turns", str(len(branch.nodes))))
    if branch.usage != Usage():
        about.append(("Tokens", f"{branch.usage.input:,} in, {branch.usage.output:,} out"))
    if branch.usage.cost is not None:
        about.append(("Cost", f"${branch.usage.cost:.4f}"))
    if not branch.trusted:
        about.append(("Origin", "written by somebody else"))

    return about


def _name(node: Node) -> str:
    return _NAMES.get(node.turn.role, visible_line(node.turn.role, 80))


def _when(created_at: float) -> str:
    try:
        return datetime.fromtimestamp(created_at / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    except (OverflowError, ValueError, OSError):
        return "at an unknown time"


def _attached(block: TextBlock) -> str | None:
    """What the editor sent along with the words, in a line; None for words."""
    if "context" not in block.extra:
        return None

    context = block.extra["context"]
    at = context.get("at") if isinstance(context, dict) else None
    return f"Attached `{visible_line(at, 300)}`" if isinstance(at, str) else "Attached"


def _data(value: Any) -> str:
    """JSON for people: a lone surrogate stays an escape."""
    return value if isinstance(value, str) else jsontext.dumps(value).decode()


def _fenced(text: str, language: str = "") -> str:
    longest = max((len(run) for run in _BACKTICKS.findall(text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{language}\n{text}\n{fence}"


def _markdown(block: Block) -> str:
    if isinstance(block, TextBlock):
        attached = _attached(block)
        return visible(block.text) if attached is None else f"{attached}:\n\n" + _fenced(visible(block.text))

    if isinstance(block, ThinkingBlock):
        quoted = visible(block.text or "(encrypted)").replace("\n", "\n> ")
        return f"> *Thinking:* {quoted}"

    if isinstance(block, ToolCallBlock):
        return f"Call of `{visible_line(block.name, 80)}`:\n\n" + _fenced(visible(_data(block.input)), "json")

    if isinstance(block, ToolResultBlock):
        word = "Failed" if block.is_error else "Result"
        return f"{word}:\n\n" + _fenced(visible(block.output))

    if isinstance(block, ImageBlock):
        return f"*(An image, {visible_line(block.media_type, 80)}, {_size(block)} bytes.)*"

    return _fenced(visible(_data(block.raw)), "json")


def _html(block: Block) -> str:
    if isinstance(block, TextBlock):
        attached = _attached(block)
        if attached is not None:
            return _folded(attached, block.text)
        return f'<div class="said">{escape(visible(block.text))}</div>'

    if isinstance(block, ThinkingBlock):
        return _folded("Thinking", block.text or "(encrypted)")

    if isinstance(block, ToolCallBlock):
        return _folded(f"Call of {visible_line(block.name, 80)}", _data(block.input))

    if isinstance(block, ToolResultBlock):
        return _folded("Failed" if block.is_error else "Result", block.output, failed=block.is_error is True)

    if isinstance(block, ImageBlock):
        data = _image(block)
        if data is None:
            return f"<p>(An image, {escape(visible_line(block.media_type, 80))}, that cannot be shown.)</p>"
        return f'<img alt="" src="data:{block.media_type};base64,{data}">'

    return _folded("Something else", _data(block.raw))


def _folded(summary: str, text: str, *, failed: bool = False) -> str:
    kind = ' class="failed"' if failed else ""
    return f"<details{kind}><summary>{escape(summary)}</summary><pre>{escape(visible(text))}</pre></details>"


def _image(block: ImageBlock) -> str | None:
    """The image's data, decoded and encoded again: what is in the page is base64 and nothing else."""
    if block.media_type not in _SHOWN_IMAGES:
        return None

    try:
        return base64.b64encode(base64.b64decode(block.data_base64, validate=True)).decode()
    except (binascii.Error, ValueError):
        return None


def _size(block: ImageBlock) -> int:
    return len(block.data_base64) * 3 // 4


def usage_record(node: str, usage: Usage) -> dict[str, Any]:
    """What an answer took, as a record of a session file."""
    record: dict[str, Any] = {
        "type": "usage",
        "node": node,
        "input": usage.input,
        "output": usage.output,
        "cacheRead": usage.cache_read,
        "cacheWrite": usage.cache_write,
    }
    if usage.cost is not None:
        record["cost"] = usage.cost
    return record


def records_of(records: Sequence[Mapping[str, Any]], nodes: Sequence[Node]) -> list[Mapping[str, Any]]:
    """Those of a session's records that speak of `nodes` and of nothing else: usage, labels, condensations."""
    ids = {node.id for node in nodes}
    found: list[Mapping[str, Any]] = []
    for record in records:
        named = [record[name] for name in ("node", "summary", "from") if isinstance(record.get(name), str)]
        if named and ids.issuperset(named):
            found.append(record)

    return found

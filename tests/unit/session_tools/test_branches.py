"""Comparing branches, bringing a result back, and exporting one."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from typing import TYPE_CHECKING

import pytest

from indusagi_lsp.contract.errors import InvalidInput, NodeNotFound
from indusagi_lsp.contract.models import Usage
from indusagi_lsp.contract.turns import (
    ImageBlock,
    OtherBlock,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
    ToolResultBlock,
    Turn,
    assistant,
    user,
)
from indusagi_lsp.sessions import SessionStore
from indusagi_lsp.sessions.compare import bring_back, compare, compare_branches, files_touched
from indusagi_lsp.sessions.exporters import Branch, branch_of, comparable, export_branch, to_html, to_jsonl, to_markdown
from indusagi_lsp.sessions.graph import SessionGraph
from indusagi_lsp.sessions.nodes import Node, hash_node
from indusagi_lsp.sessions.signing import Signer

if TYPE_CHECKING:
    from pathlib import Path

EVIL = "<script>alert(1)</script><img src=x onerror=alert(2)>\"'&\u202e```\n````"


def call(name: str, **given: object) -> Turn:
    return Turn("assistant", (ToolCallBlock("c1", name, given),))


def result(text: str, *, failed: bool = False) -> Turn:
    return Turn("tool", (ToolResultBlock("c1", text, failed),))


def test_two_branches_of_one_graph() -> None:
    graph = SessionGraph("s")
    start = graph.append(user("start"), created_at=0)
    graph.append(call("write_file", path="a.py"), created_at=1)
    graph.append(result("ok"), created_at=2)
    left = graph.append(assistant("left done"), created_at=3)
    graph.branch_from(start.id)
    asked = graph.append(call("read", path="a.py"), created_at=5)
    right = graph.append(result("no", failed=True), created_at=6)

    found = compare(graph, left.id, right.id, usages={left.id: Usage(10, 2, cost=0.1), asked.id: Usage(5, 1)})

    assert (found.common, found.shared) == (start.id, 1)
    assert found.left.turns == {"assistant": 2, "tool": 1}
    assert found.left.files.modified == ("a.py",)
    assert found.right.files.read == ("a.py",)
    assert found.files_of_both == ("a.py",)
    assert (found.left.usage, found.right.usage) == (Usage(10, 2, cost=0.1), Usage(5, 1))
    assert (found.left.result, found.right.result) == ("left done", "")
    assert (found.right.calls, found.right.failed) == (1, 1)
    assert (found.left.started, found.left.ended) == (1, 3)


def test_a_branch_with_itself_and_with_its_own_past() -> None:
    graph = SessionGraph("s")
    first = graph.append(user("a"), created_at=0)
    last = graph.append(assistant("b"), created_at=1)

    same = compare(graph, last.id, last.id)
    past = compare(graph, first.id, last.id)

    assert (same.common, same.left.nodes, same.right.nodes) == (last.id, (), ())
    assert (past.common, past.left.nodes, past.right.nodes) == (first.id, (), (last.id,))
    with pytest.raises(NodeNotFound):
        compare(graph, first.id, "nowhere")


@pytest.mark.parametrize(
    ("turns", "read", "modified"),
    [
        ([call("Read", file_path="a")], ("a",), ()),
        ([call("Edit", file_path="a"), result("ok")], (), ("a",)),
        ([call("Edit", file_path="a"), result("no", failed=True)], (), ()),
        (
            [call("apply_patch", input="*** Begin Patch\n*** Update File: x.py\n*** Move to: y.py\n")],
            (),
            ("x.py", "y.py"),
        ),
        ([Turn("assistant", (ToolCallBlock("c", "apply_patch", "*** Add File: n.md\n"),))], (), ("n.md",)),
        ([call("grep", pattern="x")], (), ()),
        ([call("read", path="a"), call("write", path="a")], (), ("a",)),
    ],
)
def test_files_that_calls_name(turns: list[Turn], read: tuple[str, ...], modified: tuple[str, ...]) -> None:
    found = files_touched(turns)

    assert (found.read, found.modified) == (read, modified)


async def test_a_condensed_line_shares_its_tail_with_the_old_one(tmp_path: Path) -> None:
    store = SessionStore(tmp_path / "sessions")
    session = await store.create(cwd="file:///x")
    await session.append([user("a"), assistant("b"), user("c"), assistant("d")])
    old = str(session.graph.leaf)
    await session.condense(Turn("system", (TextBlock("summary"),)), 2)

    found = await compare_branches(session, old, str(session.graph.leaf))

    assert found.shared == 2
    assert found.left.turns == {"user": 1, "assistant": 1}
    assert found.right.turns == {"system": 1}
    await store.close()


async def test_the_result_of_a_branch_comes_back_as_a_note(tmp_path: Path) -> None:
    store = SessionStore(tmp_path / "sessions", signer=Signer(b"k" * 32))
    session = await store.create(cwd="file:///x")
    [start] = await session.append([user("start")])
    await session.append([call("write_file", path="new.py"), result("ok"), assistant("It works with a heap.")])
    other = str(session.graph.leaf)
    await session.move_head(start.id, "fork")
    await session.append([assistant("Another way.")])

    node = await bring_back(session, other)

    assert session.graph.leaf == node.id
    assert node.turn.role == "user"
    assert "It works with a heap." in node.turn.text
    assert "new.py" in node.turn.text
    assert node.turn.text.startswith(f"[Note: what came of another branch of this conversation, up to {other}]")
    assert session.trusted
    own = await bring_back(session, other, "Use the heap.")
    assert "Use the heap." in own.turn.text
    with pytest.raises(InvalidInput):
        await bring_back(session, start.id)
    await store.close()


def evil_branch() -> Branch:
    nodes: list[Node] = []
    parent = None
    png = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
    turns = [
        Turn(EVIL, (TextBlock(EVIL),)),
        Turn("assistant", (ThinkingBlock(EVIL, "sig"), ToolCallBlock("c", EVIL, {EVIL: EVIL}))),
        Turn("tool", (ToolResultBlock("c", EVIL, is_error=True), ImageBlock("image/png", png))),
        Turn(
            "user",
            (
                ImageBlock('image/png" onload="x', "AAAA"),
                ImageBlock("image/svg+xml", "AAAA"),
                OtherBlock({"kind": EVIL}),
            ),
        ),
        Turn("user", (ImageBlock("image/png", '"><script>'),)),
    ]
    for at, turn in enumerate(turns):
        parent = hash_node(nodes[-1].id if nodes else None, turn, at)
        nodes.append(Node(parent, nodes[-1].id if nodes else None, turn, at))
    return Branch(
        EVIL, nodes, EVIL, EVIL, EVIL, trusted=False, usage=Usage(1, 2, cost=0.25), labels={nodes[0].id: EVIL}
    )


class _Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.seen: list[tuple[str, dict[str, str | None]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append((tag, dict(attrs)))


def test_a_page_holds_nothing_that_runs_or_loads() -> None:
    page = to_html(evil_branch())
    parser = _Tags()
    parser.feed(page)

    tags = {tag for tag, _ in parser.seen}
    allowed = "html head meta title style body h1 ul li article h2 time div p details summary pre img em"
    assert tags <= set(allowed.split())
    for tag, attributes in parser.seen:
        assert not any(name.startswith("on") for name in attributes)
        if tag == "img":
            assert str(attributes["src"]).startswith("data:image/png;base64,iVBOR")
    assert [attributes.get("src") for tag, attributes in parser.seen if tag == "img"].count(None) == 0
    assert sum(tag == "img" for tag, _ in parser.seen) == 1
    policy = next(a["content"] for tag, a in parser.seen if a.get("http-equiv") == "Content-Security-Policy")
    assert str(policy).startswith("default-src 'none'; img-src data:; style-src 'sha256-")
    assert "http://" not in page
    assert "https://" not in page
    assert "\u202e" not in page
    assert "\\u{202e}" in page


def test_the_style_is_the_one_that_the_policy_allows() -> None:
    import base64
    import hashlib

    page = to_html(evil_branch())
    style = re.search(r"<style>(.*?)</style>", page, re.DOTALL)
    assert style is not None
    wanted = base64.b64encode(hashlib.sha256(style[1].encode()).digest()).decode()

    assert f"&#x27;sha256-{wanted}&#x27;" in page


def test_markdown_fences_hold() -> None:
    text = to_markdown(evil_branch())

    assert "`````\n" in text, "one more than the longest run inside"
    assert "\u202e" not in text
    assert "Cost: $0.2500" in text


async def test_a_session_exports_and_comes_back(tmp_path: Path) -> None:
    store = SessionStore(tmp_path / "sessions", signer=Signer(b"k" * 32))
    session = await store.create(cwd="file:///x", title="The title")
    nodes = await session.append([user("a"), assistant("b")])
    await session.label(nodes[0].id, "pin")
    await session.usage(nodes[1].id, Usage(3, 4, cost=0.5), "m", "p")
    await session.move_head(nodes[0].id, "fork")
    await session.append([assistant("other")])

    for form, wanted in (("markdown", b"## Assistant"), ("html", b"<article"), ("jsonl", b'"type":"node"')):
        assert wanted in await export_branch(session, form, nodes[1].id)  # type: ignore[arg-type]
    branch = await branch_of(session, nodes[1].id)
    assert (branch.title, branch.usage, branch.labels) == ("The title", Usage(3, 4, cost=0.5), {nodes[0].id: "pin"})

    copy = tmp_path / "copy" / "sessions"
    copy.mkdir(parents=True)
    (copy / "back.jsonl").write_bytes(to_jsonl(branch))
    other = await SessionStore(copy, signer=Signer(b"k" * 32)).open("back")
    assert [node.id for node in other.graph.nodes_to(other.graph.leaf)] == [node.id for node in nodes]
    assert (other.meta.title, other.labels, other.usages[nodes[1].id].cost) == ("The title", {nodes[0].id: "pin"}, 0.5)
    assert other.trusted is False
    await store.close()


def sent(*turns: Turn, begun: int) -> Branch:
    graph = SessionGraph("s")
    for at, turn in enumerate(turns):
        graph.append(turn, created_at=begun + at)
    return Branch("s", graph.nodes_to(graph.leaf), usage=Usage(begun, 1, cost=0.5))


def test_what_the_editor_sent_along_is_an_attachment_and_not_said() -> None:
    file = TextBlock('<context kind="file">```</context>', {"context": {"kind": "file", "at": "file:///a<`\u202e.py"}})
    odd = TextBlock("odd", {"context": 7})
    branch = sent(Turn("user", (file, odd, TextBlock("What is it?"))), begun=1)
    text = to_markdown(branch)
    assert "\nAttached `file:///a<`" in text
    assert '\n````\n<context kind="file">```</context>\n````\n' in text
    assert "\nAttached:\n\n```\nodd\n```\n" in text
    page = to_html(branch)
    assert "<details><summary>Attached `file:///a&lt;`" in page
    assert re.findall(r'<div class="said">(.*?)</div>', page) == ["What is it?"]
    assert "\u202e" not in text + page


def test_side_by_side_only_what_was_said_differs() -> None:
    left, right = (sent(user("a"), assistant("b"), begun=begun) for begun in (1_000, 9_000_000))
    assert to_markdown(left) != to_markdown(right)
    assert to_markdown(comparable(left)) == to_markdown(comparable(right))
    longer = to_markdown(comparable(sent(user("a"), assistant("b"), user("c"), begun=5)))
    assert longer == to_markdown(comparable(left)) + "\n## User\n\nc\n"

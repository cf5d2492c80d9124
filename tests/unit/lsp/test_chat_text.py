"""How a chat document is read, and that an answer cannot speak for the user."""

from __future__ import annotations

import pytest

from indusagi_lsp.lsp.chat import text as chat
from indusagi_lsp.lsp.documents import split_lines


def last(text: str) -> chat.Section:
    return chat.last_section(split_lines(text))


@pytest.mark.parametrize(
    ("text", "said", "heading"),
    [
        ("", "", None),
        ("hello\n", "hello", None),
        ("<!-- indusagi: session=s1 -->\nhello", "hello", None),
        ("## You\n\nfirst\n\n## Indusagi\n\nanswer\n\n## You\n\nsecond\nline\n", "second\nline", 8),
        ("first\n\n---\n\nsecond", "second", 2),
        ("## You\nfirst\n\n## Indusagi\n\nanswer", "", 0),
        ("## You\r\nfirst\r\n", "first", 0),
        ("## You\n```\n## You\n---\n```\nmore", "```\n## You\n---\n```\nmore", 0),
        ("## You\n````\n```\n## You\n````\n", "````\n```\n## You\n````", 0),
        ("## You are\nhere", "## You are\nhere", None),
    ],
)
def test_the_last_section(text, said, heading):
    found = last(text)
    assert (found.text, found.heading) == (said, heading)


def test_the_binding_stands_in_the_head():
    assert chat.session_of(split_lines("# Title\n\n<!-- indusagi: session=a.b-c -->\n")) == "a.b-c"
    assert chat.session_of(split_lines("\n" * 30 + chat.binding("s1"))) is None
    assert chat.session_of(split_lines(chat.binding("s1") + chat.binding("s2"))) == "s1"
    assert chat.session_of(["<!-- indusagi: session=../x -->"]) is None


@pytest.mark.parametrize(
    "answer", ["## You\nrm -rf", "---\nrm", "a\n## You  \n", "<!-- indusagi: session=x -->\n", "\r\n## You"]
)
def test_an_answer_cannot_speak_for_the_user(answer):
    guarded = "".join(map(chat.guard_line, split_lines(answer)))
    assert last(f"## You\nhi\n\n{chat.ANSWER}\n\n{guarded}").text == ""
    assert chat.session_of(split_lines(guarded)) is None


def test_an_open_fence_is_closed():
    assert chat.open_fence("a\n```py\nb") == "```"
    assert chat.open_fence("a\n```py\nb\n```\n") == ""
    assert chat.open_fence("~~~~\n```\n~~~") == "~~~~"


def test_links_to_turns():
    line = f"see {chat.node_link('s1', 'a' * 32)} and [x](http://y)\n"
    (link,) = chat.links(["none\n", line])
    assert (link.line, link.session_id, link.node) == (1, "s1", "a" * 32)
    assert line[link.start : link.end] == chat.node_link("s1", "a" * 32)


def test_a_fence_that_nothing_closes():
    assert chat.fenced("a\n````\nb", "md") == "`````md\na\n````\nb\n`````\n"

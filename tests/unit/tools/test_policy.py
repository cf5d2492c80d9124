"""Which commands run without a question: a few good ones pass, and every known way around a list of them asks."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from indusagi_lsp.tools.policy import judge, rules_of, simple_command

from .command_corpus import FAMILIES

RULES = rules_of(
    (
        "git status",
        "git diff",
        "ls",
        "cat",
        "rg",
        "find",
        "sed -n",
        "pytest",
        "echo",
        "head",
        "tail",
        "wc",
        "grep",
        "pwd",
    )
)


def asks(command: str) -> bool:
    return judge(command, RULES, lambda path: path != "link").argv is None


GOOD = {
    "git status": ("git", "status"),
    "git status --short -b": ("git", "status", "--short", "-b"),
    "git diff": ("git", "diff"),
    "pytest": ("pytest",),
    "pwd": ("pwd",),
    "ls": ("ls",),
    "  ls  ": ("ls",),
    "ls -la src": ("ls", "-la", "src"),
    "cat README.md": ("cat", "README.md"),
    "cat 'a file.txt' \"b file.txt\"": ("cat", "a file.txt", "b file.txt"),
    "head -n 20 src/main.py": ("head", "-n", "20", "src/main.py"),
    "sed -n 1,20p src/main.py": ("sed", "-n", "1,20p", "src/main.py"),
    "rg -n 'def (\\w+)' src": ("rg", "-n", "def (\\w+)", "src"),
    "rg -g '!x' needle": ("rg", "-g", "!x", "needle"),
    'grep -n "a|b" file': ("grep", "-n", "a|b", "file"),
    "find . -name '*.py' -type f": ("find", ".", "-name", "*.py", "-type", "f"),
    "echo hello 'there; rm -rf /'": ("echo", "hello", "there; rm -rf /"),
    "wc -l a b": ("wc", "-l", "a", "b"),
}


@pytest.mark.parametrize(("command", "argv"), GOOD.items())
def test_a_plain_command_that_a_rule_names_passes_as_its_words(command: str, argv: tuple[str, ...]) -> None:
    assert judge(command, RULES, lambda _: True).argv == argv


def test_without_rules_everything_asks() -> None:
    assert all(judge(command, (), lambda _: True).argv is None for command in GOOD)


ALL = [(family, command) for family, commands in FAMILIES.items() for command in commands]


def test_the_corpus_is_as_large_as_it_should_be() -> None:
    assert len(FAMILIES) >= 24
    assert len({command for _, command in ALL}) >= 400


@pytest.mark.parametrize("family", FAMILIES)
def test_every_way_around_asks(family: str) -> None:
    passed = [command for command in FAMILIES[family] if not asks(command)]
    assert passed == []


def test_what_passes_by_words_may_still_be_a_path_that_does_not() -> None:
    assert judge("cat link", RULES, lambda _: True).argv == ("cat", "link")
    assert judge("cat link", RULES, lambda path: path != "link").argv is None


WORDS = st.sampled_from(
    ["ls", "cat", "x", "-l", ";", "&", "|", ">", "<", "$", "(", ")", "`", "'", '"', "\\", "\n", " ", "{", "}", "*", "~",
     "#", "!", "=", "rm", "$(", "<<", "&&", "\r", "\t", "a b", "[", "]", "?", "%", "^", "@", "\xe9"]
)  # fmt: skip


@given(st.lists(WORDS, max_size=10).map("".join))
def test_whatever_passes_means_to_the_shell_what_it_means_to_us(command: str) -> None:
    import shlex

    argv = simple_command(command)
    if argv is None:
        return
    assert tuple(shlex.split(command)) == argv
    unquoted = shlex.shlex(command, posix=False)
    unquoted.whitespace_split = True
    for word in unquoted:
        if word[0] not in "'\"":
            assert not set(word) & set(";&|<>$()`\\\n\r\t{}*~#!?[]"), command

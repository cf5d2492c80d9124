"""Which commands need no question: those whose parsed tree is one plain command that a rule allows whole.

The command is parsed as bash by tree-sitter. Only one tree passes: a single command made of plain words and of
strings in which nothing is expanded. Everything else asks: lists, redirections, substitutions, variables, globs,
assignments, comments, anything that the parser is unsure of, and any character that a shell could take in another
way. What passes is matched word by word against a rule, and is executed as those words, without a shell.
"""

from __future__ import annotations

import itertools
import re
from typing import TYPE_CHECKING

import msgspec

from indusagi_lsp.tools.guard import CLOSED
from indusagi_lsp.tools.names import plain_name

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tree_sitter import Node

MAX_COMMAND_CHARS = 2000

_PLAIN_WORD = re.compile(r"[\w./:=@%+,-]+", re.ASCII)
_STRING = re.compile(r"[\w ./:=@%+,;()&|<>?*#'\[\]{}^-]*", re.ASCII)
_RAW_STRING = re.compile(r"[\x20-\x26\x28-\x7e]*")
_OUTER = re.compile(r"[\x20-\x7e]+")

# Reserved words and built-ins that make another command of what follows them.
_NOT_PROGRAMS = frozenset(
    {"!", ".", ":", "[", "[[", "alias", "bg", "break", "builtin", "case", "cd", "command", "compgen",
     "complete", "continue", "coproc", "declare", "dirs", "disown", "do", "done", "elif", "else", "enable",
     "esac", "eval", "exec", "exit", "export", "fc", "fg", "fi", "for", "function", "getopts", "hash",
     "history", "if", "in", "jobs", "kill", "let", "local", "logout", "mapfile", "popd", "printf", "pushd",
     "read", "readarray", "readonly", "return", "select", "set", "shift", "shopt", "source", "suspend", "test",
     "then", "time", "times", "trap", "typeset", "ulimit", "umask", "unalias", "unset", "until", "wait",
     "while", "{"}
)  # fmt: skip


class Rule(msgspec.Struct, frozen=True):
    """What may follow the first words of a command.

    Attributes:
        words: the first words, exactly.
        flags: other words beginning with `-` that may follow; a flag with a value is written `--name=`, and one
            whose value is the next word `--name `.
        operands: a pattern that each word that is no flag must match whole.
        first: a pattern for the first of those, where it is not like the others.
        paths: whether the operands are paths, which must then lie inside.
    """

    words: tuple[str, ...]
    flags: frozenset[str] = frozenset()
    operands: str = r"[^-].*"
    first: str | None = None
    paths: bool = True


def _flags(text: str, *valued: str) -> frozenset[str]:
    return frozenset(text.split()) | frozenset(valued)


KNOWN: Mapping[str, Rule] = {
    " ".join(rule.words): rule
    for rule in (
        Rule(("pwd",), operands=r"(?!)"),
        Rule(("echo",), paths=False),
        Rule(("ls",), _flags("-l -a -la -al -A -1 -R -h -lh -lah -t -S -d")),
        Rule(("cat",), _flags("-n -b -A")),
        Rule(("head",), _flags("", "-n ", "-c ")),
        Rule(("tail",), _flags("", "-n ", "-c ")),
        Rule(("wc",), _flags("-l -w -c -m")),
        Rule(("sed", "-n"), first=r"\d+(,\d+)?p"),
        Rule(
            ("rg",),
            _flags("-n -i -w -l -c -F -v -S --files", "-g ", "-t ", "-A ", "-B ", "-C "),
            first=r"[^-].*",
        ),
        Rule(("grep",), _flags("-n -i -w -l -c -F -E -v -in", "-A ", "-B ", "-C "), first=r"[^-].*"),
        Rule(
            ("find",),
            _flags("", "-name ", "-iname ", "-type ", "-maxdepth ", "-mindepth ", "-path ", "-size ", "-mtime "),
        ),
        Rule(("git", "status"), _flags("-s -b -sb --short --branch --porcelain --long")),
    )
}
"""Rules whose programs only read when they are used so. None is in force by itself: the user's settings name them."""


class Verdict(msgspec.Struct, frozen=True):
    """What is thought of a command: the words to execute when it needs no question, else why it asks."""

    argv: tuple[str, ...] | None
    why: str = ""


def rules_of(names: tuple[str, ...]) -> tuple[Rule, ...]:
    """The rules that a user's settings name: one of `KNOWN`, or any other command, which is then allowed exactly so.

    Args:
        names: commands as the user writes them: `git status`, `make test`.
    """
    return tuple(
        KNOWN.get(" ".join(name.split())) or Rule(tuple(name.split()), operands=r"(?!)")
        for name in names
        if name.split()
    )


def judge(command: str, rules: tuple[Rule, ...], inside: Callable[[str], bool]) -> Verdict:
    """Decide whether a command needs a question.

    Args:
        command: as the model wrote it.
        rules: that the user has set.
        inside: whether a path, relative to where the command runs, is nothing or lies inside the workspace.
    """
    argv = simple_command(command)
    if argv is None:
        return Verdict(None, "it is more than one plain command")
    for rule in rules:
        if argv[: len(rule.words)] == rule.words and _fits(argv[len(rule.words) :], rule, inside):
            return Verdict(argv)
    return Verdict(None, "no rule allows it")


def simple_command(command: str) -> tuple[str, ...] | None:
    """The words of a command that is nothing but words, or None.

    Args:
        command: shell text.
    """
    text = command.strip(" ")
    if len(text) > MAX_COMMAND_CHARS or not _OUTER.fullmatch(text):
        return None
    root = _parse(text)
    if root.has_error or len(root.children) != 1 or root.children[0].type != "command":
        return None
    node = root.children[0]
    if node.start_byte != 0 or node.end_byte != len(text):
        return None
    parts = [
        child.children[0] if child.type == "command_name" and len(child.children) == 1 else child
        for child in node.children
    ]
    words = [_word(part) for part in parts]
    if None in words or not words or parts[0].type != "word" or not _only_blanks_between(text, parts):
        return None
    argv = tuple(word for word in words if word is not None)
    return None if argv[0] in _NOT_PROGRAMS or "/" in argv[0] or "=" in argv[0] else argv


def _parse(text: str) -> Node:
    import tree_sitter
    import tree_sitter_bash

    parser = tree_sitter.Parser(tree_sitter.Language(tree_sitter_bash.language()))
    return parser.parse(text.encode("ascii")).root_node


def _word(node: Node) -> str | None:
    """What a word of the command is to the program, or None where a shell would do more than hand it on."""
    text = (node.text or b"").decode("ascii", "replace")
    if node.type in ("word", "number"):
        return text if _PLAIN_WORD.fullmatch(text) and not node.children else None
    if node.type == "raw_string":
        return text[1:-1] if _RAW_STRING.fullmatch(text[1:-1]) else None
    if node.type == "string":
        plain = all(child.type in ('"', "string_content") for child in node.children)
        return text[1:-1] if plain and _STRING.fullmatch(text[1:-1]) else None
    return None


def _only_blanks_between(text: str, parts: list[Node]) -> bool:
    """Whether words are parted by blanks, and by nothing that the tree does not show."""
    gaps = (text[one.end_byte : other.start_byte] for one, other in itertools.pairwise(parts))
    return all(gap and not gap.strip(" ") for gap in gaps)


def _fits(words: tuple[str, ...], rule: Rule, inside: Callable[[str], bool]) -> bool:
    operands: list[str] = []
    rest = list(words)
    while rest:
        word = rest.pop(0)
        if f"{word} " in rule.flags:
            if not rest or rest[0].startswith("-"):
                return False
            rest.pop(0)
        elif word in rule.flags or any(flag.endswith("=") and word.startswith(flag) for flag in rule.flags):
            continue
        elif word.startswith("-"):
            return False
        else:
            operands.append(word)
    for number, operand in enumerate(operands):
        special = rule.first if number == 0 else None
        if not re.fullmatch(special or rule.operands, operand, re.DOTALL):
            return False
        if special is None and rule.paths and not _is_path_inside(operand, inside):
            return False
    return True


def _is_path_inside(path: str, inside: Callable[[str], bool]) -> bool:
    names = path.split("/")
    closed = {plain_name(name) for name in CLOSED}
    if path.startswith("/") or ".." in names or ":" in path or any(plain_name(name) in closed for name in names):
        return False
    return inside(path)

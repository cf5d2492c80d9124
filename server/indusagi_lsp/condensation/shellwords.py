"""What a command line shows at a glance: its simple commands, and the files that it reads or changes.

No shell is imitated: the words are split roughly, and what is not understood is left alone.
"""

from __future__ import annotations

import re

import msgspec

_SEPARATOR = re.compile(r"\s*(?:&&|\|\||;|\n)\s*")
_PATHLIKE = re.compile(
    r"(?:[\w@.~+-]*/)*[\w@+-]*(?:\.[\w@+-]+)+|(?:[\w@.~+-]*/)*(?:Makefile|Dockerfile|LICENSE|README)"
)
_REDIRECT = re.compile(r"(?<![0-9&<=>-])>>?\s*([\w./~@+-]+)")
_QUOTED = re.compile(r"'[^']*'|\"(?:[^\"\\]|\\.)*\"")
_COMMENTS = re.compile(r"\A(?:\s*#[^\n]*\n)+")
_READERS = frozenset(("cat", "head", "tail", "sed", "nl", "less", "more", "bat", "wc", "awk"))
_CHANGERS = frozenset(("mv", "rm", "cp", "touch", "tee", "patch"))
_EXPLORERS = frozenset(
    ("awk", "bat", "cat", "echo", "fd", "file", "find", "grep", "head", "less", "ls", "more", "nl", "pwd", "rg", "sed",
     "sleep", "sort", "tail", "tree", "wc", "which")
)  # fmt: skip
_FILTERED = re.compile(r"(?:\s+2>&1)?(?:\s*\|\s*(?:head|tail|grep|sort|cat)\b[^|&;]*)+$")
_COMMIT = re.compile(r"git commit\b[^\n]*?-[a-z]*m\s+(?:\"\$\(cat <<'?EOF'?\n([^\n]+)|'([^'\n]+)|\"([^\"\n]+))")
_MAX_SCANNED = 2_000  # characters of a command line: what follows is a script or data


class CommandLine(msgspec.Struct, frozen=True):
    """A command line taken apart.

    Attributes:
        text: the line without a leading `cd` and without a filter of its output at its end; its first line only.
        folder: where a leading `cd` goes, or an empty text.
        read: paths that it reads.
        modified: paths that it changes.
        exploring: whether it only looks around.
        commit: the first line of the message of a `git commit`.
        piped: whether the exit status may be that of a filter.
    """

    text: str
    folder: str = ""
    read: tuple[str, ...] = ()
    modified: tuple[str, ...] = ()
    exploring: bool = False
    commit: str = ""
    piped: bool = False


def take_apart(command: str) -> CommandLine:
    """Look at a command line.

    Args:
        command: as it was run.

    Returns:
        What can be told of it.
    """
    command = command[:_MAX_SCANNED].strip()
    folder = ""
    moved = re.match(r"cd\s+('[^']*'|\"[^\"]*\"|\S+)\s*(?:&&|;|\n)\s*", command)
    if moved:
        folder, command = moved[1].strip("'\""), command[moved.end() :]
    command = _COMMENTS.sub("", command).strip()
    commit = _COMMIT.search(command) if "git commit" in command else None
    body = _QUOTED.sub("''", command.split("<<", 1)[0])  # a here-document and quoted words are data
    read: list[str] = []
    modified: list[str] = [path for path in _REDIRECT.findall(body) if not path.startswith("/dev/")]
    exploring = True
    for piece in _SEPARATOR.split(body):
        words = piece.split("|", 1)[0].split()
        if not words:
            continue

        exploring = exploring and words[0] in _EXPLORERS
        _files_of(words, read, modified)

    first = command.split("\n", 1)[0].strip()
    if not exploring:
        first = _FILTERED.sub("", first)
    piped = "|" in body.split("\n", 1)[0].replace("||", "")
    message = next((group for group in commit.groups() if group), "").strip() if commit else ""
    return CommandLine(first, folder, tuple(read), tuple(modified), exploring and not modified, message, piped)


def _files_of(words: list[str], read: list[str], modified: list[str]) -> None:
    """Add the files that one simple command names."""
    verb, rest = words[0], words[1:]
    if verb == "git" and rest[:1] in (["mv"], ["rm"]):
        verb, rest = rest[0], rest[1:]
    paths = [word for word in rest if not word.startswith("-") and len(word) < 300 and _PATHLIKE.fullmatch(word)]
    if verb == "sed" and any(word.startswith("-i") for word in rest):
        modified += paths
    elif verb in _READERS:
        read += paths
    elif verb in _CHANGERS:
        modified += paths

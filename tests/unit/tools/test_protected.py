"""Protected paths in every spelling that somebody may try."""

from __future__ import annotations

import pytest

from indusagi_lsp.tools.protected import why_protected

PLAIN = [
    ".indusagi/sessions/x.jsonl", ".git/config", ".git/hooks/pre-commit", "sub/.git/config", ".git", ".hg/hgrc",
    ".vscode/settings.json", ".vscode/tasks.json", "a/b/.vscode/launch.json", "project.code-workspace",
    "deep/down/x.code-workspace", ".idea/workspace.xml", ".cursor/mcp.json", ".cursor/rules/a.mdc",
    ".claude/settings.json", ".claude/commands/x.md", ".codex/config.toml", ".gemini/settings.json", ".mcp.json",
    "sub/.mcp.json", "AGENTS.md", "CLAUDE.md", "GEMINI.md", "sub/AGENTS.md", ".github/copilot-instructions.md",
    ".cursorrules", ".windsurfrules", ".clinerules", ".clinerules/a.md", ".husky/pre-commit", ".husky/_/husky.sh",
    ".github/workflows/ci.yml", "sub/.github/workflows/x.yaml", ".github/actions/x/action.yml", ".envrc", "sub/.envrc",
    ".bashrc", ".bash_profile", ".profile", ".zshrc", ".zshenv", ".config/fish/config.fish", ".gitmodules",
    ".gitattributes", ".pre-commit-config.yaml", ".devcontainer/devcontainer.json", ".npmrc",
]  # fmt: skip


def upper(path: str) -> str:
    return path.upper()


def title(path: str) -> str:
    return path.title()


def wide(path: str) -> str:
    """Fullwidth letters, which NFKC makes plain."""
    return "".join(chr(ord(c) + 0xFEE0) if c.isascii() and c.isalpha() else c for c in path)


def zero_width(path: str) -> str:
    return "/".join(f"{part[:2]}\u200c{part[2:]}" for part in path.split("/"))


def trailing(path: str) -> str:
    return "/".join(f"{part}. " for part in path.split("/"))


def doubled(path: str) -> str:
    return "//" + path.replace("/", "//")


SPELLINGS = [str, upper, title, wide, zero_width, trailing, doubled]


def test_there_are_as_many_spellings_as_there_should_be() -> None:
    assert len({spell(path) for path in PLAIN for spell in SPELLINGS}) >= 150


@pytest.mark.parametrize("spell", SPELLINGS)
@pytest.mark.parametrize("path", PLAIN)
def test_a_protected_path_is_one_in_every_spelling(path: str, spell: type[str]) -> None:
    assert why_protected(spell(path)) is not None


@pytest.mark.parametrize("path", ["GIT~1/config", "git~2", "INDUSA~1/x", "CLAUDE~1/x", "HUSKY~1/pre-commit"])
def test_short_names_are_seen_through(path: str) -> None:
    assert why_protected(path) is not None


@pytest.mark.parametrize(
    "path",
    [
        "src/main.py", "README.md", ".gitignore", "git/config", "vscode/settings.json", "docs/agents.mdx",
        "workflows/ci.yml",
        ".github/ISSUE_TEMPLATE.md", "src/claude.py", "config/fish.txt", "a.code-workspaces", "package.json", "x~1.txt",
    ],
)  # fmt: skip
def test_an_ordinary_path_is_not(path: str) -> None:
    assert why_protected(path) is None

"""Paths that decide what runs or what is allowed: never written without a fresh question, whatever was granted."""

from __future__ import annotations

import re

from indusagi_lsp.tools.names import plain_name

FOLDERS = frozenset(
    {".indusagi", ".git", ".hg", ".svn", ".vscode", ".idea", ".cursor", ".claude", ".codex", ".gemini", ".husky",
     ".devcontainer", ".continue", ".windsurf", ".roo", ".clinerules"}
)  # fmt: skip
"""Nothing at all below these."""

FILES = frozenset(
    {".mcp.json", "mcp.json", ".envrc", ".gitmodules", ".gitattributes", ".gitconfig", ".pre-commit-config.yaml",
     ".npmrc", ".yarnrc", ".yarnrc.yml", "pip.conf", ".pypirc", ".netrc",
     # rules of agents
     "agents.md", "agent.md", "claude.md", "gemini.md", "copilot-instructions.md", ".cursorrules", ".windsurfrules",
     ".clinerules", ".rules", ".goosehints", ".aider.conf.yml",
     # start files of shells
     ".profile", ".bashrc", ".bash_profile", ".bash_login", ".bash_logout", ".bash_aliases", ".zshrc", ".zshenv",
     ".zprofile", ".zlogin", ".zlogout", ".kshrc", ".cshrc", ".tcshrc", ".login", ".inputrc", "config.fish"}
)  # fmt: skip
"""Files of these names, wherever they lie."""

SUFFIXES = (".code-workspace",)

PLACES = ((".github", "workflows"), (".github", "actions"), (".gitlab-ci.yml",), (".config", "fish"))
"""Sequences of names, wherever they begin."""

_SHORT = re.compile(r"(.{1,8})~\d+\Z")


def why_protected(path: str) -> str | None:
    """What protects a path, or None.

    Args:
        path: below the root, in POSIX form, as it was spelled or as it was resolved; it need not exist.

    Returns:
        The name that protects it, for the question to the user.
    """
    names = [plain_name(name) for name in path.split("/") if name]
    for name in names:
        if name in FOLDERS or name in FILES or name.endswith(SUFFIXES) or _is_short_for_protected(name):
            return name
    for place in PLACES:
        for start in range(len(names) - len(place) + 1):
            if tuple(names[start : start + len(place)]) == place:
                return "/".join(place)
    return None


def _is_short_for_protected(name: str) -> bool:
    """Windows' short names: `GIT~1` is `.git`, `CLAUDE~1` may be `.claude` or `claude.md`."""
    found = _SHORT.match(name.partition(".")[0])
    if found is None:
        return False
    stem = found[1]
    return any(protected.replace(".", "").startswith(stem[:6]) for protected in FOLDERS | FILES)

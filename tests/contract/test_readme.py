"""The README says what the program does: its help, its settings, its commands, its links."""

from __future__ import annotations

import json
import re

from contract import readme

TEXT = readme.README.read_text("utf-8")
MAKEFILE = (readme.ROOT / "Makefile").read_text("utf-8")


def test_help_is_what_the_program_prints() -> None:
    assert readme.between(TEXT, "help") == readme.help_part(), "run `make generate`"


def test_the_table_has_every_setting_with_its_default() -> None:
    assert readme.settings_in(TEXT) == readme.settings()


def test_the_extension_declares_every_setting_with_its_default() -> None:
    manifest = json.loads((readme.ROOT / "vscode-client" / "package.json").read_text("utf-8"))
    declared = {
        name.removeprefix("indusagi."): schema["default"]
        for name, schema in manifest["contributes"]["configuration"]["properties"].items()
    }
    wanted = {name: json.loads(default) for name, default in readme.settings().items()}
    assert {name: declared.get(name) for name in wanted} == wanted


def test_every_make_command_that_the_docs_name_exists() -> None:
    targets = set(re.findall(r"^([a-z-]+):", MAKEFILE, re.MULTILINE))
    for path in [readme.README, readme.ROOT / "CONTRIBUTING.md", *sorted((readme.ROOT / "docs").rglob("*.md"))]:
        named = set(re.findall(r"(?:^|`)make ([a-z-]+)", path.read_text("utf-8"), re.MULTILINE))
        assert named <= targets, f"{path.name} names {sorted(named - targets)}"


def test_every_source_file_that_the_docs_name_exists() -> None:
    for path in [readme.README, readme.ROOT / "CONTRIBUTING.md", *sorted((readme.ROOT / "docs").rglob("*.md"))]:
        for named in re.findall(r"`([\w./-]+/[\w-]+\.(?:py|ts|mjs))`", path.read_text("utf-8")):
            places = [readme.ROOT / named, readme.ROOT / "server" / "indusagi_lsp" / named]
            assert any(place.is_file() for place in places), f"{path.name} names {named}, which is not there"


def test_every_link_to_a_file_leads_to_one() -> None:
    for path in [readme.README, readme.ROOT / "CONTRIBUTING.md", *sorted((readme.ROOT / "docs").rglob("*.md"))]:
        for target in re.findall(r"\]\((?![a-z]+:|#)([^)#]+)", path.read_text("utf-8")):
            assert (path.parent / target).exists(), f"{path.name} links to {target}, which is not there"

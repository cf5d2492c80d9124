"""`indusagi-lsp memory migrate`: what is remembered for a folder moves from one kind of store to another.

It speaks to no server: a store is opened directly, under the same locks as the server's. It may be stopped at any time,
and the next call goes on; nothing is removed from where it was.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import TYPE_CHECKING

from indusagi_lsp.contract.clock import SystemClock
from indusagi_lsp.contract.errors import IndusagiError
from indusagi_lsp.contract.places import user_places
from indusagi_lsp.memory import migrate, now_from
from indusagi_lsp.memory.identity import workspace_identity
from indusagi_lsp.sessions import Signer
from indusagi_lsp.sessions.signing import load_key
from indusagi_lsp.workspace.memories import LOCAL, open_store

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

STEP = 100
"""After so many entries it is said how far the work is."""


def run_migration(argv: Sequence[str], say: Callable[[str], None], tell: Callable[[str], None]) -> int:
    """Run `indusagi-lsp memory migrate`.

    Args:
        argv: the arguments after `migrate`.
        say: takes the lines of the result.
        tell: takes lines about progress and trouble.

    Returns:
        0 when all is there, 1 when it is not, 2 for wrong arguments.
    """
    parser = argparse.ArgumentParser(
        prog="indusagi-lsp memory migrate",
        description="Copy what is remembered for a folder into another kind of store; the old one stays as it is.",
        epilog="A store is sqlite, file, or the address of a server: postgresql://… or redis://…",
    )
    parser.add_argument("source", metavar="FROM", type=_store, help="the store that has the entries")
    parser.add_argument("target", metavar="TO", type=_store, help="the store that shall have them")
    parser.add_argument("--workspace", metavar="PATH", default=".", help="the folder (default: here)")
    given = parser.parse_args(argv)
    root = Path(given.workspace).expanduser().absolute()
    if not root.is_dir():
        parser.error(f"there is no folder {given.workspace!r}")
    if given.source == given.target:
        parser.error("the two stores are the same")

    places = user_places(os.environ)
    signer = Signer(load_key(places.state))
    # What the user remembers for all folders lies with the user, and moves with a change between the local kinds.
    folders = [("this folder", root / ".indusagi")]
    if {given.source, given.target} <= LOCAL:
        folders.append(("all folders", places.data))

    for name, folder in folders:
        source, target = (
            open_store(
                kind,
                folder,
                workspace="" if kind in LOCAL else workspace_identity(root),
                now=now_from(SystemClock()),
                mac=lambda entry: signer.seal(entry).decode("ascii"),
                notify=lambda code, text: tell(f"{code}: {text}"),
            )
            for kind in (given.source, given.target)
        )
        try:
            done = migrate(source, target, lambda at, of: None if at % STEP and at != of else tell(f"{at} of {of}"))
        except (IndusagiError, OSError) as error:
            tell(f"indusagi-lsp: {error}")
            return 1
        finally:
            source.close()
            target.close()
        say(f"{name}: {done.total} entries, {done.copied} copied, {done.present} there already, {done.kept} kept newer")
    return 0


def _store(text: str) -> str:
    if text in LOCAL or text.startswith(("postgres://", "postgresql://", "redis://", "rediss://", "unix://")):
        return text
    raise argparse.ArgumentTypeError("must be sqlite, file, or an address as postgresql://… or redis://…")

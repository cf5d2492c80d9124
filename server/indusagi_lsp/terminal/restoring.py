"""Bringing the user's files back to where they were at an earlier turn: shown first, done on a yes, undone again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from indusagi_lsp.contract.text import visible, visible_line
from indusagi_lsp.protocol import messages as m
from indusagi_lsp.protocol import operations as ops

if TYPE_CHECKING:
    from indusagi_lsp.terminal.chat import Chat

_ANSWERS = ("y", "yes", "a", "all", "d", "diff", "n", "no")
_VERBS = {"restore": "gets its old content", "remove": "is removed", "recreate": "is made again"}


async def offer_restore(chat: Chat, node: str, *, before: bool) -> bool:
    """Offer to bring files back to where they were at a node; says nothing where they are there already.

    Args:
        chat: in whose session it is.
        node: where to.
        before: the files as they were before that node.

    Returns:
        Whether there was something to offer.
    """
    plan = await _restore(chat, node=node, before=before, preview=True)
    if not plan.files:
        return False
    chat.say("The agent has changed these files since then:", "warning")
    for file in plan.files:
        chat.say(f"  {visible_line(file.path)} {_VERBS[file.action]}{_doubt(file)}")
    doubtful = any(file.conflicts and not file.problem for file in plan.files)
    question = f"Bring them back? [y]es, {'[a]ll, doubtful ones too, ' if doubtful else ''}[d]iff, [n]o:"
    answer = await chat.ask(question, _ANSWERS)
    while answer in ("d", "diff"):
        for file in plan.files:
            chat.say(visible(file.diff).rstrip("\n"), "dim")
        answer = await chat.ask(question, _ANSWERS)
    if answer in ("n", "no"):
        chat.say("They are left as they are; /restore offers it again.", "dim")
        return True
    every = answer in ("a", "all")
    choices = {file.path: "restore" for file in plan.files if every and not file.problem}
    tell(chat, await _restore(chat, node=node, before=before, token=plan.token, choices=choices))
    return True


async def undo_restore(chat: Chat, restore: str) -> None:
    """Take a restore back, as far as nobody has changed the files since."""
    tell(chat, await _restore(chat, undo=restore))


def tell(chat: Chat, done: m.FilesRestoreResult) -> None:
    """Say what was done, and how to take it back."""
    for path in done.kept:
        chat.say(f"  {visible_line(path)} is left as it is.", "dim")
    if done.restored:
        files = "1 file was" if len(done.restored) == 1 else f"{len(done.restored)} files were"
        chat.say(f"{files} brought back; /restore undo takes that back.", "good")
    chat.restored = done.restore or chat.restored


def _doubt(file: m.FileRestoreView) -> str:
    if file.problem:
        return f" - impossible: {visible_line(file.problem)}"
    return f" - only with all: {visible_line(file.reason)}" if file.conflicts else ""


async def _restore(chat: Chat, **wanted: Any) -> m.FilesRestoreResult:
    params = m.FilesRestoreParams(session_id=chat.talk.session or "", workspace=chat.talk.workspace, **wanted)
    result: m.FilesRestoreResult = await chat.talk.client.call(ops.FILES_RESTORE, params)
    return result

"""What can be typed behind a slash."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import msgspec

from indusagi_lsp.contract.text import quoted, visible, visible_line
from indusagi_lsp.protocol import messages as m
from indusagi_lsp.protocol import operations as ops
from indusagi_lsp.terminal.restoring import offer_restore, undo_restore
from indusagi_lsp.terminal.view import clause, show_error, turn_text

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from indusagi_lsp.terminal.chat import Chat

LISTED = 20
_PREVIEW = 90


class Command(msgspec.Struct, frozen=True):
    """One command: how it is typed, what it does, and the function that does it."""

    name: str
    usage: str
    summary: str
    run: Callable[[Chat, str], Awaitable[None]]


async def fork(chat: Chat, argument: str) -> None:
    """List the turns that can be forked from, or fork before one and hand its prompt back."""
    turns = await _own_turns(chat)
    if turns is None:
        return
    if not argument:
        for number, turn in enumerate(turns, 1):
            chat.say(f"{number:>3}  {_preview(turn_text(turn.blocks))}")
        chat.say("/fork N goes back to before turn N, and hands it back for editing.", "dim")
        return

    node, before = _chosen_turn(turns, argument)
    params = m.ForkParams(session_id=chat.talk.session or "", node=node, workspace=chat.talk.workspace, before=before)
    result: m.ForkResult = await chat.talk.client.call(ops.FORK, params)
    chat.say("You are at that point now; the other branch is kept. /tree shows both.", "good")
    if result.prefill is not None:
        chat.draft = result.prefill
    if chat.talk.options.trusted:
        await offer_restore(chat, node, before=before)


async def restore(chat: Chat, argument: str) -> None:
    """Bring files back to where they were before a turn, at the live one without a turn, or undo that."""
    if argument == "undo":
        if chat.restored is None:
            chat.say("Nothing was brought back in this chat.")
            return
        await undo_restore(chat, chat.restored)
        return
    if chat.talk.session is None:
        chat.say("There is no session yet.")
        return
    view = await chat.talk.resume(chat.talk.session, limit=1000)
    node, before = view.head, False
    if argument:
        turns = [turn for turn in view.turns if turn.role == "user" and turn_text(turn.blocks)]
        node, before = _chosen_turn(turns, argument)
    if node is None or not await offer_restore(chat, node, before=before):
        chat.say("The files are as they were then.")


async def resume(chat: Chat, argument: str) -> None:
    """List sessions, or go on with one."""
    if not argument:
        await sessions(chat, "")
        chat.say("/resume N, or /resume ID, goes on with one.", "dim")
        return
    if _is_answering(chat):
        return
    session_id = argument
    if argument.isdecimal() and len(argument) < 4:
        listed = chat.listed or await _listed(chat)
        number = int(argument)
        if not 1 <= number <= len(listed):
            show_error(chat.screen, f"There is no session number {number}.", "/sessions lists them.")
            return
        session_id = listed[number - 1].id
    await chat.open_session(session_id)
    await chat.talk.introduce_model(again=False)


async def sessions(chat: Chat, argument: str) -> None:
    """List the sessions of this folder."""
    found = await _listed(chat, argument or None)
    if not found:
        chat.say("There are no sessions yet." if not argument else "No session has such a title.")
        return
    for number, one in enumerate(found, 1):
        mark = "*" if one.id == chat.talk.session else " "
        state = "" if one.state == "idle" else f" [{one.state}]"
        title = _preview(one.title, 60) or "(empty)"
        chat.say(f"{mark}{number:>3}  {title}{state}")
        chat.say(f"      {one.id} · {one.turns} turns · {_ago(one.updated_at)}", "dim")


def _is_answering(chat: Chat) -> bool:
    """Refuse to leave a session in which an answer is coming: nobody could see or stop it any more."""
    if chat.answering:
        show_error(chat.screen, "An answer is coming.", "Wait for its end, or stop it with Ctrl-C first.")
    return chat.answering


async def new(chat: Chat, argument: str) -> None:
    """Begin an empty session with the next prompt."""
    del argument
    if _is_answering(chat):
        return
    chat.talk.session = chat.talk.session_model = None
    chat.say("The next prompt begins a new session.", "good")
    await chat.talk.introduce_model(again=False)


async def tree(chat: Chat, argument: str) -> None:
    """Draw the session with its branches."""
    del argument
    if chat.talk.session is None:
        chat.say("There is no session yet.")
        return
    result: m.TreeResult = await chat.talk.client.call(ops.SESSION_TREE, chat.talk.params())
    for text in draw_tree(result):
        chat.say(text)


async def condense(chat: Chat, argument: str) -> None:
    """Show what condensing would do, then do it if the person says so."""
    if chat.talk.session is None:
        chat.say("There is nothing to condense yet.")
        return
    asked = m.CondenseParams(
        session_id=chat.talk.session,
        workspace=chat.talk.workspace,
        instruction=argument or None,
        preview=True,
    )
    result: m.CondenseResult = await chat.talk.client.call(ops.CONDENSE, asked)
    plan = result.preview
    if plan is None or plan.cut == 0:
        chat.say(f"Nothing to condense: {clause(result.reason or 'the conversation is short enough')}.")
        return
    chat.say(visible(plan.draft), "dim")
    chat.say(f"{plan.cut} turns would become this text: {plan.before:,} tokens become {plan.after:,}.")
    if result.reason:
        chat.say(f"Mind: {clause(result.reason)}.", "warning")
    if await chat.ask("Condense? [y/n]", ("y", "yes", "n", "no")) in ("n", "no"):
        chat.say("Left as it is.")
        return
    params = m.CondenseParams(
        session_id=chat.talk.session, workspace=chat.talk.workspace, token=plan.token, text=plan.draft
    )
    done: m.CondenseResult = await chat.talk.client.call(ops.CONDENSE, params)
    if done.condensed:
        chat.say(f"Condensed to {done.after:,} tokens; /undo takes it back.", "good")
    else:
        chat.say(f"Not condensed: {clause(done.reason or 'no reason was given')}.", "warning")


async def undo(chat: Chat, argument: str) -> None:
    """Take the last condensation back."""
    del argument
    if chat.talk.session is None:
        chat.say("There is nothing to take back yet.")
        return
    await chat.talk.client.call(ops.CONDENSE_UNDO, chat.talk.params())
    chat.say("The conversation is as it was before it was condensed.", "good")


async def model(chat: Chat, argument: str) -> None:
    """List the models, or choose one."""
    params = m.WorkspaceParams(workspace=chat.talk.workspace)
    result: m.ModelsListResult = await chat.talk.client.call(ops.MODELS_LIST, params)
    chat.talk.models = result.models
    if not argument:
        current = chat.talk.answering(result)
        for one in result.models:
            mark = "*" if one.id == current else " "
            note = f" · {visible_line(one.note, 120)}" if one.note else ""
            chat.say(f"{mark} {visible_line(one.id)}{note}", "plain" if one.available else "dim")
        chat.say(visible(result.hint), "dim")
        return
    known = next((one for one in result.models if one.id == argument), None)
    providers = sorted({one.provider for one in result.models})
    provider, _, name = argument.partition(":")
    if known is None and (provider not in providers or not name):
        show_error(
            chat.screen,
            f"There is no model {quoted(argument)}.",
            f"Models are named provider:name; the providers are {', '.join(providers)}.",
        )
        return
    chat.talk.choose_model(argument)
    chat.say(f"{visible_line(argument)} answers from now on.", "good")
    if known is not None and not known.available:
        chat.say(visible(known.note), "warning")


async def remember(chat: Chat, argument: str) -> None:
    """Remember a text."""
    if not argument:
        show_error(chat.screen, "What should be remembered?", "/remember TEXT")
        return
    params = m.RememberParams(text=argument, workspace=chat.talk.workspace)
    result: m.RememberResult = await chat.talk.client.call(ops.REMEMBER, params)
    chat.say("Remembered." if result.created else "That is remembered already.", "good")


async def recall(chat: Chat, argument: str) -> None:
    """Find what was remembered; without a text, list it."""
    if argument:
        asked = m.RecallParams(text=argument, workspace=chat.talk.workspace, limit=LISTED)
        found: m.RecallResult = await chat.talk.client.call(ops.RECALL, asked)
        entries = [hit.entry for hit in found.hits]
    else:
        params = m.MemoryListParams(workspace=chat.talk.workspace, limit=LISTED)
        listed: m.MemoryListResult = await chat.talk.client.call(ops.MEMORY_LIST, params)
        entries = listed.entries
    if not entries:
        chat.say("Nothing is remembered about that." if argument else "Nothing is remembered yet.")
    for entry in entries:
        chat.say(visible(entry.content))
        chat.say(f"  {entry.id} · {_ago(entry.updated_at)}", "dim")


async def forget(chat: Chat, argument: str) -> None:
    """Forget one entry."""
    if not argument:
        show_error(chat.screen, "Which entry should be forgotten?", "/forget ID; /recall shows the ids.")
        return
    params = m.ForgetParams(id=argument, workspace=chat.talk.workspace)
    result: m.ForgetResult = await chat.talk.client.call(ops.FORGET, params)
    chat.say("Forgotten." if result.forgotten else "There is no such entry.")


async def adopt(chat: Chat, argument: str) -> None:
    """Take over a session that somebody else wrote."""
    del argument
    if chat.talk.session is None:
        chat.say("There is no session to take over; /resume opens one.")
        return
    await chat.talk.client.call(ops.SESSION_ADOPT, chat.talk.params())
    chat.say("The session is yours now; you can go on with it.", "good")


async def steer(chat: Chat, argument: str) -> None:
    """Say something into the run that goes on."""
    if not argument:
        show_error(chat.screen, "What should be said?", "/steer TEXT reaches the run after its current tools.")
        return
    chat.submit(argument, "steer")


async def status(chat: Chat, argument: str) -> None:
    """Say where things stand."""
    del argument
    params = m.WorkspaceParams(workspace=chat.talk.workspace)
    result: m.StatusResult = await chat.talk.client.call(ops.STATUS, params)
    chat.say(f"Server {result.version}: {visible_line(result.message)}")
    for one in result.workspaces:
        trust = "trusted" if one.trusted else "not trusted: only reading and talking"
        busy = f"{one.sessions} session{'' if one.sessions == 1 else 's'} in use"
        chat.say(f"{quoted(one.name)} · {trust} · {busy} · new ones: {visible_line(one.model)}")
        for notice in one.notices:
            chat.say(visible(notice.text), "warning")
    if chat.talk.view.tokens is not None:
        used, window = chat.talk.view.tokens
        size = f" of {window:,}" if window else ""
        cost = f" · ${chat.talk.view.cost:.4f} in this chat" if chat.talk.view.cost else ""
        chat.say(f"Context: about {used:,}{size} tokens{cost}")


async def show_help(chat: Chat, argument: str) -> None:
    """List the commands."""
    del argument
    width = max(len(command.usage) for command in COMMANDS)
    for command in COMMANDS:
        chat.say(f"{command.usage:<{width}}  {command.summary}")
    chat.say("Enter sends, Alt+Enter begins a line. While an answer comes, what you send waits for its end.", "dim")
    chat.say("Ctrl-C stops the answer and keeps it; twice at an empty input leaves, as Ctrl-D does.", "dim")


async def leave(chat: Chat, argument: str) -> None:
    """End the chat."""
    del argument
    chat.leaving = True


COMMANDS: tuple[Command, ...] = (
    Command("/help", "/help", "this list", show_help),
    Command("/sessions", "/sessions [TEXT]", "list the sessions of this folder", sessions),
    Command("/resume", "/resume [N|ID]", "go on with a session", resume),
    Command("/new", "/new", "begin a new session", new),
    Command("/fork", "/fork [N|NODE]", "go back to before a turn and say it differently", fork),
    Command("/restore", "/restore [N|NODE|undo]", "bring files back that the agent changed since", restore),
    Command("/tree", "/tree", "show the session with its branches", tree),
    Command("/condense", "/condense [TEXT]", "replace old turns by a summary; TEXT says what matters", condense),
    Command("/undo", "/undo", "take the last condensation back", undo),
    Command("/model", "/model [ID]", "list the models, or choose one", model),
    Command("/steer", "/steer TEXT", "say something to the run that goes on", steer),
    Command("/remember", "/remember TEXT", "remember something in this workspace", remember),
    Command("/recall", "/recall [TEXT]", "find what was remembered", recall),
    Command("/forget", "/forget ID", "forget one entry", forget),
    Command("/adopt", "/adopt", "take over a session that somebody else wrote", adopt),
    Command("/status", "/status", "say where things stand", status),
    Command("/quit", "/quit", "leave", leave),
)


def draw_tree(result: m.TreeResult) -> list[str]:
    """A session's graph as lines: one line of history runs straight down, each branch is indented.

    Args:
        result: parents before children.
    """
    children: dict[str | None, list[m.TreeNode]] = {}
    known = {node.id for node in result.nodes}
    for node in result.nodes:
        parent = node.parent if node.parent in known else None
        children.setdefault(parent, []).append(node)
    condensed = {link.summary for link in result.condensations}
    lines: list[str] = []
    pending = [(node, 0) for node in reversed(children.get(None, []))]
    while pending:
        node, depth = pending.pop()
        head = " ← you are here" if node.id == result.head else ""
        label = f" [{visible_line(node.label, 40)}]" if node.label else ""
        kind = "condensed" if node.id in condensed else node.role
        lines.append(f"{'  ' * depth}{node.id[:8]} {kind}: {_preview(node.preview, 70)}{label}{head}")
        below = children.get(node.id, [])
        step = 1 if len(below) > 1 else 0
        pending.extend((child, depth + step) for child in reversed(below))
    return lines


async def _own_turns(chat: Chat) -> list[m.TurnView] | None:
    """The person's own turns of the live path, oldest first."""
    if chat.talk.session is None:
        chat.say("There is no session yet.")
        return None
    view = await chat.talk.resume(chat.talk.session, limit=1000)
    turns = [turn for turn in view.turns if turn.role == "user" and turn_text(turn.blocks)]
    if not turns:
        chat.say("There is no turn to go back to yet.")
        return None
    return turns


def _chosen_turn(turns: list[m.TurnView], argument: str) -> tuple[str, bool]:
    """The node that was meant, and whether to stand before it: before a turn of the person's own, else after it."""
    if argument.isdecimal() and 1 <= int(argument) <= len(turns):
        return turns[int(argument) - 1].id, True
    found = [turn.id for turn in turns if turn.id.startswith(argument)]
    return (found[0], True) if len(found) == 1 else (argument, False)


async def _listed(chat: Chat, query: str | None = None) -> list[m.SessionInfo]:
    params = m.SessionListParams(workspace=chat.talk.workspace, query=query, limit=LISTED)
    result: m.SessionListResult = await chat.talk.client.call(ops.SESSION_LIST, params)
    chat.listed = result.sessions
    return result.sessions


def _preview(text: str, limit: int = _PREVIEW) -> str:
    return visible_line(" ".join(text[:1000].split()), limit)


def _ago(at: int) -> str:
    """How long ago a moment was, in milliseconds since the epoch, roughly."""
    seconds = max(0, int(time.time() - at / 1000))
    for unit, size in (("day", 86_400), ("hour", 3600), ("minute", 60)):
        if seconds >= size:
            count = seconds // size
            return f"{count} {unit}{'s' if count > 1 else ''} ago"
    return "just now"

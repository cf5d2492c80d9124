"""The chat, typed into through a pipe, with the fake server behind it."""

from __future__ import annotations

import asyncio
import io
import os
import re
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import pytest
from prompt_toolkit.application import create_app_session
from prompt_toolkit.input import PipeInput, create_pipe_input
from prompt_toolkit.output import DummyOutput
from rich.console import Console

from indusagi_lsp.contract.places import user_places
from indusagi_lsp.protocol import messages as m
from indusagi_lsp.terminal.chat import Chat, action_text
from indusagi_lsp.terminal.client import RemoteError
from indusagi_lsp.terminal.commands import COMMANDS, draw_tree
from indusagi_lsp.terminal.plain import SERVER_DIED
from indusagi_lsp.terminal.prompt import LiveScreen, open_history

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from indusagi_lsp.terminal.options import Options

    from .conftest import Wire

CTRL_C, CTRL_D, ENTER = "\x03", "\x04", "\r"


class Person:
    """Types, and looks at what is shown."""

    def __init__(self, chat: Chat, keys: PipeInput, output: io.StringIO, running: asyncio.Task[int]) -> None:
        self.chat = chat
        self._keys = keys
        self._output = output
        self.running = running

    @property
    def shown(self) -> str:
        return self._output.getvalue()

    def press(self, keys: str) -> None:
        self._keys.send_text(keys)

    async def say(self, line: str, until: str) -> str:
        """Type a line, and wait for a text that was not there before; gives what came since."""
        before = len(self.shown)
        self.press(line + ENTER)
        return await self.sees(until, before)

    async def sees(self, text: str, start: int = 0) -> str:
        for _ in range(500):
            if text in self.shown[start:]:
                return self.shown[start:]
            await asyncio.sleep(0.01)
        pytest.fail(f"{text!r} was never shown; this was:\n{self.shown[start:]}")

    async def typing(self, text: str) -> None:
        """Wait until the input holds a text."""
        for _ in range(500):
            if self.chat.input._session.app.is_running and self.chat.input._session.default_buffer.text == text:
                return
            await asyncio.sleep(0.01)
        pytest.fail(f"the input never held {text!r}")

    async def leaves(self) -> int:
        async with asyncio.timeout(5):
            return await self.running


@asynccontextmanager
async def person(options: Options) -> AsyncIterator[Person]:
    output = io.StringIO()
    with create_pipe_input() as keys, create_app_session(input=keys, output=DummyOutput()):
        history = await asyncio.to_thread(open_history, user_places(os.environ).state / "chat-history")
        chat = Chat(options, LiveScreen(Console(file=output, width=200, highlight=False, markup=False)), history)
        running = asyncio.create_task(chat.run())
        one = Person(chat, keys, output, running)
        try:
            await one.sees("Type a question")
            yield one
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
            await chat.talk.close()


@pytest.fixture(autouse=True)
def _fake(wire: Wire) -> None:
    """All of these talk to the fake server."""


async def test_it_names_the_model_answers_and_leaves(options: Options) -> None:
    async with person(options) as one:
        assert "Model: local:small (small)" in one.shown
        assert "Set a key for a better one." in one.shown
        assert "not trusted" in one.shown
        shown = await one.say("hello", "Done.")
        assert "> hello" in shown
        assert "You said hello." in shown
        assert "● read_file a" in shown
        one.press(CTRL_D)
        assert await one.leaves() == 0
        assert re.search(r"Go on with: indusagi-lsp chat .*--session 1111", one.shown)


async def test_the_unfinished_line_is_live_and_asides_stay_above_it(options: Options) -> None:
    async with person(options) as one:
        one.press("slow" + ENTER)
        await one.sees("> slow")
        for _ in range(200):
            if one.chat.screen.partial:
                break
            await asyncio.sleep(0.01)
        assert one.chat.screen.partial == "a beginning"
        status = "".join(text for _, text, *_ in one.chat.input._message())
        assert "a beginning\n" in status
        assert "answering" in status
        assert "Ctrl-C stops" in status
        await one.say("/help", "Ctrl-D does")
        assert one.chat.screen.partial == "a beginning"
        one.press(CTRL_C)
        await one.sees("Stopped.")
        assert "a beginning" in one.shown


async def test_ctrl_c_stops_the_run_keeps_the_draft_and_a_second_pair_leaves(options: Options, wire: Wire) -> None:
    async with person(options) as one:
        one.press("slow" + ENTER)
        await one.sees("> slow")
        one.press("half a thought")
        await one.typing("half a thought")
        one.press(CTRL_C)
        await one.sees("Stopped. What was said is kept")
        assert wire.messages("indusagi/abort")
        assert not one.chat.talk.view.running
        await one.typing("half a thought")
        one.press(CTRL_C)
        await one.typing("")
        one.press(CTRL_C)
        await one.sees("Ctrl-C again leaves.")
        one.press(CTRL_C)
        assert await one.leaves() == 0


async def test_a_prompt_typed_meanwhile_is_queued_or_steers(options: Options, wire: Wire) -> None:
    async with person(options) as one:
        one.press("slow" + ENTER)
        await one.sees("> slow")
        await one.say("later", "That waits until this answer is done")
        await one.say("/steer now", "You said now")
        modes = [
            (message["params"]["text"], message["params"].get("mode", "queue"))
            for message in wire.messages("indusagi/submit")
        ]
        assert modes == [("slow", "queue"), ("later", "queue"), ("now", "steer")]


@pytest.mark.parametrize(
    ("answer", "decision"),
    [("y", "once"), ("s", "session"), ("n", "deny"), ("No", "deny"), ("session", "session"), ("a", "always")],
)
async def test_an_action_is_shown_and_asked_for(options: Options, answer: str, decision: str) -> None:
    async with person(options) as one:
        one.press("approve" + ENTER)
        await one.sees("run_command wants to run, 12 bytes:")
        await one.sees("rm -rf \\u{202e}/ ")
        assert "\x1b[2J" not in one.shown
        one.press("maybe" + ENTER)
        await asyncio.sleep(0.05)
        assert "decided" not in one.shown
        await one.say(answer, f"decided: {decision}")


async def test_only_what_is_offered_counts(options: Options) -> None:
    async with person(options) as one:
        one.press("approve afresh" + ENTER)
        await one.sees("wants to run")
        for answer in ("a", "s"):
            one.press(answer + ENTER)
        await asyncio.sleep(0.05)
        assert "decided" not in one.shown
        await one.say("y", "decided: once")


async def test_a_question_that_was_answered_elsewhere_goes_away(options: Options) -> None:
    async with person(options) as one:
        one.press("approve" + ENTER)
        await one.sees("wants to run")
        await one.typing("")
        await one.chat.talk.client.request("initialized-again", None)
        with pytest.raises(RemoteError):
            await one.chat.talk.client.request("indusagi/status", None)
        await one.sees("allowed once")
        await one.say("hello", "Done.")


async def test_a_question_does_not_swallow_what_was_being_typed(options: Options) -> None:
    async with person(options) as one:
        one.press("approve" + ENTER + "a long thou")
        await one.sees("wants to run")
        await one.typing("")
        await one.say("n", "decided: deny")
        await one.typing("a long thou")


async def test_a_fork_hands_the_prompt_back(options: Options, wire: Wire) -> None:
    async with person(options) as one:
        await one.say("hello", "Done.")
        assert "1  hello" in await one.say("/fork", "/fork N goes back")
        one.press("/fork 1" + ENTER)
        await one.typing("edit me node0")
        assert wire.messages("indusagi/fork")[0]["params"]["before"] is True
        one.press(CTRL_C)
        await one.say("/fork abcdef", "You are at that point now")
        assert wire.messages("indusagi/fork")[1]["params"] == {
            "sessionId": one.chat.talk.session,
            "node": "abcdef",
            "workspace": one.chat.talk.workspace,
        }


@pytest.mark.parametrize(
    ("typed", "heard"), [("2", "no"), ("3", "3"), ("Neither: spaces", "Neither: spaces"), ("-", "None"), ("YES", "YES")]
)
async def test_a_question_of_the_agent_takes_any_words(options: Options, typed: str, heard: str) -> None:
    async with person(options) as one:
        one.press("question" + ENTER)
        await one.sees("Tabs \\u{202e}?")
        await one.sees("  2  no")
        one.press(ENTER)  # nothing typed leaves it open
        await one.say(typed, f"heard: {heard}")


async def test_a_fork_offers_to_bring_files_back(options: Options, wire: Wire) -> None:
    trusted = msgspec.structs.replace(options, trusted=True)
    async with person(trusted) as one:
        await one.say("hello", "Done.")
        shown = await one.say("/fork 1", "out.txt is removed")
        assert "a.py gets its old content" in shown
        assert "out.txt is removed - only with all: It was changed while a command ran." in shown
        shown = await one.say("d", "+old")
        assert "\x1b[2J" not in shown
        await one.say("y", "1 file was brought back")
        await one.typing("edit me node0")
        preview, done = (message["params"] for message in wire.messages("indusagi/files/restore"))
        assert (preview["node"], preview["before"], preview["preview"]) == ("node0", True, True)
        assert (done["node"], done["before"], done["token"]) == ("node0", True, "t")
        assert "choices" not in done
        one.press(CTRL_C)
        await one.say("/restore undo", "1 file was brought back")
        assert wire.messages("indusagi/files/restore")[-1]["params"]["undo"] == "r1"


async def test_files_can_be_left_or_all_be_brought_back_later(options: Options, wire: Wire) -> None:
    trusted = msgspec.structs.replace(options, trusted=True)
    async with person(trusted) as one:
        await one.say("hello", "Done.")
        await one.say("/fork 1", "out.txt is removed")
        await one.say("n", "left as they are")
        one.press(CTRL_C)
        await one.say("/restore 1", "out.txt is removed")
        await one.say("a", "2 files were brought back")
        assert wire.messages("indusagi/files/restore")[-1]["params"]["choices"] == {
            "a.py": "restore",
            "out.txt": "restore",
        }
        await one.say("/restore node1", "The files are as they were then.")


async def test_a_server_that_dies_under_an_open_question_ends_the_chat(options: Options) -> None:
    async with person(msgspec.structs.replace(options, trusted=True)) as one:
        await one.say("hello", "Done.")
        await one.say("/fork 1", "out.txt is removed")
        one.chat.talk.client._process.kill()
        assert await one.leaves() == SERVER_DIED


async def test_condensing_is_shown_first(options: Options, wire: Wire) -> None:
    async with person(options) as one:
        await one.say("hello", "Done.")
        await one.say("/condense keep the names", "900 tokens become 90")
        assert "the draft" in one.shown
        assert "Mind: No model wrote it." in one.shown
        await one.say("n", "Left as it is.")
        await one.say("/condense", "900 tokens become 90")
        await one.say("y", "Condensed to 90 tokens")
        asked = [message["params"] for message in wire.messages("indusagi/condense")]
        assert asked[0]["instruction"] == "keep the names"
        assert asked[-1]["token"] == "t"
        assert asked[-1]["text"] == "the draft"
        await one.say("/undo", "as it was before")


async def test_sessions_are_listed_and_resumed_by_number(options: Options, wire: Wire) -> None:
    async with person(options) as one:
        await one.say("/sessions", "A session")
        await one.say("/resume 1", "Session 1111")
        await one.say("/resume 9", "There is no session number 9.")
        # A digit that is no number.
        await one.say("/resume ²", "Session 1111")
        await one.say("/new", "begins a new session")
        shown = await one.say("/model other:one", "the providers are local.")
        assert "There is no model other:one." in shown
        await one.say("/model local", "There is no model local.")
        await one.say("/model local:", "There is no model local:.")
        await one.say("/model local:other", "local:other answers from now on.")
        await one.say("hello", "Done.")
        assert wire.messages("indusagi/submit")[0]["params"]["model"] == "local:other"


async def test_a_session_that_has_a_model_of_its_own_is_answered_by_it(options: Options) -> None:
    async with person(msgspec.structs.replace(options, session="own")) as one:
        assert "Model: local:own" in one.shown
        assert "Model: local:small" not in one.shown
        assert "* local:small" not in await one.say("/model", "Set a key")


async def test_another_model_is_told_when_the_session_changes(options: Options) -> None:
    async with person(options) as one:
        await one.say("/resume own", "Model: local:own")
        await one.say("/new", "Model: local:small")
        assert "Model:" not in await one.say("/resume other", "Session 1111")
        assert "Model:" not in await one.say("/help", "Ctrl-D does")


async def test_the_chosen_model_is_told_before_the_sessions_own(options: Options) -> None:
    async with person(msgspec.structs.replace(options, session="own", model="local:mine")) as one:
        assert "Model: local:mine" in one.shown
        assert "Model: local:own" not in one.shown


@pytest.mark.parametrize("command", ["/new", "/resume own"])
async def test_a_session_is_not_left_while_it_answers(options: Options, wire: Wire, command: str) -> None:
    async with person(options) as one:
        one.press("slow" + ENTER)
        await one.sees("> slow")
        await one.say(command, "stop it with Ctrl-C first")
        assert wire.messages("indusagi/resume") == []
        one.press(CTRL_C)
        await one.sees("Stopped.")
        await one.say("hello", "Done.")
        assert len(wire.messages("indusagi/session/new")) == 1


async def test_ctrl_c_while_the_session_is_still_made_stops_the_run_and_a_second_prompt_makes_none(
    options: Options, wire: Wire, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits = tmp_path / "waits"
    waits.touch()
    monkeypatch.setenv("FAKE_NEW_WAITS", str(waits))
    async with person(options) as one:
        one.press("slow" + ENTER)
        await one.sees("> slow")
        one.press("hello" + ENTER)
        await one.sees("> hello")
        one.press(CTRL_C)
        for _ in range(500):
            if one.chat.talk.view.activity == "stopping":
                break
            await asyncio.sleep(0.01)
        assert one.chat.talk.session is None
        waits.unlink()
        await one.sees("Stopped. What was said is kept")
        await one.sees("Done.")
        assert len(wire.messages("indusagi/session/new")) == 1
        sent = [str(message.get("method")) for message in wire.messages()]
        assert sent.index("indusagi/submit") < sent.index("indusagi/abort")


@pytest.mark.parametrize("keys", ["/quit" + ENTER, CTRL_D])
async def test_leaving_ends_the_run_and_then_says_the_way_back(options: Options, wire: Wire, keys: str) -> None:
    async with person(options) as one:
        one.press("slow" + ENTER)
        await one.sees("> slow")
        for _ in range(200):
            if one.chat.screen.partial:
                break
            await asyncio.sleep(0.01)
        one.press(keys)
        assert await one.leaves() == 0
        assert wire.messages("indusagi/abort")
        assert 0 < one.shown.find("Stopped.") < one.shown.find("Go on with:")


async def test_a_foreign_session_says_how_to_take_it_over(options: Options) -> None:
    async with person(msgspec.structs.replace(options, session="foreign")) as one:
        assert "Somebody else wrote this session" in one.shown
        assert "/adopt makes it yours" in one.shown
        assert "/adopt makes it yours" in await one.say("refuse", "Read it first")
        await one.say("/adopt", "The session is yours now")


@pytest.mark.parametrize("command", ["/nonsense", "/re", "/s"])
async def test_a_command_that_is_not_one_is_explained(options: Options, command: str) -> None:
    async with person(options) as one:
        await one.say(command, f"There is no command {command}.")


async def test_every_command_without_an_argument_ends_in_words(options: Options) -> None:
    async with person(options) as one:
        for command in COMMANDS:
            if command.name in ("/quit", "/recall", "/status", "/tree", "/remember"):
                continue
            before = len(one.shown)
            await one.say(command.name, command.name)
            await asyncio.sleep(0.02)
            assert len(one.shown[before:].split("\n")) > 2, command.name
        one.press("/quit" + ENTER)
        assert await one.leaves() == 0


async def test_a_server_that_dies_is_mourned_with_a_way_back(options: Options) -> None:
    async with person(options) as one:
        one.press("die" + ENTER)
        assert await one.leaves() == 3
        assert "The server has ended unexpectedly (exit code 7)." in one.shown
        assert "a last word" in one.shown
        assert re.search(r"Go on with: indusagi-lsp chat .*--session 1111", one.shown)
        assert "Traceback" not in one.shown


async def test_a_refusal_is_a_sentence(options: Options) -> None:
    async with person(options) as one:
        assert "Check it." in await one.say("fault", "Check it.")
        await one.say("hello", "Done.")


async def test_history_is_kept_for_the_user_alone_without_answers(options: Options) -> None:
    async with person(options) as one:
        await one.say("hello", "Done.")
        one.press("approve" + ENTER)
        await one.sees("wants to run")
        await one.say("session", "decided: session")
        await one.say("bye", "You said bye")
        path = user_places(os.environ).state / "chat-history"
        for _ in range(100):
            kept = [line for line in content(path).split("\n") if line.startswith("+")]
            if len(kept) == 3:
                break
            await asyncio.sleep(0.02)
        assert kept == ["+hello", "+approve", "+bye"]
        assert mode(path) == 0o600


def content(path: Path) -> str:
    return path.read_text()


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


def test_a_long_action_shows_both_ends_and_its_size() -> None:
    shown = action_text("HEAD" + "x\n" * 5000 + "TAIL")
    assert shown.startswith("HEAD")
    assert shown.endswith("TAIL")
    assert "10,008 characters, 5,001 lines in all" in shown
    assert len(shown) < 2200


def test_an_endless_line_does_not_fill_the_screen() -> None:
    output = io.StringIO()
    screen = LiveScreen(Console(file=output, width=80))
    screen.text("word " * 500 + "x" * 3000)
    assert len(screen.partial) < 1000
    screen.text("\n")
    assert output.getvalue().replace("\n", "").replace(" ", "") == "word" * 500 + "x" * 3000


def test_a_tree_runs_straight_and_branches_are_indented() -> None:
    def node(name: str, parent: str | None, label: str | None = None) -> m.TreeNode:
        return m.TreeNode(
            id=name * 8,
            parent=parent and parent * 8,
            role="user",
            preview=f"p{name}",
            label=label,
            tokens=1,
            created_at=0,
        )

    link = m.CondenseLink(summary="e" * 8, source="d" * 8, cut="c" * 8, trigger="manual", before=1, after=1)
    nodes = [node("a", None), node("b", "a"), node("c", "b"), node("d", "b", "tried"), node("e", "zz")]
    result = m.TreeResult(nodes=nodes, condensations=[link], leaves=[], head="d" * 8)
    assert draw_tree(result) == [
        "aaaaaaaa user: pa",
        "bbbbbbbb user: pb",
        "  cccccccc user: pc",
        "  dddddddd user: pd [tried] ← you are here",
        "eeeeeeee condensed: pe",
    ]


def test_a_long_session_draws_soon() -> None:
    nodes = [
        m.TreeNode(
            id=f"{n:08}",
            parent=f"{n - 1:08}" if n else None,
            role="user",
            preview="x",
            label=None,
            tokens=1,
            created_at=0,
        )
        for n in range(20_000)
    ]
    assert len(draw_tree(m.TreeResult(nodes=nodes, condensations=[], leaves=[], head=None))) == 20_000

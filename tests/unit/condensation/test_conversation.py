"""The seed's short-term history and its summariser."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from indusagi_lsp.condensation import ContextSummarizer, LLMConversation, LLMMessage
from indusagi_lsp.contract.errors import CompactionFailed, SemanticError
from indusagi_lsp.contract.models import ModelDone, ModelPart, ModelRequest
from indusagi_lsp.contract.turns import SYSTEM, Turn, assistant, user
from support.histories import histories


def conversation(*roles: str) -> LLMConversation:
    return LLMConversation(LLMMessage(role, str(at)) for at, role in enumerate(roles))


def contents(messages: LLMConversation) -> list[str]:
    return [message.content for message in messages]


def test_truncate_keeps_system_messages_in_their_places() -> None:
    talk = conversation("system", "user", "assistant", "system", "user")
    talk.truncate(3)
    assert contents(talk) == ["0", "3", "4"]


def test_truncate_does_nothing_when_it_fits() -> None:
    talk = conversation("user", "assistant")
    talk.truncate(2)
    assert len(talk) == 2


def test_system_messages_alone_may_exceed_the_limit() -> None:
    talk = conversation("system", "user", "system", "user")
    talk.truncate(1)
    assert contents(talk) == ["0", "2"]


def test_a_call_and_its_result_go_together() -> None:
    talk = LLMConversation(
        [
            LLMMessage("user", "a"),
            LLMMessage("assistant", "b", call_ids=("1",)),
            LLMMessage("tool", "c", result_ids=("1",)),
            LLMMessage("assistant", "d"),
        ]
    )
    talk.truncate(2)
    assert contents(talk) == ["d"]


def test_a_negative_limit_makes_no_sense() -> None:
    with pytest.raises(SemanticError):
        conversation("user").truncate(-1)


def test_append_and_remove() -> None:
    talk = LLMConversation()
    talk.append(LLMMessage("user", "a"))
    talk.remove(LLMMessage("user", "a"))
    assert talk.messages == ()
    with pytest.raises(SemanticError):
        talk.remove(LLMMessage("user", "a"))


@given(histories(), st.integers(0, 20))
def test_truncate_never_parts_a_call_from_its_result(turns: list[Turn], limit: int) -> None:
    talk = LLMConversation(map(LLMMessage.from_turn, turns))
    before = talk.messages
    talk.truncate(limit)
    assert len(talk) <= max(limit, 0) or talk.messages == before
    seen: set[str] = set()
    had_call: set[str] = set()
    for message in before:
        had_call.update(message.call_ids)
    for message in talk:
        assert all(call_id in seen or call_id not in had_call for call_id in message.result_ids)
        seen.update(message.call_ids)


class Model:
    """Says one text, and remembers what it was asked."""

    def __init__(self, text: str, stop: str = "stop") -> None:
        self.text, self.stop = text, stop
        self.requests: list[ModelRequest] = []

    async def __call__(self, request: ModelRequest) -> AsyncIterator[ModelPart]:
        self.requests.append(request)
        yield ModelDone(assistant(self.text) if self.text else Turn("assistant"), self.stop)  # type: ignore[arg-type]  # a test's text


async def test_summarize_messages_asks_with_the_seed_prompt() -> None:
    model = Model("short")
    turn = await ContextSummarizer(model, "p:m").summarize_messages([LLMMessage("user", "hi"), assistant("hello")])
    assert (turn.role, turn.text) == (SYSTEM, "short")
    (request,) = model.requests
    assert request.purpose == "summarizer"
    assert request.turns[0].text == (
        "Summarize the following conversation concisely, preserving key information:\n\n[user] hi\n[assistant] hello"
    )


async def test_braces_in_a_message_are_just_text() -> None:
    model = Model("short")
    await ContextSummarizer(model, "p:m").summarize_messages([user("{0} {x} {")])
    assert model.requests[0].turns[0].text.endswith("[user] {0} {x} {")


async def test_an_empty_list_is_refused() -> None:
    with pytest.raises(SemanticError, match=r"^Cannot summarize an empty list of messages\.$"):
        await ContextSummarizer(Model("x"), "p:m").summarize_messages([])


@pytest.mark.parametrize("model", [Model(""), Model("cut of", "length")])
async def test_no_usable_summary_is_a_failure(model: Model) -> None:
    with pytest.raises(CompactionFailed):
        await ContextSummarizer(model, "p:m").summarize_messages([user("hi")])

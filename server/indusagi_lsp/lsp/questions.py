"""What only the client can tell: the user's answer to a question of the agent, and the problems that it shows."""

from __future__ import annotations

import logging
from typing import Any

import msgspec

from indusagi_lsp.contract.errors import InvalidState
from indusagi_lsp.contract.text import visible
from indusagi_lsp.lsp.client import ClientFeatures
from indusagi_lsp.lsp.peer import Peer, PeerError
from indusagi_lsp.protocol import messages as m
from indusagi_lsp.protocol.operations import DIAGNOSTICS, QUESTION

logger = logging.getLogger(__name__)

DIAGNOSTICS_SECONDS = 10.0
_INFO = 3


async def put(peer: Peer, features: ClientFeatures, question: m.QuestionParams, limit: float) -> str | None:
    """Ask the user, by our own request or by a message with buttons.

    Args:
        peer: the client.
        features: what it can do.
        question: the agent's.
        limit: seconds until silence is no answer.

    Returns:
        The user's words; None where there were none.

    Raises:
        InvalidState: the client cannot ask this.
    """
    try:
        if features.questions:
            return msgspec.convert(await peer.ask(QUESTION, question, limit), m.QuestionResult).answer
        if question.options:
            return _choice(await peer.ask("window/showMessageRequest", _message(question), limit), question)
    except TimeoutError:
        return None
    except (PeerError, msgspec.ValidationError) as error:
        logger.info("the client could not ask the user: %s", error)
        raise InvalidState("The user could not be asked.", hint="Ask in your answer, and end your turn.") from error
    raise InvalidState(
        "This editor takes no free answers to a question.",
        hint="Offer `options` to choose from, or ask in your answer and end your turn.",
    )


async def diagnostics(peer: Peer, wanted: m.DiagnosticsParams) -> list[m.FileDiagnostics]:
    """Ask the editor what problems it shows.

    Raises:
        InvalidState: it did not tell.
    """
    try:
        answer = await peer.ask(DIAGNOSTICS, wanted, DIAGNOSTICS_SECONDS)
        return msgspec.convert(answer, m.DiagnosticsResult).files
    except (TimeoutError, PeerError, msgspec.ValidationError) as error:
        logger.info("the client did not tell its diagnostics: %s", error)
        raise InvalidState("The editor did not tell what problems it shows.", hint="Run the checks instead.") from error


def _message(question: m.QuestionParams) -> dict[str, Any]:
    return {
        "type": _INFO,
        "message": f"Indusagi asks: {visible(question.question)}",
        "actions": [{"title": visible(option)} for option in question.options],
    }


def _choice(answer: Any, question: m.QuestionParams) -> str | None:
    title = answer.get("title") if isinstance(answer, dict) else None
    return next((option for option in question.options if visible(option) == title), None)

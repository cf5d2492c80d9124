"""Asking the user whether an action may run: by our own request, or by a message with buttons elsewhere."""

from __future__ import annotations

import logging
from typing import Any

import msgspec

from indusagi_lsp.contract.approvals import TITLES, Decision
from indusagi_lsp.contract.text import visible
from indusagi_lsp.lsp.client import ClientFeatures
from indusagi_lsp.lsp.peer import Peer, PeerError
from indusagi_lsp.protocol import messages as m
from indusagi_lsp.protocol.operations import APPROVE

logger = logging.getLogger(__name__)

_SHOWN = 1500
_WARNING = 2


async def ask(peer: Peer, features: ClientFeatures, question: m.ApproveParams, limit: float) -> Decision:
    """Ask, and wait for the user's word.

    Args:
        peer: the client.
        features: what it can do.
        question: what would run.
        limit: seconds until silence is a denial.

    Returns:
        The decision; every failure to get one is `deny`.
    """
    try:
        if features.approvals:
            return _decision(await peer.ask(APPROVE, question, limit), question)
        return _choice(await peer.ask("window/showMessageRequest", _message(question), limit), question)
    except TimeoutError:
        logger.info("nobody answered whether %s may run", question.tool)
    except PeerError as error:
        logger.info("the client could not ask whether %s may run: %s", question.tool, error)
    return "deny"


def _decision(answer: Any, question: m.ApproveParams) -> Decision:
    try:
        decision = msgspec.convert(answer, m.ApproveResult).decision
    except msgspec.ValidationError:
        return "deny"
    return decision if decision in question.options else "deny"


def _choice(answer: Any, question: m.ApproveParams) -> Decision:
    title = answer.get("title") if isinstance(answer, dict) else None
    return next((option for option in question.options if TITLES[option] == title), "deny")


def _message(question: m.ApproveParams) -> dict[str, Any]:
    action = visible(question.action)
    if len(action) > _SHOWN:
        # Head and tail: what matters may stand at the end of a long action.
        half = _SHOWN // 2
        action = f"{action[:half]}\n… {len(action) - 2 * half} characters left out …\n{action[-half:]}"
    return {
        "type": _WARNING,
        "message": f"Indusagi wants to run {question.tool} ({question.size} bytes):\n{action}",
        "actions": [{"title": TITLES[option]} for option in question.options],
    }

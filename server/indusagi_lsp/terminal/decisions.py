"""How the decisions about an action are offered at a terminal, and what may be typed for each."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from indusagi_lsp.contract.approvals import Decision

# By decision: how it is offered, and what may be typed for it.
_WORDS: dict[Decision, tuple[str, tuple[str, ...]]] = {
    "once": ("[y]es", ("y", "yes")),
    "session": ("yes for this [s]ession", ("s", "session")),
    "always": ("[a]lways in this folder", ("a", "always")),
    "deny": ("[n]o", ("n", "no")),
}


def offer(options: Iterable[Decision]) -> tuple[str, dict[str, Decision]]:
    """The question about an action, and the decision that each answer to it is; a no is always one.

    Args:
        options: the decisions that are offered; one that is not known here is left out.
    """
    offered = [option for option in options if option in _WORDS]
    answers: dict[str, Decision] = {said: option for option in offered for said in _WORDS[option][1]}
    answers |= dict.fromkeys(_WORDS["deny"][1], "deny")
    return f"Allow? {', '.join(_WORDS[option][0] for option in offered)}:", answers

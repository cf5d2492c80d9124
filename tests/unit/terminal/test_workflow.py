"""Questions of a workflow at the terminal."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

import pytest

from indusagi_lsp.protocol import messages as m
from indusagi_lsp.terminal.plain import PlainScreen
from indusagi_lsp.terminal.workflow import Asker

if TYPE_CHECKING:
    from indusagi_lsp.contract.approvals import Decision

ALL: list[Decision] = ["once", "session", "always", "deny"]


def question(options: list[Decision]) -> m.ApproveParams:
    return m.ApproveParams(
        approval_id="a",
        workspace="file:///w",
        session_id="s",
        run_id="r",
        call_id="c",
        tool="bash",
        action="rm -r build",
        size=11,
        sha256="0" * 64,
        options=options,
    )


@pytest.mark.parametrize(
    ("typed", "options", "decision"),
    [
        ("y\n", ALL, "once"),
        (" Yes \n", ALL, "once"),
        ("session\n", ALL, "session"),
        ("a\n", ALL, "always"),
        ("n\n", ALL, "deny"),
        ("stop\n", ALL, "deny"),
        ("abort\n", ALL, "deny"),
        ("s\n", ["once", "deny"], "deny"),
        ("\n", ALL, "deny"),
        ("", ALL, "deny"),
    ],
)
async def test_only_a_whole_word_that_was_offered_allows(
    typed: str, options: list[Decision], decision: Decision
) -> None:
    err = io.StringIO()
    asker = Asker(PlainScreen(io.StringIO(), err), lambda: typed)
    assert await asker(question(options)) == decision
    assert "rm -r build\nAllow? [y]es" in err.getvalue()

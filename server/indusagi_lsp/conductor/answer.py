"""The answer that a model is giving: its text so far, and the tool calls that it has begun.

A call is announced by `tool_started` as soon as the model begins it, so each announcement owes a `tool_finished`, also
when the stream dies before the call is whole.
"""

from __future__ import annotations

from collections.abc import Callable

from indusagi_lsp.contract.clock import NewId
from indusagi_lsp.contract.events import RunEvent, ToolFinished, ToolResult, ToolStarted
from indusagi_lsp.contract.turns import ASSISTANT, Block, TextBlock, ToolCallBlock, Turn

NEVER_WHOLE = "the call was never complete, so it was not run"


class Answer:
    """Collects one answer after the other of a run; call ids are unique in the whole run."""

    def __init__(self, publish: Callable[[RunEvent], None], new_id: NewId) -> None:
        self.begun = False
        self._publish = publish
        self._new_id = new_id
        self._text: list[str] = []
        self._announced: dict[int, tuple[str, str]] = {}
        self._used: set[str] = set()

    @property
    def text(self) -> str:
        """The text so far."""
        return "".join(self._text)

    def clear(self) -> None:
        """Begin a new answer."""
        self.begun = False
        self._text.clear()
        self._drop_announced()

    def add_text(self, text: str) -> None:
        """Take in a piece of text."""
        self.begun = True
        self._text.append(text)

    def announce(self, index: int, call_id: str, name: str) -> None:
        """Tell of a call as soon as its name is known; later pieces of it change nothing."""
        self.begun = True
        if index not in self._announced and name:
            unique = self._unique(call_id)
            self._announced[index] = (unique, name)
            self._publish(ToolStarted(unique, name))

    def settle(self, turn: Turn) -> Turn:
        """Take the whole turn; its calls get the ids under which they were announced.

        A duplicate id would make two results look like answers to one call, so it is given a new one.
        """
        blocks: list[Block] = []
        index = 0
        for block in turn.blocks:
            if not isinstance(block, ToolCallBlock):
                blocks.append(block)
                continue
            announced = self._announced.pop(index, None)
            index += 1
            if announced is None:
                announced = (self._unique(block.id), block.name)
                self._publish(ToolStarted(*announced))
            blocks.append(ToolCallBlock(announced[0], block.name, block.input, block.extra))
        self._drop_announced()
        return Turn(turn.role, tuple(blocks), turn.extra)

    def partial(self) -> Turn | None:
        """What a broken stream leaves: its text, marked, or None where there is none."""
        text = self.text
        self.clear()
        return Turn(ASSISTANT, (TextBlock(text),), {"interrupted": True}) if text.strip() else None

    def _unique(self, call_id: str) -> str:
        unique = call_id if call_id and call_id not in self._used else f"call_{self._new_id()}"
        self._used.add(unique)
        return unique

    def _drop_announced(self) -> None:
        for call_id, name in self._announced.values():
            self._publish(ToolFinished(call_id, name, ToolResult(NEVER_WHOLE, is_error=True)))
        self._announced.clear()

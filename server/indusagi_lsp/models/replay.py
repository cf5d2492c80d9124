"""Models that say again what a recording holds: no key, no network, and the same run as often as one likes.

Tools are run for real and approvals are asked for, so a replay in a copy of the workspace does to it what the recorded
run did. Each request is answered by the recorded call that was asked the same; where none was, by the one that shares
the longest beginning with it, and the user is told that the run has left the recorded path.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from itertools import takewhile
from pathlib import Path

from indusagi_lsp.contract.errors import ModelError
from indusagi_lsp.contract.models import ModelCard, ModelDone, ModelNote, ModelPart, ModelRequest
from indusagi_lsp.models.recording import RecordedCall, digests
from indusagi_lsp.models.service import Listed

DIVERGED = "replay_diverged"


class Replay:
    """The models of a recording, in the place of the real ones.

    Args:
        calls: what `read_recording` gave.
        path: the file, for messages.
    """

    problems: tuple[str, ...] = ()

    def __init__(self, calls: Sequence[RecordedCall], path: Path) -> None:
        self._left = list(calls)
        self._path = path
        self._cards = {call.card.id: call.card for call in calls}
        self._default = calls[0].card.id

    def invoke(self, request: ModelRequest, /) -> AsyncIterator[ModelPart]:
        """Say again what was said; this is a `ModelInvoker`.

        Yields:
            The recorded parts, without the pauses between them.

        Raises:
            ModelError: as the recorded model did, or the recording has no answer left.
        """
        return self._invoke(request)

    def card(self, model: str, /) -> ModelCard:
        """The model as it was known when it was recorded.

        Raises:
            ModelError: the recording does not have it.
        """
        found = self._cards.get(model)
        if found is None:
            known = ", ".join(self._cards)
            raise ModelError(f"The recording has no model {model!r}.", hint=f"It has {known}.")
        return found

    def default(self) -> str:
        """The first model of the recording."""
        return self._default

    async def list(self) -> list[Listed]:
        """The models of the recording."""
        return [Listed(card, available=True, note=f"replayed from {self._path.name}") for card in self._cards.values()]

    async def look_up(self, model: str) -> ModelCard:
        """What `card` says."""
        return self.card(model)

    async def close(self) -> None:
        """Nothing to end."""

    async def _invoke(self, request: ModelRequest) -> AsyncGenerator[ModelPart, None]:
        asked = tuple(await asyncio.to_thread(digests, request.turns))
        call = self._take(request.purpose, asked)
        if call.asked != asked:
            same = _shared(call.asked, asked)
            text = (
                f"This run has left the recorded one: message {same + 1} of {max(len(asked), len(call.asked))} is not"
                " what it was. The recorded answer is given all the same."
            )
            yield ModelNote(DIVERGED, text)
        for part in call.parts:
            # As a stream would: others have their turn between two parts.
            await asyncio.sleep(0)
            yield part
            if isinstance(part, ModelDone):
                return
        if call.error is not None:
            raise call.error

    def _take(self, purpose: str, asked: tuple[str, ...]) -> RecordedCall:
        fitting = [call for call in self._left if call.purpose == purpose]
        if not fitting:
            message = f"The recording {self._path.name} has no answer left to this."
            raise ModelError(message, hint="It ends here. Record a longer run, or start without --replay.")
        # `max` takes the first of equals, so calls that were asked alike are answered in the recorded order.
        found = max(fitting, key=lambda call: (call.asked == asked, _shared(call.asked, asked)))
        self._left.remove(found)
        return found


def _shared(one: Sequence[str], other: Sequence[str]) -> int:
    """How many turns two conversations have in common, from their beginning."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))

"""When the live path is condensed, and how the outcome becomes part of the session's graph.

The work on the text is `condensation`'s. Here stand the moments (before a model call, after an overflow, on request),
the rule of two attempts, the preview and its token, and the events.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeAlias

import msgspec

from indusagi_lsp.condensation import (
    CompactionPolicy,
    Condensation,
    ContextMeter,
    Masking,
    ProgressGuard,
    check_fixed,
    condense,
    mask_old,
    window_of,
)
from indusagi_lsp.conductor.config import AgentConfig
from indusagi_lsp.conductor.cost import CostTracker
from indusagi_lsp.conductor.history import History
from indusagi_lsp.conductor.uninterrupted import uninterrupted
from indusagi_lsp.contract.errors import CompactionFailed, IndusagiError, InvalidInput, InvalidState
from indusagi_lsp.contract.events import CondenseFinished, CondenseStarted, CondenseTrigger, Phase, RunEvent
from indusagi_lsp.contract.models import ModelCard, ModelInvoker, ToolSpec, Usage
from indusagi_lsp.contract.turns import Turn

SetPhase: TypeAlias = Callable[[Phase], None]

ROOM_AFTER_MASKING = 0.6
"""Masking counts only if it frees this much of the trigger; else it would be done again at every call."""

STALE = "The conversation has moved on since this preview was made."


class CondenseRequest(msgspec.Struct, frozen=True, kw_only=True):
    """What a caller wants condensed.

    Attributes:
        instruction: what the summary should heed; it is for the model.
        up_to: drop nothing after this node.
        from_: drop nothing before this node.
        preview: only show what would happen.
        token: apply the preview that had this token.
        text: the edited text for it.
    """

    instruction: str | None = None
    up_to: str | None = None
    from_: str | None = None
    preview: bool = False
    token: str | None = None
    text: str | None = None


class CondensePlan(msgspec.Struct, frozen=True):
    """What condensing would do: node ids that are dropped and kept, tokens, and the draft that can be edited."""

    cut: int
    dropped: tuple[str, ...]
    kept: tuple[str, ...]
    before: int
    after: int
    draft: str
    token: str


class CondenseOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """What condensing came to. Without `condensed`, `reason` or `plan` says why not."""

    condensed: bool
    before: int
    after: int
    cut: int = 0
    summary: str | None = None
    reason: str | None = None
    plan: CondensePlan | None = None


class Condenser:
    """Condenses one history for one model.

    Args:
        history: the conversation.
        card: the model whose window counts.
        config: the agent's; only `compaction`, `system` and `tools` matter here.
        invoke: calls the model.
        costs: where a summary's usage is counted.
        publish: where events go.
    """

    def __init__(
        self,
        *,
        history: History,
        card: ModelCard,
        config: AgentConfig,
        invoke: ModelInvoker,
        costs: CostTracker,
        publish: Callable[[RunEvent], None],
    ) -> None:
        self.card = card
        self._history = history
        self._config = config
        self._invoke = invoke
        self._costs = costs
        self._publish = publish
        self._guard = ProgressGuard()
        self._seen: tuple[Turn, ...] = ()
        self._meter = ContextMeter((), system=config.system, tools=self._specs(config))
        self._previews: dict[str, tuple[str | None, Condensation]] = {}
        self._finished = True

    def fits(self, history: History, card: ModelCard) -> bool:
        """Whether this is the condenser of that history and model."""
        return history is self._history and card == self.card

    def configure(self, config: AgentConfig) -> None:
        """Take another configuration."""
        if (config.system, config.tools) != (self._config.system, self._config.tools):
            self._meter.set_fixed(config.system, self._specs(config))
        self._config = config

    def estimate(self) -> int:
        """The size of the next prompt, in tokens."""
        self._measure()
        return self._meter.tokens

    def model_answered(self, usage: Usage | None) -> None:
        """A model call came to its end; called before its answer is appended."""
        self._guard.progressed()
        self._measure()
        if usage is not None:
            self._meter.report(usage, len(self._seen))

    async def if_due(self, set_phase: SetPhase) -> None:
        """Condense if the policy says so. A failure is told, and the run goes on with the history as it is.

        Raises:
            CompactionFailed: the system prompt alone fills the window, so that no condensing can help.
        """
        policy = self._config.compaction
        if policy is None:
            return
        self._measure()
        if not self._meter.is_due(policy, self.card):
            return
        check_fixed(self._meter.fixed, self.card, policy)
        await self._automatically(policy, "auto", set_phase, self.card)

    async def after_overflow(self, set_phase: SetPhase) -> bool:
        """The provider refused the prompt as too long: condense, also where no policy is set.

        Whatever the card says of the model's window, the refused prompt did not fit: so the window is taken to be no
        larger than that, and each further refusal makes it smaller still.

        Returns:
            Whether the history is smaller now, so that it makes sense to ask again.
        """
        policy = self._config.compaction or CompactionPolicy()
        window = max(min(window_of(self.card), self.estimate()), 1)
        return await self._automatically(
            policy, "overflow", set_phase, msgspec.structs.replace(self.card, window=window)
        )

    async def on_request(self, request: CondenseRequest) -> CondenseOutcome:
        """Condense, preview, or apply a preview.

        Raises:
            InvalidInput: a node that is not on the live path, or a text without the preview's token.
            InvalidState: the head has moved since the preview.
            CompactionFailed: no acceptable summary could be made; the history is untouched.
        """
        if request.token is not None:
            return await self._apply_preview(request)
        if request.text is not None:
            raise InvalidInput("An edited text needs the preview's `token`.", hint="Ask for a preview first.")

        with self._told("manual"):
            made = await self._make(self._config.compaction or CompactionPolicy(), request, self.card)
            if request.preview or not made.condensed:
                self._finish(made, "Nothing was changed: this was a preview." if made.condensed else made.reason)
                plan = self._plan(made) if made.condensed else None
                return CondenseOutcome(
                    condensed=False, before=made.before, after=made.after, reason=made.reason or None, plan=plan
                )
            return await self._store(made, "manual")

    # --- inside -------------------------------------------------------------------------------------------------------

    async def _automatically(
        self, policy: CompactionPolicy, trigger: CondenseTrigger, set_phase: SetPhase, card: ModelCard
    ) -> bool:
        set_phase("condensing")
        try:
            with self._told(trigger):
                if await self._mask(policy, trigger, card):
                    return True
                self._guard.attempt()
                made = await self._make(policy, CondenseRequest(), card)
                if not made.condensed:
                    self._finish(made, made.reason)
                    return False
                await self._store(made, trigger)
                return True
        except CompactionFailed:
            return False

    @contextmanager
    def _told(self, trigger: CondenseTrigger) -> Iterator[None]:
        """Tell that condensing begins, and where it comes to no end of its own, that it has ended, and why."""
        self._publish(CondenseStarted(trigger))
        self._finished = False
        try:
            yield
        except BaseException as error:
            if not self._finished:
                self._finish(None, _reason(error))
            raise

    async def _mask(self, policy: CompactionPolicy, trigger: CondenseTrigger, card: ModelCard) -> bool:
        """The gentle step first: mask what is old and heavy, and drop no turn, where that is enough for a while."""
        entries = await asyncio.to_thread(self._history.entries)
        room = policy.trigger_ratio * window_of(card) * ROOM_AFTER_MASKING - self._meter.fixed
        masking = await asyncio.to_thread(
            mask_old,
            [entry.turn for entry in entries],
            int(room / self._meter.scale),
            keep_recent=policy.keep_recent,
            result_chars=policy.tool_result_chars,
        )
        if masking is None:
            return False
        await uninterrupted(self._store_masked(masking, trigger))
        return True

    async def _store_masked(self, masking: Masking, trigger: CondenseTrigger) -> None:
        await self._history.mask(masking, trigger)
        self._start_anew()
        text = f"{masking.changed} old tool results, arguments or images were masked; nothing was dropped."
        self._tell_finished(CondenseFinished(masking.before, masking.after, 0, None, text))

    def _start_anew(self) -> None:
        """The path was replaced, so previews of the old one and what was measured of it are void."""
        self._previews.clear()
        self._seen = ()
        self._meter.reset(())
        self._measure()

    async def _make(self, policy: CompactionPolicy, request: CondenseRequest, card: ModelCard) -> Condensation:
        entries = await asyncio.to_thread(self._history.entries)
        pinned = self._history.pinned
        ids = [entry.node for entry in entries]
        made = await condense(
            [entry.turn for entry in entries],
            card,
            policy,
            self._invoke if card.tools else None,
            instruction=request.instruction,
            cut=_position(ids, request.up_to) + 1 if request.up_to is not None else None,
            start=_position(ids, request.from_) if request.from_ is not None else 0,
            pins=[at for at, node in enumerate(ids) if node in pinned],
        )
        if made.usage is not None:
            self._costs.add(self.card.provider, "summarizer", made.usage)
        return made

    async def _store(self, made: Condensation, trigger: CondenseTrigger) -> CondenseOutcome:
        """Once writing has begun, a cancellation comes too late: what was done is told before it is raised."""
        return await uninterrupted(self._store_whole(made, trigger))

    async def _store_whole(self, made: Condensation, trigger: CondenseTrigger) -> CondenseOutcome:
        summary = await self._history.condense(made, trigger)
        self._start_anew()
        self._finish(made, None, summary)
        return CondenseOutcome(
            condensed=True,
            before=made.before,
            after=made.after,
            cut=made.cut - made.start,
            summary=summary,
            reason=made.reason or None,
        )

    async def _apply_preview(self, request: CondenseRequest) -> CondenseOutcome:
        leaf, made = self._previews.get(request.token or "", (None, None))
        if made is None:
            raise InvalidInput("There is no preview of that token.", hint="Ask for a new preview.")
        if leaf != self._history.leaf:
            raise InvalidState(STALE, hint="Ask for a new preview.")
        if request.text is not None:
            made = made.with_text(request.text)
        with self._told("manual"):
            return await self._store(made, "manual")

    def _plan(self, made: Condensation) -> CondensePlan:
        leaf = self._history.leaf
        token = made.token(leaf)
        self._previews = {token: (leaf, made)}
        entries = self._history.entries()
        return CondensePlan(
            made.cut - made.start,
            tuple(entry.node for entry in entries[made.start : made.cut] if entry.node),
            tuple(entry.node for entry in (*entries[: made.start], *entries[made.cut :]) if entry.node),
            made.before,
            made.after,
            made.draft,
            token,
        )

    def _finish(self, made: Condensation | None, reason: str | None, summary: str | None = None) -> None:
        before = made.before if made is not None else self._meter.tokens
        after = made.after if made is not None and summary is not None else before
        cut = made.cut - made.start if made is not None and summary is not None else 0
        self._tell_finished(CondenseFinished(before, after, cut, summary, reason))

    def _tell_finished(self, event: CondenseFinished) -> None:
        self._finished = True
        self._publish(event)

    def _measure(self) -> None:
        """Bring the meter up to the history: usually by what was appended, else anew.

        A path only grows at its end while this condenser is in use (a fork, an undo or another window's turns make a
        new one), so its ends tell whether it is still the one that was measured; comparing all of it would cost more
        than the new turns do.
        """
        view = self._history.view()
        known = len(self._seen)
        if 0 < known <= len(view) and view[0] is self._seen[0] and view[known - 1] is self._seen[-1]:
            for turn in view[known:]:
                self._meter.append(turn)
        else:
            self._meter.reset(view)
        self._seen = view

    def _specs(self, config: AgentConfig) -> tuple[ToolSpec, ...]:
        return tuple(tool.spec for tool in config.tools) if self.card.tools else ()


def _reason(error: BaseException) -> str:
    """Why condensing came to no end, for people."""
    if isinstance(error, IndusagiError):
        return f"{error.message} {error.hint}".rstrip()
    return "It failed by a fault of the server." if isinstance(error, Exception) else "It was stopped."


def _position(ids: Sequence[str | None], node: str) -> int:
    try:
        return ids.index(node)
    except ValueError:
        message = f"Node {node!r} is not on the live path."
        raise InvalidInput(message, hint="Name a node of the branch that is being condensed.") from None

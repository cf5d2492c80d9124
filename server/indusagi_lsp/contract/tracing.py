"""The seam to tracing: what took how long, and how it ended. Off unless a host hands in a tracer.

Spans carry names, counts and kinds of faults. They never carry what anybody said: no prompt, no answer, no argument or
output of a tool, no message of an error, because whoever reads traces need not be who may read the conversation.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Protocol, TypeAlias

Fact: TypeAlias = str | int | float | bool


class Span(Protocol):
    """Something that goes on."""

    def note(self, facts: Mapping[str, Fact]) -> None:
        """Add what is known by now."""
        ...

    def fail(self, kind: str) -> None:
        """Say that it ends badly, by a word that tells the kind of the fault and nothing else."""
        ...


class Tracer(Protocol):
    """Makes spans."""

    def span(self, name: str, facts: Mapping[str, Fact]) -> AbstractContextManager[Span]:
        """A span for the time of a `with`; spans that begin inside it are its children.

        An exception that passes makes it fail, by the exception's kind.

        Args:
            name: few different ones, as charts group by them.
            facts: what is known at its beginning.
        """
        ...

    def leaf(self, name: str, facts: Mapping[str, Fact]) -> AbstractContextManager[Span]:
        """A span for a call to another system. It has no children, so a generator may hold it across its yields."""
        ...


class _NoSpan:
    def note(self, facts: Mapping[str, Fact]) -> None:
        pass

    def fail(self, kind: str) -> None:
        pass


class Untraced:
    """A tracer that keeps nothing."""

    def span(self, name: str, facts: Mapping[str, Fact]) -> AbstractContextManager[Span]:
        """Nothing."""
        return nullcontext(_NoSpan())

    leaf = span

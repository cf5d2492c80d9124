"""What a workflow knows while it runs: its inputs, the results of its steps, and facts about the execution itself."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

from indusagi_lsp.contract.errors import InvalidInput


class WorkflowContext:
    """The state of one execution, as JSON data.

    Args:
        inputs: what the execution was started with.
        metadata: facts about the execution; `workflow_name` is what its checkpoints are tagged with.
    """

    def __init__(self, inputs: Mapping[str, Any] | None = None, *, metadata: Mapping[str, Any] | None = None) -> None:
        self._inputs: dict[str, Any] = dict(inputs or {})
        self._results: dict[str, Any] = {}
        self._metadata: dict[str, Any] = dict(metadata or {})

    @classmethod
    def from_dict(cls, state: Mapping[str, Any]) -> WorkflowContext:
        """Read what `as_dict` has written.

        Raises:
            InvalidInput: that is no such state.
        """
        parts = [state.get(name, {}) for name in ("inputs", "results", "metadata")]
        if not all(isinstance(part, Mapping) for part in parts):
            raise InvalidInput("The state of a workflow has objects for its inputs, results and metadata.")
        context = cls(parts[0], metadata=parts[2])
        context._results = dict(parts[1])
        return context

    @property
    def inputs(self) -> Mapping[str, Any]:
        """What the execution was started with."""
        return self._inputs

    @property
    def results(self) -> Mapping[str, Any]:
        """The result of each step that has one, by step."""
        return self._results

    def set_result(self, step_id: str, result: Any) -> None:
        """Keep the result of a step, in place of an earlier one."""
        self._results[step_id] = result

    def get_metadata(self, name: str, default: Any = None) -> Any:
        """A fact about the execution, or `default`."""
        return self._metadata.get(name, default)

    def set_metadata(self, name: str, value: Any) -> None:
        """Note a fact about the execution."""
        self._metadata[name] = value

    def as_dict(self) -> dict[str, Any]:
        """All of it as JSON data of its own, which later changes do not touch."""
        return copy.deepcopy({"inputs": self._inputs, "results": self._results, "metadata": self._metadata})

"""What a client said about itself in `initialize`, as far as it matters to us."""

from __future__ import annotations

from typing import Any

import msgspec


class ClientFeatures(msgspec.Struct, frozen=True):
    """What the client can do. `events` and `approvals` mean that it knows our own messages."""

    events: bool = False
    approvals: bool = False
    progress: bool = False
    configuration: bool = False
    register_configuration: bool = False

    @classmethod
    def of(cls, capabilities: Any) -> ClientFeatures:
        """Read `ClientCapabilities`, given as decoded JSON; what makes no sense counts as absent."""
        ours = _at(capabilities, "experimental", "indusagi")
        return cls(
            events=_at(ours, "events") is True,
            approvals=_at(ours, "approvals") is True,
            progress=_at(capabilities, "window", "workDoneProgress") is True,
            configuration=_at(capabilities, "workspace", "configuration") is True,
            register_configuration=_at(capabilities, "workspace", "didChangeConfiguration", "dynamicRegistration")
            is True,
        )


def _at(value: Any, *names: str) -> Any:
    for name in names:
        value = value.get(name) if isinstance(value, dict) else None
    return value

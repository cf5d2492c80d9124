"""What the user has allowed a server, and the question that is asked when that is not what it has become."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Iterable, Mapping
from typing import Protocol

import msgspec

from indusagi_lsp.contract import jsontext
from indusagi_lsp.contract.approvals import ApprovalRequest, Approver, Verdict
from indusagi_lsp.contract.clock import NewId
from indusagi_lsp.contract.tools import Effect
from indusagi_lsp.tools.mcp.launch import Launch
from indusagi_lsp.tools.mcp.naming import PREFIX
from indusagi_lsp.tools.mcp.offers import Offer, Offers

_EFFECTS = (Effect.EXECUTE.value, Effect.NETWORK.value)


class Grants(Protocol):
    """Where standing permissions are kept: in the user's own state folder, never in a workspace."""

    async def get(self, key: str, /) -> str | None:
        """What was put under `key`, None if nothing was."""
        ...

    async def put(self, key: str, value: str, /) -> None:
        """Keep `value` under `key`, in place of what stood there."""
        ...


class Grant(msgspec.Struct, frozen=True):
    """What the user allowed one server.

    Attributes:
        definition: the hash of the `Launch` that was allowed.
        program: the hash of the program's file at that time.
        tools: each allowed tool's hash, by its name; None until the server has listed them for the first time.
    """

    definition: str
    program: str
    tools: dict[str, str] | None = None


class Permission:
    """The user's permission for one server: looked up, asked for, and kept.

    Args:
        name: the server's name.
        approver: who is asked.
        grants: where standing permissions are kept.
        new_id: makes ids of questions.
        log: told when permissions cannot be kept.
    """

    def __init__(self, name: str, approver: Approver, grants: Grants, new_id: NewId, log: logging.Logger) -> None:
        self._name = name
        self._key = f"{PREFIX}/{name}"
        self._approver = approver
        self._grants = grants
        self._new_id = new_id
        self._log = log
        self._grant: Grant | None = None
        self._lasting = True
        # Each tool as it was ever allowed in this life: a server that goes back and forth asks once.
        self._allowed: set[tuple[str, str]] = set()

    async def covers(self, launch: Launch) -> bool:
        """Whether exactly this may be started: it was allowed before."""
        if self._grant is None:
            self._grant = await self._load()
        return self._grant is not None and self._grant.definition == launch.digest

    async def ask(self, launch: Launch) -> bool:
        """Ask whether this may be started."""
        grant, lines = self._grant, []
        if grant is not None:
            what = "its program has" if grant.program != launch.program else "its settings have"
            lines.append(f"It is not what you allowed before: {what} changed.")
        allowed = await self._put("\n".join((launch.question, *lines)))
        if allowed:
            self._allowed.clear()
            await self._keep(Grant(launch.digest, launch.program))
        return allowed

    def allows(self, offers: Offers) -> Offers:
        """The part of a server's tools that may be used unasked: on first sight all, then what is unchanged."""
        grant = self._grant
        if grant is None:
            return msgspec.structs.replace(offers, tools=())
        if grant.tools is None:
            return offers
        covered = tuple(offer for offer in offers.tools if self._knows(offer))
        return msgspec.structs.replace(offers, tools=covered)

    async def accept(self, offers: Offers) -> bool:
        """Whether all these tools may be used. Asks where one is new or not what it was."""
        grant = self._grant
        if grant is None:
            return False
        if grant.tools is None:
            await self._keep(msgspec.structs.replace(grant, tools=offers.digests))
            return True

        changed = [offer for offer in offers.tools if not self._knows(offer)]
        if not changed:
            return True
        changes = _describe(changed, grant.tools)
        title = f"The MCP server {self._name} now offers other tools than you allowed."
        allowed = await self._put("\n".join((title, *changes)))
        if allowed:
            await self._keep(msgspec.structs.replace(grant, tools={**grant.tools, **offers.digests}))
        return allowed

    def _knows(self, offer: Offer) -> bool:
        known = self._grant.tools if self._grant is not None else None
        return (known or {}).get(offer.name) == offer.digest or (offer.name, offer.digest) in self._allowed

    async def _put(self, action: str) -> bool:
        """Put a question to the user."""
        sha256 = hashlib.sha256(action.encode("utf-8", "surrogatepass")).hexdigest()
        tool = f"{PREFIX}__{self._name}"
        # Afresh: neither a mode nor a word for another action stands for this one; what lasts is kept in `grants`.
        request = ApprovalRequest(self._new_id(), "", "", "", tool, action, sha256, effects=_EFFECTS, afresh=True)
        try:
            answer = await self._approver(request)
        except Exception:  # noqa: BLE001 - logged; no answer is a denial
            self._log.exception("MCP server %s: the approver failed; that is a denial", self._name)
            return False
        decision = answer.decision if isinstance(answer, Verdict) else answer
        self._lasting = decision == "always"
        return decision in request.options and decision != "deny"

    async def _load(self) -> Grant | None:
        try:
            kept = await self._grants.get(self._key)
            return None if kept is None else msgspec.json.decode(kept, type=Grant)
        except Exception:  # noqa: BLE001 - logged; no permission is read out of a fault
            self._log.exception("MCP server %s: its permission cannot be read; the user is asked", self._name)
            return None

    async def _keep(self, grant: Grant) -> None:
        self._grant = grant
        self._allowed.update((grant.tools or {}).items())
        if not self._lasting:
            return
        try:
            await self._grants.put(self._key, msgspec.json.encode(grant).decode("utf-8"))
        except Exception:  # noqa: BLE001 - logged; the user's word holds without a disk
            self._log.exception("MCP server %s: its permission cannot be kept; it lasts for now", self._name)


def _describe(changed: Iterable[Offer], known: Mapping[str, str]) -> list[str]:
    lines: list[str] = []
    for offer in changed:
        what = "changed" if offer.name in known else "new"
        schema = jsontext.dumps(offer.spec.input_schema).decode("utf-8")
        reads = ", says that it only reads" if offer.read_only else ""
        lines.append(f"{what}: {offer.spec.name}{reads}, SHA-256 {offer.digest}")
        lines.append(f"  {offer.spec.description}\n  {schema}")
    return lines

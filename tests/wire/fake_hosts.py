"""Hosts without an engine: a submit does what its text says. They show what the server does with what hosts do."""

from __future__ import annotations

import asyncio
import itertools
import os
import subprocess
import time

from indusagi_lsp.contract import events as e
from indusagi_lsp.contract.errors import SessionNotFound
from indusagi_lsp.protocol import messages as m
from indusagi_lsp.protocol import operations as o
from indusagi_lsp.protocol.events import snapshot_view

STATUS = m.StatusResult(version="0", protocol_version=1, busy=False, message="idle", kind="Normal", workspaces=[])


class FakeHosts:
    def __init__(self, outlet) -> None:
        self.outlet = outlet
        self.log: list[tuple] = []
        self.sent = itertools.count(1)

    async def configure(self, settings):
        self.log.append(("configure", settings))
        return [f"`{name}` is not known." for name in settings if name.startswith("bad")]

    async def open_folder(self, uri, name, trusted):
        self.log.append(("open", uri, name, trusted))

    async def close_folder(self, uri):
        self.log.append(("close", uri))

    async def shutdown(self):
        self.log.append(("shutdown",))
        if os.environ.get("HANG") == "shutdown":
            await asyncio.sleep(60)

    def event(self, params, event):
        self.outlet.event("file:///ws", params.session_id, params.run_id or "", next(self.sent), 0, event)

    async def call(self, operation, params):
        self.log.append((operation.name, params))
        if operation is o.STATUS:
            return STATUS
        if operation is o.SUBMIT:
            return await self.submit(params)
        if operation is o.ABORT:
            return m.AbortResult(phase="idle")
        raise SessionNotFound("nobody")

    async def submit(self, params):
        self.event(params, e.RunStarted(None))
        word, _, rest = (params.text or "").partition(" ")
        try:
            await getattr(self, f"do_{word}")(params, rest)
        except asyncio.CancelledError:
            self.event(params, e.Faulted(e.Fault("aborted", "ended"), self.snapshot(params)))
            raise
        snapshot = self.snapshot(params)
        self.event(params, e.Settled(snapshot))
        return snapshot_view(snapshot)

    def snapshot(self, params):
        return e.RunSnapshot(params.run_id or "", params.session_id, "settled")

    async def do_say(self, params, text):
        for word in text.split(" "):
            self.event(params, e.TextDelta(word + " "))
            await asyncio.sleep(0)

    async def do_sleep(self, params, text):
        await asyncio.sleep(60)

    async def do_stubborn(self, params, text):
        while True:
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                continue

    async def do_block(self, params, text):
        time.sleep(float(text))

    async def do_thread(self, params, text):
        await asyncio.to_thread(time.sleep, 60)

    async def do_flood(self, params, text):
        for _ in range(int(text)):
            self.event(params, e.TextDelta("é" * 5000))
            await asyncio.sleep(0)

    async def do_print(self, params, text):
        print("stray print")  # noqa: T201 - a library that does
        await asyncio.to_thread(subprocess.run, ["sh", "-c", "echo stray child; cat"], check=True)

    async def do_raise(self, params, text):
        raise ValueError("/secret/path")

    async def do_exit(self, params, text):
        raise SystemExit(3)

    async def do_surrogate(self, params, text):
        self.event(params, e.TextDelta("\ud800"))

    async def do_approve(self, params, text):
        question = m.ApproveParams(
            approval_id="a1",
            workspace="file:///ws",
            session_id=params.session_id,
            run_id=params.run_id or "",
            call_id="c1",
            tool="shell",
            action=text,
            size=len(text),
            sha256="0" * 64,
            options=["once", "session", "deny"],
        )
        self.event(params, e.TextDelta(await self.outlet.approve(question)))

    async def do_document(self, params, uri):
        self.event(params, e.TextDelta(self.outlet.document(uri) or "none"))

    async def do_log(self, params, text):
        self.event(params, e.TextDelta(repr(self.log)))

"""Hosts under test: real stores in a temporary folder, a model that says what a script tells it to, recorded output."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from indusagi_lsp.contract.approvals import Decision
from indusagi_lsp.contract.events import RunEvent
from indusagi_lsp.protocol import messages as m
from indusagi_lsp.protocol import operations as o
from indusagi_lsp.workspace.hosts import Hosts


class RecordingOutlet:
    """Where the hosts' words go in a test."""

    def __init__(self) -> None:
        self.events: list[tuple[str, str, str, int, RunEvent]] = []
        self.statuses: list[m.StatusParams] = []
        self.sessions: list[str] = []
        self.memories: list[str] = []
        self.workflows: list[m.WorkflowParams] = []
        self.questions: list[m.ApproveParams] = []
        self.decision: Decision = "once"
        self.asked: list[m.QuestionParams] = []
        self.answer: str | None = None
        self.shows_diagnostics = False
        self.problems: list[m.FileDiagnostics] = []
        self.problems_wanted: list[m.DiagnosticsParams] = []
        self.documents: dict[str, str] = {}
        self.slow = False

    def event(self, workspace: str, session_id: str, run_id: str, seq: int, at: int, event: RunEvent) -> None:
        self.events.append((workspace, session_id, run_id, seq, event))

    def congested(self) -> bool:
        return self.slow

    def status(self, status: m.StatusParams) -> None:
        self.statuses.append(status)

    def sessions_changed(self, workspace: str) -> None:
        self.sessions.append(workspace)

    def memory_changed(self, workspace: str) -> None:
        self.memories.append(workspace)

    def workflow(self, progress: m.WorkflowParams) -> None:
        self.workflows.append(progress)

    async def approve(self, question: m.ApproveParams) -> Decision:
        self.questions.append(question)
        return self.decision

    async def question(self, question: m.QuestionParams) -> str | None:
        self.asked.append(question)
        return self.answer

    async def diagnostics(self, wanted: m.DiagnosticsParams) -> list[m.FileDiagnostics]:
        self.problems_wanted.append(wanted)
        return self.problems

    async def apply_edit(self, uri: str, text: str, label: str) -> bool:
        if uri in self.documents:
            self.documents[uri] = text
        return uri in self.documents

    def open_documents(self) -> list[str]:
        return list(self.documents)

    def document(self, uri: str) -> str | None:
        return self.documents.get(uri)

    def of(self, session_id: str) -> list[RunEvent]:
        return [event for _, session, _, _, event in self.events if session == session_id]


class HostsRig:
    """Hosts of one user with one or more folders."""

    def __init__(self, tmp_path: Path, replies: list[Any], **script: Any) -> None:
        self.tmp_path = tmp_path
        self.script = tmp_path / "script.json"
        said = [{"text": reply} if isinstance(reply, str) else reply for reply in replies]
        self.script.write_text(json.dumps({"replies": said, **script}), "utf-8")
        self.outlet = RecordingOutlet()
        self.hosts = self.again()

    def again(self) -> Hosts:
        """Other hosts of the same user, as after a restart."""
        environ = {"INDUSAGI_LSP_HOME": str(self.tmp_path / "home"), "INDUSAGI_SCRIPTED_MODEL": str(self.script)}
        return Hosts(self.outlet, environ=environ)

    async def folder(self, name: str = "ws", *, trusted: bool = True) -> str:
        path = self.tmp_path / name
        path.mkdir(exist_ok=True)
        await self.hosts.open_folder(path.as_uri(), name, trusted)
        return path.as_uri()

    async def call(self, operation: o.Operation, **params: Any) -> Any:
        import msgspec

        return await self.hosts.call(operation, msgspec.convert(params, operation.params))

    async def new(self, **params: Any) -> str:
        return (await self.call(o.SESSION_NEW, **params)).id

    async def say(self, session_id: str, text: str, **params: Any) -> m.SnapshotView:
        return await self.call(o.SUBMIT, sessionId=session_id, text=text, **params)

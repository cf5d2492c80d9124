"""What code actions ask: fix, explain, ask. The answer comes where this client can show it.

A client that takes our events shows the session itself. Any other gets a chat document with the question and the code;
where even that cannot be made, the answer comes as a message.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import msgspec

from indusagi_lsp.contract.errors import InvalidInput
from indusagi_lsp.contract.text import visible, visible_line
from indusagi_lsp.lsp.chat.chats import Chats
from indusagi_lsp.lsp.chat.text import YOU, binding, fenced
from indusagi_lsp.protocol import messages as m
from indusagi_lsp.protocol.operations import SESSION_NEW, SUBMIT
from indusagi_lsp.protocol.uris import normalise_uri

if TYPE_CHECKING:
    from indusagi_lsp.lsp.server import IndusagiServer

_TITLE_CHARS = 80
_SHOWN_CHARS = 4_000
_MOST_TEXT = 200_000
_OPEN_SECONDS = 5.0
_INFO = 3


class Asking:
    """Does the operation `ask`.

    Args:
        server: has the documents, the hosts and the client.
        chats: sends chat documents.
    """

    def __init__(self, server: IndusagiServer, chats: Chats) -> None:
        self._server = server
        self._chats = chats

    async def ask(self, params: m.AskParams) -> m.AskResult:
        """Do `ask`.

        Raises:
            InvalidInput: there is no question, and the client cannot be given a document to write it in.
            IndusagiError: what the session says.
        """
        server = self._server
        uri = normalise_uri(params.uri)
        workspace = params.workspace or server.engine.folder_of(uri)
        question = _question(params)
        document = server.documents.get(uri)
        text = document.selected(msgspec.to_builtins(params.range))[:_MOST_TEXT] if document is not None else None
        language = document.language if document is not None else ""
        if server.features.events:
            if question is None:
                raise InvalidInput("There is no question.", hint="Send `question`.")
            return await self._submit(params, uri, workspace, question, text)
        session_id = params.session_id
        if session_id is None:
            hosts = await server.engine.ready()
            title = visible_line(question or "A question", _TITLE_CHARS)
            made: Any = await hosts.call(SESSION_NEW, m.SessionNewParams(workspace=workspace, title=title))
            session_id = str(made.id)
        chat = await self._open_chat(workspace, session_id, params, question, text, language)
        if chat is None:
            if question is None:
                raise InvalidInput(
                    "This editor cannot open a document for your question.", hint="Write a file `questions.chat.md`."
                )
            result = await self._submit(
                msgspec.structs.replace(params, session_id=session_id), uri, workspace, question, text
            )
            shown = visible(result.answer)[:_SHOWN_CHARS] or "The agent said nothing."
            server.peer.notify("window/showMessage", {"type": _INFO, "message": shown})
            return msgspec.structs.replace(result, shown="message")
        if question is None:
            return m.AskResult(session_id=session_id, phase="idle", answer="", shown="chat", uri=chat)
        sent = await self._chats.send(m.ChatSendParams(uri=chat, workspace=workspace, run_id=params.run_id))
        return m.AskResult(session_id=session_id, phase=sent.phase, answer="", shown="chat", uri=chat)

    async def _submit(
        self, params: m.AskParams, uri: str, workspace: str | None, question: str, text: str | None
    ) -> m.AskResult:
        hosts = await self._server.engine.ready()
        session_id = params.session_id
        if session_id is None:
            title = visible_line(question, _TITLE_CHARS)
            made: Any = await hosts.call(SESSION_NEW, m.SessionNewParams(workspace=workspace, title=title))
            session_id = str(made.id)
        context = [_place(uri, params.range, text)]
        if params.message is not None:
            context.append(m.ContextItem(kind="diagnostic", uri=uri, range=params.range, text=params.message))
        submit = m.SubmitParams(
            session_id=session_id, workspace=workspace, text=question, context=context, run_id=params.run_id
        )
        snapshot: m.SnapshotView = await hosts.call(SUBMIT, submit)
        answer = _said(snapshot)
        return m.AskResult(session_id=session_id, phase=snapshot.phase, answer=answer, shown="client")

    async def _open_chat(
        self,
        workspace: str | None,
        session_id: str,
        params: m.AskParams,
        question: str | None,
        text: str | None,
        language: str,
    ) -> str | None:
        """Make and show a chat document; its URI, or None where the client cannot."""
        server = self._server
        if workspace is None:
            return None
        uri = f"{workspace}/.indusagi/chats/{session_id}.chat.md"
        path = unquote(normalise_uri(params.uri).removeprefix(f"{workspace}/"))
        where = f"{visible_line(path)}, line {params.range.start.line + 1}"
        code = f"From {where}:\n\n{fenced(text, language)}" if text else f"About {where}."
        asked = f"{question}\n\n" if question else ""
        head = f"{binding(session_id)}\n{YOU}\n\n{asked}{code}\n"
        if not await server.editor.create(uri, head, "Ask Indusagi"):
            return None
        await server.editor.show(uri)
        # Sending needs the document open here: most editors open what they edit or show.
        if not await server.standard.opened(uri, _OPEN_SECONDS):
            return None
        return uri


def _question(params: m.AskParams) -> str | None:
    if params.question is not None and params.question.strip():
        return params.question
    if params.kind == "fix":
        what = f"Fix this problem: {params.message}" if params.message else "Fix what is wrong here."
        return f"{what}\nChange the file if you can; else show what to change."
    if params.kind == "explain":
        return f"Explain this problem: {params.message}" if params.message else "Explain this code."
    return None


def _place(uri: str, where: m.Range, text: str | None) -> m.ContextItem:
    if text:
        return m.ContextItem(kind="selection", uri=uri, range=where, text=text)
    return m.ContextItem(kind="file", uri=uri, range=where)


def _said(snapshot: m.SnapshotView) -> str:
    """The text of the last turn of the model."""
    for turn in reversed(snapshot.messages):
        if turn.get("role") == "assistant":
            blocks = turn.get("blocks", [])
            return "\n".join(str(block.get("text", "")) for block in blocks if block.get("kind") == "text")
    return snapshot.partial

"""JSON-RPC with a server in a child process, over its pipes; small, typed by the protocol's own structs."""

from __future__ import annotations

import asyncio
import collections
import itertools
import logging
import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec

from indusagi_lsp.contract import jsontext
from indusagi_lsp.transport.framing import FrameError, FrameReader, frame

if TYPE_CHECKING:
    from indusagi_lsp.protocol.operations import Operation

logger = logging.getLogger(__name__)

METHOD_NOT_FOUND = -32601
INTERNAL_ERROR = -32603
REQUEST_CANCELLED = -32800
LAST_WORDS = 30
"""Lines of the server's stderr that are kept, to be shown when it dies."""

NotificationHandler: TypeAlias = Callable[[Any], None]
RequestHandler: TypeAlias = Callable[[Any], Awaitable[Any]]


class RemoteError(Exception):
    """The server answered with an error.

    Attributes:
        message: what happened, as a sentence.
        hint: what to do; may be empty.
        kind: the fault's stable name; empty for errors of the protocol itself.
        code: the JSON-RPC code.
    """

    def __init__(self, message: str, *, hint: str = "", kind: str = "", code: int = 0) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.kind = kind
        self.code = code


class ServerGoneError(Exception):
    """The server has ended, so nothing can be asked of it any more.

    Attributes:
        code: its exit code, negative for a signal; None where it is not known yet.
        last_words: the last lines of its stderr.
    """

    def __init__(self, code: int | None, last_words: Sequence[str]) -> None:
        super().__init__("the server has ended")
        self.code = code
        self.last_words = tuple(last_words)


class Client:
    """One server, from its start to its end.

    Args:
        process: the server, with pipes for its three streams.
        on_notification: by method; a notification without a handler is dropped.
        on_request: by method; a request without a handler is refused.
        on_stderr: told each line of the server's stderr.
    """

    def __init__(
        self,
        process: asyncio.subprocess.Process,
        *,
        on_notification: Mapping[str, NotificationHandler],
        on_request: Mapping[str, RequestHandler],
        on_stderr: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._process = process
        self._on_notification = on_notification
        self._on_request = on_request
        self._on_stderr = on_stderr
        self._ids = itertools.count(1)
        self._waiting: dict[int, asyncio.Future[Any]] = {}
        self._handling: dict[Any, asyncio.Task[None]] = {}
        self._last_words: collections.deque[str] = collections.deque(maxlen=LAST_WORDS)
        self._gone: ServerGoneError | None = None
        self.garbage = 0
        self._tasks = [asyncio.create_task(self._listen()), asyncio.create_task(self._overhear())]

    @classmethod
    async def start(cls, command: Sequence[str], *, cwd: str, **handlers: Any) -> Client:
        """Start a server.

        Args:
            command: program and arguments.
            cwd: where it runs; not the workspace, so that nothing of it is imported.
            **handlers: as the class takes them.

        Raises:
            OSError: the program cannot be started.
        """
        # A group of its own, so that Ctrl-C in the terminal reaches us alone: we cancel, the server goes on.
        process = await asyncio.create_subprocess_exec(
            *command,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            cwd=cwd,
            **({"start_new_session": True} if os.name == "posix" else {"creationflags": 0x200}),
        )
        return cls(process, **handlers)

    async def call(self, operation: Operation, params: msgspec.Struct) -> Any:
        """Ask for an operation.

        Args:
            operation: the row of the table.
            params: an `operation.params`.

        Returns:
            An `operation.result`.

        Raises:
            RemoteError: the server refused, with words for people.
            ServerGoneError: the server has ended.
        """
        return msgspec.convert(await self.request(operation.method, params), operation.result)

    async def request(self, method: str, params: Any) -> Any:
        """Send a request and wait for its answer; cancelling this cancels it on the server too.

        Args:
            method: the method.
            params: JSON data or a struct of the protocol.

        Raises:
            RemoteError: the server answered with an error.
            ServerGoneError: the server has ended.
        """
        if self._gone is not None:
            raise self._gone
        number = next(self._ids)
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._waiting[number] = answer
        try:
            self._send({"jsonrpc": "2.0", "id": number, "method": method, "params": _plain(params)})
            return await answer
        except asyncio.CancelledError:
            self.notify("$/cancelRequest", {"id": number})
            raise
        finally:
            del self._waiting[number]

    def notify(self, method: str, params: Any) -> None:
        """Send a notification; nothing happens when the server has ended."""
        self._send({"jsonrpc": "2.0", "method": method, "params": _plain(params)})

    async def close(self, seconds: float = 3.0) -> int | None:
        """End the server as LSP says; one that does not go is killed.

        Args:
            seconds: that it may take.

        Returns:
            Its exit code.
        """
        if self._gone is None:
            with suppress(RemoteError, ServerGoneError, TimeoutError):
                async with asyncio.timeout(seconds):
                    await self.request("shutdown", None)
            self.notify("exit", None)
            if self._process.stdin is not None:
                self._process.stdin.close()
        try:
            async with asyncio.timeout(seconds):
                await self._process.wait()
        except TimeoutError:
            with suppress(ProcessLookupError):
                self._process.kill()
            with suppress(TimeoutError):
                # A child of the server that holds its pipes must not hold us.
                async with asyncio.timeout(seconds):
                    await self._process.wait()
        tasks = (*self._tasks, *self._handling.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        return self._process.returncode

    async def wait_gone(self) -> ServerGoneError:
        """Wait until the server has ended."""
        await asyncio.wait(self._tasks)
        return self._gone or ServerGoneError(self._process.returncode, self._last_words)

    # --- inside ---

    def _send(self, message: dict[str, Any]) -> None:
        if self._gone is None and self._process.stdin is not None:
            self._process.stdin.write(frame(jsontext.dumps(message)))

    async def _listen(self) -> None:
        """Read the server's messages until its end."""
        reader = FrameReader()
        stream = self._process.stdout
        try:
            while stream is not None:
                data = await stream.read(1 << 16)
                if not data:
                    break
                for body in reader.feed(data):
                    if isinstance(body, FrameError):
                        self.garbage += 1
                    else:
                        self._take(body)
        finally:
            await self._end()

    async def _end(self) -> None:
        """The stream has ended: let everybody who waits know."""
        with suppress(TimeoutError):
            async with asyncio.timeout(2):
                await self._process.wait()
                await asyncio.wait([self._tasks[1]])
        self._gone = ServerGoneError(self._process.returncode, self._last_words)
        for answer in self._waiting.values():
            if not answer.done():
                answer.set_exception(self._gone)

    async def _overhear(self) -> None:
        """Read the server's stderr, so that its pipe never fills."""
        stream = self._process.stderr
        while stream is not None:
            try:
                line = await stream.readline()
            except ValueError:
                # A line longer than the stream's limit; its rest comes with the next one.
                continue
            if not line:
                return
            text = line.decode("utf-8", "replace").rstrip("\r\n")
            self._last_words.append(text)
            self._on_stderr(text)

    def _take(self, body: bytes) -> None:
        try:
            message = jsontext.loads(body)
        except ValueError:
            message = None
        if not isinstance(message, dict):
            self.garbage += 1
            return

        method, number = message.get("method"), message.get("id")
        if not isinstance(method, str):
            self._answered(number, message)
        elif method == "$/cancelRequest":
            self._withdrawn(message.get("params"))
        elif not isinstance(number, int | str):
            handler = self._on_notification.get(method)
            if handler is not None:
                handler(message.get("params"))
        else:
            task = asyncio.create_task(self._asked(method, number, message.get("params")))
            self._handling[number] = task
            task.add_done_callback(lambda _: self._handling.pop(number, None))

    def _withdrawn(self, params: Any) -> None:
        """The server does not want an answer any more: it was given elsewhere, or came too late."""
        number = params.get("id") if isinstance(params, dict) else None
        task = self._handling.get(number) if isinstance(number, int | str) else None
        if task is not None:
            task.cancel()

    def _answered(self, number: Any, message: Mapping[str, Any]) -> None:
        answer = self._waiting.get(number) if isinstance(number, int) else None
        if answer is None or answer.done():
            return
        error = message.get("error")
        if isinstance(error, dict):
            answer.set_exception(_remote_error(error))
        else:
            answer.set_result(message.get("result"))

    async def _asked(self, method: str, number: Any, params: Any) -> None:
        handler = self._on_request.get(method)
        reply: dict[str, Any] = {"jsonrpc": "2.0", "id": number}
        if handler is None:
            reply["error"] = {"code": METHOD_NOT_FOUND, "message": f"{method} is not known here"}
        else:
            try:
                reply["result"] = _plain(await handler(params))
            except msgspec.ValidationError as error:
                reply["error"] = {"code": INTERNAL_ERROR, "message": str(error)}
            except Exception:
                # The server waits for some answer, whatever goes wrong here; what did is in the log.
                logger.exception("a question of the server, %s, could not be put", method)
                reply["error"] = {"code": INTERNAL_ERROR, "message": "The client failed to handle the request."}
            except asyncio.CancelledError:
                self._send({**reply, "error": {"code": REQUEST_CANCELLED, "message": "The question was withdrawn."}})
                raise
        self._send(reply)


def _plain(value: Any) -> Any:
    return msgspec.to_builtins(value) if isinstance(value, msgspec.Struct) else value


def _remote_error(error: Mapping[str, Any]) -> RemoteError:
    data = error.get("data")
    known = data if isinstance(data, dict) else {}
    code = error.get("code")
    return RemoteError(
        str(error.get("message", "The server gave no reason.")),
        hint=str(known.get("hint") or ""),
        kind=str(known.get("kind") or ""),
        code=code if isinstance(code, int) else 0,
    )

"""Replies as iterators over pieces of text, while they are generated. Knows only callbacks and pieces of text."""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any

from ld_agent.errors import ReplyStopped
from ld_agent.types import Reply

Hear = Callable[[str], None]


class _Pieces:
    """Passes pieces on, and stops the reply once the reader has left."""

    def __init__(self, pass_on: Hear, abandoned: threading.Event) -> None:
        self._pass_on, self._abandoned = pass_on, abandoned
        self.text = ""

    def __call__(self, piece: str) -> None:
        if self._abandoned.is_set():
            raise ReplyStopped
        self.text += piece
        self._pass_on(piece)

    def rest(self, reply: Reply) -> str:
        """The part of the reply that the pieces lack."""
        return reply.text[len(self.text) :] if reply.text.startswith(self.text) else ""


class SyncReplyStream:
    """Iterates over the pieces of a reply; closing it early keeps what was generated so far as the reply.

    Attributes:
        reply: the `Reply`, once the pieces have ended.
    """

    def __init__(self, respond: Callable[[Hear], Reply]) -> None:
        self._respond = respond
        self._abandoned = threading.Event()
        self.reply: Reply | None = None

    def __iter__(self) -> Iterator[str]:
        self._abandoned.clear()
        arrived: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        pieces, failed = _Pieces(arrived.put, self._abandoned), list[BaseException]()

        def respond() -> None:
            try:
                self.reply = self._respond(pieces)
            except BaseException as exc:
                failed.append(exc)
            finally:
                arrived.put(None)

        worker = threading.Thread(target=respond, name="ld-agent-stream", daemon=True)
        worker.start()
        try:
            while (piece := arrived.get()) is not None:
                yield piece
            if self.reply is not None and (rest := pieces.rest(self.reply)):
                yield rest
        finally:
            self._abandoned.set()
            worker.join()
        if failed:
            raise failed[0]


class AsyncReplyStream:
    """Iterates asynchronously over the pieces of a reply; see `SyncReplyStream`."""

    def __init__(self, respond: Callable[[Hear], Awaitable[Reply]]) -> None:
        self._respond = respond
        self._abandoned = threading.Event()
        self.reply: Reply | None = None

    async def __aiter__(self) -> AsyncIterator[str]:
        self._abandoned.clear()
        loop = asyncio.get_running_loop()
        arrived: asyncio.Queue[str | None] = asyncio.Queue()

        def pass_on(piece: str | None) -> None:
            loop.call_soon_threadsafe(arrived.put_nowait, piece)

        pieces = _Pieces(pass_on, self._abandoned)

        async def respond() -> None:
            try:
                self.reply = await self._respond(pieces)
            finally:
                pass_on(None)

        task: asyncio.Task[Any] = asyncio.ensure_future(respond())
        try:
            while (piece := await arrived.get()) is not None:
                yield piece
            await task
            if self.reply is not None and (rest := pieces.rest(self.reply)):
                yield rest
        finally:
            self._abandoned.set()
            await task

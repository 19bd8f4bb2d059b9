"""Runs a turn and sends its answer in either of OpenAI's protocols: as one body or as a stream of events.

A turn runs independently of its connection, so that a disconnect ends the reply and nothing else.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import suppress
from typing import Any, Protocol

from fastapi import Request
from fastapi.responses import JSONResponse, Response, StreamingResponse

from ld_agent.errors import ReplyStopped
from ld_agent.server.errors import ApiError, as_api_error
from ld_agent.server.limits import Places
from ld_agent.server.openai.turns import Answered, Asked, answer
from ld_agent.server.service import Service

PING = 15.0
"""Seconds of silence after which a stream sends a comment, to keep the connection open."""


class Events(Protocol):
    """A stream in one of the protocols, as lines of server-sent events."""

    def begin(self) -> Iterator[str]: ...

    def piece(self, text: str) -> Iterator[str]: ...

    def end(self, answered: Answered) -> Iterator[str]:
        """What follows the whole text of an answer."""

    def failed(self, error: ApiError) -> Iterator[str]: ...


class RunningTurn:
    """A running turn: its pieces as they arrive, then its answer, which is the result of ``work``."""

    def __init__(self, service: Service, asked: Asked) -> None:
        self._service, self._loop, self._is_heard = service, asyncio.get_running_loop(), True
        self._pieces: asyncio.Queue[str | None] = asyncio.Queue()
        self._coming = asyncio.Event()
        self.work = service.start(answer(service, asked, self._hear))
        self.work.add_done_callback(lambda work: self._deliver(None))

    def _hear(self, piece: str) -> None:
        """Take a piece, in the thread of the model."""
        if not self._is_heard or self._service.ending:
            raise ReplyStopped
        self._loop.call_soon_threadsafe(self._deliver, piece)

    def _deliver(self, piece: str | None) -> None:
        self._pieces.put_nowait(piece)
        self._coming.set()

    async def begun(self) -> None:
        """Wait for the first piece or the answer, but no longer than `PING` seconds; raise what failed before."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self._coming.wait(), PING)
        if self.work.done() and self._pieces.qsize() <= 1:
            self.work.result()

    async def pieces(self) -> AsyncIterator[str | None]:
        """Yield the pieces of the reply, and None after `PING` seconds without one."""
        while True:
            try:
                piece = await asyncio.wait_for(self._pieces.get(), PING)
            except TimeoutError:
                yield None
                continue
            if piece is None:
                return
            yield piece

    def leave(self) -> None:
        """End the reply because the client left; what was generated so far is kept."""
        self._is_heard = False
        self.work.add_done_callback(lambda work: work.cancelled() or work.exception())


async def sent(request: Request, asked: Asked, body: Callable[[Answered], Any], events: Events | None) -> Response:
    """Answer a request. Its slot is released when the turn has ended, even if the client has left.

    A stream begins with its first piece, so that what fails before it has a status of its own.

    Args:
        body: creates the body of a complete answer.
        events: None: send the complete answer.
    """
    places: Places = request.app.state.places
    places.take()
    turn = RunningTurn(request.app.state.service, asked)
    turn.work.add_done_callback(lambda work: places.leave())
    headers = {"X-LD-Memory": "none" if asked.conversation is None else "on"}
    if events is not None:
        await turn.begun()
        headers |= {"Cache-Control": "no-cache", "X-Accel-Buffering": "no"}
        return StreamingResponse(stream(turn, events), media_type="text/event-stream", headers=headers)
    answered = await turn.work
    headers |= {"X-LD-Repeated": "true"} if answered.repeated else {}
    return JSONResponse(body(answered), headers=headers)


async def stream(turn: RunningTurn, events: Events) -> AsyncIterator[str]:
    """The reply as server-sent events, with comments to keep an idle connection alive."""
    said = ""
    try:
        for line in events.begin():
            yield line
        async for piece in turn.pieces():
            said += piece or ""
            for line in [": waiting\n\n"] if piece is None else events.piece(piece):
                yield line
        answered = await turn.work
        rest = answered.text[len(said) :] if answered.text.startswith(said) else ""
        for line in [*(events.piece(rest) if rest else ()), *events.end(answered)]:
            yield line
    except Exception as exc:
        for line in events.failed(as_api_error(exc)):
            yield line
    finally:
        turn.leave()


def event(value: dict[str, Any]) -> str:
    """A value as an event."""
    return f"data: {json.dumps(value, ensure_ascii=False)}\n\n"

"""Sends an answer in either of OpenAI's protocols: as one body or as a stream of events."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Any

from fastapi import Request
from fastapi.responses import JSONResponse, Response, StreamingResponse

from ld_agent.server.limits import Places
from ld_agent.server.openai.asked import Answered, Asked
from ld_agent.server.openai.turns import RunningTurn
from ld_agent.server.service import Service

Events = Callable[[RunningTurn], AsyncIterator[str]]


async def handed_out(
    request: Request, service: Service, asked: Asked, body: Callable[[Answered], Any], events: Events | None
) -> Response:
    """Answer a request. Its slot is released when the turn has ended, even if the client has left.

    A stream begins with its first piece, so that what fails before it has a status of its own.

    Args:
        body: creates the body of a complete answer.
        events: the events of a running turn; None: send the complete answer.

    Raises:
        ApiError: 429, all slots are taken.
        LDAgentError: the turn failed.
    """
    places: Places = request.app.state.places
    places.take()
    turn = RunningTurn.begin(service, asked)
    turn.work.add_done_callback(lambda work: places.leave())
    headers = {"X-LD-Memory": "none" if asked.conversation is None else "on"}
    if events is not None:
        await turn.begun()
        headers |= {"Cache-Control": "no-cache", "X-Accel-Buffering": "no"}
        return StreamingResponse(events(turn), media_type="text/event-stream", headers=headers)
    answered = await turn.work
    headers |= {"X-LD-Repeated": "true"} if answered.repeated else {}
    return JSONResponse(body(answered), headers=headers)

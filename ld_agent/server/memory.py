"""``/v1/memory``: people's memories, for programs that use only the memory. Each route is one call of the agent."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query, Request
from fastapi.responses import StreamingResponse

from ld_agent.conversation import Conversation
from ld_agent.server import shapes
from ld_agent.server.errors import ERRORS, ApiError
from ld_agent.server.identity import MemoryCaller, Person
from ld_agent.server.service import Known, Service, nobody
from ld_agent.server.shapes import When
from ld_agent.types import PersonSummary, listed

PAGE = 100
MOST = 1000
NDJSON: dict[str, Any] = {"content": {"application/x-ndjson": {"schema": {"type": "string"}}}}
Limit = Annotated[int, Query(ge=1, le=MOST, description="At most this many.")]

router = APIRouter(prefix="/v1/memory/people", tags=["memory"], responses=ERRORS)


async def known(request: Request, caller: MemoryCaller, person: Person) -> Known:
    service: Service = request.app.state.service
    return await service.known(caller.conversation_id(person))


Whose = Annotated[Known, Depends(known)]
"""Whose memory it is. Routes with a second id name the person as well, for the order of both in the OpenAPI document."""


def _page(name: str, items: list[Any], limit: int, mark: str) -> dict[str, Any]:
    """A page of items, of which there is one more if another page follows; ``mark``: the field that the next begins after."""
    return {name: items[:limit], "next": getattr(items[limit - 1], mark) if len(items) > limit else None}


@router.get("", response_model=shapes.PeoplePage)
def people(
    request: Request,
    caller: MemoryCaller,
    after: Annotated[str, Query(max_length=200, description="The `next` of the page before.")] = "",
    containing: Annotated[str, Query(max_length=200, description="Only ids that contain this.")] = "",
    limit: Limit = PAGE,
) -> Any:
    """All known people, ordered by id."""
    directory = request.app.state.service.directory
    stored = directory.people(caller.prefix, caller.prefix + after, limit + 1, containing)
    return _page("people", [replace(one, id=caller.person(one.id)) for one in stored], limit, "id")


@router.get("/{person}", response_model=PersonSummary)
def person(whose: Whose) -> Any:
    """How much is known about one person."""
    counts = whose.service.directory.person(whose.key)
    if counts is None:
        raise nobody(whose.id)
    return replace(counts, id=whose.person)


@router.delete("/{person}")
async def delete(whose: Whose) -> shapes.Done:
    """Delete everything about a person, so that no byte of it remains in the store."""
    await whose.service.delete(whose.id)
    return shapes.Done()


@router.get("/{person}/threads", response_model=shapes.ThreadList)
def threads(whose: Whose) -> Any:
    """The threads of a person, latest first."""
    return {"threads": whose.service.directory.threads(whose.key)}


@router.get("/{person}/sessions", response_model=shapes.SessionPage)
def sessions(
    whose: Whose,
    before: Annotated[int | None, Query(ge=1, le=2**62, description="Only sessions with lower numbers.")] = None,
    limit: Limit = PAGE,
) -> Any:
    """A person's sessions, latest first."""
    return _page("sessions", whose.service.directory.sessions(whose.key, before, limit + 1), limit, "number")


@router.get("/{person}/sessions/{number}", response_model=shapes.SessionDetail)
def session(person: Person, number: int, whose: Whose) -> Any:
    """The utterances of one session, and the memories made from it."""
    said = whose.session(number)
    if not said:
        raise ApiError(404, f"{person!r} has no session {number}", "session_not_found")
    return {"number": number, "utterances": said, "records": whose.store.records(whose.key, session=number)}


@router.get("/{person}/records", response_model=shapes.RecordPage)
def records(
    whose: Whose,
    after: Annotated[str | None, Query(max_length=20, description="The `next` of the page before.")] = None,
    limit: Limit = PAGE,
) -> Any:
    """All memories of past sessions."""
    return _page("records", whose.store.records(whose.key, after=after or None), limit, "id")


@router.get("/{person}/traits", response_model=shapes.TraitList)
def traits(
    whose: Whose,
    history: Annotated[bool, Query(description="Include traits that have ended.")] = False,
    as_of: Annotated[When | None, Query(description="Only those that held at this time, whenever told.")] = None,
) -> Any:
    """The traits of everyone in a person's conversation that have been learned so far."""
    return {"traits": listed(whose.store.traits(whose.key), history, as_of)}


@router.get("/{person}/changes", response_model=shapes.ChangeList)
def changes(whose: Whose) -> Any:
    """Manual changes: edited, pinned or forgotten items."""
    return {"changes": whose.store.changes(whose.key)}


@router.get("/{person}/recall", response_model=shapes.RecallList)
async def recall(
    whose: Whose,
    text: Annotated[str, Query(min_length=1, max_length=20_000, pattern=r"\S", description="What to recall.")],
    at: Annotated[When | None, Query(description="As of this time. Default: now.")] = None,
    k: Annotated[int | None, Query(ge=1, le=200, description="At most this many. Default: `memory.k`.")] = None,
) -> Any:
    """Memories relevant to a text, with the terms of their scores; before them what was said in running sessions."""
    conversation = await whose.service.open(whose.id, "")
    hits = await whose.service.inside(conversation, lambda: conversation.recall(text, at, k=k))
    return {"recalled": hits[:k]}


@router.post("/{person}/messages", response_model=shapes.PromptShape)
async def messages(request: Request, caller: MemoryCaller, person: Person, body: shapes.PromptRequest) -> Any:
    """Store a message and get the prompt for your own model. Store its reply with `observe`."""
    service: Service = request.app.state.service
    service.check_time(body.at)
    conversation = await service.open(caller.conversation_id(person), body.thread)
    prompt = await service.inside(conversation, lambda: conversation.messages(body.text, body.speaker, body.at))
    fields = {name: getattr(prompt, name) for name in ("messages", "heard", "recalled", "traits", "notes")}
    return fields | {"agent": conversation.agent_name}


@router.post("/{person}/observe", response_model=shapes.Observed)
async def observe(request: Request, caller: MemoryCaller, person: Person, body: shapes.ObserveRequest) -> Any:
    """Store utterances, current or past, in order and without reply; traits are learned in the background.

    Utterances are stored one by one: if one is rejected, the earlier ones are stored, and the error says how many.
    """
    service: Service = request.app.state.service
    return {"utterances": await service.observe(caller.conversation_id(person), body)}


@router.patch("/{person}/memories/{target}")
async def change(person: Person, target: str, whose: Whose, body: shapes.MemoryChange) -> shapes.Done:
    """Correct a record, trait or utterance, and everything else that says it; or put a record or trait into every prompt
    (`pinned`)."""
    if body.text is None and body.pinned is None:
        raise ApiError(400, "nothing to change; give text, pinned, or both", "nothing_to_change")

    def changed(conversation: Conversation) -> None:
        if body.text is not None:
            conversation.edit(target, body.text)
        if body.pinned is not None:
            conversation.pin(target, body.pinned)

    await whose.service.change(whose, target, changed)
    return shapes.Done()


@router.delete("/{person}/memories/{target}")
async def forget(person: Person, target: str, whose: Whose) -> shapes.Done:
    """Forget a record, trait or utterance, and everything else that says it; only the fact that it was forgotten is kept."""
    await whose.service.change(whose, target, lambda conversation: conversation.forget(target))
    return shapes.Done()


@router.post("/{person}/undo")
async def undo(person: Person, whose: Whose) -> shapes.Done:
    """Take back the latest edit or pin; called again, put it back. What was forgotten is gone."""
    await whose.service.change(whose, "", lambda conversation: conversation.undo())
    return shapes.Done()


@router.get("/{person}/export", response_class=StreamingResponse, responses={200: NDJSON})
def export(whose: Whose) -> StreamingResponse:
    """All utterances and memories as JSON lines, in the format of `ld-agent memory export`."""
    return StreamingResponse(whose.exported(), media_type="application/x-ndjson")


@router.post("/{person}/import", openapi_extra={"requestBody": {"required": True, **NDJSON}})
async def import_person(request: Request, caller: MemoryCaller, person: Person) -> shapes.Imported:
    """Import an export of one conversation as this person, who must not exist yet; all of it or nothing."""
    service: Service = request.app.state.service
    key = await service.import_export(caller.conversation_id(person), (await request.body()).splitlines(keepends=True))
    return shapes.Imported(person=person, counts=await asyncio.to_thread(service.agent.store.counts, key))

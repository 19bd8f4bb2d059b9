"""``/v1/memory``: people's memories, for programs that use only the memory. Each route is one call of the agent."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from fastapi.responses import StreamingResponse

from ld_agent.errors import DataFileError, StoreError
from ld_agent.server.errors import ERRORS, ApiError
from ld_agent.server.identity import Caller, MemoryCaller, Person
from ld_agent.server.memory.shapes import (
    ChangeList,
    ChangeShape,
    Done,
    Imported,
    MemoryChange,
    Observed,
    ObserveRequest,
    PeoplePage,
    PersonShape,
    PromptRequest,
    PromptShape,
    RecallList,
    RecordPage,
    SessionDetail,
    SessionPage,
    SessionShape,
    ThreadList,
    ThreadShape,
    TraitList,
    When,
)
from ld_agent.server.service import Service
from ld_agent.server.shapes import RecalledShape, RecordShape, TraitShape, UtteranceShape
from ld_agent.storage.exchange import export_lines, import_lines
from ld_agent.types import PersonSummary, listed

PAGE = 100
MOST = 1000
Limit = Annotated[int, Query(ge=1, le=MOST, description="At most this many.")]

router = APIRouter(prefix="/v1/memory/people", tags=["memory"], responses=ERRORS)


def service_of(request: Request) -> Service:
    service: Service = request.app.state.service
    return service


def person_shape(caller: Caller, stored: PersonSummary) -> PersonShape:
    return PersonShape.of(replace(stored, id=caller.person(stored.id)))


@router.get("")
async def people(
    request: Request,
    caller: MemoryCaller,
    after: Annotated[str, Query(max_length=200, description="The `next` of the page before.")] = "",
    containing: Annotated[str, Query(max_length=200, description="Only ids that contain this.")] = "",
    limit: Limit = PAGE,
) -> PeoplePage:
    """All known people, ordered by id."""
    directory = service_of(request).directory
    page = await asyncio.to_thread(directory.people, caller.prefix, caller.prefix + after, limit + 1, containing)
    shown = [person_shape(caller, stored) for stored in page[:limit]]
    return PeoplePage(people=shown, next=shown[-1].id if len(page) > limit else None)


@router.get("/{person}")
async def person(request: Request, caller: MemoryCaller, person: Person) -> PersonShape:
    """How much is known about one person."""
    service = service_of(request)
    stored = await service.stored(caller.conversation_id(person))
    one = await asyncio.to_thread(service.directory.person, stored.key)
    if one is None:
        raise ApiError(404, f"no person {person!r} is known", "person_not_found")
    return person_shape(caller, one)


@router.delete("/{person}")
async def delete(request: Request, caller: MemoryCaller, person: Person) -> Done:
    """Delete everything about a person, so that no byte of it remains in the store."""
    service = service_of(request)
    await service.delete(caller.conversation_id(person))
    return Done()


@router.get("/{person}/threads")
async def threads(request: Request, caller: MemoryCaller, person: Person) -> ThreadList:
    """The threads of a person, latest first."""
    service = service_of(request)
    stored = await service.stored(caller.conversation_id(person))
    threads_of = await asyncio.to_thread(service.directory.threads, stored.key)
    return ThreadList(threads=[ThreadShape.of(t) for t in threads_of])


@router.get("/{person}/sessions")
async def sessions(
    request: Request,
    caller: MemoryCaller,
    person: Person,
    before: Annotated[int | None, Query(ge=1, le=2**62, description="Only sessions with lower numbers.")] = None,
    limit: Limit = PAGE,
) -> SessionPage:
    """A person's sessions, latest first."""
    service = service_of(request)
    stored = await service.stored(caller.conversation_id(person))
    page = await asyncio.to_thread(service.directory.sessions, stored.key, before, limit + 1)
    shown = [SessionShape.of(s) for s in page[:limit]]
    return SessionPage(sessions=shown, next=shown[-1].number if len(page) > limit else None)


@router.get("/{person}/sessions/{number}")
async def session(request: Request, caller: MemoryCaller, person: Person, number: int) -> SessionDetail:
    """The utterances of one session, and the memories made from it."""
    service = service_of(request)
    stored = await service.stored(caller.conversation_id(person))
    store = service.agent.store
    said = await asyncio.to_thread(store.session_utterances, stored.key, number) if 0 < number < 2**62 else []
    if not said:
        raise ApiError(404, f"{person!r} has no session {number}", "session_not_found")
    records = await asyncio.to_thread(lambda: store.records(stored.key, session=number))
    return SessionDetail(
        number=number,
        utterances=[UtteranceShape.of(u) for u in said],
        records=[RecordShape.of(r) for r in records],
    )


@router.get("/{person}/records")
async def records(
    request: Request,
    caller: MemoryCaller,
    person: Person,
    after: Annotated[str | None, Query(max_length=20, description="The `next` of the page before.")] = None,
    limit: Limit = PAGE,
) -> RecordPage:
    """All memories of past sessions."""
    service = service_of(request)
    stored = await service.stored(caller.conversation_id(person))
    page = await asyncio.to_thread(lambda: service.agent.store.records(stored.key, after=after or None))
    shown = [RecordShape.of(r) for r in page[:limit]]
    return RecordPage(records=shown, next=shown[-1].id if len(page) > limit else None)


@router.get("/{person}/traits")
async def traits(
    request: Request,
    caller: MemoryCaller,
    person: Person,
    history: Annotated[bool, Query(description="Include traits that have ended.")] = False,
    as_of: Annotated[When | None, Query(description="Only those that held at this time, whenever told.")] = None,
) -> TraitList:
    """The traits of everyone in a person's conversation that have been learned so far."""
    service = service_of(request)
    stored = await service.stored(caller.conversation_id(person))
    dated = await asyncio.to_thread(service.agent.store.personas(stored.key).traits)
    return TraitList(traits=[TraitShape.of(t) for t in listed((t for t, _ in dated), history, as_of)])


@router.get("/{person}/changes")
async def changes(request: Request, caller: MemoryCaller, person: Person) -> ChangeList:
    """Manual changes: edited, pinned or forgotten items."""
    service = service_of(request)
    stored = await service.stored(caller.conversation_id(person))
    listed = await asyncio.to_thread(service.agent.store.changes, stored.key)
    return ChangeList(changes=[ChangeShape.of(c) for c in listed])


@router.get("/{person}/recall")
async def recall(
    request: Request,
    caller: MemoryCaller,
    person: Person,
    text: Annotated[str, Query(min_length=1, max_length=20_000, pattern=r"\S", description="What to recall.")],
    at: Annotated[When | None, Query(description="As of this time. Default: now.")] = None,
    k: Annotated[int | None, Query(ge=1, le=200, description="At most this many. Default: `memory.k`.")] = None,
) -> RecallList:
    """Memories relevant to a text, with the terms of their scores; before them what was said in running sessions."""
    service = service_of(request)
    conversation = await service.known(caller.conversation_id(person))
    hits = await service.inside(conversation, lambda: conversation.recall(text, at, k=k))
    return RecallList(recalled=[RecalledShape.of(r) for r in hits[:k]])


@router.post("/{person}/messages")
async def messages(request: Request, caller: MemoryCaller, person: Person, body: PromptRequest) -> PromptShape:
    """Store a message and get the prompt for your own model. Store its reply with `observe`."""
    service = service_of(request)
    service.check_time(body.at)
    conversation = await service.open(caller.conversation_id(person), body.thread)
    prompt = await service.inside(conversation, lambda: conversation.messages(body.text, body.speaker, body.at))
    return PromptShape(
        messages=prompt.messages,
        agent=conversation.agent_name,
        heard=UtteranceShape.of(prompt.heard),
        recalled=[RecalledShape.of(r) for r in prompt.recalled],
        traits={name: list(texts) for name, texts in prompt.traits.items()},
        notes=list(prompt.notes),
    )


@router.post("/{person}/observe")
async def observe(request: Request, caller: MemoryCaller, person: Person, body: ObserveRequest) -> Observed:
    """Store utterances, current or past, in order and without reply; traits are learned in the background.

    Utterances are stored one by one: if one is rejected, the earlier ones are stored, and the error says how many.
    """
    service = service_of(request)
    said = await service.observe(caller.conversation_id(person), body)
    return Observed(utterances=[UtteranceShape.of(u) for u in said])


@router.patch("/{person}/memories/{target}")
async def change(request: Request, caller: MemoryCaller, person: Person, target: str, body: MemoryChange) -> Done:
    """Correct a record, trait or utterance, and everything else that says it; or put a record or trait into every prompt
    (`pinned`)."""
    service = service_of(request)
    conversation_id = caller.conversation_id(person)
    await _check_target(service, conversation_id, target)
    if body.text is None and body.pinned is None:
        raise ApiError(400, "nothing to change; give text, pinned, or both", "nothing_to_change")
    await service.change(conversation_id, target, body.text, body.pinned)
    return Done()


@router.delete("/{person}/memories/{target}")
async def forget(request: Request, caller: MemoryCaller, person: Person, target: str) -> Done:
    """Forget a record, trait or utterance, and everything else that says it; only the fact that it was forgotten is kept."""
    service = service_of(request)
    conversation_id = caller.conversation_id(person)
    await _check_target(service, conversation_id, target)
    await service.forget(conversation_id, target)
    return Done()


async def _check_target(service: Service, conversation_id: str, target: str) -> None:
    stored = await service.stored(conversation_id)
    if not await asyncio.to_thread(service.directory.has_memory, stored.key, target):
        raise ApiError(404, f"no record, trait or utterance {target[:40]!r}", "memory_not_found")


@router.get(
    "/{person}/export",
    response_class=StreamingResponse,
    responses={200: {"content": {"application/x-ndjson": {"schema": {"type": "string"}}}}},
)
async def export(request: Request, caller: MemoryCaller, person: Person) -> StreamingResponse:
    """All utterances and memories as JSON lines, in the format of `ld-agent memory export`."""
    service = service_of(request)
    conversation_id = caller.conversation_id(person)
    await service.stored(conversation_id)
    store = service.agent.resources.store

    def lines() -> Iterator[str]:
        for line in export_lines(store, conversation_id):
            row = json.loads(line) if line.startswith('{"kind": "conversation"') else None
            yield (json.dumps(row | {"id": person}, ensure_ascii=False) if row else line) + "\n"

    return StreamingResponse(lines(), media_type="application/x-ndjson")


@router.post(
    "/{person}/import",
    openapi_extra={
        "requestBody": {"required": True, "content": {"application/x-ndjson": {"schema": {"type": "string"}}}}
    },
)
async def import_person(request: Request, caller: MemoryCaller, person: Person) -> Imported:
    """Import an export of one conversation as this person, who must not exist yet; all of it or nothing."""
    service = service_of(request)
    conversation_id = caller.conversation_id(person)
    lines = (await request.body()).splitlines(keepends=True)
    store: Any = service.agent.resources.store
    if await asyncio.to_thread(store.find_conversation, conversation_id):
        raise ApiError(409, f"{person!r} already exists; delete that person first", "person_exists")
    try:
        await asyncio.to_thread(import_lines, store, lines, "the body", conversation_id)
    except DataFileError as exc:
        raise ApiError(400, str(exc), "invalid_export") from exc
    except StoreError as exc:
        raise ApiError(409, str(exc), "conflict") from exc
    stored = await service.stored(conversation_id)
    return Imported(person=person, counts=await asyncio.to_thread(store.counts, stored.key))

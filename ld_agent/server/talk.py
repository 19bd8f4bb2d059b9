"""Talking on the page: the same turn as ``/v1/chat/completions``, in the person's thread without a name, with its memory beside.

Without scripts a form is sent and the page comes back with the reply; with them the reply is streamed.
"""

from __future__ import annotations

import secrets
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from fastapi.responses import Response

from ld_agent.server import page_data
from ld_agent.server.errors import ApiError
from ld_agent.server.identity import usable_name
from ld_agent.server.logins import form_of
from ld_agent.server.openai.chat import ChatEvents
from ld_agent.server.openai.reading import read_chat
from ld_agent.server.openai.sending import sent
from ld_agent.server.openai.turns import Asked, new_id
from ld_agent.server.page_frame import About, Visitor, back, shown
from ld_agent.server.service import Known, Service
from ld_agent.types import ReplyOptions

STREAM = "text/event-stream"
router = APIRouter(include_in_schema=False)


@router.get("/talk")
def talk(request: Request, login: Visitor, person: Annotated[str, Query(max_length=200)]) -> Response:
    """The running session of a person, who may be new, and where to say something."""
    service: Service = request.app.state.service
    person = person.strip()
    stored = service.agent.store.find_conversation(login.caller.conversation_id(person))
    whose = None if stored is None else Known(service, stored.id, stored.key)
    said = service.agent.store.open_utterances(whose.key) if whose else []
    agent = stored.agent if stored else service.config.agent.name
    known_as = service.agent.store.first_speaker(whose.key, agent) if whose else None
    state: dict[str, Any] = {
        "agent": agent,
        "speaker": known_as or usable_name(person),
        "counts": service.directory.person(whose.key) if whose else None,
        "latest": next((u.id for u in reversed(said) if u.speaker == agent), ""),
        "known": stored is not None,
        "ready": service.ready,
        "may": login.caller.may("chat"),
    }
    return shown(request, "talk.html", login, person=person, said=said, tab="talk", **state)


@router.post("/talk")
async def say(request: Request, login: Visitor) -> Response:
    """Answer what was said: as a stream if the page's script asks, else on the page."""
    fields = await form_of(request, login)
    if not login.caller.may("chat"):
        raise ApiError(403, "this key may not chat; log in with one that has the scope chat", "missing_scope")
    person, service = fields.get("person", "").strip(), request.app.state.service
    said = [{"role": "user", "content": fields.get("text", "").replace("\r\n", "\n")}]
    lines, _, passed = read_chat(said, {}, "text")
    asked = Asked(
        login.caller.conversation_id(person),
        None,
        lines,
        ReplyOptions(seed=secrets.randbits(31), passed=passed),
        service.model,
        new_id("chatcmpl-"),
        name=usable_name(person) or None,
    )
    streamed = request.headers.get("accept") == STREAM
    answer = await sent(request, asked, lambda answered: answered.id, ChatEvents(asked, False) if streamed else None)
    return answer if streamed else back(request, "/")


@router.get("/people/{person}/beside/{utterance}")
async def beside(about: About, utterance: str) -> Response:
    """What was remembered for a reply, and what was learned from the line that it answers."""
    whose, service = about.whose, about.whose.service
    conversation = await service.open(whose.id, "")
    values = await service.brief(lambda: _beside(whose, utterance))
    why = await service.brief(lambda: page_data.because(whose, conversation, values.pop("query"), values.pop("hits")))
    return await service.brief(lambda: about.show("_beside.html", because=why, you=True, utterance=utterance, **values))


def _beside(whose: Known, utterance: str) -> dict[str, Any]:
    store, key = whose.store, whose.key
    reply = whose.service.explained.get((whose.id, utterance))
    said = store.utterances_by_id(key, [utterance]).get(utterance)
    heard = reply.heard if reply else next(iter(store.lines_before(key, said, 1)), None) if said else None
    asked = heard.id if heard else ""
    return {
        "query": heard.text if heard else "",
        "hits": reply.recalled if reply else store.recalled_by(key, [utterance])[utterance],
        "learned": store.personas(key).learned_from([asked]),
        "pending": any(u.id == asked for u in store.unextracted(key)),
    }
